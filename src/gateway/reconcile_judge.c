/* The second half: lines by model, windows with the edge slip, drift, and what would correct it. */
#include "gateway/reconcile_private.h"

#include "core/num.h"

#include <stdlib.h>
#include <string.h>

/* --- Models --- */

static bool are_digits(const char *at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (at[i] < '0' || at[i] > '9')
            return false;
    return true;
}

static bool is_month_day(const char *at)
{
    int month = (at[0] - '0') * 10 + at[1] - '0', day = (at[2] - '0') * 10 + at[3] - '0';
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/* "-2024-08-06", "-20240806", "@20240806", "-0613", "-latest". */
size_t weir_model_base_bytes(const char *model)
{
    size_t n = strlen(model);
    const char *end = model + n;
    if (n > 7 && strcmp(end - 7, "-latest") == 0)
        return n - 7;
    if (n > 11 && end[-11] == '-' && end[-6] == '-' && end[-3] == '-' &&
        memcmp(end - 10, "20", 2) == 0 && are_digits(end - 10, 4) && are_digits(end - 5, 2) &&
        are_digits(end - 2, 2))
        return n - 11;
    if (n > 9 && (end[-9] == '-' || end[-9] == '@') && memcmp(end - 8, "20", 2) == 0 &&
        are_digits(end - 8, 8))
        return n - 9;
    if (n > 5 && end[-5] == '-' && are_digits(end - 4, 4) && is_month_day(end - 4))
        return n - 5;
    return n;
}

static int compare_bases(const struct reconcile_entry *a, const struct reconcile_entry *b)
{
    size_t both = (size_t)weir_min_u64(a->base_bytes, b->base_bytes);
    int by = memcmp(a->model, b->model, both);
    return by ? by : (a->base_bytes > b->base_bytes) - (a->base_bytes < b->base_bytes);
}

static int compare_by_model(const void *left, const void *right)
{
    const struct reconcile_entry *a = left, *b = right;
    if (a->group_key != b->group_key)
        return a->group_key < b->group_key ? -1 : 1;
    int by = compare_bases(a, b);
    return by ? by : strcmp(a->model, b->model);
}

static int compare_by_line(const void *left, const void *right)
{
    const struct reconcile_entry *a = left, *b = right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->span != b->span)
        return a->span < b->span ? -1 : 1;
    return (a->scope > b->scope) - (a->scope < b->scope);
}

/* Entries first .. end of one group and base: do they belong together, or each model by itself? They
 * do when we know use under a name that the provider does not have, but for its date. */
static bool is_dated(const struct reconcile_entry *entries, size_t first, size_t end)
{
    bool some_theirs = false, ours_alone = false;
    for (size_t i = first; i < end;) {
        size_t next = i;
        bool has_ours = false, has_theirs = false;
        for (; next < end && strcmp(entries[next].model, entries[i].model) == 0; next++) {
            has_ours |= !entries[next].is_theirs;
            has_theirs |= entries[next].is_theirs;
        }
        some_theirs |= has_theirs;
        ours_alone |= has_ours && !has_theirs;
        i = next;
    }
    return some_theirs && ours_alone;
}

static void line_begin(struct weir_reconcile *r, size_t group, const char *model)
{
    r->lines[r->lines_count++] = (struct weir_reconcile_line){
        .group = group, .model = model, .ours = {.requests = 0}, .theirs = {.requests = 0}};
}

/* Gives every entry its line. Entries are sorted by group, base and model. */
static void make_lines(struct weir_reconcile *r, struct weir_reconcile_private *p)
{
    struct reconcile_entry *entries = p->entries;
    for (size_t i = 0, end; i < p->entries_count; i = end) {
        size_t group_end = i;
        bool has_no_models = false;
        for (; group_end < p->entries_count && entries[group_end].group_key == entries[i].group_key;
             group_end++)
            has_no_models |= entries[group_end].is_theirs && entries[group_end].model[0] == '\0';
        if (has_no_models) {
            line_begin(r, entries[i].group, "*");
            r->lines[r->lines_count - 1].match = WEIR_MATCH_ALL;
            for (size_t k = i; k < group_end; k++)
                entries[k].line = r->lines_count - 1;
            end = group_end;
            continue;
        }
        for (end = i; end < group_end && compare_bases(&entries[end], &entries[i]) == 0; end++)
            ;
        bool is_one = is_dated(entries, i, end);
        for (size_t k = i; k < end; k++) {
            if (k == i || (!is_one && strcmp(entries[k].model, entries[k - 1].model) != 0))
                line_begin(r, entries[k].group, entries[k].model);
            if (is_one)
                r->lines[r->lines_count - 1].match = WEIR_MATCH_DATED;
            entries[k].line = r->lines_count - 1;
        }
    }
}

/* --- Sums --- */

static void add_sums(struct weir_reconcile_sums *to, const struct weir_reconcile_sums *more)
{
    to->requests = to->requests < 0 || more->requests < 0
                       ? -1
                       : weir_add_sat_i64(to->requests, more->requests);
    to->input_tok = weir_add_sat_i64(to->input_tok, more->input_tok);
    to->cached_tok = weir_add_sat_i64(to->cached_tok, more->cached_tok);
    to->cache_write_tok = weir_add_sat_i64(to->cache_write_tok, more->cache_write_tok);
    to->output_tok = weir_add_sat_i64(to->output_tok, more->output_tok);
}

static int64_t total_tok(const struct weir_reconcile_sums *sums)
{
    return weir_add_sat_i64(sums->input_tok, sums->output_tok);
}

static struct weir_reconcile_drift drift_of(const struct weir_reconcile_sums *ours,
                                            const struct weir_reconcile_sums *theirs,
                                            int64_t beside_tok)
{
    return (struct weir_reconcile_drift){
        weir_drift_ppm(ours->input_tok, theirs->input_tok),
        weir_drift_ppm(ours->output_tok, theirs->output_tok),
        weir_drift_ppm(weir_add_sat_i64(total_tok(ours), beside_tok), total_tok(theirs))};
}

static bool exceeds(int64_t ppm, int64_t max_ppm)
{
    return ppm > max_ppm || ppm < -max_ppm;
}

static bool drift_exceeds(const struct weir_reconcile_drift *drift, int64_t max_ppm)
{
    return exceeds(drift->input_ppm, max_ppm) || exceeds(drift->output_ppm, max_ppm) ||
           exceeds(drift->total_ppm, max_ppm);
}

/* --- Windows --- */

static bool is_opposite(int64_t a, int64_t b)
{
    return (a < 0 && b > 0) || (a > 0 && b < 0);
}

/* Moves what two neighbours miss and have too much. Returns how much. */
static int64_t slip(int64_t *a, int64_t *b)
{
    if (!is_opposite(*a, *b))
        return 0;
    int64_t moved = (int64_t)weir_min_u64(weir_abs_i64(*a), weir_abs_i64(*b));
    *a += *a < 0 ? moved : -moved;
    *b += *b < 0 ? moved : -moved;
    return moved;
}

static void judge_windows(struct weir_reconcile *r, struct weir_reconcile_line *line)
{
    struct weir_reconcile_window *windows = r->windows + line->windows;
    uint32_t run = 0;
    int side = 0;
    for (size_t i = 0; i + 1 < line->windows_count; i++) {
        if (windows[i].end_s != windows[i + 1].start_s)
            continue;
        line->slipped_tok += slip(&windows[i].left_input_tok, &windows[i + 1].left_input_tok);
        line->slipped_tok += slip(&windows[i].left_output_tok, &windows[i + 1].left_output_tok);
    }
    for (size_t i = 0; i < line->windows_count; i++) {
        int64_t left_tok = windows[i].left_input_tok + windows[i].left_output_tok;
        int now = (left_tok > 0) - (left_tok < 0);
        run = now != 0 && now == side ? run + 1 : now != 0;
        side = now;
        if (run > line->one_way_windows) {
            line->one_way_windows = run;
            line->one_way_is_under = now < 0;
        }
    }
}

/* The window of an entry, which is the line's last or a new one. */
static struct weir_reconcile_window *window_of(struct weir_reconcile *r,
                                               struct weir_reconcile_line *line,
                                               const struct weir_export_span *span)
{
    if (line->windows_count == 0)
        line->windows = r->windows_count;
    if (line->windows_count == 0 || r->windows[r->windows_count - 1].start_s != span->start_s) {
        r->windows[r->windows_count++] =
            (struct weir_reconcile_window){.start_s = span->start_s, .end_s = span->end_s};
        line->windows_count++;
    }
    return &r->windows[r->windows_count - 1];
}

static void add_entry(struct weir_reconcile *r, struct weir_reconcile_private *p,
                      const struct reconcile_entry *entry)
{
    struct weir_reconcile_line *line = &r->lines[entry->line];
    struct weir_reconcile_group *group = &r->groups[line->group];
    struct weir_reconcile_window *window = window_of(r, line, &p->spans[entry->span]);
    int64_t tok = total_tok(&entry->sums);
    int64_t sign = entry->is_theirs ? -1 : 1;
    window->left_input_tok = weir_add_sat_i64(window->left_input_tok, sign * entry->sums.input_tok);
    window->left_output_tok =
        weir_add_sat_i64(window->left_output_tok, sign * entry->sums.output_tok);
    if (entry->is_theirs) {
        add_sums(&line->theirs, &entry->sums);
        add_sums(&group->theirs, &entry->sums);
        window->theirs_input_tok += entry->sums.input_tok;
        window->theirs_output_tok += entry->sums.output_tok;
        group->batch_tok += entry->is_batch ? tok : 0;
        return;
    }
    add_sums(&line->ours, &entry->sums);
    add_sums(&group->ours, &entry->sums);
    window->ours_input_tok += entry->sums.input_tok;
    window->ours_output_tok += entry->sums.output_tok;
    line->estimated_tok += entry->estimated_tok;
    group->estimated_tok += entry->estimated_tok;
    line->late_tok += entry->late_tok;
    group->late_tok += entry->late_tok;
    line->unmatched_tok += entry->unmatched_tok;
    group->unmatched_tok += entry->unmatched_tok;
    line->corrected_tok += entry->is_correction ? tok : 0;
    group->corrected_tok += entry->is_correction ? tok : 0;
}

/* The model and the upstream under which the largest single row of ours stands: where a correction
 * is remembered. */
static void name_line(struct weir_reconcile *r, const struct weir_reconcile_private *p,
                      size_t first, size_t end)
{
    struct weir_reconcile_line *line = &r->lines[p->entries[first].line];
    int64_t most_tok = -1;
    bool has_theirs = false, has_ours = false;
    for (size_t i = first; i < end; i++) {
        const struct reconcile_entry *entry = &p->entries[i];
        has_theirs |= entry->is_theirs;
        has_ours |= !entry->is_theirs;
        if (!entry->is_theirs && total_tok(&entry->sums) > most_tok) {
            most_tok = weir_max_i64(total_tok(&entry->sums), 0);
            line->ours_model = entry->model;
            line->upstream = p->upstreams.list[entry->upstream];
        }
        if (entry->is_theirs && line->match == WEIR_MATCH_DATED)
            line->model = entry->model; /* the provider's name, the newest of them */
    }
    if (!has_theirs)
        line->match = WEIR_MATCH_ONLY_OURS;
    else if (!has_ours && line->match != WEIR_MATCH_ALL)
        line->match = WEIR_MATCH_ONLY_THEIRS;
}

/* --- Corrections --- */

static bool add_correction(struct weir_reconcile *r, struct weir_reconcile_private *p,
                           const struct weir_reconcile_correction *correction)
{
    if (correction->input_tok == 0 && correction->output_tok == 0)
        return true;
    if (r->corrections_count == p->corrections_cap) {
        size_t cap = p->corrections_cap ? p->corrections_cap * 2 : 64;
        void *larger = realloc(r->corrections, cap * sizeof *r->corrections);
        if (!larger)
            return false;
        r->corrections = larger;
        p->corrections_cap = cap;
    }
    r->corrections[r->corrections_count++] = *correction;
    return true;
}

enum weight { WEIGHT_UNSURE, WEIGHT_USED };

/* Entries of one line, sorted by window. */
struct stretch {
    size_t first, end;
    size_t span; /* SIZE_MAX: of every window */
};

static void weights_add(struct reconcile_weights *w, uint32_t scope, int64_t tok)
{
    if (w->of[scope] == 0)
        w->list[w->list_count++] = scope;
    w->of[scope] += tok;
}

static int compare_scopes(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* What the scopes have in a stretch, instead of what weights had before. Unsure is what was booked
 * without the provider's own count. Returns the sum. */
static int64_t weigh(const struct weir_reconcile_private *p, const struct stretch *s,
                     enum weight by, struct reconcile_weights *weights)
{
    int64_t sum = 0;
    for (; weights->list_count > 0; weights->list_count--)
        weights->of[weights->list[weights->list_count - 1]] = 0;
    for (size_t i = s->first; i < s->end; i++) {
        const struct reconcile_entry *entry = &p->entries[i];
        int64_t tok = by == WEIGHT_USED ? total_tok(&entry->sums) : entry->estimated_tok;
        if (entry->is_theirs || entry->is_correction || tok <= 0)
            continue;
        weights_add(weights, entry->scope, tok);
        sum += tok;
    }
    for (size_t i = 0; by == WEIGHT_UNSURE && i < p->lapses_count; i++) {
        const struct reconcile_lapse *lapse = &p->lapses[i];
        int64_t tok = p->in->lapses[lapse->index].asked_tok;
        if (lapse->group_key != p->entries[s->first].group_key || tok <= 0 ||
            (s->span != SIZE_MAX && lapse->span != s->span))
            continue;
        weights_add(weights, lapse->scope, tok);
        sum += tok;
    }
    if (weights->list_count > 1)
        qsort(weights->list, weights->list_count, sizeof *weights->list, compare_scopes);
    return sum;
}

static int64_t share(int64_t amount, int64_t weight, int64_t sum)
{
    int64_t size =
        (int64_t)weir_muldiv_floor(weir_abs_i64(amount), (uint64_t)weight, (uint64_t)sum);
    return amount < 0 ? -size : size;
}

/* Divides a correction among scopes by their weights; what rounding leaves goes to the largest. */
static bool divide(struct weir_reconcile *r, struct weir_reconcile_private *p,
                   const struct weir_reconcile_correction *whole,
                   const struct reconcile_weights *weights, int64_t sum)
{
    int64_t input_left = whole->input_tok, output_left = whole->output_tok;
    size_t first = r->corrections_count, largest = first;
    uint32_t heaviest = weights->list[0];
    for (size_t i = 0; i < weights->list_count; i++) {
        struct weir_reconcile_correction part = *whole;
        uint32_t scope = weights->list[i];
        heaviest = weights->of[scope] > weights->of[heaviest] ? scope : heaviest;
        part.scope = p->scopes.list[scope];
        part.input_tok = share(whole->input_tok, weights->of[scope], sum);
        part.output_tok = share(whole->output_tok, weights->of[scope], sum);
        input_left -= part.input_tok;
        output_left -= part.output_tok;
        size_t before = r->corrections_count;
        if (!add_correction(r, p, &part))
            return false;
        if (r->corrections_count > before && weir_abs_i64(part.input_tok + part.output_tok) >
                                                 weir_abs_i64(r->corrections[largest].input_tok +
                                                              r->corrections[largest].output_tok))
            largest = before;
    }
    if (r->corrections_count > first) {
        r->corrections[largest].input_tok += input_left;
        r->corrections[largest].output_tok += output_left;
        return true;
    }
    struct weir_reconcile_correction part = *whole; /* too small to divide */
    part.scope = p->scopes.list[heaviest];
    return add_correction(r, p, &part);
}

/* Of what a line's scopes have in all of its windows (in_line), which is made when it is first asked
 * for. */
struct line_weights {
    struct stretch line;
    int64_t sums[2]; /* by enum weight; -1: not made yet */
};

static int64_t line_weigh(struct weir_reconcile_private *p, struct line_weights *l, enum weight by)
{
    if (l->sums[by] < 0)
        l->sums[by] = weigh(p, &l->line, by, &p->in_line[by]);
    return l->sums[by];
}

/* Whose use it was is told best by what was booked unsurely in the window, then in the line, then by
 * all use. More than was unsure is not taken away from the unsure. */
static bool correct_window(struct weir_reconcile *r, struct weir_reconcile_private *p,
                           struct line_weights *line, const struct stretch *in_window,
                           const struct weir_reconcile_window *window)
{
    const struct reconcile_entry *any = &p->entries[in_window->first];
    struct weir_reconcile_correction whole = {.line = any->line,
                                              .start_s = window->start_s,
                                              .end_s = window->end_s,
                                              .input_tok = -window->left_input_tok,
                                              .output_tok = -window->left_output_tok};
    int64_t need = weir_max_i64(-whole.input_tok, 0) + weir_max_i64(-whole.output_tok, 0);
    for (enum weight by = WEIGHT_UNSURE; by <= WEIGHT_USED; by++) {
        int64_t sum = weigh(p, in_window, by, &p->in_window);
        if (sum > 0 && (sum >= need || by == WEIGHT_USED))
            return divide(r, p, &whole, &p->in_window, sum);
        sum = line_weigh(p, line, by);
        if (sum > 0 && (sum >= need || by == WEIGHT_USED))
            return divide(r, p, &whole, &p->in_line[by], sum);
    }
    whole.scope = r->groups[any->group].scope; /* NULL: nobody is known */
    return add_correction(r, p, &whole);
}

/* Entries first .. end are one line, sorted by window. */
static bool correct_line(struct weir_reconcile *r, struct weir_reconcile_private *p, size_t first,
                         size_t end)
{
    const struct weir_reconcile_line *line = &r->lines[p->entries[first].line];
    struct line_weights weights = {.line = {first, end, SIZE_MAX}, .sums = {-1, -1}};
    struct stretch at = {first, first, 0};
    for (size_t i = 0; i < line->windows_count; i++) {
        const struct weir_reconcile_window *window = &r->windows[line->windows + i];
        at.first = at.end;
        at.span = p->entries[at.first].span;
        while (at.end < end && p->entries[at.end].span == at.span)
            at.end++;
        if ((window->left_input_tok != 0 || window->left_output_tok != 0) &&
            !correct_window(r, p, &weights, &at, window))
            return false;
    }
    return true;
}

/* --- All of it --- */

static int compare_keys(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static size_t find_key(const uint64_t *keys, size_t count, uint64_t key)
{
    const uint64_t *at = bsearch(&key, keys, count, sizeof key, compare_keys);
    return (size_t)(at - keys);
}

static bool make_groups(struct weir_reconcile *r, struct weir_reconcile_private *p)
{
    size_t count = 0, kept = 0;
    uint64_t *keys = reconcile_zeroed(p->entries_count + p->lapses_count, sizeof *keys);
    if (!keys)
        return false;
    for (size_t i = 0; i < p->entries_count; i++)
        keys[count++] = p->entries[i].group_key;
    for (size_t i = 0; i < p->lapses_count; i++)
        keys[count++] = p->lapses[i].group_key;
    if (count > 1)
        qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || keys[kept - 1] != keys[i])
            keys[kept++] = keys[i];
    r->groups = reconcile_zeroed(kept, sizeof *r->groups);
    for (size_t i = 0; r->groups && i < kept; i++) {
        uint32_t kind = (uint32_t)(keys[i] >> 56) & 0xf, index = (uint32_t)keys[i];
        r->groups[i].provider = (enum weir_export_provider)(keys[i] >> 60);
        if (kind == RECONCILE_KIND_SCOPE)
            r->groups[i].scope = p->scopes.list[index];
        if (kind == RECONCILE_KIND_UPSTREAM)
            r->groups[i].upstream = p->upstreams.list[index];
    }
    r->groups_count = r->groups ? kept : 0;
    for (size_t i = 0; r->groups && i < p->entries_count; i++)
        p->entries[i].group = find_key(keys, kept, p->entries[i].group_key);
    for (size_t i = 0; r->groups && i < p->lapses_count; i++) {
        struct weir_reconcile_group *group =
            &r->groups[find_key(keys, kept, p->lapses[i].group_key)];
        group->lapsed_tok =
            weir_add_sat_i64(group->lapsed_tok, p->in->lapses[p->lapses[i].index].charged_tok);
        group->lapses_count++;
    }
    free(keys);
    return r->groups != NULL;
}

bool reconcile_judge(struct weir_reconcile *r, struct weir_reconcile_private *p)
{
    int64_t max_ppm = p->in->max_drift_ppm;
    r->lines = reconcile_zeroed(p->entries_count, sizeof *r->lines);
    r->windows = reconcile_zeroed(p->entries_count, sizeof *r->windows);
    if (!r->lines || !r->windows || !make_groups(r, p))
        return false;
    if (p->entries_count > 1)
        qsort(p->entries, p->entries_count, sizeof *p->entries, compare_by_model);
    make_lines(r, p);
    if (p->entries_count > 1)
        qsort(p->entries, p->entries_count, sizeof *p->entries, compare_by_line);
    for (size_t first = 0, end; first < p->entries_count; first = end) {
        struct weir_reconcile_line *line = &r->lines[p->entries[first].line];
        for (end = first; end < p->entries_count && p->entries[end].line == p->entries[first].line;
             end++)
            add_entry(r, p, &p->entries[end]);
        name_line(r, p, first, end);
        judge_windows(r, line);
        line->drift = drift_of(&line->ours, &line->theirs, 0);
        line->is_beyond = drift_exceeds(&line->drift, max_ppm);
        r->groups[line->group].is_beyond |= line->is_beyond;
        if (!correct_line(r, p, first, end))
            return false;
    }
    for (size_t i = 0; i < r->groups_count; i++) {
        struct weir_reconcile_group *group = &r->groups[i];
        group->drift = drift_of(&group->ours, &group->theirs, group->lapsed_tok);
        group->is_beyond |= exceeds(group->drift.total_ppm, max_ppm);
        r->is_beyond |= group->is_beyond;
    }
    return true;
}

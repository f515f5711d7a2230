/* The first half: which group, model and window each row of either side belongs to. */
#include "gateway/reconcile.h"

#include "gateway/reconcile_private.h"

#include "core/num.h"

#include <stdlib.h>
#include <string.h>

#define HOUR_S INT64_C(3600)
#define SCOPE_DEPTH_MAX 16 /* more than any chain has: a circle ends here */

int64_t weir_drift_ppm(int64_t ours, int64_t theirs)
{
    if (ours == theirs)
        return 0;
    if (theirs <= 0)
        return WEIR_DRIFT_ONLY_OURS;
    uint64_t apart = weir_abs_i64(weir_sub_sat_i64(ours, theirs));
    uint64_t ppm = weir_muldiv_ceil(apart, 1000000, (uint64_t)theirs);
    int64_t most = INT64_MAX - 1, size = ppm > (uint64_t)most ? most : (int64_t)ppm;
    return ours < theirs ? -size : size;
}

/* --- Names --- */

void *reconcile_zeroed(size_t count, size_t size)
{
    return calloc(count ? count : 1, size);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void names_settle(struct reconcile_names *names)
{
    size_t kept = 0;
    if (names->count > 1)
        qsort(names->list, names->count, sizeof *names->list, compare_texts);
    for (size_t i = 0; i < names->count; i++)
        if (kept == 0 || strcmp(names->list[kept - 1], names->list[i]) != 0)
            names->list[kept++] = names->list[i];
    names->count = kept;
}

static uint32_t names_find(const struct reconcile_names *names, const char *name)
{
    if (names->count == 0)
        return WEIR_NONE;
    const char **at = bsearch(&name, names->list, names->count, sizeof name, compare_texts);
    return at ? (uint32_t)(at - names->list) : WEIR_NONE;
}

/* The upstream a usage row is about: corrections name theirs behind a prefix. */
static const char *use_upstream(const struct weir_reconcile_use *use)
{
    size_t prefix = strlen(WEIR_RECONCILE_PREFIX);
    bool is_correction = strncmp(use->upstream, WEIR_RECONCILE_PREFIX, prefix) == 0;
    return use->upstream + (is_correction ? prefix : 0);
}

static bool gather_names(struct weir_reconcile_private *p)
{
    const struct weir_reconcile_input *in = p->in;
    size_t scopes = in->scopes_count * 2 + in->ids_count + in->uses_count + in->lapses_count;
    size_t upstreams = in->upstreams_count + in->ids_count + in->uses_count;
    p->scopes.list = reconcile_zeroed(scopes, sizeof *p->scopes.list);
    p->upstreams.list = reconcile_zeroed(upstreams, sizeof *p->upstreams.list);
    if (!p->scopes.list || !p->upstreams.list)
        return false;
    for (size_t i = 0; i < in->scopes_count; i++) {
        p->scopes.list[p->scopes.count++] = in->scopes[i].name;
        if (in->scopes[i].parent)
            p->scopes.list[p->scopes.count++] = in->scopes[i].parent;
    }
    for (size_t i = 0; i < in->upstreams_count; i++)
        p->upstreams.list[p->upstreams.count++] = in->upstreams[i].name;
    for (size_t i = 0; i < in->ids_count; i++) {
        if (in->ids[i].scope)
            p->scopes.list[p->scopes.count++] = in->ids[i].scope;
        if (in->ids[i].upstream)
            p->upstreams.list[p->upstreams.count++] = in->ids[i].upstream;
    }
    for (size_t i = 0; i < in->uses_count; i++) {
        p->scopes.list[p->scopes.count++] = in->uses[i].scope;
        p->upstreams.list[p->upstreams.count++] = use_upstream(&in->uses[i]);
    }
    for (size_t i = 0; i < in->lapses_count; i++)
        p->scopes.list[p->scopes.count++] = in->lapses[i].scope;
    names_settle(&p->scopes);
    names_settle(&p->upstreams);
    return true;
}

static int compare_ids(const void *left, const void *right)
{
    const struct weir_reconcile_id *a = *(const struct weir_reconcile_id *const *)left,
                                   *b = *(const struct weir_reconcile_id *const *)right;
    int by = strcmp(a->id, b->id);
    return by ? by : (a->scope == NULL) - (b->scope == NULL); /* scopes first */
}

static bool weights_make(struct reconcile_weights *w, size_t scopes)
{
    w->of = reconcile_zeroed(scopes, sizeof *w->of);
    w->list = reconcile_zeroed(scopes, sizeof *w->list);
    return w->of && w->list;
}

static void weights_free(struct reconcile_weights *w)
{
    free(w->of);
    free(w->list);
}

static bool gather_owners(struct weir_reconcile_private *p)
{
    const struct weir_reconcile_input *in = p->in;
    p->parents = reconcile_zeroed(p->scopes.count, sizeof *p->parents);
    p->scope_is_mapped = reconcile_zeroed(p->scopes.count, sizeof *p->scope_is_mapped);
    p->upstream_is_mapped = reconcile_zeroed(p->upstreams.count, sizeof *p->upstream_is_mapped);
    p->ids = reconcile_zeroed(in->ids_count, sizeof *p->ids);
    if (!p->parents || !p->scope_is_mapped || !p->upstream_is_mapped || !p->ids ||
        !weights_make(&p->in_window, p->scopes.count) ||
        !weights_make(&p->in_line[0], p->scopes.count) ||
        !weights_make(&p->in_line[1], p->scopes.count))
        return false;
    for (size_t i = 0; i < p->scopes.count; i++)
        p->parents[i] = WEIR_NONE;
    for (size_t i = 0; i < in->scopes_count; i++)
        if (in->scopes[i].parent)
            p->parents[names_find(&p->scopes, in->scopes[i].name)] =
                names_find(&p->scopes, in->scopes[i].parent);
    for (size_t i = 0; i < in->ids_count; i++) {
        p->ids[i] = &in->ids[i];
        if (in->ids[i].scope)
            p->scope_is_mapped[names_find(&p->scopes, in->ids[i].scope)] = true;
        else
            p->upstream_is_mapped[names_find(&p->upstreams, in->ids[i].upstream)] = true;
    }
    if (in->ids_count > 1)
        qsort(p->ids, in->ids_count, sizeof *p->ids, compare_ids);
    return true;
}

/* --- Groups --- */

static uint64_t group_of_id(const struct weir_reconcile_private *p,
                            enum weir_export_provider provider, const char *text, bool *found)
{
    size_t low = 0, high = p->in->ids_count;
    while (low < high) { /* the first that is not below text */
        size_t middle = low + (high - low) / 2;
        if (strcmp(p->ids[middle]->id, text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = text[0] != '\0' && low < p->in->ids_count && strcmp(p->ids[low]->id, text) == 0;
    if (!*found)
        return reconcile_group_key(provider, RECONCILE_KIND_REST, 0);
    const struct weir_reconcile_id *id = p->ids[low];
    return id->scope ? reconcile_group_key(provider, RECONCILE_KIND_SCOPE,
                                           names_find(&p->scopes, id->scope))
                     : reconcile_group_key(provider, RECONCILE_KIND_UPSTREAM,
                                           names_find(&p->upstreams, id->upstream));
}

static uint64_t group_of_theirs(const struct weir_reconcile_private *p,
                                const struct weir_export_row *row)
{
    const char *const texts[] = {row->key, row->key_name, row->project, row->project_name};
    bool found = false;
    uint64_t key = 0;
    for (size_t i = 0; i < WEIR_COUNT(texts) && !found; i++)
        key = group_of_id(p, row->provider, texts[i], &found);
    return key;
}

static uint64_t group_of_ours(const struct weir_reconcile_private *p,
                              enum weir_export_provider provider, uint32_t scope, uint32_t upstream)
{
    for (uint32_t depth = 0; scope != WEIR_NONE && depth < SCOPE_DEPTH_MAX; depth++) {
        if (p->scope_is_mapped[scope])
            return reconcile_group_key(provider, RECONCILE_KIND_SCOPE, scope);
        scope = p->parents[scope];
    }
    if (upstream != WEIR_NONE && p->upstream_is_mapped[upstream])
        return reconcile_group_key(provider, RECONCILE_KIND_UPSTREAM, upstream);
    return reconcile_group_key(provider, RECONCILE_KIND_REST, 0);
}

/* --- Time --- */

/* The export's buckets in whole hours: ours is not known any finer. Those that then overlap (minutes
 * of one hour) become one. */
static bool gather_spans(struct weir_reconcile *r, struct weir_reconcile_private *p)
{
    const struct weir_export *e = p->in->export;
    int64_t told_s = 0, kept_s = 0; /* lengths, of the buckets and of the whole hours */
    p->spans = reconcile_zeroed(e->spans_count, sizeof *p->spans);
    if (!p->spans)
        return false;
    for (size_t i = 0; i < e->spans_count; i++) { /* by provider and start */
        struct weir_export_span span = e->spans[i];
        int64_t start_s = span.start_s - span.start_s % HOUR_S;
        int64_t end_s = span.end_s + (HOUR_S - span.end_s % HOUR_S) % HOUR_S;
        struct weir_export_span *last = p->spans_count ? &p->spans[p->spans_count - 1] : NULL;
        if (start_s < p->in->from_s || end_s > p->in->to_s)
            continue;
        told_s += span.end_s - span.start_s;
        if (last && last->provider == span.provider && start_s < last->end_s) {
            kept_s += weir_max_i64(end_s - last->end_s, 0);
            last->end_s = weir_max_i64(last->end_s, end_s);
            continue;
        }
        kept_s += end_s - start_s;
        p->spans[p->spans_count++] = (struct weir_export_span){span.provider, start_s, end_s};
    }
    for (size_t i = 0; i < p->spans_count; i++) {
        r->from_s = i ? weir_min_i64(r->from_s, p->spans[i].start_s) : p->spans[i].start_s;
        r->to_s = i ? weir_max_i64(r->to_s, p->spans[i].end_s) : p->spans[i].end_s;
    }
    r->has_partial_hours = told_s != kept_s;
    return true;
}

/* The span that holds an instant; SIZE_MAX: none. */
static size_t span_of(const struct weir_reconcile_private *p, enum weir_export_provider provider,
                      int64_t at_s)
{
    size_t low = 0, high = p->spans_count;
    while (low < high) { /* the first that begins later */
        size_t middle = low + (high - low) / 2;
        const struct weir_export_span *span = &p->spans[middle];
        if (span->provider < provider || (span->provider == provider && span->start_s <= at_s))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return SIZE_MAX;
    const struct weir_export_span *span = &p->spans[low - 1];
    return span->provider == provider && at_s < span->end_s ? low - 1 : SIZE_MAX;
}

/* --- Rows --- */

static void gather_theirs(struct weir_reconcile_private *p)
{
    const struct weir_export *e = p->in->export;
    for (size_t i = 0; i < e->rows_count; i++) {
        const struct weir_export_row *row = &e->rows[i];
        size_t span = span_of(p, row->provider, row->start_s);
        if (span == SIZE_MAX)
            continue;
        p->entries[p->entries_count++] =
            (struct reconcile_entry){.group_key = group_of_theirs(p, row),
                                     .model = row->model,
                                     .base_bytes = (uint32_t)weir_model_base_bytes(row->model),
                                     .is_theirs = true,
                                     .is_batch = row->is_batch,
                                     .scope = WEIR_NONE,
                                     .upstream = WEIR_NONE,
                                     .span = span,
                                     .sums = {row->requests, row->input_tok, row->cached_tok,
                                              row->cache_write_tok, row->output_tok}};
    }
}

static void export_providers(const struct weir_reconcile_private *p,
                             bool is_there[WEIR_EXPORT_PROVIDERS])
{
    for (size_t i = 0; i < p->spans_count; i++)
        is_there[p->spans[i].provider] = true;
}

/* The provider whose export speaks of a row of ours. false: another one. An upstream that is no
 * longer configured may have been any. */
static bool provider_of_use(const struct weir_reconcile_private *p, const bool *is_there,
                            const struct weir_reconcile_use *use,
                            enum weir_export_provider *provider)
{
    bool speaks[WEIR_EXPORT_PROVIDERS] = {true, true};
    for (size_t i = 0; i < p->in->upstreams_count; i++)
        if (strcmp(p->in->upstreams[i].name, use_upstream(use)) == 0)
            memcpy(speaks, p->in->upstreams[i].speaks, sizeof speaks);
    for (int i = 0; i < WEIR_EXPORT_PROVIDERS; i++)
        speaks[i] &= is_there[i];
    bool is_claude = strncmp(use->model, "claude", 6) == 0;
    *provider = speaks[WEIR_EXPORT_ANTHROPIC] && (is_claude || !speaks[WEIR_EXPORT_OPENAI])
                    ? WEIR_EXPORT_ANTHROPIC
                    : WEIR_EXPORT_OPENAI;
    return speaks[*provider];
}

static void gather_ours(struct weir_reconcile *r, struct weir_reconcile_private *p)
{
    bool is_there[WEIR_EXPORT_PROVIDERS] = {false};
    export_providers(p, is_there);
    for (size_t i = 0; i < p->in->uses_count; i++) {
        const struct weir_reconcile_use *use = &p->in->uses[i];
        int64_t at_s = use->utc_hour * HOUR_S, tok = use->input_tok + use->output_tok;
        enum weir_export_provider provider;
        if (at_s < r->from_s || at_s >= r->to_s || (use->input_tok == 0 && use->output_tok == 0))
            continue; /* a call that cost nothing is in no export */
        if (!provider_of_use(p, is_there, use, &provider)) {
            r->other_tok += tok;
            continue;
        }
        size_t span = span_of(p, provider, at_s);
        if (span == SIZE_MAX) {
            r->uncovered_tok += tok;
            continue;
        }
        uint32_t scope = names_find(&p->scopes, use->scope);
        uint32_t upstream = names_find(&p->upstreams, use_upstream(use));
        p->entries[p->entries_count++] =
            (struct reconcile_entry){.group_key = group_of_ours(p, provider, scope, upstream),
                                     .model = use->model,
                                     .base_bytes = (uint32_t)weir_model_base_bytes(use->model),
                                     .is_correction = use_upstream(use) != use->upstream,
                                     .scope = scope,
                                     .upstream = upstream,
                                     .span = span,
                                     .sums = {use->requests, use->input_tok, use->cached_tok,
                                              use->cache_write_tok, use->output_tok},
                                     .estimated_tok = use->estimated_tok,
                                     .late_tok = use->late_tok,
                                     .unmatched_tok = use->unmatched_tok};
    }
}

/* A hold does not say which upstream its request went to, so it can be told of only where that does
 * not matter: every upstream speaks to providers of which an export is given. */
static void gather_lapses(struct weir_reconcile *r, struct weir_reconcile_private *p)
{
    bool is_there[WEIR_EXPORT_PROVIDERS] = {false}, is_sure = true;
    enum weir_export_provider provider = WEIR_EXPORT_OPENAI;
    uint32_t only = p->in->upstreams_count == 1
                        ? names_find(&p->upstreams, p->in->upstreams[0].name)
                        : WEIR_NONE;
    export_providers(p, is_there);
    for (size_t i = 0; i < p->in->upstreams_count; i++)
        for (int k = 0; k < WEIR_EXPORT_PROVIDERS; k++)
            is_sure &= !p->in->upstreams[i].speaks[k] || is_there[k];
    if (is_there[WEIR_EXPORT_ANTHROPIC]) {
        provider = WEIR_EXPORT_ANTHROPIC;
        is_sure &= !is_there[WEIR_EXPORT_OPENAI];
    }
    /* "both" speaks to whatever it is pointed at: with one export there is no doubt. */
    if (!is_sure && is_there[WEIR_EXPORT_OPENAI] != is_there[WEIR_EXPORT_ANTHROPIC]) {
        is_sure = true;
        for (size_t i = 0; i < p->in->upstreams_count; i++)
            is_sure &= p->in->upstreams[i].speaks[provider];
    }
    for (size_t i = 0; i < p->in->lapses_count; i++) {
        const struct weir_reconcile_lapse *lapse = &p->in->lapses[i];
        size_t span = span_of(p, provider, lapse->created_s);
        if (lapse->created_s < r->from_s || lapse->created_s >= r->to_s)
            continue;
        if (!is_sure || span == SIZE_MAX) {
            r->lapses_left++;
            continue;
        }
        uint32_t scope = names_find(&p->scopes, lapse->scope);
        r->lapses[r->lapses_count++] = i;
        p->lapses[p->lapses_count++] =
            (struct reconcile_lapse){group_of_ours(p, provider, scope, only), i, span, scope};
    }
}

bool reconcile_gather(struct weir_reconcile *r, struct weir_reconcile_private *p)
{
    const struct weir_reconcile_input *in = p->in;
    size_t spoken = 0;
    p->entries = reconcile_zeroed(in->export->rows_count + in->uses_count, sizeof *p->entries);
    p->lapses = reconcile_zeroed(in->lapses_count, sizeof *p->lapses);
    r->lapses = reconcile_zeroed(in->lapses_count, sizeof *r->lapses);
    if (!p->entries || !p->lapses || !r->lapses || !gather_names(p) || !gather_owners(p) ||
        !gather_spans(r, p))
        return false;
    gather_theirs(p);
    gather_ours(r, p);
    gather_lapses(r, p);
    bool is_there[WEIR_EXPORT_PROVIDERS] = {false};
    export_providers(p, is_there);
    for (size_t i = 0; i < in->upstreams_count; i++)
        spoken += (in->upstreams[i].speaks[0] && is_there[0]) ||
                  (in->upstreams[i].speaks[1] && is_there[1]);
    r->is_guessed = in->ids_count == 0 && spoken > 1;
    return true;
}

struct weir_reconcile *weir_reconcile_run(const struct weir_reconcile_input *in)
{
    struct weir_reconcile *r = calloc(1, sizeof *r);
    struct weir_reconcile_private *p = calloc(1, sizeof *p);
    if (!r || !p) {
        free(r);
        free(p);
        return NULL;
    }
    r->private = p;
    p->in = in;
    if (reconcile_gather(r, p) && reconcile_judge(r, p))
        return r;
    weir_reconcile_free(r);
    return NULL;
}

void weir_reconcile_free(struct weir_reconcile *r)
{
    if (!r)
        return;
    struct weir_reconcile_private *p = r->private;
    free(p->scopes.list);
    free(p->upstreams.list);
    free(p->parents);
    free(p->scope_is_mapped);
    free(p->upstream_is_mapped);
    free(p->ids);
    free(p->spans);
    free(p->entries);
    free(p->lapses);
    weights_free(&p->in_window);
    weights_free(&p->in_line[0]);
    weights_free(&p->in_line[1]);
    free(p);
    free(r->groups);
    free(r->lines);
    free(r->windows);
    free(r->corrections);
    free(r->lapses);
    free(r);
}

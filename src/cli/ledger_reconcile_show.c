/* A reconciliation for people and for programs. */
#include "cli/ledger_reconcile.h"
#include "cli/text.h"
#include "core/num.h"
#include "wire/dates.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TIME_BYTES 24

static const char *time_text(int64_t unix_s, char out[static TIME_BYTES])
{
    size_t n = weir_rfc3339_write(out, TIME_BYTES - 1, unix_s * (int64_t)WEIR_NS_PER_S);
    out[n] = '\0';
    if (n == 20 && memcmp(out + 16, ":00Z", 4) == 0)
        memcpy(out + 16, "Z", 2);
    return out;
}

const char *reconcile_drift_text(int64_t ppm, char out[static RECONCILE_DRIFT_BYTES])
{
    if (ppm == WEIR_DRIFT_ONLY_OURS) {
        snprintf(out, RECONCILE_DRIFT_BYTES, "only weir");
        return out;
    }
    /* Hundredths of a percent, away from zero: what is not 0 never reads as 0. */
    uint64_t parts = weir_div_ceil_u64(weir_abs_i64(ppm), 100);
    snprintf(out, RECONCILE_DRIFT_BYTES, "%s%" PRIu64 ".%02" PRIu64 " %%",
             ppm < 0   ? "-"
             : ppm > 0 ? "+"
                       : "",
             parts / 100, parts % 100);
    return out;
}

const char *reconcile_group_text(const struct weir_reconcile_group *group, char out[static 200])
{
    if (group->scope)
        snprintf(out, 200, "scope %s", group->scope);
    else if (group->upstream)
        snprintf(out, 200, "upstream %s", group->upstream);
    else
        snprintf(out, 200, "all that is not mapped");
    return out;
}

static int64_t booked_tok(const struct weir_reconcile_group *group)
{
    return group->ours.input_tok + group->ours.output_tok + group->lapsed_tok;
}

/* --- For people --- */

static void add_amount(struct cli_table *table, int64_t amount)
{
    cli_table_add_amount(table, amount, amount < 0 ? NULL : "-");
}

static void add_sums(struct cli_table *table, const char *model, const char *side,
                     const struct weir_reconcile_sums *sums, int64_t beside_tok)
{
    cli_table_add(table, model);
    cli_table_add(table, side);
    add_amount(table, sums->input_tok);
    add_amount(table, sums->output_tok);
    add_amount(table, sums->input_tok + sums->output_tok + beside_tok);
    cli_table_add_amount(table, sums->requests, "-");
}

static void add_drift(struct cli_table *table, const struct weir_reconcile_drift *drift,
                      const struct weir_reconcile_sums *ours,
                      const struct weir_reconcile_sums *theirs)
{
    char text[RECONCILE_DRIFT_BYTES];
    cli_table_add(table, "");
    cli_table_add(table, "drift");
    cli_table_add(table, reconcile_drift_text(drift->input_ppm, text));
    cli_table_add(table, reconcile_drift_text(drift->output_ppm, text));
    cli_table_add(table, reconcile_drift_text(drift->total_ppm, text));
    if (ours->requests < 0 || theirs->requests < 0)
        snprintf(text, sizeof text, "-");
    else
        snprintf(text, sizeof text, "%+" PRId64, ours->requests - theirs->requests);
    cli_table_add(table, text);
}

static void note(const char *format, int64_t amount)
{
    char text[CLI_AMOUNT_BYTES];
    if (amount == 0)
        return;
    fputs("  ", stdout);
    printf(format, cli_amount(amount, text));
    puts("");
}

static void print_line_notes(const struct weir_reconcile_line *line, const char *provider)
{
    switch (line->match) {
    case WEIR_MATCH_SAME:
    case WEIR_MATCH_ALL:
        break;
    case WEIR_MATCH_DATED:
        printf("  %s: known to weir as %s; matched by its date\n", line->model,
               line->ours_model ? line->ours_model : line->model);
        break;
    case WEIR_MATCH_ONLY_OURS:
        printf("  %s: %s's export has nothing of it\n", line->model, provider);
        break;
    case WEIR_MATCH_ONLY_THEIRS:
        printf("  %s: the ledger has nothing of it: it was called past weir, or under a key that "
               "is not weir's\n",
               line->model);
        break;
    }
    if (line->one_way_windows >= WEIR_ONE_WAY_WINDOWS)
        printf("  %s: weir counts %s in %" PRIu32 " buckets in a row\n", line->model,
               line->one_way_is_under ? "LESS" : "more", line->one_way_windows);
}

static void print_windows(const struct weir_reconcile *r, const struct weir_reconcile_line *line)
{
    struct cli_table table = {
        .titles = {"bucket", "weir input", "provider", "weir output", "provider", "left"},
        .right = {false, true, true, true, true, true},
        .columns = 6};
    char time[TIME_BYTES];
    for (size_t i = 0; i < line->windows_count; i++) {
        const struct weir_reconcile_window *w = &r->windows[line->windows + i];
        cli_table_add(&table, time_text(w->start_s, time));
        cli_table_add_amount(&table, w->ours_input_tok, NULL);
        cli_table_add_amount(&table, w->theirs_input_tok, NULL);
        cli_table_add_amount(&table, w->ours_output_tok, NULL);
        cli_table_add_amount(&table, w->theirs_output_tok, NULL);
        cli_table_add_amount(&table, w->left_input_tok + w->left_output_tok, NULL);
    }
    printf("  %s, by bucket:\n", line->model);
    cli_table_print(&table, true);
}

static void print_group_notes(const struct weir_reconcile_group *group)
{
    note("%s tokens were charged by weir's own count, not the provider's (estimated)",
         group->estimated_tok);
    note("%s tokens were settled late", group->late_tok);
    note("%s tokens were settled without a reserve (unmatched)", group->unmatched_tok);
    note("%s tokens of earlier corrections are in what weir booked", group->corrected_tok);
    note("%s tokens are charged for holds that lapsed: nobody knows what they used",
         group->lapsed_tok);
    note("%s tokens of the provider's went through its batch API", group->batch_tok);
    if (group->drift.total_ppm < 0)
        puts("  weir counts LESS than the provider here: budgets admit more than they should");
}

static void print_authoritative(const struct weir_reconcile_group *group, const char *before)
{
    char booked[CLI_AMOUNT_BYTES];
    printf("%sauthoritative: %s tokens, which is what weir's budgets count\n", before,
           cli_amount(booked_tok(group), booked));
}

static void print_group(const struct reconcile_shown *shown, size_t index)
{
    const struct weir_reconcile *r = shown->r;
    const struct weir_reconcile_group *group = &r->groups[index];
    const char *provider = weir_export_provider_name(group->provider);
    struct cli_table table = {.titles = {"model", "", "input", "output", "total", "requests"},
                              .right = {false, false, true, true, true, true},
                              .columns = 6};
    char name[200];
    size_t lines = 0;
    printf("\n%s (%s)%s\n", reconcile_group_text(group, name), provider,
           group->is_beyond ? ": BEYOND the allowed drift" : "");
    for (size_t i = 0; i < r->lines_count; i++) {
        const struct weir_reconcile_line *line = &r->lines[i];
        if (line->group != index)
            continue;
        lines++;
        add_sums(&table, line->model, "weir", &line->ours, 0);
        add_sums(&table, "", provider, &line->theirs, 0);
        add_drift(&table, &line->drift, &line->ours, &line->theirs);
    }
    if (lines != 1 || group->lapsed_tok > 0) {
        add_sums(&table, "all", "weir", &group->ours, group->lapsed_tok);
        add_sums(&table, "", provider, &group->theirs, 0);
        add_drift(&table, &group->drift, &group->ours, &group->theirs);
    }
    cli_table_print(&table, true);
    for (size_t i = 0; i < r->lines_count; i++)
        if (r->lines[i].group == index) {
            print_line_notes(&r->lines[i], provider);
            if (shown->with_windows)
                print_windows(r, &r->lines[i]);
        }
    print_group_notes(group);
    if (!shown->after)
        print_authoritative(group, "  ");
}

static void print_scope_of_it(const struct reconcile_shown *shown)
{
    const struct weir_reconcile *r = shown->r;
    char from[TIME_BYTES], to[TIME_BYTES];
    if (r->from_s < r->to_s)
        printf("%s to %s (UTC), %zu file%s, %zu rows\n", time_text(r->from_s, from),
               time_text(r->to_s, to), shown->files_count, shown->files_count == 1 ? "" : "s",
               shown->export->rows_count);
    else
        puts("The files have no bucket of the time asked for.");
    if (shown->early_count > 0)
        printf("left out: %zu buckets that begin before these books do, at %s (--from goes back "
               "further, unless it is longer ago than keep_usage)\n",
               shown->early_count, time_text(shown->begin_s, from));
    if (shown->open_count > 0)
        printf("left out: %zu buckets that have not ended yet (--open compares them too)\n",
               shown->open_count);
    note("left out: %s tokens of upstreams that do not speak to this provider", r->other_tok);
    note("left out: %s tokens at times of which the export says nothing", r->uncovered_tok);
    note("left out: %s lapsed holds that may be another provider's", (int64_t)r->lapses_left);
    for (size_t i = 0; i < r->groups_count; i++) {
        bool is_spoken = i > 0 && r->groups[i - 1].provider == r->groups[i].provider;
        for (size_t k = 0; k < shown->books->upstreams_count && !is_spoken; k++)
            is_spoken = shown->books->upstreams[k].speaks[r->groups[i].provider];
        if (!is_spoken)
            printf("  no upstream of the configuration speaks to %s\n",
                   weir_export_provider_name(r->groups[i].provider));
    }
    if (r->is_guessed)
        puts(
            "  nothing is mapped: several upstreams are compared as one; name keys and projects by "
            "provider_ids");
    if (r->has_partial_hours)
        puts(
            "  the export tells only part of an hour, of which weir keeps the whole: its edges are "
            "not comparable");
}

static void print_applied(const struct reconcile_shown *shown)
{
    const struct reconcile_applied *a = &shown->applied;
    size_t possible = shown->r->corrections_count - a->over - a->nobody;
    char raised[CLI_AMOUNT_BYTES], lowered[CLI_AMOUNT_BYTES];
    puts("");
    if (shown->after) {
        printf("booked: %zu adjustment%s, +%s and -%s tokens\n", a->corrections,
               a->corrections == 1 ? "" : "s", cli_amount(a->raised_tok, raised),
               cli_amount(a->lowered_tok, lowered));
        if (a->lapses > 0)
            printf("written off: %zu lapsed hold%s\n", a->lapses, a->lapses == 1 ? "" : "s");
    } else if (possible > 0 || shown->r->lapses_count > 0) {
        printf("to correct: %zu adjustment%s, %zu lapsed hold%s; --apply books them\n", possible,
               possible == 1 ? "" : "s", shown->r->lapses_count,
               shown->r->lapses_count == 1 ? "" : "s");
    }
    note("not to be booked: %s tokens of windows that are over; they bear on no grant any more",
         a->over_tok);
    note("not to be booked: %s tokens that no scope is known for; map their key or project by "
         "provider_ids",
         a->nobody_tok);
    for (size_t i = 0; shown->after && i < shown->after->groups_count; i++) {
        const struct weir_reconcile_group *group = &shown->after->groups[i];
        char name[200], drift[RECONCILE_DRIFT_BYTES];
        printf("%s now: drift %s, ", reconcile_group_text(group, name),
               reconcile_drift_text(group->drift.total_ppm, drift));
        print_authoritative(group, "");
    }
}

void reconcile_print(const struct reconcile_shown *shown)
{
    char drift[RECONCILE_DRIFT_BYTES];
    print_scope_of_it(shown);
    for (size_t i = 0; i < shown->r->groups_count; i++)
        print_group(shown, i);
    print_applied(shown);
    printf("%s the allowed drift of %s\n", shown->is_beyond ? "BEYOND" : "within",
           reconcile_drift_text(shown->max_drift_ppm, drift) + (shown->max_drift_ppm > 0));
}

/* --- For programs --- */

static json_t *ppm_json(int64_t ppm)
{
    return ppm == WEIR_DRIFT_ONLY_OURS ? json_null() : json_integer(ppm);
}

static json_t *sums_json(const struct weir_reconcile_sums *s)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I}", "requests",
                     s->requests < 0 ? json_null() : json_integer(s->requests), "input_tok",
                     (json_int_t)s->input_tok, "cached_tok", (json_int_t)s->cached_tok,
                     "cache_write_tok", (json_int_t)s->cache_write_tok, "output_tok",
                     (json_int_t)s->output_tok);
}

static json_t *drift_json(const struct weir_reconcile_drift *drift)
{
    return json_pack("{s:o, s:o, s:o}", "input_ppm", ppm_json(drift->input_ppm), "output_ppm",
                     ppm_json(drift->output_ppm), "total_ppm", ppm_json(drift->total_ppm));
}

static json_t *windows_json(const struct weir_reconcile *r, const struct weir_reconcile_line *line)
{
    json_t *list = json_array();
    for (size_t i = 0; i < line->windows_count; i++) {
        const struct weir_reconcile_window *w = &r->windows[line->windows + i];
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "start_s",
                                        (json_int_t)w->start_s, "end_s", (json_int_t)w->end_s,
                                        "weir_input_tok", (json_int_t)w->ours_input_tok,
                                        "weir_output_tok", (json_int_t)w->ours_output_tok,
                                        "provider_input_tok", (json_int_t)w->theirs_input_tok,
                                        "provider_output_tok", (json_int_t)w->theirs_output_tok,
                                        "left_input_tok", (json_int_t)w->left_input_tok,
                                        "left_output_tok", (json_int_t)w->left_output_tok));
    }
    return list;
}

static json_t *line_json(const struct weir_reconcile *r, const struct weir_reconcile_line *line)
{
    static const char *const matches[] = {"same", "dated", "all", "only_weir", "only_provider"};
    return json_pack(
        "{s:s, s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:o}", "model",
        line->model, "weir_model", line->ours_model ? json_string(line->ours_model) : json_null(),
        "match", matches[line->match], "weir", sums_json(&line->ours), "provider",
        sums_json(&line->theirs), "drift", drift_json(&line->drift), "estimated_tok",
        (json_int_t)line->estimated_tok, "late_tok", (json_int_t)line->late_tok, "unmatched_tok",
        (json_int_t)line->unmatched_tok, "corrected_tok", (json_int_t)line->corrected_tok,
        "slipped_tok", (json_int_t)line->slipped_tok, "one_way_buckets",
        (json_int_t)line->one_way_windows, "one_way_is_under", line->one_way_is_under, "beyond",
        line->is_beyond, "buckets", windows_json(r, line));
}

static json_t *after_json(const struct weir_reconcile *after)
{
    json_t *list = json_array();
    for (size_t i = 0; i < after->groups_count; i++) {
        const struct weir_reconcile_group *g = &after->groups[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:I, s:o, s:b}", "provider_name",
                                        weir_export_provider_name(g->provider), "scope",
                                        g->scope ? json_string(g->scope) : json_null(), "upstream",
                                        g->upstream ? json_string(g->upstream) : json_null(),
                                        "booked_tok", (json_int_t)booked_tok(g), "drift",
                                        drift_json(&g->drift), "beyond", g->is_beyond));
    }
    return list;
}

static json_t *group_json(const struct weir_reconcile *r, size_t index)
{
    const struct weir_reconcile_group *g = &r->groups[index];
    json_t *lines = json_array();
    for (size_t i = 0; i < r->lines_count; i++)
        if (r->lines[i].group == index)
            json_array_append_new(lines, line_json(r, &r->lines[i]));
    return json_pack(
        "{s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o}",
        "provider_name", weir_export_provider_name(g->provider), "scope",
        g->scope ? json_string(g->scope) : json_null(), "upstream",
        g->upstream ? json_string(g->upstream) : json_null(), "booked_tok",
        (json_int_t)booked_tok(g), "weir", sums_json(&g->ours), "provider", sums_json(&g->theirs),
        "drift", drift_json(&g->drift), "estimated_tok", (json_int_t)g->estimated_tok, "late_tok",
        (json_int_t)g->late_tok, "unmatched_tok", (json_int_t)g->unmatched_tok, "corrected_tok",
        (json_int_t)g->corrected_tok, "lapsed_tok", (json_int_t)g->lapsed_tok, "lapsed_holds",
        (json_int_t)g->lapses_count, "batch_tok", (json_int_t)g->batch_tok, "beyond", g->is_beyond,
        "models", lines);
}

static json_t *corrections_json(const struct reconcile_shown *shown)
{
    const struct weir_reconcile *r = shown->r;
    json_t *list = json_array();
    for (size_t i = 0; i < r->corrections_count; i++) {
        const struct weir_reconcile_correction *c = &r->corrections[i];
        bool is_over = c->scope && reconcile_is_over(shown->books, c);
        json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:b}", "scope",
                                              c->scope ? json_string(c->scope) : json_null(),
                                              "model", r->lines[c->line].model, "start_s",
                                              (json_int_t)c->start_s, "end_s", (json_int_t)c->end_s,
                                              "input_tok", (json_int_t)c->input_tok, "output_tok",
                                              (json_int_t)c->output_tok, "can_be_booked",
                                              c->scope && !is_over));
    }
    return list;
}

static json_t *problems_json(const struct weir_export *e)
{
    static const char *const levels[] = {"note", "warning", "error"};
    json_t *list = json_array();
    for (size_t i = 0; i < e->problems_count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "level", levels[e->problems[i].level],
                                              "text", e->problems[i].text));
    return list;
}

json_t *reconcile_json(const struct reconcile_shown *shown)
{
    const struct weir_reconcile *r = shown->r;
    const struct reconcile_applied *a = &shown->applied;
    json_t *groups = json_array();
    for (size_t i = 0; i < r->groups_count; i++)
        json_array_append_new(groups, group_json(r, i));
    return json_pack(
        "{s:I, s:I, s:I, s:s, s:b, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:o, s:{s:I, "
        "s:I, "
        "s:I, s:I, s:I, s:I}, s:o}",
        "from_s", (json_int_t)r->from_s, "to_s", (json_int_t)r->to_s, "max_drift_ppm",
        (json_int_t)shown->max_drift_ppm, "authoritative", "booked_tok", "beyond", shown->is_beyond,
        "groups", groups, "corrections", corrections_json(shown), "lapsed_holds",
        (json_int_t)r->lapses_count, "lapsed_holds_left", (json_int_t)r->lapses_left,
        "early_buckets", (json_int_t)shown->early_count, "open_buckets",
        (json_int_t)shown->open_count, "other_tok", (json_int_t)r->other_tok, "uncovered_tok",
        (json_int_t)r->uncovered_tok, "is_guessed", r->is_guessed, "has_partial_hours",
        r->has_partial_hours, "after", shown->after ? after_json(shown->after) : json_null(),
        "booked", "adjustments", (json_int_t)a->corrections, "lapsed_holds", (json_int_t)a->lapses,
        "raised_tok", (json_int_t)a->raised_tok, "lowered_tok", (json_int_t)a->lowered_tok,
        "left_window_is_over_tok", (json_int_t)a->over_tok, "left_nobody_tok",
        (json_int_t)a->nobody_tok, "problems", problems_json(shown->export));
}

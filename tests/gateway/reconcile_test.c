/* Our books against a provider's export: groups, models, edge slip, drift, and corrections that
 * bring the drift to nothing and are not booked twice. */
#include "gateway/reconcile.h"

#include "core/rng.h"
#include "support/check.h"

#include <stdlib.h>

#define HOUR 3600
#define T0 INT64_C(1764460800) /* 2025-11-30T00:00Z */

enum { ROWS_MAX = 400 };

/* An export and a ledger, built row by row. */
struct books {
    struct weir_export_row theirs[ROWS_MAX];
    struct weir_export_span spans[ROWS_MAX];
    struct weir_export export;
    struct weir_reconcile_use uses[2 * ROWS_MAX];
    struct weir_reconcile_lapse lapses[8];
    struct weir_reconcile_scope scopes[8];
    struct weir_reconcile_upstream upstreams[4];
    struct weir_reconcile_id ids[8];
    struct weir_reconcile_input in;
    char names[2 * ROWS_MAX][64];
    size_t names_count;
};

static struct books *books_new(void)
{
    struct books *b = calloc(1, sizeof *b);
    CHECK(b != NULL);
    b->export.rows = b->theirs;
    b->export.spans = b->spans;
    b->in = (struct weir_reconcile_input){.export = &b->export,
                                          .uses = b->uses,
                                          .lapses = b->lapses,
                                          .scopes = b->scopes,
                                          .upstreams = b->upstreams,
                                          .ids = b->ids,
                                          .from_s = INT64_MIN,
                                          .to_s = INT64_MAX,
                                          .max_drift_ppm = 10000};
    return b;
}

static void upstream(struct books *b, const char *name, bool openai, bool anthropic)
{
    b->upstreams[b->in.upstreams_count++] =
        (struct weir_reconcile_upstream){name, {openai, anthropic}};
}

static void scope(struct books *b, const char *name, const char *parent)
{
    b->scopes[b->in.scopes_count++] = (struct weir_reconcile_scope){name, parent};
}

static void maps(struct books *b, const char *id, const char *to_scope, const char *to_upstream)
{
    b->ids[b->in.ids_count++] = (struct weir_reconcile_id){id, to_scope, to_upstream};
}

/* Buckets of `seconds` from hour `from` up to hour `to`, each there even when nothing was used. */
static void spans(struct books *b, enum weir_export_provider provider, int from, int to,
                  int64_t seconds)
{
    for (int64_t at = T0 + from * HOUR; at < T0 + to * HOUR; at += seconds)
        b->spans[b->export.spans_count++] = (struct weir_export_span){provider, at, at + seconds};
}

static struct weir_export_row *theirs_at(struct books *b, int hour, const char *key,
                                         const char *model, int64_t input, int64_t output)
{
    struct weir_export_row *row = &b->theirs[b->export.rows_count++];
    *row = (struct weir_export_row){.provider = WEIR_EXPORT_OPENAI,
                                    .start_s = T0 + hour * HOUR,
                                    .end_s = T0 + (hour + 1) * HOUR,
                                    .key = key,
                                    .key_name = "",
                                    .project = "",
                                    .project_name = "",
                                    .model = model,
                                    .requests = 1,
                                    .input_tok = input,
                                    .output_tok = output};
    return row;
}

static struct weir_reconcile_use *ours_at(struct books *b, int hour, const char *of_scope,
                                          const char *model, int64_t input, int64_t output)
{
    struct weir_reconcile_use *use = &b->uses[b->in.uses_count++];
    *use = (struct weir_reconcile_use){.scope = of_scope,
                                       .upstream = "up",
                                       .model = model,
                                       .utc_hour = T0 / HOUR + hour,
                                       .requests = 1,
                                       .input_tok = input,
                                       .output_tok = output};
    return use;
}

static struct weir_reconcile *run(struct books *b)
{
    struct weir_reconcile *r = weir_reconcile_run(&b->in);
    CHECK(r != NULL);
    return r;
}

static void done(struct books *b, struct weir_reconcile *r)
{
    weir_reconcile_free(r);
    free(b);
}

/* One upstream, nothing mapped, hours 0 .. hours. */
static struct books *plain(int hours)
{
    struct books *b = books_new();
    upstream(b, "up", true, false);
    spans(b, WEIR_EXPORT_OPENAI, 0, hours, HOUR);
    return b;
}

/* What --apply does: each correction becomes a usage row, each lapse told of is written off. */
static void book(struct books *b, const struct weir_reconcile *r)
{
    for (size_t i = 0; i < r->corrections_count; i++) {
        const struct weir_reconcile_correction *c = &r->corrections[i];
        const struct weir_reconcile_line *line = &r->lines[c->line];
        char *name = b->names[b->names_count++];
        snprintf(name, 64, WEIR_RECONCILE_PREFIX "%s", line->upstream ? line->upstream : "up");
        b->uses[b->in.uses_count++] =
            (struct weir_reconcile_use){.scope = c->scope ? c->scope : "somebody",
                                        .upstream = name,
                                        .model = line->ours_model ? line->ours_model : line->model,
                                        .utc_hour = c->start_s / HOUR,
                                        .input_tok = c->input_tok,
                                        .output_tok = c->output_tok};
    }
    b->in.lapses_count -= r->lapses_count; /* the tests have all or none of them told of */
}

/* --- Drift --- */

static void drift__rounds_away_from_zero_and_keeps_its_sign(void **state)
{
    (void)state;
    CHECK_INT(weir_drift_ppm(0, 0), 0);
    CHECK_INT(weir_drift_ppm(101, 100), 10000);
    CHECK_INT(weir_drift_ppm(99, 100), -10000);
    CHECK_INT(weir_drift_ppm(INT64_C(10000001), INT64_C(10000000)), 1); /* a tenth of one */
    CHECK_INT(weir_drift_ppm(0, 7), -1000000);
    CHECK_INT(weir_drift_ppm(7, 0), WEIR_DRIFT_ONLY_OURS);
    CHECK_INT(weir_drift_ppm(WEIR_BALANCE_MAX, 1), INT64_MAX - 1);
    CHECK_INT(weir_drift_ppm(-5, 5), -2000000);
}

static void lines__equal_books__no_drift_nothing_to_correct(void **state)
{
    (void)state;
    struct books *b = plain(2);
    theirs_at(b, 0, "k", "m", 100, 10);
    theirs_at(b, 1, "k", "m", 50, 5);
    ours_at(b, 0, "team", "m", 100, 10);
    ours_at(b, 1, "team", "m", 50, 5);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->groups_count, 1);
    CHECK_INT(r->lines_count, 1);
    CHECK_INT(r->lines[0].drift.total_ppm, 0);
    CHECK_INT(r->lines[0].ours.requests, 2);
    CHECK_INT(r->lines[0].match, WEIR_MATCH_SAME);
    CHECK_INT(r->corrections_count, 0);
    CHECK(!r->is_beyond && !r->is_guessed && !r->has_partial_hours);
    CHECK_INT(r->from_s, T0);
    CHECK_INT(r->to_s, T0 + 2 * HOUR);
    done(b, r);
}

static void lines__less_than_the_provider_says__is_negative_and_corrected_upwards(void **state)
{
    (void)state;
    struct books *b = plain(1);
    theirs_at(b, 0, "k", "m", 1000, 100);
    struct weir_reconcile_use *use = ours_at(b, 0, "team", "m", 900, 100);
    use->estimated_tok = 40;
    use->late_tok = 3;
    use->unmatched_tok = 2;
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lines[0].drift.input_ppm, -100000);
    CHECK_INT(r->lines[0].drift.output_ppm, 0);
    CHECK_INT(r->lines[0].drift.total_ppm, -90910); /* 100 of 1,100, away from zero */
    CHECK_INT(r->groups[0].estimated_tok, 40);
    CHECK_INT(r->groups[0].late_tok, 3);
    CHECK_INT(r->groups[0].unmatched_tok, 2);
    CHECK(r->is_beyond && r->groups[0].is_beyond && r->lines[0].is_beyond);
    CHECK_INT(r->corrections_count, 1);
    CHECK_STR(r->corrections[0].scope, "team");
    CHECK_INT(r->corrections[0].input_tok, 100);
    CHECK_INT(r->corrections[0].output_tok, 0);
    done(b, r);
}

static void lines__input_and_output_that_cancel_out__are_beyond(void **state)
{
    (void)state;
    struct books *b = plain(1);
    theirs_at(b, 0, "k", "m", 1000, 1000);
    ours_at(b, 0, "team", "m", 900, 1100);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lines[0].drift.total_ppm, 0);
    CHECK(r->is_beyond);
    done(b, r);
}

static void lines__drift_at_the_limit__is_within(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct books *b = plain(1);
        theirs_at(b, 0, "k", "m", 1000000, 1000000);
        ours_at(b, 0, "team", "m", 1010000 + over, 1000000);
        struct weir_reconcile *r = run(b);
        CHECK_INT(r->is_beyond, over);
        done(b, r);
    }
}

/* --- Edge slip --- */

static void windows__a_call_one_bucket_off__is_no_drift(void **state)
{
    (void)state;
    struct books *b = plain(3);
    theirs_at(b, 0, "k", "m", 100, 10);
    theirs_at(b, 1, "k", "m", 200, 30);
    theirs_at(b, 2, "k", "m", 100, 10);
    ours_at(b, 0, "team", "m", 170, 17); /* our clock is early, or theirs books at the end */
    ours_at(b, 1, "team", "m", 130, 23);
    ours_at(b, 2, "team", "m", 100, 10);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lines[0].slipped_tok, 77);
    CHECK_INT(r->lines[0].drift.total_ppm, 0);
    CHECK_INT(r->corrections_count, 0);
    CHECK_INT(r->lines[0].windows_count, 3);
    CHECK_INT(r->windows[0].ours_input_tok, 170);
    CHECK_INT(r->windows[0].theirs_input_tok, 100);
    CHECK_INT(r->windows[0].left_input_tok, 0);
    CHECK_INT(r->lines[0].one_way_windows, 0);
    done(b, r);
}

static void windows__two_buckets_apart__is_drift_in_both(void **state)
{
    (void)state;
    struct books *b = plain(3);
    theirs_at(b, 0, "k", "m", 100, 0);
    theirs_at(b, 1, "k", "m", 100, 0);
    theirs_at(b, 2, "k", "m", 170, 0);
    ours_at(b, 0, "team", "m", 170, 0);
    ours_at(b, 1, "team", "m", 100, 0);
    ours_at(b, 2, "team", "m", 100, 0);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lines[0].slipped_tok, 0);
    CHECK_INT(r->windows[0].left_input_tok, 70);
    CHECK_INT(r->windows[2].left_input_tok, -70);
    CHECK_INT(r->corrections_count, 2);
    done(b, r);
}

static void windows__buckets_with_a_hole_between__do_not_slip(void **state)
{
    (void)state;
    struct books *b = books_new();
    upstream(b, "up", true, false);
    spans(b, WEIR_EXPORT_OPENAI, 0, 1, HOUR);
    spans(b, WEIR_EXPORT_OPENAI, 2, 3, HOUR);
    theirs_at(b, 0, "k", "m", 100, 0);
    theirs_at(b, 2, "k", "m", 100, 0);
    ours_at(b, 0, "team", "m", 130, 0);
    ours_at(b, 1, "team", "m", 7, 0);
    ours_at(b, 2, "team", "m", 70, 0);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lines[0].slipped_tok, 0);
    CHECK_INT(r->uncovered_tok, 7);
    CHECK_INT(r->lines[0].ours.input_tok, 200);
    done(b, r);
}

static void windows__three_to_one_side__are_an_alarm_two_are_not(void **state)
{
    (void)state;
    for (int hours = 2; hours <= 3; hours++) {
        struct books *b = plain(hours);
        for (int hour = 0; hour < hours; hour++) {
            theirs_at(b, hour, "k", "m", 1000, 0);
            ours_at(b, hour, "team", "m", 999, 0);
        }
        struct weir_reconcile *r = run(b);
        CHECK_INT(r->lines[0].one_way_windows, hours);
        CHECK_INT(r->lines[0].one_way_windows >= WEIR_ONE_WAY_WINDOWS, hours == 3);
        CHECK(r->lines[0].one_way_is_under);
        done(b, r);
    }
}

static void windows__minutes_days_and_parts_of_hours(void **state)
{
    (void)state;
    struct books *b = books_new();
    upstream(b, "up", true, false);
    spans(b, WEIR_EXPORT_OPENAI, 0, 1, 60);
    theirs_at(b, 0, "k", "m", 40, 0);
    theirs_at(b, 0, "k", "m", 60, 0)->start_s += 59 * 60;
    ours_at(b, 0, "team", "m", 100, 0);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lines[0].windows_count, 1);
    CHECK_INT(r->lines[0].drift.total_ppm, 0);
    CHECK(!r->has_partial_hours);
    weir_reconcile_free(r);
    b->export.spans_count--; /* the last minute is not told */
    r = run(b);
    CHECK(r->has_partial_hours);
    done(b, r);

    b = books_new();
    upstream(b, "up", true, false);
    spans(b, WEIR_EXPORT_OPENAI, 0, 24, 24 * HOUR);
    theirs_at(b, 0, "k", "m", 100, 0);
    ours_at(b, 0, "team", "m", 30, 0);
    ours_at(b, 23, "team", "m", 70, 0);
    ours_at(b, 24, "team", "m", 5, 0); /* the next day is not told of */
    r = run(b);
    CHECK_INT(r->lines[0].drift.total_ppm, 0);
    CHECK_INT(r->uncovered_tok, 0);
    done(b, r);
}

static void windows__from_and_to__take_whole_buckets_only(void **state)
{
    (void)state;
    struct books *b = plain(4);
    for (int hour = 0; hour < 4; hour++) {
        theirs_at(b, hour, "k", "m", 10, 0);
        ours_at(b, hour, "team", "m", 10 + hour, 0);
    }
    b->in.from_s = T0 + HOUR;
    b->in.to_s = T0 + 3 * HOUR;
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lines[0].ours.input_tok, 23);
    CHECK_INT(r->lines[0].theirs.input_tok, 20);
    CHECK_INT(r->from_s, T0 + HOUR);
    done(b, r);
}

/* --- Groups --- */

static void groups__ids_of_scopes_and_upstreams__divide_both_sides(void **state)
{
    (void)state;
    struct books *b = books_new();
    upstream(b, "up", true, false);
    upstream(b, "second", true, false);
    spans(b, WEIR_EXPORT_OPENAI, 0, 1, HOUR);
    scope(b, "org", NULL);
    scope(b, "team", "org");
    scope(b, "key", "team");
    maps(b, "key_1", "team", NULL);
    maps(b, "by name", "team", NULL);
    maps(b, "proj_2", NULL, "second");
    theirs_at(b, 0, "key_1", "m", 10, 0);
    theirs_at(b, 0, "", "m", 20, 0)->key_name = "by name";
    theirs_at(b, 0, "key_9", "m", 40, 0)->project = "proj_2";
    theirs_at(b, 0, "key_1", "m", 80, 0)->project = "proj_2"; /* the key decides */
    theirs_at(b, 0, "key_8", "m", 160, 0);
    ours_at(b, 0, "key", "m", 100, 0);                      /* below team */
    ours_at(b, 0, "team", "m", 10, 0)->upstream = "second"; /* the scope decides */
    ours_at(b, 0, "org", "m", 40, 0)->upstream = "second";
    ours_at(b, 0, "org", "m", 160, 0);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->groups_count, 3);
    CHECK_STR(r->groups[0].scope, "team");
    CHECK_INT(r->groups[0].theirs.input_tok, 110);
    CHECK_INT(r->groups[0].ours.input_tok, 110);
    CHECK_STR(r->groups[1].upstream, "second");
    CHECK_INT(r->groups[1].theirs.input_tok, 40);
    CHECK_INT(r->groups[1].ours.input_tok, 40);
    CHECK(r->groups[2].scope == NULL && r->groups[2].upstream == NULL);
    CHECK_INT(r->groups[2].theirs.input_tok, 160);
    CHECK_INT(r->groups[2].ours.input_tok, 160);
    CHECK(!r->is_beyond && !r->is_guessed);
    done(b, r);
}

static void groups__nothing_mapped_and_two_upstreams__is_a_guess(void **state)
{
    (void)state;
    struct books *b = plain(1);
    upstream(b, "second", true, false);
    struct weir_reconcile *r = run(b);
    CHECK(r->is_guessed);
    done(b, r);
    b = plain(1);
    upstream(b, "claude", false, true); /* the export does not speak of it */
    r = run(b);
    CHECK(!r->is_guessed);
    done(b, r);
}

static void groups__upstreams_of_another_provider__stay_out(void **state)
{
    (void)state;
    struct books *b = plain(1);
    upstream(b, "claude", false, true);
    upstream(b, "any", true, true);
    theirs_at(b, 0, "k", "m", 30, 0);
    ours_at(b, 0, "team", "m", 10, 0);
    ours_at(b, 0, "team", "claude-x", 500, 0)->upstream = "claude";
    ours_at(b, 0, "team", "m", 15, 0)->upstream = "any";
    ours_at(b, 0, "team", "m", 5, 0)->upstream = "gone from the configuration";
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->other_tok, 500);
    CHECK_INT(r->groups[0].ours.input_tok, 30);
    weir_reconcile_free(r);
    /* With both exports a model's name tells whose it is. */
    spans(b, WEIR_EXPORT_ANTHROPIC, 0, 24, 24 * HOUR);
    ours_at(b, 0, "team", "claude-y", 7, 0)->upstream = "any";
    r = run(b);
    CHECK_INT(r->other_tok, 0);
    CHECK_INT(r->groups_count, 2);
    CHECK_INT(r->groups[1].provider, WEIR_EXPORT_ANTHROPIC);
    CHECK_INT(r->groups[1].ours.input_tok, 507);
    done(b, r);
}

static void groups__a_circle_of_scopes__ends(void **state)
{
    (void)state;
    struct books *b = plain(1);
    scope(b, "a", "b");
    scope(b, "b", "a");
    ours_at(b, 0, "a", "m", 10, 0);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->groups_count, 1);
    CHECK_INT(r->lines[0].match, WEIR_MATCH_ONLY_OURS);
    CHECK_INT(r->lines[0].drift.total_ppm, WEIR_DRIFT_ONLY_OURS);
    CHECK(r->is_beyond);
    done(b, r);
}

/* --- Models --- */

static void models__dates_at_the_end__are_known(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        size_t bytes;
    } rows[] = {{"gpt-4o-2024-08-06", 6},
                {"claude-sonnet-4-5-20250929", 17},
                {"claude-sonnet-4-5@20250929", 17},
                {"claude-3-5-sonnet-latest", 17},
                {"gpt-4-0613", 5},
                {"gpt-4-32k", 9},
                {"x-1024", 1},
                {"x-4096", 6},
                {"gpt-5", 5},
                {"-latest", 7},
                {"", 0},
                {"m-19990101", 10},
                {"text-embedding-3-small", 22},
                {"m-2024-8-6", 10}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_MSG(weir_model_base_bytes(rows[i].model) == rows[i].bytes, "%s: %zu", rows[i].model,
                  weir_model_base_bytes(rows[i].model));
}

struct model_case {
    const char *claim;
    const char *theirs[3], *ours[3];
    size_t lines;
    enum weir_reconcile_match first;
    const char *model, *ours_model; /* of the first line */
};

static const struct model_case model_cases[] = {
    {"the same name", {"m"}, {"m"}, 1, WEIR_MATCH_SAME, "m", "m"},
    {"ours without the date", {"m-2024-08-06"}, {"m"}, 1, WEIR_MATCH_DATED, "m-2024-08-06", "m"},
    {"ours is the latest",
     {"m-20240806"},
     {"m-latest"},
     1,
     WEIR_MATCH_DATED,
     "m-20240806",
     "m-latest"},
    {"theirs without the date", {"m"}, {"m-2024-08-06"}, 1, WEIR_MATCH_DATED, "m", "m-2024-08-06"},
    {"an alias that moved on",
     {"m-2024-08-06", "m-2024-11-20"},
     {"m"},
     1,
     WEIR_MATCH_DATED,
     "m-2024-11-20",
     "m"},
    {"both sides have both: each by itself",
     {"m", "m-2024-08-06"},
     {"m", "m-2024-08-06"},
     2,
     WEIR_MATCH_SAME,
     "m",
     "m"},
    {"another model that only begins alike",
     {"m-mini-2024-08-06"},
     {"m"},
     2,
     WEIR_MATCH_ONLY_OURS,
     "m",
     "m"},
    {"theirs alone", {"m"}, {NULL}, 1, WEIR_MATCH_ONLY_THEIRS, "m", NULL},
    {"no models in the export", {""}, {"m", "n"}, 1, WEIR_MATCH_ALL, "*", "m"},
};

static void models__same_name_first_then_dates(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(model_cases); i++) {
        const struct model_case *c = &model_cases[i];
        struct books *b = plain(1);
        for (size_t k = 0; k < 3 && c->theirs[k]; k++)
            theirs_at(b, 0, "k", c->theirs[k], 10, 1);
        for (size_t k = 0; k < 3 && c->ours[k]; k++)
            ours_at(b, 0, "team", c->ours[k], 20 - (int64_t)k, 1);
        struct weir_reconcile *r = run(b);
        CHECK_MSG(r->lines_count == c->lines, "%s: %zu lines", c->claim, r->lines_count);
        CHECK_MSG(r->lines[0].match == c->first, "%s: %d", c->claim, (int)r->lines[0].match);
        CHECK_MSG(strcmp(r->lines[0].model, c->model) == 0, "%s: %s", c->claim, r->lines[0].model);
        CHECK_MSG((r->lines[0].ours_model == NULL) == (c->ours_model == NULL) &&
                      (!c->ours_model || strcmp(r->lines[0].ours_model, c->ours_model) == 0),
                  "%s", c->claim);
        done(b, r);
    }
}

/* --- Lapsed holds --- */

static void lapses__a_killed_call__is_written_off_and_what_was_used_is_booked(void **state)
{
    (void)state;
    struct books *b = plain(2);
    theirs_at(b, 0, "k", "m", 100, 20);
    theirs_at(b, 1, "k", "m", 290, 10); /* the call in whose middle we died */
    ours_at(b, 0, "team", "m", 60, 10);
    ours_at(b, 0, "other", "m", 40, 10);
    b->lapses[b->in.lapses_count++] =
        (struct weir_reconcile_lapse){"team", "77", T0 + HOUR + 5, 1200, 1200};
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->groups[0].lapsed_tok, 1200);
    CHECK_INT(r->groups[0].drift.total_ppm, 2142858); /* 1,320 against 420 */
    CHECK_INT(r->lines[0].drift.total_ppm, -714286);  /* 120 against 420 */
    CHECK_INT(r->lapses_count, 1);
    CHECK_INT(r->corrections_count, 1);
    CHECK_STR(r->corrections[0].scope, "team"); /* whose hold lapsed, not who used most */
    CHECK_INT(r->corrections[0].input_tok, 290);
    CHECK_INT(r->corrections[0].output_tok, 10);
    CHECK_INT(r->corrections[0].start_s, T0 + HOUR);
    book(b, r);
    weir_reconcile_free(r);
    r = run(b);
    CHECK_INT(r->groups[0].drift.total_ppm, 0);
    CHECK_INT(r->groups[0].corrected_tok, 300);
    CHECK_INT(r->corrections_count, 0);
    CHECK(!r->is_beyond);
    done(b, r);
}

static void lapses__that_were_given_back__still_tell_whose_use_it_was(void **state)
{
    (void)state;
    struct books *b = plain(1);
    theirs_at(b, 0, "k", "m", 400, 0);
    ours_at(b, 0, "other", "m", 100, 0);
    b->lapses[b->in.lapses_count++] = (struct weir_reconcile_lapse){"team", "77", T0, 1200, 0};
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->groups[0].lapsed_tok, 0);
    CHECK_INT(r->lapses_count, 1);
    CHECK_INT(r->corrections_count, 1);
    CHECK_STR(r->corrections[0].scope, "team");
    CHECK_INT(r->corrections[0].input_tok, 300);
    done(b, r);
}

static void lapses__that_may_be_another_providers__are_left(void **state)
{
    (void)state;
    struct books *b = plain(1);
    upstream(b, "claude", false, true);
    b->lapses[b->in.lapses_count++] = (struct weir_reconcile_lapse){"team", "1", T0, 10, 10};
    b->lapses[b->in.lapses_count++] =
        (struct weir_reconcile_lapse){"team", "2", T0 + 9 * HOUR, 10, 10}; /* not told of */
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->lapses_count, 0);
    CHECK_INT(r->lapses_left, 1);
    CHECK_INT(r->groups_count, 0);
    done(b, r);
}

/* --- Corrections --- */

static void corrections__go_to_whom_was_booked_by_estimate(void **state)
{
    (void)state;
    struct books *b = plain(1);
    theirs_at(b, 0, "k", "m", 1100, 0);
    ours_at(b, 0, "sure", "m", 900, 0);
    ours_at(b, 0, "a", "m", 60, 0)->estimated_tok = 60;
    ours_at(b, 0, "b", "m", 40, 0)->estimated_tok = 30;
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->corrections_count, 2);
    CHECK_STR(r->corrections[0].scope, "a");
    CHECK_INT(r->corrections[0].input_tok, 67); /* 66.7, and what rounding left */
    CHECK_STR(r->corrections[1].scope, "b");
    CHECK_INT(r->corrections[1].input_tok, 33);
    done(b, r);
}

static void corrections__more_than_was_estimated__is_taken_from_all(void **state)
{
    (void)state;
    struct books *b = plain(1);
    theirs_at(b, 0, "k", "m", 500, 0);
    ours_at(b, 0, "sure", "m", 990, 0);
    ours_at(b, 0, "unsure", "m", 10, 0)->estimated_tok = 10;
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->corrections_count, 2);
    CHECK_STR(r->corrections[0].scope, "sure");
    CHECK_INT(r->corrections[0].input_tok, -495);
    CHECK_INT(r->corrections[1].input_tok, -5);
    done(b, r);
}

static void
corrections__use_that_nobody_is_known_for__goes_to_the_mapped_scope_or_nobody(void **state)
{
    (void)state;
    struct books *b = plain(1);
    scope(b, "team", NULL);
    maps(b, "k", "team", NULL);
    theirs_at(b, 0, "k", "m", 5, 0);
    theirs_at(b, 0, "stranger", "m", 6, 0);
    struct weir_reconcile *r = run(b);
    CHECK_INT(r->corrections_count, 2);
    CHECK_STR(r->corrections[0].scope, "team");
    CHECK(r->corrections[1].scope == NULL);
    done(b, r);
}

/* Random books: corrections add up to the drift, and once booked nothing is left to correct. */
static void corrections__once_booked__leave_no_drift(void **state)
{
    (void)state;
    static const char *const models[] = {"m", "m-2024-08-06", "n-latest", "n-20250101", "o"};
    static const char *const keys[] = {"key_1", "key_2", "key_3"};
    static const char *const scopes_of[] = {"org", "team", "key", "tenant/x"};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, 1);
        struct books *b = plain(6);
        scope(b, "org", NULL);
        scope(b, "team", "org");
        scope(b, "key", "team");
        if (weir_rng_below(&rng, 2))
            maps(b, "key_1", "team", NULL);
        if (weir_rng_below(&rng, 2))
            maps(b, "key_2", NULL, "up");
        for (uint64_t i = 0, n = weir_rng_below(&rng, 40); i < n; i++)
            theirs_at(b, (int)weir_rng_below(&rng, 6), keys[weir_rng_below(&rng, 3)],
                      models[weir_rng_below(&rng, 5)], (int64_t)weir_rng_below(&rng, 1000),
                      (int64_t)weir_rng_below(&rng, 100));
        for (uint64_t i = 0, n = weir_rng_below(&rng, 40); i < n; i++) {
            struct weir_reconcile_use *use =
                ours_at(b, (int)weir_rng_below(&rng, 6), scopes_of[weir_rng_below(&rng, 4)],
                        models[weir_rng_below(&rng, 5)], (int64_t)weir_rng_below(&rng, 1000),
                        (int64_t)weir_rng_below(&rng, 100));
            use->estimated_tok = (int64_t)weir_rng_below(&rng, 50);
        }
        struct weir_reconcile *r = run(b);
        for (size_t k = 0; k < r->lines_count; k++) {
            int64_t input = r->lines[k].ours.input_tok, output = r->lines[k].ours.output_tok;
            for (size_t i = 0; i < r->corrections_count; i++) {
                input += r->corrections[i].line == k ? r->corrections[i].input_tok : 0;
                output += r->corrections[i].line == k ? r->corrections[i].output_tok : 0;
            }
            CHECK_MSG(input == r->lines[k].theirs.input_tok &&
                          output == r->lines[k].theirs.output_tok,
                      "seed %llu line %zu", (unsigned long long)seed, k);
        }
        bool is_known = true; /* all corrections have a scope to be booked on */
        for (size_t i = 0; i < r->corrections_count; i++)
            is_known &= r->corrections[i].scope != NULL;
        book(b, r);
        weir_reconcile_free(r);
        r = run(b);
        for (size_t i = 0; i < r->groups_count && is_known; i++)
            CHECK_MSG(r->groups[i].drift.total_ppm == 0, "seed %llu group %zu: %lld",
                      (unsigned long long)seed, i, (long long)r->groups[i].drift.total_ppm);
        CHECK_MSG(!is_known || r->corrections_count == 0, "seed %llu: %zu corrections left",
                  (unsigned long long)seed, r->corrections_count);
        done(b, r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drift__rounds_away_from_zero_and_keeps_its_sign),
        cmocka_unit_test(lines__equal_books__no_drift_nothing_to_correct),
        cmocka_unit_test(lines__less_than_the_provider_says__is_negative_and_corrected_upwards),
        cmocka_unit_test(lines__input_and_output_that_cancel_out__are_beyond),
        cmocka_unit_test(lines__drift_at_the_limit__is_within),
        cmocka_unit_test(windows__a_call_one_bucket_off__is_no_drift),
        cmocka_unit_test(windows__two_buckets_apart__is_drift_in_both),
        cmocka_unit_test(windows__buckets_with_a_hole_between__do_not_slip),
        cmocka_unit_test(windows__three_to_one_side__are_an_alarm_two_are_not),
        cmocka_unit_test(windows__minutes_days_and_parts_of_hours),
        cmocka_unit_test(windows__from_and_to__take_whole_buckets_only),
        cmocka_unit_test(groups__ids_of_scopes_and_upstreams__divide_both_sides),
        cmocka_unit_test(groups__nothing_mapped_and_two_upstreams__is_a_guess),
        cmocka_unit_test(groups__upstreams_of_another_provider__stay_out),
        cmocka_unit_test(groups__a_circle_of_scopes__ends),
        cmocka_unit_test(models__dates_at_the_end__are_known),
        cmocka_unit_test(models__same_name_first_then_dates),
        cmocka_unit_test(lapses__a_killed_call__is_written_off_and_what_was_used_is_booked),
        cmocka_unit_test(lapses__that_were_given_back__still_tell_whose_use_it_was),
        cmocka_unit_test(lapses__that_may_be_another_providers__are_left),
        cmocka_unit_test(corrections__go_to_whom_was_booked_by_estimate),
        cmocka_unit_test(corrections__more_than_was_estimated__is_taken_from_all),
        cmocka_unit_test(
            corrections__use_that_nobody_is_known_for__goes_to_the_mapped_scope_or_nobody),
        cmocka_unit_test(corrections__once_booked__leave_no_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

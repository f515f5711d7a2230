/* Books what a reconciliation found: adjustments with their reasons, never a change of what is there.
 *
 * Each adjustment leaves a usage row behind by which the next reconciliation knows of it. So a run
 * that stops half-way is finished by the next one, and a run repeated does nothing. */
#include "cli/commands.h"
#include "cli/ledger_reconcile.h"
#include "wire/dates.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REASON_BYTES_MAX 200

static int post(struct ledger_door *door, json_t *body)
{
    json_t *answer = NULL;
    if (!body) {
        fputs("weir ledger reconcile: not enough memory\n", stderr);
        return CLI_FAULT_STATUS;
    }
    int status = ledger_door_call(door, "POST", "/v1/ledger/adjust", body, &answer);
    json_decref(answer);
    json_decref(body);
    return status;
}

/* A name may be cut in the middle of a character, and a file's may be anything: a reason is plain. */
static void make_plain(char reason[static REASON_BYTES_MAX + 1])
{
    reason[REASON_BYTES_MAX] = '\0';
    for (; *reason; reason++)
        if (*reason < 0x20 || *reason > 0x7e)
            *reason = '?';
}

static const char *time_text(int64_t unix_s, char out[static 24])
{
    size_t n = weir_rfc3339_write(out, 23, unix_s * (int64_t)WEIR_NS_PER_S);
    out[n] = '\0';
    return out;
}

/* The first upstream of the configuration that can have served a line nobody of ours is known for. */
static const char *line_upstream(const struct weir_reconcile *r,
                                 const struct reconcile_books *books,
                                 const struct weir_reconcile_line *line)
{
    const struct weir_reconcile_group *group = &r->groups[line->group];
    if (line->upstream)
        return line->upstream;
    if (group->upstream)
        return group->upstream;
    for (size_t i = 0; i < books->upstreams_count; i++) {
        bool is_mapped = false;
        for (size_t k = 0; k < books->ids_count; k++)
            is_mapped |= books->ids[k].upstream &&
                         strcmp(books->ids[k].upstream, books->upstreams[i].name) == 0;
        if (books->upstreams[i].speaks[group->provider] && (group->scope || !is_mapped))
            return books->upstreams[i].name;
    }
    return weir_export_provider_name(group->provider);
}

static int adjust(struct ledger_door *door, const struct weir_reconcile *r,
                  const struct reconcile_books *books, const char *files,
                  const struct weir_reconcile_correction *c)
{
    const struct weir_reconcile_line *line = &r->lines[c->line];
    char reason[500], group[200], upstream[200], from[24], to[24];
    const char *model = line->ours_model ? line->ours_model : line->model;
    snprintf(upstream, sizeof upstream, WEIR_RECONCILE_PREFIX "%s", line_upstream(r, books, line));
    snprintf(reason, sizeof reason, "reconcile %.64s: %.40s, %.40s, %s to %s", files,
             reconcile_group_text(&r->groups[line->group], group), line->model,
             time_text(c->start_s, from), time_text(c->end_s, to));
    make_plain(reason);
    return post(door, json_pack("{s:s, s:I, s:s, s:{s:s, s:s, s:I, s:I, s:I}}", "scope", c->scope,
                                "tokens", (json_int_t)(c->input_tok + c->output_tok), "reason",
                                reason, "usage", "upstream", upstream, "model", model, "utc_hour",
                                (json_int_t)(c->start_s / 3600), "input_tok",
                                (json_int_t)c->input_tok, "output_tok", (json_int_t)c->output_tok));
}

/* An adjustment of nothing in all is none to the ledger: input and output are then booked apart. */
static int adjust_parts(struct ledger_door *door, const struct weir_reconcile *r,
                        const struct reconcile_books *books, const char *files,
                        const struct weir_reconcile_correction *c)
{
    struct weir_reconcile_correction input = *c, output = *c;
    if (c->input_tok + c->output_tok != 0)
        return adjust(door, r, books, files, c);
    input.output_tok = 0;
    output.input_tok = 0;
    int status = adjust(door, r, books, files, &input);
    return status == CLI_DONE_STATUS ? adjust(door, r, books, files, &output) : status;
}

int reconcile_apply(struct ledger_door *door, const struct weir_reconcile *r,
                    const struct reconcile_books *books, const char *files,
                    struct reconcile_applied *applied)
{
    for (size_t i = 0; i < r->lapses_count; i++) {
        const struct weir_reconcile_lapse *lapse = &books->lapses[r->lapses[i]];
        char reason[500];
        snprintf(reason, sizeof reason, "reconcile %.64s: the export tells what was really used",
                 files);
        make_plain(reason);
        int status = post(
            door, json_pack("{s:s, s:i, s:s}", "hold", lapse->hold, "tokens", 0, "reason", reason));
        if (status != CLI_DONE_STATUS)
            return status;
        applied->lapses++;
    }
    for (size_t i = 0; i < r->corrections_count; i++) {
        const struct weir_reconcile_correction *c = &r->corrections[i];
        if (!c->scope || reconcile_is_over(books, c))
            continue;
        int status = adjust_parts(door, r, books, files, c);
        if (status != CLI_DONE_STATUS) {
            fprintf(stderr,
                    "weir ledger reconcile: %zu of %zu corrections were booked before that; run it "
                    "again for the rest\n",
                    applied->corrections, r->corrections_count);
            return status;
        }
        int64_t tok = c->input_tok + c->output_tok;
        applied->corrections++;
        applied->raised_tok += weir_max_i64(tok, 0);
        applied->lowered_tok += weir_max_i64(-tok, 0);
    }
    return CLI_DONE_STATUS;
}

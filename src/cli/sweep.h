/* sweep: what `weir sweep` was asked for, what it came to, and how it is shown.
 *
 *   sweep.c       flags -> struct sweep_plan
 *   sweep_run.c   plan -> struct sweep_result, with the line of progress
 *   sweep_show.c  the table and what follows from it; sweep_json.c: JSON and CSV; sweep_draw.c: the
 *                 picture, alone or in a page; sweep_against.c: an older JSON beside this one
 *
 * Thread: main. */
#ifndef WEIR_CLI_SWEEP_H
#define WEIR_CLI_SWEEP_H

#include "measure/knee.h"
#include "measure/sweep.h"
#include "measure/verdict.h"
#include "wire/request.h"

#include <jansson.h>
#include <stdio.h>

enum { SWEEP_DIGEST_BYTES = 65, SWEEP_WHEN_BYTES = 24, SWEEP_STOP_BYTES = 1024 };

struct sweep_client {
    char name[64];
    struct weir_sweep_part part;
};

struct sweep_plan {
    struct weir_endpoint endpoint;
    char url[WEIR_ENDPOINT_TEXT_BYTES];
    const char *keys[WEIR_SWEEP_PARTS_MAX]; /* from the environment; shown nowhere */
    const char *key_names[WEIR_SWEEP_PARTS_MAX];
    uint32_t keys_count;
    const char *ca_file, *note, *payload_file; /* NULL: not given */
    uint64_t timeout_ns;

    char *body;
    size_t body_bytes;
    char digest[SWEEP_DIGEST_BYTES]; /* SHA-256 of it */
    char model[WEIR_MODEL_BYTES_MAX + 1];
    bool is_stream;
    uint64_t prompt_tok, output_tok; /* of a request: sent, and at most back; 0: unknown */

    uint32_t warm_up, bad_percent;
    uint32_t requests;                     /* of each run; 0: by its level */
    uint32_t levels[WEIR_KNEE_LEVELS_MAX]; /* rising */
    uint32_t levels_count;
    struct sweep_client clients[WEIR_SWEEP_PARTS_MAX]; /* instead of levels */
    uint32_t clients_count;
};

struct sweep_level {
    uint32_t planned;
    struct weir_sweep_figures figures;
};

struct sweep_result {
    int64_t begun_unix_s, ended_unix_s;
    enum weir_sweep_end end;
    char stop[SWEEP_STOP_BYTES]; /* why it ended before its plan did; "" when it did not */
    bool is_limit;               /* what stopped it are 429s: a finding, not a fault */
    char advertised[WEIR_LOAD_LIMITS_BYTES]; /* "name: value" lines */
    char failures[4096];                     /* a line for each kind of failure seen */
    uint64_t sent;                           /* in all, the warm-up too */
    uint64_t turn_max_ns; /* the longest that this machine's own work delayed a figure */
    struct weir_sweep_figures warm_up[2];

    struct sweep_level levels[WEIR_KNEE_LEVELS_MAX];
    uint32_t levels_count; /* begun */
    struct weir_knee knee;

    struct weir_sweep_figures light, alone[WEIR_SWEEP_PARTS_MAX];
    struct weir_sweep_figures together[WEIR_SWEEP_PARTS_MAX + 1];
    bool has_clients; /* all runs of the clients were made */
    struct weir_verdict verdict;
};

/* Requests of a level, of a client's run alone, of all together; and of the whole plan. */
uint32_t sweep_level_requests(const struct sweep_plan *plan, uint32_t in_flight);
uint32_t sweep_client_requests(const struct sweep_plan *plan, uint32_t in_flight);
uint64_t sweep_all_requests(const struct sweep_plan *plan);
/* Of requests one at a time before clients are compared. */
#define SWEEP_LIGHT_REQUESTS 16u

/* Runs it. Fails: false, nothing was sent; said on stderr. */
WEIR_MUST_USE bool sweep_run(const struct sweep_plan *plan, struct sweep_result *result);

/* The instant as "2025-11-30T00:00:38Z". Returns out. */
const char *sweep_when(int64_t unix_s, char out[static SWEEP_WHEN_BYTES]);
/* "429 x3, cut x1"; "" when all ended well. Returns out. */
const char *sweep_errors(const struct weir_sweep_figures *figures, char *out, size_t bytes);
/* A sentence on the knee, and one on the verdict with its evidence. Returns out. */
const char *sweep_knee_text(const struct sweep_result *result, char *out, size_t bytes);
const char *sweep_verdict_text(const struct sweep_plan *plan, const struct sweep_result *result,
                               char *out, size_t bytes);
/* For whom limits hold. */
const char *sweep_caps_text(const struct sweep_result *result);

/* What will be sent and what it may cost, on stderr. */
void sweep_show_plan(const struct sweep_plan *plan);
/* The tables; against: an older result's JSON or NULL. */
void sweep_show(const struct sweep_plan *plan, const struct sweep_result *result,
                const json_t *against);

/* against: an older result or NULL, as below. NULL: out of memory. Owned by the caller. */
json_t *sweep_json(const struct sweep_plan *plan, const struct sweep_result *result,
                   const json_t *against);
/* Reads what --json once printed for the same kind of sweep: of levels, or of clients. NULL: said on
 * stderr. Owned by the caller. */
json_t *sweep_read_json(const char *path, const struct sweep_plan *plan);
/* What two results of one kind have in common, side by side: docs/sweep.md, "Then and now". NULL: out
 * of memory. Owned by the caller. */
json_t *sweep_compare(const json_t *then, const json_t *now);
/* The same as tables. */
void sweep_show_against(const struct sweep_plan *plan, const struct sweep_result *result,
                        const json_t *then);
/* The client of that name in a result; NULL: none (also of NULL). */
const json_t *sweep_old_client(const json_t *then, const char *name);
bool sweep_is_same_payload(const struct sweep_plan *plan, const json_t *then);
/* A member that is a number; NaN: it is not there, or null. */
double sweep_number(const json_t *object, const char *name);
/* How a file of each kind begins, by which an older one is known again; a picture: chart.h. */
#define SWEEP_CSV_BEGIN "begun,host,payload_sha256,client,run,in_flight,"
#define SWEEP_PAGE_BEGIN                                                                           \
    "<!doctype html>\n<html lang=en><meta charset=utf-8>\n"                                        \
    "<meta name=viewport content='width=device-width'>\n<title>weir sweep of "
/* Each false with errno: not written. */
WEIR_MUST_USE bool sweep_write_csv(const struct sweep_plan *plan, const struct sweep_result *result,
                                   FILE *out);
WEIR_MUST_USE bool sweep_draw(const struct sweep_plan *plan, const struct sweep_result *result,
                              const json_t *against, FILE *out);
WEIR_MUST_USE bool sweep_draw_page(const struct sweep_plan *plan, const struct sweep_result *result,
                                   const json_t *against, FILE *out);

#endif

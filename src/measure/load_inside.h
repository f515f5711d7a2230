/* load_inside: what load.c (sending) and load_answer.c (reading) share. */
#ifndef WEIR_MEASURE_LOAD_INSIDE_H
#define WEIR_MEASURE_LOAD_INSIDE_H

#include "measure/load.h"
#include "net/client.h"
#include "wire/usage.h"

#define LOAD_LENGTH_BYTES 24 /* "18446744073709551615\r\n\r\n" */

struct load_call {
    struct weir_load *load;
    struct weir_call *call; /* NULL: free */
    struct load_call *next_free;
    void *user;
    struct weir_load_record record;
    struct weir_usage usage;
    struct weir_hints hints;
    uint64_t answer_bytes;
    bool is_html, is_coded; /* by its head: a web page; in a coding that was not offered */
    char length[LOAD_LENGTH_BYTES];
    char location[WEIR_LOAD_DETAIL_BYTES / 2]; /* of a redirect */
};

struct load_key {
    char *text;             /* NULL: none */
    struct weir_slice head; /* everything before the length of the body; malloc'ed */
};

struct weir_load {
    struct weir_loop *loop;
    struct weir_client *client;
    struct weir_target *target;
    struct weir_endpoint endpoint;
    struct weir_load_timeouts timeouts;
    weir_load_ended_fn *ended;
    void *ctx;
    struct load_key *keys;
    uint32_t keys_count;
    struct load_call *calls, *free_calls;
    uint32_t in_flight_max;
    bool is_stopped;
    struct weir_hook turn_hook;
    struct weir_load_view view;
    char first_detail[WEIR_LOAD_END_COUNT][WEIR_LOAD_DETAIL_BYTES];
    char advertised[WEIR_LOAD_LIMITS_BYTES];
};

extern const struct weir_call_handler load_handler;

/* Makes the record whole, gives the call back and tells the caller. result NULL: it was
 * cancelled. */
void load_call_over(struct load_call *c, const struct weir_call_result *result);

#endif

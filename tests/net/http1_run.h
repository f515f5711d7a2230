/* http1_run: one message through the parser and the body decoder, fed in pieces of any size.
 *
 * What comes out may depend on the bytes alone. The tests run each message whole, byte by byte and
 * at every split, and compare the outcomes with http1_run_same. */
#ifndef WEIR_TESTS_NET_HTTP1_RUN_H
#define WEIR_TESTS_NET_HTTP1_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "net/http1.h"
#include "net/http1_body.h"

#define HTTP1_RUN_BODY_MAX 8192  /* a longer body is cut in the outcome, not in the run */
#define HTTP1_RUN_INTERIM_MAX 8  /* 1xx heads before the response proper */
#define HTTP1_RUN_BYTE_BY_BYTE 1 /* as first_bytes and more_bytes */
#define HTTP1_RUN_WHOLE ((size_t)-1)

struct http1_run_input {
    bool response;
    enum weir_http_method method; /* of the request that a response answers */
    const char *at;
    size_t bytes;
    size_t head_bytes_max, body_bytes_max; /* 0: 64 KiB, 1 MiB */
    bool eof;                              /* the connection ends after the input */
};

struct http1_run {
    enum weir_http_parse answer;
    enum weir_http_fault fault;
    bool head_done; /* the head is set */
    struct weir_http_head head;
    size_t head_at;  /* where it starts: after interim responses */
    size_t consumed; /* DONE: bytes of the message, interim responses included */
    int interims;
    size_t body_bytes;
    char body[HTTP1_RUN_BODY_MAX];
};

/* Feeds the first first_bytes, then more_bytes at a time. */
void http1_run(struct http1_run *run, const struct http1_run_input *in, size_t first_bytes,
               size_t more_bytes);

/* True if both say the same; else *what names the first difference. */
bool http1_run_same(const struct http1_run *a, const struct http1_run *b, const char **what);

/* Runs in whole, byte by byte and at every stride-th split (1: all of them). True if all agree;
 * *run is the whole one, *what and *split tell of the difference. */
bool http1_run_splits(struct http1_run *run, const struct http1_run_input *in, size_t stride,
                      const char **what, size_t *split);

#endif

/* ledger_http: one request at a time to the admin API of a running gateway. Thread: main. */
#ifndef WEIR_CLI_LEDGER_HTTP_H
#define WEIR_CLI_LEDGER_HTTP_H

#include "core/base.h"

struct ledger_http;

/* address      "host:port", or "http://host:port", or "https://host:port"
 * token        copied
 * patience_ns  for the answer to begin, and between its bytes
 *
 * Owns: the caller.   Fails: NULL and error_text. Nothing is connected yet. */
WEIR_MUST_USE struct ledger_http *ledger_http_open(const char *address, const char *token,
                                                   uint64_t patience_ns, char *error_text,
                                                   size_t error_bytes);
void ledger_http_close(struct ledger_http *h); /* NULL is fine */
/* "http://127.0.0.1:8766" */
const char *ledger_http_url(const struct ledger_http *h);

/* Sends and waits. body NULL: a GET.
 *
 * *text  the answer's body with a NUL behind it; valid until the next request
 *
 * The HTTP status, or 0 with error_text: nobody answers there (*sent: the request may have arrived
 * all the same, so that what it asked for may have been done). */
WEIR_MUST_USE uint32_t ledger_http_ask(struct ledger_http *h, const char *target, const char *body,
                                       const char **text, bool *sent, char *error_text,
                                       size_t error_bytes);

#endif

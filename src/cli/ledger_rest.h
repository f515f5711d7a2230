/* ledger_rest: the ledger's service in this process, on a file that no gateway has.
 *
 * Thread: main. */
#ifndef WEIR_CLI_LEDGER_REST_H
#define WEIR_CLI_LEDGER_REST_H

#include "gateway/config.h"

#include <jansson.h>

struct ledger_rest;

/* path and config are borrowed until close. NULL: out of memory. Nothing is opened yet. */
WEIR_MUST_USE struct ledger_rest *ledger_rest_open(const char *path,
                                                   const struct weir_config *config);
/* Waits until what was written is durable. NULL is fine. */
void ledger_rest_close(struct ledger_rest *rest);

/* As ledger_http_ask, in place of the network: the status with *answer (the caller's), or 0 with
 * error_text when the store could not be opened. body NULL: a GET. */
WEIR_MUST_USE uint32_t ledger_rest_ask(struct ledger_rest *rest, const char *target,
                                       const json_t *body, json_t **answer, char *error_text,
                                       size_t error_bytes);

struct ledger_made {
    uint32_t scopes;
    uint64_t sync_ns; /* one sync of the disk; 0: it was not measured */
};

/* Makes a file at path, where none is, with the scopes of the configuration. false: error_text;
 * some files may be there then. */
WEIR_MUST_USE bool ledger_rest_make(const char *path, const struct weir_config *config,
                                    struct ledger_made *made, char *error_text, size_t error_bytes);
/* Uses a file that is older than its lock file says. *epoch: the one that begins by this. */
WEIR_MUST_USE bool ledger_rest_adopt(const char *path, const struct weir_config *config,
                                     uint64_t *epoch, char *error_text, size_t error_bytes);

#endif

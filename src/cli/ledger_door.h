/* ledger_door: the one way from a command to a ledger, wherever it is.
 *
 *   the ledger's lock is taken, or --admin is given --> the admin API of the gateway that has it
 *   nobody has it                                   --> the file itself, by the same service
 *
 * Both ends are gateway/ledger_service.h, so a command cannot tell them apart: it calls a path and
 * gets JSON. At rest, reading leaves the file as it is; the first POST opens the store as a gateway
 * would (a new epoch: what an earlier run left held lapses).
 *
 * Where the ledger is: -c FILE, else the defaults, say the path and the admin address; --ledger and
 * --admin say otherwise. Trouble is said on stderr here, with the command's name. Thread: main. */
#ifndef WEIR_CLI_LEDGER_DOOR_H
#define WEIR_CLI_LEDGER_DOOR_H

#include "cli/args.h"
#include "gateway/config.h"

#include <jansson.h>

/* The options of every command with a door, for its table. */
#define LEDGER_DOOR_OPTIONS                                                                        \
    {"--config", "FILE", "the gateway's configuration; without one, the embedded default", "-c"},  \
        {"--ledger", "PATH", "the ledger's file, when it is not the configuration's", NULL},       \
        {"--admin", "A:P",                                                                         \
         "the admin address of a running gateway (also http://A:P), when it is not the "           \
         "configuration's",                                                                        \
         NULL},                                                                                    \
    {                                                                                              \
        "--token-file", "FILE", "the admin token, when it is not in the state directory", NULL     \
    }

struct ledger_door;

/* Finds the ledger by the options above. command->options must have them.
 *
 * Owns:   the caller, until ledger_door_close.
 * Fails:  NULL; what is wrong was said, and *status is the exit status (2 or 3). */
WEIR_MUST_USE struct ledger_door *ledger_door_open(const struct cli_command *command,
                                                   const struct cli_args *args, int *status);
void ledger_door_close(struct ledger_door *door); /* NULL is fine */

/* The configuration by --config and --ledger, which command->options must have; the caller's to
 * free. NULL: it is not right, and that was said. */
WEIR_MUST_USE struct weir_config *ledger_door_load(const struct cli_command *command,
                                                   const struct cli_args *args);

/* The configuration that told where the ledger is. Lives as long as the door. */
const struct weir_config *ledger_door_config(const struct ledger_door *door);
/* Whether a running gateway answers. */
bool ledger_door_is_live(const struct ledger_door *door);
/* The ledger's file; NULL: a memory ledger, or a gateway elsewhere (--admin). */
const char *ledger_door_file(const struct ledger_door *door);

/* One request: "GET" or "POST", a path of gateway/ledger_service.h with its query, and for POST a
 * body, which stays the caller's.
 *
 * *answer  on CLI_DONE_STATUS the answer, the caller's to json_decref; NULL otherwise
 *
 * Gives:   CLI_DONE_STATUS, or the exit status after saying what is wrong: CLI_USAGE_STATUS for
 *          what the ledger refuses (4xx), CLI_FAULT_STATUS for what failed. */
WEIR_MUST_USE int ledger_door_call(struct ledger_door *door, const char *method, const char *path,
                                   const json_t *body, json_t **answer);

/* Builds a path with its query, percent-encoded. */
struct ledger_path {
    char text[2048];
    size_t bytes;
};
void ledger_path_start(struct ledger_path *path, const char *text);
/* Adds name=value; a value of NULL is left out. */
void ledger_path_add(struct ledger_path *path, const char *name, const char *value);

#endif

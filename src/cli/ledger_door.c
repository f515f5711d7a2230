#include "cli/ledger_door.h"

#include "cli/commands.h"
#include "cli/ledger_http.h"
#include "cli/ledger_lock.h"
#include "cli/ledger_rest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOOR_TOKEN_BYTES 128
#define DOOR_LOOK_NS WEIR_NS_PER_S
#define DOOR_ANSWER_NS (30 * WEIR_NS_PER_S) /* the gateway itself gives up after 20 s */

struct ledger_door {
    const char *command; /* "weir ledger show": before every message */
    struct weir_config *config;
    struct ledger_http *live; /* one of the two */
    struct ledger_rest *rest;
    const char *file; /* of the configuration; NULL: none that this machine can say */
    const char *token_file;
    char token_path[4200];
};

/* ---- where it is ---- */

struct weir_config *ledger_door_load(const struct cli_command *command, const struct cli_args *args)
{
    const char *ledger = cli_value(command, args, "--ledger");
    struct weir_config_flag flag = {"--ledger", ledger};
    struct weir_config_problems problems = {0};
    const struct weir_config_source from = {.file = cli_value(command, args, "--config"),
                                            .flags = &flag,
                                            .flags_count = ledger != NULL,
                                            .no_secrets = true};
    struct weir_config *config = weir_config_load(&from, &problems);
    if (!config)
        cli_print_problems(&problems); /* warnings alone are the business of weir check */
    weir_config_problems_free(&problems);
    return config;
}

/* The token of the admin API. The path is kept for messages. */
static bool read_token(struct ledger_door *door, const char *token_file,
                       char token[static DOOR_TOKEN_BYTES])
{
    if (!token_file && !door->config->state_dir) {
        fprintf(stderr,
                "%s: no state directory to take the admin token from: set WEIR_STATE, or "
                "give --token-file FILE\n",
                door->command);
        return false;
    }
    if (token_file)
        snprintf(door->token_path, sizeof door->token_path, "%s", token_file);
    else
        snprintf(door->token_path, sizeof door->token_path, "%.4000s/admin.token",
                 door->config->state_dir);
    FILE *file = fopen(door->token_path, "re");
    bool got = file && fgets(token, DOOR_TOKEN_BYTES, file) != NULL;
    if (!got)
        fprintf(stderr, "%s: the admin token cannot be read from %s: %s%s\n", door->command,
                door->token_path, file ? "it is empty" : strerror(errno),
                token_file ? ""
                           : "; run this as the gateway's user, set WEIR_STATE to its state "
                             "directory, or give --token-file FILE");
    if (file)
        fclose(file);
    if (got)
        token[strcspn(token, "\r\n \t")] = '\0';
    return got;
}

static int open_live(struct ledger_door *door, const char *address, const char *token_file)
{
    char token[DOOR_TOKEN_BYTES] = "", error_text[512];
    if (!read_token(door, token_file, token))
        return CLI_USAGE_STATUS;
    door->live = ledger_http_open(address, token, DOOR_ANSWER_NS, error_text, sizeof error_text);
    explicit_bzero(token, sizeof token);
    if (door->live)
        return CLI_DONE_STATUS;
    fprintf(stderr, "%s: %s\n", door->command, error_text);
    return CLI_USAGE_STATUS;
}

/* Whether the gateway that answers is the one that has our file: it would be a pity to change the
 * budgets of another. */
static int check_same(struct ledger_door *door, int pid)
{
    struct stat ours, theirs;
    json_t *answer = NULL;
    int status = ledger_door_call(door, "GET", "/v1/ledger?limit=1", NULL, &answer);
    if (status != CLI_DONE_STATUS) {
        fprintf(
            stderr,
            "%s: the ledger %s is in use by process %d; if the admin address of that gateway is "
            "another, give it with --admin A:P\n",
            door->command, door->file, pid);
        return status;
    }
    const char *path = json_string_value(json_object_get(json_object_get(answer, "store"), "path"));
    bool same = path && stat(door->file, &ours) == 0 && stat(path, &theirs) == 0 &&
                ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
    if (!same)
        fprintf(stderr,
                "%s: the ledger %s is in use by process %d, but the gateway at %s has another one "
                "(%s): "
                "give the right admin address with --admin A:P\n",
                door->command, door->file, pid, ledger_http_url(door->live),
                path ? path : "in memory");
    json_decref(answer);
    return same ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
}

/* false: the configuration leaves the port to chance. */
static bool admin_address(const struct ledger_door *door, char *out, size_t out_bytes)
{
    const struct weir_config_addr *admin = &door->config->admin;
    snprintf(out, out_bytes, strchr(admin->host, ':') ? "[%s]:%u" : "%s:%u", admin->host,
             admin->port);
    return admin->port != 0;
}

static int open_configured_live(struct ledger_door *door, const char *token_file)
{
    char address[300];
    if (!admin_address(door, address, sizeof address)) {
        fprintf(stderr,
                "%s: the configuration leaves the gateway's admin port to chance: give it "
                "with --admin A:P\n",
                door->command);
        return CLI_USAGE_STATUS;
    }
    return open_live(door, address, token_file);
}

/* Whether somebody is at the configured admin address. Who takes a request and does not answer it,
 * as a gateway that is stopped, is there all the same. */
static bool is_answered(const struct ledger_door *door)
{
    char address[300], error_text[400];
    const char *text;
    bool sent = false;
    if (!admin_address(door, address, sizeof address))
        return false;
    struct ledger_http *h =
        ledger_http_open(address, "", DOOR_LOOK_NS, error_text, sizeof error_text);
    uint32_t status =
        h ? ledger_http_ask(h, "/healthz", NULL, &text, &sent, error_text, sizeof error_text) : 0;
    ledger_http_close(h);
    return status != 0 || sent;
}

/* Who has the ledger. Another command that changes it at rest has it for a moment only, and answers
 * nowhere: it is waited for. */
static enum ledger_lock wait_for_owner(const struct ledger_door *door,
                                       struct ledger_lock_line *line)
{
    struct ledger_lock_wait wait = {0};
    enum ledger_lock lock = ledger_lock_look(door->file, line);
    while (lock == LEDGER_LOCK_TAKEN && !is_answered(door) && ledger_lock_wait(&wait, door->file))
        lock = ledger_lock_look(door->file, line);
    return lock;
}

static int open_file(struct ledger_door *door, const char *token_file)
{
    struct ledger_lock_line line;
    if (access(door->file, F_OK) != 0) {
        if (errno == ENOENT)
            fprintf(stderr,
                    "%s: there is no ledger at %s: weir ledger init makes one, and so does "
                    "the first weir serve\n",
                    door->command, door->file);
        else
            fprintf(stderr, "%s: the ledger %s cannot be reached: %s\n", door->command, door->file,
                    strerror(errno));
        return CLI_USAGE_STATUS;
    }
    switch (wait_for_owner(door, &line)) {
    case LEDGER_LOCK_TAKEN: {
        int status = open_configured_live(door, token_file);
        return status == CLI_DONE_STATUS ? check_same(door, line.pid) : status;
    }
    case LEDGER_LOCK_UNKNOWN:
        fprintf(stderr,
                "%s: nobody can tell whether a gateway has the ledger %s: its lock file "
                "%s.lock cannot be looked at (%s); run this as the gateway's user\n",
                door->command, door->file, door->file, strerror(errno));
        return CLI_USAGE_STATUS;
    case LEDGER_LOCK_FREE:
        break;
    }
    door->rest = ledger_rest_open(door->file, door->config);
    if (door->rest)
        return CLI_DONE_STATUS;
    fprintf(stderr, "%s: out of memory\n", door->command);
    return CLI_FAULT_STATUS;
}

static int open_any(struct ledger_door *door, const struct cli_command *command,
                    const struct cli_args *args)
{
    const char *admin = cli_value(command, args, "--admin");
    const char *token_file = cli_value(command, args, "--token-file");
    if (admin && cli_value(command, args, "--ledger")) {
        fprintf(stderr, "%s: --admin names a gateway and --ledger a file: give one\n",
                door->command);
        return CLI_USAGE_STATUS;
    }
    door->config = ledger_door_load(command, args);
    if (!door->config)
        return CLI_USAGE_STATUS;
    if (admin)
        return open_live(door, admin, token_file);
    if (door->config->ledger.in_memory)
        return open_configured_live(door, token_file);
    door->file = door->config->ledger.path;
    if (!door->file) {
        fprintf(stderr,
                "%s: no state directory, so no ledger: set WEIR_STATE, or give --ledger "
                "PATH\n",
                door->command);
        return CLI_USAGE_STATUS;
    }
    return open_file(door, token_file);
}

struct ledger_door *ledger_door_open(const struct cli_command *command, const struct cli_args *args,
                                     int *status)
{
    struct ledger_door *door = calloc(1, sizeof *door);
    if (!door) {
        fprintf(stderr, "%s: out of memory\n", command->name);
        *status = CLI_FAULT_STATUS;
        return NULL;
    }
    door->command = command->name;
    *status = open_any(door, command, args);
    if (*status == CLI_DONE_STATUS)
        return door;
    ledger_door_close(door);
    return NULL;
}

void ledger_door_close(struct ledger_door *door)
{
    if (!door)
        return;
    ledger_http_close(door->live);
    ledger_rest_close(door->rest);
    weir_config_free(door->config);
    free(door);
}

const struct weir_config *ledger_door_config(const struct ledger_door *door)
{
    return door->config;
}

bool ledger_door_is_live(const struct ledger_door *door)
{
    return door->live != NULL;
}

const char *ledger_door_file(const struct ledger_door *door)
{
    return door->file;
}

/* ---- calls ---- */

static uint32_t ask_live(struct ledger_door *door, const char *path, const json_t *body,
                         json_t **answer)
{
    char error_text[400];
    const char *text = "";
    bool sent = false;
    char *body_text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (body && !body_text) {
        fprintf(stderr, "%s: out of memory\n", door->command);
        return 0;
    }
    uint32_t status =
        ledger_http_ask(door->live, path, body_text, &text, &sent, error_text, sizeof error_text);
    free(body_text);
    if (status == 0)
        fprintf(stderr, "%s: no answer from the gateway at %s: %s%s\n", door->command,
                ledger_http_url(door->live), error_text,
                body && sent ? "; whether the change took effect is not known: look before you "
                               "repeat it"
                             : "");
    else if (status == 401)
        fprintf(stderr, "%s: the gateway at %s does not accept the token of %s\n", door->command,
                ledger_http_url(door->live), door->token_path);
    else if (!(*answer = json_loads(text, 0, NULL)))
        fprintf(stderr, "%s: what answers at %s is no weir admin API (status %u)\n", door->command,
                ledger_http_url(door->live), status);
    return status;
}

int ledger_door_call(struct ledger_door *door, const char *method, const char *path,
                     const json_t *body, json_t **answer)
{
    char error_text[600];
    uint32_t status = 0;
    *answer = NULL;
    WEIR_INVARIANT((strcmp(method, "POST") == 0) == (body != NULL));
    if (door->live) {
        status = ask_live(door, path, body, answer);
        if (!*answer)
            return status == 401 ? CLI_USAGE_STATUS : CLI_FAULT_STATUS;
    } else {
        status = ledger_rest_ask(door->rest, path, body, answer, error_text, sizeof error_text);
        if (status == 0) {
            fprintf(stderr, "%s: %s\n", door->command, error_text);
            return CLI_FAULT_STATUS;
        }
    }
    if (status / 100 == 2)
        return CLI_DONE_STATUS;
    const char *error = json_string_value(json_object_get(*answer, "error"));
    fprintf(stderr, "%s: %s\n", door->command, error ? error : "refused without a reason");
    json_decref(*answer);
    *answer = NULL;
    return status / 100 == 4 ? CLI_USAGE_STATUS : CLI_FAULT_STATUS;
}

void ledger_path_start(struct ledger_path *path, const char *text)
{
    path->bytes = (size_t)snprintf(path->text, sizeof path->text, "%s", text);
    WEIR_INVARIANT(path->bytes < sizeof path->text);
}

void ledger_path_add(struct ledger_path *path, const char *name, const char *value)
{
    static const char digits[] = "0123456789ABCDEF";
    if (!value)
        return;
    int used = snprintf(path->text + path->bytes, sizeof path->text - path->bytes,
                        "%c%s=", strchr(path->text, '?') ? '&' : '?', name);
    path->bytes += (size_t)used;
    for (; *value && path->bytes + 4 < sizeof path->text; value++) {
        unsigned char c = (unsigned char)*value;
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     strchr("-._~", c);
        if (!plain) {
            path->text[path->bytes++] = '%';
            path->text[path->bytes++] = digits[c >> 4];
            c = (unsigned char)digits[c & 15];
        }
        path->text[path->bytes++] = (char)c;
    }
    WEIR_INVARIANT(path->bytes + 4 < sizeof path->text || *value == '\0');
    path->text[path->bytes] = '\0';
}

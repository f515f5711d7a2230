/* weir ledger init, verify: the file itself. */
#include "cli/commands.h"
#include "cli/ledger.h"
#include "cli/ledger_door.h"
#include "cli/ledger_lock.h"
#include "cli/ledger_rest.h"
#include "cli/text.h"

#include "gateway/keys_file.h"
#include "store/reader.h"
#include "store/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const struct cli_option init_options[] = {
    {"--config", "FILE", "the gateway's configuration; without one, the embedded default", "-c"},
    {"--ledger", "PATH", "the ledger's file, when it is not the configuration's", NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command init_command = {
    .name = "weir ledger init",
    .usage = "[flags]",
    .summary = "Makes a ledger's file with the scopes of the configuration, and times the disk.",
    .help =
        "Not needed before weir serve, which makes the file itself. A file that is there is left "
        "alone.\n",
    .options = init_options,
    .options_count = WEIR_COUNT(init_options),
    .words_max = 0,
};

static const struct cli_option verify_options[] = {
    {"--config", "FILE", "the gateway's configuration; without one, the embedded default", "-c"},
    {"--ledger", "PATH", "the ledger's file, when it is not the configuration's", NULL},
    {"--adopt", NULL, "use this file from now on, although it is older than its lock file says",
     NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command verify_command = {
    .name = "weir ledger verify",
    .usage = "[FILE] [flags]",
    .summary = "Checks a ledger's file: every page, every change, every balance against its holds.",
    .help = "Works beside a running gateway too; nothing is changed (but by --adopt).\n\n"
            "Status 0: it is right. 1: it is not, and where. 2: there is none. 3: it could not be "
            "read.\n",
    .options = verify_options,
    .options_count = WEIR_COUNT(verify_options),
    .words_max = 1,
};

/* The configuration, and the path in it; NULL after saying why there is none. */
static struct weir_config *find_file(const struct cli_command *command, const struct cli_args *args,
                                     const char **path)
{
    struct weir_config *config = ledger_door_load(command, args);
    *path = config && !config->ledger.in_memory ? config->ledger.path : NULL;
    if (config && !*path)
        fprintf(stderr, "%s: %s\n", command->name,
                config->ledger.in_memory
                    ? "the configuration keeps the ledger in memory: give a file with --ledger PATH"
                    : "no state directory, so no ledger: set WEIR_STATE, or give --ledger PATH");
    if (*path)
        return config;
    weir_config_free(config);
    return NULL;
}

/* ---- init ---- */

/* Clears what a failed attempt has left, where nothing was before: but no ledger, and nothing that
 * somebody has, who may have come meanwhile. A lock file that was there before is what remembers a
 * ledger that is missing: it stays. */
static void remove_made(const char *path, bool had_lock)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal", ".sync", ".lock"};
    size_t count = WEIR_COUNT(ends) - had_lock;
    char file[4200], error_text[600];
    if (strlen(path) + 10 > sizeof file)
        return;
    snprintf(file, sizeof file, "%s.lock", path);
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        struct weir_reader *whole = weir_reader_open(path, error_text, sizeof error_text);
        for (size_t i = 0; !whole && i < count; i++) {
            snprintf(file, sizeof file, "%s%s", path, ends[i]);
            unlink(file);
        }
        weir_reader_close(whole);
    }
    close(fd);
}

static int init_file(const struct cli_args *args, const struct weir_config *config,
                     const char *path)
{
    struct weir_keys_error trouble;
    struct ledger_made made;
    struct ledger_lock_line line;
    char error_text[600], text[CLI_AMOUNT_BYTES];
    size_t dir_bytes = config->state_dir ? strlen(config->state_dir) : 0;
    if (access(path, F_OK) == 0) {
        fprintf(stderr, "%s: %s is there already, and stays as it is\n", init_command.name, path);
        return CLI_USAGE_STATUS;
    }
    if (dir_bytes && strncmp(path, config->state_dir, dir_bytes) == 0 && path[dir_bytes] == '/' &&
        !weir_state_make_dir(config->state_dir, &trouble)) {
        fprintf(stderr, "%s: %s\n", init_command.name, trouble.text);
        return CLI_USAGE_STATUS;
    }
    bool had_lock = ledger_lock_look(path, &line) != LEDGER_LOCK_FREE || line.epoch > 0;
    if (!ledger_rest_make(path, config, &made, error_text, sizeof error_text)) {
        fprintf(stderr, "%s: %s\n", init_command.name, error_text);
        remove_made(path, had_lock);
        return CLI_FAULT_STATUS;
    }
    if (cli_value(&init_command, args, "--json"))
        return cli_print_json(json_pack(
                   "{s:s, s:i, s:o}", "path", path, "scopes", (int)made.scopes, "sync_us",
                   made.sync_ns ? json_integer((json_int_t)(made.sync_ns / 1000)) : json_null()))
                   ? CLI_DONE_STATUS
                   : CLI_FAULT_STATUS;
    printf("made %s with %u scope%s\n", path, made.scopes, made.scopes == 1 ? "" : "s");
    if (made.sync_ns)
        printf("one sync of its disk takes %s: a reserve waits for about 1.6 of them\n",
               cli_micros((int64_t)(made.sync_ns / 1000), text));
    return CLI_DONE_STATUS;
}

int cli_ledger_init(int argc, char **argv)
{
    struct cli_args args;
    const char *path = NULL;
    enum cli_parsed parsed = cli_parse(&init_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    struct weir_config *config = find_file(&init_command, &args, &path);
    if (!config)
        return CLI_USAGE_STATUS;
    int status = init_file(&args, config, path);
    weir_config_free(config);
    return status;
}

/* ---- verify ---- */

/* Whether the lock file remembers more than the file has: then an older copy was put in its place.
 * Told only while nobody writes. */
static bool is_older(const char *path, const struct weir_verify_report *report, char *text,
                     size_t text_bytes)
{
    struct ledger_lock_line line;
    if (ledger_lock_look(path, &line) != LEDGER_LOCK_FREE ||
        (line.epoch <= report->epoch && (report->last_seq == 0 || line.seq <= report->last_seq)))
        return false;
    snprintf(text, text_bytes,
             "the file is older than %s.lock remembers (epoch %" PRIu64 ", row %" PRId64
             "; the file has epoch %" PRIu64 ", row %" PRId64 "): a backup was put in its place, "
             "and what was used since is not in it; weir ledger verify --adopt takes it as it is",
             path, line.epoch, line.seq, report->epoch, report->last_seq);
    return true;
}

static json_t *report_json(const char *path, const struct weir_verify_report *r, const char *older,
                           const char *trouble)
{
    json_t *holds = json_object(), *findings = json_array();
    for (int i = WEIR_HOLD_HELD; i < WEIR_HOLD_STATE_COUNT; i++)
        json_object_set_new(holds, weir_hold_state_name((enum weir_hold_state)i),
                            json_integer(r->holds[i]));
    for (uint32_t i = 0; i < r->findings_count; i++)
        json_array_append_new(findings, json_string(r->findings[i]));
    return json_pack("{s:s, s:b, s:I, s:o, s:s?, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
                     "path", path, "right", r->wrong == 0 && !older && !trouble, "wrong",
                     (json_int_t)r->wrong, "findings", findings, "older", older, "trouble", trouble,
                     "epoch", (json_int_t)r->epoch, "scopes", (json_int_t)r->scopes, "balances",
                     (json_int_t)r->balances, "journal_rows", (json_int_t)r->journal_rows,
                     "records", (json_int_t)r->records, "first_seq", (json_int_t)r->first_seq,
                     "last_seq", (json_int_t)r->last_seq, "holds", holds);
}

static void print_report(const char *path, const struct weir_verify_report *r, const char *older)
{
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES], c[CLI_AMOUNT_BYTES], d[CLI_AMOUNT_BYTES];
    int64_t holds = 0;
    for (int i = 0; i < WEIR_HOLD_STATE_COUNT; i++)
        holds += r->holds[i];
    for (uint32_t i = 0; i < r->findings_count; i++)
        printf("WRONG: %s\n", r->findings[i]);
    if (r->wrong > r->findings_count)
        printf("and %s more\n", cli_amount(r->wrong - r->findings_count, a));
    if (older)
        printf("OLDER: %s\n", older);
    if (r->wrong == 0)
        printf("%s: %s balances agree with %s holds and %s changes in %s journal rows (epoch "
               "%" PRIu64 ")\n",
               path, cli_amount(r->balances, a), cli_amount(holds, b), cli_amount(r->records, c),
               cli_amount(r->journal_rows, d), r->epoch);
    else
        printf("%s: NOT right; nothing was changed. Restore a backup and reconcile, or move the "
               "file away and begin anew\n",
               path);
}

/* is_missing: the ledger that the lock file knows is gone, and another begins in its place. */
static int adopt(const struct cli_args *args, const struct weir_config *config, const char *path,
                 bool is_missing)
{
    char error_text[600];
    uint64_t epoch = 0;
    if (!ledger_rest_adopt(path, config, &epoch, error_text, sizeof error_text)) {
        fprintf(stderr, "%s: %s\n", verify_command.name, error_text);
        return CLI_FAULT_STATUS;
    }
    if (!cli_value(&verify_command, args, "--json"))
        printf(is_missing ? "begun anew, as epoch %" PRIu64 ": nothing is spent\n"
                          : "taken as it is, as of epoch %" PRIu64 "\n",
               epoch);
    return CLI_DONE_STATUS;
}

static int verify_file(const struct cli_args *args, const struct weir_config *config,
                       const char *path)
{
    static struct weir_verify_report report;
    char error_text[600] = "", older_text[700];
    bool wants_adopt = cli_value(&verify_command, args, "--adopt") != NULL;
    bool read = weir_verify(path, &report, error_text, sizeof error_text);
    const char *older =
        read && is_older(path, &report, older_text, sizeof older_text) ? older_text : NULL;
    if (cli_value(&verify_command, args, "--json")) {
        if (!cli_print_json(report_json(path, &report, older, read ? NULL : error_text)))
            return CLI_FAULT_STATUS;
    } else if (read) {
        print_report(path, &report, older);
    } else {
        for (uint32_t i = 0; i < report.findings_count; i++)
            printf("WRONG: %s\n", report.findings[i]);
        fprintf(stderr, "%s: %s\n", verify_command.name, error_text);
    }
    if (!read)
        return report.wrong > 0 ? CLI_NO_STATUS : CLI_FAULT_STATUS;
    if (report.wrong > 0)
        return CLI_NO_STATUS;
    if (wants_adopt)
        return adopt(args, config, path, false);
    return older ? CLI_NO_STATUS : CLI_DONE_STATUS;
}

int cli_ledger_verify(int argc, char **argv)
{
    struct cli_args args;
    const char *path = NULL;
    enum cli_parsed parsed = cli_parse(&verify_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    struct weir_config *config = find_file(&verify_command, &args, &path);
    if (!config)
        return CLI_USAGE_STATUS;
    if (args.words_count)
        path = args.words[0];
    int status = CLI_USAGE_STATUS;
    struct ledger_lock_line line;
    int error = access(path, F_OK) == 0 ? 0 : errno;
    if (error == 0)
        status = verify_file(&args, config, path);
    else if (error == ENOENT && cli_value(&verify_command, &args, "--adopt") &&
             ledger_lock_look(path, &line) == LEDGER_LOCK_FREE && line.epoch > 0)
        status = adopt(&args, config, path, true);
    else
        fprintf(stderr, "%s: %s %s: %s\n", verify_command.name,
                errno == ENOENT ? "there is no ledger at" : "the ledger cannot be reached:", path,
                strerror(error));
    weir_config_free(config);
    return status;
}

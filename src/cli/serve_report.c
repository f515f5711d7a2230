#include "cli/serve_report.h"

#include "cli/out_file.h"
#include "cli/text.h"
#include "gateway/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPORT_TENANTS_SHOWN 10u
/* How older reports begin. */
#define REPORT_JSON_BEGIN "{\n  \"form\": "
#define REPORT_TEXT_BEGIN "weir "

/* ---- files ---- */

const char *cli_serve_path_problem(const char *path, const char *begins)
{
    struct stat about;
    if (!*path)
        return "the name is empty";
    if (lstat(path, &about) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (S_ISREG(about.st_mode))
        return cli_out_problem(path, begins);
    if (S_ISDIR(about.st_mode))
        return "it is a folder";
    return S_ISLNK(about.st_mode) ? "it is a symbolic link: name the file itself"
                                  : "it is there, and is not a plain file";
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        text += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool cli_serve_write(const char *path, const char *text, size_t bytes, bool sync)
{
    char *aside;
    if (asprintf(&aside, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        errno = ENOMEM;
        return false;
    }
    int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == EEXIST &&
        unlink(aside) == 0) /* of a process that died with our number */
        fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    bool done = fd >= 0 && write_all(fd, text, bytes) && (!sync || fsync(fd) == 0);
    int trouble = errno;
    if (fd >= 0 && close(fd) != 0 && done) {
        done = false;
        trouble = errno;
    }
    if (done && rename(aside, path) != 0) {
        done = false;
        trouble = errno;
    }
    if (fd >= 0 && !done)
        unlink(aside);
    free(aside);
    errno = trouble;
    return done;
}

/* ---- the text ---- */

static double real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* Seconds as "0.4 s", or as "2m 5s" from a minute on. */
static const char *brief(double seconds, char out[static CLI_AMOUNT_BYTES])
{
    if (seconds >= 60)
        return cli_span((int64_t)seconds, out);
    snprintf(out, CLI_AMOUNT_BYTES, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
    return out;
}

static void print_counts(FILE *to, const json_t *object, const char *none)
{
    const char *name, *before = "";
    json_t *count;
    char text[CLI_AMOUNT_BYTES];
    json_object_foreach((json_t *)object, name, count)
    {
        fprintf(to, "%s%s x %s", before, cli_amount(json_integer_value(count), text), name);
        before = ", ";
    }
    fputs(*before ? "" : none, to);
}

/* Every try is in one of these: what clients repeat is a try each time. */
static const struct {
    const char *name, *text;
} fates[] = {{"answered", "answered"},
             {"refused", "refused"},
             {"replayed", "answered from an idempotency key"},
             {"unanswered", "left before an answer"},
             {"under_way", "still under way"}};

static int64_t sum_of(const json_t *value)
{
    const char *name;
    json_t *count;
    int64_t sum = json_integer_value(value);
    json_object_foreach((json_t *)value, name, count) sum += json_integer_value(count);
    return sum;
}

/* "53 tries: 25 answered, 28 refused"; answered and refused are always told. */
static void put_tries(FILE *to, const json_t *object)
{
    char amount[CLI_AMOUNT_BYTES];
    int64_t tries = cli_json_int(object, "tries");
    fprintf(to, "%s %s: ", cli_amount(tries, amount), tries == 1 ? "try" : "tries");
    for (size_t i = 0; i < WEIR_COUNT(fates); i++) {
        int64_t count = sum_of(json_object_get(object, fates[i].name));
        if (count > 0 || i < 2)
            fprintf(to, "%s%s %s", i ? ", " : "", cli_amount(count, amount), fates[i].text);
    }
}

static void print_tries(FILE *to, const json_t *requests)
{
    int64_t refused = sum_of(json_object_get(requests, "refused"));
    fputs("asked      ", to);
    put_tries(to, requests);
    fputs(refused > 0 ? "; a client that was refused and asks again is another try\n" : "\n", to);
}

static void print_requests(FILE *to, const json_t *report)
{
    const json_t *requests = json_object_get(report, "requests");
    const json_t *waiting = json_object_get(report, "waiting");
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES], c[CLI_AMOUNT_BYTES];
    print_tries(to, requests);
    fputs("answered   ", to);
    print_counts(to, json_object_get(requests, "answered"), "nothing");
    fputs("\nrefused    ", to);
    print_counts(to, json_object_get(requests, "refused"), "nothing");
    fputc('\n', to);
    static const struct {
        const char *name, *text;
    } others[] = {{"cut", "cut after they began"},
                  {"clients_gone", "clients gone before the end"},
                  {"repeats_by_clients", "tries that a client called a repeat"}};
    for (size_t i = 0; i < WEIR_COUNT(others); i++)
        if (cli_json_int(requests, others[i].name) > 0)
            fprintf(to, "           %s: %s\n", others[i].text,
                    cli_amount(cli_json_int(requests, others[i].name), a));
    if (cli_json_int(requests, "tries") == 0)
        fputs("           nobody asked: have clients this gateway's address as their base URL?\n",
              to);
    fprintf(to, "waited     %s of %s noticeably; half at most %s, 95 %% at most %s",
            cli_amount(cli_json_int(waiting, "noticeably"), a),
            cli_amount(cli_json_int(waiting, "dispatched"), b),
            brief(real_of(waiting, "p50_s"), (char[CLI_AMOUNT_BYTES]){0}),
            brief(real_of(waiting, "p95_s"), c));
    fprintf(to, ", longest %s; at most %s at once\n", brief(real_of(waiting, "max_s"), a),
            cli_amount(cli_json_int(waiting, "longest_queue"), b));
}

static void print_tokens(FILE *to, const json_t *tokens)
{
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES], c[CLI_AMOUNT_BYTES];
    fprintf(to, "tokens     %s in, %s out; %s charged",
            cli_amount(cli_json_int(tokens, "input"), a),
            cli_amount(cli_json_int(tokens, "output"), b),
            cli_amount(cli_json_int(tokens, "charged"), c));
    if (cli_json_int(tokens, "estimated_requests") > 0)
        fprintf(to, ", %s x by estimate",
                cli_amount(cli_json_int(tokens, "estimated_requests"), a));
    if (cli_json_int(tokens, "overruns") > 0)
        fprintf(to, "; %s x beyond a budget, %s x cut",
                cli_amount(cli_json_int(tokens, "overruns"), a),
                cli_amount(cli_json_int(tokens, "overruns_cut"), b));
    fputc('\n', to);
}

static void print_upstream(FILE *to, const json_t *upstream)
{
    const json_t *pauses = json_object_get(upstream, "answered_429");
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES];
    fprintf(to, "upstream   %s: %s x called, %s x failed", cli_json_text(upstream, "name"),
            cli_amount(cli_json_int(upstream, "calls"), a),
            cli_amount(cli_json_int(upstream, "failed"), b));
    if (json_object_size(json_object_get(upstream, "not_answered")) > 0) {
        fputs(" (", to);
        print_counts(to, json_object_get(upstream, "not_answered"), "");
        fputc(')', to);
    }
    fprintf(to, ", %s x 429", cli_amount(cli_json_int(pauses, "count"), a));
    if (cli_json_int(pauses, "count") > 0 && cli_json_int(pauses, "with_hint") == 0)
        fputs(" (no hint)", to);
    else if (cli_json_int(pauses, "with_hint") > 0)
        fprintf(to, " (%s with a hint, %s to %s)", cli_amount(cli_json_int(pauses, "with_hint"), b),
                brief(real_of(pauses, "hint_min_s"), (char[CLI_AMOUNT_BYTES]){0}),
                brief(real_of(pauses, "hint_max_s"), (char[CLI_AMOUNT_BYTES]){0}));
    fprintf(to, ", breaker %s x opened\n", cli_amount(cli_json_int(upstream, "breaker_opened"), a));
}

/* Most tokens first, then most requests, then by name. */
static int by_use(const void *left, const void *right)
{
    const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;
    int64_t used_a = cli_json_int(a, "input") + cli_json_int(a, "output");
    int64_t used_b = cli_json_int(b, "input") + cli_json_int(b, "output");
    if (used_a == used_b) {
        used_a = cli_json_int(a, "tries");
        used_b = cli_json_int(b, "tries");
    }
    if (used_a != used_b)
        return used_a < used_b ? 1 : -1;
    return strcmp(cli_json_text(a, "name"), cli_json_text(b, "name"));
}

static void print_tenants(FILE *to, const json_t *report)
{
    const json_t *tenants = json_object_get(report, "tenants");
    size_t count = json_array_size(tenants);
    json_t **sorted = calloc(count + 1, sizeof(json_t *));
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES];
    if (!sorted)
        return;
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(tenants, i);
    qsort(sorted, count, sizeof *sorted, by_use);
    for (size_t i = 0; i < count && i < REPORT_TENANTS_SHOWN; i++) {
        fprintf(to, "tenant     %s: ", cli_json_text(sorted[i], "name"));
        put_tries(to, sorted[i]);
        fprintf(to, "; %s tokens in, %s out; waited %s on average, %s at most\n",
                cli_amount(cli_json_int(sorted[i], "input"), a),
                cli_amount(cli_json_int(sorted[i], "output"), b),
                brief(real_of(sorted[i], "wait_mean_s"), (char[CLI_AMOUNT_BYTES]){0}),
                brief(real_of(sorted[i], "wait_max_s"), (char[CLI_AMOUNT_BYTES]){0}));
    }
    int64_t more = (int64_t)(count > REPORT_TENANTS_SHOWN ? count - REPORT_TENANTS_SHOWN : 0) +
                   cli_json_int(report, "tenants_left_out");
    if (more > 0)
        fprintf(to, "           more tenants: %s\n", cli_amount(more, a));
    free(sorted);
}

static void print_scope(FILE *to, const json_t *scope)
{
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES];
    bool is_granted = !json_is_null(json_object_get(scope, "granted"));
    fprintf(to, "budget     %s: %s tokens by this run%s; %s", cli_json_text(scope, "name"),
            cli_amount(cli_json_int(scope, "used_by_run"), a),
            json_is_true(json_object_get(scope, "window_changed")) ? ", since its window began"
                                                                   : "",
            cli_amount(cli_json_int(scope, "used"), b));
    if (is_granted)
        fprintf(to, " of %s used", cli_amount(cli_json_int(scope, "granted"), a));
    else
        fputs(" used", to);
    fprintf(to, ", %s refused\n", cli_amount(cli_json_int(scope, "refused"), a));
}

static const char *state_text(const char *state)
{
    if (strcmp(state, "drained") == 0)
        return "drained";
    if (strcmp(state, "serving") == 0)
        return "began to serve: if it is over now, it was killed, and nothing was counted";
    if (strcmp(state, "draining") == 0)
        return "was told to stop, and drains: if it is over now, it was killed before the end";
    return strcmp(state, "stopped") == 0 ? "stopped at once by a second signal"
                                         : "ended by a fault: see its log";
}

static void print_text(FILE *to, const json_t *report)
{
    char span[CLI_AMOUNT_BYTES];
    size_t i;
    json_t *each;
    fprintf(to, "weir %s, %s to %s (%s): %s\n", cli_json_text(report, "weir"),
            cli_json_text(report, "began"), cli_json_text(report, "written"),
            brief(real_of(report, "seconds"), span), state_text(cli_json_text(report, "state")));
    print_requests(to, report);
    print_tokens(to, json_object_get(report, "tokens"));
    json_array_foreach(json_object_get(report, "upstreams"), i, each) print_upstream(to, each);
    print_tenants(to, report);
    json_array_foreach(json_object_get(report, "scopes"), i, each) print_scope(to, each);
}

/* ---- the report ---- */

static const char *report_path;
static char *report_text_path;

bool cli_serve_report_to(const char *path)
{
    const char *problem = cli_serve_path_problem(path, REPORT_JSON_BEGIN);
    const char *which = path;
    size_t bytes = strlen(path), stem = bytes;
    if (bytes > 5 && strcmp(path + bytes - 5, ".json") == 0 && path[bytes - 6] != '/')
        stem = bytes - 5;
    if (!problem && asprintf(&report_text_path, "%.*s.txt", (int)stem, path) < 0) {
        report_text_path = NULL;
        problem = "out of memory";
    }
    if (!problem) {
        which = report_text_path;
        problem = cli_serve_path_problem(which, REPORT_TEXT_BEGIN);
    }
    if (problem) {
        fprintf(stderr, "weir serve: --report cannot be written to %s: %s; name another file\n",
                which, problem);
        return false;
    }
    report_path = path;
    return true;
}

bool cli_serve_check_files(const struct weir_config *config, const char *ready)
{
    const struct {
        const char *flag, *path;
    } files[] = {
        {"--report", report_path}, {"--report", report_text_path}, {"--ready-file", ready}};
    for (size_t i = 0; i < WEIR_COUNT(files); i++) {
        const char *use = files[i].path ? weir_config_use_of(config, files[i].path) : NULL;
        if (use) {
            fprintf(stderr, "weir serve: %s cannot be written to %s: it is %s; name another file\n",
                    files[i].flag, files[i].path, use);
            return false;
        }
        for (size_t k = 0; k < i; k++)
            if (files[i].path && files[k].path && cli_out_is_same(files[i].path, files[k].path)) {
                fprintf(stderr, "weir serve: %s and %s both want %s; name another file\n",
                        files[k].flag, files[i].flag, files[i].path);
                return false;
            }
    }
    return true;
}

static void say_not_written(const char *path, bool is_last)
{
    fprintf(stderr, "weir: error: the report cannot be written to %s: %s%s\n", path,
            strerror(errno), is_last ? "; it follows here" : ": make room, or name another file");
}

bool cli_serve_report(const json_t *report, bool is_last)
{
    char *json = json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(12)), *text = NULL,
         *whole = NULL;
    size_t text_bytes = 0;
    FILE *to = json ? open_memstream(&text, &text_bytes) : NULL;
    int json_bytes = json ? asprintf(&whole, "%s\n", json) : -1;
    bool is_made = to && json_bytes >= 0, is_kept = is_made;
    if (to) {
        print_text(to, report);
        is_made = fclose(to) == 0 && is_made;
    }
    if (!is_made) {
        fputs("weir: error: out of memory for the report of the run\n", stderr);
        is_kept = false;
    } else if (!cli_serve_write(report_text_path, text, text_bytes, is_last)) {
        say_not_written(report_text_path, is_last);
        is_kept = false;
    } else if (!cli_serve_write(report_path, whole, (size_t)json_bytes, is_last)) {
        say_not_written(report_path, is_last);
        is_kept = false;
    }
    if (is_made && !is_kept && is_last)
        fprintf(stderr, "%s%s", text, whole);
    free(json);
    free(whole);
    free(text);
    return is_kept;
}

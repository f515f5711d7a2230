#include "cli/args.h"
#include "cli/commands.h"
#include "cli/pages.h"
#include "cli/serve_report.h"
#include "gateway/gateway.h"
#include "gateway/keys.h"

#include "mock/mock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first SERVE_CONFIG_FLAGS of these are the configuration's; the rest is between weir and
 * whoever starts it. */
static const struct cli_option serve_options[] = {
    {"--config", "FILE", "the configuration; see weir check", "-c"},
    {"--upstream", "URL", "the API to stand before, as in https://host/v1", NULL},
    {"--rate", "N/s", "requests in a time that it takes (also N/m, N/h)", NULL},
    {"--burst", "N", "requests it takes at once after a pause (a second's worth of --rate)", NULL},
    {"--max-in-flight", "N", "requests it works on at once (64)", NULL},
    {"--max-wait", "TIME", "longest wait in the queue (60s)", NULL},
    {"--timeout", "TIME",
     "longest exchange with the upstream (1h; first byte 120s, whole answers 600s)", NULL},
    {"--fail-threshold", "N", "failures in a row that open the breaker (5)", NULL},
    {"--cooldown", "TIME", "how long the breaker stays open (15s)", NULL},
    {"--listen", "A:P", "where clients connect (127.0.0.1:8765)", NULL},
    {"--admin", "A:P", "health, metrics, admin API and the lab page (127.0.0.1:8766)", NULL},
    {"--ledger", "WHERE", "where budgets are kept: a file, or memory", NULL},
    {"--access-log", "WHERE", "off, stderr, or a file's path (stderr)", NULL},
    {"--report", "FILE",
     "what became of all requests, as JSON in FILE and as text beside it, at the end", NULL},
    {"--ready-file", "FILE", "made once it listens, with its addresses for a shell to read", NULL},
    {"--with-parent", NULL, "drain when the process that started it has ended", NULL},
};
#define SERVE_CONFIG_FLAGS 13

static const struct cli_command serve_command = {
    .name = "weir serve",
    .usage = "[-c FILE] | [flags]",
    .summary =
        "Runs the gateway: from a file, from flags, or before a built-in mock when none is "
        "given.\n\n"
        "  weir serve                                             to try it, before a built-in "
        "mock\n"
        "  weir serve --upstream https://api.openai.com/v1 --rate 2/s --burst 5\n"
        "  weir serve -c weir.yaml --report run.json              docs/egress.md, \"The report\"",
    .help =
        "In a pipeline: deploy/ci/with-weir.sh starts it, runs a command, stops it and shows the "
        "report.\n\n"
        "Without tenants (in the file, or made by `weir key new`) each client's own credential "
        "is passed\n"
        "on, and fairness is between credentials. The first SIGINT or SIGTERM drains, a second "
        "stops at\n"
        "once.\n\n"
        "Status 0: drained. 1: never. 2: refused to start. 3: a fault while running. 130: a "
        "second signal.\n",
    .options = serve_options,
    .options_count = WEIR_COUNT(serve_options),
    .words_max = 0,
};

/* ---- the built-in mock: a child that dies with us ---- */

/* The child's end of the pipe by which it tells its port. */
static int mock_port_fd = -1;

static void tell_mock_port(uint16_t port)
{
    ssize_t n = write(mock_port_fd, &port, sizeof port);
    close(mock_port_fd);
    if (n != sizeof port)
        _exit(CLI_FAULT_STATUS);
}

_Noreturn static void run_mock_child(pid_t parent)
{
    /* Own process group: the terminal's Ctrl-C is for the gateway, which drains before we go. */
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        _exit(CLI_FAULT_STATUS);
    struct weir_mock_config config = weir_mock_config_default();
    config.listen = "127.0.0.1:0";
    config.ready = tell_mock_port;
    exit(weir_mock_serve(&config));
}

/* Starts the mock and waits until it listens (its end of the pipe closes when it dies). -1: it did
 * not. */
static pid_t start_mock(struct weir_config *config)
{
    int ends[2];
    uint16_t port = 0;
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (child == 0) {
        close(ends[0]);
        mock_port_fd = ends[1];
        run_mock_child(parent);
    }
    if (child > 0) {
        close(ends[1]);
        ssize_t n = read(ends[0], &port, sizeof port);
        close(ends[0]);
        port = n == sizeof port ? port : 0;
    }
    if (port == 0) {
        fputs("weir serve: the built-in mock did not start; give an upstream with --upstream URL\n",
              stderr);
        if (child > 0) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
        }
        return -1;
    }
    weir_config_set_mock_port(config, port);
    return child;
}

static void stop_mock(pid_t child)
{
    kill(child, SIGKILL); /* it keeps nothing */
    waitpid(child, NULL, 0);
}

/* ---- what is printed once it runs ---- */

static bool is_any_address(const struct weir_config_addr *addr)
{
    return strcmp(addr->host, "0.0.0.0") == 0 || strcmp(addr->host, "::") == 0;
}

static void print_address(const struct weir_config_addr *addr, uint16_t port, bool is_tls)
{
    bool is_six = strchr(addr->host, ':') != NULL, is_any = is_any_address(addr);
    printf("%s://%s%s%s:%u", is_tls ? "https" : "http", is_six && !is_any ? "[" : "",
           is_any ? "127.0.0.1" : addr->host, is_six && !is_any ? "]" : "", port);
}

static bool has_tenants(const struct weir_config *config)
{
    struct weir_keys_error error;
    struct weir_keys *keys =
        config->tenants_count ? NULL : weir_keys_open(config->state_dir, &error);
    bool has = config->tenants_count > 0 || (keys && weir_keys_were_made(keys));
    weir_keys_close(keys);
    return has;
}

/* ---- the file that says it is ready ---- */

static const char *ready_path;
#define READY_BEGIN "WEIR_URL="

/* A base URL for clients of one API, where an upstream speaks it. */
static int format_base_url(const struct weir_config *config, enum weir_config_api api,
                           const char *name, uint16_t port, const char *path, char *out, size_t cap)
{
    const struct weir_config_addr *addr = &config->listen;
    bool is_six = strchr(addr->host, ':') != NULL, is_any = is_any_address(addr), is_spoken = !api;
    for (uint32_t i = 0; i < config->upstreams_count; i++)
        is_spoken = is_spoken || (config->upstreams[i].api & api);
    if (!is_spoken)
        return snprintf(out, cap, "%s", "");
    return snprintf(out, cap, "%s=%s://%s%s%s:%u%s\n", name,
                    config->tls_cert_file ? "https" : "http", is_six && !is_any ? "[" : "",
                    is_any ? "127.0.0.1" : addr->host, is_six && !is_any ? "]" : "", port, path);
}

/* Shell assignments: nothing in them needs quotes. */
static bool write_ready(const struct weir_config *config, uint16_t listen_port, uint16_t admin_port)
{
    char text[2048], urls[3][512];
    const struct weir_config_addr *admin = &config->admin;
    format_base_url(config, 0, "WEIR_URL", listen_port, "", urls[0], sizeof urls[0]);
    format_base_url(config, WEIR_CONFIG_API_OPENAI, "OPENAI_BASE_URL", listen_port, "/v1", urls[1],
                    sizeof urls[1]);
    format_base_url(config, WEIR_CONFIG_API_ANTHROPIC, "ANTHROPIC_BASE_URL", listen_port, "",
                    urls[2], sizeof urls[2]);
    bool is_six = strchr(admin->host, ':') != NULL;
    int bytes = snprintf(text, sizeof text, "%s%s%sWEIR_ADMIN_URL=http://%s%s%s:%u\nWEIR_PID=%ld\n",
                         urls[0], urls[1], urls[2], is_six ? "[" : "", admin->host,
                         is_six ? "]" : "", admin_port, (long)getpid());
    if (cli_serve_write(ready_path, text, (size_t)bytes, false))
        return true;
    fprintf(stderr, "weir serve: --ready-file cannot be written to %s: %s; name another file\n",
            ready_path, strerror(errno));
    return false;
}

/* false: it cannot be used; said. One of an earlier run is taken away: we are not ready. */
static bool prepare_ready(const char *path)
{
    const char *problem = cli_serve_path_problem(path, READY_BEGIN);
    if (!problem && unlink(path) != 0 && errno != ENOENT)
        problem = strerror(errno);
    if (problem) {
        fprintf(stderr, "weir serve: --ready-file cannot be written to %s: %s; name another file\n",
                path, problem);
        return false;
    }
    ready_path = path;
    return true;
}

static void print_ready(const struct weir_config *config, uint16_t listen_port, uint16_t admin_port)
{
    const struct weir_config_upstream *first = &config->upstreams[0];
    bool is_tls = config->tls_cert_file != NULL, key_mode = has_tenants(config);
    printf("weir %s serves ", WEIR_VERSION);
    print_address(&config->listen, listen_port, is_tls);
    if (is_any_address(&config->listen))
        printf(" (and on every other address of this machine)");
    if (config->builtin_mock)
        printf(" before its built-in mock (%s)\n", first->url);
    else if (config->upstreams_count == 1)
        printf(" before %s\n", first->url);
    else
        printf(" before %u upstreams\n", config->upstreams_count);
    printf("  admin:  ");
    print_address(&config->admin, admin_port, false);
    printf("/metrics, token in %s/admin.token\n", config->state_dir);
    if (cli_pages.count > 0) {
        printf("  lab:    ");
        print_address(&config->admin, admin_port, false);
        printf("/lab/\n");
    }
    printf("  try:    curl ");
    print_address(&config->listen, listen_port, is_tls);
    const char *slash_v1 = "/v1";
    if (first->api == WEIR_CONFIG_API_ANTHROPIC)
        printf("%s/messages -H 'anthropic-version: 2023-06-01'", slash_v1);
    else
        printf("%s/chat/completions", slash_v1);
    if (key_mode)
        printf(" -H \"authorization: Bearer $WEIR_KEY\"");
    else if (!config->builtin_mock && !first->key_env && !first->key_file)
        printf(" -H \"authorization: Bearer $%s\"",
               first->api == WEIR_CONFIG_API_ANTHROPIC ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY");
    printf(" -H 'content-type: application/json' -d "
           "'{\"model\":\"%s\",%s\"messages\":[{\"role\":\"user\","
           "\"content\":\"Hello\"}]}'\n",
           config->builtin_mock ? "mock" : "MODEL",
           first->api == WEIR_CONFIG_API_ANTHROPIC ? "\"max_tokens\":100," : "");
    printf("  tenants: %s\n",
           key_mode ? "each request needs a weir key (weir key new NAME)"
                    : "each client credential is one; `weir key new NAME` switches to keys");
    printf("  stop:   Ctrl-C drains, twice stops at once\n");
    fflush(stdout);
}

/* ---- the command ---- */

static struct weir_config *load(const struct cli_args *args)
{
    struct weir_config_flag flags[SERVE_CONFIG_FLAGS];
    struct weir_config_source from = {.file = args->values[0], .flags = flags};
    for (size_t i = 1; i < SERVE_CONFIG_FLAGS; i++)
        if (args->values[i])
            flags[from.flags_count++] =
                (struct weir_config_flag){serve_options[i].flag, args->values[i]};
    struct weir_config_problems problems = {0};
    struct weir_config *config = weir_config_load(&from, &problems);
    cli_print_problems(&problems);
    weir_config_problems_free(&problems);
    if (config && !config->state_dir) {
        fputs("weir serve: no state directory: set WEIR_STATE to a folder for keys and tokens\n",
              stderr);
        weir_config_free(config);
        return NULL;
    }
    return config;
}

static bool tell_ready(const struct weir_config *config, uint16_t listen_port, uint16_t admin_port)
{
    if (ready_path && !write_ready(config, listen_port, admin_port))
        return false;
    print_ready(config, listen_port, admin_port);
    return true;
}

/* Sees to it that we drain when our parent ends. false: it has, or the kernel cannot tell; said. */
static bool watch_parent(pid_t parent)
{
    /* The kernel's signal, for where there is no descriptor, comes when the thread ends that
     * started us: so only then. */
    weir_gateway_until_fd = pidfd_open(parent, 0);
    if (weir_gateway_until_fd < 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
        fprintf(stderr, "weir serve: --with-parent: %s; leave it out, and stop weir by SIGTERM\n",
                strerror(errno));
        return false;
    }
    if (getppid() == parent)
        return true;
    fputs("weir serve: --with-parent: the process that started it has ended\n", stderr);
    return false;
}

/* What whoever starts weir asked for beside the configuration. false: said on standard error. */
static bool prepare_starter(const struct cli_args *args, pid_t parent)
{
    const char *report = cli_value(&serve_command, args, "--report");
    const char *ready = cli_value(&serve_command, args, "--ready-file");
    if (cli_value(&serve_command, args, "--with-parent") && !watch_parent(parent))
        return false;
    if ((report && !cli_serve_report_to(report)) || (ready && !prepare_ready(ready)))
        return false;
    weir_gateway_report = report ? cli_serve_report : NULL;
    weir_gateway_ready = tell_ready;
    weir_gateway_pages = cli_pages;
    return true;
}

int cli_serve(int argc, char **argv)
{
    struct cli_args args;
    pid_t parent = getppid();
    enum cli_parsed parsed = cli_parse(&serve_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    if (!prepare_starter(&args, parent))
        return CLI_USAGE_STATUS;
    struct weir_config *config = load(&args);
    if (!config)
        return CLI_USAGE_STATUS;
    if (!cli_serve_check_files(config, ready_path)) {
        weir_config_free(config);
        return CLI_USAGE_STATUS;
    }
    pid_t mock = 0;
    if (config->builtin_mock && (mock = start_mock(config)) < 0) {
        weir_config_free(config);
        return CLI_FAULT_STATUS;
    }
    int status = weir_gateway_run(config);
    if (mock > 0)
        stop_mock(mock);
    weir_config_free(config);
    return status;
}

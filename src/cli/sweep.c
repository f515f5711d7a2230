/* sweep: `weir sweep`, its flags. */
#include "cli/sweep.h"

#include "cli/args.h"
#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/out_file.h"
#include "cli/text.h"
#include "gateway/config_value.h"
#include "measure/prompt.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_option sweep_options[] = {
    {"--levels", "N,N,...", "requests kept in flight, rising (1,2,4,8,16,32,64)", NULL},
    {"--requests", "N", "of each level (6 times the level, at least 32)", NULL},
    {"--model", "NAME", "the model to ask for", NULL},
    {"--prompt", "N", "tokens of the prompt that is made up, about (100)", NULL},
    {"--output", "N", "the output limit, in tokens (64)", NULL},
    {"--whole", NULL, "ask for whole answers; else they are streamed", NULL},
    {"--payload", "FILE", "send this JSON instead, as it is", NULL},
    {"--api", "NAME", "chat (default), completions, responses or messages", NULL},
    {"--key-env", "NAME", "environment variable that holds the key; several: compared", NULL},
    {"--ca", "FILE", "certificates to trust instead of the system's", NULL},
    {"--clients", "a=40,b=1", "unequal clients alone and together, instead of levels", NULL},
    {"--warm-up", "N", "requests sent first, one at a time, and not measured (2)", NULL},
    {"--errors", "PERCENT", "a level stops when more of its requests go wrong (10)", NULL},
    {"--timeout", "TIME", "until an answer begins, and without a byte of it (120s)", NULL},
    {"--note", "TEXT", "kept with the result: limits that you read elsewhere", NULL},
    {"--against", "FILE", "compare with what --json printed then, of the same kind", NULL},
    {"--json", NULL, "print JSON", NULL},
    {"--csv", "FILE", "write the levels or clients as CSV, too (-: print it instead)", NULL},
    {"--svg", "FILE", "write a picture, too (-: print it instead)", NULL},
    {"--html", "FILE", "write a page with picture and table, too", NULL},
    {"--dry-run", NULL, "say what would be sent, and send nothing", NULL},
};

static const struct cli_command sweep_command = {
    .name = "weir sweep",
    .usage = "URL [flags]",
    .summary =
        "Measures how an endpoint behaves as more is in flight, and where that stops to pay.\n\n"
        "  weir sweep http://127.0.0.1:8767 --model mock\n"
        "  weir sweep https://api.openai.com --model gpt-4.1-mini --key-env OPENAI_API_KEY \\\n"
        "             --levels 1,2,4,8 --requests 24 --note '500 requests a minute'\n"
        "  weir sweep URL --model m --clients a=40,b=1       which failure is it?\n"
        "  weir sweep URL --model m --json > then.json       and later --against then.json",
    .help =
        "It sends real requests: how many, and of how many tokens, is said first. All have the\n"
        "same body. Hints of refusals are obeyed between levels. Status 0 measured (also when a\n"
        "limit ended it), 1 stopped by Ctrl-C, which leaves what was measured so far, 2 nothing "
        "was\n"
        "sent, 3 when requests failed or nothing could be measured. How figures are got:\n"
        "docs/sweep.md.\n",
    .options = sweep_options,
    .options_count = WEIR_COUNT(sweep_options),
    .words_max = 1,
    .many = "--key-env",
};

static const char *flag_value(const struct cli_args *args, const char *flag)
{
    return cli_value(&sweep_command, args, flag);
}

static bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("weir sweep: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

static bool read_levels(const char *text, struct sweep_plan *plan)
{
    static const uint32_t usual[] = {1, 2, 4, 8, 16, 32, 64};
    if (!text) {
        memcpy(plan->levels, usual, sizeof usual);
        plan->levels_count = WEIR_COUNT(usual);
        return true;
    }
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char word[16];
        uint64_t level = 0;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (!weir_value_count(word, &level) || level < 1 || level > 20000)
            return wrong("--levels wants numbers from 1 to 20000 as in 1,4,16, not '%s'", word);
        if (plan->levels_count == WEIR_KNEE_LEVELS_MAX)
            return wrong("--levels takes %u levels at most", WEIR_KNEE_LEVELS_MAX);
        if (plan->levels_count > 0 && level <= plan->levels[plan->levels_count - 1])
            return wrong("--levels must rise, and %llu comes after %u", (unsigned long long)level,
                         plan->levels[plan->levels_count - 1]);
        plan->levels[plan->levels_count++] = (uint32_t)level;
    }
    return true;
}

static bool read_client(const char *text, size_t bytes, struct sweep_plan *plan)
{
    struct sweep_client *client = &plan->clients[plan->clients_count];
    const char *equals = memchr(text, '=', bytes);
    char word[16];
    uint64_t in_flight = 0;
    if (plan->clients_count == WEIR_SWEEP_PARTS_MAX)
        return wrong("--clients takes %u clients at most", WEIR_SWEEP_PARTS_MAX);
    if (!equals || equals == text || equals - text >= (ptrdiff_t)sizeof client->name)
        return wrong(
            "--clients wants names and what they keep in flight as in a=40,b=1, not '%.*s'",
            (int)bytes, text);
    snprintf(word, sizeof word, "%.15s", equals + 1);
    word[strcspn(word, ",")] = '\0';
    if (!weir_value_count(word, &in_flight) || in_flight < 1 || in_flight > 5000)
        return wrong("--clients: %.*s keeps 1 to 5000 in flight, not '%s'", (int)(equals - text),
                     text, word);
    snprintf(client->name, sizeof client->name, "%.*s", (int)(equals - text), text);
    for (uint32_t i = 0; i < plan->clients_count; i++)
        if (strcmp(plan->clients[i].name, client->name) == 0)
            return wrong("--clients names %s twice", client->name);
    client->part.in_flight = (uint32_t)in_flight;
    plan->clients_count++;
    return true;
}

/* Clients as named, or one for each key; key by key in turn. */
static bool read_clients(const char *text, bool has_levels, struct sweep_plan *plan)
{
    if (text && has_levels)
        return wrong("--clients and --levels are two things: give one of them");
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!read_client(at, strcspn(at, ","), plan))
            return false;
    if (!text && plan->keys_count > 1) {
        uint32_t in_flight = has_levels ? plan->levels[plan->levels_count - 1] : 8;
        for (uint32_t i = 0; i < plan->keys_count; i++) {
            snprintf(plan->clients[i].name, sizeof plan->clients[i].name, "%.63s",
                     plan->key_names[i]);
            plan->clients[i].part.in_flight = in_flight;
        }
        plan->clients_count = plan->keys_count;
    }
    if (plan->clients_count == 1)
        return wrong("--clients compares clients, so it wants two or more: a=40,b=1");
    if (plan->clients_count > 0 && plan->keys_count > plan->clients_count)
        return wrong("%u keys for %u clients: each key needs a client that uses it",
                     plan->keys_count, plan->clients_count);
    for (uint32_t i = 0; i < plan->clients_count; i++)
        plan->clients[i].part.key_index = plan->keys_count ? i % plan->keys_count : 0;
    if (plan->clients_count > 0)
        plan->levels_count = 0;
    return true;
}

static bool read_keys(const struct cli_args *args, struct sweep_plan *plan)
{
    if (args->many_count > WEIR_SWEEP_PARTS_MAX)
        return wrong("--key-env may be given %u times at most", WEIR_SWEEP_PARTS_MAX);
    for (uint32_t i = 0; i < args->many_count; i++) {
        plan->key_names[i] = args->many[i];
        plan->keys[i] = cli_key_of("weir sweep", args->many[i]);
        if (!plan->keys[i])
            return false;
    }
    plan->keys_count = args->many_count;
    return true;
}

static bool read_endpoint(const struct cli_args *args, struct sweep_plan *plan)
{
    enum weir_api api;
    char error_text[512];
    if (!cli_api(&sweep_command, args, &api))
        return false;
    if (args->words_count == 0)
        return wrong("which endpoint? weir sweep URL, as in\n"
                     "  weir sweep http://127.0.0.1:8767 --model mock");
    if (!weir_endpoint_read(args->words[0], api, &plan->endpoint, error_text, sizeof error_text))
        return wrong("%s", error_text);
    weir_endpoint_text(&plan->endpoint, plan->url);
    return true;
}

static bool read_payload(const struct cli_args *args, struct sweep_plan *plan)
{
    static const char *const made[] = {"--model", "--prompt", "--output", "--whole"};
    char error_text[512];
    struct weir_request_facts facts;
    for (size_t i = 0; i < WEIR_COUNT(made); i++)
        if (flag_value(args, made[i]))
            return wrong("%s is for a body that is made up; --payload has its own", made[i]);
    if (!weir_prompt_file(plan->payload_file, plan->endpoint.api, &plan->body, &plan->body_bytes,
                          &facts, error_text, sizeof error_text))
        return wrong("%s", error_text);
    snprintf(plan->model, sizeof plan->model, "%s", facts.model);
    plan->is_stream = facts.stream;
    plan->output_tok = facts.limit_tok * facts.n;
    return true;
}

static bool make_payload(const struct cli_args *args, struct sweep_plan *plan)
{
    const char *model = flag_value(args, "--model");
    if (plan->endpoint.api == WEIR_API_OPENAI_EMBEDDINGS ||
        plan->endpoint.api == WEIR_API_ANTHROPIC_COUNT || plan->endpoint.api == WEIR_API_MODELS)
        return wrong("%s takes no prompt that could be made up: give its body with --payload",
                     plan->endpoint.path);
    plan->prompt_tok = 100;
    plan->output_tok = 64;
    if (!model || !*model)
        return wrong("which model? --model NAME (a mock takes any), or --payload FILE");
    if (strlen(model) >= sizeof plan->model)
        return wrong("--model: %zu bytes are too long for a name", strlen(model));
    if (!cli_count(&sweep_command, args, "--prompt", 1, WEIR_PROMPT_TOK_MAX, &plan->prompt_tok) ||
        !cli_count(&sweep_command, args, "--output", 1, 10000000, &plan->output_tok))
        return false;
    plan->is_stream = !flag_value(args, "--whole");
    snprintf(plan->model, sizeof plan->model, "%s", model);
    const struct weir_prompt_wish wish = {.api = plan->endpoint.api,
                                          .model = model,
                                          .prompt_tok = (uint32_t)plan->prompt_tok,
                                          .output_tok = (uint32_t)plan->output_tok,
                                          .is_stream = plan->is_stream,
                                          .seed = 1};
    plan->body = malloc(weir_prompt_bytes(&wish));
    if (!plan->body)
        return wrong("out of memory");
    plan->body_bytes = weir_prompt_write(&wish, plan->body);
    return true;
}

static void make_digest(struct sweep_plan *plan)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    WEIR_INVARIANT(EVP_Digest(plan->body, plan->body_bytes, digest, &bytes, EVP_sha256(), NULL) ==
                   1);
    for (unsigned int i = 0; i < bytes; i++)
        snprintf(plan->digest + 2 * i, 3, "%02x", digest[i]);
}

static bool check_requests(const struct sweep_plan *plan)
{
    uint64_t most = plan->levels_count ? plan->levels[plan->levels_count - 1] : 0;
    for (uint32_t i = 0; i < plan->clients_count; i++)
        most += plan->clients[i].part.in_flight;
    if (most > WEIR_LOAD_IN_FLIGHT_MAX)
        return wrong("the clients keep %llu in flight together; %u is most",
                     (unsigned long long)most, WEIR_LOAD_IN_FLIGHT_MAX);
    if (plan->requests && plan->requests < 3 * most)
        return wrong("--requests %u is too few with %llu in flight: the first and the last %llu "
                     "fill and drain the line and are not measured, so it takes %llu or more",
                     plan->requests, (unsigned long long)most, (unsigned long long)most,
                     (unsigned long long)(3 * most));
    return true;
}

static bool read_plan(const struct cli_args *args, struct sweep_plan *plan)
{
    uint64_t requests = 0, warm_up = 2, errors = 10;
    const char *levels = flag_value(args, "--levels"), *timeout = flag_value(args, "--timeout");
    plan->ca_file = flag_value(args, "--ca");
    plan->note = flag_value(args, "--note");
    plan->payload_file = flag_value(args, "--payload");
    plan->timeout_ns = 120 * WEIR_NS_PER_S;
    if (timeout && (!weir_value_duration(timeout, &plan->timeout_ns) || plan->timeout_ns == 0 ||
                    plan->timeout_ns > 86400 * WEIR_NS_PER_S))
        return wrong("--timeout must be a time up to a day as in 30s, not '%s'", timeout);
    if (!read_endpoint(args, plan) ||
        !cli_count(&sweep_command, args, "--requests", 1, WEIR_SWEEP_REQUESTS_MAX, &requests) ||
        !cli_count(&sweep_command, args, "--warm-up", 0, 10000, &warm_up) ||
        !cli_count(&sweep_command, args, "--errors", 0, 100, &errors) || !read_keys(args, plan) ||
        !read_levels(levels, plan) ||
        !read_clients(flag_value(args, "--clients"), levels != NULL, plan))
        return false;
    plan->requests = (uint32_t)requests;
    plan->warm_up = (uint32_t)warm_up;
    plan->bad_percent = (uint32_t)errors;
    if (!check_requests(plan) ||
        !(plan->payload_file ? read_payload(args, plan) : make_payload(args, plan)))
        return false;
    make_digest(plan);
    return true;
}

/* ---- what it came to ---- */

typedef bool write_fn(const struct sweep_plan *plan, const struct sweep_result *result,
                      const json_t *against, FILE *out);

static bool write_csv(const struct sweep_plan *plan, const struct sweep_result *result,
                      const json_t *against, FILE *out)
{
    (void)against;
    return sweep_write_csv(plan, result, out);
}

static bool is_dash(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static bool write_to(const char *path, write_fn *write, const struct sweep_plan *plan,
                     const struct sweep_result *result, const json_t *against)
{
    if (!path)
        return true;
    bool is_stdout = is_dash(path);
    errno = 0;
    FILE *out = is_stdout ? stdout : fopen(path, "w");
    bool done = out && write(plan, result, against, out);
    int error = errno;
    if (out && !is_stdout && fclose(out) != 0 && done) {
        error = errno;
        done = false;
    }
    if (!done)
        fprintf(stderr, "weir sweep: %s cannot be written: %s\n",
                is_stdout ? "standard output" : path, strerror(error));
    return done;
}

static const struct {
    const char *flag, *begins;
} outputs[] = {
    {"--csv", SWEEP_CSV_BEGIN}, {"--svg", CLI_CHART_BEGIN}, {"--html", SWEEP_PAGE_BEGIN}};

/* Before anything is sent: that each file can be written, and that one thing at most goes to standard
 * output. A file that is there keeps what it holds until there is a result. */
static bool check_outputs(const struct cli_args *args)
{
    const char *on_stdout = flag_value(args, "--json") ? "--json" : NULL;
    for (size_t i = 0; i < WEIR_COUNT(outputs); i++) {
        const char *flag = outputs[i].flag, *path = flag_value(args, flag);
        if (is_dash(path) && on_stdout)
            return wrong("%s and %s - both want standard output: give one of them a file",
                         on_stdout, flag);
        if (is_dash(path))
            on_stdout = flag;
        if (!path || is_dash(path))
            continue;
        for (size_t k = 0; k < i; k++) {
            const char *other = flag_value(args, outputs[k].flag);
            if (other && cli_out_is_same(path, other))
                return wrong("%s and %s both want %s: give them two files", outputs[k].flag, flag,
                             path);
        }
        if (!cli_out_check(sweep_command.name, flag, path, outputs[i].begins))
            return false;
    }
    return true;
}

/* Whether there is something to show. */
static bool sweep_has_any(const struct sweep_result *r)
{
    return r->levels_count > 0 || r->light.sent > 0;
}

static int show_all(const struct cli_args *args, const struct sweep_plan *plan,
                    const struct sweep_result *result, const json_t *against)
{
    const char *csv = flag_value(args, "--csv"), *svg = flag_value(args, "--svg"),
               *html = flag_value(args, "--html");
    bool done = true, has_any = sweep_has_any(result);
    if (flag_value(args, "--json"))
        done = cli_print_json(sweep_json(plan, result, against));
    else if (has_any && !is_dash(csv) && !is_dash(svg) && !is_dash(html))
        sweep_show(plan, result, against);
    fflush(stdout);
    if (*result->stop)
        fprintf(stderr, "weir sweep: %s\n%s", result->stop, has_any ? "" : result->failures);
    if (!done)
        fputs("weir sweep: out of memory\n", stderr);
    done = write_to(csv, write_csv, plan, result, against) && done;
    done = write_to(svg, sweep_draw, plan, result, against) && done;
    done = write_to(html, sweep_draw_page, plan, result, against) && done;
    if (!done)
        return CLI_FAULT_STATUS;
    if (result->end == WEIR_SWEEP_STOPPED)
        return CLI_NO_STATUS;
    bool is_well = result->end == WEIR_SWEEP_DONE || (result->is_limit && has_any);
    return is_well && has_any ? CLI_DONE_STATUS : CLI_FAULT_STATUS;
}

int cli_sweep(int argc, char **argv)
{
    static struct sweep_plan plan; /* large */
    static struct sweep_result result;
    plan = (struct sweep_plan){0};
    struct cli_args args;
    json_t *against = NULL;
    int status = CLI_USAGE_STATUS;
    enum cli_parsed parsed = cli_parse(&sweep_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    const char *then = flag_value(&args, "--against");
    if (read_plan(&args, &plan) && (!then || (against = sweep_read_json(then, &plan))) &&
        (flag_value(&args, "--dry-run") || check_outputs(&args))) {
        sweep_show_plan(&plan);
        if (flag_value(&args, "--dry-run"))
            status = CLI_DONE_STATUS;
        else if (sweep_run(&plan, &result))
            status = show_all(&args, &plan, &result, against);
    }
    json_decref(against);
    free(plan.body);
    return status;
}

/* mock: `weir mock`, the flags of the synthetic model server. */
#include "mock/mock.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "gateway/config_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_option mock_options[] = {
    {"--listen", "A:P", "where it listens (127.0.0.1:8767; port 0 takes any)", NULL},
    {"--plain", NULL, "answer at once, without the model of replicas", NULL},
    {"--replicas", "N", "replicas that generate (4)", NULL},
    {"--sequences", "N", "requests in one replica's batch at most (48)", NULL},
    {"--step", "TIME", "time of one decode step of an empty batch (6ms)", NULL},
    {"--step-sequence", "TIME", "more for each sequence in the batch (250us)", NULL},
    {"--latency", "TIME", "before anything of an answer (0)", NULL},
    {"--output", "N", "output tokens when the request sets no smaller limit (24)", NULL},
    {"--gap", "TIME", "with --plain: between two events of a stream (0: all at once)", NULL},
    {"--in-flight", "N", "answer 429 above so many at once (0: never)", NULL},
    {"--key-in-flight", "N", "answer 429 above so many at once of one key (0: never)", NULL},
    {"--order", "WORD", "fifo, turns or strict: who of those that wait gets the next place (fifo)",
     NULL},
    {"--key", "TEXT", "the only credential that is accepted (any)", NULL},
    {"--fault", "WORDS", "what goes wrong: status=503, retry-after=2, stall=head, cut=5, ...",
     NULL},
    {"--fault-every", "N", "the fault strikes every n-th request (1)", NULL},
};

static const struct cli_command mock_command = {
    .name = "weir mock",
    .usage = "[flags]",
    .summary =
        "Runs a synthetic model server that speaks the OpenAI and the Anthropic API.\n\n"
        "  weir mock                                                    and in another shell\n"
        "  weir sweep http://127.0.0.1:8767 --model mock\n"
        "  weir mock --replicas 1 --sequences 8 --step 20ms             slower, and smaller\n"
        "  weir mock --order strict --sequences 8 --replicas 1          unfair: one starves\n"
        "  weir mock --key-in-flight 4 --fault retry-after=2            limits for each key\n"
        "  weir mock --fault 'status=503' --fault-every 10              one in ten fails",
    .help =
        "Order: fifo serves who came first; turns lets the keys take turns, as an endpoint that\n"
        "queues fairly; strict serves the key that was seen first before all others, so that the\n"
        "last may starve. A key is a credential; none is one, too.\n"
        "Faults, separated by ';', for all requests by --fault or, without --plain, for one by a\n"
        "mock-fault header:\n"
        "  status=N retry-after=S retry-after-ms=MS latency=TIME stall=head|body reset=head|body\n"
        "  cut=N (events, or bytes of a whole answer; with end=tidy the framing is ended "
        "properly)\n"
        "  error=N (an in-band error after N events) bytewise gzip html garbage redirect early "
        "nousage\n"
        "retry-after is also the hint of --in-flight and --key-in-flight (1 s without it).\n"
        "What was received: GET /mock/stats, GET /mock/requests.\n",
    .options = mock_options,
    .options_count = WEIR_COUNT(mock_options),
    .words_max = 0,
};

static void mock_print_ready(uint16_t port)
{
    printf("weir mock %s listens on port %u\n", WEIR_VERSION, port);
    fflush(stdout);
}

/* The value of a flag as a count up to max; false: said on standard error. */
static bool mock_count(const struct cli_args *args, const char *flag, uint64_t max, uint32_t *out)
{
    const char *text = cli_value(&mock_command, args, flag);
    uint64_t value;
    if (!text)
        return true;
    if (!weir_value_count(text, &value) || value > max) {
        fprintf(stderr, "weir mock: %s must be a whole number up to %llu, not '%s'\n", flag,
                (unsigned long long)max, text);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool mock_order(const struct cli_args *args, enum weir_mock_order *order)
{
    static const char *const words[] = {
        [WEIR_MOCK_FIFO] = "fifo", [WEIR_MOCK_TURNS] = "turns", [WEIR_MOCK_STRICT] = "strict"};
    const char *text = cli_value(&mock_command, args, "--order");
    if (!text)
        return true;
    for (size_t i = 0; i < WEIR_COUNT(words); i++)
        if (strcmp(text, words[i]) == 0) {
            *order = (enum weir_mock_order)i;
            return true;
        }
    fprintf(stderr, "weir mock: --order must be fifo, turns or strict, not '%s'\n", text);
    return false;
}

static bool mock_duration(const struct cli_args *args, const char *flag, uint64_t *out_ns)
{
    const char *text = cli_value(&mock_command, args, flag);
    if (!text || weir_value_duration(text, out_ns))
        return true;
    fprintf(stderr, "weir mock: %s must be a time as in 250ms or 5s, not '%s'\n", flag, text);
    return false;
}

int cli_mock(int argc, char **argv)
{
    struct cli_args args;
    enum cli_parsed parsed = cli_parse(&mock_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    struct weir_mock_config config = weir_mock_config_default();
    const char *listen = cli_value(&mock_command, &args, "--listen");
    if (listen)
        config.listen = listen;
    config.plain = cli_value(&mock_command, &args, "--plain") != NULL;
    config.key = cli_value(&mock_command, &args, "--key");
    config.fault = cli_value(&mock_command, &args, "--fault");
    config.ready = mock_print_ready;
    if (!mock_count(&args, "--replicas", 1024, &config.replicas) ||
        !mock_count(&args, "--sequences", 65536, &config.sequences) ||
        !mock_count(&args, "--output", 65536, &config.output_tok) ||
        !mock_count(&args, "--in-flight", 1000000, &config.in_flight_max) ||
        !mock_count(&args, "--key-in-flight", 1000000, &config.key_in_flight_max) ||
        !mock_order(&args, &config.order) ||
        !mock_count(&args, "--fault-every", 1000000, &config.fault_every) ||
        !mock_duration(&args, "--step", &config.step_ns) ||
        !mock_duration(&args, "--step-sequence", &config.step_sequence_ns) ||
        !mock_duration(&args, "--latency", &config.latency_ns) ||
        !mock_duration(&args, "--gap", &config.plain_gap_ns))
        return CLI_USAGE_STATUS;
    if (config.replicas == 0 || config.sequences == 0 || config.fault_every == 0 ||
        config.step_ns == 0) {
        fputs("weir mock: --replicas, --sequences, --fault-every and --step must be above 0\n",
              stderr);
        return CLI_USAGE_STATUS;
    }
    if (config.plain && config.order != WEIR_MOCK_FIFO) {
        fputs("weir mock: --order is for the model of replicas: with --plain nobody waits\n",
              stderr);
        return CLI_USAGE_STATUS;
    }
    return weir_mock_serve(&config);
}

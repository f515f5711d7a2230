#include "gateway/config_fields.h"

/* The fields of traffic and backend: what `weir lab` simulates. */

static const struct weir_field_choice arrivals_choices[] = {
    {"poisson", WEIR_CONFIG_ARRIVALS_POISSON},
    {"even", WEIR_CONFIG_ARRIVALS_EVEN},
    {"closed", WEIR_CONFIG_ARRIVALS_CLOSED},
    {"trace", WEIR_CONFIG_ARRIVALS_TRACE}};

static const struct weir_field_choice distribution_choices[] = {
    {"fixed", WEIR_CONFIG_LENGTH_FIXED},
    {"uniform", WEIR_CONFIG_LENGTH_UNIFORM},
    {"exponential", WEIR_CONFIG_LENGTH_EXPONENTIAL},
    {"lognormal", WEIR_CONFIG_LENGTH_LOGNORMAL}};

static const struct weir_field_choice client_choices[] = {{"none", 0}, {"sdk", 2}};

static const struct weir_field_choice trouble_choices[] = {{"fail", WEIR_CONFIG_TROUBLE_FAIL},
                                                           {"slow", WEIR_CONFIG_TROUBLE_SLOW}};

#define LENGTH_MAX 10000000u

/* In place of the mapping: a length, or the two ends of a uniform one. */
static const struct weir_field length_word = {"tokens", .kind = WEIR_FIELD_LENGTH, .offset = 0};

#define LENGTH_FIELDS(usual)                                                                       \
    {"distribution",                                                                               \
     CHOICE(weir_config_length, distribution, enum weir_config_distribution,                       \
            distribution_choices),                                                                 \
     .preset = "fixed",                                                                            \
     HELP("fixed: always mean; uniform: any of low to high; exponential: around mean; "            \
          "lognormal: around the median mean.")},                                                  \
        {"mean", U32(weir_config_length, mean, 0, LENGTH_MAX), .preset = usual,                    \
         HELP("Tokens: the length, its mean, or its median. Of no use to uniform.")},              \
        {"low", U32(weir_config_length, low, 0, LENGTH_MAX), .preset = "0",                        \
         HELP("No length is below.")},                                                             \
        {"high", U32(weir_config_length, high, 0, LENGTH_MAX), .preset = "0",                      \
         HELP("None is above. 0: no such end (uniform needs one).")},                              \
    {                                                                                              \
        "sigma", FACTOR(weir_config_length, sigma_permille, 0, 5000),                              \
            .preset = "0", HELP("lognormal: the standard deviation of the length's logarithm.")    \
    }

static const struct weir_field prompt_fields[] = {LENGTH_FIELDS("1000")};
static const struct weir_field_table prompt_table = {
    "traffic.tenants[].prompt", FIELDS(prompt_fields),
    HELP("Tokens of a prompt. `prompt: 900` is a fixed length, `prompt: 300..1500` a uniform "
         "one.")};

static const struct weir_field output_fields[] = {LENGTH_FIELDS("250")};
static const struct weir_field_table output_table = {
    "traffic.tenants[].output", FIELDS(output_fields),
    HELP("Tokens of an answer, in the same forms.")};

static const struct weir_field burst_fields[] = {
    {"from", TIME(weir_config_burst, from_ns, 0, 24 * HOUR), .preset = "0",
     HELP("From then on since the start")},
    {"until", TIME(weir_config_burst, until_ns, 0, 24 * HOUR), .preset = "0",
     HELP("until then. 0: there is no burst.")},
    {"times", FACTOR(weir_config_burst, times_permille, 0, 1000000), .preset = "1",
     HELP("the rate is so many times as high. 0 is a pause.")},
};
static const struct weir_field_table burst_table = {"traffic.tenants[].burst", FIELDS(burst_fields),
                                                    HELP("A stretch with another rate.")};

static const struct weir_field client_word = {
    "client", CHOICE(weir_config_client, retries, uint32_t, client_choices)};
static const struct weir_field client_fields[] = {
    {"retries", U32(weir_config_client, retries, 0, 10), .preset = "0",
     HELP("How often it tries again after a refusal or an error that may pass. SDKs: 2.")},
    {"obeys_hint", BOOL(weir_config_client, obeys_hint), .preset = "true",
     HELP("It comes back when the refusal says, if that is within a minute. false: after its "
          "own backoff.")},
    {"backoff", TIME(weir_config_client, backoff_ns, MS, HOUR), .preset = "500ms",
     HELP("Without a hint: so long, doubled each time up to 8 s, times 0.75 to 1.")},
    {"gives_up", TIME(weir_config_client, gives_up_ns, MS, 24 * HOUR), .zero_is_off = true,
     .preset = "0", HELP("Without a first byte after so long it hangs up. 0: never.")},
    {"tells_timeout", BOOL(weir_config_client, tells_timeout), .preset = "true",
     HELP("It tells the gateway so (x-stainless-timeout), which refuses it in the queue before.")},
};
static const struct weir_field_table client_table = {
    "traffic.tenants[].client", FIELDS(client_fields),
    HELP("What its client does with a \"no\". `client: none` tries once, `client: sdk` as the "
         "stock SDKs do: two retries that obey the hint.")};

static const struct weir_field traffic_tenant_fields[] = {
    {"name", NAME(weir_config_traffic_tenant, name), .is_required = true,
     HELP("Of a tenant under `tenants`, whose weight, lane, limits and scope hold; or another "
          "name: a tenant with the defaults of all of these.")},
    {"sends", BOOL(weir_config_traffic_tenant, sends), .preset = "true",
     HELP("false leaves it out: to switch a tenant off and on.")},
    {"upstream", NAME(weir_config_traffic_tenant, upstream), DERIVED("the first"),
     HELP("Its requests go to the pool that this upstream is in.")},
    {"arrivals",
     CHOICE(weir_config_traffic_tenant, arrivals, enum weir_config_arrivals, arrivals_choices),
     .preset = "poisson",
     HELP("poisson: at random, at rate. even: at rate, all gaps alike. closed: users that send, "
          "wait for the answer, think, and send again. trace: as the trace of `weir lab --trace` "
          "says, lengths too.")},
    {"rate", RATE(weir_config_traffic_tenant, rate), DERIVED("required by poisson and even"),
     HELP("Requests in a time, as in 1.5/s.")},
    {"users", U32(weir_config_traffic_tenant, users, 0, 4096), .preset = "0",
     HELP("closed: how many.")},
    {"think", TIME(weir_config_traffic_tenant, think_ns, 0, 24 * HOUR), .preset = "0",
     HELP("closed: from an answer to the next request, on average (exponential).")},
    {"on_for", TIME(weir_config_traffic_tenant, on_ns, MS, 24 * HOUR), .zero_is_off = true,
     .preset = "0", HELP("It sends in turns: so long it does, at first")},
    {"off_for", TIME(weir_config_traffic_tenant, off_ns, MS, 24 * HOUR), .zero_is_off = true,
     .preset = "0", HELP("and so long it does not. Both 0: always on.")},
    {"burst", TABLE(weir_config_traffic_tenant, burst, burst_table, struct weir_config_burst)},
    {"from", TIME(weir_config_traffic_tenant, from_ns, 0, 24 * HOUR), .preset = "0",
     HELP("It sends nothing before.")},
    {"until", TIME(weir_config_traffic_tenant, until_ns, 0, 24 * HOUR), .preset = "0",
     HELP("And nothing after. 0: to the end of the traffic.")},
    {"prompt", TABLE(weir_config_traffic_tenant, prompt, prompt_table, struct weir_config_length),
     .word = &length_word},
    {"output", TABLE(weir_config_traffic_tenant, output, output_table, struct weir_config_length),
     .word = &length_word},
    {"growth", U32(weir_config_traffic_tenant, growth_turns, 2, 100000), .zero_is_off = true,
     .preset = "0",
     HELP("The prompt grows evenly from prompt.low to prompt.high over so many requests, then "
          "begins anew: an agent whose context fills. 0: prompts are drawn.")},
    {"output_limit", COUNT(weir_config_traffic_tenant, output_limit_tok, 0, 100000000),
     .preset = "0",
     HELP("max_tokens of its requests, which answers keep to. 0: they name none, and the "
          "upstream's output_limit is what is held for them.")},
    {"stream", BOOL(weir_config_traffic_tenant, is_stream), .preset = "true",
     HELP("Whether it asks for streams.")},
    {"goal", TIME(weir_config_traffic_tenant, goal_ns, MS, HOUR), .zero_is_off = true,
     .preset = "0",
     HELP("The longest queue wait with which an answer counts as good. 0: every answer does.")},
    {"client", TABLE(weir_config_traffic_tenant, client, client_table, struct weir_config_client),
     .word = &client_word},
};
static const struct weir_field_table traffic_tenants_table = {
    "traffic.tenants[]", FIELDS(traffic_tenant_fields), sizeof(struct weir_config_traffic_tenant),
    WEIR_CONFIG_LAB_TENANTS_MAX, HELP("Who sends what.")};

static const struct weir_field traffic_fields[] = {
    {"time", TIME(weir_config_traffic, time_ns, 10 * MS, 24 * HOUR), .preset = "120s",
     HELP("Nobody sends anything new after that. With a trace: to the trace's end.")},
    {"run", TIME(weir_config_traffic, run_ns, 10 * MS, 48 * HOUR), .zero_is_off = true,
     .preset = "0", HELP("The run ends then at the latest. 0: when every request is over.")},
    {"bin", TIME(weir_config_traffic, bin_ns, 10 * MS, HOUR), .preset = "1s",
     HELP("Length of a bin of the series over time.")},
    {"ledger_delay", TIME(weir_config_traffic, ledger_delay_ns, 0, 10 * S), .preset = "0",
     HELP("The ledger's answers take so long. 0: none.")},
    {"tenants", ROWS(weir_config_traffic, tenants, tenants_count, traffic_tenants_table,
                     struct weir_config_traffic_tenant *)},
};
const struct weir_field_table weir_config_traffic_table = {
    "traffic", FIELDS(traffic_fields),
    HELP("What `weir lab` sends through the setup of this file (docs/lab.md). `weir serve` says "
         "that it does not use it.")};

static const struct weir_field trouble_fields[] = {
    {"kind", CHOICE(weir_config_trouble, kind, enum weir_config_trouble_kind, trouble_choices),
     .is_required = true,
     HELP("fail: what runs or comes there fails with 503. slow: its steps take longer.")},
    {"replica", U32(weir_config_trouble, replica, 1, 256), .zero_is_off = true, .preset = "0",
     HELP("Which, from 1. 0: every one.")},
    {"from", TIME(weir_config_trouble, from_ns, 0, 24 * HOUR), .is_required = true,
     HELP("From then on since the start")},
    {"until", TIME(weir_config_trouble, until_ns, 0, 24 * HOUR), .is_required = true,
     HELP("until then.")},
    {"times", FACTOR(weir_config_trouble, times_permille, 1000, 1000000), DERIVED("3"),
     HELP("slow: a step takes so many times as long.")},
};
static const struct weir_field_table troubles_table = {
    "backend[].troubles[]", FIELDS(trouble_fields), sizeof(struct weir_config_trouble), 64,
    HELP("Replicas that fail or are slow for a while.")};

static const struct weir_field backend_fields[] = {
    {"upstream", NAME(weir_config_backend, upstream),
     DERIVED("every upstream without an entry of its own"), HELP("The upstream it is behind.")},
    {"replicas", U32(weir_config_backend, replicas, 1, 256), .preset = "4",
     HELP("Copies of the model. A request goes to the one that has the fewest.")},
    {"sequences", U32(weir_config_backend, sequences, 1, 65536), .preset = "48",
     HELP("Requests that one replica works on at once; more wait in front of it.")},
    {"step", TIME(weir_config_backend, step_ns, 1, HOUR), .zero_is_off = true, .preset = "6ms",
     HELP("A step, in which every sequence gets one token, takes so long")},
    {"step_sequence", TIME(weir_config_backend, step_sequence_ns, 1, HOUR), .zero_is_off = true,
     .preset = "250us", HELP("and so much more for each sequence.")},
    {"prefill", FACTOR(weir_config_backend, prefill_permille, 0, 1000000), .preset = "0.1",
     HELP("Steps that a token of the prompt costs before the first token of output.")},
    {"kv_tokens", COUNT(weir_config_backend, kv_tok, 0, UINT64_C(1) << 40), .preset = "0",
     HELP("Tokens of prompts and outputs that one replica holds at once. 0: no bound.")},
    {"latency", TIME(weir_config_backend, latency_ns, 0, HOUR), .preset = "0",
     HELP("The network, before anything else.")},
    {"troubles", ROWS(weir_config_backend, troubles, troubles_count, troubles_table,
                      struct weir_config_trouble *)},
};
const struct weir_field_table weir_config_backend_table = {
    "backend[]", FIELDS(backend_fields), sizeof(struct weir_config_backend), 64,
    HELP("What stands behind an upstream in `weir lab`: replicas that work on what they have in "
         "steps "
         "(continuous batching). Without it, each upstream has one with the defaults.")};

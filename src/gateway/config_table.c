#include "gateway/config_table.h"

#include "core/breaker.h"
#include "gateway/config_fields.h"
#include "gateway/config_value.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(enum weir_config_api) == sizeof(uint32_t), "choices are stored as 32 bits");

static const struct weir_field_choice api_choices[] = {{"openai", WEIR_CONFIG_API_OPENAI},
                                                       {"anthropic", WEIR_CONFIG_API_ANTHROPIC},
                                                       {"both", WEIR_CONFIG_API_BOTH}};

static const struct weir_field_choice policy_choices[] = {{"fifo", WEIR_CONFIG_POLICY_FIFO},
                                                          {"drr", WEIR_CONFIG_POLICY_DRR},
                                                          {"drr-cost", WEIR_CONFIG_POLICY_DRR_COST},
                                                          {"vtc", WEIR_CONFIG_POLICY_VTC}};

static const struct weir_field_choice accounting_choices[] = {
    {"openai", WEIR_CONFIG_ACCOUNTING_OPENAI}, {"anthropic", WEIR_CONFIG_ACCOUNTING_ANTHROPIC}};

static const struct weir_field_choice over_choices[] = {{"wait", WEIR_CONFIG_OVER_WAIT},
                                                        {"refuse", WEIR_CONFIG_OVER_REFUSE}};

static const struct weir_field_choice gone_choices[] = {{"cancel", WEIR_CONFIG_GONE_CANCEL},
                                                        {"drain", WEIR_CONFIG_GONE_DRAIN}};

static const struct weir_field_choice exhausted_choices[] = {
    {"refuse", WEIR_CONFIG_EXHAUSTED_REFUSE}, {"queue", WEIR_CONFIG_EXHAUSTED_QUEUE}};

static const struct weir_field_choice overrun_choices[] = {{"log", WEIR_CONFIG_OVERRUN_LOG},
                                                           {"cut", WEIR_CONFIG_OVERRUN_CUT}};

static const struct weir_field_choice lapse_choices[] = {{"charge", WEIR_CONFIG_LAPSE_CHARGE},
                                                         {"refund", WEIR_CONFIG_LAPSE_REFUND}};

static const struct weir_field_choice exhausted_status_choices[] = {{"402", 402}, {"429", 429}};

#define BREAKER_WINDOW_MAX_NS (WEIR_NS_PER_S * WEIR_BREAKER_WINDOW_MAX_S)

static const struct weir_field breaker_fields[] = {
    {"failures", U32(weir_config_breaker, failures, 0, 1000), .preset = "5",
     HELP("Failures in a row that open it: connect errors, timeouts to the first byte, 5xx. "
          "1 opens on the first; 0 switches this rule off.")},
    {"failure_percent", U32(weir_config_breaker, failure_percent, 0, 100), .preset = "50",
     HELP("Share of failed calls in the window that opens it. 0 switches this rule off.")},
    {"calls", U32(weir_config_breaker, calls_min, 1, 1000000), .preset = "20",
     HELP("Calls the window must hold before the share is judged. 1 lets a single call decide.")},
    {"window", TIME(weir_config_breaker, window_ns, S, BREAKER_WINDOW_MAX_NS), .preset = "30s",
     HELP("Length of the window of that share.")},
    {"cooldown", TIME(weir_config_breaker, cooldown_ns, 100 * MS, HOUR), .preset = "15s",
     HELP("How long it stays open after the first trip; doubles on repeated trips.")},
    {"cooldown_max", TIME(weir_config_breaker, cooldown_max_ns, 100 * MS, 24 * HOUR),
     .preset = "60s", DERIVED("or cooldown, where that is longer"),
     HELP("Where the doubling ends.")},
    {"trials", U32(weir_config_breaker, trials, 1, 64), .preset = "1",
     HELP("Requests let through while half-open; all must succeed to close it.")},
};
static const struct weir_field_table breaker_table = {
    "upstreams[].breaker", FIELDS(breaker_fields),
    HELP("When an upstream is ill, weir stops calling it for a while. 429 never counts.")};

static const struct weir_field adaptive_fields[] = {
    {"min", U32(weir_config_adaptive, min, 1, 1000000), .zero_is_off = true, .preset = "0",
     HELP("The limit never falls below it. 0: fixed, max_in_flight is the limit.")},
    {"start", U32(weir_config_adaptive, start, 1, 1000000), DERIVED("min"),
     HELP("Where it begins: what the upstream surely carries. Higher is faster after a start "
          "under load; above what it carries it takes minutes to come down.")},
};
static const struct weir_field_table adaptive_table = {
    "upstreams[].adaptive", FIELDS(adaptive_fields),
    HELP("The limit of requests in flight follows what the upstream can carry, between min and "
         "max_in_flight. It goes by streams: without any it stays where it is. See adaptive.md.")};

static const struct weir_field timeouts_fields[] = {
    {"connect", TIME(weir_config_timeouts, connect_ns, 10 * MS, HOUR), .preset = "5s",
     HELP("Name, TCP and TLS together.")},
    {"write", TIME(weir_config_timeouts, write_ns, 10 * MS, HOUR), .preset = "60s",
     HELP("The upstream accepts no byte of the request for so long.")},
    {"first_byte", TIME(weir_config_timeouts, first_byte_ns, 10 * MS, 24 * HOUR), .preset = "120s",
     HELP("From the request's last byte to the response's first, for streams.")},
    {"first_byte_whole", TIME(weir_config_timeouts, first_byte_whole_ns, 10 * MS, 24 * HOUR),
     .preset = "600s", HELP("The same for answers that come whole.")},
    {"idle", TIME(weir_config_timeouts, idle_ns, 10 * MS, 24 * HOUR), .preset = "300s",
     HELP("Between two bytes of a response. Any byte counts, a comment too.")},
    {"total", TIME(weir_config_timeouts, total_ns, 10 * MS, 24 * HOUR), .preset = "1h",
     HELP("The whole exchange with the upstream.")},
    {"pool_idle", TIME(weir_config_timeouts, pool_idle_ns, 0, HOUR), .preset = "10s",
     HELP("An unused connection is closed after this. 0 never keeps one; providers close theirs "
          "after as little as 15 s.")},
};
static const struct weir_field_table timeouts_table = {
    "upstreams[].timeouts", FIELDS(timeouts_fields),
    HELP("Separate timers, each with its own reason in the log.")};

static const struct weir_field edits_fields[] = {
    {"include_usage", BOOL(weir_config_edits, include_usage), .preset = "true",
     HELP("Ask OpenAI streams for usage where the client did not, and take its traces out of "
          "what the client sees. false: such streams are charged by estimate.")},
    {"output_limit", BOOL(weir_config_edits, output_limit), .preset = "false",
     HELP("Put output_limit into requests that carry no limit of their own.")},
    {"identity", BOOL(weir_config_edits, identity), .preset = "true",
     HELP("Ask for uncompressed answers on metered routes, so that usage can be read.")},
};
static const struct weir_field_table edits_table = {
    "upstreams[].edits", FIELDS(edits_fields),
    HELP("The only three changes weir makes to requests and streams; each can be switched off.")};

static const struct weir_field upstream_tls_fields[] = {
    {"ca_file", TEXT(weir_config_upstream, tls_ca_file), DERIVED("the system's certificates"),
     HELP("PEM file of the authorities to trust instead.")},
    {"verify", .kind = WEIR_FIELD_BOOL, .offset = AT(weir_config_upstream, tls_verify, bool),
     .min = 1, .preset = "true",
     HELP("Always true: an upstream whose certificate is not checked is not supported.")},
};
static const struct weir_field_table upstream_tls_table = {
    "upstreams[].tls", FIELDS(upstream_tls_fields), HELP("For https upstreams.")};

static const struct weir_field upstream_fields[] = {
    {"name", NAME(weir_config_upstream, name), .is_required = true,
     HELP("Its name in logs, metrics and elsewhere in this file.")},
    {"url", .kind = WEIR_FIELD_URL, .offset = offsetof(struct weir_config_upstream, url),
     .is_required = true,
     HELP("http://host[:port][/path] or https://. A request's path is joined by its overlap: "
          "/api/v1 and /v1/x give /api/v1/x.")},
    {"key_env", TEXT(weir_config_upstream, key_env), DERIVED("none"),
     HELP("Environment variable with the upstream's credential. Without a credential, the "
          "client's own is forwarded.")},
    {"key_file", TEXT(weir_config_upstream, key_file), DERIVED("none"),
     HELP("File with the upstream's credential, instead of key_env.")},
    {"api", CHOICE(weir_config_upstream, api, enum weir_config_api, api_choices), .preset = "both",
     HELP("The API family it speaks.")},
    {"models", MODELS(weir_config_upstream, models, models_count), DERIVED("every model"),
     HELP("The models it serves; an asterisk at the end stands for any ending (gpt-*). The most "
          "exact match wins.")},
    {"provider_ids", TEXTS(weir_config_upstream, provider_ids, provider_ids_count), DERIVED("none"),
     HELP("Its provider's names for the credential weir uses there (key ids, project or workspace "
          "ids), as they stand in that provider's usage export.")},
    {"pool", NAME(weir_config_upstream, pool),
     DERIVED("shared by upstreams with the same api and models that are no fallback"),
     HELP("Upstreams of one pool share a queue; the one with the lowest share in flight is next.")},
    {"max_in_flight", U32(weir_config_upstream, max_in_flight, 1, 1000000), .preset = "64",
     HELP("Requests it works on at once. 1 makes it strictly one after the other. With adaptive, "
          "the most it ever does.")},
    {"adaptive", TABLE(weir_config_upstream, adaptive, adaptive_table, struct weir_config_adaptive),
     .shown_offset = offsetof(struct weir_config_upstream, adaptive.min)},
    {"rate", RATE(weir_config_upstream, rate), DERIVED("no limit"),
     HELP("Requests in a time, as in 2/s or 100/m.")},
    {"burst", COUNT(weir_config_upstream, burst_req, 1, TOK_BUCKET_MAX),
     DERIVED("what rate gives in a second, at least 1"),
     HELP("Requests that may go at once after a pause. 1 spaces them evenly.")},
    {"accounting",
     CHOICE(weir_config_upstream, accounting, enum weir_config_accounting, accounting_choices),
     DERIVED("anthropic where api is anthropic, else openai"),
     HELP("How its provider counts tokens. openai: one limit, the larger of output limit and "
          "estimate, at the start. anthropic: input without cache reads, and output as it "
          "appears, each with its limit.")},
    {"tokens", RATE(weir_config_upstream, tokens), DERIVED("no limit"),
     HELP("Tokens in a time, as in 200k/m; accounting openai only.")},
    {"tokens_burst", COUNT(weir_config_upstream, tokens_burst_tok, 1, TOK_BUCKET_MAX),
     DERIVED("the count of tokens"),
     HELP("Capacity of that bucket: no single request can cost more.")},
    {"input_tokens", RATE(weir_config_upstream, input_tokens), DERIVED("no limit"),
     HELP("Input tokens in a time; accounting anthropic only.")},
    {"input_tokens_burst", COUNT(weir_config_upstream, input_tokens_burst_tok, 1, TOK_BUCKET_MAX),
     DERIVED("the count of input_tokens"), HELP("Capacity of that bucket.")},
    {"output_tokens", RATE(weir_config_upstream, output_tokens), DERIVED("no limit"),
     HELP("Output tokens in a time; accounting anthropic only.")},
    {"output_tokens_burst", COUNT(weir_config_upstream, output_tokens_burst_tok, 1, TOK_BUCKET_MAX),
     DERIVED("the count of output_tokens"), HELP("Capacity of that bucket.")},
    {"breaker", TABLE(weir_config_upstream, breaker, breaker_table, struct weir_config_breaker)},
    {"timeouts",
     TABLE(weir_config_upstream, timeouts, timeouts_table, struct weir_config_timeouts)},
    {"fallback", NAME(weir_config_upstream, fallback), DERIVED("none"),
     HELP("Upstream that takes over while this one's breaker is open. Cycles are refused.")},
    {"tls", SAME_STRUCT(upstream_tls_table)},
    {"edits", TABLE(weir_config_upstream, edits, edits_table, struct weir_config_edits)},
    {"output_limit", COUNT(weir_config_upstream, output_limit_tok, 1, 100000000), .preset = "4096",
     HELP("Output tokens assumed where a request names no limit. Too low and holds are overrun; "
          "too high and budgets look used up early.")},
    {"image_tokens", COUNT(weir_config_upstream, image_tok, 0, 10000000), .preset = "1600",
     HELP("Input tokens for an image whose size cannot be read. Base64 is never counted as text.")},
    {"file_tokens", COUNT(weir_config_upstream, file_tok, 0, 100000000), .preset = "10k",
     HELP("Input tokens for any other attached file.")},
    {"on_client_gone",
     CHOICE(weir_config_upstream, on_client_gone, enum weir_config_gone, gone_choices),
     .preset = "cancel",
     HELP("When the client has left: cancel closes the upstream call within a second, drain reads "
          "it on so that its usage is known.")},
    {"drain_time", TIME(weir_config_upstream, drain_time_ns, 0, HOUR), .preset = "30s",
     HELP("Such a drain ends after this.")},
    {"drain_bytes", BYTES(weir_config_upstream, drain_bytes, 0, 1024 * MIB), .preset = "1MiB",
     HELP("And after so many bytes.")},
};
static const struct weir_field_table upstreams_table = {
    "upstreams[]", FIELDS(upstream_fields), sizeof(struct weir_config_upstream), 64,
    HELP("The APIs that weir forwards to. At least one, at most 64.")};

static const struct weir_field work_fields[] = {
    {"input", U32(weir_config, work_input, 0, 1000), .preset = "1",
     HELP("Weight of an uncached input token.")},
    {"output", U32(weir_config, work_output, 0, 1000), .preset = "2",
     HELP("Weight of an output token.")},
};
static const struct weir_field_table work_table = {
    "work", FIELDS(work_fields),
    HELP("The work that fairness counts, for pools without weights of their own. Budgets always "
         "count plain tokens.")};

static const struct weir_field pool_work_fields[] = {
    {"input", U32(weir_config_pool, work_input, 0, 1000), DERIVED("work.input"),
     HELP("Weight of an uncached input token.")},
    {"output", U32(weir_config_pool, work_output, 0, 1000), DERIVED("work.output"),
     HELP("Weight of an output token.")},
};
static const struct weir_field_table pool_work_table = {"pools[].work", FIELDS(pool_work_fields),
                                                        HELP("Weights of this pool.")};

static const struct weir_field pool_fields[] = {
    {"name", NAME(weir_config_pool, name), .is_required = true,
     HELP("As upstreams name it in `pool`.")},
    {"scheduler", CHOICE(weir_config_pool, scheduler, enum weir_config_policy, policy_choices),
     DERIVED("scheduler above"), HELP("Its order of service.")},
    {"work", SAME_STRUCT(pool_work_table)},
};
static const struct weir_field_table pools_table = {
    "pools[]", FIELDS(pool_fields), sizeof(struct weir_config_pool), 64,
    HELP("Only for pools that differ from the rest; others come from the upstreams.")};

static const struct weir_field tenant_limits_fields[] = {
    {"requests", RATE(weir_config_tenant_limits, requests), DERIVED("no limit"),
     HELP("Requests in a time.")},
    {"burst", COUNT(weir_config_tenant_limits, burst_req, 1, TOK_BUCKET_MAX),
     DERIVED("what requests gives in a second, at least 1"),
     HELP("Requests that may go at once after a pause.")},
    {"tokens", RATE(weir_config_tenant_limits, tokens), DERIVED("no limit"),
     HELP("Tokens in a time, input and output; corrected when usage is known.")},
    {"tokens_burst", COUNT(weir_config_tenant_limits, tokens_burst_tok, 1, TOK_BUCKET_MAX),
     DERIVED("the count of tokens"),
     HELP("Capacity of that bucket: a request that costs more is refused with 413.")},
    {"over", CHOICE(weir_config_tenant_limits, over, enum weir_config_over, over_choices),
     .preset = "wait", HELP("Above a limit: wait in the queue, or refuse with 429 at once.")},
    {"mode", LATER, .help = "shadow limits are not built yet; every limit given is enforced"},
};
static const struct weir_field_table tenant_limits_table = {
    "tenants[].limits", FIELDS(tenant_limits_fields), HELP("Buckets of the tenant's own.")};

static const struct weir_field tenant_fields[] = {
    {"name", NAME(weir_config_tenant, name), .is_required = true,
     HELP("Its name in logs, metrics, and for `weir key new NAME`.")},
    {"key_sha256", .kind = WEIR_FIELD_DIGESTS,
     .offset = offsetof(struct weir_config_tenant, key_sha256),
     .count_offset = AT(weir_config_tenant, key_sha256_count, uint32_t),
     DERIVED("keys made by `weir key new`"),
     HELP("SHA-256 of a key in hex, or a list of them. The keys themselves never stand here.")},
    {"weight", U32(weir_config_tenant, weight, 1, 1000), .preset = "1",
     HELP("Its share among the tenants of its lane that are waiting.")},
    {"lane", NAME(weir_config_tenant, lane), DERIVED("standard, or the first lane there is"),
     HELP("Its lane. A request can only lower it, with the header weir-lane.")},
    {"limits",
     TABLE(weir_config_tenant, limits, tenant_limits_table, struct weir_config_tenant_limits)},
    {"max_connections", U32(weir_config_tenant, max_connections, 0, 1000000),
     DERIVED("limits.connections_per_tenant"), HELP("Connections it may hold at once.")},
    {"scope", TEXT(weir_config_tenant, scope), DERIVED("tenant/NAME, unlimited but recorded"),
     HELP("The budget that its requests are charged to.")},
    {"models", MODELS(weir_config_tenant, models, models_count), DERIVED("every model"),
     HELP("The models it may use; an asterisk at the end stands for any ending.")},
    {"provider_ids", TEXTS(weir_config_tenant, provider_ids, provider_ids_count), DERIVED("none"),
     HELP("A provider's names for this tenant (key ids, project or workspace ids): what a usage "
          "export says about them is compared with the tenant's scope.")},
    {"paused", BOOL(weir_config_tenant, is_paused), .preset = "false",
     HELP("true refuses its requests with 403.")},
};
static const struct weir_field_table tenants_table = {
    "tenants[]", FIELDS(tenant_fields), sizeof(struct weir_config_tenant), 1000000,
    HELP("Parties that fairness is measured for. With none, here or made by `weir key new`, weir "
         "passes "
         "the client's credential through and each credential is a tenant.")};

static const struct weir_field lane_fields[] = {
    {"name", NAME(weir_config_lane, name), .is_required = true, HELP("Its name.")},
    {"floor", U32(weir_config_lane, floor_percent, 0, 100), .preset = "0",
     HELP("Percent of the work dispatched while it has waiters. 0 can be starved by the lanes "
          "above; all floors together are at most 100.")},
};
static const struct weir_field_table lanes_table = {
    "lanes[]", FIELDS(lane_fields), sizeof(struct weir_config_lane), 8,
    HELP("Priority classes, first to last: a lane is served before those below it, but for their "
         "floors. "
         "Default: interactive 0, standard 20, batch 5.")};

static const struct weir_field exhausted_word = {
    "on_exhausted",
    CHOICE(weir_config_scope, on_exhausted, enum weir_config_exhausted, exhausted_choices),
    .also = "{fallback: UPSTREAM}", .preset = "refuse"};
static const struct weir_field exhausted_fields[] = {
    {"fallback", NAME(weir_config_scope, fallback), DERIVED("none"),
     HELP("Upstream that requests are sent to instead, with their model as it is; recorded under "
          "the scope fallback/UPSTREAM, which has no limit.")},
};
static const struct weir_field_table exhausted_table = {
    "scopes[].on_exhausted", FIELDS(exhausted_fields),
    HELP("What happens to requests once the grant is spent. refuse: 402 (or 429, see "
         "`responses.exhausted_status`). queue: those whose deadline reaches into the next window "
         "wait for it, the others are refused at once. {fallback: UPSTREAM}: they go there.")};

static const struct weir_field scope_fields[] = {
    {"name", TEXT(weir_config_scope, name), .is_required = true,
     HELP("Its name; parts may be set off by slashes. tenant/... and fallback/... are weir's "
          "own.")},
    {"parent", TEXT(weir_config_scope, parent), DERIVED("none"),
     HELP("A hold is taken from a scope and from all above it, or from none.")},
    {"granted", TOKENS(weir_config_scope, granted_tok, 0, (uint64_t)WEIR_TOK_MAX),
     .is_required = true, HELP("Tokens, input and output, that it may spend.")},
    {"period", PERIOD(weir_config_scope, window), .preset = "none",
     HELP("When the grant begins anew: never, or with each hour, day, week or month of the zone, "
          "or (as in 5h) with each multiple of so long since 1970-01-01T00:00Z. A day has 23 or "
          "25 hours when the clocks change; 24h always 24.")},
    {"zone", TEXT(weir_config_scope, zone), DERIVED("UTC"),
     HELP("Time zone of hour, day, week and month, by its name in the IANA database, as in "
          "Europe/Berlin.")},
    {"anchor", TEXT(weir_config_scope, anchor), DERIVED("monday, or 1"),
     HELP("Where a week begins (monday to sunday) or a month (its day, 1 to 31; in a shorter "
          "month its last).")},
    {"on_exhausted", SAME_STRUCT(exhausted_table), .word = &exhausted_word},
    {"on_overrun", CHOICE(weir_config_scope, on_overrun, enum weir_config_overrun, overrun_choices),
     .preset = "log",
     HELP("A stream that uses more than was held for it asks for more. When there is no more: "
          "log lets it run, books all of it and refuses others until the grant covers it; cut "
          "ends it with an error event.")},
    {"on_lapse", CHOICE(weir_config_scope, on_lapse, enum weir_config_lapse, lapse_choices),
     .preset = "charge",
     HELP("After a crash, what was held for requests under way: charge counts it as used, so that "
          "nothing is spent twice; refund gives it back, and what those requests did cost may "
          "never be counted.")},
    {"provider_ids", TEXTS(weir_config_scope, provider_ids, provider_ids_count), DERIVED("none"),
     HELP("A provider's names for this scope (key ids, project or workspace ids), as they stand "
          "in its usage export.")},
    {"strict", BOOL(weir_config_scope, is_strict), .preset = "false",
     HELP("Hold the hard upper bound of a request instead of the usual estimate: no overrun by "
          "input, but earlier refusals.")},
};
static const struct weir_field_table scopes_table = {
    "scopes[]", FIELDS(scope_fields), sizeof(struct weir_config_scope), 100000,
    HELP("Budgets in tokens. A tenant names the one it is charged to.")};

static const struct weir_field route_fields[] = {
    {"path", PATH(weir_config_route, path), .is_required = true,
     HELP("A request path; an asterisk at the end stands for any ending.")},
    {"cost_tok", TOKENS(weir_config_route, cost_tok, 0, (uint64_t)WEIR_TOK_MAX),
     .is_required = true, HELP("Tokens that one request costs.")},
};
static const struct weir_field_table routes_table = {
    "routes[]", FIELDS(route_fields), sizeof(struct weir_config_route), 1000,
    HELP("Costs for paths that carry no tokens weir can read. Without one, such paths are refused "
         "to "
         "tenants that have a budget.")};

static const struct weir_field limits_fields[] = {
    {"tenants", U32(weir_config_limits, tenants, 1, 10000000), .preset = "100k",
     HELP("Tenants known at once. In pass-through mode idle ones are forgotten, and those above "
          "share one.")},
    {"connections", U32(weir_config_limits, connections, 1, 1000000), .preset = "20000",
     HELP("Connections of clients, in all.")},
    {"connections_per_address", U32(weir_config_limits, connections_per_address, 0, 1000000),
     .preset = "0", HELP("Connections from one address. 0: no limit of its own.")},
    {"connections_per_tenant", U32(weir_config_limits, connections_per_tenant, 0, 1000000),
     .preset = "0", HELP("Connections of one tenant. 0: no limit of its own.")},
    {"waiters", U32(weir_config_limits, waiters, 1, 10000000), .preset = "10000",
     HELP("Requests waiting for their turn, in all.")},
    {"waiters_per_tenant", U32(weir_config_limits, waiters_per_tenant, 1, 10000000),
     .preset = "1000", HELP("Requests of one tenant waiting for their turn.")},
    {"waiting_bytes", BYTES(weir_config_limits, waiting_bytes, MIB, 1024 * 1024 * MIB),
     .preset = "256MiB", HELP("Heads and bodies of all waiting requests.")},
    {"body", BYTES(weir_config_limits, body_bytes, 1024, 1024 * MIB), .preset = "32MiB",
     HELP("Largest request body; above it 413.")},
    {"head", BYTES(weir_config_limits, head_bytes, 4096, MIB), .preset = "64KiB",
     HELP("Largest head of a request or response; above it 431, or 502 for an upstream's.")},
    {"inspect", BYTES(weir_config_limits, inspect_bytes, 1024, 1024 * MIB), .preset = "64MiB",
     HELP("Largest gzip or zstd body once unpacked; above it 413.")},
    {"max_wait", TIME(weir_config_limits, max_wait_ns, 10 * MS, 24 * HOUR), .preset = "60s",
     HELP("Longest wait in the queue. Shorter where the client says it will give up earlier.")},
    {"head_time", TIME(weir_config_limits, head_ns, 100 * MS, HOUR), .preset = "10s",
     HELP("From the first byte of a request's head to its last; above it 408.")},
    {"keep_alive", TIME(weir_config_limits, keep_alive_ns, 100 * MS, 24 * HOUR), .preset = "120s",
     HELP("Between two requests of a client's connection.")},
    {"body_rate", BYTES(weir_config_limits, body_bytes_per_s, 0, 1024 * MIB), .preset = "1KiB",
     HELP("Slowest request body, in bytes a second; below it 408. 0 waits for any.")},
    {"body_grace", TIME(weir_config_limits, body_grace_ns, 0, HOUR), .preset = "10s",
     HELP("Time before that is judged.")},
    {"client_stall", TIME(weir_config_limits, client_stall_ns, 100 * MS, 24 * HOUR),
     .preset = "60s", HELP("A client that reads nothing of its answer for so long is gone.")},
    {"drain_queue", TIME(weir_config_limits, drain_queue_ns, 0, HOUR), .preset = "30s",
     HELP("At the end, queued requests are still served for so long.")},
    {"drain_streams", TIME(weir_config_limits, drain_stream_ns, 0, 24 * HOUR), .preset = "600s",
     HELP("And running ones for so long.")},
};
static const struct weir_field_table limits_table = {
    "limits", FIELDS(limits_fields),
    HELP("Everything has a limit. Reaching one is a normal refusal with a name.")};

static const struct weir_field idempotency_fields[] = {
    {"keys", U32(weir_config_idempotency, keys, 0, 10000000), .preset = "100k",
     HELP("Keys remembered at once; beyond, the oldest finished one of the tenant with most is "
          "forgotten. 0: none, repeats are new requests.")},
    {"keep", TIME(weir_config_idempotency, keep_ns, S, 7 * 24 * HOUR), .preset = "24h",
     HELP("How long a key is remembered after its request has ended.")},
    {"answer", BYTES(weir_config_idempotency, answer_bytes, 1024, 64 * MIB), .preset = "1MiB",
     HELP("Largest answer (head and body) that is kept for a replay; a repeat of a request "
          "with a larger one is 409.")},
    {"answers", BYTES(weir_config_idempotency, answers_bytes, 1024, 65536 * MIB), .preset = "64MiB",
     HELP("Of all answers that are kept, and of those being recorded; the oldest of the tenant "
          "with most make room.")},
};
static const struct weir_field_table idempotency_table = {
    "idempotency", FIELDS(idempotency_fields),
    HELP("For POST requests that carry an `Idempotency-Key`: a repeat is answered with what "
         "the first was answered, and is neither sent nor charged.")};

static const struct weir_field responses_fields[] = {
    {"exhausted_status", CHOICE(weir_config, exhausted_status, uint32_t, exhausted_status_choices),
     .preset = "402",
     HELP("Status for a spent budget: 402, which no SDK repeats, or 429 with code "
          "insufficient_quota.")},
    {"ratelimit_fields", BOOL(weir_config, ratelimit_fields), .preset = "false",
     HELP("Send the IETF RateLimit and RateLimit-Policy fields too.")},
    {"heartbeat", TIME(weir_config, heartbeat_ns, S, HOUR), .zero_is_off = true, .preset = "0",
     HELP("Send a comment between two events of a stream that is silent for so long. 0: never.")},
};
static const struct weir_field_table responses_table = {"responses", FIELDS(responses_fields),
                                                        HELP("What weir says in its own words.")};

static const struct weir_field tls_fields[] = {
    {"cert_file", TEXT(weir_config, tls_cert_file), DERIVED("plain HTTP"),
     HELP("PEM file of the certificate and those that vouch for it.")},
    {"key_file", TEXT(weir_config, tls_key_file), DERIVED("plain HTTP"),
     HELP("PEM file of its private key.")},
};
static const struct weir_field_table tls_table = {"tls", FIELDS(tls_fields),
                                                  HELP("TLS for clients.")};

static const struct weir_field log_fields[] = {
    {"access", .kind = WEIR_FIELD_LOG, .offset = AT(weir_config, access, enum weir_config_access),
     .count_offset = AT(weir_config, access_file, const char *), .preset = "stderr",
     HELP("One JSON line a request, never with content or credentials: off, stderr, or a file's "
          "path.")},
};
static const struct weir_field_table log_table = {"log", FIELDS(log_fields), HELP("Logs.")};

static const struct weir_field record_fields[] = {
    {"file", TEXT(weir_config, record_file), DERIVED("off"),
     HELP("The recording: a CSV row for each metered request when it is over, with arrival, "
          "tenant, lane, model, tokens, waits and outcome, never with content or credentials. "
          "`weir lab --trace` replays it. A relative path is taken from this file's folder; a "
          "recording that is there is continued.")},
    {"limit", BYTES(weir_config, record_limit_bytes, 1024, 1024 * 1024 * MIB), .preset = "1GiB",
     HELP("The file's size from which on nothing more is recorded, so that it never takes the "
          "ledger's disk. A million requests are about 120 MB.")},
};
static const struct weir_field_table record_table = {
    "record", FIELDS(record_fields), HELP("Records traffic, to be replayed and measured.")};

static const struct weir_field ledger_fields[] = {
    {"path", TEXT(weir_config_ledger, path), DERIVED("ledger.db in the state directory"),
     HELP("The file; or memory: budgets begin anew at each start. A relative path is taken from "
          "this file's folder, that of --ledger from the working directory. One weir at a time "
          "has it.")},
    {"keep_finished", TIME(weir_config_ledger, keep_finished_ns, S, 365 * DAY), .preset = "24h",
     HELP("How long a finished hold is remembered: so long a repeated request or a late settle "
          "finds it. Not below the time in which clients repeat.")},
    {"keep_journal", TIME(weir_config_ledger, keep_journal_ns, S, 3660 * DAY), .preset = "7d",
     HELP("How long single ledger operations can be listed and replayed; older ones are folded "
          "into their balances.")},
    {"keep_usage", TIME(weir_config_ledger, keep_usage_ns, HOUR, 36600 * DAY), .preset = "400d",
     HELP("How long the usage by the hour and the balances of past windows are kept: what a "
          "provider's export is compared with.")},
};
static const struct weir_field_table ledger_table = {
    "ledger", FIELDS(ledger_fields),
    HELP("Where budgets are kept, and for how long. One word in its place is the path: "
         "`ledger: memory`, `ledger: /var/lib/weir/ledger.db`.")};

static const struct weir_field root_fields[] = {
    {"listen", ADDR(weir_config, listen), .preset = "127.0.0.1:8765",
     HELP("Where clients connect. Port 0 takes any free one.")},
    {"admin", ADDR(weir_config, admin), .preset = "127.0.0.1:8766",
     HELP("Where health, metrics, the admin API and the lab page are. Loopback only.")},
    {"ledger", TABLE(weir_config, ledger, ledger_table, struct weir_config_ledger),
     .word = &ledger_fields[0]},
    {"tls", SAME_STRUCT(tls_table)},
    {"scheduler", CHOICE(weir_config, scheduler, enum weir_config_policy, policy_choices),
     .preset = "vtc",
     HELP("Order of service inside a lane. fifo: as they came; drr: turns; drr-cost: turns by "
          "work; vtc: the tenant served least so far.")},
    {"work", SAME_STRUCT(work_table)},
    {"upstreams",
     ROWS(weir_config, upstreams, upstreams_count, upstreams_table, struct weir_config_upstream *),
     .is_required = true},
    {"pools", ROWS(weir_config, pools, pools_count, pools_table, struct weir_config_pool *)},
    {"tenants",
     ROWS(weir_config, tenants, tenants_count, tenants_table, struct weir_config_tenant *)},
    {"lanes", ROWS(weir_config, lanes, lanes_count, lanes_table, struct weir_config_lane *)},
    {"scopes", ROWS(weir_config, scopes, scopes_count, scopes_table, struct weir_config_scope *)},
    {"routes", ROWS(weir_config, routes, routes_count, routes_table, struct weir_config_route *)},
    {"limits", TABLE(weir_config, limits, limits_table, struct weir_config_limits)},
    {"idempotency",
     TABLE(weir_config, idempotency, idempotency_table, struct weir_config_idempotency)},
    {"responses", SAME_STRUCT(responses_table)},
    {"log", SAME_STRUCT(log_table)},
    {"record", SAME_STRUCT(record_table)},
    {"traffic", TABLE(weir_config, traffic, weir_config_traffic_table, struct weir_config_traffic),
     .shown_offset = offsetof(struct weir_config, traffic.tenants_count), .is_lab = true},
    {"backend",
     ROWS(weir_config, backends, backends_count, weir_config_backend_table,
          struct weir_config_backend *),
     .one_is_a_list = true, .is_lab = true},
    {"workers", LATER, .help = "one event loop serves all in this version"},
};
const struct weir_field_table weir_config_root_table = {"", FIELDS(root_fields),
                                                        HELP("The top level of the file.")};

const struct weir_field *weir_field_find(const struct weir_field_table *table, const char *key)
{
    for (size_t i = 0; i < table->fields_count; i++)
        if (strcmp(table->fields[i].key, key) == 0)
            return &table->fields[i];
    return NULL;
}

static void accepts_range(const char *what, const char *low, const char *high, bool zero_is_off,
                          char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s between %s and %s%s", what, low, high,
             zero_is_off ? ", or 0 for off" : "");
}

void weir_field_accepts(const struct weir_field *field, char *out, size_t out_bytes)
{
    char low[WEIR_VALUE_TEXT_MAX], high[WEIR_VALUE_TEXT_MAX], word[128];
    const char *plain = "";
    switch (field->kind) {
    case WEIR_FIELD_U32:
    case WEIR_FIELD_COUNT:
        weir_value_count_text(field->min, low);
        weir_value_count_text(field->max, high);
        accepts_range("a whole number", low, high, field->zero_is_off, out, out_bytes);
        return;
    case WEIR_FIELD_TIME:
        weir_value_duration_text(field->min, low);
        weir_value_duration_text(field->max, high);
        accepts_range("a duration (250ms, 5s, 10m, 1h)", low, high, field->zero_is_off, out,
                      out_bytes);
        return;
    case WEIR_FIELD_BYTES:
        weir_value_bytes_text(field->min, low);
        weir_value_bytes_text(field->max, high);
        accepts_range("a size (64KiB, 32MiB)", low, high, field->zero_is_off, out, out_bytes);
        return;
    case WEIR_FIELD_CHOICE: {
        size_t used = (size_t)snprintf(out, out_bytes, "one of");
        for (size_t i = 0; i < field->choices_count && used < out_bytes; i++)
            used += (size_t)snprintf(out + used, out_bytes - used, "%s %s",
                                     used > strlen("one of") ? "," : "", field->choices[i].name);
        if (field->also && used < out_bytes)
            snprintf(out + used, out_bytes - used, ", or %s", field->also);
        return;
    }
    case WEIR_FIELD_TEXT:
        plain = "text";
        break;
    case WEIR_FIELD_NAME:
        plain = "a name (letters, digits, '.', '_', '-'; at most 63)";
        break;
    case WEIR_FIELD_FACTOR:
        weir_value_factor_text((uint32_t)field->min, low);
        weir_value_factor_text((uint32_t)field->max, high);
        accepts_range("a number (2, 0.1, 1.25)", low, high, field->zero_is_off, out, out_bytes);
        return;
    case WEIR_FIELD_LENGTH:
        plain = "a whole number of tokens, or two as in 300..1500";
        break;
    case WEIR_FIELD_BOOL:
        plain = field->min ? "true" : "true or false";
        break;
    case WEIR_FIELD_RATE:
        plain = "a rate (2/s, 100/m, 1.5M/h) or none";
        break;
    case WEIR_FIELD_ADDR:
        plain = "address:port (127.0.0.1:8765, [::1]:8765)";
        break;
    case WEIR_FIELD_URL:
        plain = "http://host[:port][/path] or https://...";
        break;
    case WEIR_FIELD_PATH:
        plain = "a path that begins with / (an asterisk only at its end)";
        break;
    case WEIR_FIELD_MODELS:
        plain = "a list of model names (an asterisk only at their end)";
        break;
    case WEIR_FIELD_DIGESTS:
        plain = "64 hex digits, or a list of those";
        break;
    case WEIR_FIELD_LOG:
        plain = "off, stderr, or a path that begins with / or .";
        break;
    case WEIR_FIELD_TEXTS:
        plain = "a text of at most 200 bytes, or a list of those";
        break;
    case WEIR_FIELD_PERIOD:
        plain = "none, hour, day, week, month, or a duration in whole seconds (5h, 7d) between 1s "
                "and 36600d";
        break;
    case WEIR_FIELD_TABLE:
        if (field->word && field->word->also) {
            weir_field_accepts(field->word, out, out_bytes);
            return;
        }
        if (field->word && field->word->kind != WEIR_FIELD_TEXT) {
            weir_field_accepts(field->word, word, sizeof word);
            snprintf(out, out_bytes, "%s, or a mapping", word);
            return;
        }
        plain = field->word ? "text, or a mapping" : "a mapping";
        break;
    case WEIR_FIELD_ROWS:
        plain = field->one_is_a_list ? "a list, or a mapping for a list of one" : "a list";
        break;
    case WEIR_FIELD_LATER:
        break;
    }
    snprintf(out, out_bytes, "%s", plain);
}

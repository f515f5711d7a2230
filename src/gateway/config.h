/* config: everything an operator can set, in one plain struct.
 *
 * Reading order for a newcomer: the structs below are what the gateway sees. One table of fields
 * (config_table.c) names each of them with its key, unit, default, range and meaning; the YAML
 * walker (config_walk.c), the quick flags, `weir check`, and docs/configuration.md all work from
 * that table, so a field that is not in it cannot be set and a field in it cannot be undocumented.
 * config_check.c then looks across fields (names that must exist, cycles, floors, exposure).
 *
 * Every error is collected, with file, line and column: a bad file is reported as a whole.
 *
 * Strings and arrays are owned by the config and live until weir_config_free. No string is NULL
 * unless its comment says so. A count or time of 0 means "off" only where the comment says so.
 *
 * Thread: built before any thread starts; read-only (any thread) afterwards. */
#ifndef WEIR_GATEWAY_CONFIG_H
#define WEIR_GATEWAY_CONFIG_H

#include "core/base.h"
#include "gateway/config_lab.h"
#include "gateway/window.h"

enum weir_config_api {
    WEIR_CONFIG_API_OPENAI = 1,
    WEIR_CONFIG_API_ANTHROPIC = 2,
    WEIR_CONFIG_API_BOTH = 3 /* bits of the two above */
};

enum weir_config_policy {
    WEIR_CONFIG_POLICY_FIFO,
    WEIR_CONFIG_POLICY_DRR,
    WEIR_CONFIG_POLICY_DRR_COST,
    WEIR_CONFIG_POLICY_VTC
};

/* How an upstream's provider counts tokens against its rate limits. */
enum weir_config_accounting {
    WEIR_CONFIG_ACCOUNTING_OPENAI, /* one bucket; the larger of output limit and estimate, at start
                                    */
    WEIR_CONFIG_ACCOUNTING_ANTHROPIC /* input (without cache reads) and output, a bucket each */
};

enum weir_config_over { WEIR_CONFIG_OVER_WAIT, WEIR_CONFIG_OVER_REFUSE };

enum weir_config_gone {
    WEIR_CONFIG_GONE_CANCEL, /* the client left: close the upstream call at once */
    WEIR_CONFIG_GONE_DRAIN   /* read it to its end, within drain_time_ns and drain_bytes */
};

/* What becomes of requests that a scope's grant has no room for. */
enum weir_config_exhausted {
    WEIR_CONFIG_EXHAUSTED_REFUSE,
    WEIR_CONFIG_EXHAUSTED_FALLBACK, /* they go to the upstream `fallback`, charged to
                                       fallback/UPSTREAM */
    WEIR_CONFIG_EXHAUSTED_QUEUE     /* they wait for the next window, where their deadline allows */
};

/* A stream has used more than its hold, and the scope has no room for more. */
enum weir_config_overrun {
    WEIR_CONFIG_OVERRUN_LOG, /* it runs on; all it uses is booked */
    WEIR_CONFIG_OVERRUN_CUT  /* it is ended with an error event */
};

/* A hold whose process died before it could be settled. */
enum weir_config_lapse {
    WEIR_CONFIG_LAPSE_CHARGE, /* counts as used until it is settled or written off */
    WEIR_CONFIG_LAPSE_REFUND  /* counts as never used */
};

/* The rate in micro-units a second, as buckets want it; rounded down, at least 1 unless no limit.
 */
uint64_t weir_config_rate_micro_per_s(struct weir_config_rate rate);

struct weir_config_addr {
    const char *host; /* an IPv4 or IPv6 literal without brackets, or a name */
    uint16_t port;
    bool is_loopback;
};

struct weir_config_breaker {
    uint32_t failures;        /* in a row; 0: this rule is off */
    uint32_t failure_percent; /* of at least calls_min calls inside window; 0: this rule is off */
    uint32_t calls_min;
    uint64_t window_ns;
    uint64_t cooldown_ns;     /* of the first trip; doubles on repeated trips */
    uint64_t cooldown_max_ns; /* up to this */
    uint32_t trials;          /* let through while half-open */
};

struct weir_config_adaptive {
    uint32_t min;   /* 0: off, max_in_flight is the limit */
    uint32_t start; /* min .. max_in_flight */
};

struct weir_config_timeouts {
    uint64_t connect_ns;          /* name, TCP and TLS together */
    uint64_t write_ns;            /* no request byte accepted by the upstream for so long */
    uint64_t first_byte_ns;       /* streams */
    uint64_t first_byte_whole_ns; /* whole answers */
    uint64_t idle_ns;             /* between two bytes of a response; any byte counts */
    uint64_t total_ns;            /* the whole upstream exchange */
    uint64_t pool_idle_ns;        /* an unused pooled connection is closed after this */
};

struct weir_config_edits {
    bool include_usage; /* ask for usage in streams, and take its traces out again */
    bool output_limit;  /* put output_limit_tok into requests that carry none */
    bool identity;      /* accept-encoding: identity on metered routes */
};

/* Rates are charged in one step at dispatch. A burst is the bucket's capacity. */
struct weir_config_upstream {
    const char *name;
    const char *url;  /* as given, without credentials */
    bool is_tls;      /* https */
    const char *host; /* from url, without brackets */
    uint16_t port;
    const char *prefix;   /* path of url without a trailing slash: "" or "/api/v1" */
    const char *key_env;  /* NULL: not given. At most one of key_env and key_file */
    const char *key_file; /* NULL: not given */
    const char *key;      /* the credential itself, NULL: none. Never printed */
    enum weir_config_api api;
    const char **models; /* "gpt-4o" or "gpt-*"; none: every model */
    uint32_t models_count;
    const char **provider_ids; /* ids and names in a provider's export that mean this upstream */
    uint32_t provider_ids_count;
    const char *pool;    /* name of its pool, set by the loader where the file gives none */
    uint32_t pool_index; /* into pools */
    uint32_t max_in_flight;
    struct weir_config_adaptive adaptive;
    struct weir_config_rate rate; /* requests */
    uint64_t burst_req;
    enum weir_config_accounting accounting;
    struct weir_config_rate tokens; /* openai accounting only */
    uint64_t tokens_burst_tok;
    struct weir_config_rate input_tokens; /* anthropic accounting only, as the next three */
    uint64_t input_tokens_burst_tok;
    struct weir_config_rate output_tokens;
    uint64_t output_tokens_burst_tok;
    struct weir_config_breaker breaker;
    struct weir_config_timeouts timeouts;
    const char *fallback;    /* name of an upstream, NULL: none */
    uint32_t fallback_index; /* into upstreams, WEIR_NONE: none */
    bool is_fallback;        /* of an upstream or a scope: shares no pool unless told to */
    const char *tls_ca_file; /* NULL: the system's store */
    bool tls_verify;         /* always true: false is refused */
    struct weir_config_edits edits;
    uint64_t output_limit_tok; /* the output assumed when a request names no limit */
    uint64_t image_tok;        /* input charged for an image whose size is not known */
    uint64_t file_tok;         /* input charged for any other attached file */
    enum weir_config_gone on_client_gone;
    uint64_t drain_time_ns;
    uint64_t drain_bytes;
};

/* Upstreams that serve the same models: one queue, one scheduler. */
struct weir_config_pool {
    const char *name;
    enum weir_config_policy scheduler;
    uint32_t work_input; /* weight of one uncached input token in the work that fairness counts */
    uint32_t work_output;
    uint32_t *upstreams; /* indices, in the file's order; set by the loader */
    uint32_t upstreams_count;
};

struct weir_config_tenant_limits {
    struct weir_config_rate requests;
    uint64_t burst_req;
    struct weir_config_rate tokens;
    uint64_t tokens_burst_tok;
    enum weir_config_over over;
};

struct weir_config_tenant {
    const char *name;
    uint8_t (*key_sha256)[32]; /* may be none: keys made by `weir key new NAME` then serve */
    uint32_t key_sha256_count;
    uint32_t weight;
    const char *lane;
    uint32_t lane_index; /* into lanes */
    struct weir_config_tenant_limits limits;
    uint32_t max_connections; /* 0: limits.connections_per_tenant */
    const char *scope;        /* NULL: the implicit scope tenant/NAME */
    uint32_t scope_index;     /* into scopes, WEIR_NONE: implicit */
    const char **models;      /* allowed ones, as upstream's; none: every model */
    uint32_t models_count;
    const char **provider_ids; /* charged to this tenant's scope when a provider's export is
                                  compared */
    uint32_t provider_ids_count;
    bool is_paused;
};

/* In order of precedence: a lane goes before those after it. */
struct weir_config_lane {
    const char *name;
    uint32_t floor_percent; /* of dispatched work while it has waiters; sum at most 100 */
};

struct weir_config_scope {
    const char *name;
    const char *parent; /* NULL: none */
    uint32_t parent_index;
    int64_t granted_tok;
    struct weir_window_rule window; /* from period, zone and anchor; its zone is the config's */
    const char *zone;               /* as given; NULL: UTC */
    const char *anchor;             /* as given; NULL: monday, or day 1 */
    enum weir_config_exhausted on_exhausted;
    const char *fallback;    /* name of an upstream; NULL unless on_exhausted is FALLBACK */
    uint32_t fallback_index; /* into upstreams, WEIR_NONE: none */
    enum weir_config_overrun on_overrun;
    enum weir_config_lapse on_lapse;
    const char **provider_ids; /* ids and names in a provider's export that mean this scope */
    uint32_t provider_ids_count;
    bool is_strict; /* holds reserve the hard upper bound of the estimate */
};

struct weir_config_route {
    const char *path; /* exact, or a prefix when it ends in an asterisk */
    int64_t cost_tok; /* of one request */
};

struct weir_config_limits {
    uint32_t tenants;                 /* known at once, pass-through ones included */
    uint32_t connections;             /* of clients, in all */
    uint32_t connections_per_address; /* 0: no limit of its own */
    uint32_t connections_per_tenant;  /* 0: no limit of its own */
    uint32_t waiters;
    uint32_t waiters_per_tenant;
    uint64_t waiting_bytes; /* heads and bodies of all waiting requests */
    uint64_t body_bytes;
    uint64_t head_bytes;
    uint64_t inspect_bytes;    /* of a gzip or zstd body once unpacked */
    uint64_t max_wait_ns;      /* queue deadline */
    uint64_t head_ns;          /* from a head's first byte to its last */
    uint64_t keep_alive_ns;    /* between two requests of a client connection */
    uint64_t body_bytes_per_s; /* slowest body accepted, on average after body_grace_ns */
    uint64_t body_grace_ns;
    uint64_t client_stall_ns; /* a client that reads nothing for so long is gone */
    uint64_t drain_queue_ns;  /* at the end: queued requests are still served for so long */
    uint64_t drain_stream_ns; /* and running ones for so long */
};

/* Where budgets are kept, and for how long what is finished. */
struct weir_config_ledger {
    const char *path; /* absolute; "memory": not in a file; NULL: state_dir is NULL, so it has no
                         default place */
    bool in_memory;
    uint64_t keep_finished_ns; /* holds that ended: so long a repeat or a late settle knows them */
    uint64_t keep_journal_ns;
    uint64_t keep_usage_ns; /* usage by the hour, and balances of past windows */
};

/* What is kept for requests that carry an Idempotency-Key. */
struct weir_config_idempotency {
    uint32_t keys;          /* remembered at once; 0: switched off */
    uint64_t keep_ns;       /* from the end of the first request */
    uint64_t answer_bytes;  /* largest answer that is kept */
    uint64_t answers_bytes; /* of all that are kept or being recorded */
};

enum weir_config_access {
    WEIR_CONFIG_ACCESS_OFF,
    WEIR_CONFIG_ACCESS_STDERR,
    WEIR_CONFIG_ACCESS_FILE
};

struct weir_config {
    const char *file; /* it came from, NULL: flags or the embedded default */
    struct weir_config_addr listen;
    struct weir_config_addr admin;
    const char *tls_cert_file; /* of the client listener; both NULL: plain HTTP */
    const char *tls_key_file;
    struct weir_config_ledger ledger;
    const char *state_dir;                  /* of keys.h; NULL: the environment names none */
    struct weir_config_upstream *upstreams; /* at least one */
    uint32_t upstreams_count;
    struct weir_config_pool *pools; /* at least one; every upstream is in one */
    uint32_t pools_count;
    struct weir_config_tenant *tenants; /* none here and none in the key store: pass-through mode */
    uint32_t tenants_count;
    struct weir_config_lane *lanes; /* at least one */
    uint32_t lanes_count;
    uint32_t lane_default; /* index: lane of tenants that name none */
    struct weir_config_scope *scopes;
    uint32_t scopes_count;
    struct weir_config_route *routes;
    uint32_t routes_count;
    struct weir_config_limits limits;
    struct weir_config_idempotency idempotency;
    struct weir_config_traffic traffic;   /* of the lab, as the next */
    struct weir_config_backend *backends; /* none: every upstream has the default one */
    uint32_t backends_count;
    enum weir_config_policy scheduler; /* of pools that name none */
    uint32_t work_input;
    uint32_t work_output;
    enum weir_config_access access;
    const char *access_file;     /* NULL unless access is a file */
    const char *record_file;     /* absolute; NULL: requests are not recorded */
    uint64_t record_limit_bytes; /* of that file */
    uint32_t exhausted_status;   /* 402, or 429 with code insufficient_quota */
    bool ratelimit_fields;       /* also send the IETF RateLimit and RateLimit-Policy fields */
    uint64_t heartbeat_ns; /* SSE comment at event boundaries after so long without one; 0: off */
    bool builtin_mock;     /* upstreams[0] is the built-in mock; `weir serve` starts it */
    struct weir_config_private *private;
};

/* What is wrong with a configuration. text needs no further words. */
struct weir_config_problem {
    const char *where; /* file name, or the flag; not NULL */
    uint32_t line;     /* from 1; 0: a flag, or the file as a whole */
    uint32_t column;   /* from 1 */
    bool is_warning;
    const char *text;
};

/* Start from {0}; free with weir_config_problems_free. In the order of the file. */
struct weir_config_problems {
    struct weir_config_problem *list;
    uint32_t count;
    uint32_t errors, warnings; /* all of them: the list has the first 200 of each */
};

/* A quick flag of `weir serve`, as in {"--rate", "2/s"}. */
struct weir_config_flag {
    const char *flag;
    const char *value;
};

/* One value by its path, as `weir lab --set` takes them: keys with dots between, rows of a list by
 * their names (or their number from 1): tenants.batch.weight, scopes.org/team.granted,
 * upstreams.main.breaker.trials. Where a part holds one list only, the list's own key may be left
 * out: traffic.batch.rate. A list of one needs no name: backend.replicas. */
struct weir_config_set {
    const char *path;
    const char *value; /* as it would stand in the file */
};

struct weir_config_source {
    const char *file; /* NULL: none is read */
    const char *text; /* read instead of the file when not NULL; file is then only its name */
    size_t text_bytes;
    const struct weir_config_flag *flags; /* laid over the file */
    size_t flags_count;
    const struct weir_config_set *sets; /* single values, laid over the file */
    size_t sets_count;
    bool no_secrets; /* do not read key_env and key_file: for `weir check` on another machine */
    bool for_lab;    /* traffic and backend are used: no warning that they are not */
    /* for_lab: who sends in a trace. A set may be of a tenant that only traffic or these name: one
     * with the defaults is made of it. */
    const char *const *senders;
    size_t senders_count;
};

/* Builds a configuration from a file, from flags, or (neither given) the embedded default.
 *
 * Owns:   the caller frees with weir_config_free.   Thread: before others start.
 * Fails:  NULL when problems->errors > 0; every error found is in problems, warnings too. */
WEIR_MUST_USE struct weir_config *weir_config_load(const struct weir_config_source *from,
                                                   struct weir_config_problems *problems);
void weir_config_free(struct weir_config *config);

/* What weir itself has a file for, as in "the access log", whether it is there already or not; NULL:
 * nothing. For what is written beside: config->record_file itself is compared with all others. */
const char *weir_config_use_of(const struct weir_config *config, const char *path);

/* Points the embedded default at the built-in mock's port, once it is known. */
void weir_config_set_mock_port(struct weir_config *config, uint16_t port);
void weir_config_problems_free(struct weir_config_problems *problems);

/* The reason not to start, or NULL: an upstream credential is set, no tenants exist (neither here
 * nor keys_count in the key store) and the listener is reachable from beyond loopback. Static text.
 */
const char *weir_config_exposed(const struct weir_config *config, uint32_t keys_count);

#endif

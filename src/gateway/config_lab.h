/* config_lab: the parts of a configuration that describe a simulated world: who sends what
 * (`traffic`) and what answers (`backend`). The gateway reads and checks them and does nothing with
 * them; `weir lab` runs them (docs/lab.md). Part of gateway/config.h, whose rules on ownership
 * hold. */
#ifndef WEIR_GATEWAY_CONFIG_LAB_H
#define WEIR_GATEWAY_CONFIG_LAB_H

#include "core/base.h"

#define WEIR_CONFIG_LAB_TENANTS_MAX 64

/* `2/s`, `100/m`, `1.5M/h`: count in each per_ns. No limit when count is 0. */
struct weir_config_rate {
    uint64_t count;
    uint64_t per_ns;
};

enum weir_config_arrivals {
    WEIR_CONFIG_ARRIVALS_POISSON,
    WEIR_CONFIG_ARRIVALS_EVEN,   /* all gaps alike */
    WEIR_CONFIG_ARRIVALS_CLOSED, /* users that each send, wait for the answer, think */
    WEIR_CONFIG_ARRIVALS_TRACE   /* as the trace says that `weir lab --trace` is given */
};

enum weir_config_distribution {
    WEIR_CONFIG_LENGTH_FIXED,
    WEIR_CONFIG_LENGTH_UNIFORM,
    WEIR_CONFIG_LENGTH_EXPONENTIAL,
    WEIR_CONFIG_LENGTH_LOGNORMAL
};

/* Tokens of a prompt or an answer. */
struct weir_config_length {
    enum weir_config_distribution distribution;
    uint32_t mean;           /* FIXED: the length; LOGNORMAL: the median; UNIFORM: of no use */
    uint32_t low, high;      /* every draw is kept between; high 0: no upper end */
    uint32_t sigma_permille; /* LOGNORMAL: of the logarithm */
};

struct weir_config_client {
    uint32_t retries;
    bool obeys_hint;
    uint64_t backoff_ns;
    uint64_t gives_up_ns; /* 0: never */
    bool tells_timeout;   /* gives_up_ns, to the gateway */
};

struct weir_config_burst {
    uint64_t from_ns, until_ns; /* both 0: none */
    uint32_t times_permille;
};

struct weir_config_traffic_tenant {
    const char *name; /* of `tenants`, or another: a tenant with every setting at its default */
    uint32_t tenant_index;   /* into tenants, WEIR_NONE: another */
    bool sends;              /* false: as if it were not there */
    const char *upstream;    /* NULL: the first */
    uint32_t upstream_index; /* into upstreams */
    enum weir_config_arrivals arrivals;
    struct weir_config_rate rate; /* POISSON, EVEN */
    uint32_t users;               /* CLOSED */
    uint64_t think_ns;            /* CLOSED, on average */
    uint64_t on_ns, off_ns;       /* POISSON, EVEN; both 0: always on */
    struct weir_config_burst burst;
    uint64_t from_ns, until_ns; /* until 0: to the traffic's end */
    struct weir_config_length prompt, output;
    uint32_t growth_turns;     /* 0: none */
    uint64_t output_limit_tok; /* 0: names none */
    bool is_stream;
    uint64_t goal_ns; /* of the queue wait; 0: none */
    struct weir_config_client client;
};

struct weir_config_traffic {
    uint64_t time_ns; /* nobody sends anything new after that */
    uint64_t run_ns;  /* the run ends then at the latest; 0: when all is over */
    uint64_t bin_ns;  /* of series over time */
    uint64_t ledger_delay_ns;
    struct weir_config_traffic_tenant *tenants; /* none: no traffic is described */
    uint32_t tenants_count;
};

enum weir_config_trouble_kind { WEIR_CONFIG_TROUBLE_FAIL, WEIR_CONFIG_TROUBLE_SLOW };

struct weir_config_trouble {
    enum weir_config_trouble_kind kind;
    uint32_t replica; /* from 1; 0: every one */
    uint64_t from_ns, until_ns;
    uint32_t times_permille; /* SLOW: a step takes so many times as long */
};

struct weir_config_backend {
    const char *upstream;    /* NULL: every upstream without a row of its own */
    uint32_t upstream_index; /* into upstreams, WEIR_NONE: see above */
    uint32_t replicas, sequences;
    uint64_t step_ns, step_sequence_ns;
    uint32_t prefill_permille;
    uint64_t kv_tok; /* of a replica; 0: no bound */
    uint64_t latency_ns;
    struct weir_config_trouble *troubles;
    uint32_t troubles_count;
};

#endif

/* hints: when a refused call may be repeated, and how much of a limit is left.
 *
 * Reading: feed every header of an upstream response, then ask. Order of trust: retry-after-ms,
 * retry-after (seconds, fractions accepted; or an HTTP date against the response's own Date),
 * IETF RateLimit t, then the provider's reset of the dimension that ran out (x-ratelimit-reset-*:
 * Go durations; anthropic-ratelimit-*-reset: RFC 3339 against Date). x-should-retry: false, a spent
 * quota, and Anthropic's spend cap (429 rate_limit_error with no hint of any kind) are permanent.
 * Broken values are ignored, never guessed; the caller clamps.
 *
 * Writing: the hint headers that the stock SDKs obey, and the rate-limit headers of each dialect.
 * Thread: any. Nothing allocates. Time zones: none, all UTC. */
#ifndef WEIR_WIRE_HINTS_H
#define WEIR_WIRE_HINTS_H

#include "core/base.h"
#include "wire/api.h"

enum weir_dimension {
    WEIR_DIM_REQUESTS,
    WEIR_DIM_TOKENS,
    WEIR_DIM_INPUT_TOKENS,
    WEIR_DIM_OUTPUT_TOKENS,
    WEIR_DIM_PROJECT_TOKENS,
};
#define WEIR_DIM_COUNT 5

struct weir_limit_view {
    bool has_limit, has_remaining, has_reset;
    uint64_t limit;
    uint64_t remaining;
    uint64_t reset_ns; /* from the response's Date until full recovery */
};

enum weir_should_retry { WEIR_RETRY_UNSAID, WEIR_RETRY_YES, WEIR_RETRY_NO };

struct weir_hints {
    enum weir_should_retry should_retry; /* x-should-retry */
    bool has_ms, has_after, has_after_date, has_date, has_t;
    uint64_t ms_ns;                                /* retry-after-ms */
    uint64_t after_ns;                             /* retry-after in seconds */
    int64_t after_date_ns;                         /* retry-after as a date, ns since 1970 */
    int64_t date_ns;                               /* Date of the response, ns since 1970 */
    uint64_t t_ns;                                 /* IETF RateLimit t of the tightest policy */
    struct weir_limit_view limits[WEIR_DIM_COUNT]; /* reset_ns is set by weir_hints_result */

    /* Private: resets given as times. */
    int64_t reset_date_ns[WEIR_DIM_COUNT];
    bool has_reset_date[WEIR_DIM_COUNT];
};

struct weir_hint {
    bool permanent; /* repeating cannot help (before a person acts, or a window turns) */
    bool has_wait;
    uint64_t wait_ns; /* from the moment of the response; not clamped */
};

void weir_hints_init(struct weir_hints *h);

/* One header of the response; name in any letter case. Headers of no interest cost little. */
void weir_hints_header(struct weir_hints *h, const char *name, size_t name_bytes, const char *value,
                       size_t value_bytes);

/* What they say. unix_ns: now, for dates when the response had no Date header. error_type and
 * error_code come from the body (struct weir_usage_seen), NULL or "" when unknown. Also completes
 * h->limits[].reset_ns. */
struct weir_hint weir_hints_result(struct weir_hints *h, uint16_t status, enum weir_dialect dialect,
                                   const char *error_type, const char *error_code, int64_t unix_ns);

/* --- Writers: header lines "name: value\r\n", no NUL. Each returns the bytes written, 0 when it
 * does not fit (128 bytes are enough for a hint, 1024 for limits). --- */

/* A hint: up to 60 s as retry-after (rounded up, at least 1) and retry-after-ms (rounded up, at
 * least 1); longer ones as the true retry-after and x-should-retry: false. */
WEIR_MUST_USE size_t weir_hint_write(char *out, size_t cap, uint64_t wait_ns);
/* A permanent refusal: x-should-retry: false, with the true retry-after when wait_ns is known
 * (WEIR_NEVER_NS: not). */
WEIR_MUST_USE size_t weir_hint_write_permanent(char *out, size_t cap, uint64_t wait_ns);
/* The limits a tenant stands under; dimensions without has_limit are left out. unix_ns dates the
 * resets of Anthropic's form. */
WEIR_MUST_USE size_t weir_limits_write(char *out, size_t cap, enum weir_dialect dialect,
                                       const struct weir_limit_view limits[WEIR_DIM_COUNT],
                                       int64_t unix_ns);

#endif

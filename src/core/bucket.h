/* bucket: a rate limit. It holds up to a capacity, fills at a rate, and what passes takes its cost
 * out.
 *
 * Integers only, in micro-tokens; a bucket of requests counts a request as one token (1,000,000).
 * The fraction of a micro-token that a short time earns is carried, so the level depends on the
 * time that passed and not on how often one looked. The level is signed: a charge after the fact
 * may push it into debt, which is real and is filled up like any other gap; refunds stop at the
 * capacity.
 *
 * To take from several buckets at once, weir_bucket_check each (nothing changes), then
 * weir_bucket_charge each. Time never runs backwards for a bucket: a now_ns before the last one
 * earns nothing. Thread: loop. No allocation; all O(1). */
#ifndef WEIR_CORE_BUCKET_H
#define WEIR_CORE_BUCKET_H

#include <stdint.h>

#include "core/base.h"
#include "core/num.h"

/* The largest capacity (2^42 tokens) and the largest debt that is remembered. */
#define WEIR_BUCKET_CAPACITY_MAX_UTOK ((INT64_C(1) << 42) * WEIR_UTOK_PER_TOK)
#define WEIR_BUCKET_DEBT_MAX_UTOK WEIR_BUCKET_CAPACITY_MAX_UTOK

struct weir_bucket {
    int64_t level_utok;       /* -DEBT_MAX .. capacity */
    int64_t capacity_utok;    /* 0 .. CAPACITY_MAX */
    uint64_t rate_utok_per_s; /* 0 never fills */
    uint64_t filled_ns;       /* the time up to which earnings are in level */
    uint64_t carry;           /* billionths of a micro-token earned beside level */
};

enum weir_bucket_result {
    WEIR_BUCKET_OK,
    WEIR_BUCKET_WAIT,  /* enough after *wait_ns, if nobody else takes meanwhile */
    WEIR_BUCKET_NEVER, /* the cost is above the capacity: no wait cures it */
};

/* Starts a bucket full. capacity_utok 0 .. WEIR_BUCKET_CAPACITY_MAX_UTOK. */
void weir_bucket_init(struct weir_bucket *b, int64_t capacity_utok, uint64_t rate_utok_per_s,
                      uint64_t now_ns);

/* Books what was earned up to now_ns. Called by all below; calling it more often changes nothing.
 */
void weir_bucket_refill(struct weir_bucket *b, uint64_t now_ns);

/* Takes cost_utok, or reports when it could.
 *
 * *wait_ns  set on WEIR_BUCKET_WAIT only, rounded up: retrying after that long succeeds if nobody
 * else takes. WEIR_NEVER_NS when the bucket does not fill (rate 0) or not within 584 years. Fails:
 * WEIR_BUCKET_WAIT, WEIR_BUCKET_NEVER; nothing is taken on both. */
WEIR_MUST_USE enum weir_bucket_result weir_bucket_take(struct weir_bucket *b, uint64_t cost_utok,
                                                       uint64_t now_ns, uint64_t *wait_ns);

/* What weir_bucket_take would answer; nothing changes. wait_ns may be NULL. */
WEIR_MUST_USE enum weir_bucket_result weir_bucket_check(const struct weir_bucket *b,
                                                        uint64_t cost_utok, uint64_t now_ns,
                                                        uint64_t *wait_ns);

/* Takes cost_utok whatever the level: into debt if need be. */
void weir_bucket_charge(struct weir_bucket *b, uint64_t cost_utok, uint64_t now_ns);

/* Gives back what was taken and not used; the level stops at the capacity. */
void weir_bucket_refund(struct weir_bucket *b, uint64_t amount_utok, uint64_t now_ns);

/* Corrects an earlier charge by what was really used: delta = used - charged. Positive charges
 * more, into debt if need be; negative refunds. */
void weir_bucket_correct(struct weir_bucket *b, int64_t delta_utok, uint64_t now_ns);

/* The level at now_ns, negative when in debt; nothing changes. For headers and pages. */
int64_t weir_bucket_level_utok(const struct weir_bucket *b, uint64_t now_ns);

/* Another capacity and rate from now_ns on. What was earned before is earned at the old rate; a
 * level above the new capacity is cut, a debt is kept, a grown capacity is not filled. */
void weir_bucket_reconfigure(struct weir_bucket *b, int64_t capacity_utok, uint64_t rate_utok_per_s,
                             uint64_t now_ns);

#endif

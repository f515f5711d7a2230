#include "core/bucket.h"

#include "core/num.h"

void weir_bucket_init(struct weir_bucket *b, int64_t capacity_utok, uint64_t rate_utok_per_s,
                      uint64_t now_ns)
{
    WEIR_INVARIANT(capacity_utok >= 0 && capacity_utok <= WEIR_BUCKET_CAPACITY_MAX_UTOK);
    b->level_utok = capacity_utok;
    b->capacity_utok = capacity_utok;
    b->rate_utok_per_s = rate_utok_per_s;
    b->filled_ns = now_ns;
    b->carry = 0;
}

void weir_bucket_refill(struct weir_bucket *b, uint64_t now_ns)
{
    WEIR_INVARIANT(b->level_utok <= b->capacity_utok);
    WEIR_INVARIANT(b->level_utok >= -WEIR_BUCKET_DEBT_MAX_UTOK);
    if (now_ns <= b->filled_ns)
        return; /* a step back earns nothing */
    /* carry keeps the fraction: ten refills of 1 ms leave exactly what one of 10 ms leaves. */
    uint64_t room_utok = (uint64_t)(b->capacity_utok - b->level_utok); /* level may be a debt */
    uint64_t earned_utok =
        weir_muldiv_carry(now_ns - b->filled_ns, b->rate_utok_per_s, WEIR_NS_PER_S, &b->carry);
    b->filled_ns = now_ns;
    if (earned_utok >= room_utok)
        b->carry = 0; /* full: nothing left to owe */
    b->level_utok += (int64_t)weir_min_u64(earned_utok, room_utok);
}

/* How long a bucket that is filled up to now_ns takes to earn need_utok: the smallest t with
 * (t * rate + carry) / 10^9 >= need, and so rounded up. */
static uint64_t wait_for(const struct weir_bucket *b, uint64_t need_utok, uint64_t now_ns)
{
    if (b->rate_utok_per_s == 0)
        return WEIR_NEVER_NS;
    unsigned __int128 missing = (unsigned __int128)need_utok * WEIR_NS_PER_S - b->carry;
    unsigned __int128 fill_ns = (missing + b->rate_utok_per_s - 1) / b->rate_utok_per_s;
    /* After a step back of the clock the bucket starts to earn only at filled_ns. */
    fill_ns += weir_sub_sat_u64(b->filled_ns, now_ns);
    return fill_ns > WEIR_NEVER_NS ? WEIR_NEVER_NS : (uint64_t)fill_ns;
}

enum weir_bucket_result weir_bucket_check(const struct weir_bucket *b, uint64_t cost_utok,
                                          uint64_t now_ns, uint64_t *wait_ns)
{
    if (cost_utok > (uint64_t)b->capacity_utok)
        return WEIR_BUCKET_NEVER;
    struct weir_bucket then = *b;
    weir_bucket_refill(&then, now_ns);
    if (then.level_utok >= (int64_t)cost_utok)
        return WEIR_BUCKET_OK;
    if (wait_ns)
        *wait_ns = wait_for(&then, (uint64_t)((int64_t)cost_utok - then.level_utok), now_ns);
    return WEIR_BUCKET_WAIT;
}

enum weir_bucket_result weir_bucket_take(struct weir_bucket *b, uint64_t cost_utok, uint64_t now_ns,
                                         uint64_t *wait_ns)
{
    enum weir_bucket_result result = weir_bucket_check(b, cost_utok, now_ns, wait_ns);
    if (result == WEIR_BUCKET_OK)
        weir_bucket_charge(b, cost_utok, now_ns);
    return result;
}

void weir_bucket_charge(struct weir_bucket *b, uint64_t cost_utok, uint64_t now_ns)
{
    weir_bucket_refill(b, now_ns);
    /* A debt beyond the largest that is remembered stops there rather than wrap. */
    uint64_t room_utok = (uint64_t)(b->level_utok + WEIR_BUCKET_DEBT_MAX_UTOK);
    b->level_utok -= (int64_t)weir_min_u64(cost_utok, room_utok);
}

void weir_bucket_refund(struct weir_bucket *b, uint64_t amount_utok, uint64_t now_ns)
{
    weir_bucket_refill(b, now_ns);
    uint64_t room_utok = (uint64_t)(b->capacity_utok - b->level_utok);
    if (amount_utok >= room_utok)
        b->carry = 0;
    b->level_utok += (int64_t)weir_min_u64(amount_utok, room_utok);
}

void weir_bucket_correct(struct weir_bucket *b, int64_t delta_utok, uint64_t now_ns)
{
    if (delta_utok >= 0)
        weir_bucket_charge(b, (uint64_t)delta_utok, now_ns);
    else
        weir_bucket_refund(b, weir_abs_i64(delta_utok), now_ns);
}

int64_t weir_bucket_level_utok(const struct weir_bucket *b, uint64_t now_ns)
{
    struct weir_bucket then = *b;
    weir_bucket_refill(&then, now_ns);
    return then.level_utok;
}

void weir_bucket_reconfigure(struct weir_bucket *b, int64_t capacity_utok, uint64_t rate_utok_per_s,
                             uint64_t now_ns)
{
    WEIR_INVARIANT(capacity_utok >= 0 && capacity_utok <= WEIR_BUCKET_CAPACITY_MAX_UTOK);
    weir_bucket_refill(b, now_ns);
    b->capacity_utok = capacity_utok;
    b->rate_utok_per_s = rate_utok_per_s;
    if (b->level_utok >= capacity_utok) {
        b->level_utok = capacity_utok;
        b->carry = 0;
    }
}

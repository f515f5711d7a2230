#include "core/ledger_inside.h"

/* Memory. */

struct layout {
    size_t scopes, balances, holds, buckets, bytes;
};

static size_t bucket_count(uint32_t holds_max)
{
    size_t count = 1;
    while (count < holds_max)
        count *= 2;
    return count;
}

static size_t place(size_t *at, size_t bytes)
{
    size_t offset = *at;
    *at = (offset + bytes + 63) & ~(size_t)63;
    return offset;
}

static struct layout layout_of(const struct weir_ledger_limits *limits)
{
    WEIR_INVARIANT(limits->scopes_max >= 1 && limits->scopes_max < UINT32_C(1) << 30);
    WEIR_INVARIANT(limits->balances_max >= limits->scopes_max);
    WEIR_INVARIANT(limits->balances_max < UINT32_C(1) << 31);
    WEIR_INVARIANT(limits->holds_max >= 1 && limits->holds_max <= UINT32_C(1) << 30);
    struct layout y;
    size_t at = 0;
    place(&at, sizeof(struct weir_ledger));
    y.scopes = place(&at, limits->scopes_max * sizeof(struct scope));
    y.balances = place(&at, limits->balances_max * sizeof(struct balance));
    y.holds = place(&at, limits->holds_max * sizeof(struct hold));
    y.buckets = place(&at, bucket_count(limits->holds_max) * sizeof(uint32_t));
    y.bytes = at;
    return y;
}

size_t weir_ledger_bytes(const struct weir_ledger_limits *limits)
{
    return layout_of(limits).bytes;
}

struct weir_ledger *weir_ledger_init(void *mem, size_t bytes,
                                     const struct weir_ledger_limits *limits, uint64_t epoch)
{
    struct layout y = layout_of(limits);
    WEIR_INVARIANT(bytes >= y.bytes);
    WEIR_INVARIANT(((uintptr_t)mem & 63) == 0);
    WEIR_INVARIANT(epoch >= 1 && epoch <= WEIR_LEDGER_EPOCH_MAX);
    char *base = mem;
    struct weir_ledger *l = mem;
    l->limits = *limits;
    l->epoch = epoch;
    l->bucket_mask = (uint32_t)(bucket_count(limits->holds_max) - 1);
    l->scopes = (void *)(base + y.scopes);
    l->balances = (void *)(base + y.balances);
    l->holds = (void *)(base + y.holds);
    l->buckets = (void *)(base + y.buckets);
    return l;
}

/* Balances. */

bool ledger_balance_has_room(const struct weir_ledger *l)
{
    return l->balances_free != 0 || l->balances_touched < l->limits.balances_max;
}

uint32_t ledger_balance_new(struct weir_ledger *l, uint32_t scope, uint64_t window, int64_t granted,
                            enum balance_place place)
{
    WEIR_INVARIANT(ledger_balance_has_room(l));
    uint32_t index;
    if (l->balances_free) {
        index = l->balances_free - 1;
        l->balances_free = l->balances[index].scope;
    } else {
        index = l->balances_touched++;
    }
    l->balances[index] =
        (struct balance){.granted = granted, .window = window, .scope = scope, .fresh = true};
    ledger_balance_move(l, index, place);
    return index;
}

void ledger_balance_move(struct weir_ledger *l, uint32_t index, enum balance_place place)
{
    struct balance *b = &l->balances[index];
    struct scope *s = &l->scopes[b->scope];
    if (b->place == BALANCE_PAST) {
        *(b->past_prev ? &l->balances[b->past_prev - 1].past_next : &s->past) = b->past_next;
        if (b->past_next)
            l->balances[b->past_next - 1].past_prev = b->past_prev;
        b->past_prev = b->past_next = 0;
    } else if (b->place == BALANCE_PRESENT) {
        s->balance = 0;
    }
    b->place = (uint8_t)place;
    if (place == BALANCE_PAST) {
        b->past_next = s->past;
        if (s->past)
            l->balances[s->past - 1].past_prev = index + 1;
        s->past = index + 1;
    } else if (place == BALANCE_PRESENT) {
        s->balance = index + 1;
    }
}

void ledger_balance_release(struct weir_ledger *l, uint32_t index)
{
    struct balance *b = &l->balances[index];
    if (b->place == BALANCE_PRESENT || b->refs > 0 || b->queued)
        return;
    ledger_balance_move(l, index, BALANCE_FREE);
    *b = (struct balance){.scope = l->balances_free};
    l->balances_free = index + 1;
}

void ledger_balance_grant(struct weir_ledger *l, uint32_t index, int64_t granted_tok)
{
    struct balance *b = &l->balances[index];
    if (b->granted == granted_tok)
        return;
    int64_t used = balance_used(b);
    int64_t excess_before = weir_max_i64(0, used - b->granted);
    int64_t excess_after = weir_max_i64(0, used - granted_tok);
    add_capped(&b->cut, weir_max_i64(0, excess_after - excess_before));
    b->granted = granted_tok;
    balance_tell(l, index);
}

/* Holds. */

bool ledger_hold_has_room(const struct weir_ledger *l)
{
    return l->holds_free != 0 || l->holds_touched < l->limits.holds_max;
}

struct hold *ledger_hold_new(struct weir_ledger *l, uint64_t id, const uint32_t *chain,
                             uint8_t depth, int64_t asked)
{
    WEIR_INVARIANT(ledger_hold_has_room(l));
    WEIR_INVARIANT(depth >= 1 && depth <= WEIR_LEDGER_DEPTH_MAX);
    uint32_t at;
    if (l->holds_free) {
        at = l->holds_free;
        l->holds_free = l->holds[at - 1].hash_next;
    } else {
        at = ++l->holds_touched;
    }
    struct hold *h = &l->holds[at - 1];
    uint32_t *bucket = hold_bucket(l, id);
    *h = (struct hold){.id = id, .asked = asked, .hash_next = *bucket, .depth = depth};
    *bucket = at;
    for (uint8_t i = 0; i < depth; i++) {
        h->chain[i] = chain[i];
        l->balances[chain[i]].refs++;
    }
    return h;
}

void ledger_hold_move(struct weir_ledger *l, struct hold *h, enum weir_hold_state to)
{
    uint32_t at = (uint32_t)(h - l->holds) + 1;
    enum list_name from = hold_list(h->state), into = hold_list(to);
    if (from != LIST_NONE) {
        struct list *list = &l->lists[from];
        *(h->list_prev ? &l->holds[h->list_prev - 1].list_next : &list->head) = h->list_next;
        *(h->list_next ? &l->holds[h->list_next - 1].list_prev : &list->tail) = h->list_prev;
        list->count--;
    }
    h->state = (uint8_t)to;
    h->list_prev = h->list_next = 0;
    if (into != LIST_NONE) {
        struct list *list = &l->lists[into];
        h->list_prev = list->tail;
        *(list->tail ? &l->holds[list->tail - 1].list_next : &list->head) = at;
        list->tail = at;
        list->count++;
    }
}

void ledger_hold_forget(struct weir_ledger *l, struct hold *h)
{
    uint32_t at = (uint32_t)(h - l->holds) + 1;
    bool counted = h->state == WEIR_HOLD_SETTLED || h->state == WEIR_HOLD_LATE;
    for (uint8_t i = 0; i < h->depth; i++) {
        if (counted)
            l->balances[h->chain[i]].forgotten += h->booked;
        l->balances[h->chain[i]].refs--;
        ledger_balance_release(l, h->chain[i]);
    }
    uint32_t *link = hold_bucket(l, h->id);
    while (*link != at)
        link = &l->holds[*link - 1].hash_next;
    *link = h->hash_next;
    ledger_hold_move(l, h, WEIR_HOLD_NONE);
    h->hash_next = l->holds_free;
    l->holds_free = at;
}

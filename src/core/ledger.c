#include "core/ledger.h"

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

static struct weir_ledger_answer say(struct weir_ledger *l, enum weir_ledger_result result,
                                     uint32_t scope)
{
    l->results[result]++;
    return (struct weir_ledger_answer){result, scope};
}

static bool amount_ok(int64_t amount)
{
    return amount >= 0 && amount <= WEIR_TOK_MAX;
}

/* The named causes only have to cover the excess, which a balance's own limit bounds. */
static void add_capped(int64_t *sum, int64_t amount)
{
    *sum = amount > WEIR_BALANCE_MAX - *sum ? WEIR_BALANCE_MAX : *sum + amount;
}

/* Balances. */

static bool balance_has_room(const struct weir_ledger *l)
{
    return l->balances_free != 0 || l->balances_touched < l->limits.balances_max;
}

static uint32_t balance_new(struct weir_ledger *l, uint32_t scope, uint64_t window, int64_t granted)
{
    WEIR_INVARIANT(balance_has_room(l));
    uint32_t index;
    if (l->balances_free) {
        index = l->balances_free - 1;
        l->balances_free = l->balances[index].scope;
    } else {
        index = l->balances_touched++;
    }
    l->balances[index] =
        (struct balance){.granted = granted, .window = window, .scope = scope, .live = true};
    return index;
}

static void balance_free(struct weir_ledger *l, uint32_t index)
{
    struct balance *b = &l->balances[index];
    WEIR_INVARIANT(b->live && b->refs == 0);
    *b = (struct balance){.scope = l->balances_free};
    l->balances_free = index + 1;
}

static bool balance_is_present(const struct weir_ledger *l, uint32_t index)
{
    return l->scopes[l->balances[index].scope].balance == index + 1;
}

static void balance_unref(struct weir_ledger *l, uint32_t index)
{
    struct balance *b = &l->balances[index];
    WEIR_INVARIANT(b->refs > 0);
    b->refs--;
    if (b->refs == 0 && !balance_is_present(l, index))
        balance_free(l, index);
}

/* May a hold grow by more_tok, to whole_tok in all? HELD: yes. */
static enum weir_ledger_result balance_judge(const struct balance *b, int64_t more_tok,
                                             int64_t whole_tok)
{
    if (whole_tok > b->granted)
        return WEIR_LEDGER_NEVER;
    int64_t used = balance_used(b);
    if (used < b->granted && more_tok <= b->granted - used)
        return WEIR_LEDGER_HELD;
    /* Would it fit if every hold in flight were given back whole? Then the shortage may pass. */
    int64_t spent = b->committed + b->lapsed;
    if (spent < b->granted && whole_tok <= b->granted - spent)
        return WEIR_LEDGER_BUSY;
    return WEIR_LEDGER_EXHAUSTED;
}

/* Scopes. */

/* The present balances of a scope and its parents, leaf first. Returns how many. */
static uint8_t scope_chain(const struct weir_ledger *l, const struct scope *s,
                           uint32_t chain[WEIR_LEDGER_DEPTH_MAX])
{
    uint8_t count = 0;
    for (; s; s = s->parent ? &l->scopes[s->parent - 1] : NULL) {
        WEIR_INVARIANT(count < WEIR_LEDGER_DEPTH_MAX);
        chain[count++] = s->balance - 1;
    }
    return count;
}

struct weir_ledger_answer weir_ledger_scope_set(struct weir_ledger *l, uint32_t scope,
                                                uint32_t parent, int64_t granted_tok,
                                                bool unlimited)
{
    const struct scope *up = parent == WEIR_NONE ? NULL : scope_find(l, parent);
    if (scope >= l->limits.scopes_max || parent == scope || (parent != WEIR_NONE && !up))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    if (!unlimited && !amount_ok(granted_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    struct scope *s = &l->scopes[scope];
    uint8_t depth = (uint8_t)(up ? up->depth + 1 : 1);
    /* One with children keeps its level. So the levels below stay right, and as a parent is always
     * one level higher than its child, no cycle can form. */
    if (depth > WEIR_LEDGER_DEPTH_MAX || (s->children > 0 && s->depth != depth))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    if (s->depth == 0 && !balance_has_room(l))
        return say(l, WEIR_LEDGER_FULL, WEIR_NONE);

    if (s->depth != 0 && s->parent)
        l->scopes[s->parent - 1].children--;
    if (up)
        l->scopes[parent].children++;
    s->granted = unlimited ? WEIR_BALANCE_MAX : granted_tok;
    s->unlimited = unlimited;
    s->parent = up ? parent + 1 : 0;
    if (s->depth == 0)
        s->balance = balance_new(l, scope, s->window, s->granted) + 1;
    s->depth = depth;

    struct balance *b = &l->balances[s->balance - 1];
    int64_t used = balance_used(b);
    int64_t excess_before = weir_max_i64(0, used - b->granted);
    int64_t excess_after = weir_max_i64(0, used - s->granted);
    add_capped(&b->cut, weir_max_i64(0, excess_after - excess_before));
    b->granted = s->granted;
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

/* The scope lets go of its balance; holds that name it keep it alive. */
static void scope_leave_balance(struct weir_ledger *l, struct scope *s)
{
    uint32_t index = s->balance - 1;
    s->balance = 0;
    if (l->balances[index].refs == 0)
        balance_free(l, index);
}

struct weir_ledger_answer weir_ledger_scope_forget(struct weir_ledger *l, uint32_t scope)
{
    struct scope *s = scope_find(l, scope);
    if (!s)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    const struct balance *b = &l->balances[s->balance - 1];
    if (s->children > 0 || b->reserved > 0 || b->lapsed > 0)
        return say(l, WEIR_LEDGER_BUSY, scope);
    if (s->parent)
        l->scopes[s->parent - 1].children--;
    scope_leave_balance(l, s);
    *s = (struct scope){0};
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_window_begin(struct weir_ledger *l, uint32_t scope,
                                                   uint64_t window)
{
    struct scope *s = scope_find(l, scope);
    if (!s || window < s->window)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    if (window == s->window)
        return say(l, WEIR_LEDGER_SAME, WEIR_NONE);
    if (l->balances[s->balance - 1].refs > 0 && !balance_has_room(l))
        return say(l, WEIR_LEDGER_FULL, WEIR_NONE);
    scope_leave_balance(l, s);
    s->window = window;
    s->balance = balance_new(l, scope, window, s->granted) + 1;
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

/* Holds. */

/* The only place where a hold changes its state. */
static void hold_move(struct weir_ledger *l, struct hold *h, enum weir_hold_state to)
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

static bool hold_has_room(const struct weir_ledger *l)
{
    return l->holds_free != 0 || l->holds_touched < l->limits.holds_max;
}

/* A new record that counts nothing yet. */
static struct hold *hold_new(struct weir_ledger *l, uint64_t id, const struct scope *s,
                             int64_t asked)
{
    WEIR_INVARIANT(hold_has_room(l));
    uint32_t at;
    if (l->holds_free) {
        at = l->holds_free;
        l->holds_free = l->holds[at - 1].hash_next;
    } else {
        at = ++l->holds_touched;
    }
    struct hold *h = &l->holds[at - 1];
    uint32_t *bucket = hold_bucket(l, id);
    *h = (struct hold){.id = id, .asked = asked, .hash_next = *bucket};
    *bucket = at;
    h->depth = scope_chain(l, s, h->chain);
    for (uint8_t i = 0; i < h->depth; i++)
        l->balances[h->chain[i]].refs++;
    return h;
}

static void hold_forget(struct weir_ledger *l, struct hold *h)
{
    uint32_t at = (uint32_t)(h - l->holds) + 1;
    bool counted = h->state == WEIR_HOLD_SETTLED || h->state == WEIR_HOLD_LATE;
    for (uint8_t i = 0; i < h->depth; i++) {
        if (counted)
            l->balances[h->chain[i]].forgotten += h->booked;
        balance_unref(l, h->chain[i]);
    }
    uint32_t *link = hold_bucket(l, h->id);
    while (*link != at)
        link = &l->holds[*link - 1].hash_next;
    *link = h->hash_next;
    hold_move(l, h, WEIR_HOLD_NONE);
    h->hash_next = l->holds_free;
    l->holds_free = at;
}

/* Operations. */

/* Asks every balance of the chain; the most final refusal wins, the nearest to the leaf among
 * equals. */
static struct weir_ledger_answer chain_judge(const struct weir_ledger *l, const uint32_t *chain,
                                             uint8_t depth, int64_t more_tok, int64_t whole_tok)
{
    struct weir_ledger_answer worst = {WEIR_LEDGER_HELD, WEIR_NONE};
    _Static_assert(WEIR_LEDGER_BUSY < WEIR_LEDGER_EXHAUSTED, "order of finality");
    _Static_assert(WEIR_LEDGER_EXHAUSTED < WEIR_LEDGER_NEVER, "order of finality");
    _Static_assert(WEIR_LEDGER_HELD < WEIR_LEDGER_BUSY, "order of finality");
    for (uint8_t i = 0; i < depth; i++) {
        const struct balance *b = &l->balances[chain[i]];
        enum weir_ledger_result result = balance_judge(b, more_tok, whole_tok);
        if (result > worst.result)
            worst = (struct weir_ledger_answer){result, b->scope};
    }
    return worst;
}

struct weir_ledger_answer weir_ledger_reserve(struct weir_ledger *l, uint64_t hold, uint32_t scope,
                                              int64_t est_tok)
{
    const struct scope *s = scope_find(l, scope);
    if (!s || !amount_ok(est_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    const struct hold *old = hold_find(l, hold);
    if (old) {
        if (old->asked != est_tok || l->balances[old->chain[0]].scope != scope)
            return say(l, WEIR_LEDGER_CONFLICT, WEIR_NONE);
        return say(l, old->state == WEIR_HOLD_HELD ? WEIR_LEDGER_SAME : WEIR_LEDGER_FINISHED,
                   WEIR_NONE);
    }
    /* A hold of another epoch would never lapse, or lapse under its owner's hands. */
    if (hold >> 40 != l->epoch || (hold & WEIR_LEDGER_COUNTER_MAX) == 0)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX];
    uint8_t depth = scope_chain(l, s, chain);
    struct weir_ledger_answer judged = chain_judge(l, chain, depth, est_tok, est_tok);
    if (judged.result != WEIR_LEDGER_HELD)
        return say(l, judged.result, judged.scope);
    if (!hold_has_room(l))
        return say(l, WEIR_LEDGER_FULL, WEIR_NONE);

    struct hold *h = hold_new(l, hold, s, est_tok);
    hold_move(l, h, WEIR_HOLD_HELD);
    h->booked = est_tok;
    hold_count(l, h, +1);
    return say(l, WEIR_LEDGER_HELD, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_extend(struct weir_ledger *l, uint64_t hold, int64_t est_tok)
{
    if (!amount_ok(est_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    struct hold *h = hold_find(l, hold);
    if (!h)
        return say(l, WEIR_LEDGER_UNKNOWN, WEIR_NONE);
    if (h->state != WEIR_HOLD_HELD)
        return say(l, WEIR_LEDGER_FINISHED, WEIR_NONE);
    if (est_tok <= h->booked)
        return say(l, WEIR_LEDGER_SAME, WEIR_NONE);
    struct weir_ledger_answer judged =
        chain_judge(l, h->chain, h->depth, est_tok - h->booked, est_tok);
    if (judged.result != WEIR_LEDGER_HELD)
        return say(l, judged.result, judged.scope);

    hold_count(l, h, -1);
    h->booked = est_tok;
    hold_count(l, h, +1);
    return say(l, WEIR_LEDGER_HELD, WEIR_NONE);
}

/* What of an amount fits into every balance of a chain, when freed_tok leaves them first: all of
 * it, unless a balance would pass its limit, which only nonsense amounts reach. */
static int64_t chain_fit(struct weir_ledger *l, const uint32_t *chain, uint8_t depth,
                         int64_t freed_tok, int64_t amount)
{
    int64_t fits = amount;
    for (uint8_t i = 0; i < depth; i++) {
        const struct balance *b = &l->balances[chain[i]];
        fits = weir_min_i64(fits, WEIR_BALANCE_MAX - (balance_used(b) - freed_tok));
    }
    if (fits < amount)
        l->clipped++;
    return fits;
}

/* Ends a hold (or a void or lapsed one again) with what was used. Returns what was booked. */
static int64_t hold_end(struct weir_ledger *l, struct hold *h, enum weir_hold_state to,
                        int64_t actual)
{
    int64_t before = h->booked;
    int64_t booked = chain_fit(l, h->chain, h->depth, before, actual);
    hold_count(l, h, -1);
    hold_move(l, h, to);
    h->booked = booked;
    hold_count(l, h, +1);
    for (uint8_t i = 0; i < h->depth && booked > before; i++)
        add_capped(&l->balances[h->chain[i]].overrun, booked - before);
    return booked;
}

/* Books use that no hold foresaw, under a hold of its own so that a repeat is known. When the table
 * is full it is booked all the same, only without that memory. */
static struct weir_ledger_answer settle_unmatched(struct weir_ledger *l, uint64_t hold,
                                                  const struct scope *s, int64_t actual_tok)
{
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX];
    uint8_t depth = scope_chain(l, s, chain);
    int64_t booked;
    if (hold_has_room(l)) {
        booked = hold_end(l, hold_new(l, hold, s, -1), WEIR_HOLD_LATE, actual_tok);
    } else {
        booked = chain_fit(l, chain, depth, 0, actual_tok);
        for (uint8_t i = 0; i < depth; i++) {
            struct balance *b = &l->balances[chain[i]];
            b->committed += booked;
            b->forgotten += booked;
            add_capped(&b->overrun, booked);
        }
    }
    for (uint8_t i = 0; i < depth; i++)
        add_capped(&l->balances[chain[i]].unmatched, booked);
    return say(l, WEIR_LEDGER_UNMATCHED, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_settle(struct weir_ledger *l, uint64_t hold, uint32_t scope,
                                             int64_t actual_tok)
{
    if (!amount_ok(actual_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    struct hold *h = hold_find(l, hold);
    if (!h) {
        const struct scope *s = scope_find(l, scope);
        if (!s)
            return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
        return settle_unmatched(l, hold, s, actual_tok);
    }
    switch ((enum weir_hold_state)h->state) {
    case WEIR_HOLD_HELD:
        hold_end(l, h, WEIR_HOLD_SETTLED, actual_tok);
        return say(l, WEIR_LEDGER_SETTLED, WEIR_NONE);
    case WEIR_HOLD_LAPSED:
    case WEIR_HOLD_VOID:
        hold_end(l, h, WEIR_HOLD_LATE, actual_tok);
        return say(l, WEIR_LEDGER_LATE, WEIR_NONE);
    case WEIR_HOLD_SETTLED:
    case WEIR_HOLD_LATE:
        return say(l, h->booked == actual_tok ? WEIR_LEDGER_SAME : WEIR_LEDGER_CONFLICT, WEIR_NONE);
    case WEIR_HOLD_NONE:
        break;
    }
    WEIR_INVARIANT(h->state != WEIR_HOLD_NONE);
    return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_void(struct weir_ledger *l, uint64_t hold)
{
    struct hold *h = hold_find(l, hold);
    if (!h)
        return say(l, WEIR_LEDGER_UNKNOWN, WEIR_NONE);
    if (h->state == WEIR_HOLD_VOID)
        return say(l, WEIR_LEDGER_SAME, WEIR_NONE);
    if (h->state != WEIR_HOLD_HELD)
        return say(l, WEIR_LEDGER_CONFLICT, WEIR_NONE);
    hold_end(l, h, WEIR_HOLD_VOID, 0);
    return say(l, WEIR_LEDGER_VOIDED, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_adjust(struct weir_ledger *l, uint32_t scope,
                                             int64_t amount_tok)
{
    const struct scope *s = scope_find(l, scope);
    if (!s || amount_tok > WEIR_TOK_MAX || amount_tok < -WEIR_TOK_MAX)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    int64_t up = weir_max_i64(0, amount_tok), down = weir_max_i64(0, -amount_tok);
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX];
    uint8_t depth = scope_chain(l, s, chain);
    for (uint8_t i = 0; i < depth; i++) {
        const struct balance *b = &l->balances[chain[i]];
        if (up > WEIR_BALANCE_MAX - b->raised || down > WEIR_BALANCE_MAX - b->lowered ||
            up > WEIR_BALANCE_MAX - balance_used(b))
            return say(l, WEIR_LEDGER_BAD, b->scope);
    }
    for (uint8_t i = 0; i < depth; i++) {
        struct balance *b = &l->balances[chain[i]];
        b->raised += up;
        b->lowered += down;
        b->committed += amount_tok;
    }
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_apply(struct weir_ledger *l, const struct weir_ledger_op *op)
{
    switch (op->kind) {
    case WEIR_LEDGER_RESERVE:
        return weir_ledger_reserve(l, op->hold, op->scope, op->amount_tok);
    case WEIR_LEDGER_EXTEND:
        return weir_ledger_extend(l, op->hold, op->amount_tok);
    case WEIR_LEDGER_SETTLE:
        return weir_ledger_settle(l, op->hold, op->scope, op->amount_tok);
    case WEIR_LEDGER_VOID:
        return weir_ledger_void(l, op->hold);
    case WEIR_LEDGER_SCOPE:
        return weir_ledger_scope_set(l, op->scope, op->parent, op->amount_tok, op->unlimited);
    case WEIR_LEDGER_SCOPE_FORGET:
        return weir_ledger_scope_forget(l, op->scope);
    case WEIR_LEDGER_WINDOW:
        return weir_ledger_window_begin(l, op->scope, op->window);
    case WEIR_LEDGER_ADJUST:
        return weir_ledger_adjust(l, op->scope, op->amount_tok);
    }
    return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
}

bool weir_ledger_epoch_begin(struct weir_ledger *l, uint64_t epoch)
{
    if (epoch <= l->epoch || epoch > WEIR_LEDGER_EPOCH_MAX)
        return false;
    l->epoch = epoch;
    return true;
}

uint32_t weir_ledger_lapse(struct weir_ledger *l, uint32_t count_max)
{
    uint32_t count = 0;
    while (count < count_max && l->lists[LIST_HELD].head) {
        struct hold *h = &l->holds[l->lists[LIST_HELD].head - 1];
        if (h->id >> 40 >= l->epoch)
            break;
        hold_end(l, h, WEIR_HOLD_LAPSED, h->booked);
        count++;
    }
    return count;
}

uint32_t weir_ledger_forget(struct weir_ledger *l, uint32_t keep, uint32_t count_max)
{
    uint32_t count = 0;
    while (count < count_max && l->lists[LIST_FINISHED].count > keep) {
        hold_forget(l, &l->holds[l->lists[LIST_FINISHED].head - 1]);
        count++;
    }
    return count;
}

#include "core/gap.h"

#include "core/num.h"

#define LINE 64u
#define RING 64u /* states at the ends of so many slices are kept */
#define WORDS (WEIR_GAP_TRACKED_MAX / 64u)
#define ROUNDING                                                                                   \
    4u /* per weight, in micro-work: schedulers' counters and the quotients here are whole */
#define AHEAD_MAX (INT64_C(1) << 60)  /* no scheduler counts a larger lead */
#define SERVED_MAX (INT64_C(1) << 61) /* so that the difference of two is one of int64_t */

static const uint32_t window_slices[WEIR_GAP_WINDOWS] = {1, 10, 60};
_Static_assert(RING > 60, "the longest window's start is still there at its end");

/* A tenant in a lane. */
struct gap_row {
    int64_t served; /* counted in its present stretch; 0 while it is not backlogged */
    int64_t ahead;  /* charged at its last dispatch and corrected by since, not below 0 */
    int64_t drop;   /* how far it is below the most it had been counted */
    uint32_t items;
    uint16_t entry_1;     /* 1 + its place among the tracked; 0 = none */
    uint16_t weight : 10; /* 0 means 1 */
    uint16_t is_suspended : 1;
    uint16_t has_come : 1; /* it was backlogged before */
};
_Static_assert(WEIR_SCHED_WEIGHT_MAX < 1024, "a weight has 10 bits");
_Static_assert(sizeof(struct gap_row) == 32, "two to a cache line");

/* A backlogged tenant that is compared. The state at the start of slice k is at k % RING. */
struct gap_entry {
    uint64_t since;   /* the first slice at whose start it was backlogged */
    uint64_t refunds; /* how far any of the lane has dropped, per weight, since its last dispatch */
    uint32_t tenant;
    int64_t served[RING];
    int64_t ahead[RING]; /* X */
};

struct gap_lane {
    enum weir_sched_policy policy;
    uint32_t backlogged, tracked;
    uint64_t used[WORDS]; /* bit i: entry i is taken */
    struct gap_row *rows;
    struct gap_entry *entries;
    uint64_t drop;           /* largest of any tenant's, per weight, in the running slice */
    uint64_t drop_ever;      /* in those before */
    uint64_t drop_untracked; /* of those that are not tracked, since all were */
    uint64_t ahead_ever;     /* vtc: the largest `ahead` of any tenant, per weight */
    bool has_rejoined;       /* drr-cost: a tenant came because a request was put back */
    uint64_t quantum[RING];
    struct weir_gap_window windows[WEIR_GAP_WINDOWS];
};

struct weir_gap {
    struct weir_gap_limits limits;
    uint32_t entries_max;
    uint64_t slice;  /* the running one: from slice x WEIR_GAP_SLICE_NS on */
    uint64_t due_ns; /* its end; 0: none has begun */
    struct gap_lane lane[];
};

static size_t round_up(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static uint32_t entries_of(struct weir_gap_limits limits)
{
    return (uint32_t)weir_min_u64(limits.tenants_max, WEIR_GAP_TRACKED_MAX);
}

static size_t head_bytes(struct weir_gap_limits limits)
{
    return round_up(sizeof(struct weir_gap) + limits.lanes * sizeof(struct gap_lane));
}

static size_t rows_bytes(struct weir_gap_limits limits)
{
    return round_up(limits.tenants_max * sizeof(struct gap_row));
}

static size_t entries_bytes(struct weir_gap_limits limits)
{
    return round_up(entries_of(limits) * sizeof(struct gap_entry));
}

size_t weir_gap_bytes(struct weir_gap_limits limits)
{
    return LINE + head_bytes(limits) + limits.lanes * (rows_bytes(limits) + entries_bytes(limits));
}

struct weir_gap *weir_gap_init(void *mem, size_t bytes, struct weir_gap_limits limits,
                               const enum weir_sched_policy *policies)
{
    WEIR_INVARIANT(limits.lanes > 0);
    WEIR_INVARIANT(limits.tenants_max > 0);
    WEIR_INVARIANT(bytes >= weir_gap_bytes(limits));
    unsigned char *at = mem;
    at += (LINE - (uintptr_t)at % LINE) % LINE;
    struct weir_gap *g = (void *)at;
    g->limits = limits;
    g->entries_max = entries_of(limits);
    at += head_bytes(limits);
    for (uint32_t i = 0; i < limits.lanes; i++) {
        struct gap_lane *l = &g->lane[i];
        l->policy = policies[i];
        l->rows = (void *)at;
        at += rows_bytes(limits);
        l->entries = (void *)at;
        at += entries_bytes(limits);
        for (uint32_t w = 0; w < WEIR_GAP_WINDOWS; w++)
            l->windows[w] = (struct weir_gap_window){
                .slices = window_slices[w], .ahead = WEIR_NONE, .behind = WEIR_NONE};
    }
    return g;
}

static struct gap_lane *lane_at(struct weir_gap *g, uint32_t lane)
{
    WEIR_INVARIANT(lane < g->limits.lanes);
    return &g->lane[lane];
}

static struct gap_row *row_at(const struct weir_gap *g, const struct gap_lane *l, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < g->limits.tenants_max);
    return &l->rows[tenant];
}

static bool is_backlogged(const struct gap_row *r)
{
    return r->items > 0 && !r->is_suspended;
}

static uint32_t row_weight(const struct gap_row *r)
{
    return r->weight ? r->weight : 1;
}

static uint64_t per_weight_ceil(int64_t amount, uint32_t weight)
{
    return weight == 1 ? (uint64_t)amount : weir_div_ceil_u64((uint64_t)amount, weight);
}

static uint64_t known_drop(const struct gap_lane *l)
{
    return weir_max_u64(l->drop_ever, l->drop);
}

/* Its stretch, as far as it can be compared, begins in the running slice. */
static void entry_begin(const struct weir_gap *g, struct gap_lane *l, const struct gap_row *r)
{
    struct gap_entry *e = &l->entries[r->entry_1 - 1];
    e->since = g->slice + 1;
    /* It may come with what it was ahead by before it left, and others may have dropped since. */
    e->refunds = known_drop(l);
}

/* vtc: nobody's counter is further above the level than ahead_ever, and never was; so far can the
 * level fall where the order runs empty unserved, or takes back one that had left. */
static void note_ahead(struct gap_lane *l, const struct gap_row *r)
{
    if ((unsigned __int128)l->ahead_ever * row_weight(r) < (unsigned __int128)r->ahead)
        l->ahead_ever = per_weight_ceil(r->ahead, row_weight(r));
}

static void track(const struct weir_gap *g, struct gap_lane *l, struct gap_row *r, uint32_t tenant)
{
    if (l->tracked == g->entries_max)
        return;
    uint32_t word = 0;
    while (l->used[word] == UINT64_MAX)
        word++;
    uint32_t bit = (uint32_t)__builtin_ctzll(~l->used[word]);
    l->used[word] |= UINT64_C(1) << bit;
    l->tracked++;
    r->entry_1 = (uint16_t)(word * 64 + bit + 1);
    l->entries[r->entry_1 - 1].tenant = tenant;
    entry_begin(g, l, r);
}

/* It is backlogged and was not. */
static void arrive(const struct weir_gap *g, struct gap_lane *l, struct gap_row *r, uint32_t tenant)
{
    l->backlogged++;
    r->served = 0;
    track(g, l, r, tenant);
    /* A new one stands level with the least served, whoever dropped before. */
    if (!r->has_come && r->entry_1)
        l->entries[r->entry_1 - 1].refunds = 0;
    r->has_come = 1;
}

/* It is not backlogged and was. */
static void leave(struct gap_lane *l, struct gap_row *r)
{
    l->backlogged--;
    r->served = 0;
    if (!r->entry_1)
        return;
    uint32_t entry = r->entry_1 - 1u;
    l->used[entry / 64] &= ~(UINT64_C(1) << (entry % 64));
    l->tracked--;
    r->entry_1 = 0;
}

/* And was not served at last: cancelled, moved away, suspended. */
static void leave_unserved(struct gap_lane *l, struct gap_row *r)
{
    leave(l, r);
    if (l->backlogged == 0 && l->policy == WEIR_SCHED_VTC)
        l->drop_ever = weir_max_u64(l->drop_ever, l->ahead_ever);
}

/* One that found no place when it came has one as soon as there is. */
static void track_late(const struct weir_gap *g, struct gap_lane *l, struct gap_row *r,
                       uint32_t tenant)
{
    if (!r->entry_1)
        track(g, l, r, tenant);
}

static int64_t clamp_up(int64_t amount)
{
    return weir_min_i64(amount, AHEAD_MAX);
}

static void note_drop(struct gap_lane *l, const struct gap_row *r)
{
    uint64_t drop = per_weight_ceil(r->drop, row_weight(r));
    l->drop = weir_max_u64(l->drop, drop);
    if (is_backlogged(r) && !r->entry_1)
        l->drop_untracked = weir_max_u64(l->drop_untracked, drop);
}

/* Work that counts for it, or comes off what counts. */
static void row_grow(const struct weir_gap *g, struct gap_lane *l, struct gap_row *r,
                     int64_t amount)
{
    r->drop = weir_max_i64(0, r->drop - amount);
    if (!is_backlogged(r))
        return;
    r->served += amount;
    if (r->served < SERVED_MAX)
        return;
    /* It is still far above where it came; only what was remembered is of no use any more. */
    r->served -= AHEAD_MAX;
    if (r->entry_1)
        l->entries[r->entry_1 - 1].since = g->slice + 1;
}

static void row_shrink(struct gap_lane *l, struct gap_row *r, int64_t amount)
{
    int64_t counted = amount;
    /* Under drr a request put back is made up for, whenever it was sent. */
    if (is_backlogged(r) && l->policy != WEIR_SCHED_DRR)
        counted = weir_min_i64(amount, r->served);
    if (is_backlogged(r))
        r->served -= counted;
    r->ahead = weir_max_i64(0, r->ahead - counted);
    r->drop = clamp_up(r->drop + counted);
    note_drop(l, r);
}

static int64_t charge_of(const struct gap_lane *l, uint64_t work_uwork)
{
    if (l->policy == WEIR_SCHED_DRR)
        return (int64_t)WEIR_GAP_REQUEST_UWORK;
    return (int64_t)weir_max_u64(1, weir_min_u64(work_uwork, (uint64_t)WEIR_SCHED_WORK_MAX_UWORK));
}

/* An amount that is to stay the same per weight. */
static int64_t reweigh(int64_t amount, uint32_t weight, uint32_t before)
{
    uint64_t scaled = weir_muldiv_ceil((uint64_t)amount, weight, before);
    return (int64_t)weir_min_u64(scaled, (uint64_t)AHEAD_MAX);
}

void weir_gap_set_weight(struct weir_gap *g, uint32_t lane, uint32_t tenant, uint32_t weight)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    uint32_t before = row_weight(r);
    if (before == weight)
        return;
    r->weight = weight & 1023;
    if (l->policy == WEIR_SCHED_DRR) {
        /* A request is one still, and of another share of a turn; a turn that has begun or was
         * lengthened by one put back is of the old weight. */
        if (is_backlogged(r))
            r->drop = clamp_up(r->drop + (int64_t)weight * (int64_t)WEIR_GAP_REQUEST_UWORK);
        note_drop(l, r);
    } else {
        r->ahead = reweigh(r->ahead, weight, before);
        r->drop = reweigh(r->drop, weight, before);
        r->served = reweigh(r->served, weight, before);
    }
    if (r->entry_1)
        entry_begin(g, l, r);
}

void weir_gap_enqueue(struct weir_gap *g, uint32_t lane, uint32_t tenant)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    r->items++;
    if (r->is_suspended)
        return;
    if (r->items > 1) {
        track_late(g, l, r, tenant);
        return;
    }
    r->drop = 0; /* it comes level with those who wait, or above */
    arrive(g, l, r, tenant);
}

void weir_gap_remove(struct weir_gap *g, uint32_t lane, uint32_t tenant)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    WEIR_INVARIANT(r->items > 0);
    r->items--;
    if (r->items == 0 && !r->is_suspended)
        leave_unserved(l, r);
}

void weir_gap_take(struct weir_gap *g, uint32_t lane, uint32_t tenant, uint64_t work_uwork)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    WEIR_INVARIANT(is_backlogged(r));
    int64_t amount = charge_of(l, work_uwork);
    r->ahead = l->policy == WEIR_SCHED_DRR ? 0 : amount;
    note_ahead(l, r);
    if (r->items == 1) {
        r->drop = weir_max_i64(0, r->drop - amount);
        r->items = 0;
        leave(l, r);
        return;
    }
    r->items--;
    track_late(g, l, r, tenant);
    row_grow(g, l, r, amount);
    if (r->entry_1)
        l->entries[r->entry_1 - 1].refunds = 0;
}

void weir_gap_put_back(struct weir_gap *g, uint32_t lane, uint32_t tenant, uint64_t work_uwork)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    row_shrink(l, r, charge_of(l, work_uwork));
    r->items++;
    if (r->items > 1 || r->is_suspended)
        return;
    if (l->policy == WEIR_SCHED_VTC && l->backlogged > 0)
        l->drop = weir_max_u64(l->drop, l->ahead_ever);
    l->has_rejoined = true;
    arrive(g, l, r, tenant);
}

void weir_gap_correct(struct weir_gap *g, uint32_t lane, uint32_t tenant, int64_t delta_uwork)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    if (l->policy == WEIR_SCHED_DRR || delta_uwork == 0)
        return;
    int64_t most = WEIR_SCHED_WORK_MAX_UWORK;
    int64_t delta = weir_max_i64(-most, weir_min_i64(delta_uwork, most));
    if (delta < 0) {
        row_shrink(l, r, -delta);
        return;
    }
    r->ahead = clamp_up(r->ahead + delta);
    note_ahead(l, r);
    row_grow(g, l, r, delta);
}

void weir_gap_suspend(struct weir_gap *g, uint32_t lane, uint32_t tenant)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    if (is_backlogged(r))
        leave_unserved(l, r);
    r->is_suspended = 1;
}

void weir_gap_resume(struct weir_gap *g, uint32_t lane, uint32_t tenant)
{
    struct gap_lane *l = lane_at(g, lane);
    struct gap_row *r = row_at(g, l, tenant);
    if (!r->is_suspended)
        return;
    r->is_suspended = 0;
    if (r->items == 0)
        return;
    r->drop = 0;
    arrive(g, l, r, tenant);
}

void weir_gap_tenant_forget(struct weir_gap *g, uint32_t lane, uint32_t tenant)
{
    struct gap_row *r = row_at(g, lane_at(g, lane), tenant);
    WEIR_INVARIANT(r->items == 0);
    *r = (struct gap_row){0};
}

/* ---- the end of a slice ---- */

/* One tenant compared in one window. */
struct gap_value {
    int64_t per_weight;
    int64_t ahead_before, ahead_after; /* X at its start and end */
    uint32_t tenant;
    uint32_t weight;
};

static int64_t div_floor(int64_t a, uint32_t b)
{
    if (b == 1)
        return a;
    int64_t by = (int64_t)b;
    return a / by - (a % by < 0);
}

/* Those that were backlogged all through the slices from `first` to the running one. */
static uint32_t window_collect(const struct weir_gap *g, const struct gap_lane *l, uint64_t first,
                               struct gap_value values[WEIR_GAP_TRACKED_MAX])
{
    uint32_t count = 0;
    uint32_t start = (uint32_t)(first % RING), end = (uint32_t)((g->slice + 1) % RING);
    for (uint32_t word = 0; word < WORDS; word++)
        for (uint64_t bits = l->used[word]; bits != 0; bits &= bits - 1) {
            const struct gap_entry *e = &l->entries[word * 64 + (uint32_t)__builtin_ctzll(bits)];
            if (e->since > first)
                continue;
            uint32_t weight = row_weight(&l->rows[e->tenant]);
            values[count++] = (struct gap_value){
                .per_weight = div_floor(e->served[end] - e->served[start], weight),
                .ahead_before = e->ahead[start],
                .ahead_after = e->ahead[end],
                .tenant = e->tenant,
                .weight = weight};
        }
    return count;
}

/* Jain's index, (sum x)^2 / (n sum x^2), of values cut to 31 bits: sums are of 128. */
static uint32_t window_jain(const struct gap_value *values, uint32_t count, int64_t most)
{
    if (most <= 0)
        return 1000000;
    uint32_t bits = weir_log2_floor_u64((uint64_t)most) + 1;
    uint32_t shift = bits > 31 ? bits - 31 : 0;
    uint64_t sum = 0;
    unsigned __int128 squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t x = (uint64_t)weir_max_i64(0, values[i].per_weight) >> shift;
        sum += x;
        squares += x * x;
    }
    return (uint32_t)((unsigned __int128)sum * sum * 1000000 / (squares * count));
}

static uint64_t normalise(uint64_t per_weight, uint32_t weight_min)
{
    return weir_muldiv_floor(per_weight, weight_min, 1);
}

/* Is a "more" than b? Among equals the order of the tenants decides, so that all agree. */
static bool is_before(int64_t a, uint32_t tenant_a, int64_t b, uint32_t tenant_b)
{
    return a != b ? a > b : tenant_a < tenant_b;
}

static void window_judge(struct gap_lane *l, struct weir_gap_window *w,
                         const struct gap_value *values, uint32_t count, uint64_t quantum)
{
    const struct gap_value *most = values, *least = values, *over = values, *under = values;
    uint32_t weight_min = values->weight;
    for (const struct gap_value *v = values; v < values + count; v++) {
        weight_min = v->weight < weight_min ? v->weight : weight_min;
        if (is_before(v->per_weight, v->tenant, most->per_weight, most->tenant))
            most = v;
        if (is_before(least->per_weight, least->tenant, v->per_weight, v->tenant))
            least = v;
        if (is_before(v->per_weight - v->ahead_after, v->tenant,
                      over->per_weight - over->ahead_after, over->tenant))
            over = v;
        if (is_before(under->per_weight + under->ahead_before, under->tenant,
                      v->per_weight + v->ahead_before, v->tenant))
            under = v;
    }
    w->jain_ppm = window_jain(values, count, most->per_weight);
    w->bound_uwork = WEIR_GAP_NO_BOUND;
    if (l->policy != WEIR_SCHED_FIFO) {
        int64_t beyond = (over->per_weight - over->ahead_after) -
                         (under->per_weight + under->ahead_before) - (int64_t)quantum - ROUNDING;
        if (beyond > 0) {
            w->broken++;
            most = over;
            least = under;
        }
        w->bound_uwork = normalise(
            (uint64_t)(most->ahead_after + least->ahead_before) + quantum + ROUNDING, weight_min);
    }
    w->ahead = most->tenant;
    w->behind = least->tenant;
    w->gap_uwork = normalise((uint64_t)(most->per_weight - least->per_weight), weight_min);
}

/* Rounds visit tenants in one order, so one quantum covers both ends; but who comes back with a
 * request put back has its turn out of that order. */
static uint64_t window_quantum(const struct weir_gap *g, const struct gap_lane *l, uint64_t first)
{
    uint64_t before = l->quantum[first % RING], after = l->quantum[(g->slice + 1) % RING];
    if (l->policy == WEIR_SCHED_DRR_COST && l->has_rejoined)
        return before + after;
    return weir_max_u64(before, after);
}

static void window_close(const struct weir_gap *g, struct gap_lane *l, struct weir_gap_window *w)
{
    struct gap_value values[WEIR_GAP_TRACKED_MAX];
    uint64_t first = g->slice + 1 - w->slices;
    uint32_t count = g->slice + 1 >= w->slices ? window_collect(g, l, first, values) : 0;
    *w = (struct weir_gap_window){.slices = w->slices,
                                  .compared = count,
                                  .ahead = WEIR_NONE,
                                  .behind = WEIR_NONE,
                                  .broken = w->broken};
    if (count >= 2)
        window_judge(l, w, values, count, window_quantum(g, l, first));
}

/* The running slice ends: what the lane's tenants have come to is kept as its end. */
static void slice_close(const struct weir_gap *g, struct gap_lane *l, uint64_t quantum_uwork)
{
    uint32_t end = (uint32_t)((g->slice + 1) % RING);
    if (l->backlogged == l->tracked)
        l->drop_untracked = 0;
    uint64_t drop = l->drop_untracked;
    for (uint32_t word = 0; word < WORDS; word++)
        for (uint64_t bits = l->used[word]; bits != 0; bits &= bits - 1) {
            struct gap_entry *e = &l->entries[word * 64 + (uint32_t)__builtin_ctzll(bits)];
            const struct gap_row *r = &l->rows[e->tenant];
            uint32_t weight = row_weight(r);
            e->refunds = weir_max_u64(e->refunds, l->drop);
            e->served[end] = r->served;
            e->ahead[end] = (int64_t)(per_weight_ceil(r->ahead, weight) + e->refunds);
            drop = weir_max_u64(drop, per_weight_ceil(r->drop, weight));
        }
    l->quantum[end] = l->policy == WEIR_SCHED_DRR ? WEIR_GAP_REQUEST_UWORK
                                                  : weir_min_u64(quantum_uwork, AHEAD_MAX);
    for (uint32_t w = 0; w < WEIR_GAP_WINDOWS; w++)
        if (l->tracked > 0 || l->windows[w].compared > 0)
            window_close(g, l, &l->windows[w]);
    l->drop_ever = known_drop(l);
    l->drop = drop;
}

uint64_t weir_gap_due_ns(const struct weir_gap *g)
{
    return g->due_ns;
}

void weir_gap_advance(struct weir_gap *g, const uint64_t *quantum_uwork, uint64_t now_ns)
{
    if (now_ns < g->due_ns)
        return;
    uint64_t slice = now_ns / WEIR_GAP_SLICE_NS;
    if (g->due_ns == 0)
        g->slice = slice;
    /* After RING slices without an event every state kept is the same: the rest changes nothing. */
    for (uint32_t ended = 0; g->slice < slice && ended <= RING; ended++, g->slice++)
        for (uint32_t i = 0; i < g->limits.lanes; i++)
            slice_close(g, &g->lane[i], quantum_uwork[i]);
    g->slice = slice;
    g->due_ns = weir_add_sat_u64(slice * WEIR_GAP_SLICE_NS, WEIR_GAP_SLICE_NS);
}

void weir_gap_view(const struct weir_gap *g, uint32_t lane, struct weir_gap_view *view)
{
    WEIR_INVARIANT(lane < g->limits.lanes);
    const struct gap_lane *l = &g->lane[lane];
    *view = (struct weir_gap_view){.ended_ns = g->slice * WEIR_GAP_SLICE_NS,
                                   .backlogged = l->backlogged,
                                   .tracked = l->tracked,
                                   .in_requests = l->policy == WEIR_SCHED_DRR};
    for (uint32_t w = 0; w < WEIR_GAP_WINDOWS; w++)
        view->windows[w] = l->windows[w];
}

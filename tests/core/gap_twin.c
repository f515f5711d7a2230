#include "core/gap_twin.h"

#include <string.h>

#include "core/num.h"

#define REFUNDS_EVER 0u /* slice 0: before the log */

/* A tenant after an event. */
struct state {
    bool is_backlogged, is_suspended, has_come;
    uint32_t items;
    int64_t weight;
    uint64_t since;        /* slice in which what can be compared began */
    uint64_t refunds_from; /* slice from which on drops count for it */
    int64_t served, ahead;
    int64_t level, peak; /* what it was counted since it came, and the most that was */
};

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_of(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

static void come(struct state *s, uint64_t slice)
{
    s->is_backlogged = true;
    s->since = slice;
    s->served = 0;
    s->refunds_from = s->has_come ? REFUNDS_EVER : slice;
    s->has_come = true;
}

static void take_back(const struct gap_twin *twin, struct state *s, int64_t amount)
{
    bool is_clamped = s->is_backlogged && twin->policy != WEIR_SCHED_DRR;
    int64_t counted = is_clamped ? least(amount, s->served) : amount;
    s->served -= s->is_backlogged ? counted : 0;
    s->ahead = most(0, s->ahead - counted);
    s->level -= counted;
}

static void add(struct state *s, int64_t amount)
{
    s->level += amount;
    s->peak = most(s->peak, s->level);
    if (s->is_backlogged)
        s->served += amount;
}

static void reweigh(const struct gap_twin *twin, struct state *s, int64_t weight, uint64_t slice)
{
    if (s->weight == weight)
        return;
    s->ahead = ceil_of(s->ahead * weight, s->weight);
    s->served = ceil_of(s->served * weight, s->weight);
    if (twin->policy ==
        WEIR_SCHED_DRR) /* a request owed is one; its turn may be of the old weight */
        s->peak += s->is_backlogged ? weight * (int64_t)WEIR_GAP_REQUEST_UWORK : 0;
    else
        s->peak = s->level + ceil_of((s->peak - s->level) * weight, s->weight);
    s->weight = weight;
    s->since = slice;
    s->refunds_from = REFUNDS_EVER;
}

static void play(const struct gap_twin *twin, struct state *s, const struct gap_twin_event *e)
{
    bool in_requests = twin->policy == WEIR_SCHED_DRR;
    int64_t unit = in_requests ? (int64_t)WEIR_GAP_REQUEST_UWORK : e->amount;
    switch (e->kind) {
    case GAP_TWIN_WEIGHT:
        reweigh(twin, s, e->amount, e->slice);
        return;
    case GAP_TWIN_ENQUEUE:
        s->items++;
        break;
    case GAP_TWIN_REMOVE:
        s->items--;
        break;
    case GAP_TWIN_TAKE:
        s->items--;
        s->ahead = in_requests ? 0 : unit;
        add(s, unit);
        s->refunds_from = e->slice;
        break;
    case GAP_TWIN_PUT_BACK:
        take_back(twin, s, unit);
        s->items++;
        if (!s->is_backlogged && !s->is_suspended)
            come(s, e->slice); /* without the reset of those that come by themselves */
        return;
    case GAP_TWIN_CORRECT:
        if (in_requests)
            return;
        if (unit < 0) {
            take_back(twin, s, -unit);
        } else {
            s->ahead += unit;
            add(s, unit);
        }
        return;
    case GAP_TWIN_SUSPEND:
        s->is_suspended = true;
        break;
    case GAP_TWIN_RESUME:
        s->is_suspended = false;
        break;
    case GAP_TWIN_FORGET:
        *s = (struct state){.weight = 1};
        return;
    }
    bool is_backlogged = s->items > 0 && !s->is_suspended;
    if (is_backlogged && !s->is_backlogged) {
        s->level = s->peak = 0;
        come(s, e->slice);
    } else if (!is_backlogged) {
        s->is_backlogged = false;
        s->served = 0;
    }
}

/* All states there ever were: [tenant][events so far]. */
struct history {
    struct state at[GAP_TWIN_TENANTS][GAP_TWIN_EVENTS + 1];
    uint32_t before[GAP_TWIN_SLICES + 1]; /* events before a slice */
    int64_t drop[GAP_TWIN_SLICES];        /* largest in a slice */
    int64_t fall[GAP_TWIN_EVENTS];        /* vtc: of the level when the order ran empty unserved */
    bool has_rejoined[GAP_TWIN_EVENTS + 1]; /* so many events so far, one among them */
};

static int64_t drop_of(const struct state *s)
{
    return ceil_of(s->peak - s->level, s->weight);
}

static uint32_t backlogged(const struct history *h, uint32_t events)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < GAP_TWIN_TENANTS; i++)
        count += h->at[i][events].is_backlogged;
    return count;
}

/* The furthest that anybody was ahead by its last dispatch, as of so many events. */
static int64_t ahead_ever(const struct gap_twin *twin, const struct history *h, uint32_t events)
{
    int64_t largest = 0;
    for (uint32_t i = 0; i < events; i++) {
        const struct gap_twin_event *e = &twin->events[i];
        const struct state *s = &h->at[e->tenant][i + 1];
        if (e->kind == GAP_TWIN_TAKE || (e->kind == GAP_TWIN_CORRECT && e->amount > 0))
            largest = most(largest, ceil_of(s->ahead, s->weight));
    }
    return largest;
}

/* What becomes of the order itself when tenants leave it unserved or come back by a put-back. */
static void remember_order(const struct gap_twin *twin, struct history *h)
{
    h->has_rejoined[0] = false;
    for (uint32_t i = 0; i < twin->count; i++) {
        const struct gap_twin_event *e = &twin->events[i];
        bool has_come = !h->at[e->tenant][i].is_backlogged && h->at[e->tenant][i + 1].is_backlogged;
        h->has_rejoined[i + 1] = h->has_rejoined[i] || (e->kind == GAP_TWIN_PUT_BACK && has_come);
        h->fall[i] = 0;
        if (twin->policy != WEIR_SCHED_VTC)
            continue;
        bool is_emptied = (e->kind == GAP_TWIN_REMOVE || e->kind == GAP_TWIN_SUSPEND) &&
                          backlogged(h, i) > 0 && backlogged(h, i + 1) == 0;
        if (is_emptied)
            h->fall[i] = ahead_ever(twin, h, i);
        if (e->kind == GAP_TWIN_PUT_BACK && has_come && backlogged(h, i) > 0)
            h->drop[e->slice] = most(h->drop[e->slice], ahead_ever(twin, h, i));
    }
}

static void remember(const struct gap_twin *twin, struct history *h, uint64_t last)
{
    for (uint64_t slice = 0, i = 0; slice <= last + 1; slice++) {
        while (i < twin->count && twin->events[i].slice < slice)
            i++;
        h->before[slice] = (uint32_t)i;
    }
    for (uint32_t tenant = 0; tenant < GAP_TWIN_TENANTS; tenant++) {
        struct state s = {.weight = 1};
        h->at[tenant][0] = s;
        for (uint32_t i = 0; i < twin->count; i++) {
            if (twin->events[i].tenant == tenant)
                play(twin, &s, &twin->events[i]);
            h->at[tenant][i + 1] = s;
        }
    }
    for (uint64_t slice = 0; slice <= last; slice++) {
        h->drop[slice] = 0;
        for (uint32_t tenant = 0; tenant < GAP_TWIN_TENANTS; tenant++) {
            const struct state *s = &h->at[tenant][h->before[slice]];
            if (s->is_backlogged)
                h->drop[slice] = most(h->drop[slice], drop_of(s));
        }
        for (uint32_t i = h->before[slice]; i < h->before[slice + 1]; i++) {
            const struct gap_twin_event *e = &twin->events[i];
            struct state before = h->at[e->tenant][i], after = before;
            if (e->kind == GAP_TWIN_WEIGHT && e->amount != before.weight &&
                twin->policy == WEIR_SCHED_DRR)
                h->drop[slice] = most(h->drop[slice], drop_of(&h->at[e->tenant][i + 1]));
            if (e->kind != GAP_TWIN_PUT_BACK &&
                (e->kind != GAP_TWIN_CORRECT || e->amount >= 0 || twin->policy == WEIR_SCHED_DRR))
                continue;
            take_back(twin, &after,
                      e->kind == GAP_TWIN_CORRECT      ? -e->amount
                      : twin->policy == WEIR_SCHED_DRR ? (int64_t)WEIR_GAP_REQUEST_UWORK
                                                       : e->amount);
            h->drop[slice] = most(h->drop[slice], drop_of(&after));
        }
    }
    remember_order(twin, h);
}

/* X of a tenant at the start of a slice. */
static int64_t ahead_of(const struct history *h, uint32_t tenant, uint64_t slice)
{
    const struct state *s = &h->at[tenant][h->before[slice]];
    int64_t refunds = 0;
    for (uint64_t i = s->refunds_from; i < slice; i++)
        refunds = most(refunds, h->drop[i]);
    for (uint32_t i = 0; s->refunds_from == REFUNDS_EVER && i < h->before[slice]; i++)
        refunds = most(refunds, h->fall[i]);
    return ceil_of(s->ahead, s->weight) + refunds;
}

static int64_t floor_of(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static uint32_t jain(const int64_t *values, uint32_t count)
{
    int64_t largest = 0;
    uint32_t shift = 0;
    unsigned __int128 sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++)
        largest = most(largest, values[i]);
    if (largest == 0)
        return 1000000;
    while (largest >> shift >= INT64_C(1) << 31)
        shift++;
    for (uint32_t i = 0; i < count; i++) {
        unsigned __int128 x = (unsigned __int128)(most(0, values[i]) >> shift);
        sum += x;
        squares += x * x;
    }
    return (uint32_t)(sum * sum * 1000000 / (squares * count));
}

static void find_window(struct gap_twin *twin, const struct history *h, uint64_t last,
                        struct weir_gap_window *w, uint64_t *broken)
{
    static const int64_t rounding = 4;
    uint64_t first = last + 1 - w->slices;
    uint32_t tenants[GAP_TWIN_TENANTS], count = 0;
    int64_t values[GAP_TWIN_TENANTS], lightest = INT64_MAX;
    w->ahead = w->behind = WEIR_NONE;
    for (uint32_t i = 0; i < GAP_TWIN_TENANTS && last + 1 >= w->slices; i++) {
        const struct state *from = &h->at[i][h->before[first]],
                           *to = &h->at[i][h->before[last + 1]];
        if (!to->is_backlogged || to->since >= first)
            continue;
        lightest = least(lightest, to->weight);
        values[count] = floor_of(to->served - from->served, to->weight);
        tenants[count++] = i;
    }
    w->compared = count;
    w->broken = *broken;
    if (count < 2)
        return;
    w->jain_ppm = jain(values, count);
    int64_t quantum = (int64_t)weir_max_u64(twin->quantum[first], twin->quantum[last + 1]);
    if (twin->policy == WEIR_SCHED_DRR_COST && h->has_rejoined[h->before[last + 1]])
        quantum = (int64_t)(twin->quantum[first] + twin->quantum[last + 1]);
    if (twin->policy == WEIR_SCHED_DRR)
        quantum = (int64_t)WEIR_GAP_REQUEST_UWORK;
    /* Every pair, in both directions. The widest, and the one furthest beyond its bound. */
    int64_t widest = INT64_MIN, beyond_most = 0;
    bool is_broken = false;
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < count; b++) {
            int64_t gap = values[a] - values[b];
            int64_t bound = ahead_of(h, tenants[a], last + 1) + ahead_of(h, tenants[b], first) +
                            quantum + rounding;
            bool has_bound = twin->policy != WEIR_SCHED_FIFO;
            bool is_worse;
            if (a == b)
                continue;
            if (has_bound && gap - bound > 0)
                is_worse = !is_broken || gap - bound > beyond_most ||
                           (gap - bound == beyond_most && tenants[b] > w->behind &&
                            tenants[a] == w->ahead);
            else
                is_worse = !is_broken &&
                           (gap > widest ||
                            (gap == widest && tenants[a] == w->ahead && tenants[b] > w->behind));
            if (!is_worse)
                continue;
            if (has_bound && gap > bound) {
                is_broken = true;
                beyond_most = gap - bound;
            }
            widest = gap;
            w->ahead = tenants[a];
            w->behind = tenants[b];
            w->gap_uwork = (uint64_t)(gap * lightest);
            w->bound_uwork = has_bound ? (uint64_t)(bound * lightest) : WEIR_GAP_NO_BOUND;
        }
    *broken += is_broken;
    w->broken = *broken;
}

void gap_twin_log(struct gap_twin *twin, uint64_t slice, enum gap_twin_kind kind, uint32_t tenant,
                  int64_t amount)
{
    twin->events[twin->count++] = (struct gap_twin_event){slice, kind, tenant, amount};
}

void gap_twin_windows(struct gap_twin *twin, uint64_t slice,
                      struct weir_gap_window windows[WEIR_GAP_WINDOWS])
{
    static const uint32_t slices[WEIR_GAP_WINDOWS] = {1, 10, 60};
    static struct history h;
    remember(twin, &h, slice);
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++) {
        windows[i] = (struct weir_gap_window){.slices = slices[i]};
        find_window(twin, &h, slice, &windows[i], &twin->broken[i]);
    }
}

#include "measure/fair.h"

#include "core/heap.h"
#include "core/num.h"
#include "core/sched.h"
#include "measure/fair_bound.h"
#include "measure/fair_gap.h"
#include "measure/fair_order.h"

#include <stdlib.h>

uint64_t weir_fair_work_uwork(uint64_t input_tok, uint64_t output_tok)
{
    return (WEIR_FAIR_WORK_INPUT * input_tok + WEIR_FAIR_WORK_OUTPUT * output_tok) *
           (uint64_t)WEIR_UWORK_PER_WORK;
}

static uint64_t work_of(const struct weir_fair_item *item)
{
    return weir_fair_work_uwork(item->input_tok, item->output_tok);
}

/* ---- what a plan must be ---- */

static const char *problem_of_items(const struct weir_fair_plan *plan, uint32_t *index)
{
    uint64_t total_uwork = 0, total_estimate = 0, arrival_ns = 0;
    for (*index = 0; *index < plan->items_count; ++*index) {
        const struct weir_fair_item *item = &plan->items[*index];
        if (item->tenant >= plan->tenants_count)
            return "the request's tenant is not in the plan";
        if (item->input_tok > WEIR_FAIR_TOK_MAX || item->output_tok > WEIR_FAIR_TOK_MAX)
            return "a request has at most 1,000,000,000 tokens each way";
        if (item->input_tok == 0 && item->output_tok == 0)
            return "a request costs at least one token";
        if (item->estimate_uwork == 0 || item->estimate_uwork > (uint64_t)WEIR_SCHED_WORK_MAX_UWORK)
            return "an estimate is above 2^52 micro-work, or 0: lower the costs or the error of "
                   "estimates";
        if (item->arrival_ns < arrival_ns || item->arrival_ns > WEIR_FAIR_ARRIVAL_MAX_NS)
            return "arrivals are out of order or more than 36 years away: raise the rate or lower "
                   "the backlog";
        arrival_ns = item->arrival_ns;
        uint64_t work = work_of(item);
        if (work > WEIR_FAIR_TOTAL_MAX_UWORK - total_uwork ||
            item->estimate_uwork > WEIR_FAIR_TOTAL_MAX_UWORK - total_estimate)
            return "the work of all requests together is above 4,611,686,018,427 and cannot be "
                   "counted: "
                   "lower the backlog or the costs";
        total_uwork += work;
        total_estimate += item->estimate_uwork;
    }
    *index = WEIR_NONE;
    return NULL;
}

const char *weir_fair_problem(const struct weir_fair_plan *plan, uint32_t *index)
{
    *index = WEIR_NONE;
    if (plan->tenants_count < 1 || plan->tenants_count > WEIR_FAIR_TENANTS_MAX)
        return "there must be 1 to 64 tenants";
    if (plan->items_count < 1 || plan->items_count > WEIR_FAIR_ITEMS_MAX)
        return "there must be 1 to 1,000,000 requests";
    if (plan->permits < 1 || plan->permits > WEIR_FAIR_PERMITS_MAX)
        return "there must be 1 to 100,000 permits";
    for (*index = 0; *index < plan->tenants_count; ++*index)
        if (plan->weights[*index] < 1 || plan->weights[*index] > WEIR_SCHED_WEIGHT_MAX)
            return "a weight is 1 to 1000";
    return problem_of_items(plan, index);
}

/* ---- the run ---- */

struct run {
    const struct weir_fair_plan *plan;
    weir_fair_seen_fn *seen;
    void *user;
    struct weir_fair_result *result;
    struct fair_order order;
    struct fair_bound bound;
    struct fair_gap *gaps[WEIR_FAIR_COUNTS];
    struct weir_heap ends; /* of permits, by the end of what they carry */
    struct weir_heap_entry *ends_entries;
    uint32_t *ends_place;
    uint32_t permits;  /* no more than there are items */
    uint32_t *carried; /* item of each permit in use */
    uint32_t *free_permits, free_count;
    uint64_t now_ns;
    uint64_t served[WEIR_FAIR_COUNTS][WEIR_FAIR_TENANTS_MAX];
    uint32_t in_flight[WEIR_FAIR_TENANTS_MAX];
    bool is_backlogged[WEIR_FAIR_TENANTS_MAX];
    uint64_t arrived_uwork[WEIR_FAIR_TENANTS_MAX];
    double ideal_uwork[WEIR_FAIR_TENANTS_MAX];
};

static struct weir_fair_edge here(const struct run *r)
{
    return (struct weir_fair_edge){r->result->dispatches, r->now_ns};
}

static void show(const struct run *r, enum weir_fair_event event, uint32_t item)
{
    if (!r->seen)
        return;
    struct weir_fair_now now = {
        .event = event,
        .item = item,
        .at_ns = r->now_ns,
        .dispatches = r->result->dispatches,
        .dispatched_uwork = r->served[WEIR_FAIR_DISPATCHED],
        .delivered_uwork = r->served[WEIR_FAIR_DELIVERED],
        .ideal_uwork = r->ideal_uwork,
        .is_backlogged = r->is_backlogged,
    };
    r->seen(r->user, &now);
}

/* Every permit in use has delivered a micro-work a nanosecond. */
static void run_move_to(struct run *r, uint64_t at_ns)
{
    if (at_ns == r->now_ns)
        return;
    for (uint32_t i = 0; i < r->plan->tenants_count; i++)
        r->served[WEIR_FAIR_DELIVERED][i] += r->in_flight[i] * (at_ns - r->now_ns);
    r->now_ns = at_ns;
}

/* The number of permits that a tenant has in use is about to change. In between, leads change
 * evenly with time: this is where they turn, so these are the only times to look at them. */
static void run_turn(struct run *r, uint32_t tenant)
{
    if (r->is_backlogged[tenant])
        fair_gap_served(r->gaps[WEIR_FAIR_DELIVERED], tenant, r->served[WEIR_FAIR_DELIVERED],
                        r->is_backlogged, here(r));
}

static void run_end_one(struct run *r)
{
    uint32_t permit = weir_heap_pop(&r->ends);
    uint32_t index = r->carried[permit];
    const struct weir_fair_item *item = &r->plan->items[index];
    r->free_permits[r->free_count++] = permit;
    run_turn(r, item->tenant);
    r->in_flight[item->tenant]--;
    fair_order_correct(&r->order, index, (int64_t)work_of(item) - (int64_t)item->estimate_uwork);
    show(r, WEIR_FAIR_ENDED, index);
}

static void run_arrive_first(struct run *r, uint32_t tenant)
{
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
        fair_gap_begin(r->gaps[c], tenant, r->served[c], here(r));
    r->is_backlogged[tenant] = true;
    r->bound.facts.returns += r->served[WEIR_FAIR_REQUESTS][tenant] > 0;
}

static void run_arrive(struct run *r, uint32_t index)
{
    uint32_t tenant = r->plan->items[index].tenant;
    if (r->bound.mean_x64 == 0)
        fair_bound_note_charge(&r->bound, r->plan->items[index].estimate_uwork);
    fair_order_enqueue(&r->order, index);
    r->arrived_uwork[tenant] += work_of(&r->plan->items[index]);
    if (!r->is_backlogged[tenant])
        run_arrive_first(r, tenant);
    show(r, WEIR_FAIR_ARRIVED, index);
}

/* Pours work out by weight over the tenants that have some left. One that has less than its share
 * takes that, and the others share again. */
static void run_pour(struct run *r, double work)
{
    bool is_open[WEIR_FAIR_TENANTS_MAX];
    double weights = 0;
    for (uint32_t i = 0; i < r->plan->tenants_count; i++) {
        is_open[i] = (double)r->arrived_uwork[i] > r->ideal_uwork[i];
        weights += is_open[i] ? r->plan->weights[i] : 0;
    }
    for (uint32_t i = 0; i < r->plan->tenants_count;) {
        double room = (double)r->arrived_uwork[i] - r->ideal_uwork[i];
        if (!is_open[i] || room > work * r->plan->weights[i] / weights) {
            i++;
            continue;
        }
        r->ideal_uwork[i] = (double)r->arrived_uwork[i];
        is_open[i] = false;
        work -= room;
        weights -= r->plan->weights[i];
        i = 0;
    }
    for (uint32_t i = 0; i < r->plan->tenants_count; i++)
        if (is_open[i])
            r->ideal_uwork[i] += work * r->plan->weights[i] / weights;
}

static void run_note_ideal(struct run *r, uint64_t work_uwork)
{
    uint32_t backlogged = 0;
    run_pour(r, (double)work_uwork);
    for (uint32_t i = 0; i < r->plan->tenants_count; i++) {
        backlogged += r->is_backlogged[i];
        double served = (double)r->served[WEIR_FAIR_DISPATCHED][i], ideal = r->ideal_uwork[i];
        struct weir_fair_tenant *t = &r->result->tenants[i];
        struct weir_fair_off off = {served, ideal, r->result->dispatches};
        /* The first of several alike, whatever the last digits of ideal are. */
        if (r->is_backlogged[i] &&
            ideal - served > t->behind.ideal_uwork - t->behind.served_uwork + 1)
            t->behind = off;
        if (r->is_backlogged[i] &&
            served - ideal > t->ahead.served_uwork - t->ahead.ideal_uwork + 1)
            t->ahead = off;
    }
    r->result->contended += backlogged > 1;
}

static void run_dispatch(struct run *r)
{
    uint32_t index = fair_order_take(&r->order);
    const struct weir_fair_item *item = &r->plan->items[index];
    uint64_t work = work_of(item);
    uint32_t permit = r->free_permits[--r->free_count];
    r->carried[permit] = index;
    weir_heap_push(&r->ends, permit, r->now_ns + work);
    run_turn(r, item->tenant);
    r->in_flight[item->tenant]++;
    fair_bound_note_charge(&r->bound, item->estimate_uwork);
    r->result->dispatches++;
    r->served[WEIR_FAIR_DISPATCHED][item->tenant] += work;
    r->served[WEIR_FAIR_REQUESTS][item->tenant] += (uint64_t)WEIR_UWORK_PER_WORK;
    r->served[WEIR_FAIR_ONE_WAITS][item->tenant] += work;
    static const enum weir_fair_count at_once[] = {WEIR_FAIR_DISPATCHED, WEIR_FAIR_ONE_WAITS,
                                                   WEIR_FAIR_REQUESTS};
    for (uint32_t i = 0; i < WEIR_COUNT(at_once); i++)
        fair_gap_served(r->gaps[at_once[i]], item->tenant, r->served[at_once[i]], r->is_backlogged,
                        here(r));
    run_note_ideal(r, work);
    r->is_backlogged[item->tenant] = r->order.waiting[item->tenant] > 0;
    show(r, WEIR_FAIR_SENT, index);
}

static void run_all(struct run *r)
{
    uint32_t arrived = 0;
    const struct weir_fair_item *items = r->plan->items;
    while (arrived < r->plan->items_count || r->ends.count > 0) {
        uint64_t arrival_ns =
            arrived < r->plan->items_count ? items[arrived].arrival_ns : WEIR_NEVER_NS;
        uint64_t end_ns = r->ends.count > 0 ? weir_heap_top_key(&r->ends) : WEIR_NEVER_NS;
        run_move_to(r, weir_min_u64(arrival_ns, end_ns));
        while (r->ends.count > 0 && weir_heap_top_key(&r->ends) == r->now_ns)
            run_end_one(r);
        while (arrived < r->plan->items_count && items[arrived].arrival_ns == r->now_ns)
            run_arrive(r, arrived++);
        while (r->order.waiting_all > 0 && r->free_count > 0)
            run_dispatch(r);
    }
}

static bool run_begin(struct run *r)
{
    const struct weir_fair_plan *plan = r->plan;
    r->permits = (uint32_t)weir_min_u64(plan->permits, plan->items_count);
    bool ok = fair_order_init(&r->order, plan);
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
        ok = (r->gaps[c] = malloc(sizeof *r->gaps[c])) != NULL && ok;
    r->ends_entries = calloc(r->permits + WEIR_HEAP_SPARE, sizeof *r->ends_entries);
    r->ends_place = calloc(r->permits, sizeof *r->ends_place);
    r->carried = calloc(r->permits, sizeof *r->carried);
    r->free_permits = calloc(r->permits, sizeof *r->free_permits);
    if (!ok || !r->ends_entries || !r->ends_place || !r->carried || !r->free_permits)
        return false;
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
        fair_gap_init(r->gaps[c], plan->weights, plan->tenants_count, c == WEIR_FAIR_ONE_WAITS);
    weir_heap_init(&r->ends, r->ends_entries, r->ends_place, r->permits);
    for (uint32_t i = 0; i < r->permits; i++)
        r->free_permits[r->free_count++] = r->permits - 1 - i;
    fair_bound_init(&r->bound, plan);
    return true;
}

static void run_free(struct run *r)
{
    fair_order_free(&r->order);
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
        free(r->gaps[c]);
    free(r->ends_entries);
    free(r->ends_place);
    free(r->carried);
    free(r->free_permits);
}

static void run_conclude(struct run *r)
{
    struct weir_fair_result *result = r->result;
    result->end_ns = r->now_ns;
    result->facts = r->bound.facts;
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++) {
        fair_gap_result(r->gaps[c], &result->gaps[c]);
        fair_bound_judge(&r->bound, (enum weir_fair_count)c, &result->gaps[c]);
        result->is_bounded = result->is_bounded || result->gaps[c].is_bounded;
        result->is_broken = result->is_broken || result->gaps[c].is_broken;
    }
    for (uint32_t i = 0; i < r->plan->tenants_count; i++) {
        result->tenants[i].items = r->served[WEIR_FAIR_REQUESTS][i] / WEIR_UWORK_PER_WORK;
        result->tenants[i].work_uwork = r->served[WEIR_FAIR_DISPATCHED][i];
    }
}

bool weir_fair_run(const struct weir_fair_plan *plan, weir_fair_seen_fn *seen, void *user,
                   struct weir_fair_result *result)
{
    struct run r = {.plan = plan, .seen = seen, .user = user, .result = result};
    *result = (struct weir_fair_result){0};
    bool ok = run_begin(&r);
    if (ok) {
        run_all(&r);
        run_conclude(&r);
    }
    run_free(&r);
    return ok;
}

const char *weir_fair_policy_name(enum weir_fair_policy policy)
{
    switch (policy) {
    case WEIR_FAIR_VTC:
        return "vtc";
    case WEIR_FAIR_DRR_COST:
        return "drr-cost";
    case WEIR_FAIR_DRR:
        return "drr";
    case WEIR_FAIR_FIFO:
        return "fifo";
    case WEIR_FAIR_DRR_RESTARTING:
        return "drr-restarting";
    }
    return "";
}

const char *weir_fair_count_name(enum weir_fair_count count)
{
    switch (count) {
    case WEIR_FAIR_DISPATCHED:
        return "dispatched";
    case WEIR_FAIR_ONE_WAITS:
        return "one-waits";
    case WEIR_FAIR_DELIVERED:
        return "delivered";
    case WEIR_FAIR_REQUESTS:
        return "requests";
    }
    return "";
}

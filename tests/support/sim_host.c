#include "support/sim_host.h"

#include <stdlib.h>

#include "support/check.h"
#include "support/sim_private.h"

static void *sim_memory(size_t bytes)
{
    size_t room = (bytes + 63) & ~(size_t)63;
    void *mem = aligned_alloc(64, room);
    CHECK(mem != NULL);
    memset(mem, 0, room);
    return mem;
}

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void sim_events_push(struct sim *sim, struct sim_event e)
{
    if (sim->events_count == sim->events_room) {
        sim->events_room = sim->events_room ? sim->events_room * 2 : 64;
        sim->events = realloc(sim->events, sim->events_room * sizeof e);
        CHECK(sim->events != NULL);
    }
    e.order = sim->order++;
    uint32_t at = sim->events_count++;
    while (at > 0 && event_before(&e, &sim->events[(at - 1) / 2])) {
        sim->events[at] = sim->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->events[at] = e;
}

static struct sim_event events_pop(struct sim *sim)
{
    struct sim_event top = sim->events[0], last = sim->events[--sim->events_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = at * 2 + 1;
        if (child >= sim->events_count)
            break;
        if (child + 1 < sim->events_count &&
            event_before(&sim->events[child + 1], &sim->events[child]))
            child++;
        if (!event_before(&sim->events[child], &last))
            break;
        sim->events[at] = sim->events[child];
        at = child;
    }
    if (sim->events_count > 0)
        sim->events[at] = last;
    return top;
}

struct sim_config sim_config_plain(uint32_t permits, struct weir_tenant_rules *tenants,
                                   uint32_t tenant_count)
{
    struct sim_config c = {
        .limits = {.tenants_max = tenant_count,
                   .requests_max = 4096,
                   .models_max = 1,
                   .waiters_max = 4096,
                   .waiting_bytes_max = UINT64_C(1) << 40,
                   .pairs_max = 64},
        .lanes = {.lane_count = 1},
        .pool_count = 1,
        .upstream_count = 1,
        .tenant_count = tenant_count,
        .tenants = tenants,
        .model = {.output_default_tok = 4096, .image_tok = 1000, .file_tok = 3000},
        .is_audited = true};
    for (uint32_t i = 0; i < SIM_SCOPES_MAX; i++)
        c.granted_tok[i] = UINT64_C(1) << 50;
    c.upstreams[0] = (struct weir_upstream_rules){.permits = permits,
                                                  .accounting = WEIR_ACCOUNTING_PLAIN,
                                                  .breaker = weir_breaker_rules_default(),
                                                  .fallback = WEIR_NONE};
    c.pools[0] = (struct weir_pool_rules){
        .policy = WEIR_SCHED_VTC, .upstream_count = 1, .work_input = 1, .work_output = 2};
    for (uint32_t i = 0; i < tenant_count; i++)
        tenants[i] = (struct weir_tenant_rules){.weight = 1, .waiters_max = 4096, .scope = 0};
    return c;
}

struct sim_plan sim_plan_ok(uint64_t service_ns, int64_t input_tok, int64_t output_tok)
{
    return (struct sim_plan){.sent_ns = 0,
                             .head_ns = service_ns / 2,
                             .end_ns = service_ns,
                             .status = 200,
                             .end = WEIR_CALL_COMPLETE,
                             .usage = {input_tok, 0, 0, output_tok},
                             .output_seen_bytes = (uint64_t)output_tok * 4,
                             .answer_bytes = (uint64_t)output_tok * 4 + 100};
}

void sim_open(struct sim *sim, const struct sim_config *config)
{
    *sim = (struct sim){.config = *config, .now_ns = WEIR_NS_PER_S};
    weir_rng_seed(&sim->rng, config->seed, 1);
    const struct sim_config *c = &sim->config;
    size_t bytes = weir_flow_bytes(&c->limits, c->pool_count, c->upstream_count, &c->lanes);
    sim->mem = sim_memory(bytes);
    sim->flow =
        weir_flow_init(sim->mem, bytes, &c->limits, c->pool_count, c->upstream_count, &c->lanes);
    for (uint32_t i = 0; i < c->upstream_count; i++)
        weir_flow_upstream_set(sim->flow, i, &c->upstreams[i], sim->now_ns);
    for (uint32_t i = 0; i < c->pool_count; i++)
        weir_flow_pool_set(sim->flow, i, &c->pools[i]);
    for (uint32_t i = 0; i < c->tenant_count; i++)
        weir_flow_tenant_set(sim->flow, i, &c->tenants[i], sim->now_ns);
    weir_flow_model_set(sim->flow, 0, &c->model);
    memcpy(sim->granted_tok, c->granted_tok, sizeof sim->granted_tok);
    for (uint32_t i = 0; i < SIM_SCOPES_MAX; i++)
        if (c->scopes[i].period_ns)
            sim->window[i] = sim->now_ns / c->scopes[i].period_ns;
}

void sim_free(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->events_count; i++)
        free(sim->events[i].arrival);
    free(sim->events);
    free(sim->requests);
    free(sim->mem);
    *sim = (struct sim){0};
}

struct weir_arrival sim_arrival(const struct sim *sim, uint32_t tenant, uint32_t text_bytes,
                                uint64_t output_limit_tok, uint64_t patience_ns)
{
    return (struct weir_arrival){.tenant = tenant,
                                 .lane = WEIR_NONE,
                                 .text = {.letters = text_bytes * 4 / 5,
                                          .words = text_bytes / 5,
                                          .space = text_bytes / 5,
                                          .messages = 1,
                                          .text_bytes = text_bytes},
                                 .output_limit_tok = output_limit_tok,
                                 .choices = 1,
                                 .metered = true,
                                 .stream = true,
                                 .bytes = text_bytes + 200,
                                 .queue_deadline_ns = weir_add_sat_u64(sim->now_ns, patience_ns),
                                 .total_deadline_ns = sim->now_ns + 3600 * WEIR_NS_PER_S};
}

static uint32_t sim_admit(struct sim *sim, const struct weir_arrival *arrival)
{
    if (sim->requests_count == sim->requests_room) {
        sim->requests_room = sim->requests_room ? sim->requests_room * 2 : 64;
        sim->requests = realloc(sim->requests, sim->requests_room * sizeof *sim->requests);
        CHECK(sim->requests != NULL);
    }
    uint32_t index = sim->requests_count++;
    struct sim_request *r = &sim->requests[index];
    *r = (struct sim_request){.arrival = *arrival, .arrived_ns = sim->now_ns};
    r->arrival.hold = UINT64_C(1) << 40 | (index + 1);
    r->hold_id = r->arrival.hold;
    r->hold_scope = sim->config.tenants[r->arrival.tenant].scope;
    r->arrival.host = (void *)(uintptr_t)(index + 1);
    uint64_t id = 0;
    struct weir_refused refused = {0};
    r->refusal = weir_flow_arrive(sim->flow, &r->arrival, sim->now_ns, &id, &refused);
    if (r->refusal != WEIR_REFUSAL_NONE) {
        CHECK_INT(refused.reason, r->refusal);
        r->refused = refused;
        r->refused_ns = sim->now_ns;
        return index;
    }
    CHECK(id > UINT32_MAX);
    r->id = id;
    r->is_alive = true;
    return index;
}

/* --- calls --- */

static void call_start(struct sim *sim, uint32_t index, const struct weir_effect *e)
{
    struct sim_request *r = &sim->requests[index];
    uint32_t u = e->upstream;
    CHECK(!r->is_calling);
    CHECK(!r->is_client_gone);
    CHECK(!r->is_head_passed);
    CHECK(r->hold == SIM_HOLD_HELD || !(r->arrival.metered || r->arrival.fixed_cost_tok));
    CHECK(r->attempts < 3);
    CHECK(!r->was_sent || r->arrival.repeatable);
    for (uint32_t i = 0; i < r->attempts; i++)
        CHECK(r->tried[i] != u);
    if (r->attempts == 0) {
        r->first_dispatched_ns = sim->now_ns;
        CHECK(sim->now_ns <= r->arrival.queue_deadline_ns);
    }
    CHECK_INT(e->deadline_ns, r->arrival.total_deadline_ns);
    r->tried[r->attempts++] = u;
    r->is_calling = true;
    r->is_sent = false;
    r->is_cancelled = false;
    r->upstream = u;
    r->dispatched_ns = sim->now_ns;
    r->call++;
    sim->calls_now[u]++;
    sim->calls_total[u]++;
    CHECK(sim->calls_now[u] <= sim->config.upstreams[u].permits);
    r->plan = (struct sim_plan){.sent_ns = WEIR_NEVER_NS, .head_ns = WEIR_NEVER_NS};
    sim->config.plan(sim, r, u, &r->plan);
    struct sim_event step = {.request = index, .call = r->call};
    if (r->plan.sent_ns < r->plan.end_ns) {
        step.kind = SIM_CALL_SENT;
        step.at_ns = sim->now_ns + r->plan.sent_ns;
        sim_events_push(sim, step);
    }
    if (r->plan.head_ns <= r->plan.end_ns) {
        step.kind = SIM_CALL_HEAD;
        step.at_ns = sim->now_ns + r->plan.head_ns;
        sim_events_push(sim, step);
    }
    for (uint32_t i = 1; i <= r->plan.progress_count && r->plan.head_ns <= r->plan.end_ns; i++) {
        uint64_t span_ns = r->plan.end_ns - r->plan.head_ns;
        step.kind = SIM_CALL_PROGRESS;
        step.at_ns = sim->now_ns + r->plan.head_ns + span_ns / (r->plan.progress_count + 1) * i;
        step.a = r->plan.output_seen_bytes / r->plan.progress_count * i;
        sim_events_push(sim, step);
    }
    step.a = 0;
    step.kind = SIM_CALL_END;
    step.at_ns = sim->now_ns + r->plan.end_ns;
    sim_events_push(sim, step);
}

/* The second model of a charge: LEDGER's rule for what was sent, written out without the flow's
 * code. */
static void naive_charge(const struct sim *sim, struct sim_request *r,
                         const struct weir_call_facts *facts)
{
    if (!facts->sent || !(r->arrival.metered || r->arrival.fixed_cost_tok))
        return;
    bool has_input = facts->usage.input_tok >= 0, has_output = facts->usage.output_tok >= 0;
    if (facts->status >= 400 && facts->output_seen_bytes == 0 && !has_input && !has_output) {
        r->is_naive_estimated = true;
        return;
    }
    if (r->arrival.fixed_cost_tok) {
        r->naive_tok += r->arrival.fixed_cost_tok;
        return;
    }
    uint64_t limit = r->arrival.no_output ? 0 : r->arrival.output_limit_tok;
    if (!r->arrival.no_output && limit == 0)
        limit = sim->config.model.output_default_tok;
    limit *= r->arrival.choices ? r->arrival.choices : 1;
    uint64_t seen = (facts->output_seen_bytes + 2) / 3;
    uint64_t output, input = has_input ? (uint64_t)facts->usage.input_tok : 0;
    bool is_whole = facts->end == WEIR_CALL_COMPLETE || facts->usage_is_final;
    if (!has_input || (input == 0 && !is_whole)) {
        r->is_naive_estimated = true;
        input = r->reserve_tok > limit ? r->reserve_tok - limit : 1;
    }
    if (has_output && is_whole) {
        output = (uint64_t)facts->usage.output_tok;
    } else {
        r->is_naive_estimated = true;
        output = has_output && (uint64_t)facts->usage.output_tok > seen
                     ? (uint64_t)facts->usage.output_tok
                     : seen;
        if (!has_output && !has_input && is_whole && seen == 0 && facts->answer_bytes > 0)
            output = limit;
    }
    r->naive_tok += input + output;
}

static void call_end(struct sim *sim, uint32_t index, enum weir_call_end end)
{
    struct sim_request *r = &sim->requests[index];
    const struct sim_plan *p = &r->plan;
    CHECK(r->is_calling);
    uint64_t ran_ns = sim->now_ns - r->dispatched_ns;
    bool has_head = r->is_sent && p->head_ns <= ran_ns;
    struct weir_call_facts facts = {.end = end,
                                    .sent = r->is_sent || p->sent_ns <= ran_ns,
                                    .status = has_head ? p->status : 0,
                                    .usage = {-1, -1, -1, -1}};
    if (has_head) {
        facts.usage = p->usage;
        facts.usage_is_final = p->usage_is_final;
        facts.output_seen_bytes = p->output_seen_bytes;
        facts.answer_bytes = p->answer_bytes;
    }
    r->is_calling = false;
    r->was_sent |= facts.sent;
    naive_charge(sim, r, &facts);
    sim->calls_now[r->upstream]--;
    weir_flow_ended(sim->flow, r->id, &facts, sim->now_ns);
}

static void call_cancel(struct sim *sim, uint32_t index)
{
    struct sim_request *r = &sim->requests[index];
    CHECK(r->is_calling);
    CHECK(!r->is_cancelled);
    r->is_cancelled = true;
    if (r->plan.cancel_ns == 0) {
        call_end(sim, index, WEIR_CALL_CANCELLED);
        return;
    }
    sim_events_push(sim, (struct sim_event){.kind = SIM_CALL_END,
                                            .at_ns = sim->now_ns + r->plan.cancel_ns,
                                            .request = index,
                                            .call = r->call,
                                            .a = 1});
}

/* --- effects and events --- */

static void sim_finish(struct sim_request *r, const struct weir_effect *e)
{
    CHECK(!r->is_calling);
    CHECK(r->hold != SIM_HOLD_ASKED);
    CHECK(r->hold != SIM_HOLD_HELD);
    r->is_finished = true;
    r->is_alive = false;
    r->summary = *e->summary;
    CHECK_INT(r->summary.attempts, r->attempts);
    CHECK_INT(r->summary.charged_tok, r->naive_tok);
    CHECK(!r->passed_ns || r->extends > 0 || r->summary.ended_ns == r->passed_ns);
    bool is_answered = r->is_head_passed && !r->is_cut && !r->is_client_gone;
    CHECK(is_answered || r->refusal != WEIR_REFUSAL_NONE || r->is_client_gone);
    CHECK_INT(r->summary.refusal, r->refusal);
    CHECK_INT(r->summary.first_byte_ns, r->is_head_passed ? r->summary.head_ns : 0);
}

static void sim_carry_out(struct sim *sim, const struct weir_effect *e)
{
    uint32_t index = (uint32_t)(uintptr_t)e->host - 1;
    CHECK(index < sim->requests_count);
    struct sim_request *r = &sim->requests[index];
    CHECK(r->is_alive);
    CHECK(e->request == r->id);
    CHECK_INT(e->tenant, r->arrival.tenant);
    switch (e->kind) {
    case WEIR_EFFECT_RESERVE:
        sim_ledger_reserve(sim, index, e);
        return;
    case WEIR_EFFECT_EXTEND:
        sim_ledger_extend(sim, index, e);
        return;
    case WEIR_EFFECT_DISPATCH:
        call_start(sim, index, e);
        return;
    case WEIR_EFFECT_CANCEL:
        call_cancel(sim, index);
        return;
    case WEIR_EFFECT_VOID:
    case WEIR_EFFECT_SETTLE:
        sim_ledger_close(sim, index, e);
        return;
    case WEIR_EFFECT_REFUSE:
    case WEIR_EFFECT_CUT:
        CHECK(!r->is_client_gone);
        CHECK_INT(r->refusal, WEIR_REFUSAL_NONE);
        CHECK(r->is_head_passed == (e->kind == WEIR_EFFECT_CUT));
        CHECK(e->refused.reason != WEIR_REFUSAL_NONE);
        r->refusal = e->refused.reason;
        r->refused = e->refused;
        r->refused_ns = sim->now_ns;
        r->is_cut = e->kind == WEIR_EFFECT_CUT;
        return;
    case WEIR_EFFECT_FINISH:
        sim_finish(r, e);
        return;
    }
}

static void sim_audit(struct sim *sim)
{
    sim->steps++;
    if (sim->config.is_audited)
        weir_flow_audit(sim->flow);
}

/* What the flow counts of holds against the list of requests; when no effect is left to be told. */
static void sim_check_holds(const struct sim *sim)
{
    struct weir_flow_view view;
    struct weir_hold_view hold;
    uint64_t naive_tok = 0, listed_tok = 0;
    uint32_t naive = 0, listed = 0, cursor = 0;
    for (uint32_t i = 0; i < sim->requests_count; i++) {
        const struct sim_request *r = &sim->requests[i];
        if (!r->is_asked && r->hold != SIM_HOLD_HELD)
            continue;
        naive++;
        naive_tok += r->told_tok;
    }
    while (weir_flow_hold_view(sim->flow, &cursor, sim->now_ns, &hold)) {
        listed++;
        listed_tok += hold.estimate_tok;
    }
    weir_flow_view(sim->flow, &view);
    CHECK_INT(view.holds_now, naive);
    CHECK_INT(listed, naive);
    CHECK_INT(listed_tok, naive_tok);
}

/* Carries out effects until the flow is quiet at this time. */
static void sim_settle(struct sim *sim)
{
    struct weir_effect e;
    bool again = true;
    if (weir_flow_due_ns(sim->flow) <= sim->now_ns) {
        weir_flow_tick(sim->flow, sim->now_ns);
        sim_audit(sim);
    }
    while (again) {
        weir_flow_pump(sim->flow, sim->now_ns);
        again = false;
        while (weir_flow_next(sim->flow, &e)) {
            sim_carry_out(sim, &e);
            sim_audit(sim);
            again = true;
        }
        if (weir_flow_due_ns(sim->flow) == 0)
            again = true;
    }
    if (sim->config.is_audited)
        sim_check_holds(sim);
}

uint32_t sim_arrive(struct sim *sim, const struct weir_arrival *arrival)
{
    uint32_t index = sim_admit(sim, arrival);
    sim_audit(sim);
    sim_settle(sim);
    return index;
}

void sim_arrive_at(struct sim *sim, uint64_t at_ns, const struct weir_arrival *arrival)
{
    struct weir_arrival *copy = malloc(sizeof *copy);
    CHECK(copy != NULL);
    *copy = *arrival;
    sim_events_push(sim, (struct sim_event){.kind = SIM_ARRIVE, .at_ns = at_ns, .arrival = copy});
}

void sim_client_gone_at(struct sim *sim, uint64_t at_ns, uint32_t request)
{
    sim_events_push(
        sim, (struct sim_event){.kind = SIM_CLIENT_GONE, .at_ns = at_ns, .request = request});
}

void sim_drain_at(struct sim *sim, uint64_t at_ns, uint64_t queue_ns, uint64_t cut_ns)
{
    sim_events_push(
        sim, (struct sim_event){.kind = SIM_DRAIN, .at_ns = at_ns, .a = queue_ns, .b = cut_ns});
}

/* The flow is told how far the answer is. What it asks to be told next must lie where the hold
 * ends, by the rule for output written out anew. */
static void sim_progress(struct sim *sim, struct sim_request *r, uint64_t output_bytes)
{
    int64_t input_tok = r->plan.usage.input_tok;
    uint64_t next = weir_flow_progress(sim->flow, r->id, input_tok, -1, output_bytes, sim->now_ns);
    if (next == 0) {
        if (!r->passed_ns)
            r->passed_ns = sim->now_ns; /* an EXTEND must come */
        return;
    }
    if (next == UINT64_MAX || r->attempts > 1 || input_tok < 0)
        return;
    uint64_t left = r->held_tok > (uint64_t)input_tok ? r->held_tok - (uint64_t)input_tok : 0;
    CHECK_INT(next, left * 3 + 1);
}

static void sim_call_event(struct sim *sim, const struct sim_event *e)
{
    struct sim_request *r = &sim->requests[e->request];
    if (!r->is_calling || r->call != e->call)
        return; /* that call is over */
    bool is_cancel_end = e->kind == SIM_CALL_END && e->a == 1;
    if (r->is_cancelled && !is_cancel_end)
        return; /* closed by us: nothing more comes from it */
    if (e->kind == SIM_CALL_SENT) {
        r->is_sent = true;
        r->was_sent = true;
        weir_flow_sent(sim->flow, r->id, sim->now_ns);
    } else if (e->kind == SIM_CALL_HEAD) {
        r->is_sent = true;
        r->was_sent = true;
        if (weir_flow_head(sim->flow, r->id, r->plan.status, r->plan.pause_ns, sim->now_ns)) {
            CHECK(!r->is_client_gone);
            r->is_head_passed = true;
            weir_flow_first_byte(sim->flow, r->id, sim->now_ns);
        }
    } else if (e->kind == SIM_CALL_PROGRESS) {
        sim_progress(sim, r, e->a);
    } else {
        call_end(sim, e->request, is_cancel_end ? WEIR_CALL_CANCELLED : r->plan.end);
    }
}

static void sim_happen(struct sim *sim, struct sim_event *e)
{
    switch (e->kind) {
    case SIM_ARRIVE:
        e->arrival->queue_deadline_ns = weir_add_sat_u64(e->arrival->queue_deadline_ns, 0);
        sim_admit(sim, e->arrival);
        free(e->arrival);
        return;
    case SIM_CLIENT_GONE: {
        if (e->request >= sim->requests_count)
            return;
        struct sim_request *r = &sim->requests[e->request];
        if (!r->is_alive || r->is_client_gone)
            return;
        r->is_client_gone = true;
        weir_flow_client_gone(sim->flow, r->id, sim->now_ns);
        return;
    }
    case SIM_DRAIN:
        weir_flow_drain(sim->flow, e->a, e->b);
        return;
    case SIM_RESERVE_ANSWER:
    case SIM_EXTEND_ANSWER:
    case SIM_BUDGET_FREED:
    case SIM_WINDOW:
    case SIM_WINDOW_ANSWER:
        sim_ledger_event(sim, e);
        return;
    case SIM_CALL_PROGRESS:
    case SIM_CALL_SENT:
    case SIM_CALL_HEAD:
    case SIM_CALL_END:
        sim_call_event(sim, e);
        return;
    }
}

void sim_run(struct sim *sim, uint64_t until_ns)
{
    sim_settle(sim);
    for (;;) {
        uint64_t next_ns = weir_max_u64(weir_flow_due_ns(sim->flow), sim->now_ns);
        if (sim->events_count > 0)
            next_ns = weir_min_u64(next_ns, sim->events[0].at_ns);
        if (next_ns > until_ns || next_ns == WEIR_NEVER_NS)
            break;
        CHECK(next_ns >= sim->now_ns);
        sim->now_ns = next_ns;
        while (sim->events_count > 0 && sim->events[0].at_ns <= sim->now_ns) {
            struct sim_event e = events_pop(sim);
            sim_happen(sim, &e);
            sim_audit(sim);
        }
        sim_settle(sim);
    }
    if (until_ns != WEIR_NEVER_NS)
        sim->now_ns = weir_max_u64(sim->now_ns, until_ns);
}

bool sim_run_dry(struct sim *sim, uint64_t until_ns)
{
    sim_settle(sim);
    while (sim->events_count > 0 || weir_flow_due_ns(sim->flow) != WEIR_NEVER_NS) {
        uint64_t next_ns = weir_flow_due_ns(sim->flow);
        if (sim->events_count > 0)
            next_ns = weir_min_u64(next_ns, sim->events[0].at_ns);
        if (next_ns > until_ns)
            return false;
        sim_run(sim, weir_max_u64(next_ns, sim->now_ns));
    }
    return true;
}

void sim_close_settled(struct sim *sim)
{
    struct weir_flow_view view;
    weir_flow_view(sim->flow, &view);
    CHECK_INT(view.requests_now, 0);
    CHECK_INT(view.waiters_now, 0);
    CHECK_INT(view.waiting_bytes_now, 0);
    CHECK_INT(view.in_flight_now, 0);
    CHECK_INT(view.holds_now, 0);
    for (uint32_t i = 0; i < sim->config.upstream_count; i++) {
        struct weir_upstream_view u;
        weir_flow_upstream_view(sim->flow, i, sim->now_ns, &u);
        CHECK_INT(u.permits_now, 0);
        CHECK_INT(sim->calls_now[i], 0);
    }
    CHECK_INT(view.overruns_now, 0);
    uint64_t committed[SIM_SCOPES_MAX] = {0};
    for (uint32_t i = 0; i < sim->requests_count; i++) {
        const struct sim_request *r = &sim->requests[i];
        CHECK(!r->is_alive);
        CHECK(r->id == 0 || r->is_finished);
        if (r->hold != SIM_HOLD_NONE && r->hold_window == sim->window[r->hold_scope])
            committed[r->hold_scope] += r->naive_tok;
        if (r->hold == SIM_HOLD_NONE)
            CHECK(r->naive_tok == 0 || !r->arrival.metered);
    }
    for (uint32_t i = 0; i < SIM_SCOPES_MAX; i++) {
        CHECK_INT(sim_reserved_tok(sim, i), 0);
        CHECK_INT(sim_committed_tok(sim, i), committed[i]);
    }
    weir_flow_audit(sim->flow);
    sim_free(sim);
}

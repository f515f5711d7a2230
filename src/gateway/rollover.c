#include "gateway/rollover.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/heap.h"
#include "core/window.h"
#include "gateway/budget.h"
#include "gateway/state.h"

#define ROLLOVER_LOOK_NS WEIR_NS_PER_S           /* between two readings of the clocks */
#define ROLLOVER_FULL_NS (10 * WEIR_NS_PER_MS)   /* until a full store is asked again */
#define ROLLOVER_AWAY_NS WEIR_NS_PER_S           /* until one that could not is */
#define ROLLOVER_DRIFT_NS (100 * WEIR_NS_PER_MS) /* of the clocks, that hints may be off by */
#define ROLLOVER_START_NS (10 * WEIR_NS_PER_S)   /* the first windows are waited for */
#define ROLLOVER_COUNT_MAX 1000                  /* windows counted for a message */

enum rollover_state { ROLLOVER_UNKNOWN, ROLLOVER_WAITING, ROLLOVER_ASKED, ROLLOVER_HELD_BACK };

struct rollover_scope {
    uint32_t slot;
    enum rollover_state state;
    struct weir_window_rule rule;
    uint64_t present, following; /* windows: the ledger's, and the one after it */
    uint64_t asked;              /* ASKED: the window that is to begin */
};

struct weir_rollover {
    struct weir_rollover_host host;
    struct weir_window_clock clock;
    struct weir_heap waiting; /* by following, in unix seconds */
    struct weir_heap_entry *entries;
    uint32_t *place;
    struct rollover_scope *scopes;
    uint32_t count, scopes_max;
    uint32_t in_state[4];
    uint64_t pause_ns;      /* the store is not asked before */
    int64_t told_offset_ns; /* wall minus loop time, as the hints given out had it */
    bool is_away;           /* the store could not, and that has been said */
    bool is_alarmed;        /* that windows are held back has been said */
};

__attribute__((format(printf, 3, 4))) static void
say(struct weir_rollover *r, enum weir_log_level level, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->host.say(r->host.ctx, level, text);
}

static void date_text(uint64_t unix_s, char out[32])
{
    time_t when = (time_t)unix_s;
    struct tm tm;
    if (!gmtime_r(&when, &tm) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, 32, "%" PRIu64, unix_s);
}

/* ---- states ---- */

static void move(struct weir_rollover *r, struct rollover_scope *s, enum rollover_state to)
{
    uint32_t id = (uint32_t)(s - r->scopes);
    if (s->state == ROLLOVER_WAITING)
        weir_heap_remove(&r->waiting, id);
    r->in_state[s->state]--;
    s->state = to;
    r->in_state[to]++;
    if (to == ROLLOVER_WAITING)
        weir_heap_push(&r->waiting, id, s->following);
}

/* When the wall clock, running as it does now, shows unix_s. */
static uint64_t loop_ns_of(const struct weir_rollover *r, uint64_t unix_s)
{
    if (unix_s > INT64_MAX / WEIR_NS_PER_S)
        return WEIR_NEVER_NS;
    int64_t loop_ns = 0, wall_ns = (int64_t)(unix_s * WEIR_NS_PER_S);
    bool is_far = __builtin_sub_overflow(wall_ns, r->clock.offset_ns, &loop_ns);
    return is_far ? WEIR_NEVER_NS : loop_ns > 0 ? (uint64_t)loop_ns : 0;
}

/* Tells when the next window can begin: at its start by the wall clock; held back, when that is
 * believed. */
static void tell_reset(struct weir_rollover *r, const struct rollover_scope *s)
{
    uint64_t reset_ns = weir_max_u64(loop_ns_of(r, s->following), r->clock.seen_ns);
    if (s->state == ROLLOVER_HELD_BACK)
        reset_ns = weir_max_u64(reset_ns, weir_window_clock_trusted_ns(&r->clock));
    r->host.reset_at(r->host.ctx, s->slot, reset_ns);
}

/* The window that the ledger is in is known now. */
static void settle_in(struct weir_rollover *r, struct rollover_scope *s, uint64_t present)
{
    s->present = present;
    s->following = (uint64_t)weir_max_i64(0, weir_window_at(&s->rule, (int64_t)present).end_s);
    if (s->following <= present) /* beyond the calendar: nothing follows */
        s->following = UINT64_MAX;
    move(r, s, ROLLOVER_WAITING);
    tell_reset(r, s);
}

/* Scopes whose definition the store had not taken in yet. */
static void learn(struct weir_rollover *r)
{
    for (uint32_t i = 0; i < r->count && r->in_state[ROLLOVER_UNKNOWN] > 0; i++) {
        struct weir_ledger_totals totals;
        if (r->scopes[i].state == ROLLOVER_UNKNOWN &&
            weir_store_totals(r->host.store, r->scopes[i].slot, &totals))
            settle_in(r, &r->scopes[i], totals.window);
    }
}

static void release_held_back(struct weir_rollover *r)
{
    for (uint32_t i = 0; i < r->count && r->in_state[ROLLOVER_HELD_BACK] > 0; i++)
        if (r->scopes[i].state == ROLLOVER_HELD_BACK) {
            move(r, &r->scopes[i], ROLLOVER_WAITING);
            tell_reset(r, &r->scopes[i]);
        }
}

/* ---- the clocks ---- */

/* Reads both; after a step everything that was judged or told by the clock before is done anew. */
static int64_t see_clocks(struct weir_rollover *r, uint64_t now_ns)
{
    int64_t wall_ns = r->host.wall_ns(r->host.ctx);
    int64_t step_ns = weir_window_clock_see(&r->clock, wall_ns, now_ns);
    if (step_ns != 0) {
        say(r, WEIR_LOG_WARN,
            "the clock was set %s by %lld s: windows of budgets that began stay as they are",
            step_ns > 0 ? "ahead" : "back",
            (long long)((step_ns > 0 ? step_ns : -step_ns) / (int64_t)WEIR_NS_PER_S));
        release_held_back(r);
    }
    int64_t drift_ns = r->clock.offset_ns - r->told_offset_ns;
    if (drift_ns > (int64_t)ROLLOVER_DRIFT_NS || drift_ns < -(int64_t)ROLLOVER_DRIFT_NS) {
        r->told_offset_ns = r->clock.offset_ns;
        for (uint32_t i = 0; i < r->count; i++)
            if (r->scopes[i].state == ROLLOVER_WAITING)
                tell_reset(r, &r->scopes[i]);
    }
    return wall_ns;
}

/* ---- leaps that are not believed ---- */

static uint32_t count_ahead(const struct rollover_scope *s, uint64_t computed)
{
    uint32_t ahead = 0;
    for (uint64_t at = s->present; at < computed && ahead <= ROLLOVER_COUNT_MAX; ahead++)
        at = (uint64_t)weir_window_at(&s->rule, (int64_t)at).end_s;
    return ahead;
}

/* Once for all scopes, until none is held back any more. s: the first of them. */
static void say_held_back(struct weir_rollover *r, const struct rollover_scope *s,
                          uint64_t computed, uint64_t now_ns)
{
    char present[32], following[32], others[48] = "", many[16] = "more";
    uint32_t ahead = count_ahead(s, computed), more = r->in_state[ROLLOVER_HELD_BACK] - 1;
    const char *name = weir_store_scope_name(r->host.store, s->slot);
    uint64_t wait_ns = weir_window_clock_trusted_ns(&r->clock) - now_ns;
    r->is_alarmed = true;
    date_text(s->present, present);
    date_text(computed, following);
    if (ahead <= ROLLOVER_COUNT_MAX)
        snprintf(many, sizeof many, "%u", ahead);
    if (more > 0)
        snprintf(others, sizeof others, " (and %u more)", more);
    say(r, WEIR_LOG_WARN,
        "scope %s%s: by the clock its window is that of %s, %s windows after that of %s, in which "
        "it is. Admission stays there until the clock has run evenly for %llu s more. If the clock "
        "is wrong, set it; if it is right, wait, or POST /v1/ledger/clock to the admin address",
        name ? name : "?", others, following, many, present,
        (unsigned long long)((wait_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S));
}

static void say_believed(struct weir_rollover *r)
{
    if (!r->is_alarmed || r->in_state[ROLLOVER_HELD_BACK] > 0)
        return;
    r->is_alarmed = false;
    say(r, WEIR_LOG_INFO, "the clock is believed again: no scope is held in its old window");
}

/* ---- windows that begin ---- */

/* False: the store takes nothing now. */
static bool ask(struct weir_rollover *r, struct rollover_scope *s, uint64_t window)
{
    const struct weir_store_op op = {
        .ledger = {.kind = WEIR_LEDGER_WINDOW, .scope = s->slot, .window = window},
        .tag = (uint64_t)(s - r->scopes),
        .deadline_ns = WEIR_NEVER_NS};
    if (!weir_store_submit(r->host.store, &op))
        return false;
    s->asked = window;
    move(r, s, ROLLOVER_ASKED);
    return true;
}

static bool has_room(const struct weir_rollover *r)
{
    return r->in_state[ROLLOVER_ASKED] < WEIR_ROLLOVER_AT_ONCE;
}

/* Begins what the wall clock says has begun; some of it, where that is much. */
static void begin_windows(struct weir_rollover *r, int64_t wall_ns, uint64_t now_ns)
{
    uint64_t wall_s = wall_ns > 0 ? (uint64_t)(wall_ns / (int64_t)WEIR_NS_PER_S) : 0;
    const struct rollover_scope *held_back = NULL;
    uint64_t held_back_computed = 0;
    for (uint32_t n = 0; n < WEIR_ROLLOVER_AT_ONCE && has_room(r) && now_ns >= r->pause_ns; n++) {
        if (r->waiting.count == 0 || weir_heap_top_key(&r->waiting) > wall_s)
            break;
        struct rollover_scope *s = &r->scopes[weir_heap_top(&r->waiting)];
        uint64_t computed = weir_window_number(weir_window_at(&s->rule, (int64_t)wall_s));
        enum weir_window_verdict verdict =
            weir_window_judge(&r->clock, s->present, s->following, computed, now_ns);
        if (verdict == WEIR_WINDOW_STAY) { /* a calendar at odds with itself */
            move(r, s, ROLLOVER_UNKNOWN);
            continue;
        }
        if (verdict == WEIR_WINDOW_ROLL) {
            if (!ask(r, s, computed))
                r->pause_ns = now_ns + ROLLOVER_FULL_NS;
            continue;
        }
        move(r, s, ROLLOVER_HELD_BACK);
        tell_reset(r, s);
        if (!held_back) {
            held_back = s;
            held_back_computed = computed;
        }
    }
    if (held_back && !r->is_alarmed)
        say_held_back(r, held_back, held_back_computed, now_ns);
}

static uint64_t next_look_ns(const struct weir_rollover *r, uint64_t now_ns)
{
    uint64_t look_ns = now_ns + ROLLOVER_LOOK_NS;
    if (r->in_state[ROLLOVER_HELD_BACK] > 0)
        look_ns = weir_min_u64(look_ns, weir_window_clock_trusted_ns(&r->clock));
    if (r->waiting.count > 0 && has_room(r)) /* else an answer is the next occasion */
        look_ns = weir_min_u64(
            look_ns, weir_max_u64(loop_ns_of(r, weir_heap_top_key(&r->waiting)), r->pause_ns));
    return look_ns;
}

uint64_t weir_rollover_tick(struct weir_rollover *r, uint64_t now_ns)
{
    int64_t wall_ns = see_clocks(r, now_ns);
    if (r->in_state[ROLLOVER_HELD_BACK] > 0 && now_ns >= weir_window_clock_trusted_ns(&r->clock))
        release_held_back(r);
    learn(r);
    begin_windows(r, wall_ns, now_ns);
    say_believed(r);
    return next_look_ns(r, now_ns);
}

bool weir_rollover_answer(struct weir_rollover *r, const struct weir_store_answer *answer,
                          uint64_t now_ns)
{
    if (answer->kind != WEIR_LEDGER_WINDOW || answer->tag >= r->count)
        return false;
    struct rollover_scope *s = &r->scopes[answer->tag];
    if (s->slot != answer->scope || s->state != ROLLOVER_ASKED)
        return false; /* somebody else's */
    if (answer->result == WEIR_LEDGER_DONE || answer->result == WEIR_LEDGER_SAME) {
        if (r->is_away)
            say(r, WEIR_LOG_INFO, "the ledger begins windows again");
        r->is_away = false;
        settle_in(r, s, s->asked);
        return true;
    }
    if (answer->result == WEIR_LEDGER_UNAVAILABLE || answer->result == WEIR_LEDGER_FULL) {
        const char *name = weir_store_scope_name(r->host.store, s->slot);
        if (!r->is_away)
            say(r, WEIR_LOG_WARN,
                "the ledger could not begin a window of scope %s (%s): admission stays in the old "
                "one; asked again every second",
                name ? name : "?", weir_ledger_result_name(answer->result));
        r->is_away = true;
        r->pause_ns = now_ns + ROLLOVER_AWAY_NS;
        move(r, s, ROLLOVER_WAITING);
        return false;
    }
    move(r, s, ROLLOVER_UNKNOWN); /* the ledger is elsewhere than we thought: look again */
    return false;
}

uint32_t weir_rollover_confirm(struct weir_rollover *r)
{
    uint32_t count = r->in_state[ROLLOVER_HELD_BACK];
    weir_window_clock_confirm(&r->clock);
    say(r, WEIR_LOG_INFO, "the clock was confirmed by hand: %u scopes leave their old windows",
        count);
    return count;
}

uint32_t weir_rollover_held_back(const struct weir_rollover *r)
{
    return r->in_state[ROLLOVER_HELD_BACK];
}

/* ---- making it ---- */

struct weir_rollover *weir_rollover_create(const struct weir_rollover_host *host,
                                           uint32_t scopes_max)
{
    struct weir_rollover *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    size_t room = (size_t)scopes_max + WEIR_HEAP_SPARE;
    *r = (struct weir_rollover){.host = *host,
                                .entries = calloc(room, sizeof *r->entries),
                                .place = calloc(room, sizeof *r->place),
                                .scopes = calloc(room, sizeof *r->scopes),
                                .scopes_max = scopes_max};
    if (!r->entries || !r->place || !r->scopes) {
        weir_rollover_destroy(r);
        return NULL;
    }
    weir_heap_init(&r->waiting, r->entries, r->place, scopes_max);
    return r;
}

void weir_rollover_destroy(struct weir_rollover *r)
{
    if (!r)
        return;
    free(r->entries);
    free(r->place);
    free(r->scopes);
    free(r);
}

void weir_rollover_add(struct weir_rollover *r, uint32_t scope, const struct weir_window_rule *rule)
{
    WEIR_INVARIANT(r->count < r->scopes_max);
    WEIR_INVARIANT(rule->period != WEIR_PERIOD_NONE);
    r->scopes[r->count++] = (struct rollover_scope){.slot = scope, .rule = *rule};
    r->in_state[ROLLOVER_UNKNOWN]++;
}

/* ---- the gateway's ---- */

static int64_t gateway_wall_ns(void *ctx)
{
    (void)ctx;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * (int64_t)WEIR_NS_PER_S + t.tv_nsec;
}

static void gateway_reset_at(void *ctx, uint32_t scope, uint64_t reset_ns)
{
    weir_budget_reset_at(ctx, scope, reset_ns);
}

static void gateway_say(void *ctx, enum weir_log_level level, const char *text)
{
    weir_log_message(((struct weir_gateway *)ctx)->log, level, "%s", text);
}

static void gateway_look(struct weir_timer *timer)
{
    struct weir_gateway *g =
        (struct weir_gateway *)((char *)timer - offsetof(struct weir_gateway, rollover_timer));
    weir_timer_set(g->loop, timer, weir_rollover_tick(g->rollover, weir_loop_now_ns(g->loop)));
    weir_gateway_dirty(g); /* a store of memory has answered */
}

void weir_rollover_look(struct weir_gateway *g)
{
    weir_timer_set(g->loop, &g->rollover_timer, 0);
}

void weir_rollover_answered(struct weir_gateway *g, const struct weir_store_answer *answer,
                            uint64_t now_ns)
{
    if (g->rollover && weir_rollover_answer(g->rollover, answer, now_ns))
        weir_rollover_look(g);
}

/* Begins the first windows. No request is there yet, so all answers are to scopes and windows; and
 * the loop does not turn yet, so its time stands. */
static void gateway_begin(struct weir_gateway *g)
{
    struct weir_rollover *r = g->rollover;
    uint64_t until_ns = weir_loop_clock_ns() + ROLLOVER_START_NS;
    for (uint64_t now_ns = 0; now_ns < until_ns;) {
        struct weir_store_answer answers[64];
        now_ns = weir_loop_clock_ns();
        weir_rollover_tick(r, now_ns);
        if (r->in_state[ROLLOVER_ASKED] + r->in_state[ROLLOVER_UNKNOWN] == 0 &&
            now_ns >= r->pause_ns)
            return;
        size_t count = weir_store_collect(g->store, now_ns, answers, 64);
        for (size_t i = 0; i < count; i++)
            weir_rollover_answer(r, &answers[i], now_ns);
        struct pollfd wait = {.fd = weir_store_fd(g->store), .events = POLLIN};
        if (count == 0)
            poll(&wait, 1, ROLLOVER_FULL_NS / WEIR_NS_PER_MS);
    }
    say(r, WEIR_LOG_WARN,
        "the ledger did not begin every window within %llu s: what is used counts in the old ones "
        "until it has",
        (unsigned long long)(ROLLOVER_START_NS / WEIR_NS_PER_S));
}

bool weir_rollover_open(struct weir_gateway *g)
{
    const struct weir_config *c = g->config;
    const struct weir_rollover_host host = {.store = g->store,
                                            .wall_ns = gateway_wall_ns,
                                            .reset_at = gateway_reset_at,
                                            .say = gateway_say,
                                            .ctx = g};
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->scopes_count; i++)
        count += c->scopes[i].window.period != WEIR_PERIOD_NONE;
    if (count == 0)
        return true;
    g->rollover = weir_rollover_create(&host, count);
    if (!g->rollover)
        return false;
    for (uint32_t i = 0; i < c->scopes_count; i++)
        if (c->scopes[i].window.period != WEIR_PERIOD_NONE)
            weir_rollover_add(g->rollover, weir_gateway_scope(g, i), &c->scopes[i].window);
    gateway_begin(g);
    g->rollover_timer.fire = gateway_look;
    weir_rollover_look(g);
    return true;
}

void weir_rollover_close(struct weir_gateway *g)
{
    weir_rollover_destroy(g->rollover);
    g->rollover = NULL;
}

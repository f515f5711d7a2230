/* The way that keeps its promise: reserve, call, settle. The check and the write are one step of
 * the ledger's rules, in one thread, and durable before the answer is told. */
#include "cli/race.h"
#include "cli/race_threads.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/store.h"

#define LEDGER_NAME_BYTES 24
#define LEDGER_KEEP_S 86400
#define LEDGER_WAIT_MS 10 /* the longest pause between two looks for answers */
#define LEDGER_PATIENCE_NS (60 * WEIR_NS_PER_S)

const char *const race_ledger_files[RACE_LEDGER_FILES] = {
    "ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock", "ledger.db.sync",
};

/* The store belongs to one thread at a time: whoever has the lock. */
struct ledger {
    const struct race_plan *plan;
    struct weir_store *store;
    pthread_mutex_t lock;
    struct weir_store_answer *answers; /* by tag: the thread's index, then the preparing one's */
    bool *has_answer;
    struct race_outcome *outcome;
    struct race_error *error;
    bool failed;
};

static uint64_t ledger_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void ledger_fail(struct ledger *l, const char *doing, const char *why)
{
    if (!l->failed)
        snprintf(l->error->text, sizeof l->error->text, "the ledger: %s: %.300s", doing, why);
    l->failed = true;
}

/* Takes what answers there are, everybody's. With the lock. */
static void ledger_collect(struct ledger *l)
{
    struct weir_store_answer some[64];
    size_t count;
    do {
        count = weir_store_collect(l->store, ledger_now_ns(), some, WEIR_COUNT(some));
        for (size_t i = 0; i < count; i++) {
            l->answers[some[i].tag] = some[i];
            l->has_answer[some[i].tag] = true;
        }
    } while (count == WEIR_COUNT(some));
}

/* One operation from submit to its answer. With the lock, which is let go while waiting.
 * UNAVAILABLE when no answer comes. */
static enum weir_ledger_result ledger_ask(struct ledger *l, uint32_t tag, struct weir_ledger_op op)
{
    const struct weir_store_op store_op = {
        .ledger = op,
        .tag = tag,
        .deadline_ns = WEIR_NEVER_NS,
        .usage = {.input_tok = -1,
                  .cached_tok = -1,
                  .cache_write_tok = -1,
                  .output_tok = -1,
                  .upstream = WEIR_LABEL_OTHER,
                  .model = WEIR_LABEL_OTHER},
    };
    uint64_t give_up_ns = ledger_now_ns() + LEDGER_PATIENCE_NS;
    bool submitted = false;
    l->has_answer[tag] = false;
    do {
        submitted = submitted || weir_store_submit(l->store, &store_op);
        ledger_collect(l);
        if (l->has_answer[tag])
            return l->answers[tag].result;
        struct pollfd wait = {.fd = weir_store_fd(l->store), .events = POLLIN};
        pthread_mutex_unlock(&l->lock);
        poll(&wait, 1, LEDGER_WAIT_MS);
        pthread_mutex_lock(&l->lock);
    } while (ledger_now_ns() < give_up_ns);
    return WEIR_LEDGER_UNAVAILABLE;
}

/* The slot of a seat, from 1; of the grant: 0. With the lock. */
static uint32_t ledger_scope(struct ledger *l, uint32_t seat)
{
    char name[LEDGER_NAME_BYTES];
    snprintf(name, sizeof name, seat ? "seat/%u" : "class", seat);
    return weir_store_scope(l->store, name);
}

/* A call of so many tokens. With the lock. */
static enum weir_ledger_result ledger_spend(struct ledger *l, uint32_t tag, uint32_t scope,
                                            int64_t tokens)
{
    uint64_t hold = weir_store_hold_next(l->store);
    enum weir_ledger_result result = ledger_ask(
        l, tag,
        (struct weir_ledger_op){
            .kind = WEIR_LEDGER_RESERVE, .scope = scope, .hold = hold, .amount_tok = tokens});
    if (result != WEIR_LEDGER_HELD)
        return result;
    return ledger_ask(
        l, tag,
        (struct weir_ledger_op){
            .kind = WEIR_LEDGER_SETTLE, .scope = scope, .hold = hold, .amount_tok = tokens});
}

static void ledger_call(void *ctx, uint32_t index)
{
    struct ledger *l = ctx;
    pthread_mutex_lock(&l->lock);
    uint32_t scope = ledger_scope(l, l->plan->seat_tok ? index + 1 : 0);
    enum weir_ledger_result result = ledger_spend(l, index, scope, l->plan->estimate_tok);
    if (result == WEIR_LEDGER_SETTLED)
        l->outcome->admitted++;
    else if (result == WEIR_LEDGER_EXHAUSTED || result == WEIR_LEDGER_BUSY)
        l->outcome->refused++;
    else
        ledger_fail(l, "a call", weir_ledger_result_name(result));
    pthread_mutex_unlock(&l->lock);
}

static void ledger_define(struct ledger *l, uint32_t seat, int64_t granted_tok, int64_t spent_tok)
{
    uint32_t scope = ledger_scope(l, seat);
    enum weir_ledger_result result =
        ledger_ask(l, l->plan->threads,
                   (struct weir_ledger_op){.kind = WEIR_LEDGER_SCOPE,
                                           .scope = scope,
                                           .parent = seat ? ledger_scope(l, 0) : WEIR_NONE,
                                           .amount_tok = granted_tok});
    if (result != WEIR_LEDGER_DONE) {
        ledger_fail(l, "defining a budget", weir_ledger_result_name(result));
        return;
    }
    if (spent_tok == 0)
        return;
    result = ledger_spend(l, l->plan->threads, scope, spent_tok);
    if (result != WEIR_LEDGER_SETTLED)
        ledger_fail(l, "the calls before the race", weir_ledger_result_name(result));
}

/* The budgets as they stand at the last admissible moment. */
static void ledger_prepare(struct ledger *l)
{
    const struct race_plan *plan = l->plan;
    uint32_t seats = plan->seat_tok ? plan->threads : 0;
    pthread_mutex_lock(&l->lock);
    ledger_define(l, 0, plan->granted_tok,
                  race_before_tok(plan) - seats * race_seat_before_tok(plan));
    for (uint32_t i = 1; i <= seats && !l->failed; i++)
        ledger_define(l, i, plan->seat_tok, race_seat_before_tok(plan));
    pthread_mutex_unlock(&l->lock);
}

static void ledger_count(struct ledger *l)
{
    struct weir_ledger_totals totals;
    if (!weir_store_totals(l->store, ledger_scope(l, 0), &totals)) {
        ledger_fail(l, "reading the result", "unknown scope");
        return;
    }
    l->outcome->before_tok = race_before_tok(l->plan);
    l->outcome->after_tok = weir_ledger_used_tok(&totals);
    for (uint32_t i = 1; l->plan->seat_tok && i <= l->plan->threads; i++)
        if (weir_store_totals(l->store, ledger_scope(l, i), &totals) &&
            weir_ledger_used_tok(&totals) > totals.granted_tok)
            l->outcome->seats_over++;
}

/* What the store has to say of this disk is of no interest to a class. */
static void ledger_say(enum weir_store_say level, const char *text)
{
    if (level == WEIR_STORE_SAY_ERROR)
        fprintf(stderr, "weir ledger race: %s\n", text);
}

static bool ledger_open(struct ledger *l)
{
    char path[4200], error_text[400];
    snprintf(path, sizeof path, "%s/%s", l->plan->dir, race_ledger_files[0]);
    const struct weir_sqlite_config config = {
        .path = path,
        .scopes_max = l->plan->threads + 1,
        .holds_max = l->plan->threads + 1,
        .finished_keep = 2 * l->plan->threads + 2,
        .keep_finished_s = LEDGER_KEEP_S,
        .keep_journal_s = LEDGER_KEEP_S,
        .keep_usage_s = LEDGER_KEEP_S,
        .say = ledger_say,
    };
    l->store = weir_sqlite_store_open(&config, error_text, sizeof error_text);
    l->answers = calloc(l->plan->threads + 1, sizeof *l->answers);
    l->has_answer = calloc(l->plan->threads + 1, sizeof *l->has_answer);
    if (!l->store)
        ledger_fail(l, "starting", error_text);
    else if (!l->answers || !l->has_answer)
        ledger_fail(l, "starting", "out of memory");
    return !l->failed;
}

bool race_ledger(const struct race_plan *plan, struct race_outcome *outcome,
                 struct race_error *error)
{
    struct ledger l = {.plan = plan, .outcome = outcome, .error = error};
    *outcome = (struct race_outcome){0};
    pthread_mutex_init(&l.lock, NULL);
    if (ledger_open(&l))
        ledger_prepare(&l);
    if (!l.failed && !race_run(plan->threads, ledger_call, &l))
        ledger_fail(&l, "starting the threads", "not so many can be had");
    if (!l.failed)
        ledger_count(&l);
    weir_store_close(l.store);
    free(l.answers);
    free(l.has_answer);
    pthread_mutex_destroy(&l.lock);
    return !l.failed;
}

#include "callers.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/reader.h"
#include "store/verify.h"
#include "support/check.h"

#define ORG 0
#define TEAMS 9
#define KEY_FIRST (1 + TEAMS)
#define KEY_GRANT_TOK 300
#define TEAM_GRANT_TOK 4000
#define ORG_GRANT_TOK 30000
#define ASK_TOK_MAX 100
#define NOBODY UINT64_MAX

struct caller {
    uint64_t index; /* of its hold in the record; NOBODY: it has none */
    uint32_t rest_turns;
    bool waits; /* for an answer */
};

struct callers {
    struct weir_store *st;
    struct record *record;
    struct weir_rng rng;
    uint32_t count, scopes, deadline_ms;
    bool is_finishing;
    uint32_t controls;  /* SCOPE and WINDOW operations under way */
    uint32_t undefined; /* SCOPE operations not answered DONE */
    uint32_t slots[CALLERS_SCOPES];
    bool window_waits[CALLERS_SCOPES];
    struct caller callers[CALLERS_MAX];
};

struct record *record_new(uint64_t said_max)
{
    size_t bytes = sizeof(struct record) + said_max * sizeof(struct said);
    struct record *record =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(record != MAP_FAILED);
    record->said_max = said_max;
    return record;
}

void record_free(struct record *record)
{
    munmap(record, sizeof *record + record->said_max * sizeof(struct said));
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint32_t parent_of(uint32_t scope)
{
    if (scope == ORG)
        return WEIR_NONE;
    return scope < KEY_FIRST ? ORG : 1 + (scope - KEY_FIRST) % TEAMS;
}

/* Tags: a caller's index, or a scope's number and what was asked of it. */
#define TAG_SCOPE (UINT64_C(1) << 40)
#define TAG_WINDOW (UINT64_C(2) << 40)

/* The clock: unix seconds. */
static const struct record *clock_record;

static int64_t record_wall_s(void)
{
    return 1800000000 + (int64_t)atomic_load(&clock_record->told);
}

static bool control(struct callers *c, uint32_t scope, enum weir_ledger_kind kind)
{
    uint32_t parent = parent_of(scope);
    uint64_t window = weir_max_u64(c->record->windows[scope] + 1, (uint64_t)record_wall_s());
    struct weir_store_op op = {
        .ledger = {.kind = kind,
                   .scope = c->slots[scope],
                   .parent = parent == WEIR_NONE ? WEIR_NONE : c->slots[parent],
                   .window = window,
                   .amount_tok = scope == ORG        ? ORG_GRANT_TOK
                                 : scope < KEY_FIRST ? TEAM_GRANT_TOK
                                                     : KEY_GRANT_TOK},
        .tag = (kind == WEIR_LEDGER_SCOPE ? TAG_SCOPE : TAG_WINDOW) | scope,
        .deadline_ns = WEIR_NEVER_NS,
        .is_configured = true};
    if (!weir_store_submit(c->st, &op))
        return false;
    c->controls++;
    if (kind == WEIR_LEDGER_WINDOW) {
        c->record->windows[scope] = window;
        c->window_waits[scope] = true;
    }
    return true;
}

static bool submit(struct callers *c, size_t caller, enum weir_ledger_kind kind, int64_t tok)
{
    const struct caller *who = &c->callers[caller];
    const struct said *said = &c->record->said[who->index];
    struct weir_store_op op = {
        .ledger = {.kind = kind,
                   .scope = c->slots[said->scope],
                   .hold = weir_ledger_hold_id(c->record->epoch, who->index + 1),
                   .amount_tok = tok},
        .tag = caller,
        .deadline_ns = clock_ns() + c->deadline_ms * WEIR_NS_PER_MS,
        .usage = {.input_tok = tok, .output_tok = -1, .cached_tok = -1, .cache_write_tok = -1}};
    return weir_store_submit(c->st, &op);
}

static void say(struct said *said, enum said_stage stage)
{
    atomic_store_explicit(&said->stage, stage, memory_order_release);
}

/* Begins a hold. false: no room for its record. */
static bool begin(struct callers *c, size_t caller)
{
    struct record *r = c->record;
    struct caller *who = &c->callers[caller];
    uint64_t index = atomic_load(&r->count);
    if (index == r->said_max)
        return false;
    struct said *said = &r->said[index];
    said->scope = (uint32_t)weir_rng_between(&c->rng, KEY_FIRST, c->scopes - 1);
    said->held_tok = (int64_t)weir_rng_between(&c->rng, 1, ASK_TOK_MAX);
    uint64_t id = weir_store_hold_next(c->st);
    CHECK_INT(id, weir_ledger_hold_id(r->epoch, index + 1));
    say(said, SAID_RESERVE);
    atomic_store_explicit(&r->count, index + 1, memory_order_release);
    who->index = index;
    who->rest_turns = (uint32_t)weir_rng_below(&c->rng, 4);
    who->waits = submit(c, caller, WEIR_LEDGER_RESERVE, said->held_tok);
    if (!who->waits) {
        r->unavailable++;
        say(said, SAID_REFUSED);
        who->index = NOBODY;
    }
    return true;
}

/* Goes on with a hold that is held: settle, void or extend. */
static void go_on(struct callers *c, size_t caller)
{
    struct caller *who = &c->callers[caller];
    struct said *said = &c->record->said[who->index];
    if (who->rest_turns > 0 && !c->is_finishing) {
        who->rest_turns--;
        return;
    }
    uint64_t dice = weir_rng_below(&c->rng, 20);
    enum weir_ledger_kind kind = WEIR_LEDGER_SETTLE;
    int64_t tok = said->actual_tok = (int64_t)weir_rng_below(&c->rng, (uint64_t)said->held_tok + 1);
    if (dice == 0 && !c->is_finishing) {
        kind = WEIR_LEDGER_EXTEND;
        tok = said->extend_tok = said->held_tok + 1 + (int64_t)weir_rng_below(&c->rng, 50);
    } else if (dice <= 2) {
        kind = WEIR_LEDGER_VOID;
    }
    enum said_stage stage = kind == WEIR_LEDGER_EXTEND ? SAID_EXTEND
                            : kind == WEIR_LEDGER_VOID ? SAID_VOID
                                                       : SAID_SETTLE;
    say(said, stage);
    who->waits = submit(c, caller, kind, tok);
    CHECK(who->waits || kind == WEIR_LEDGER_EXTEND); /* the end of a hold always finds room */
    if (!who->waits)
        say(said, SAID_HELD);
}

static void told_reserve(struct callers *c, struct caller *who, struct said *said,
                         const struct weir_store_answer *answer)
{
    if (answer->result == WEIR_LEDGER_HELD) {
        say(said, SAID_HELD);
        return;
    }
    c->record->refusals += answer->result != WEIR_LEDGER_UNAVAILABLE;
    c->record->unavailable += answer->result == WEIR_LEDGER_UNAVAILABLE;
    say(said, answer->result == WEIR_LEDGER_UNAVAILABLE ? SAID_UNAVAILABLE : SAID_REFUSED);
    who->index = NOBODY;
    if (answer->result != WEIR_LEDGER_EXHAUSTED)
        return;
    for (uint32_t scope = 0; scope < c->scopes; scope++)
        if (c->slots[scope] == answer->scope && !c->window_waits[scope] && !c->is_finishing &&
            weir_chance(&c->rng, 1, 4) && !control(c, scope, WEIR_LEDGER_WINDOW))
            break; /* no room now: another refusal will come */
}

static void told(struct callers *c, const struct weir_store_answer *answer)
{
    atomic_fetch_add(&c->record->told, 1);
    if (answer->tag >= TAG_SCOPE) {
        bool done = answer->result == WEIR_LEDGER_DONE || answer->result == WEIR_LEDGER_SAME;
        c->controls--;
        if (answer->kind == WEIR_LEDGER_WINDOW)
            c->window_waits[answer->tag & 0xffff] = false;
        else
            c->undefined -= done;
        CHECK_MSG(done || answer->result == WEIR_LEDGER_UNAVAILABLE, "%s",
                  weir_ledger_result_name(answer->result));
        return;
    }
    struct caller *who = &c->callers[answer->tag];
    struct said *said = &c->record->said[who->index];
    CHECK_INT(answer->hold, weir_ledger_hold_id(c->record->epoch, who->index + 1));
    who->waits = false;
    switch (answer->kind) {
    case WEIR_LEDGER_RESERVE:
        told_reserve(c, who, said, answer);
        return;
    case WEIR_LEDGER_EXTEND:
        if (answer->result == WEIR_LEDGER_HELD)
            said->held_tok = said->extend_tok;
        /* UNAVAILABLE: whether it took effect cannot be told, so it stays in doubt. */
        if (answer->result != WEIR_LEDGER_UNAVAILABLE)
            say(said, SAID_HELD);
        return;
    case WEIR_LEDGER_SETTLE:
        CHECK_STR(weir_ledger_result_name(answer->result), "settled");
        say(said, SAID_SETTLED);
        break;
    case WEIR_LEDGER_VOID:
        CHECK_STR(weir_ledger_result_name(answer->result), "voided");
        say(said, SAID_VOIDED);
        break;
    case WEIR_LEDGER_SCOPE:
    case WEIR_LEDGER_SCOPE_FORGET:
    case WEIR_LEDGER_WINDOW:
    case WEIR_LEDGER_ADJUST:
        break;
    }
    who->index = NOBODY;
}

/* Takes the answers that are there. Returns how many. */
static size_t take_now(struct callers *c)
{
    struct weir_store_answer answers[64];
    size_t count, sum = 0;
    do {
        count = weir_store_collect(c->st, clock_ns(), answers, WEIR_COUNT(answers));
        for (size_t i = 0; i < count; i++)
            told(c, &answers[i]);
        sum += count;
    } while (count == WEIR_COUNT(answers));
    return sum;
}

/* The same, waiting up to wait_ms for the first. */
static void take(struct callers *c, int wait_ms)
{
    struct pollfd ready = {.fd = weir_store_fd(c->st), .events = POLLIN};
    if (take_now(c) > 0 || wait_ms == 0)
        return;
    poll(&ready, 1, wait_ms);
    take_now(c);
}

bool callers_turn(struct callers *c, int wait_ms)
{
    bool waits = c->controls > 0;
    for (size_t i = 0; i < c->count; i++) {
        struct caller *who = &c->callers[i];
        if (!who->waits && who->index != NOBODY)
            go_on(c, i);
        else if (who->index == NOBODY && !c->is_finishing && !begin(c, i))
            return false;
        waits = waits || who->waits;
    }
    take(c, waits ? wait_ms : 0);
    return true;
}

bool callers_run(struct callers *c, uint64_t answers, int limit_ms)
{
    uint64_t end_ns = clock_ns() + (uint64_t)limit_ms * WEIR_NS_PER_MS;
    uint64_t told_end = atomic_load(&c->record->told) + answers;
    while (atomic_load(&c->record->told) < told_end)
        if (clock_ns() > end_ns || !callers_turn(c, 10))
            return false;
    return true;
}

static bool is_busy(const struct callers *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->callers[i].index != NOBODY)
            return true;
    return c->controls > 0;
}

bool callers_finish(struct callers *c, int limit_ms)
{
    uint64_t end_ns = clock_ns() + (uint64_t)limit_ms * WEIR_NS_PER_MS;
    c->is_finishing = true;
    while (is_busy(c)) {
        if (clock_ns() > end_ns)
            return false;
        callers_turn(c, 10);
    }
    c->is_finishing = false;
    return true;
}

bool callers_rest(struct callers *c, int wait_ms)
{
    struct pollfd ready = {.fd = weir_store_fd(c->st), .events = POLLIN};
    if (!callers_finish(c, 10000))
        return false;
    atomic_fetch_add(&c->record->rests, 1);
    poll(&ready, 1, wait_ms); /* nothing comes */
    return true;
}

struct callers *callers_new(struct weir_store *st, struct record *record, uint32_t count,
                            uint32_t scopes, uint64_t seed)
{
    struct callers *c = calloc(1, sizeof *c);
    CHECK(c != NULL && count <= CALLERS_MAX && scopes > KEY_FIRST && scopes <= CALLERS_SCOPES);
    c->st = st;
    c->record = record;
    c->count = count;
    c->scopes = scopes;
    c->deadline_ms = 10000;
    weir_rng_seed(&c->rng, seed, 1);
    for (size_t i = 0; i < CALLERS_MAX; i++)
        c->callers[i].index = NOBODY;
    record->epoch = st->epoch;
    atomic_store(&record->count, 0);
    atomic_store(&record->rests, 0);
    c->undefined = scopes;
    for (uint32_t scope = 0; scope < scopes; scope++) {
        char name[32];
        snprintf(name, sizeof name, "scope/%u", scope);
        c->slots[scope] = weir_store_scope(st, name);
        CHECK(c->slots[scope] != WEIR_NONE);
        if (!control(c, scope, WEIR_LEDGER_SCOPE))
            break;
    }
    uint64_t end_ns = clock_ns() + 10 * WEIR_NS_PER_S;
    while (c->controls > 0 && clock_ns() < end_ns)
        take(c, 10);
    CHECK_INT(c->controls, 0);
    if (c->undefined == 0)
        return c;
    free(c);
    return NULL;
}

void callers_killed(const char *path, struct record *record, uint64_t answers)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        char error[512] = "";
        struct weir_sqlite_config config = callers_config(path, NULL, record);
        struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
        struct callers *c = st ? callers_new(st, record, 16, KEY_FIRST + 2, 1) : NULL;
        if (!st)
            fprintf(stderr, "%s\n", error);
        _exit(c && callers_run(c, answers, 20000) ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

void ledger_files_remove(const char *path)
{
    /* The last two: the disk's sync is measured in a file of its own, which a kill may leave; a test
     * keeps an older copy. */
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock", ".sync", "-old"};
    for (size_t i = 0; i < WEIR_COUNT(suffixes); i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

void ledger_copy(const char *from, const char *to)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
    for (size_t i = 0; i < WEIR_COUNT(suffixes); i++) {
        char name[2][256], page[4096];
        snprintf(name[0], sizeof name[0], "%s%s", from, suffixes[i]);
        snprintf(name[1], sizeof name[1], "%s%s", to, suffixes[i]);
        unlink(name[1]);
        FILE *in = fopen(name[0], "r");
        if (!in)
            continue;
        FILE *out = fopen(name[1], "w");
        size_t bytes;
        while (out && (bytes = fread(page, 1, sizeof page, in)) > 0)
            CHECK_INT(fwrite(page, 1, bytes, out), bytes);
        fclose(in);
        CHECK(out != NULL && fclose(out) == 0);
    }
}

void callers_set_deadline(struct callers *callers, uint32_t deadline_ms)
{
    callers->deadline_ms = deadline_ms;
}

void callers_free(struct callers *callers)
{
    free(callers);
}

/* Comparing. */

struct row {
    enum weir_hold_state state;
    int64_t booked_tok;
};

struct comparing {
    struct comparison *result;
    const struct record *record;
    uint64_t count;
    struct row *rows; /* of the run, by counter - 1 */
};

__attribute__((format(printf, 3, 4))) static void differ(struct comparison *result,
                                                         uint64_t *counter, const char *format, ...)
{
    va_list arguments;
    ++*counter;
    if (result->first[0])
        return;
    va_start(arguments, format);
    vsnprintf(result->first, sizeof result->first, format, arguments);
    va_end(arguments);
}

static void see_hold(void *ctx, const struct weir_reader_hold *hold)
{
    struct comparing *c = ctx;
    uint64_t epoch = hold->id >> 40, index = (hold->id & WEIR_LEDGER_COUNTER_MAX) - 1;
    if (epoch < c->record->epoch) {
        c->result->older[hold->state]++;
        c->result->older_tok[hold->state] += hold->booked_tok;
        return;
    }
    if (epoch > c->record->epoch || index >= c->count) {
        differ(c->result, &c->result->unasked, "hold %llu was never asked for",
               (unsigned long long)hold->id);
        return;
    }
    c->rows[index] = (struct row){hold->state, hold->booked_tok};
    c->result->holds++;
}

static void see_balance(void *ctx, const struct weir_reader_balance *balance)
{
    struct comparison *result = ctx;
    const struct weir_balance_row *b = &balance->balance;
    int64_t used = b->reserved_tok + b->committed_tok + b->lapsed_tok;
    result->purged_tok += b->purged_tok;
    if (used > b->granted_tok || b->overrun_tok != 0 || b->cut_tok != 0 || b->unmatched_tok != 0)
        differ(result, &result->over_grant, "%s: %lld used of %lld, overrun %lld", balance->scope,
               (long long)used, (long long)b->granted_tok, (long long)b->overrun_tok);
}

static bool is(const struct row *row, enum weir_hold_state state, int64_t booked_tok)
{
    return row->state == state && row->booked_tok == booked_tok;
}

static void compare_said(struct comparing *c, uint64_t index, enum said_stage stage,
                         struct compare_how how)
{
    const struct said *said = &c->record->said[index];
    const struct row *row = &c->rows[index];
    enum weir_hold_state live = how.has_lapsed ? WEIR_HOLD_LAPSED : WEIR_HOLD_HELD;
    bool held = is(row, live, said->held_tok), none = row->state == WEIR_HOLD_NONE;
    bool right = false;
    switch (stage) {
    case SAID_RESERVE:
        right = none || held;
        break;
    case SAID_HELD:
        right = held;
        break;
    case SAID_REFUSED:
        right = none;
        break;
    case SAID_UNAVAILABLE:
        right = none || is(row, WEIR_HOLD_VOID, 0) || (held && !how.is_closed);
        break;
    case SAID_EXTEND:
        right = held || is(row, live, said->extend_tok);
        break;
    case SAID_SETTLE: /* an extend before it may be in doubt */
        right =
            held || is(row, live, said->extend_tok) || is(row, WEIR_HOLD_SETTLED, said->actual_tok);
        break;
    case SAID_SETTLED:
        right = is(row, WEIR_HOLD_SETTLED, said->actual_tok) || (none && how.may_purge);
        break;
    case SAID_VOID:
        right = held || is(row, live, said->extend_tok) || is(row, WEIR_HOLD_VOID, 0);
        break;
    case SAID_VOIDED:
        right = is(row, WEIR_HOLD_VOID, 0) || (none && how.may_purge);
        break;
    }
    bool nothing_told = stage == SAID_RESERVE || stage == SAID_REFUSED || stage == SAID_UNAVAILABLE;
    if (!right)
        differ(c->result, nothing_told ? &c->result->unasked : &c->result->lost,
               "hold %llu: at stage %d with %lld (%lld, %lld), but %s with %lld in the file",
               (unsigned long long)weir_ledger_hold_id(c->record->epoch, index + 1), (int)stage,
               (long long)said->held_tok, (long long)said->extend_tok, (long long)said->actual_tok,
               weir_hold_state_name(row->state), (long long)row->booked_tok);
}

struct comparison compare_file(const char *path, const struct record *record,
                               struct compare_how how)
{
    struct comparison result = {0};
    struct comparing c = {
        .result = &result, .record = record, .count = atomic_load(&record->count)};
    char error[512] = "";
    /* Stages first: what is told after this does not count, what is in doubt then may be told. */
    uint32_t *stages = malloc((c.count + 1) * sizeof *stages);
    c.rows = calloc(c.count + 1, sizeof *c.rows);
    CHECK(stages != NULL && c.rows != NULL);
    for (uint64_t i = 0; i < c.count; i++)
        stages[i] = atomic_load_explicit(&record->said[i].stage, memory_order_acquire);
    struct weir_reader *reader = weir_reader_open(path, error, sizeof error);
    if (!reader) {
        differ(&result, &result.lost, "%s", error);
    } else {
        struct weir_reader_cursor cursor = {0};
        enum weir_reader_next next;
        while ((next = weir_reader_holds(reader, &(struct weir_reader_hold_filter){0}, &cursor, 0,
                                         see_hold, &c)) == WEIR_READER_MORE)
            ;
        cursor = (struct weir_reader_cursor){0};
        while (next == WEIR_READER_END &&
               (next = weir_reader_balances(reader, NULL, &cursor, 0, see_balance, &result)) ==
                   WEIR_READER_MORE)
            next = WEIR_READER_END;
        struct weir_reader_facts facts;
        if (next == WEIR_READER_FAULT || !weir_reader_facts(reader, &facts))
            differ(&result, &result.lost, "%s", weir_reader_trouble(reader));
        else
            result.base_seq = facts.base_seq;
        weir_reader_close(reader);
        for (uint64_t i = 0; i < c.count && next != WEIR_READER_FAULT; i++)
            compare_said(&c, i, (enum said_stage)stages[i], how);
    }
    struct weir_verify_report report;
    if (!weir_verify(path, &report, error, sizeof error))
        differ(&result, &result.lost, "verify: %s", error);
    else if (report.wrong > 0)
        differ(&result, &result.lost, "verify: %lld findings: %s", (long long)report.wrong,
               report.findings[0]);
    free(stages);
    free(c.rows);
    return result;
}

/* Settings. */

static void say_nothing(enum weir_store_say level, const char *text)
{
    (void)level, (void)text;
}

struct weir_sqlite_config callers_config(const char *path, const char *vfs,
                                         const struct record *record)
{
    clock_record = record;
    return (struct weir_sqlite_config){.path = path,
                                       .scopes_max = 2 * CALLERS_SCOPES,
                                       .holds_max = 4096,
                                       .finished_keep = 64, /* so that it often has to look */
                                       .keep_finished_s = 1 << 30,
                                       .keep_journal_s = 1 << 30,
                                       .keep_usage_s = 1 << 30,
                                       .wall_s = record_wall_s,
                                       .say = say_nothing,
                                       .vfs = vfs};
}

/* ledger_core_bench: the ledger's rules alone, without a store: what a reserve and its settle cost by
 * the length of the chain, what telling a store adds, and a start from a million holds.
 *
 *   meson setup build-bench -Dbench=true -Dbuildtype=release && ninja -C build-bench
 *   build-bench/bench/ledger_core_bench */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/ledger.h"
#include "measure.h"

#define SCOPES 1000 /* leaves */
#define HOLDS 1000000
#define KEEP 16384 /* finished holds that are remembered */
#define BATCH 64

struct bench {
    struct weir_ledger_limits limits;
    struct weir_ledger *l;
    void *mem;
    size_t bytes;
    uint64_t counter;
    uint32_t parents; /* above each leaf */
    bool is_told;
};

static void bench_must(struct weir_ledger_answer answer, enum weir_ledger_result want)
{
    if (answer.result == want)
        return;
    fprintf(stderr, "%s, want %s\n", weir_ledger_result_name(answer.result),
            weir_ledger_result_name(want));
    exit(1);
}

/* SCOPES leaves, and in common above them a chain of parents. */
static void bench_open(struct bench *b, uint32_t parents, uint32_t holds_max, int64_t granted_tok)
{
    b->parents = parents;
    b->limits = (struct weir_ledger_limits){SCOPES + parents, 8 * SCOPES, holds_max};
    b->bytes = weir_ledger_bytes(&b->limits);
    b->mem = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->mem == MAP_FAILED)
        exit(1);
    b->l = weir_ledger_init(b->mem, b->bytes, &b->limits, 2);
    for (uint32_t i = 0; i < parents; i++) {
        const struct weir_ledger_rules rules = {.parent = i ? i - 1 : WEIR_NONE, .unlimited = true};
        bench_must(weir_ledger_scope_set(b->l, i, &rules), WEIR_LEDGER_DONE);
    }
    for (uint32_t i = parents; i < parents + SCOPES; i++) {
        const struct weir_ledger_rules rules = {.parent = parents ? parents - 1 : WEIR_NONE,
                                                .granted_tok = granted_tok};
        bench_must(weir_ledger_scope_set(b->l, i, &rules), WEIR_LEDGER_DONE);
    }
}

static void bench_close(struct bench *b)
{
    munmap(b->mem, b->bytes);
}

/* What a store does after each batch, but for its file. */
static void bench_tell(struct bench *b, uint64_t hold)
{
    struct weir_ledger_record record;
    struct weir_ledger_balance row;
    if (!weir_ledger_record(b->l, hold, &record))
        exit(1);
    while (hold % BATCH == 0 && weir_ledger_changed_next(b->l, &row))
        ;
}

/* BATCH are in flight, as they are behind a gateway. */
static void reserve_and_settle(void *arg)
{
    struct bench *b = arg;
    uint64_t hold = weir_ledger_hold_id(2, ++b->counter);
    uint32_t leaf = b->parents + (uint32_t)(b->counter * 2654435761u % SCOPES);
    bench_must(weir_ledger_reserve(b->l, hold, leaf, 1200), WEIR_LEDGER_HELD);
    if (b->is_told)
        bench_tell(b, hold);
    if (b->counter <= BATCH)
        return;
    hold -= BATCH;
    bench_must(weir_ledger_settle(b->l, hold, WEIR_NONE, 2), WEIR_LEDGER_SETTLED);
    if (b->is_told)
        bench_tell(b, hold);
    weir_ledger_forget(b->l, KEEP, 2);
}

static void refuse(void *arg)
{
    struct bench *b = arg;
    uint64_t hold = weir_ledger_hold_id(2, ++b->counter);
    uint32_t leaf = b->parents + (uint32_t)(b->counter * 2654435761u % SCOPES);
    bench_must(weir_ledger_reserve(b->l, hold, leaf, 101), WEIR_LEDGER_NEVER);
}

static void bench_operations(uint32_t parents, bool is_told)
{
    struct bench b = {.is_told = is_told};
    char name[64];
    bench_open(&b, parents, KEEP + 4 * BATCH, WEIR_TOK_MAX);
    snprintf(name, sizeof name, "reserve + settle, chain of %u%s", parents + 1,
             is_told ? ", told" : "");
    bench_row(name, reserve_and_settle, &b, 0);
    bench_close(&b);
}

static void bench_refusals(void)
{
    struct bench b = {0};
    bench_open(&b, 2, BATCH, 100);
    bench_row("refuse, chain of 3", refuse, &b, 0);
    bench_close(&b);
}

/* A start from HOLDS held holds, in three windows of each leaf. */
static void load(void *arg)
{
    struct bench *b = arg;
    if (b->mem)
        bench_close(b);
    bench_open(b, 2, HOLDS, WEIR_TOK_MAX);
    struct weir_ledger_balance row = {.window = 7, .granted_tok = WEIR_BALANCE_MAX};
    for (row.scope = 0; row.scope < 2; row.scope++) {
        row.reserved_tok = INT64_C(10) * HOLDS;
        bench_must(weir_ledger_load_balance(b->l, &row), WEIR_LEDGER_DONE);
    }
    row.granted_tok = WEIR_TOK_MAX;
    for (row.scope = 2; row.scope < 2 + SCOPES; row.scope++)
        for (row.window = 1; row.window <= 3; row.window++) {
            row.reserved_tok = 10 * (HOLDS / SCOPES / 4) * (row.window == 3 ? 2 : 1);
            bench_must(weir_ledger_load_balance(b->l, &row), WEIR_LEDGER_DONE);
        }
    struct weir_ledger_record r = {
        .state = WEIR_HOLD_HELD, .asked_tok = 10, .booked_tok = 10, .depth = 3};
    r.chain[1] = (struct weir_ledger_link){1, 7};
    r.chain[2] = (struct weir_ledger_link){0, 7};
    for (uint32_t i = 0; i < HOLDS; i++) {
        uint32_t quarter = i / (HOLDS / 4);
        r.id = weir_ledger_hold_id(1, i + 1);
        r.chain[0] = (struct weir_ledger_link){2 + i % SCOPES, quarter < 2 ? quarter + 1 : 3};
        bench_must(weir_ledger_load_hold(b->l, &r), WEIR_LEDGER_DONE);
    }
}

static void audit(void *arg)
{
    struct bench *b = arg;
    if (!b->mem)
        load(b);
    const char *wrong = weir_ledger_audit(b->l);
    if (wrong) {
        fprintf(stderr, "not so: %s\n", wrong);
        exit(1);
    }
}

static void bench_panic(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s\n", file, line, expression);
    exit(1);
}

int main(int argc, char **argv)
{
    weir_panic_hook = bench_panic;
    bench_begin(argc, argv);
    bench_operations(0, false);
    bench_operations(2, false);
    bench_operations(5, false);
    bench_operations(2, true);
    bench_refusals();
    struct bench b = {0};
    bench_row("load 1,000,000 holds", load, &b, 0);
    bench_row("audit 1,000,000 holds", audit, &b, 0);
    if (b.mem)
        bench_close(&b);
    return bench_end();
}

/* The ledger's rules: the tables of tests/data/ledger (one test a case), and what tables cannot
 * say. */
#include "core/ledger.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "ledger_table.h"
#include "support/check.h"
#include "support/ledger_rows.h"

/* What tables cannot say. */

static void ledger__unused_room__is_not_touched(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {100000, 200000, 1000000};
    size_t bytes = weir_ledger_bytes(&limits), page = 4096, pages = (bytes + page - 1) / page;
    CHECK(bytes < UINT64_C(120) << 20);
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mem != MAP_FAILED);
    struct weir_ledger *l = weir_ledger_init(mem, bytes, &limits, 1);
    CHECK_INT(weir_ledger_scope_set(l, 0, &(struct weir_ledger_rules){WEIR_NONE, false, false, 100})
                  .result,
              WEIR_LEDGER_DONE);
    for (uint64_t i = 1; i <= 100000; i++) {
        CHECK_INT(weir_ledger_reserve(l, weir_ledger_hold_id(1, i), 0, 100).result,
                  WEIR_LEDGER_HELD);
        CHECK_INT(weir_ledger_settle(l, weir_ledger_hold_id(1, i), 0, 0).result,
                  WEIR_LEDGER_SETTLED);
        CHECK(weir_ledger_forget(l, 10, 2) <= 1);
    }
    unsigned char *in_core = malloc(pages);
    CHECK(mincore(mem, bytes, in_core) == 0);
    size_t touched = 0;
    for (size_t i = 0; i < pages; i++)
        touched += in_core[i] & 1;
    free(in_core);
    /* The hash's buckets are walked through once (4 bytes a hold); records are used again. */
    CHECK_MSG(touched <= 100000 * 4 / page + 8, "%zu pages", touched);
    CHECK(weir_ledger_audit(l) == NULL);
    munmap(mem, bytes);
}

static void ledger__every_operation__is_applied_by_its_kind(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {4, 8, 8};
    void *mem;
    struct weir_ledger *l = ledger_in_memory(&limits, 1, &mem);
    const uint64_t h = weir_ledger_hold_id(1, 1), v = weir_ledger_hold_id(1, 2);
    const struct {
        struct weir_ledger_op op;
        enum weir_ledger_result result;
    } rows[] = {
        {{.kind = WEIR_LEDGER_SCOPE, .scope = 1, .parent = WEIR_NONE, .amount_tok = 90},
         WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_SCOPE, .scope = 2, .parent = 1, .unlimited = true}, WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_WINDOW, .scope = 2, .window = 7}, WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_RESERVE, .scope = 2, .hold = h, .amount_tok = 40}, WEIR_LEDGER_HELD},
        {{.kind = WEIR_LEDGER_RESERVE, .scope = 2, .hold = v, .amount_tok = 51}, WEIR_LEDGER_BUSY},
        {{.kind = WEIR_LEDGER_RESERVE, .scope = 2, .hold = v, .amount_tok = 5}, WEIR_LEDGER_HELD},
        {{.kind = WEIR_LEDGER_EXTEND, .hold = h, .amount_tok = 60}, WEIR_LEDGER_HELD},
        {{.kind = WEIR_LEDGER_SETTLE, .scope = 2, .hold = h, .amount_tok = 50},
         WEIR_LEDGER_SETTLED},
        {{.kind = WEIR_LEDGER_VOID, .hold = v}, WEIR_LEDGER_VOIDED},
        {{.kind = WEIR_LEDGER_ADJUST, .scope = 2, .amount_tok = -20}, WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_SCOPE_FORGET, .scope = 1}, WEIR_LEDGER_BUSY},
        {{.kind = WEIR_LEDGER_SCOPE_FORGET, .scope = 2}, WEIR_LEDGER_DONE},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_ledger_answer answer = weir_ledger_apply(l, &rows[i].op);
        CHECK_MSG(answer.result == rows[i].result, "row %zu: %s", i,
                  weir_ledger_result_name(answer.result));
        if (answer.result == WEIR_LEDGER_BUSY)
            CHECK_INT(answer.scope, 1);
    }
    struct weir_ledger_totals t;
    CHECK(weir_ledger_totals(l, 1, &t));
    CHECK_INT(weir_ledger_used_tok(&t), 30);
    CHECK_INT(t.parent, WEIR_NONE);
    CHECK_INT(t.refused_count, 1); /* the reserve; that it has a child is no refusal of a budget */
    CHECK(!weir_ledger_totals(l, 2, &t));
    struct weir_ledger_stats s;
    weir_ledger_stats(l, &s);
    CHECK_INT(s.results[WEIR_LEDGER_DONE], 5);
    CHECK_INT(s.results[WEIR_LEDGER_BUSY], 2);
    CHECK_INT(s.finished, 0); /* those of a scope that is forgotten go with it */
    free(mem);
}

static void ledger__holds__are_listed_while_they_are_known(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {2, 2, 8};
    void *mem;
    struct weir_ledger *l = ledger_in_memory(&limits, 1, &mem);
    weir_ledger_scope_set(l, 0, &(struct weir_ledger_rules){WEIR_NONE, true, false, 0});
    for (uint64_t i = 1; i <= 5; i++)
        CHECK_INT(weir_ledger_reserve(l, weir_ledger_hold_id(1, i), 0, (int64_t)i).result,
                  WEIR_LEDGER_HELD);
    weir_ledger_settle(l, weir_ledger_hold_id(1, 2), 0, 20);
    weir_ledger_void(l, weir_ledger_hold_id(1, 4));
    CHECK_INT(weir_ledger_forget(l, 1, 8), 1);
    uint32_t cursor = 0;
    int64_t booked = 0;
    int count = 0;
    for (struct weir_ledger_hold view; weir_ledger_hold_next(l, &cursor, &view); count++) {
        booked += view.booked_tok;
        CHECK_INT(view.scope, 0);
        CHECK_INT(view.asked_tok, (int64_t)(view.id & WEIR_LEDGER_COUNTER_MAX));
    }
    CHECK_INT(count, 4);
    CHECK_INT(booked, 1 + 3 + 5); /* 2 is forgotten, 4 is void */
    free(mem);
}

static void ledger__epochs__only_go_up(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {1, 1, 1};
    void *mem;
    struct weir_ledger *l = ledger_in_memory(&limits, 1, &mem);
    CHECK(!weir_ledger_epoch_begin(l, 1));
    CHECK(!weir_ledger_epoch_begin(l, 0));
    CHECK(!weir_ledger_epoch_begin(l, WEIR_LEDGER_EPOCH_MAX + 1));
    CHECK(weir_ledger_epoch_begin(l, 5));
    CHECK(!weir_ledger_epoch_begin(l, 4));
    CHECK(weir_ledger_epoch_begin(l, WEIR_LEDGER_EPOCH_MAX));
    free(mem);
}

/* An audit that cannot fail proves nothing: it must see a word of a record that was changed. */
static void ledger__audit__sees_a_record_that_was_changed(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {1, 1, 1};
    void *mem;
    struct weir_ledger *l = ledger_in_memory(&limits, 1, &mem);
    weir_ledger_scope_set(l, 0, &(struct weir_ledger_rules){WEIR_NONE, false, false, 1234567});
    CHECK_INT(weir_ledger_reserve(l, weir_ledger_hold_id(1, 1), 0, 765432).result,
              WEIR_LEDGER_HELD);
    CHECK(weir_ledger_audit(l) == NULL);
    int64_t *words = mem;
    int changed = 0;
    for (size_t i = 0; i < weir_ledger_bytes(&limits) / 8; i++) {
        if (words[i] != 765432)
            continue; /* the estimate asked for, the amount booked, the balance's reserved */
        words[i]++;
        changed += weir_ledger_audit(l) != NULL;
        words[i]--;
        CHECK(weir_ledger_audit(l) == NULL);
    }
    CHECK_INT(changed, 2); /* what was asked for is free to differ: extend changes the other two */
    free(mem);
}

int main(void)
{
    static struct CMUnitTest tests[LEDGER_TABLE_CASES_MAX + 8];
    size_t count = 0;
    const struct CMUnitTest units[] = {
        cmocka_unit_test(ledger__unused_room__is_not_touched),
        cmocka_unit_test(ledger__every_operation__is_applied_by_its_kind),
        cmocka_unit_test(ledger__holds__are_listed_while_they_are_known),
        cmocka_unit_test(ledger__epochs__only_go_up),
        cmocka_unit_test(ledger__audit__sees_a_record_that_was_changed),
    };
    for (size_t i = 0; i < WEIR_COUNT(units); i++)
        tests[count++] = units[i];
    count += ledger_table_read(tests + count, WEIR_COUNT(tests) - count);
    int failed = _cmocka_run_group_tests("ledger", tests, count, NULL, NULL);
    ledger_table_free();
    return failed;
}

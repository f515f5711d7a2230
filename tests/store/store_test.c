/* The contract of src/store/store.h, kept by the memory store and by the faulty one around it. */
#include "store/store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

#define SCOPE 0

static struct weir_store *memory_new(uint32_t holds_max, uint32_t finished_keep)
{
    struct weir_store *st = weir_memory_store_open(&(struct weir_memory_store_config){
        .scopes_max = 8, .holds_max = holds_max, .finished_keep = finished_keep});
    CHECK(st != NULL);
    CHECK_INT(weir_store_scope(st, "team"), SCOPE);
    return st;
}

static bool submit(struct weir_store *st, enum weir_ledger_kind kind, uint64_t hold, int64_t tok)
{
    struct weir_store_op op = {.ledger = {.kind = kind,
                                          .scope = SCOPE,
                                          .parent = WEIR_NONE,
                                          .hold = hold,
                                          .amount_tok = tok},
                               .tag = hold * 10 + (uint64_t)kind,
                               .deadline_ns = WEIR_NEVER_NS};
    return weir_store_submit(st, &op);
}

static struct weir_store_answer answer_next(struct weir_store *st)
{
    struct weir_store_answer answer;
    CHECK_INT(weir_store_collect(st, 0, &answer, 1), 1);
    return answer;
}

static void expect(struct weir_store *st, enum weir_ledger_kind kind, uint64_t hold,
                   enum weir_ledger_result result)
{
    struct weir_store_answer answer = answer_next(st);
    CHECK_INT(answer.kind, kind);
    CHECK_INT(answer.hold, hold);
    CHECK_INT(answer.tag, hold * 10 + (uint64_t)kind);
    CHECK_STR(weir_ledger_result_name(answer.result), weir_ledger_result_name(result));
}

static void expect_nothing(struct weir_store *st)
{
    struct weir_store_answer answer;
    CHECK_INT(weir_store_collect(st, 0, &answer, 1), 0);
}

static void grant(struct weir_store *st, int64_t tok)
{
    CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, tok));
    expect(st, WEIR_LEDGER_SCOPE, 0, WEIR_LEDGER_DONE);
}

static struct weir_ledger_totals totals(struct weir_store *st)
{
    struct weir_ledger_totals t;
    CHECK(weir_store_totals(st, SCOPE, &t));
    return t;
}

static bool is_readable(struct weir_store *st)
{
    struct pollfd p = {.fd = weir_store_fd(st), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* Memory. */

static void memory__answers__come_at_once_and_in_order(void **state)
{
    (void)state;
    struct weir_store *st = memory_new(16, 16);
    CHECK_INT(weir_store_fd(st), -1);
    CHECK_STR(st->type->name, "memory");
    grant(st, 100);
    uint64_t a = weir_store_hold_next(st), b = weir_store_hold_next(st);
    CHECK(a != b && a >> 40 == st->epoch);
    CHECK(submit(st, WEIR_LEDGER_RESERVE, a, 60));
    CHECK(submit(st, WEIR_LEDGER_RESERVE, b, 60));
    CHECK(submit(st, WEIR_LEDGER_SETTLE, a, 10));
    CHECK(submit(st, WEIR_LEDGER_RESERVE, b, 60));
    CHECK_INT(totals(st).reserved_tok, 60); /* before anything was collected */
    expect(st, WEIR_LEDGER_RESERVE, a, WEIR_LEDGER_HELD);
    expect(st, WEIR_LEDGER_RESERVE, b, WEIR_LEDGER_BUSY);
    expect(st, WEIR_LEDGER_SETTLE, a, WEIR_LEDGER_SETTLED);
    expect(st, WEIR_LEDGER_RESERVE, b, WEIR_LEDGER_HELD);
    expect_nothing(st);
    weir_store_close(st);
}

static void memory__refused_by_a_parent__names_it(void **state)
{
    (void)state;
    struct weir_store *st = memory_new(16, 16);
    grant(st, 100);
    struct weir_store_op op = {
        .ledger = {.kind = WEIR_LEDGER_SCOPE, .scope = 3, .parent = SCOPE, .unlimited = true}};
    CHECK(weir_store_submit(st, &op));
    CHECK_INT(answer_next(st).scope, 3);
    op.ledger = (struct weir_ledger_op){.kind = WEIR_LEDGER_RESERVE,
                                        .scope = 3,
                                        .hold = weir_store_hold_next(st),
                                        .amount_tok = 101};
    CHECK(weir_store_submit(st, &op));
    struct weir_store_answer answer = answer_next(st);
    CHECK_INT(answer.result, WEIR_LEDGER_NEVER);
    CHECK_INT(answer.scope, SCOPE);
    weir_store_close(st);
}

/* A caller that does not collect is turned away, but every hold it got can still be ended. */
static void memory__answers_pile_up__ends_of_holds_still_find_room(void **state)
{
    (void)state;
    for (int64_t est = 0; est <= 1; est++) {
        struct weir_store *st = memory_new(64, 5);
        CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, est ? 20 : 1000)); /* est 1: most are refused */
        uint64_t holds[10000];
        size_t count = 0;
        while (count < WEIR_COUNT(holds)) {
            holds[count] = weir_store_hold_next(st);
            if (!submit(st, WEIR_LEDGER_RESERVE, holds[count], est))
                break;
            count++;
        }
        CHECK(count < WEIR_COUNT(holds));
        CHECK(!submit(st, WEIR_LEDGER_ADJUST, 0, 1) || !submit(st, WEIR_LEDGER_ADJUST, 0, 1));
        struct weir_ledger_stats stats;
        weir_store_stats(st, &stats);
        size_t held = stats.held;
        CHECK(held >= (est ? 20 : 64));
        for (size_t i = 0; i < held; i++)
            CHECK(submit(st, i % 2 ? WEIR_LEDGER_VOID : WEIR_LEDGER_SETTLE, holds[i], 0));
        weir_store_stats(st, &stats);
        CHECK_INT(stats.held, 0);
        size_t got = 0, more;
        struct weir_store_answer answers[7];
        while ((more = weir_store_collect(st, 0, answers, WEIR_COUNT(answers))) > 0)
            got += more;
        CHECK(got == 1 + count + held || got == 2 + count + held);
        CHECK(submit(st, WEIR_LEDGER_RESERVE, holds[count], 0));
        weir_store_close(st);
    }
}

static void memory__finished_holds__are_remembered_as_many_as_told(void **state)
{
    (void)state;
    struct weir_store *st = memory_new(4, 3);
    grant(st, 1000);
    uint64_t first = 0, hold = 0;
    for (int i = 0; i < 1000; i++) {
        hold = weir_store_hold_next(st);
        first = first ? first : hold;
        CHECK(submit(st, WEIR_LEDGER_RESERVE, hold, 1));
        expect(st, WEIR_LEDGER_RESERVE, hold, WEIR_LEDGER_HELD);
        CHECK(submit(st, WEIR_LEDGER_SETTLE, hold, 1));
        expect(st, WEIR_LEDGER_SETTLE, hold, WEIR_LEDGER_SETTLED);
    }
    struct weir_ledger_stats stats;
    weir_store_stats(st, &stats);
    CHECK_INT(stats.finished, 3);
    CHECK(submit(st, WEIR_LEDGER_SETTLE, hold - 2, 1));
    expect(st, WEIR_LEDGER_SETTLE, hold - 2, WEIR_LEDGER_SAME);
    CHECK(submit(st, WEIR_LEDGER_VOID, first, 0));
    expect(st, WEIR_LEDGER_VOID, first, WEIR_LEDGER_UNKNOWN);
    CHECK_INT(totals(st).committed_tok, 1000);
    CHECK(weir_memory_store_audit(st) == NULL);
    weir_store_close(st);
}

static void memory__tenants_come_and_go__no_table_fills(void **state)
{
    (void)state;
    struct weir_store *st = memory_new(4, 1000);
    for (int i = 0; i < 20000; i++) {
        uint64_t hold = weir_store_hold_next(st);
        grant(st, 10);
        CHECK_INT(totals(st).committed_tok, 0); /* nothing of the one before */
        CHECK(submit(st, WEIR_LEDGER_RESERVE, hold, 7));
        expect(st, WEIR_LEDGER_RESERVE, hold, WEIR_LEDGER_HELD);
        CHECK(submit(st, WEIR_LEDGER_SETTLE, hold, 5));
        expect(st, WEIR_LEDGER_SETTLE, hold, WEIR_LEDGER_SETTLED);
        CHECK(submit(st, WEIR_LEDGER_SCOPE_FORGET, 0, 0));
        CHECK(weir_store_scope_name(st, SCOPE) != NULL); /* until the answer is collected */
        expect(st, WEIR_LEDGER_SCOPE_FORGET, 0, WEIR_LEDGER_DONE);
        CHECK(weir_store_scope_name(st, SCOPE) == NULL);
        CHECK_INT(weir_store_scope(st, i % 2 ? "team" : "another"), SCOPE);
    }
    CHECK(weir_memory_store_audit(st) == NULL);
    weir_store_close(st);
}

/* Forgotten and defined again before the first answer was collected: the slot keeps its name. */
static void memory__scope_comes_back_at_once__keeps_its_slot(void **state)
{
    (void)state;
    struct weir_store *st = memory_new(4, 4);
    grant(st, 10);
    CHECK(submit(st, WEIR_LEDGER_SCOPE_FORGET, 0, 0));
    CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, 20));
    CHECK(submit(st, WEIR_LEDGER_SCOPE_FORGET, 0, 0));
    expect(st, WEIR_LEDGER_SCOPE_FORGET, 0, WEIR_LEDGER_DONE);
    CHECK_STR(weir_store_scope_name(st, SCOPE), "team");
    expect(st, WEIR_LEDGER_SCOPE, 0, WEIR_LEDGER_DONE);
    CHECK_STR(weir_store_scope_name(st, SCOPE), "team");
    expect(st, WEIR_LEDGER_SCOPE_FORGET, 0, WEIR_LEDGER_DONE);
    CHECK(weir_store_scope_name(st, SCOPE) == NULL);
    weir_store_close(st);
}

static void memory__status__says_that_nothing_lasts(void **state)
{
    (void)state;
    struct weir_store *st = memory_new(4, 4);
    struct weir_store_status status;
    grant(st, 10);
    weir_store_status(st, &status);
    CHECK(status.is_available && !status.is_durable && status.path == NULL);
    CHECK_STR(status.trouble, "");
    CHECK_INT(status.ops, 1);
    weir_store_keys(st, NULL, NULL); /* none: nobody is called */
    weir_store_close(st);
}

/* Names. */

static void names__slots__are_given_by_name_and_given_back(void **state)
{
    (void)state;
    struct weir_names *n = weir_names_create(3, 4);
    CHECK_INT(weir_names_scope(n, "a"), 0);
    CHECK_INT(weir_names_scope(n, "b"), 1);
    CHECK_INT(weir_names_scope(n, "a"), 0);
    CHECK_INT(weir_names_scope(n, "c"), 2);
    CHECK_INT(weir_names_scope(n, "d"), WEIR_NONE); /* full */
    CHECK_INT(weir_names_scope(n, ""), WEIR_NONE);
    CHECK_INT(weir_names_scope_find(n, "d"), WEIR_NONE);
    weir_names_scope_left(n, 1, weir_names_scope_leave(n, 1));
    CHECK(weir_names_scope_text(n, 1) == NULL);
    CHECK_INT(weir_names_scope_find(n, "b"), WEIR_NONE);
    char longest[WEIR_NAME_BYTES_MAX + 1];
    memset(longest, 'x', sizeof longest);
    longest[WEIR_NAME_BYTES_MAX] = '\0';
    CHECK_INT(weir_names_scope(n, longest), WEIR_NONE);
    longest[WEIR_NAME_BYTES_MAX - 1] = '\0';
    CHECK_INT(weir_names_scope(n, longest), 1);
    CHECK_STR(weir_names_scope_text(n, 1), longest);
    weir_names_destroy(n);
}

/* Whatever lies between them in the hash, a name is found, and one that went is not. */
static void names__many_come_and_go__each_is_found(void **state)
{
    (void)state;
    struct weir_names *n = weir_names_create(500, 1);
    bool in[1000] = {false};
    uint32_t now = 0;
    uint64_t random = 1;
    for (int step = 0; step < 20000; step++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t i = (uint32_t)(random >> 33) % 1000;
        char name[16];
        snprintf(name, sizeof name, "tenant/%u", i);
        uint32_t slot = weir_names_scope_find(n, name);
        CHECK((slot != WEIR_NONE) == in[i]);
        if (in[i]) {
            CHECK_STR(weir_names_scope_text(n, slot), name);
            weir_names_scope_left(n, slot, weir_names_scope_leave(n, slot));
            now--;
        } else if (now < 500) {
            CHECK(weir_names_scope(n, name) < 500);
            now++;
        } else {
            CHECK_INT(weir_names_scope(n, name), WEIR_NONE);
            continue;
        }
        in[i] = !in[i];
    }
    weir_names_destroy(n);
}

static void names__labels__are_kept_and_the_table_may_fill(void **state)
{
    (void)state;
    struct weir_names *n = weir_names_create(1, 3);
    CHECK_INT(weir_names_labels(n), 1);
    CHECK_INT(weir_names_label(n, "gpt"), 1);
    CHECK_INT(weir_names_label(n, "other"), WEIR_LABEL_OTHER);
    CHECK_INT(weir_names_label(n, ""), WEIR_LABEL_OTHER);
    char cut[200];
    memset(cut, 'm', sizeof cut);
    memcpy(cut + WEIR_NAME_BYTES_MAX - 2, "\xc3\xa9", 3); /* a character across the end */
    CHECK_INT(weir_names_label(n, cut), 2);
    CHECK_INT(strlen(weir_names_label_text(n, 2)), WEIR_NAME_BYTES_MAX - 2);
    CHECK_INT(weir_names_label(n, "more"), WEIR_LABEL_OTHER);
    CHECK_INT(weir_names_label(n, "gpt"), 1);
    CHECK_STR(weir_names_label_text(n, 99), "other");
    weir_names_destroy(n);
}

/* Faulty. */

static struct weir_store *faulty_new(struct weir_faulty_store_config config)
{
    if (config.queue_max == 0)
        config.queue_max = 64;
    return weir_faulty_store_open(memory_new(64, 64), &config);
}

static void faulty__delay__answers_after_that_many_collects(void **state)
{
    (void)state;
    struct weir_store *st = faulty_new((struct weir_faulty_store_config){.delay_collects = 3});
    CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, 100));
    for (int i = 0; i < 3; i++) {
        struct weir_ledger_totals t;
        expect_nothing(st);
        CHECK(!weir_store_totals(st, SCOPE, &t)); /* nothing has happened yet */
    }
    expect(st, WEIR_LEDGER_SCOPE, 0, WEIR_LEDGER_DONE);
    expect_nothing(st);
    weir_store_close(st);
}

static void faulty__batch__ends_holds_before_it_reserves(void **state)
{
    (void)state;
    struct weir_store *st = faulty_new((struct weir_faulty_store_config){0});
    grant(st, 100);
    uint64_t a = weir_store_hold_next(st), b = weir_store_hold_next(st),
             c = weir_store_hold_next(st);
    CHECK(submit(st, WEIR_LEDGER_RESERVE, a, 100));
    expect(st, WEIR_LEDGER_RESERVE, a, WEIR_LEDGER_HELD);
    CHECK(submit(st, WEIR_LEDGER_RESERVE, b, 90));
    CHECK(submit(st, WEIR_LEDGER_RESERVE, c, 90));
    CHECK(submit(st, WEIR_LEDGER_SETTLE, a, 10));
    struct weir_store_answer answers[3];
    CHECK_INT(weir_store_collect(st, 0, answers, 3), 3);
    CHECK_INT(answers[0].result, WEIR_LEDGER_SETTLED);
    CHECK_INT(answers[1].hold, b); /* then in the order of arrival */
    CHECK_INT(answers[1].result, WEIR_LEDGER_HELD);
    CHECK_INT(answers[2].hold, c);
    CHECK_INT(answers[2].result, WEIR_LEDGER_BUSY);
    weir_store_close(st);
}

static void faulty__queue_full__turns_away_all_but_ends_of_holds(void **state)
{
    (void)state;
    struct weir_store *st =
        faulty_new((struct weir_faulty_store_config){.queue_max = 2, .delay_collects = 1});
    CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, 100));
    CHECK(submit(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 1), 1));
    CHECK(!submit(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 2), 1));
    expect_nothing(st);
    expect(st, WEIR_LEDGER_SCOPE, 0, WEIR_LEDGER_DONE);
    expect(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 1), WEIR_LEDGER_HELD);
    CHECK(submit(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 2), 1));
    CHECK(submit(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 3), 1));
    CHECK(!submit(st, WEIR_LEDGER_ADJUST, 0, 1));
    CHECK(submit(st, WEIR_LEDGER_SETTLE, weir_ledger_hold_id(1, 1), 1));
    weir_store_close(st);
}

static void faulty__descriptor__is_readable_while_something_is_due(void **state)
{
    (void)state;
    struct weir_store *st =
        faulty_new((struct weir_faulty_store_config){.with_fd = true, .delay_collects = 1});
    CHECK(weir_store_fd(st) >= 0);
    CHECK(!is_readable(st));
    CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, 100));
    CHECK(submit(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 1), 1));
    CHECK(is_readable(st));
    expect_nothing(st);
    CHECK(is_readable(st));
    expect(st, WEIR_LEDGER_SCOPE, 0, WEIR_LEDGER_DONE); /* one of two */
    CHECK(is_readable(st));
    expect(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 1), WEIR_LEDGER_HELD);
    CHECK(!is_readable(st));
    weir_store_close(st);
}

/* A caller that keeps the contract, while the n-th reserve fails, for each n until none does. */
static void faulty__any_reserve_unavailable__nothing_stays_held(void **state)
{
    (void)state;
    for (int applied = 0; applied <= 1; applied++) {
        uint64_t unavailable = 1;
        for (uint64_t n = 1; unavailable > 0; n++) {
            CHECK(n < 100);
            unavailable = 0;
            struct weir_store *st = faulty_new((struct weir_faulty_store_config){
                .delay_collects = (uint32_t)n % 3,
                .unavailable_at = n,
                .unavailable_for = n % 2 ? 1 : 4,
                .unavailable_applied = applied,
            });
            if (n % 4 >= 2) /* around a store that answers later, as a durable one */
                st = weir_faulty_store_open(
                    st, &(struct weir_faulty_store_config){.queue_max = 64, .delay_collects = 1});
            CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, 1000));
            int64_t spent = 0, asked = 0, answered = 0;
            for (int turn = 0; turn < 60; turn++) {
                if (turn < 20 && ++asked)
                    CHECK(submit(st, WEIR_LEDGER_RESERVE, weir_store_hold_next(st), 10 + turn));
                struct weir_store_answer answers[3];
                size_t count = weir_store_collect(st, 0, answers, WEIR_COUNT(answers));
                for (size_t i = 0; i < count; i++) {
                    answered += answers[i].kind == WEIR_LEDGER_RESERVE;
                    if (answers[i].result == WEIR_LEDGER_UNAVAILABLE) {
                        unavailable++;
                    } else if (answers[i].result == WEIR_LEDGER_HELD) {
                        bool sent = answers[i].hold % 3 != 0;
                        spent += sent ? 7 : 0;
                        CHECK(submit(st, sent ? WEIR_LEDGER_SETTLE : WEIR_LEDGER_VOID,
                                     answers[i].hold, sent ? 7 : 0));
                    }
                }
            }
            expect_nothing(st);
            CHECK_INT(answered, asked);
            CHECK_INT(totals(st).reserved_tok, 0);
            CHECK_INT(totals(st).committed_tok, spent);
            weir_store_close(st);
        }
    }
}

/* A store that only counts, to see what reaches the inner one. */
struct counting_store {
    struct weir_store base;
    int submits, closes;
};

static bool counting_submit(struct weir_store *st, const struct weir_store_op *op)
{
    (void)op;
    ((struct counting_store *)st)->submits++;
    return true;
}

static size_t counting_collect(struct weir_store *st, uint64_t now_ns,
                               struct weir_store_answer *answers, size_t answers_max)
{
    (void)st, (void)now_ns, (void)answers, (void)answers_max;
    return 0;
}

static void counting_close(struct weir_store *st)
{
    ((struct counting_store *)st)->closes++;
}

static const struct weir_store_type counting_type = {.name = "counting",
                                                     .submit = counting_submit,
                                                     .collect = counting_collect,
                                                     .close = counting_close};

static void faulty__close__carries_out_what_was_accepted(void **state)
{
    (void)state;
    struct counting_store inner = {.base = {.type = &counting_type, .epoch = 1, .fd = -1}};
    struct weir_store *st = weir_faulty_store_open(
        &inner.base, &(struct weir_faulty_store_config){.queue_max = 8, .delay_collects = 9});
    CHECK(submit(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 1), 1));
    CHECK(submit(st, WEIR_LEDGER_SETTLE, weir_ledger_hold_id(1, 7), 1));
    CHECK_INT(inner.submits, 0);
    weir_store_close(st);
    CHECK_INT(inner.submits, 2);
    CHECK_INT(inner.closes, 1);
    weir_store_close(NULL);
}

static jmp_buf panicked;

static void panic_caught(const char *expression, const char *file, int line)
{
    (void)expression, (void)file, (void)line;
    longjmp(panicked, 1);
}

static bool void_panics(struct weir_store *st, uint64_t hold)
{
    if (setjmp(panicked) != 0)
        return true;
    weir_panic_hook = panic_caught;
    return !submit(st, WEIR_LEDGER_VOID, hold, 0);
}

static void faulty__end_before_the_reserve_is_answered__is_caught(void **state)
{
    (void)state;
    /* Waiting in the queue; answered but not collected; given on to a store that has not answered.
     */
    for (uint32_t place = 0; place < 3; place++) {
        struct weir_store *st =
            faulty_new((struct weir_faulty_store_config){.delay_collects = place == 1 ? 0 : 1});
        if (place == 2)
            st = weir_faulty_store_open(st, &(struct weir_faulty_store_config){.queue_max = 8});
        CHECK(submit(st, WEIR_LEDGER_SCOPE, 0, 100));
        CHECK(submit(st, WEIR_LEDGER_RESERVE, weir_ledger_hold_id(1, 1), 1));
        if (place == 1)
            expect(st, WEIR_LEDGER_SCOPE, 0, WEIR_LEDGER_DONE);
        if (place == 2)
            expect_nothing(st);
        CHECK(void_panics(st, weir_ledger_hold_id(1, 1)));
        weir_panic_hook = NULL;
        weir_store_close(st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory__answers__come_at_once_and_in_order),
        cmocka_unit_test(memory__refused_by_a_parent__names_it),
        cmocka_unit_test(memory__answers_pile_up__ends_of_holds_still_find_room),
        cmocka_unit_test(memory__finished_holds__are_remembered_as_many_as_told),
        cmocka_unit_test(memory__tenants_come_and_go__no_table_fills),
        cmocka_unit_test(memory__scope_comes_back_at_once__keeps_its_slot),
        cmocka_unit_test(memory__status__says_that_nothing_lasts),
        cmocka_unit_test(names__slots__are_given_by_name_and_given_back),
        cmocka_unit_test(names__many_come_and_go__each_is_found),
        cmocka_unit_test(names__labels__are_kept_and_the_table_may_fill),
        cmocka_unit_test(faulty__delay__answers_after_that_many_collects),
        cmocka_unit_test(faulty__batch__ends_holds_before_it_reserves),
        cmocka_unit_test(faulty__queue_full__turns_away_all_but_ends_of_holds),
        cmocka_unit_test(faulty__descriptor__is_readable_while_something_is_due),
        cmocka_unit_test(faulty__any_reserve_unavailable__nothing_stays_held),
        cmocka_unit_test(faulty__close__carries_out_what_was_accepted),
        cmocka_unit_test(faulty__end_before_the_reserve_is_answered__is_caught),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}

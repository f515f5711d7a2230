/* Scopes that come and go with their tenants: while the store takes nothing, and again when it does. */
#include "support/check.h"

#include "gateway/state.h"

/* A running gateway as far as its ledger goes, whose store takes two operations at a time. */
static void open_gateway(struct weir_gateway *g)
{
    const struct weir_memory_store_config memory = {
        .scopes_max = 4, .holds_max = 4, .finished_keep = 4};
    const struct weir_faulty_store_config faulty = {.queue_max = 2};
    struct weir_store *inner = weir_memory_store_open(&memory);
    CHECK(inner != NULL);
    *g = (struct weir_gateway){.store = weir_faulty_store_open(inner, &faulty), .started_ns = 1};
    CHECK(g->store != NULL);
}

static void collect(struct weir_gateway *g)
{
    struct weir_store_answer answers[8];
    for (size_t rounds = 0; rounds < 8; rounds++)
        for (size_t i = weir_store_collect(g->store, 1, answers, 8); i > 0; i--)
            CHECK_INT(answers[i - 1].result, WEIR_LEDGER_DONE);
}

static void ledger__tenants_that_come_while_nothing_is_taken__cost_no_slot(void **state)
{
    (void)state;
    struct weir_gateway g;
    open_gateway(&g);
    CHECK(weir_gateway_tenant_scope(&g, "a") != WEIR_NONE);
    CHECK(weir_gateway_tenant_scope(&g, "b") != WEIR_NONE);
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "c%d", i);
        CHECK_INT(weir_gateway_tenant_scope(&g, name), WEIR_NONE);
    }
    CHECK_INT(weir_gateway_tenant_scope(&g, "a"), WEIR_NONE); /* but it stays whose it is */
    collect(&g);
    CHECK(weir_gateway_tenant_scope(&g, "d") != WEIR_NONE);
    CHECK(weir_gateway_tenant_scope(&g, "e") != WEIR_NONE);
    collect(&g);
    CHECK_INT(weir_gateway_tenant_scope(&g, "f"), WEIR_NONE); /* four slots, four tenants */
    CHECK(weir_gateway_tenant_scope(&g, "a") != WEIR_NONE);
    weir_store_close(g.store);
}

static void ledger__a_tenant_that_went__leaves_its_slot_to_another(void **state)
{
    (void)state;
    struct weir_gateway g;
    open_gateway(&g);
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < WEIR_COUNT(names); i++) {
        CHECK(weir_gateway_tenant_scope(&g, names[i]) != WEIR_NONE);
        collect(&g);
    }
    weir_gateway_tenant_scope_forget(&g, "b");
    CHECK_INT(weir_gateway_tenant_scope(&g, "e"), WEIR_NONE); /* it is free when that is durable */
    collect(&g);
    CHECK(weir_gateway_tenant_scope(&g, "e") != WEIR_NONE);
    weir_store_close(g.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger__tenants_that_come_while_nothing_is_taken__cost_no_slot),
        cmocka_unit_test(ledger__a_tenant_that_went__leaves_its_slot_to_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

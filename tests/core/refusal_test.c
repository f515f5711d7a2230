/* Every refusal has a row that can be sent. */
#include "core/refusal.h"
#include "support/check.h"

static void refusal__every_reason__has_status_code_and_sentence(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < WEIR_REFUSAL_COUNT; i++) {
        const struct weir_refusal_row *row = weir_refusal_row((enum weir_refusal)i);
        CHECK_MSG(row->status >= 400 && row->status <= 599, "reason %u", i);
        CHECK_MSG(row->code && row->code[0], "reason %u", i);
        CHECK_MSG(strspn(row->code, "abcdefghijklmnopqrstuvwxyz_") == strlen(row->code),
                  "reason %u", i);
        const char *message = weir_refusal_message((enum weir_refusal)i);
        size_t length = message ? strlen(message) : 0;
        CHECK_MSG(length > 10 && message[length - 1] == '.', "reason %u", i);
        /* Stock clients repeat 409, 429 and 5xx unless told not to: those must say something of it.
         */
        bool is_repeated = row->status == 409 || row->status == 429 || row->status == 502 ||
                           row->status == 503 || row->status == 504;
        CHECK_MSG(!is_repeated || row->repeat != WEIR_REPEAT_SILENT, "reason %u", i);
    }
    CHECK_INT(weir_refusal_row(WEIR_REFUSAL_NONE)->status, 0);
}

static void refusal__those_no_wait_can_cure__say_never(void **state)
{
    (void)state;
    static const enum weir_refusal never[] = {
        WEIR_REFUSAL_TOO_LARGE, WEIR_REFUSAL_BUDGET_EXHAUSTED, WEIR_REFUSAL_TENANT_PAUSED,
        WEIR_REFUSAL_IDEMPOTENCY_MISMATCH, WEIR_REFUSAL_IDEMPOTENCY_LOST};
    for (size_t i = 0; i < WEIR_COUNT(never); i++)
        CHECK_INT(weir_refusal_row(never[i])->repeat, WEIR_REPEAT_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusal__every_reason__has_status_code_and_sentence),
        cmocka_unit_test(refusal__those_no_wait_can_cure__say_never),
    };
    return cmocka_run_group_tests_name("refusal", tests, NULL, NULL);
}

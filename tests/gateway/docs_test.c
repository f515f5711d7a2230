/* The tables of docs/metrics.md and docs/refusals.md are printed from the tables in the code. This
 * test holds them together; WEIR_DOCS_WRITE=1 writes the files anew. */
#include "core/refusal.h"
#include "gateway/metrics.h"
#include "support/check.h"

#include <stdlib.h>

static void compare(const char *name, const char *text, size_t bytes)
{
    char path[512];
    static char have[65536];
    snprintf(path, sizeof path, "%s/../../docs/%s", getenv("WEIR_TEST_DATA"), name);
    if (getenv("WEIR_DOCS_WRITE")) {
        FILE *out = fopen(path, "w");
        CHECK(out && fwrite(text, 1, bytes, out) == bytes && fclose(out) == 0);
    }
    FILE *in = fopen(path, "r");
    CHECK_MSG(in != NULL, "%s is missing", path);
    size_t n = fread(have, 1, sizeof have, in);
    fclose(in);
    CHECK_MSG(n == bytes && memcmp(have, text, bytes) == 0,
              "%s is not what the code says: run this test with WEIR_DOCS_WRITE=1", path);
}

static void docs__metrics__are_those_of_the_table(void **state)
{
    (void)state;
    static char text[65536];
    size_t bytes = 0;
    char *table = weir_metrics_describe(&bytes);
    CHECK(table != NULL);
    int n = snprintf(
        text, sizeof text,
        "# Metrics\n\n`GET /metrics` on the [admin listener](admin.md), with the admin token. "
        "Label "
        "values come from the "
        "configuration or from a\nfixed list; a client's text never becomes one. Of tenants and "
        "of scopes the first 1,000 have series (those of the\nconfiguration come first, in "
        "its order); `weir ledger show` has them all.\n\n%.*s",
        (int)bytes, table);
    free(table);
    compare("metrics.md", text, (size_t)n);
}

static void docs__refusals__are_those_of_the_table(void **state)
{
    (void)state;
    static char text[65536];
    static const char *const repeats[] = {[WEIR_REPEAT_HINT] = "after the hint",
                                          [WEIR_REPEAT_NEVER] = "no",
                                          [WEIR_REPEAT_SILENT] = "not said"};
    int n = snprintf(text, sizeof text,
                     "# Refusals\n\nEvery \"no\" of the gateway's own, in the shape of the API "
                     "that was called, with `weir-source: "
                     "gateway`, its code\nin `weir-reason`, and a request id. Repeat \"after the "
                     "hint\": up to 60 s it is sent "
                     "as `retry-after` (whole seconds, "
                     "rounded up) and\n`retry-after-ms`; a longer one as the true `retry-after` "
                     "with `x-should-retry: false`. "
                     "\"no\": `x-should-retry: false`,\nwith the true `retry-after` where a "
                     "time is known: the next window of a spent budget. Refusals by a budget "
                     "name its scope.\n\n| status | code | repeat | sentence |\n| "
                     "--- | --- | --- | --- |\n");
    for (int i = 1; i < WEIR_REFUSAL_COUNT; i++) {
        const struct weir_refusal_row *row = weir_refusal_row((enum weir_refusal)i);
        n += snprintf(text + n, sizeof text - (size_t)n, "| %u | `%s` | %s | %s |\n", row->status,
                      row->code, repeats[row->repeat], weir_refusal_message((enum weir_refusal)i));
    }
    compare("refusals.md", text, (size_t)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(docs__metrics__are_those_of_the_table),
        cmocka_unit_test(docs__refusals__are_those_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

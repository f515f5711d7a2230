/* `weir mock`, its command line. */
#include "cli/run.h"

#include "core/base.h"
#include "support/check.h"

static void flags__what_is_wrong__is_said(void **state)
{
    (void)state;
    static const struct run_row rows[] = {
        {"$W mock --help", 0, "  weir mock --order strict"},
        {"$W mock --help | grep -n '^  weir' | head -1", 0, "5:"}, /* examples first */
        {"$W mock --order lifo 2>&1", 2, "--order must be fifo, turns or strict, not 'lifo'"},
        {"$W mock --order '' 2>&1", 2, "--order must be fifo, turns or strict, not ''"},
        {"$W mock --order 2>&1", 2, "--order"},
        {"$W mock --plain --order turns 2>&1", 2, "with --plain nobody waits"},
        {"$W mock --key-in-flight -1 2>&1", 2, "--key-in-flight must be a whole number up to"},
        {"$W mock --key-in-flight 1000001 2>&1", 2, "up to 1000000, not '1000001'"},
        {"$W mock --fault status=20 2>&1", 2, "--fault: 'status=20' is not a fault"},
        {"$W mock --sequences 0 2>&1", 2, "must be above 0"},
        {"$W mock --listen 127.0.0.1 2>&1", 2, "weir mock: "},
    };
    run_rows(rows, WEIR_COUNT(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags__what_is_wrong__is_said),
    };
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}

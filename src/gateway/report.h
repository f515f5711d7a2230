/* report: what became of all requests of a run, as JSON: for `weir serve --report`.
 *
 * Counts only: no content, no credential, no text of a client's; tenants are shown by the names
 * that the configuration, the keys or the install secret give them. docs/egress.md describes each
 * member. Thread: loop. */
#ifndef WEIR_GATEWAY_REPORT_H
#define WEIR_GATEWAY_REPORT_H

#include <jansson.h>

#include "core/base.h"

struct weir_gateway;
struct weir_report;

enum weir_report_state {
    WEIR_REPORT_SERVING,
    WEIR_REPORT_DRAINING, /* told to stop, not done: what is read if it is killed before it is */
    WEIR_REPORT_DRAINED,
    WEIR_REPORT_STOPPED, /* by a second signal: requests under way were cut */
    WEIR_REPORT_FAILED
};

/* Notes what budgets had used before. After the ledger was opened. NULL: out of memory. */
struct weir_report *weir_report_begin(struct weir_gateway *g);
void weir_report_free(struct weir_report *report);

/* The counts as they are now. NULL: out of memory. */
json_t *weir_report_make(const struct weir_report *report, enum weir_report_state state);

#endif

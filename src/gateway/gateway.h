/* gateway: the life of a request, from accept to settle. `weir serve` runs this.
 *
 * Thread: calls below from the main thread only. */
#ifndef WEIR_GATEWAY_GATEWAY_H
#define WEIR_GATEWAY_GATEWAY_H

#include <jansson.h>

#include "gateway/config.h"
#include "gateway/pages.h"

/* Serves until SIGINT or SIGTERM, drains, and returns the process's exit status:
 * 0 drained, 2 refused to start (address in use, exposure), 3 a run-time fault, 130 a second
 * signal. */
int weir_gateway_run(const struct weir_config *config);

/* Set by the host before weir_gateway_run, which calls it once both listeners are open: the ports
 * are those really taken (port 0 in the configuration takes any). false: it cannot be used, and the
 * host has said why: refuses to start. NULL: nobody wants to know. */
typedef bool weir_gateway_ready_fn(const struct weir_config *config, uint16_t listen_port,
                                   uint16_t admin_port);
extern weir_gateway_ready_fn *weir_gateway_ready;

/* Set by the host before weir_gateway_run: when this descriptor is readable (a pidfd: when that
 * process has ended) the gateway drains, as after a first signal. The gateway closes it then. -1:
 * none. */
extern int weir_gateway_until_fd;

/* Set by the host before weir_gateway_run: is given the counts of the run (report.h; borrowed) when
 * it is about to serve, at the first signal, and at the end (is_last). false: they could not be
 * kept, and the host has said why: at the start that refuses to start, at the end it is a fault.
 * NULL: nobody wants them. */
typedef bool weir_gateway_report_fn(const json_t *report, bool is_last);
extern weir_gateway_report_fn *weir_gateway_report;

/* Set by the host before weir_gateway_run: the files of the lab page. None of its own. */
extern struct weir_pages weir_gateway_pages;

#endif

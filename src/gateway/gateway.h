/* gateway: the life of a request, from accept to settle. `weir serve` runs this.
 *
 * Thread: calls below from the main thread only. */
#ifndef WEIR_GATEWAY_GATEWAY_H
#define WEIR_GATEWAY_GATEWAY_H

#include "gateway/config.h"

/* Serves until SIGINT or SIGTERM, drains, and returns the process's exit status:
 * 0 drained, 2 refused to start (address in use, exposure), 3 a run-time fault, 130 a second
 * signal. */
int weir_gateway_run(const struct weir_config *config);

/* Set by the host before weir_gateway_run, which calls it once both listeners are open: the ports are
 * those really taken (port 0 in the configuration takes any). NULL: nobody wants to know. */
typedef void weir_gateway_ready_fn(const struct weir_config *config, uint16_t listen_port,
                                   uint16_t admin_port);
extern weir_gateway_ready_fn *weir_gateway_ready;

#endif

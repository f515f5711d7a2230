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

#endif

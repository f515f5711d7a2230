/* lockstep: an instrument and the mock in one process, on a simulated clock.
 *
 * Requests go through real sockets, but time stands still while anything happens or is on its way, and
 * goes on by a tick of the timers once nothing does. So times are exact however busy the machine is,
 * nothing waits, and a minute passes in less than a second.
 *
 * Link it with lockstep_link_args (tests/meson.build): they put it in the place of what the loop, the
 * streams and the replay's alarm ask of the machine. Between open and close the first loop that is
 * created is the instrument's; whenever that one turns, the mock turns with it. */
#ifndef WEIR_TESTS_LOCKSTEP_H
#define WEIR_TESTS_LOCKSTEP_H

#include "mock/mock.h"
#include "net/timer.h"

/* Times of the mock that are whole ticks are exact; others are rounded up to one. */
#define LOCKSTEP_TICK_NS (UINT64_C(1) << WEIR_TICK_SHIFT)

/* A mock on a free loopback port; its port. The test fails if it does not listen. One at a time. */
uint16_t lockstep_open(const struct weir_mock_config *config);
/* After the instrument was destroyed. */
void lockstep_close(void);

#endif

/* mock_child: the synthetic model server in a process of its own, for tests. */
#ifndef WEIR_TESTS_MOCK_CHILD_H
#define WEIR_TESTS_MOCK_CHILD_H

#include <sys/types.h>

#include "mock/mock.h"

struct mock_child {
    pid_t pid;
    uint16_t port;
};

/* Serves config on a free loopback port (config->listen and ready are not looked at) and returns when it
 * listens; the test fails if it does not. It ends with the test's process at the latest. */
struct mock_child mock_child_start(const struct weir_mock_config *config);
/* The same, with its URL in the environment as $U, for the commands that a test runs. */
struct mock_child mock_child_serve(const struct weir_mock_config *config);
/* The test fails if it did not end as asked. */
void mock_child_stop(struct mock_child *child);

#endif

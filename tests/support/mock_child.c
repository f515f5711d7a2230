#include "support/mock_child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

static int child_port_fd;

static void child_ready(uint16_t port)
{
    if (write(child_port_fd, &port, sizeof port) != sizeof port)
        _exit(3);
    close(child_port_fd);
}

struct mock_child mock_child_start(const struct weir_mock_config *config)
{
    struct mock_child child = {0};
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    fflush(NULL);
    child.pid = fork();
    CHECK(child.pid >= 0);
    if (child.pid == 0) {
        struct weir_mock_config own = *config;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        child_port_fd = ends[1];
        own.listen = "127.0.0.1:0";
        own.ready = child_ready;
        _exit(weir_mock_serve(&own));
    }
    close(ends[1]);
    CHECK(read(ends[0], &child.port, sizeof child.port) == sizeof child.port);
    close(ends[0]);
    return child;
}

struct mock_child mock_child_serve(const struct weir_mock_config *config)
{
    char url[64];
    struct mock_child child = mock_child_start(config);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", child.port);
    CHECK(setenv("U", url, 1) == 0);
    return child;
}

void mock_child_stop(struct mock_child *child)
{
    int status = 0;
    CHECK(kill(child->pid, SIGTERM) == 0);
    CHECK(waitpid(child->pid, &status, 0) == child->pid);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    child->pid = 0;
}

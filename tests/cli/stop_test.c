/* Ctrl-C, of each command that measures or calculates for long: the first ends it, shows what there is
 * and exits with 1; the second exits with 130 at once. */
#include "core/base.h"
#include "support/check.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUT_BYTES = 1 << 16 };

struct child {
    pid_t pid;
    int out; /* its standard output and error */
};

/* An endpoint that takes connections (by the kernel's queue) and never says a word. */
static uint16_t mute_listen(int *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(*listener >= 0 && bind(*listener, (struct sockaddr *)&address, bytes) == 0);
    CHECK(listen(*listener, 64) == 0);
    CHECK(getsockname(*listener, (struct sockaddr *)&address, &bytes) == 0);
    return ntohs(address.sin_port);
}

static struct child start(char *const *argv)
{
    int ends[2];
    struct child child;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    child.pid = fork();
    CHECK(child.pid >= 0);
    if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    child.out = ends[0];
    return child;
}

/* Whether signal SIGINT is caught or held back by now: a line of /proc/PID/status is a mask. */
static bool is_ready_for_stop(pid_t pid)
{
    char path[64], line[256];
    uint64_t mask = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "SigCgt:", 7) == 0 || strncmp(line, "SigBlk:", 7) == 0)
            mask |= strtoull(line + 7, NULL, 16);
    fclose(file);
    return mask & 1u << (SIGINT - 1);
}

/* Its status, and all that it said. */
static int finish(struct child *child, char out[OUT_BYTES])
{
    size_t used = 0;
    ssize_t got;
    int status;
    while ((got = read(child->out, out + used, OUT_BYTES - 1 - used)) > 0)
        used += (size_t)got;
    out[used] = '\0';
    close(child->out);
    CHECK(waitpid(child->pid, &status, 0) == child->pid);
    CHECK_MSG(WIFEXITED(status), "died of signal %d: %.300s", WTERMSIG(status), out);
    return WEXITSTATUS(status);
}

static const struct command {
    const char *words[16]; /* @U: the mute endpoint's URL; @T: the folder of test data */
    const char *said;      /* after the first Ctrl-C */
} commands[] = {
    {{"lab", "--json"}, "\"stopped\": true"},
    {{"lab", "overload"}, "Stopped before its end"},
    {{"lab", "--seeds", "10000"}, "stopped after "},
    {{"lab", "--policy", "all", "--seeds", "10000"}, "stopped after "},
    {{"lab", "--diff", "scheduler=fifo", "scheduler=vtc", "--seeds", "10000"}, "stopped after "},
    {{"fair", "--seeds", "1000000"}, "stopped after "},
    {{"sweep", "@U", "--model", "m"}, "stopped by hand in the warm-up"},
    {{"sweep", "@U", "--model", "m", "--json", "--warm-up", "0"}, "\"complete\": false"},
    {{"sweep", "@U", "--model", "m", "--clients", "a=2,b=1"}, "stopped by hand in the warm-up"},
    {{"replay", "@T/traces/arena27.csv", "@U", "--model", "m"}, "the result is a partial one"},
    {{"replay", "@T/traces/arena27.csv", "@U", "--model", "m", "--json"}, "\"end\": \"stopped\""},
};

static void stop(const struct command *command, bool is_twice, const char *url)
{
    char texts[16][256], out[OUT_BYTES], *argv[18] = {getenv("WEIR_BIN")};
    for (size_t i = 0; i < 16 && command->words[i]; i++) {
        const char *word = command->words[i];
        bool is_url = strncmp(word, "@U", 2) == 0, is_data = strncmp(word, "@T", 2) == 0;
        snprintf(texts[i], sizeof texts[i], "%s%s",
                 is_url    ? url
                 : is_data ? getenv("WEIR_TEST_DATA")
                           : "",
                 is_url || is_data ? word + 2 : word);
        argv[i + 1] = texts[i];
    }
    struct child child = start(argv);
    while (!is_ready_for_stop(child.pid))
        CHECK(kill(child.pid, 0) == 0);
    /* While it is held neither is delivered; then both are, before it does anything else. */
    CHECK(kill(child.pid, SIGSTOP) == 0);
    CHECK(kill(child.pid, SIGINT) == 0);
    CHECK(!is_twice || kill(child.pid, SIGTERM) == 0);
    CHECK(kill(child.pid, SIGCONT) == 0);
    int status = finish(&child, out);
    CHECK_MSG(status == (is_twice ? 130 : 1), "%s %s: status %d: %.400s", argv[1], argv[2], status,
              out);
    CHECK_MSG(is_twice || strstr(out, command->said), "%s %s: no '%s' in %.400s", argv[1], argv[2],
              command->said, out);
}

static void ctrl_c__once__shows_what_there_is_and_exits_with_1(void **state)
{
    char url[64];
    int listener;
    (void)state;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", mute_listen(&listener));
    for (size_t i = 0; i < WEIR_COUNT(commands); i++)
        stop(&commands[i], false, url);
    close(listener);
}

static void ctrl_c__twice__exits_with_130(void **state)
{
    char url[64];
    int listener;
    (void)state;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", mute_listen(&listener));
    for (size_t i = 0; i < WEIR_COUNT(commands); i++)
        stop(&commands[i], true, url);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ctrl_c__once__shows_what_there_is_and_exits_with_1),
        cmocka_unit_test(ctrl_c__twice__exits_with_130),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

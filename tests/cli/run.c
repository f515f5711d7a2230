#include "cli/run.h"

#include "support/check.h"

#include <stdlib.h>
#include <sys/wait.h>

char run_out[1 << 20];

int run_setup(void **state)
{
    static char dir[64];
    (void)state;
    strcpy(dir, "/tmp/weir-cli-XXXXXX");
    if (!mkdtemp(dir) || !getenv("WEIR_BIN") || !getenv("WEIR_TEST_DATA"))
        return -1;
    return setenv("D", dir, 1) || setenv("W", getenv("WEIR_BIN"), 1) ||
           setenv("T", getenv("WEIR_TEST_DATA"), 1) || setenv("WEIR_STATE", dir, 1);
}

int run_teardown(void **state)
{
    (void)state;
    return system("rm -rf \"$D\"");
}

int run(const char *line)
{
    FILE *pipe = popen(line, "r");
    CHECK(pipe);
    size_t used = fread(run_out, 1, sizeof run_out - 1, pipe);
    run_out[used] = '\0';
    int status = pclose(pipe);
    CHECK_MSG(WIFEXITED(status), "%.300s", line);
    return WEXITSTATUS(status);
}

void run_rows(const struct run_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = run(rows[i].line);
        CHECK_MSG(status == rows[i].status, "%.300s: status %d, not %d: %.250s", rows[i].line,
                  status, rows[i].status, run_out);
        CHECK_MSG(strstr(run_out, rows[i].said), "%.300s: no '%s' in: %.250s", rows[i].line,
                  rows[i].said, run_out);
    }
}

json_t *run_json(const char *line, int want)
{
    json_error_t error;
    int status = run(line);
    CHECK_MSG(status == want, "%.300s: status %d, not %d: %.250s", line, status, want, run_out);
    json_t *all = json_loads(run_out, 0, &error);
    CHECK_MSG(all, "%.300s: %s: %.250s", line, error.text, run_out);
    return all;
}

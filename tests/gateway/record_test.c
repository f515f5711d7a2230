/* The recording's file: made, continued, refused, full, and never a line that its reader trips over. */
#include "gateway/state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/check.h"
#include "trace/trace_file.h"

struct rig {
    char folder[32], path[64], error[512];
    struct weir_config config;
    struct weir_gateway g;
};

static void rig_begin(struct rig *rig)
{
    *rig = (struct rig){.folder = "/tmp/weir-record-XXXXXX"};
    CHECK(mkdtemp(rig->folder));
    snprintf(rig->path, sizeof rig->path, "%s/r.csv", rig->folder);
}

static bool rig_open(struct rig *rig)
{
    rig->config.record_file = rig->path;
    if (rig->config.record_limit_bytes == 0)
        rig->config.record_limit_bytes = UINT64_MAX;
    rig->g = (struct weir_gateway){.config = &rig->config, .loop = weir_loop_create()};
    rig->g.log = weir_log_open(NULL, rig->error, sizeof rig->error);
    CHECK(rig->g.loop && rig->g.log);
    snprintf(rig->error, sizeof rig->error, "out of memory");
    return weir_record_open(&rig->g, rig->error, sizeof rig->error);
}

static void rig_close(struct rig *rig)
{
    weir_log_close(rig->g.log);
    weir_record_free(&rig->g);
    weir_loop_destroy(rig->g.loop);
}

static void rig_end(struct rig *rig)
{
    unlink(rig->path);
    CHECK(rmdir(rig->folder) == 0);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void record(struct rig *rig, uint32_t count)
{
    char line[WEIR_TRACE_LINE_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        struct weir_trace_entry e = {.arrival_ns = i, .prompt_tok = i, .status = 200};
        size_t bytes = weir_trace_line(&e, "tenant", "standard", "model", line, sizeof line);
        weir_log_record(rig->g.log, line, bytes);
    }
}

static void load(const struct rig *rig, struct weir_trace *trace)
{
    char error[512] = "";
    bool is_loaded = weir_trace_load(rig->path, NULL, trace, error, sizeof error);
    CHECK_MSG(is_loaded, "%s", error);
}

static void record__a_new_file__is_the_owners_alone_and_continued_by_the_next_run(void **state)
{
    (void)state;
    struct rig rig;
    struct stat about;
    struct weir_trace t;
    uint64_t written, dropped;
    rig_begin(&rig);
    for (uint32_t run = 1; run <= 3; run++) {
        CHECK_MSG(rig_open(&rig), "%s", rig.error);
        record(&rig, 100);
        rig_close(&rig);
        CHECK(stat(rig.path, &about) == 0);
        CHECK_INT(about.st_mode & 07777, 0600);
        load(&rig, &t);
        CHECK_INT(t.form, WEIR_TRACE_RECORDING);
        CHECK_INT(t.count, 100 * run);
        CHECK_INT(t.facts.rows_cut, run - 1);
        weir_trace_free(&t);
        FILE *f = fopen(rig.path, "a"); /* the run dies in the middle of a line */
        CHECK(f && fputs("17.5,\"ten", f) >= 0 && fclose(f) == 0);
    }
    CHECK(rig_open(&rig));
    record(&rig, 5);
    for (written = 0; written < 5;)
        weir_log_record_counts(rig.g.log, &written, &dropped);
    CHECK_INT(dropped, 0);
    rig_close(&rig);
    rig_end(&rig);
}

static void record__files_that_are_not_its_own__are_refused_and_left_alone(void **state)
{
    (void)state;
    struct rig rig, second;
    char have[64] = "";
    rig_begin(&rig);
    put(rig.path, "listen: 127.0.0.1:1\n");
    CHECK(!rig_open(&rig));
    CHECK_MSG(strstr(rig.error, "it is there, and is not a recording of weir; name another file"),
              "%s", rig.error);
    rig_close(&rig);
    FILE *f = fopen(rig.path, "r");
    CHECK(f && fgets(have, sizeof have, f) && fclose(f) == 0);
    CHECK_STR(have, "listen: 127.0.0.1:1\n");
    unlink(rig.path);

    CHECK(mkfifo(rig.path, 0600) == 0); /* opening it must not wait for a reader */
    CHECK(!rig_open(&rig));
    CHECK_MSG(strstr(rig.error, "it is not a plain file"), "%s", rig.error);
    rig_close(&rig);
    unlink(rig.path);

    CHECK(rig_open(&rig)); /* two at once would mix their rows */
    second = rig;
    CHECK(!rig_open(&second));
    CHECK_MSG(strstr(second.error, "another weir records to it"), "%s", second.error);
    rig_close(&second);
    rig_close(&rig);
    unlink(rig.path);

    snprintf(rig.path, sizeof rig.path, "%s/none/r.csv", rig.folder);
    CHECK(!rig_open(&rig));
    CHECK_MSG(strstr(rig.error, "No such file or directory; name another file in record.file"),
              "%s", rig.error);
    rig_close(&rig);
    rig_end(&rig);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* Waits until the helper has dealt with so many lines. */
static void dealt_with(struct rig *rig, uint64_t lines, uint64_t *written, uint64_t *dropped)
{
    do
        weir_log_record_counts(rig->g.log, written, dropped);
    while (*written + *dropped < lines);
}

static void record__a_full_disk__loses_lines_says_so_and_goes_on_when_there_is_room(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_trace t;
    uint64_t written, dropped;
    rig_begin(&rig);
    CHECK(rig_open(&rig));
    signal(SIGXFSZ, SIG_IGN); /* as the gateway's host may: then it is an error of write() */
    record(&rig, 50);
    dealt_with(&rig, 50, &written, &dropped);
    CHECK_INT(written, 50);
    struct stat about;
    CHECK(stat(rig.path, &about) == 0);
    limit_files((rlim_t)about.st_size + 1000); /* in the middle of a line */
    record(&rig, 100);
    dealt_with(&rig, 150, &written, &dropped);
    CHECK(dropped > 80 && written > 50);
    record(&rig, 1); /* still none */
    dealt_with(&rig, 151, &written, &dropped);
    limit_files(RLIM_INFINITY);
    uint64_t lost = dropped;
    record(&rig, 10);
    dealt_with(&rig, 161, &written, &dropped);
    CHECK_INT(dropped, lost);
    CHECK_INT(written + dropped, 161);
    rig_close(&rig);
    load(&rig, &t);
    CHECK_INT(t.count, written);
    CHECK_INT(t.facts.rows_dropped, lost);
    CHECK_INT(t.facts.rows_cut, 1);
    weir_trace_free(&t);
    rig_end(&rig);
}

static void record__at_its_limit__stops_and_says_at_its_end_what_it_lacks(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_trace t;
    struct stat about;
    uint64_t written, dropped, lost = 0;
    rig_begin(&rig);
    rig.config.record_limit_bytes = 5000;
    for (uint32_t run = 0; run < 2; run++) { /* the second finds it full */
        CHECK_MSG(rig_open(&rig), "%s", rig.error);
        record(&rig, 20);
        dealt_with(&rig, 20, &written, &dropped);
        record(&rig, 200);
        dealt_with(&rig, 220, &written, &dropped);
        record(&rig, 1);
        dealt_with(&rig, 221, &written, &dropped);
        CHECK(run == 0 ? dropped > 100 && written >= 20 : written == 0 || dropped > 100);
        lost += dropped;
        rig_close(&rig);
        CHECK(stat(rig.path, &about) == 0 && about.st_size < 5000 + 400 * (run + 1));
    }
    load(&rig, &t);
    CHECK_INT(t.facts.rows_dropped, lost);
    CHECK_INT(t.count + lost, 2 * 221);
    CHECK_INT(t.facts.rows_cut, 0);
    weir_trace_free(&t);
    rig_end(&rig);
}

/* What goes wrong when it is closed is said, too. */
static void record__the_last_line_cannot_be_written__is_said(void **state)
{
    (void)state;
    struct rig rig;
    struct stat about;
    uint64_t written, dropped;
    char said[2048] = "";
    int ends[2], kept = dup(STDERR_FILENO);
    rig_begin(&rig);
    rig.config.record_limit_bytes = 5000;
    CHECK(kept >= 0 && pipe2(ends, O_CLOEXEC) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    bool is_open = rig_open(&rig);
    record(&rig, 200);
    dealt_with(&rig, 200, &written, &dropped);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(is_open && dropped > 0 && stat(rig.path, &about) == 0);
    limit_files((rlim_t)about.st_size);
    rig_close(&rig);
    limit_files(RLIM_INFINITY);
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    close(ends[1]);
    CHECK(read(ends[0], said, sizeof said - 1) > 0);
    close(ends[0]);
    CHECK_MSG(strstr(said, "cannot write the recording"), "%s", said);
    rig_end(&rig);
}

/* A disk that does not answer: the buffer is bounded, and what does not fit is counted. */
static void record__a_stuck_disk__drops_and_counts(void **state)
{
    (void)state;
    enum { LINES = 65536 };
    char error[512], line[WEIR_TRACE_LINE_BYTES];
    static char have[LINES * 128];
    uint64_t written, dropped, said = 0, rows = 0;
    struct weir_log *log = weir_log_open(NULL, error, sizeof error);
    struct weir_trace_entry e = {.status = 200};
    size_t bytes = weir_trace_line(&e, "tenant", "standard", "model", line, sizeof line), seen = 0;
    int ends[2];
    CHECK(bytes > 32 && bytes < 128);
    CHECK(log && pipe2(ends, O_CLOEXEC) == 0); /* nobody reads it yet */
    const struct weir_log_record pipe_end = {.fd = ends[1],
                                             .name = "pipe",
                                             .begin = "",
                                             .room_bytes = UINT64_MAX,
                                             .dropped = weir_trace_dropped_line};
    CHECK(weir_log_record_start(log, &pipe_end));
    for (uint32_t i = 0; i < LINES; i++)
        weir_log_record(log, line, bytes);
    weir_log_record_counts(log, &written, &dropped);
    CHECK(dropped > LINES / 4 && dropped <= LINES - (1024 * 1024 / bytes - 1));
    /* Its reader comes back; it must not wait for bytes, for the last are counted after they came. */
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    do {
        ssize_t n = read(ends[0], have + seen, sizeof have - 1 - seen);
        CHECK(n > 0 || (n < 0 && errno == EAGAIN));
        seen += n > 0 ? (size_t)n : 0;
        weir_log_record_counts(log, &written, &dropped);
    } while (written + dropped < LINES);
    weir_log_close(log);
    for (ssize_t n; (n = read(ends[0], have + seen, sizeof have - 1 - seen)) > 0;)
        seen += (size_t)n;
    for (char *at = have; *at; at = strchr(at, '\n') + 1)
        if (*at == '#')
            said += strtoull(at + strlen("#weir dropped "), NULL, 10);
        else
            rows++;
    CHECK_INT(rows, written);
    CHECK_INT(said, dropped);
    CHECK_INT(rows + said, LINES);
    close(ends[0]);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record__a_new_file__is_the_owners_alone_and_continued_by_the_next_run),
        cmocka_unit_test(record__files_that_are_not_its_own__are_refused_and_left_alone),
        cmocka_unit_test(record__a_full_disk__loses_lines_says_so_and_goes_on_when_there_is_room),
        cmocka_unit_test(record__at_its_limit__stops_and_says_at_its_end_what_it_lacks),
        cmocka_unit_test(record__the_last_line_cannot_be_written__is_said),
        cmocka_unit_test(record__a_stuck_disk__drops_and_counts),
    };
    return cmocka_run_group_tests_name("gateway/record", tests, NULL, NULL);
}

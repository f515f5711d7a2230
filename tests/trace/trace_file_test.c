/* Whole trace files: the statistics of the published ones, gzip, and what cannot be read. */
#include "trace/trace_file.h"

#include <stdlib.h>
#include <unistd.h>

#include "support/check.h"

static const char *data_path(char *path, size_t bytes, const char *name)
{
    const char *data = getenv("WEIR_TEST_DATA");
    snprintf(path, bytes, "%s/traces/%s", data ? data : "tests/data", name);
    return path;
}

static void load(struct weir_trace *trace, const char *name, const char *scheduler)
{
    char path[4096], error[512] = "";
    bool is_loaded =
        weir_trace_load(data_path(path, sizeof path, name), scheduler, trace, error, sizeof error);
    CHECK_MSG(is_loaded, "%s", error);
}

struct sums {
    uint64_t prompt_tok, cached_tok, output_tok;
    uint32_t prompt_max_tok, output_max_tok, busiest;
};

static struct sums sum(const struct weir_trace *t)
{
    struct sums s = {0};
    size_t since = 0; /* the first entry of the second that ends with this one */
    for (size_t i = 0; i < t->count; i++) {
        const struct weir_trace_entry *e = &t->entries[i];
        s.prompt_tok += e->prompt_tok;
        s.cached_tok += e->cached_tok;
        s.output_tok += e->output_tok;
        s.prompt_max_tok = e->prompt_tok > s.prompt_max_tok ? e->prompt_tok : s.prompt_max_tok;
        s.output_max_tok = e->output_tok > s.output_max_tok ? e->output_tok : s.output_max_tok;
        while (e->arrival_ns / WEIR_NS_PER_S != t->entries[since].arrival_ns / WEIR_NS_PER_S)
            since++;
        s.busiest = i - since + 1 > s.busiest ? (uint32_t)(i - since + 1) : s.busiest;
    }
    return s;
}

static void files__published_ones__have_their_published_statistics(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum weir_trace_form form;
        size_t rows;
        uint64_t span_ms;
        uint64_t prompt_tok, output_tok;
        uint32_t prompt_max_tok, output_max_tok, tenants;
    } rows[] = {
        {"azure_code.csv.gz", WEIR_TRACE_AZURE, 8819, 3435948, 18059974, 245896, 7437, 1899, 0},
        {"arena27.csv", WEIR_TRACE_ARENA, 1500, 600000, 204398, 384297, 1021, 977, 27},
        {"mooncake_synthetic.csv.gz", WEIR_TRACE_MOONCAKE, 3993, 1022025, 61194628, 595432, 191378,
         893, 0},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_trace t;
        char remark[256];
        load(&t, rows[i].name, NULL);
        struct sums s = sum(&t);
        CHECK_STR(weir_trace_form_name(t.form), weir_trace_form_name(rows[i].form));
        CHECK_INT(t.count, rows[i].rows);
        CHECK_INT((t.span_ns + 500000) / WEIR_NS_PER_MS, rows[i].span_ms);
        CHECK_INT(s.prompt_tok, rows[i].prompt_tok);
        CHECK_INT(s.output_tok, rows[i].output_tok);
        CHECK_INT(s.prompt_max_tok, rows[i].prompt_max_tok);
        CHECK_INT(s.output_max_tok, rows[i].output_max_tok);
        CHECK_INT(t.names_count[WEIR_TRACE_TENANT] - 1, rows[i].tenants);
        CHECK_STR(t.names[WEIR_TRACE_TENANT][0], "");
        weir_trace_remark(&t, remark, sizeof remark);
        CHECK_STR(remark, "");
        weir_trace_free(&t);
    }
    struct weir_trace t;
    load(&t, "azure_code.csv.gz", NULL);
    CHECK_INT(t.entries[t.count - 1].prompt_tok, 549); /* its last line has no line end */
    CHECK_INT(t.entries[t.count - 1].output_tok, 173);
    weir_trace_free(&t);
    load(&t, "mooncake_synthetic.csv.gz", NULL);
    struct sums s = sum(&t);
    CHECK_INT(s.cached_tok * 1000 / s.prompt_tok, 651); /* ideal reuse: 65.1 % */
    weir_trace_free(&t);
}

static void files__measured_runs__are_chosen_by_scheduler(void **state)
{
    (void)state;
    static const struct {
        const char *scheduler;
        size_t served;
    } rows[] = {{"fcfs", 1500}, {"vtc", 1500}, {"rpm5", 581}, {"rpm30", 1324}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_trace t;
        size_t served = 0;
        load(&t, "arena27_measured.csv.gz", rows[i].scheduler);
        CHECK_INT(t.count, 1500);
        CHECK_INT(t.names_count[WEIR_TRACE_SCHEDULER], 11);
        for (size_t k = 0; k < t.count; k++)
            served += t.entries[k].outcome == WEIR_TRACE_FINISHED;
        CHECK_INT(served, rows[i].served);
        weir_trace_free(&t);
    }
    struct weir_trace t;
    char path[4096], error[512];
    data_path(path, sizeof path, "arena27_measured.csv.gz");
    CHECK(!weir_trace_load(path, NULL, &t, error, sizeof error));
    CHECK_MSG(strstr(error, "choose the scheduler: fcfs, lcf, vtc, vtc_predict"), "%s", error);
    CHECK(!t.entries && !t.memory);
}

static void files__a_recording__is_in_order_and_says_what_it_lacks(void **state)
{
    (void)state;
    static const char *const tenants[] = {"bob", "ada", "ada", "a \"quoted\", name", "bob"};
    static const enum weir_trace_outcome outcomes[] = {WEIR_TRACE_REFUSED, WEIR_TRACE_FINISHED,
                                                       WEIR_TRACE_GONE, WEIR_TRACE_CUT,
                                                       WEIR_TRACE_FAILED};
    struct weir_trace t;
    char remark[512];
    load(&t, "recording.csv", NULL);
    CHECK_INT(t.form, WEIR_TRACE_RECORDING);
    CHECK_INT(t.count, 5);
    for (size_t i = 0; i < t.count; i++) {
        CHECK_STR(t.names[WEIR_TRACE_TENANT][t.entries[i].tenant], tenants[i]);
        CHECK_INT(t.entries[i].outcome, outcomes[i]);
    }
    CHECK_INT(t.entries[1].arrival_ns, 531000000);
    CHECK_INT(t.entries[3].arrival_ns, UINT64_C(3500000001));
    /* The second run began 119.876544 s after the first, whose first row came at 11.5 s. */
    CHECK_INT(t.span_ns, UINT64_C(119876544000) + 500000000 - UINT64_C(11500000000));
    weir_trace_remark(&t, remark, sizeof remark);
    CHECK_STR(remark,
              "1 rows cut short by a crash were left out; 12 requests are missing: the gateway "
              "could not write them in time");
    weir_trace_fill_sizes(&t);
    CHECK_INT(t.filled, 2);
    CHECK_INT(t.entries[0].prompt_tok, 310);
    weir_trace_remark(&t, remark, sizeof remark);
    CHECK(strstr(remark, "; 2 requests were refused or left before they used a token"));
    weir_trace_free(&t);
}

/* Writes a file of its own folder; the path is kept in `path`. */
static void put(char path[4096], const char *folder, const char *name, const void *bytes, size_t n)
{
    snprintf(path, 4096, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void files__that_cannot_be_read__say_which_and_why(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-trace-XXXXXX", path[4096], gz[4096], error[512];
    static char bytes[1 << 20];
    struct weir_trace t;
    CHECK(mkdtemp(folder));
    CHECK(!weir_trace_load("/nowhere/at/all.csv", NULL, &t, error, sizeof error));
    CHECK_STR(error, "cannot read the trace /nowhere/at/all.csv: No such file or directory");
    CHECK(!weir_trace_load(folder, NULL, &t, error, sizeof error));
    CHECK_MSG(strstr(error, "it is a folder"), "%s", error);
    put(path, folder, "empty.csv", "", 0);
    CHECK(!weir_trace_load(path, NULL, &t, error, sizeof error));
    CHECK_MSG(strstr(error, "empty.csv: the file is empty"), "%s", error);
    unlink(path);
    static const char text[] = "arrival_s,tenant,prompt_tokens,output_tokens\n3,a,1,2\n2,b,x,4\n";
    put(path, folder, "bad.csv", text, strlen(text));
    CHECK(!weir_trace_load(path, NULL, &t, error, sizeof error));
    CHECK_MSG(strstr(error, "/bad.csv:3: prompt_tokens is \"x\""), "%s", error);
    unlink(path);
    static const char late[] = "arrival_s,tenant,prompt_tokens,output_tokens\n3,a,1,2\n2,b,3,4\n";
    put(path, folder, "late.csv", late, strlen(late));
    CHECK(weir_trace_load(path, NULL, &t, error, sizeof error));
    CHECK_INT(t.entries[0].prompt_tok, 3);
    CHECK_INT(t.span_ns, WEIR_NS_PER_S);
    weir_trace_remark(&t, error, sizeof error);
    CHECK_STR(error, "line 3 arrives before the one above it: rows were sorted by arrival");
    weir_trace_free(&t);
    unlink(path);
    FILE *f = fopen(data_path(gz, sizeof gz, "azure_code.csv.gz"), "rb");
    CHECK(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    put(path, folder, "cut.csv", bytes, n / 2); /* gzip is found without its name */
    CHECK(!weir_trace_load(path, NULL, &t, error, sizeof error));
    CHECK_MSG(strstr(error, "cut.csv: the gzip file ends before its end"), "%s", error);
    bytes[n / 2] ^= 0x55; /* where it is found depends on what it makes of the text */
    put(path, folder, "cut.csv", bytes, n);
    CHECK(!weir_trace_load(path, NULL, &t, error, sizeof error));
    CHECK(strstr(error, "cut.csv"));
    bytes[n / 2] ^= 0x55;
    bytes[n - 6] ^= 0x55; /* the checksum */
    put(path, folder, "cut.csv", bytes, n);
    CHECK(!weir_trace_load(path, NULL, &t, error, sizeof error));
    CHECK_MSG(strstr(error, "cut.csv: the gzip file is damaged; fetch it again"), "%s", error);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files__published_ones__have_their_published_statistics),
        cmocka_unit_test(files__measured_runs__are_chosen_by_scheduler),
        cmocka_unit_test(files__a_recording__is_in_order_and_says_what_it_lacks),
        cmocka_unit_test(files__that_cannot_be_read__say_which_and_why),
    };
    return cmocka_run_group_tests_name("trace_file", tests, NULL, NULL);
}

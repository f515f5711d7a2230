/* The fairness difference: the published table from the published run, and cases done by hand. */
#include "measure/difference.h"

#include <stdlib.h>

#include "support/check.h"
#include "trace/trace_file.h"

#define S WEIR_NS_PER_S

static const char *data_path(char *path, size_t bytes, const char *name)
{
    const char *data = getenv("WEIR_TEST_DATA");
    snprintf(path, bytes, "%s/traces/%s", data ? data : "tests/data", name);
    return path;
}

/* A row of the table as the file prints it, but for its last column. */
static double row_of(const char *scheduler, char *row, size_t bytes)
{
    char path[4096], error[512];
    struct weir_trace t;
    struct weir_difference d;
    CHECK_MSG(weir_trace_load(data_path(path, sizeof path, "arena27_measured.csv.gz"), scheduler,
                              &t, error, sizeof error),
              "%s", error);
    const char *problem = weir_difference_compute(
        t.entries, t.count, t.names_count[WEIR_TRACE_TENANT], &weir_difference_published, &d);
    CHECK_MSG(!problem, "%s", problem ? problem : "");
    CHECK_INT(d.served + d.refused, t.count);
    snprintf(row, bytes, "%s,%zu,%llu,%.2f,%.2f,%.2f,%.0f", scheduler, t.count,
             (unsigned long long)d.served, d.max, d.mean, d.variance, d.throughput_tok_per_s);
    weir_trace_free(&t);
    return d.run_s;
}

/* The table's last column is the wall clock of the benchmark's program, which ran 2 to 8 ms longer
 * than until the last token; that cannot be computed from the trace. */
static void difference__of_the_measured_run__is_the_published_table_to_its_digits(void **state)
{
    (void)state;
    char path[4096], line[256];
    FILE *f = fopen(data_path(path, sizeof path, "arena27_table.csv"), "r");
    int rows = 0;
    CHECK(f && fgets(line, sizeof line, f));
    CHECK_STR(line, "scheduler,requests,served,max_diff,avg_diff,diff_var,throughput_tok_s,"
                    "total_time_s\n");
    for (; fgets(line, sizeof line, f); rows++) {
        char row[256], scheduler[32], *last = strrchr(line, ',');
        CHECK(last);
        double total_s = strtod(last + 1, NULL);
        *last = '\0';
        snprintf(scheduler, sizeof scheduler, "%.*s", (int)strcspn(line, ","), line);
        double run_s = row_of(scheduler, row, sizeof row);
        CHECK_STR(row, line);
        CHECK_MSG(run_s < total_s && total_s - run_s < 0.008, "%s: %f s, the table says %f",
                  scheduler, run_s, total_s);
    }
    fclose(f);
    CHECK_INT(rows, 10);
}

static void check_near(double got, double want, int line)
{
    CHECK_MSG(got > want - 1e-9 && got < want + 1e-9, "line %d: %f, want %f", line, got, want);
}

#define NEAR(got, want) check_near((got), (want), __LINE__)

/* One window of ten seconds, 10..20. */
static const struct weir_difference_points one = {10, 1, 10, 1};

static void difference__by_hand__spreads_service_and_counts_demand_where_it_arrives(void **state)
{
    (void)state;
    struct weir_difference d;
    const struct weir_trace_entry entries[] = {
        /* a: work 200, from 15 to 25: half of it in the window; asked for before it */
        {.arrival_ns = 5 * S,
         .tenant = 1,
         .output_tok = 100,
         .first_byte_ns = 10 * S,
         .latency_ns = 20 * S,
         .is_measured = true},
        /* b: work 60, all in the window, asked for in it */
        {.arrival_ns = 11 * S,
         .tenant = 2,
         .prompt_tok = 20,
         .output_tok = 20,
         .first_byte_ns = 1 * S,
         .latency_ns = 3 * S,
         .is_measured = true},
        /* c: work 40 asked for in it, served behind it */
        {.arrival_ns = 20 * S,
         .tenant = 3,
         .output_tok = 20,
         .first_byte_ns = 5 * S,
         .latency_ns = 6 * S,
         .is_measured = true},
        /* c again: refused, so it asks for nothing */
        {.arrival_ns = 12 * S,
         .tenant = 3,
         .output_tok = 900,
         .outcome = WEIR_TRACE_REFUSED,
         .refusal = WEIR_REFUSAL_RATE_LIMIT,
         .is_measured = true},
        {.arrival_ns = 12 * S,
         .tenant = 4,
         .output_tok = 900,
         .outcome = WEIR_TRACE_GONE,
         .is_measured = true},
    };
    CHECK(!weir_difference_compute(entries, WEIR_COUNT(entries), 5, &one, &d));
    /* S = 100. a: min(0, 100) = 0; b: min(40, 0) = 0; c: min(100, 40) = 40. */
    NEAR(d.max, 4.0);
    NEAR(d.mean, 4.0);
    NEAR(d.variance, 0.0);
    NEAR(d.run_s, 26.0);
    NEAR(d.throughput_tok_per_s, 160.0 / 26.0);
    CHECK_INT(d.served, 3);
    CHECK_INT(d.refused, 1);
    CHECK_INT(d.left, 1);
    /* Two windows, 10..20 and 20..30: differences 4, and with S = 100 (a): c min(60, 0) = 0, a 0. */
    const struct weir_difference_points two = {10, 10, 10, 2};
    CHECK(!weir_difference_compute(entries, WEIR_COUNT(entries), 5, &two, &d));
    NEAR(d.max, 4.0);
    NEAR(d.mean, 2.0);
    NEAR(d.variance, 4.0); /* of the population */
}

static void difference__an_answer_of_one_moment__counts_where_it_lies(void **state)
{
    (void)state;
    struct weir_difference d;
    const struct weir_trace_entry entries[] = {{.arrival_ns = 1 * S,
                                                .tenant = 0,
                                                .output_tok = 50,
                                                .first_byte_ns = 14 * S,
                                                .latency_ns = 14 * S,
                                                .is_measured = true},
                                               {.arrival_ns = 15 * S,
                                                .tenant = 1,
                                                .output_tok = 30,
                                                .first_byte_ns = 14 * S,
                                                .latency_ns = 14 * S,
                                                .is_measured = true}};
    CHECK(!weir_difference_compute(entries, 2, 2, &one, &d));
    NEAR(d.mean, 6.0); /* S = 100; the second: min(100, 60) */
}

static void difference__nothing_to_measure__says_so(void **state)
{
    (void)state;
    struct weir_difference d;
    const struct weir_trace_entry refused = {.outcome = WEIR_TRACE_REFUSED, .is_measured = true};
    const struct weir_trace_entry unmeasured = {.output_tok = 3};
    CHECK_STR(weir_difference_compute(NULL, 0, 0, &one, &d), "no request was served");
    CHECK_STR(weir_difference_compute(&refused, 1, 1, &one, &d), "no request was served");
    CHECK(strstr(weir_difference_compute(&unmeasured, 1, 1, &one, &d), "first_token_s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(difference__of_the_measured_run__is_the_published_table_to_its_digits),
        cmocka_unit_test(difference__by_hand__spreads_service_and_counts_demand_where_it_arrives),
        cmocka_unit_test(difference__an_answer_of_one_moment__counts_where_it_lies),
        cmocka_unit_test(difference__nothing_to_measure__says_so),
    };
    return cmocka_run_group_tests_name("difference", tests, NULL, NULL);
}

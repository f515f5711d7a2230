/* The trace reader: what every form gives, what each kind of damage says, in portions of any size. */
#include "trace/trace.h"

#include <stdlib.h>

#include "core/rng.h"
#include "support/check.h"

#define ROWS_MAX 64

struct reading {
    void *memory;
    struct weir_trace_reader *reader;
    struct weir_trace_entry entries[ROWS_MAX];
    size_t count;
    bool is_whole;
};

static bool take(void *ctx, const struct weir_trace_entry *entry)
{
    struct reading *g = ctx;
    if (g->count == ROWS_MAX)
        return false;
    g->entries[g->count++] = *entry;
    return true;
}

static void begin(struct reading *g, const struct weir_trace_limits *limits, const char *scheduler)
{
    size_t bytes = weir_trace_bytes(limits);
    *g = (struct reading){.memory = calloc(1, bytes)};
    CHECK(g->memory);
    g->reader = weir_trace_init(g->memory, bytes, limits, scheduler, take, g);
}

/* In portions of `portion` bytes, each in a block of its own size. */
static void read_portions(struct reading *g, const char *text, size_t bytes, size_t portion,
                          const char *scheduler)
{
    static const struct weir_trace_limits limits = {.names_max = 8, .rows_max = ROWS_MAX};
    begin(g, &limits, scheduler);
    bool goes_on = true;
    for (size_t at = 0; at < bytes && goes_on; at += portion) {
        size_t n = bytes - at < portion ? bytes - at : portion;
        char *block = malloc(n);
        CHECK(block);
        memcpy(block, text + at, n);
        goes_on = weir_trace_push(g->reader, block, n);
        free(block);
    }
    g->is_whole = weir_trace_finish(g->reader);
}

/* Whole, byte by byte and in sevens: the same entries, the same problem. */
static void read_text(struct reading *g, const char *text, size_t bytes, const char *scheduler)
{
    read_portions(g, text, bytes, bytes ? bytes : 1, scheduler);
    for (size_t portion = 1; portion <= 7; portion += 6) {
        struct reading again;
        read_portions(&again, text, bytes, portion, scheduler);
        CHECK_MSG(again.is_whole == g->is_whole && again.count == g->count, "portions of %zu",
                  portion);
        for (size_t i = 0; i < g->count; i++)
            CHECK_INT(again.entries[i].arrival_ns, g->entries[i].arrival_ns);
        CHECK_STR(weir_trace_problem(again.reader)->text, weir_trace_problem(g->reader)->text);
        CHECK_INT(weir_trace_problem(again.reader)->line, weir_trace_problem(g->reader)->line);
        free(again.memory);
    }
}

static void expect_rows(struct reading *g, const char *text, enum weir_trace_form form, size_t rows)
{
    read_text(g, text, strlen(text), NULL);
    CHECK_STR(weir_trace_problem(g->reader)->text, "");
    CHECK(g->is_whole);
    CHECK_STR(weir_trace_form_name(weir_trace_form(g->reader)), weir_trace_form_name(form));
    CHECK_INT(g->count, rows);
}

static void expect_problem(const char *text, size_t bytes, uint64_t line, const char *words)
{
    struct reading g;
    read_text(&g, text, bytes, NULL);
    const struct weir_trace_problem *p = weir_trace_problem(g.reader);
    CHECK_MSG(!g.is_whole, "read as if it were whole: ...%s",
              text + (bytes > 120 ? bytes - 120 : 0));
    CHECK_MSG(strstr(p->text, words), "said: %s; wanted: %s", p->text, words);
    CHECK_MSG(p->line == line, "%s: line %llu, want %llu", p->text, (unsigned long long)p->line,
              (unsigned long long)line);
    free(g.memory);
}

#define ARENA "arrival_s,tenant,prompt_tokens,output_tokens\n"
#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
#define RECORDING                                                                                  \
    "#weir recording 1 began 100\n"                                                                \
    "arrival_s,tenant,lane,model,stream,prompt_tokens,cached_tokens,output_tokens,"                \
    "estimate_tokens,output_limit_tokens,queue_wait_s,first_byte_s,latency_s,status,reason,"       \
    "outcome\n"

static void forms__each_is_found_by_its_columns(void **state)
{
    (void)state;
    struct reading g;
    expect_rows(&g, AZURE "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,31,8",
                WEIR_TRACE_AZURE, 2);
    CHECK_INT(g.entries[1].arrival_ns - g.entries[0].arrival_ns, 52000000);
    CHECK_INT(g.entries[0].arrival_ns, UINT64_C(1700158623979960000));
    CHECK_INT(g.entries[1].prompt_tok, 31);
    CHECK_INT(g.entries[1].output_tok, 8);
    CHECK(!g.entries[1].is_measured);
    free(g.memory);
    expect_rows(&g, ARENA "0.000000,c13,13,199\n1.5,c02,36,137\n2,c13,1,1\n", WEIR_TRACE_ARENA, 3);
    CHECK_INT(g.entries[1].arrival_ns, 1500000000);
    CHECK_INT(g.entries[2].tenant, g.entries[0].tenant);
    CHECK_STR(weir_trace_name(g.reader, WEIR_TRACE_TENANT, g.entries[1].tenant), "c02");
    CHECK_INT(weir_trace_names_count(g.reader, WEIR_TRACE_TENANT), 3);
    free(g.memory);
    expect_rows(&g,
                "arrival_ms,prompt_tokens,output_tokens,reused_prefix_tokens\n0,40160,6,0\n"
                "40.5,23769,3,512\n",
                WEIR_TRACE_MOONCAKE, 2);
    CHECK_INT(g.entries[1].arrival_ns, 40500000);
    CHECK_INT(g.entries[1].cached_tok, 512);
    free(g.memory);
    expect_rows(&g,
                "output_tokens,first_token_s,note,PROMPT_TOKENS,arrival_s,tenant,latency_s\n"
                "199,1.182609,\"a, b\",13,0.25,c13,9.415639\n8,-1,,7,0.5,c13,-1\n",
                WEIR_TRACE_ARENA, 2);
    CHECK_INT(g.entries[0].first_byte_ns, 1182609000);
    CHECK_INT(g.entries[0].latency_ns, UINT64_C(9415639000));
    CHECK(g.entries[0].is_measured && g.entries[0].outcome == WEIR_TRACE_FINISHED);
    CHECK(g.entries[1].is_measured && g.entries[1].outcome == WEIR_TRACE_REFUSED);
    CHECK_INT(g.entries[1].refusal, WEIR_REFUSAL_RATE_LIMIT);
    CHECK_INT(g.entries[1].prompt_tok, 7);
    free(g.memory);
    expect_rows(&g,
                RECORDING
                "1.5,ten,lane,gpt,1,13,3,7,99,64,0.25,0.5,2.000000001,200,,finished\n"
                "0.5,\"a \"\"b\"\"\",,,0,0,0,0,0,0,,,0.1,429,rate_limit_exceeded,refused\n",
                WEIR_TRACE_RECORDING, 2);
    CHECK_INT(g.entries[0].arrival_ns, UINT64_C(101500000000));
    CHECK_INT(g.entries[0].latency_ns, 2000000001);
    CHECK_INT(g.entries[0].estimate_tok, 99);
    CHECK_INT(g.entries[0].output_limit_tok, 64);
    CHECK(g.entries[0].is_stream && !g.entries[1].is_stream);
    CHECK_INT(g.entries[1].first_byte_ns, 0);
    CHECK_INT(g.entries[1].status, 429);
    CHECK_STR(weir_trace_name(g.reader, WEIR_TRACE_TENANT, g.entries[1].tenant), "a \"b\"");
    CHECK_INT(g.entries[1].refusal, WEIR_REFUSAL_RATE_LIMIT);
    free(g.memory);
}

static void text__line_ends_marks_blanks_quotes_comments__mean_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        ARENA "0,a,1,2\n1,b,3,4\n",
        ARENA "0,a,1,2\n1,b,3,4",
        "arrival_s,tenant,prompt_tokens,output_tokens\r\n0,a,1,2\r\n1,b,3,4\r\n",
        "arrival_s,tenant,prompt_tokens,output_tokens\r\n0,a,1,2\r\n1,b,3,4\r",
        "\xef\xbb\xbf" ARENA "0,a,1,2\n1,b,3,4\n",
        "\xef\xbb\xbf\"arrival_s\",\"tenant\",\"prompt_tokens\",\"output_tokens\"\r\n\"0\",\"a\","
        "\"1\","
        "\"2\"\r\n\"1\",\"b\",\"3\",\"4\"\r\n",
        "\n\r\n  \n" ARENA "\n0,a,1,2\n\n\n 1 , b ,\t3, 4 \n\n",
        "# a note, with \"quotes\" and , commas\n" ARENA "0,a,1,2\n#\n1,b,3,4\n# end",
    };
    for (size_t i = 0; i < WEIR_COUNT(texts); i++) {
        struct reading g;
        expect_rows(&g, texts[i], WEIR_TRACE_ARENA, 2);
        CHECK_INT(g.entries[1].arrival_ns, 1000000000);
        CHECK_INT(g.entries[1].prompt_tok, 3);
        CHECK_INT(g.entries[1].output_tok, 4);
        CHECK_STR(weir_trace_name(g.reader, WEIR_TRACE_TENANT, g.entries[1].tenant), "b");
        free(g.memory);
    }
}

static void timestamps__midnight_month_and_leap_days__are_steps_of_a_second(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
        uint64_t step_ns;
    } rows[] = {
        {"2023-11-16 23:59:59.5000000", "2023-11-17 00:00:00.5000000", 1000000000},
        {"2023-11-30 23:59:59.9999999", "2023-12-01 00:00:00.0000000", 100},
        {"2023-12-31 23:59:59", "2024-01-01 00:00:00", 1000000000},
        {"2024-02-28 23:59:59", "2024-02-29 00:00:00", 1000000000},
        {"2024-02-29 23:59:59", "2024-03-01T00:00:00Z", 1000000000},
        {"2023-02-28 23:59:59", "2023-03-01 00:00:00+00:00", 1000000000},
        {"2000-02-29 00:00:00", "2000-03-01 00:00:00.000000001", UINT64_C(86400000000001)},
        {"1970-01-01 00:00:00", "2099-12-31 23:59:59", UINT64_C(4102444799000000000)},
        {"2023-11-16 18:17:03.97996001234", "2023-11-16 18:17:03.979960013", 1},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char text[256];
        struct reading g;
        snprintf(text, sizeof text, AZURE "%s,1,1\r\n%s,1,1", rows[i].before, rows[i].after);
        expect_rows(&g, text, WEIR_TRACE_AZURE, 2);
        CHECK_MSG(g.entries[1].arrival_ns - g.entries[0].arrival_ns == rows[i].step_ns, "%s to %s",
                  rows[i].before, rows[i].after);
        free(g.memory);
    }
    static const char *const impossible[] = {
        "2023-02-29 00:00:00",
        "2100-02-29 00:00:00",
        "2023-04-31 00:00:00",
        "2023-00-10 00:00:00",
        "2023-13-10 00:00:00",
        "2023-01-00 00:00:00",
        "2023-01-01 24:00:00",
        "2023-01-01 00:60:00",
        "2023-01-01 00:00:60",
        "1969-12-31 23:59:59",
        "2023-1-01 00:00:00",
        "2023-01-01",
        "2023-01-01 00:00:00.",
        "2023-01-01 00:00:00+01:00",
        "2023-01-01 00:00:00 ",
        "2023-01-01 00:00:00Zx",
        "",
        "-023-01-01 00:00:00",
    };
    for (size_t i = 0; i < WEIR_COUNT(impossible); i++) {
        char text[256];
        snprintf(text, sizeof text, AZURE "\"%s\",1,1\r\n", impossible[i]);
        expect_problem(text, strlen(text), 2, "TIMESTAMP is");
    }
}

static void damage__is_told_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t line;
        const char *words;
    } rows[] = {
        {"", 0, "the file is empty"},
        {"\xef\xbb\xbf", 0, "the file is empty"},
        {"\n\n# nothing\n", 0, "the file is empty"},
        {ARENA, 0, "no rows below"},
        {"0,c13,13,199\n", 1, "the first line must name the columns; it begins with \"0\""},
        {"workload,client\nm,1\n", 1, "it begins with \"workload\""},
        {"arrival_s,tenant,prompt_tokens\n0,a,1\n", 1, "arena form, but without output_tokens"},
        {"TIMESTAMP,ContextTokens\n", 1, "Azure form, but without GeneratedTokens"},
        {"arrival_ms,prompt_tokens\n", 1, "Mooncake form, but without output_tokens"},
        {"arrival_s,tenant,prompt_tokens,output_tokens,latency_s\n", 1, "without first_token_s"},
        {"arrival_s,tenant,prompt_tokens,output_tokens,first_token_s\n", 1, "without latency_s"},
        {"arrival_s,tenant,outcome\n", 1, "recording form, but without prompt_tokens"},
        {"arrival_s,arrival_ms,tenant,prompt_tokens,output_tokens\n", 1, "two columns tell the"},
        {"arrival_s,tenant,tenant,prompt_tokens,output_tokens\n", 1,
         "two columns are named tenant"},
        {"arrival_s;tenant;prompt_tokens;output_tokens\n0;a;1;2\n", 1, "must name the columns"},
        {ARENA "0,a,1\n", 2, "3 cells where 4 columns are named"},
        {ARENA "\n0,a,1,2\n\n1,a,1,2,3\n", 5, "5 cells where 4"},
        {ARENA "garbage\n", 2, "1 cell where 4"},
        {ARENA "0,a,-3,2\n", 2, "prompt_tokens is \"-3\": it must be a whole number from 0 to"},
        {ARENA "0,a,1.5,2\n", 2, "prompt_tokens is \"1.5\""},
        {ARENA "0,a,+1,2\n", 2, "prompt_tokens is \"+1\""},
        {ARENA "0,a,1,\n", 2, "output_tokens is \"\""},
        {ARENA "0,a,1,1000000001\n", 2, "output_tokens is \"1000000001\""},
        {ARENA "0,a,1,99999999999999999999999999999999999999999999999999\n", 2,
         "\"9999999999999999999999999999999999999999...\""},
        {ARENA "0,a,1,0x10\n", 2, "output_tokens is \"0x10\""},
        {ARENA "-1,a,1,2\n", 2, "arrival_s is \"-1\": it must be seconds as a decimal number"},
        {ARENA "1e3,a,1,2\n", 2, "arrival_s is \"1e3\""},
        {ARENA "nan,a,1,2\n", 2, "arrival_s is \"nan\""},
        {ARENA "1.,a,1,2\n", 2, "arrival_s is \"1.\""},
        {ARENA ".5,a,1,2\n", 2, "arrival_s is \".5\""},
        {ARENA "4294967295.1,a,1,2\n", 2, "arrival_s is \"4294967295.1\""},
        {ARENA "18446744073709551617,a,1,2\n", 2, "arrival_s is"},
        {"arrival_ms,prompt_tokens,output_tokens\n4294967295001,1,2\n", 2, "arrival_ms is"},
        {"arrival_ms,prompt_tokens,output_tokens,reused_prefix_tokens\n0,1,2,2\n", 2,
         "reused_prefix_tokens is \"2\": it must be at most prompt_tokens"},
        {ARENA "0,\"a\nb\",1,2\n", 2, "control characters"},
        {ARENA "0,a\x7f,1,2\n", 2, "control characters"},
        {ARENA "0,a\xc2\x9b"
               "31m,1,2\n",
         2, "\"a?31m\": it must be text without control characters"},
        {ARENA "0,a\xff,1,2\n", 2, "it must be UTF-8 text"},
        {ARENA "0,a\xc0\xaf,1,2\n", 2, "it must be UTF-8 text"},
        {ARENA "0,a\xed\xa0\x80,1,2\n", 2, "it must be UTF-8 text"},
        {ARENA "0,0123456789012345678901234567890123456789012345678901234567890123,1,2\n", 2,
         "at most 63 bytes"},
        {ARENA "0,a,1,2\n0,b,1,2\n0,c,1,2\n0,d,1,2\n0,e,1,2\n0,f,1,2\n0,g,1,2\n0,h,1,2\n", 9,
         "more than 7 different names stand in the column tenant"},
        {ARENA "0,\"a,1,2\n1,b,3,4\n", 2, "a quoted cell is not closed"},
        {ARENA "0,\"a\"b,1,2\n", 2, "text follows a closing quote"},
        {ARENA "0,\"a\"\rb,1,2\n", 2, "text follows a closing quote"},
        {ARENA "0,a\"b,1,2\n", 2, "a quote in the middle"},
        {ARENA "0,a\rb,1,2\n", 2, "control characters"},
        {"arrival_s,tenant,prompt_tokens,output_tokens,first_token_s,latency_s\n0,a,1,2,-1,3\n", 2,
         "first_token_s is \"-1\""},
        {"arrival_s,tenant,prompt_tokens,output_tokens,first_token_s,latency_s\n0,a,1,2,3,-1\n", 2,
         "latency_s is \"-1\""},
        {"arrival_s,tenant,prompt_tokens,output_tokens,first_token_s,latency_s\n0,a,1,2,3,2.9\n", 2,
         "latency_s is \"2.9\": it must be at least first_token_s"},
        {"arrival_s,tenant,prompt_tokens,output_tokens,scheduler\n0,a,1,2,x\n0,a,1,2,y\n", 0,
         "several runs; choose the scheduler: x, y"},
        {"#weir recording 2 began 0\n", 1, "of a form that this weir does not know"},
        {ARENA "0,a,1,2\n#weir recording 1 began 0\n", 3, "inside a trace of another form"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        expect_problem(rows[i].text, strlen(rows[i].text), rows[i].line, rows[i].words);
    static const char nul[] = ARENA "0,a,1,2\n0,\0,1,2\n";
    expect_problem(nul, sizeof nul - 1, 3, "a NUL byte: this is not UTF-8 text");
    static const char wide[] = "\xff\xfe"
                               "a\0r\0";
    expect_problem(wide, sizeof wide - 1, 1, "a NUL byte");
}

static void bounds__lines_cells_rows__are_refused_beyond_and_taken_at_them(void **state)
{
    (void)state;
    static char text[3 * WEIR_TRACE_ROW_BYTES];
    struct reading g;
    for (size_t over = 0; over < 2; over++) { /* a row of exactly 4096 bytes, and of one more */
        size_t used = (size_t)snprintf(text, sizeof text,
                                       "arrival_s,tenant,prompt_tokens,output_tokens,x\n0,a,1,2,");
        size_t row = WEIR_TRACE_ROW_BYTES + over - strlen("0,a,1,2,");
        memset(text + used, 'x', row);
        used += row;
        text[used++] = '\n';
        if (over == 0) {
            read_text(&g, text, used, NULL);
            CHECK(g.is_whole);
            free(g.memory);
        } else {
            expect_problem(text, used, 2, "the row is longer than 4096 bytes");
        }
    }
    memset(text, 'x', sizeof text); /* no line end at all */
    expect_problem(text, sizeof text, 1, "the row is longer than 4096 bytes");
    memset(text, '\n', sizeof text);
    memcpy(text, ARENA "0,\"", strlen(ARENA "0,\""));
    expect_problem(text, sizeof text, 2, "a quote that is opened in this row is not closed");
    memset(text, ',', 64);
    expect_problem(text, 64, 1, "more than 64 cells in a row");
    expect_problem(text, 63, 1, "the first line must name the columns");
    size_t used = (size_t)snprintf(text, sizeof text, "%s", ARENA);
    for (int i = 0; i <= ROWS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,a,1,2\n", i);
    expect_problem(text, used, ROWS_MAX + 2, "more rows than are read of one file");
    read_text(&g, text, used - strlen("64,a,1,2\n"), NULL);
    CHECK(g.is_whole);
    free(g.memory);
}

static void scheduler__one_run_of_several_is_chosen(void **state)
{
    (void)state;
    static const char text[] =
        "scheduler,arrival_s,tenant,prompt_tokens,output_tokens,first_token_s,latency_s\n"
        "fcfs,0,a,1,2,1,2\nvtc,0,a,3,4,1,2\nfcfs,1,a,5,6,1,2\n";
    struct reading g;
    read_text(&g, text, strlen(text), "vtc");
    CHECK(g.is_whole);
    CHECK_INT(g.count, 1);
    CHECK_INT(g.entries[0].prompt_tok, 3);
    CHECK_INT(weir_trace_facts(g.reader)->rows_unchosen, 2);
    free(g.memory);
    read_text(&g, text, strlen(text), "rpm5");
    CHECK(!g.is_whole);
    CHECK_STR(weir_trace_problem(g.reader)->text,
              "the trace holds no run of the scheduler \"rpm5\", but fcfs, vtc");
    free(g.memory);
    read_text(&g, ARENA "0,a,1,2\n", strlen(ARENA "0,a,1,2\n"), "vtc");
    CHECK(!g.is_whole);
    CHECK_STR(weir_trace_problem(g.reader)->text,
              "a scheduler is chosen, but the trace has no column scheduler");
    free(g.memory);
}

static void settle__unsorted_arrivals__are_sorted_stably_and_count_from_the_first(void **state)
{
    (void)state;
    struct reading g;
    expect_rows(&g, ARENA "7,a,1,0\n5,a,2,0\n7,a,3,0\n5,a,4,0\n6,a,5,0\n", WEIR_TRACE_ARENA, 5);
    CHECK_INT(weir_trace_facts(g.reader)->unsorted_line, 3);
    struct weir_trace_entry scratch[ROWS_MAX];
    weir_trace_settle(g.entries, scratch, g.count);
    static const uint32_t order[] = {2, 4, 5, 1, 3}, arrival_s[] = {0, 0, 1, 2, 2};
    for (size_t i = 0; i < 5; i++) {
        CHECK_INT(g.entries[i].prompt_tok, order[i]);
        CHECK_INT(g.entries[i].arrival_ns, arrival_s[i] * WEIR_NS_PER_S);
    }
    free(g.memory);
    struct weir_rng rng;
    weir_rng_seed(&rng, 1, 0);
    for (size_t count = 0; count <= ROWS_MAX; count++) {
        struct weir_trace_entry entries[ROWS_MAX] = {0};
        uint64_t least = UINT64_MAX;
        for (size_t i = 0; i < count; i++) {
            entries[i].arrival_ns = 3 + weir_rng_below(&rng, 16);
            entries[i].prompt_tok = (uint32_t)i;
            least = weir_min_u64(least, entries[i].arrival_ns);
        }
        weir_trace_settle(entries, scratch, count);
        for (size_t i = 1; i < count; i++)
            CHECK(entries[i - 1].arrival_ns < entries[i].arrival_ns ||
                  (entries[i - 1].arrival_ns == entries[i].arrival_ns &&
                   entries[i - 1].prompt_tok < entries[i].prompt_tok));
        CHECK(count == 0 || entries[0].arrival_ns == 0);
    }
}

static void fill__who_used_nothing__gets_the_mean_of_its_tenant_or_of_all(void **state)
{
    (void)state;
    struct weir_trace_entry e[] = {
        {.tenant = 1, .prompt_tok = 10, .output_tok = 3},
        {.tenant = 1, .prompt_tok = 13, .output_tok = 4},
        {.tenant = 1, .outcome = WEIR_TRACE_REFUSED},
        {.tenant = 2, .outcome = WEIR_TRACE_GONE},
        {.tenant = 1, .prompt_tok = 900, .output_tok = 900, .outcome = WEIR_TRACE_CUT},
        {.tenant = 1, .prompt_tok = 7, .outcome = WEIR_TRACE_GONE}, /* it was sent */
        {.tenant = 1, .outcome = WEIR_TRACE_FAILED},
        {.tenant = 0, .prompt_tok = 1},
    };
    struct weir_trace_sizes sizes[3];
    CHECK_INT(weir_trace_fill(e, WEIR_COUNT(e), sizes, 3), 2);
    CHECK(e[2].prompt_tok == 12 && e[2].output_tok == 4); /* 11.5 and 3.5, rounded */
    CHECK(e[3].prompt_tok == 8 && e[3].output_tok == 2);  /* of all: 24 / 3 and 7 / 3 */
    CHECK(e[5].prompt_tok == 7 && e[5].output_tok == 0 && e[6].prompt_tok == 0);
    CHECK_INT(weir_trace_fill(&e[3], 1, sizes, 3), 0); /* it has tokens now */
    e[3].prompt_tok = e[3].output_tok = 0;
    CHECK_INT(weir_trace_fill(&e[3], 1, sizes, 3), 0); /* nobody finished */
}

static void recording__rows_that_a_crash_cut__are_left_out_and_counted(void **state)
{
    (void)state;
#define GOOD "1,a,,m,1,13,3,7,99,64,0.25,0.5,2,200,,finished"
    static const struct {
        const char *text;
        size_t rows, cut;
    } whole[] = {
        {RECORDING GOOD "\n" GOOD, 2, 0},
        {RECORDING GOOD "\n1,a,,m,1,13,3,7,99,64,0.25,0.5,2,200,,finishe", 1, 1},
        {RECORDING GOOD "\n1,a,,m,1,1", 1, 1},
        {RECORDING GOOD "\n1,\"a", 1, 1},
        {RECORDING GOOD "\n1,\"a\n" RECORDING GOOD "\n", 2, 1},
        {RECORDING GOOD "\n1,a,,m,1,1\n" RECORDING GOOD "\n" GOOD "\n", 3, 1},
        {RECORDING GOOD "\n#weir recording 1 be\n" RECORDING GOOD "\n", 2, 1},
        {RECORDING GOOD "\n#weir recording 1 began 200\narrival_s,ten\n" RECORDING GOOD "\n", 2, 1},
        {RECORDING GOOD "\n#weir recording 1 began 200\narrival_s,tenant,prompt_tokens", 1, 1},
        {RECORDING GOOD "\n#weir dropped 12\n#weir dropped 30\n", 1, 0},
    };
    for (size_t i = 0; i < WEIR_COUNT(whole); i++) {
        struct reading g;
        expect_rows(&g, whole[i].text, WEIR_TRACE_RECORDING, whole[i].rows);
        CHECK_MSG(weir_trace_facts(g.reader)->rows_cut == whole[i].cut, "text %zu", i);
        CHECK_INT(weir_trace_facts(g.reader)->rows_dropped, i == 9 ? 42 : 0);
        free(g.memory);
    }
    static const struct {
        const char *text;
        uint64_t line;
        const char *words;
    } broken[] = {
        {RECORDING GOOD "\n1,a,,m,1,1\n" GOOD "\n" RECORDING GOOD "\n", 4, "6 cells where 16"},
        {RECORDING GOOD "\n1,a,,m,1,1\n", 4, "6 cells where 16"}, /* a whole line, yet too short */
        {RECORDING "1,a,,m,1,13,3,7,99,64,0.25,0.5,2,200,rate_limit_exceeded,finished\n", 3,
         "reason is \"rate_limit_exceeded\": it must be empty for this outcome"},
        {RECORDING "1,a,,m,1,13,3,7,99,64,0.25,0.5,2,200,,refused\n", 3, "the reason of the"},
        {RECORDING "1,a,,m,1,13,3,7,99,64,0.25,0.5,2,200,bad luck,cut\n", 3, "reason is"},
        {RECORDING "1,a,,m,1,13,3,7,99,64,0.25,0.5,2,200,,well\n", 3, "outcome is \"well\""},
        {RECORDING "1,a,,m,2,13,3,7,99,64,0.25,0.5,2,200,,gone\n", 3, "stream is \"2\""},
        {RECORDING "1,a,,m,1,13,3,7,99,64,0.25,0.5,2,1000,,gone\n", 3, "status is \"1000\""},
        {RECORDING "1,a,,m,1,13,14,7,99,64,0.25,0.5,2,200,,gone\n", 3, "cached_tokens is \"14\""},
        {RECORDING "1,a,,m,1,13,3,7,99,64,-1,0.5,2,200,,gone\n", 3, "queue_wait_s is \"-1\""},
        {"#weir recording 1 began 1\n" ARENA, 2, "the columns of a recording must follow"},
        {"#weir recording 1 began soon\n" RECORDING, 1, "#weir recording 1 began SECONDS"},
    };
    for (size_t i = 0; i < WEIR_COUNT(broken); i++)
        expect_problem(broken[i].text, strlen(broken[i].text), broken[i].line, broken[i].words);
}

/* What the writer writes, the reader reads: to the nanosecond and the token. */
static void recording__written_then_read__is_the_same(void **state)
{
    (void)state;
    char longest[WEIR_TRACE_NAME_BYTES];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const names[] = {"",         "plain",       "com,ma", "quo\"te",
                                 " #blank ", "d\xc3\xbcne", longest};
    struct weir_rng rng;
    weir_rng_seed(&rng, 7, 0);
    for (int round = 0; round < 500; round++) {
        char text[WEIR_TRACE_HEADER_BYTES + ROWS_MAX * WEIR_TRACE_LINE_BYTES];
        struct weir_trace_entry written[8] = {0};
        const char *tenants[8];
        size_t used = weir_trace_header((int64_t)weir_rng_below(&rng, 2000000000) * 1000, text,
                                        WEIR_TRACE_HEADER_BYTES);
        CHECK(used > 0);
        for (int i = 0; i < 8; i++) {
            struct weir_trace_entry *e = &written[i];
            e->arrival_ns = weir_rng_below(&rng, UINT64_C(1) << weir_rng_below(&rng, 62));
            e->prompt_tok = (uint32_t)weir_rng_below(&rng, WEIR_TRACE_TOK_MAX + 1);
            e->cached_tok = (uint32_t)weir_rng_below(&rng, e->prompt_tok + 1);
            e->output_tok = (uint32_t)weir_rng_below(&rng, 1000);
            e->estimate_tok = (uint32_t)weir_rng_below(&rng, 1000);
            e->output_limit_tok = (uint32_t)weir_rng_below(&rng, 3);
            e->queue_wait_ns = weir_rng_below(&rng, UINT64_C(1) << weir_rng_below(&rng, 62));
            e->first_byte_ns = weir_rng_below(&rng, 3);
            e->latency_ns = weir_rng_below(&rng, 3) * WEIR_NS_PER_S;
            e->status = (uint32_t)weir_rng_below(&rng, 1000);
            e->outcome = (enum weir_trace_outcome)weir_rng_below(&rng, WEIR_TRACE_OUTCOME_COUNT);
            if (e->outcome == WEIR_TRACE_REFUSED || e->outcome == WEIR_TRACE_CUT)
                e->refusal = (enum weir_refusal)(1 + weir_rng_below(&rng, WEIR_REFUSAL_COUNT - 1));
            e->is_stream = weir_chance(&rng, 1, 2);
            tenants[i] = names[weir_rng_below(&rng, WEIR_COUNT(names))];
            used += weir_trace_line(e, tenants[i], names[weir_rng_below(&rng, 3)], "m", text + used,
                                    WEIR_TRACE_LINE_BYTES);
        }
        struct reading g;
        read_portions(&g, text, used, 97, NULL);
        CHECK_MSG(g.is_whole, "%s", weir_trace_problem(g.reader)->text);
        CHECK_INT(g.count, 8);
        for (size_t i = 0; i < 8; i++) {
            const struct weir_trace_entry *w = &written[i], *e = &g.entries[i];
            CHECK_INT(e->arrival_ns - g.entries[0].arrival_ns,
                      w->arrival_ns - written[0].arrival_ns);
            CHECK(e->prompt_tok == w->prompt_tok && e->cached_tok == w->cached_tok &&
                  e->output_tok == w->output_tok && e->estimate_tok == w->estimate_tok &&
                  e->output_limit_tok == w->output_limit_tok && e->is_stream == w->is_stream);
            CHECK(e->queue_wait_ns == w->queue_wait_ns && e->first_byte_ns == w->first_byte_ns &&
                  e->latency_ns == w->latency_ns && e->status == w->status);
            CHECK_INT(e->outcome, w->outcome);
            CHECK_STR(weir_refusal_row(e->refusal)->code, weir_refusal_row(w->refusal)->code);
            CHECK_STR(weir_trace_name(g.reader, WEIR_TRACE_TENANT, e->tenant), tenants[i]);
        }
        free(g.memory);
    }
}

static void writer__longest_line_and_header__fit_their_bounds(void **state)
{
    (void)state;
    char out[WEIR_TRACE_LINE_BYTES], quotes[100];
    memset(quotes, '"', sizeof quotes - 1);
    quotes[sizeof quotes - 1] = '\0';
    size_t longest_code = 0;
    struct weir_trace_entry e = {.arrival_ns = UINT64_MAX,
                                 .prompt_tok = UINT32_MAX,
                                 .cached_tok = UINT32_MAX,
                                 .output_tok = UINT32_MAX,
                                 .estimate_tok = UINT32_MAX,
                                 .output_limit_tok = UINT32_MAX,
                                 .queue_wait_ns = WEIR_TRACE_TIME_MAX_NS - 1,
                                 .first_byte_ns = WEIR_TRACE_TIME_MAX_NS - 1,
                                 .latency_ns = WEIR_TRACE_TIME_MAX_NS - 1,
                                 .status = UINT32_MAX,
                                 .outcome = WEIR_TRACE_REFUSED};
    for (int i = 0; i < WEIR_REFUSAL_COUNT; i++)
        if (strlen(weir_refusal_row((enum weir_refusal)i)->code) > longest_code) {
            longest_code = strlen(weir_refusal_row((enum weir_refusal)i)->code);
            e.refusal = (enum weir_refusal)i;
        }
    size_t bytes = weir_trace_line(&e, quotes, quotes, quotes, out, sizeof out);
    CHECK(bytes > 0 && bytes < sizeof out - 1);
    CHECK(memcmp(out + bytes - strlen("refused\n"), "refused\n", strlen("refused\n")) == 0);
    CHECK_INT(weir_trace_line(&e, "", "", "", out, sizeof out - 1), 0);
    CHECK_INT(weir_trace_header(0, out, WEIR_TRACE_HEADER_BYTES - 1), 0);
    bytes = weir_trace_header(INT64_MAX, out, sizeof out);
    CHECK(bytes < WEIR_TRACE_HEADER_BYTES - 1 && out[bytes - 1] == '\n');
    CHECK(memcmp(out + bytes - strlen("outcome\n"), "outcome\n", strlen("outcome\n")) == 0);
}

static void writer__a_name_no_reader_would_take__is_mended(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"a\tb", ",\"a b\","},
                                           {"a\xc2\x9b"
                                            "31m",
                                            ",\"a 31m\","},
                                           {"caf\xc3\xa9", ",\"caf\xc3\xa9\","},
                                           {"a\xff", ",\"a?\","}};
    char line[WEIR_TRACE_LINE_BYTES + 1];
    struct weir_trace_entry e = {.prompt_tok = 1};
    for (size_t i = 0; i < WEIR_COUNT(names); i++) {
        size_t bytes = weir_trace_line(&e, names[i][0], "", "", line, sizeof line - 1);
        CHECK(bytes > 0);
        line[bytes] = '\0';
        CHECK_MSG(strstr(line, names[i][1]), "%s", line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms__each_is_found_by_its_columns),
        cmocka_unit_test(text__line_ends_marks_blanks_quotes_comments__mean_nothing),
        cmocka_unit_test(timestamps__midnight_month_and_leap_days__are_steps_of_a_second),
        cmocka_unit_test(damage__is_told_with_its_line),
        cmocka_unit_test(bounds__lines_cells_rows__are_refused_beyond_and_taken_at_them),
        cmocka_unit_test(scheduler__one_run_of_several_is_chosen),
        cmocka_unit_test(settle__unsorted_arrivals__are_sorted_stably_and_count_from_the_first),
        cmocka_unit_test(fill__who_used_nothing__gets_the_mean_of_its_tenant_or_of_all),
        cmocka_unit_test(recording__rows_that_a_crash_cut__are_left_out_and_counted),
        cmocka_unit_test(recording__written_then_read__is_the_same),
        cmocka_unit_test(writer__a_name_no_reader_would_take__is_mended),
        cmocka_unit_test(writer__longest_line_and_header__fit_their_bounds),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}

/* Provider exports: the samples' totals, every form a value may have, and what is said of files
 * that are not what they should be. Each text is read from a block of its exact size. */
#include "wire/usage_export.h"
#include "wire/wire_data.h"

#define OPENAI_HEAD                                                                                \
    "start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,api_key_id,"    \
    "model,batch,input_tokens,output_tokens,input_cached_tokens\n"
#define OPENAI_TIMES "1764460800,1764464400,2025-11-30T00:00:00Z,2025-11-30T01:00:00Z,"
#define OPENAI_PAGE(results)                                                                       \
    "{\"object\":\"page\",\"data\":[{\"object\":\"bucket\",\"start_time\":1764460800,"             \
    "\"end_time\":1764464400,\"results\":[" results "]}],\"has_more\":false,\"next_page\":null}"
#define OPENAI_RESULT(key, input, output)                                                          \
    "{\"object\":\"organization.usage.completions.result\",\"input_tokens\":" #input               \
    ",\"output_tokens\":" #output ",\"num_model_requests\":1,\"api_key_id\":\"" key                \
    "\",\"model\":\"gpt\"}"
#define CONSOLE_HEAD                                                                               \
    "usage_date_utc,model_version,api_key,workspace,usage_input_tokens_no_cache,"                  \
    "usage_output_tokens\n"

struct totals {
    long long rows, requests, input, cached, cache_write, output;
};

static struct weir_export_reader *open_reader(void)
{
    struct weir_export_reader *r = weir_export_open();
    CHECK(r != NULL);
    return r;
}

static void add(struct weir_export_reader *r, const char *name, const void *bytes, size_t n)
{
    struct wire_bytes b = wire_copy(bytes, n);
    weir_export_add(r, name, b.at, b.n);
    free(b.at);
}

static void add_text(struct weir_export_reader *r, const char *name, const char *text)
{
    add(r, name, text, strlen(text));
}

static void add_sample(struct weir_export_reader *r, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "usage/%s", name);
    struct wire_bytes b = wire_load(path);
    weir_export_add(r, name, b.at, b.n);
    free(b.at);
}

static bool has_problem(const struct weir_export *e, enum weir_export_level level, const char *part)
{
    for (size_t i = 0; i < e->problems_count; i++)
        if (e->problems[i].level == level && strstr(e->problems[i].text, part))
            return true;
    return false;
}

static const char *all_problems(const struct weir_export *e)
{
    static char text[2000];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < e->problems_count && used < sizeof text - 300; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "[%d %.250s] ",
                                 (int)e->problems[i].level, e->problems[i].text);
    return text;
}

static struct totals totals_of(const struct weir_export *e, const char *key)
{
    struct totals t = {0};
    for (size_t i = 0; i < e->rows_count; i++) {
        const struct weir_export_row *row = &e->rows[i];
        if (key && strcmp(row->key, key) != 0 && strcmp(row->key_name, key) != 0)
            continue;
        t.rows++;
        t.requests += row->requests;
        t.input += row->input_tok;
        t.cached += row->cached_tok;
        t.cache_write += row->cache_write_tok;
        t.output += row->output_tok;
    }
    return t;
}

static void check_totals(const struct weir_export *e, const char *key, struct totals want)
{
    struct totals got = totals_of(e, key);
    CHECK_MSG(e->errors == 0, "%s", all_problems(e));
    CHECK_INT(got.rows, want.rows);
    CHECK_INT(got.requests, want.requests);
    CHECK_INT(got.input, want.input);
    CHECK_INT(got.cached, want.cached);
    CHECK_INT(got.cache_write, want.cache_write);
    CHECK_INT(got.output, want.output);
}

/* --- The samples --- */

static void export__openai_pages__totals_of_the_samples(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    add_sample(r, "openai_usage_completions_page2.json");
    add_sample(r, "openai_usage_completions.json");
    const struct weir_export *e = weir_export_finish(r);
    check_totals(e, NULL, (struct totals){5, 446, 1152775, 69632, 0, 141857});
    check_totals(e, "key_app1", (struct totals){3, 216, 249661, 69632, 0, 70337});
    CHECK_INT(e->spans_count, 4);
    CHECK_INT(e->warnings, 0);
    CHECK_INT(e->rows[0].start_s, 1764460800);
    CHECK_INT(e->rows[0].end_s, 1764464400);
    CHECK_STR(e->rows[0].project, "proj_example");
    weir_export_close(r);
}

static void export__page_without_the_next__is_warned_of(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    add_sample(r, "openai_usage_completions.json");
    const struct weir_export *e = weir_export_finish(r);
    check_totals(e, NULL, (struct totals){4, 444, 1151775, 69632, 0, 141357});
    CHECK(has_problem(e, WEIR_EXPORT_WARNING, "no file given goes on at 2025-11-30T03:00Z"));
    weir_export_close(r);
}

static void export__openai_dashboard__totals_of_the_sample(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    add_sample(r, "openai_completions_usage.csv");
    const struct weir_export *e = weir_export_finish(r);
    check_totals(e, NULL, (struct totals){4, 444, 1151775, 69632, 0, 141357});
    check_totals(e, "key_batch", (struct totals){1, 228, 902114, 0, 0, 71020});
    CHECK_INT(e->spans_count, 3);
    CHECK_INT(e->warnings, 0);
    CHECK_MSG(e->problems_count == 0, "%s", all_problems(e));
    weir_export_close(r);
}

static void export__dashboard_and_pages_of_one_time__count_once(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    add_sample(r, "openai_completions_usage.csv");
    add_sample(r, "openai_usage_completions.json");
    const struct weir_export *e = weir_export_finish(r);
    check_totals(e, NULL, (struct totals){4, 444, 1151775, 69632, 0, 141357});
    CHECK(has_problem(e, WEIR_EXPORT_WARNING, "4 rows are given twice and counted once"));
    weir_export_close(r);
}

static void export__anthropic_report__totals_of_the_sample(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    add_sample(r, "anthropic_usage_report.json");
    const struct weir_export *e = weir_export_finish(r);
    check_totals(e, NULL, (struct totals){3, -3, 1708777, 1024000, 21000, 129033});
    check_totals(e, "apikey_01app", (struct totals){1, -1, 1208000, 1024000, 21000, 38000});
    check_totals(e, "", (struct totals){3, -3, 1708777, 1024000, 21000, 129033});
    CHECK_INT(e->spans_count, 2);
    CHECK_INT(e->warnings, 0);
    for (size_t i = 0; i < e->rows_count; i++)
        CHECK_INT(e->rows[i].is_batch, strcmp(e->rows[i].key, "apikey_01batch") == 0);
    weir_export_close(r);
}

static void export__anthropic_console__totals_of_the_sample(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    add_sample(r, "anthropic_console_usage.csv");
    const struct weir_export *e = weir_export_finish(r);
    check_totals(e, NULL, (struct totals){3, -3, 1708777, 1024000, 21000, 129033});
    check_totals(e, "app", (struct totals){1, -1, 1208000, 1024000, 21000, 38000});
    CHECK_MSG(e->problems_count == 0, "%s", all_problems(e));
    CHECK_INT(e->rows[0].end_s - e->rows[0].start_s, 86400);
    weir_export_close(r);
}

static void export__costs__are_refused_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"openai_costs.json", "anthropic_cost_report.json"};
    for (size_t i = 0; i < WEIR_COUNT(names); i++) {
        struct weir_export_reader *r = open_reader();
        add_sample(r, names[i]);
        const struct weir_export *e = weir_export_finish(r);
        CHECK_MSG(has_problem(e, WEIR_EXPORT_ERROR, "this is the cost export"), "%s",
                  all_problems(e));
        CHECK_INT(e->rows_count, 0);
        weir_export_close(r);
    }
}

/* --- One file, one claim --- */

struct text_case {
    const char *claim, *text;
    struct totals want; /* when there is no error */
    const char *error;  /* NULL: none */
    const char *told;   /* part of a warning or note; NULL: nothing looked for */
};

static const struct text_case text_cases[] = {
    {"byte order mark, CRLF, quoted cells",
     "\xef\xbb\xbf\"start_time\",\"end_time\",\"model\",\"input_tokens\",\"output_tokens\"\r\n"
     "\"1764460800\",\"1764464400\",\"a \"\"b\"\", c\",\"7\",\"8\"\r\n",
     {1, -1, 7, 0, 0, 8},
     NULL,
     NULL},
    {"columns in another order and case, semicolons",
     "Output_Tokens; INPUT_TOKENS ;end_time;start_time;model\n8;7;1764464400;1764460800;m\n",
     {1, -1, 7, 0, 0, 8},
     NULL,
     NULL},
    {"a line end inside a quoted cell moves the lines that follow",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,\"two\nlines\",,7,8,0\n" OPENAI_TIMES "p,1,k,m,,-1,8,0\n",
     {0},
     "f:4: input_tokens is -1",
     NULL},
    {"lone CR ends lines",
     "start_time,end_time,model,input_tokens,output_tokens\r1764460800,1764464400,m,7,8\r",
     {1, -1, 7, 0, 0, 8},
     NULL,
     NULL},
    {"an export of nothing has the times only",
     "start_time,end_time,start_time_iso,end_time_iso\n" OPENAI_TIMES "\n",
     {0},
     "f:2: has 5 cells, the first line has 4",
     NULL},
    {"an export of nothing, as it is written",
     "start_time,end_time,start_time_iso,end_time_iso\n"
     "1764460800,1764464400,2025-11-30T00:00:00+00:00,2025-11-30T01:00:00+00:00\n",
     {0},
     NULL,
     "says that nothing was used"},
    {"a header and no rows", OPENAI_HEAD, {0}, NULL, "says that nothing was used, and not when"},
    {"null keys, 151.0, unknown columns",
     "start_time,end_time,model,input_tokens,output_tokens,num_model_requests,api_key_id,colour,"
     "input_video_tokens\n1764460800,1764464400,m,7.0,8.00,151.0,null,red,5\n",
     {1, 151, 7, 0, 0, 8},
     NULL,
     "not known and passed over: \"colour\", \"input_video_tokens\""},
    {"a split is never added",
     "start_time,end_time,model,input_tokens,output_tokens,input_audio_tokens,output_audio_tokens,"
     "input_text_tokens\n1764460800,1764464400,m,7,8,3,4,4\n",
     {1, -1, 7, 0, 0, 8},
     NULL,
     NULL},
    {"input from its parts when the total is not there",
     "start_time,end_time,model,input_uncached_tokens,input_cached_tokens,input_cache_write_tokens,"
     "output_tokens\n1764460800,1764464400,m,7,20,3,8\n",
     {1, -1, 30, 20, 3, 8},
     NULL,
     NULL},
    {"ISO times alone, with zone, without, shifted, with a blank",
     "start_time_iso,end_time_iso,model,input_tokens,output_tokens\n"
     "2025-11-30T00:00:00Z,2025-11-30T01:00:00+00:00,m,1,1\n"
     "2025-11-30T01:00:00,2025-11-30 02:00,m,1,1\n"
     "2025-11-30T04:00:00+02:00,2025-11-30T04:00:00+0100,m,1,1\n",
     {3, -3, 3, 0, 0, 3},
     NULL,
     "f:3: \"2025-11-30T01:00:00\" names no time zone; taken as UTC"},
    {"ISO and number that differ",
     OPENAI_HEAD "1764460800,1764464400,2025-11-30T02:00:00Z,2025-11-30T01:00:00Z,p,1,k,m,,7,8,0\n",
     {1, 1, 7, 0, 0, 8},
     NULL,
     "is not the same instant"},
    {"hours of the console",
     CONSOLE_HEAD "2025-11-30 00:00,m,k,w,1,1\n2025-11-30 01:00,m,k,w,1,1\n",
     {2, -2, 2, 0, 0, 2},
     NULL,
     NULL},
    {"no model column",
     "start_time,end_time,input_tokens,output_tokens\n1764460800,1764464400,7,8\n",
     {1, -1, 7, 0, 0, 8},
     NULL,
     "all models are compared as one"},
    {"the same row twice in one file",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n" OPENAI_TIMES "p,1,k,m,,7,8,0\n",
     {1, 1, 7, 0, 0, 8},
     NULL,
     "1 row is given twice and counted once"},
    {"one bucket twice with other numbers",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n" OPENAI_TIMES "p,1,k,m,,9,8,0\n",
     {2, 2, 16, 0, 0, 16},
     NULL,
     "f line 2 (2025-11-30T00:00Z, model m, key k, project p) and line 3 are of the same bucket"},
    {"batch and not batch are two rows",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n" OPENAI_TIMES "p,1,k,m,true,7,8,0\n",
     {2, 2, 14, 0, 0, 16},
     NULL,
     NULL},
    {"no line end at the end",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0",
     {1, 1, 7, 0, 0, 8},
     NULL,
     "f:2: the last line has no line end"},

    {"cut in a row", OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7", {0}, "ends in the middle", NULL},
    {"cut in a quoted cell",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,\"m,,7,8\n",
     {0},
     "f: line 2: the file ends in the middle",
     NULL},
    {"a short row in the middle",
     OPENAI_HEAD "1764460800,1764464400\n" OPENAI_TIMES "p,1,k,m,,7,8,0\n",
     {0},
     "f:2: has not as many cells as the first line (12)",
     NULL},
    {"a long row",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0,0,0\n",
     {0},
     "f:2: has 14 cells, the first line has 12",
     NULL},
    {"a quote in the middle of a cell",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m\"m,,7,8,0\n",
     {0},
     "line 2: not CSV",
     NULL},
    {"needed columns missing",
     "start_time,model,input_tokens\n1,m,7\n",
     {0},
     "the columns end_time, output_tokens are missing; found: start_time,model,input_tokens",
     NULL},
    {"a column twice",
     "start_time,end_time,input_tokens,input_tokens,output_tokens\n",
     {0},
     "the column input_tokens is there twice",
     NULL},
    {"a fraction",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7.5,8,0\n",
     {0},
     "f:2: input_tokens is \"7.5\", not a whole number",
     NULL},
    {"digits in groups",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,\"7,000\",8,0\n",
     {0},
     "input_tokens is \"7,000\", not a whole number",
     NULL},
    {"absurd",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,4503599627370497,8,0\n",
     {0},
     "more than 2^52 cannot be right",
     NULL},
    {"longer than any number",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,99999999999999999999,8,0\n",
     {0},
     "input_tokens is",
     NULL},
    {"more cached than there was",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,9\n",
     {0},
     "f:2: cached and written input (9) is more than all input (7)",
     NULL},
    {"absurd in all",
     "start_time,end_time,model,input_uncached_tokens,input_cached_tokens,output_tokens\n"
     "1764460800,1764464400,m,4503599627370496,4503599627370496,8\n",
     {0},
     "f:2: its input is 9007199254740992 in all: more than 2^52 cannot be right",
     NULL},
    {"a model without tokens",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,,,\n",
     {0},
     "f:2: it names a key or a model, but no input tokens",
     NULL},
    {"a model that is not UTF-8",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m\xe9,,7,8,0\n",
     {0},
     "f:2: model is not UTF-8",
     NULL},
    {"a model with a control character",
     OPENAI_PAGE("{\"input_tokens\":7,\"output_tokens\":1,\"model\":\"a\\u0007\"}"),
     {0},
     "model is not UTF-8, or has a control character",
     NULL},
    {"milliseconds",
     OPENAI_HEAD "1764460800000,1764464400000,,,p,1,k,m,,7,8,0\n",
     {0},
     "f:2: the bucket's start is 1764460800000, which is no time in unix seconds",
     NULL},
    {"no time",
     OPENAI_HEAD ",,,,p,1,k,m,,7,8,0\n",
     {0},
     "f:2: the bucket's start is missing",
     NULL},
    {"an end before the start",
     OPENAI_HEAD "1764464400,1764460800,,,p,1,k,m,,7,8,0\n",
     {0},
     "f:2: the bucket ends before it starts",
     NULL},
    {"no date",
     CONSOLE_HEAD "30.11.2025,m,k,w,1,1\n",
     {0},
     "f:2: the bucket's date is \"30.11.2025\", not a date and time",
     NULL},
    {"the cost CSV",
     "start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity,"
     "line_item\n",
     {0},
     "this is the cost export; give the completions usage export",
     NULL},
    {"something else", "name,age\nann,7\n", {0}, "no usage export that is known", NULL},
    {"empty", "", {0}, "f: is empty", NULL},
    {"blank", " \n\n", {0}, "f: is empty", NULL},
    {"UTF-16", "\xff\xfes", {0}, "is UTF-16; save it as UTF-8", NULL},

    {"a page", OPENAI_PAGE(OPENAI_RESULT("k", 7, 8)), {1, 1, 7, 0, 0, 8}, NULL, NULL},
    {"pages one after the other, as they are appended to one file",
     OPENAI_PAGE(OPENAI_RESULT("a", 7, 8)) "\n" OPENAI_PAGE(OPENAI_RESULT("b", 1, 1)) "\n",
     {2, 2, 8, 0, 0, 9},
     NULL,
     NULL},
    {"a list of pages",
     "[" OPENAI_PAGE(OPENAI_RESULT("a", 7, 8)) "," OPENAI_PAGE(OPENAI_RESULT("b", 1, 1)) "]",
     {2, 2, 8, 0, 0, 9},
     NULL,
     NULL},
    {"results before the times, numbers with a fraction of nothing, members not known",
     "{\"data\":[{\"results\":[{\"input_tokens\":7.0,\"output_tokens\":8,\"model\":\"\\u006d\","
     "\"hue\":1,\"more\":{\"x\":1}}],\"end_time\":1764464400,\"start_time\":1764460800}]}",
     {1, -1, 7, 0, 0, 8},
     NULL,
     "\"hue\", \"more.x\""},
    {"embeddings have no output",
     OPENAI_PAGE("{\"object\":\"organization.usage.embeddings.result\",\"input_tokens\":7,"
                 "\"num_model_requests\":2,\"model\":\"e\"}"),
     {1, 2, 7, 0, 0, 0},
     NULL,
     NULL},
    {"no output",
     OPENAI_PAGE("{\"input_tokens\":7,\"model\":\"e\"}"),
     {0},
     "f: data[0].results[0]: it has input tokens, but no output tokens",
     NULL},
    {"other usage",
     OPENAI_PAGE("{\"object\":\"organization.usage.images.result\",\"images\":7}"),
     {0},
     "is not usage that is counted in tokens",
     NULL},
    {"a negative number in JSON",
     OPENAI_PAGE(OPENAI_RESULT("k", -7, 8)),
     {0},
     "f: data[0].results[0]: input_tokens is -7",
     NULL},
    {"an object where a number should be",
     OPENAI_PAGE("{\"input_tokens\":{},\"output_tokens\":1}"),
     {0},
     "input_tokens is no single value",
     NULL},
    {"JSON cut",
     "{\"object\":\"page\",\"data\":[{\"start_time\":176",
     {0},
     "f: line 1, byte 43: the file ends in the middle",
     NULL},
    {"two documents, the second cut",
     OPENAI_PAGE(OPENAI_RESULT("k", 7, 8)) "\n{\"data\":[",
     {0},
     "f: line 2, byte",
     NULL},
    {"an error answer",
     "{\"error\":{\"message\":\"Invalid key\",\"type\":\"x\"}}",
     {0},
     "is an error answer of the API, no export: Invalid key",
     NULL},
    {"other JSON", "{\"a\":1}", {0}, "has no \"data\" with buckets", NULL},
    {"an empty list", "[]", {0}, "has no page of usage in it", NULL},
    {"a bucket without results",
     "{\"data\":[{\"start_time\":0,\"end_time\":3600}]}",
     {0},
     "data[0] has no list of results",
     NULL},
};

static void export__one_file__is_read_or_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(text_cases); i++) {
        const struct text_case *c = &text_cases[i];
        struct weir_export_reader *r = open_reader();
        add_text(r, "f", c->text);
        const struct weir_export *e = weir_export_finish(r);
        if (c->error) {
            CHECK_MSG(has_problem(e, WEIR_EXPORT_ERROR, c->error), "%s: %s", c->claim,
                      all_problems(e));
        } else {
            struct totals got = totals_of(e, NULL);
            CHECK_MSG(e->errors == 0, "%s: %s", c->claim, all_problems(e));
            CHECK_MSG(memcmp(&got, &c->want, sizeof got) == 0,
                      "%s: rows %lld requests %lld input %lld cached %lld written %lld output %lld",
                      c->claim, got.rows, got.requests, got.input, got.cached, got.cache_write,
                      got.output);
        }
        CHECK_MSG(!c->told || has_problem(e, WEIR_EXPORT_WARNING, c->told) ||
                      has_problem(e, WEIR_EXPORT_NOTE, c->told),
                  "%s: %s", c->claim, all_problems(e));
        weir_export_close(r);
    }
}

/* --- Several files --- */

struct pair_case {
    const char *claim, *first, *second;
    struct totals want;
    const char *error, *told;
};

static const struct pair_case pair_cases[] = {
    {"a bucket that grew counts as the later, whichever comes first",
     OPENAI_HEAD OPENAI_TIMES "p,3,k,m,,70,80,0\n",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n",
     {1, 3, 70, 0, 0, 80},
     NULL,
     "1 bucket grew between two files"},
    {"one bucket, neither is the later",
     OPENAI_HEAD OPENAI_TIMES "p,3,k,m,,70,8,0\n",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,80,0\n",
     {0},
     "neither is the later one",
     NULL},
    {"two projects exported apart add up",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n",
     OPENAI_HEAD OPENAI_TIMES "q,1,k,m,,7,8,0\n",
     {2, 2, 14, 0, 0, 16},
     NULL,
     NULL},
    {"hours and the day around them",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n",
     OPENAI_HEAD "1764460800,1764547200,,,p,1,k,m,,7,8,0\n",
     {0},
     "the files have buckets that overlap",
     NULL},
    {"once by key, once without",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n",
     OPENAI_HEAD OPENAI_TIMES "p,1,,m,,7,8,0\n",
     {0},
     "only one of them is grouped by API key",
     NULL},
    {"the two providers do not disturb each other",
     OPENAI_HEAD OPENAI_TIMES "p,1,k,m,,7,8,0\n",
     CONSOLE_HEAD "2025-11-30,m,k,w,1,2\n",
     {2, 0, 8, 0, 0, 10},
     NULL,
     NULL},
};

static void export__two_files__count_each_use_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(pair_cases); i++) {
        const struct pair_case *c = &pair_cases[i];
        struct weir_export_reader *r = open_reader();
        add_text(r, "f", c->first);
        add_text(r, "g", c->second);
        const struct weir_export *e = weir_export_finish(r);
        struct totals got = totals_of(e, NULL);
        CHECK_MSG(c->error ? has_problem(e, WEIR_EXPORT_ERROR, c->error) : e->errors == 0, "%s: %s",
                  c->claim, all_problems(e));
        CHECK_MSG(c->error || memcmp(&got, &c->want, sizeof got) == 0, "%s: %lld in, %lld out",
                  c->claim, got.input, got.output);
        CHECK_MSG(!c->told || has_problem(e, WEIR_EXPORT_WARNING, c->told), "%s: %s", c->claim,
                  all_problems(e));
        weir_export_close(r);
    }
}

/* Unknown columns are named; dots stand for those only that there was no room for. */
static void export__unknown_columns__are_named_while_there_is_room(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *name;
        bool has_dots;
    } cases[] = {{9, "c", false}, {12, "a_column_with_a_name_as_long_as_one_of_them_", true}};
    for (size_t i = 0; i < WEIR_COUNT(cases); i++) {
        struct weir_export_reader *r = open_reader();
        char text[1024];
        size_t used = (size_t)snprintf(text, sizeof text,
                                       "start_time,end_time,model,input_tokens,output_tokens");
        for (int k = 0; k < cases[i].columns; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, ",%s%d", cases[i].name, k);
        snprintf(text + used, sizeof text - used, "\n");
        add_text(r, "f", text);
        const struct weir_export *e = weir_export_finish(r);
        CHECK_MSG(has_problem(e, WEIR_EXPORT_NOTE, "not known and passed over: "), "%s",
                  all_problems(e));
        CHECK_MSG(has_problem(e, WEIR_EXPORT_NOTE, ", ...") == cases[i].has_dots, "%s",
                  all_problems(e));
        weir_export_close(r);
    }
}

static void export__many_bad_rows__are_bounded(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    size_t room = 1 << 20, used = 0;
    char *text = malloc(room);
    CHECK(text != NULL);
    used += (size_t)snprintf(text, room, "%s", OPENAI_HEAD);
    for (int i = 0; i < 5000; i++)
        used += (size_t)snprintf(text + used, room - used, "%s", OPENAI_TIMES "p,1,k,m,,x,8,0\n");
    for (int i = 0; i < 10; i++)
        add(r, "f", text, used);
    const struct weir_export *e = weir_export_finish(r);
    CHECK(has_problem(e, WEIR_EXPORT_ERROR, "too many errors; read up to line 22"));
    CHECK(has_problem(e, WEIR_EXPORT_ERROR, "... and 110 more like these"));
    CHECK_INT(e->problems_count, WEIR_EXPORT_PROBLEMS_MAX + 1);
    free(text);
    weir_export_close(r);
}

static void export__rows_in_sum_beyond_a_balance__are_refused(void **state)
{
    (void)state;
    struct weir_export_reader *r = open_reader();
    add_text(r, "f",
             OPENAI_PAGE(OPENAI_RESULT("a", 4503599627370496,
                                       1) "," OPENAI_RESULT("b", 4503599627370496, 1)));
    const struct weir_export *e = weir_export_finish(r);
    CHECK(has_problem(e, WEIR_EXPORT_ERROR, "add up to more than 2^53"));
    weir_export_close(r);
}

/* Cut anywhere, a file is an error or, cut between rows, a warning; never less without a word. */
static void export__every_prefix__is_told(void **state)
{
    (void)state;
    static const char *const names[] = {
        "openai_completions_usage.csv", "anthropic_console_usage.csv",
        "openai_usage_completions_page2.json", "anthropic_usage_report.json"};
    for (size_t i = 0; i < WEIR_COUNT(names); i++) {
        char path[128];
        snprintf(path, sizeof path, "usage/%s", names[i]);
        struct wire_bytes b = wire_load(path);
        while (b.n > 0 && b.at[b.n - 1] == '\n')
            b.n--;
        for (size_t n = 0; n < b.n; n++) {
            struct weir_export_reader *r = open_reader();
            add(r, "f", b.at, n);
            const struct weir_export *e = weir_export_finish(r);
            /* Between two rows of a CSV nothing can be seen. */
            bool is_between = b.at[0] != '{' && n > 0 && b.at[n - 1] == '\n';
            CHECK_MSG(is_between || e->errors + e->warnings > 0, "%s cut at %zu", names[i], n);
            weir_export_close(r);
        }
        free(b.at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(export__openai_pages__totals_of_the_samples),
        cmocka_unit_test(export__page_without_the_next__is_warned_of),
        cmocka_unit_test(export__openai_dashboard__totals_of_the_sample),
        cmocka_unit_test(export__dashboard_and_pages_of_one_time__count_once),
        cmocka_unit_test(export__anthropic_report__totals_of_the_sample),
        cmocka_unit_test(export__anthropic_console__totals_of_the_sample),
        cmocka_unit_test(export__costs__are_refused_by_name),
        cmocka_unit_test(export__one_file__is_read_or_told),
        cmocka_unit_test(export__two_files__count_each_use_once),
        cmocka_unit_test(export__unknown_columns__are_named_while_there_is_room),
        cmocka_unit_test(export__many_bad_rows__are_bounded),
        cmocka_unit_test(export__rows_in_sum_beyond_a_balance__are_refused),
        cmocka_unit_test(export__every_prefix__is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

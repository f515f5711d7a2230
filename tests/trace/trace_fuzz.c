/* Traces: no file hurts, in whatever portions it comes, and what was read can be written and read. */
#include "trace/trace.h"
#include "wire/fuzz.h"

#define ENTRIES_MAX 512

struct fuzz_reading {
    void *memory;
    struct weir_trace_reader *reader;
    struct weir_trace_entry *entries;
    size_t count;
    bool is_whole;
};

static bool fuzz_take(void *ctx, const struct weir_trace_entry *entry)
{
    struct fuzz_reading *g = ctx;
    FUZZ_CHECK(g->count < ENTRIES_MAX, "more rows than the bound");
    FUZZ_CHECK(entry->cached_tok <= entry->prompt_tok && entry->prompt_tok <= WEIR_TRACE_TOK_MAX,
               "tokens in range");
    FUZZ_CHECK(entry->tenant < weir_trace_names_count(g->reader, WEIR_TRACE_TENANT) &&
                   entry->lane < weir_trace_names_count(g->reader, WEIR_TRACE_LANE) &&
                   entry->model < weir_trace_names_count(g->reader, WEIR_TRACE_MODEL),
               "names known when an entry is given out");
    FUZZ_CHECK((entry->outcome == WEIR_TRACE_REFUSED) <= (entry->refusal != WEIR_REFUSAL_NONE),
               "a refusal has a reason");
    g->entries[g->count++] = *entry;
    return true;
}

/* portion 0: all at once; else so many bytes at a time, the first cut at `first`. */
static void fuzz_read(struct fuzz_reading *g, const uint8_t *data, size_t n, size_t first,
                      size_t portion)
{
    static const struct weir_trace_limits limits = {.names_max = 16, .rows_max = ENTRIES_MAX};
    size_t bytes = weir_trace_bytes(&limits);
    *g = (struct fuzz_reading){.memory = calloc(1, bytes),
                               .entries = calloc(ENTRIES_MAX, sizeof *g->entries)};
    FUZZ_CHECK(g->memory && g->entries, "no memory");
    g->reader = weir_trace_init(g->memory, bytes, &limits, NULL, fuzz_take, g);
    bool goes_on = true;
    for (size_t at = 0, take = first; at < n && goes_on; at += take, take = portion) {
        take = take == 0 || take > n - at ? n - at : take;
        uint8_t *copy = fuzz_copy(data + at, take);
        goes_on = weir_trace_push(g->reader, copy, take);
        free(copy);
    }
    g->is_whole = weir_trace_finish(g->reader);
    FUZZ_CHECK(g->is_whole == (weir_trace_problem(g->reader)->text[0] == '\0'),
               "a reason is given");
}

static void fuzz_free(struct fuzz_reading *g)
{
    free(g->memory);
    free(g->entries);
}

static void fuzz_same(const struct fuzz_reading *a, const struct fuzz_reading *b)
{
    FUZZ_CHECK(a->is_whole == b->is_whole && a->count == b->count, "portions change what is read");
    FUZZ_CHECK(memcmp(a->entries, b->entries, a->count * sizeof *a->entries) == 0,
               "entries differ");
    const struct weir_trace_problem *p = weir_trace_problem(a->reader),
                                    *q = weir_trace_problem(b->reader);
    FUZZ_CHECK(p->line == q->line && strcmp(p->text, q->text) == 0, "the problem differs");
}

/* A trace that was read whole: as a recording it reads again. */
static void fuzz_again(struct fuzz_reading *g)
{
    size_t cap = WEIR_TRACE_HEADER_BYTES + g->count * WEIR_TRACE_LINE_BYTES;
    char *text = malloc(cap);
    FUZZ_CHECK(text, "no memory");
    size_t used = weir_trace_header(0, text, cap);
    for (size_t i = 0; i < g->count; i++) {
        const struct weir_trace_entry *e = &g->entries[i];
        size_t bytes = weir_trace_line(e, weir_trace_name(g->reader, WEIR_TRACE_TENANT, e->tenant),
                                       weir_trace_name(g->reader, WEIR_TRACE_LANE, e->lane),
                                       weir_trace_name(g->reader, WEIR_TRACE_MODEL, e->model),
                                       text + used, cap - used);
        FUZZ_CHECK(bytes > 0, "a line fits its bound");
        used += bytes;
    }
    struct fuzz_reading again;
    fuzz_read(&again, (const uint8_t *)text, used, 0, 0);
    FUZZ_CHECK(again.is_whole && again.count == g->count, "what was written cannot be read");
    for (size_t i = 0; i < g->count; i++) {
        const struct weir_trace_entry *e = &g->entries[i], *f = &again.entries[i];
        FUZZ_CHECK(e->prompt_tok == f->prompt_tok && e->output_tok == f->output_tok &&
                       e->latency_ns == f->latency_ns && e->outcome == f->outcome &&
                       weir_min_u64(e->arrival_ns, WEIR_TRACE_TIME_MAX_NS) == f->arrival_ns,
                   "written and read, it is another");
        FUZZ_CHECK(strcmp(weir_trace_name(g->reader, WEIR_TRACE_TENANT, e->tenant),
                          weir_trace_name(again.reader, WEIR_TRACE_TENANT, f->tenant)) == 0,
                   "the name is another");
    }
    free(text);
    fuzz_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_reading whole, bytes, cut;
    size_t at = fuzz_split(data, n);
    fuzz_read(&whole, data, n, 0, 0);
    fuzz_read(&bytes, data, n, 1, 1);
    fuzz_read(&cut, data, n, at, 0);
    fuzz_same(&whole, &bytes);
    fuzz_same(&whole, &cut);
    if (whole.is_whole)
        fuzz_again(&whole);
    struct weir_trace_entry *scratch = calloc(ENTRIES_MAX, sizeof *scratch);
    FUZZ_CHECK(scratch, "no memory");
    weir_trace_settle(whole.entries, scratch, whole.count);
    for (size_t i = 1; i < whole.count; i++)
        FUZZ_CHECK(whole.entries[i - 1].arrival_ns <= whole.entries[i].arrival_ns, "not sorted");
    free(scratch);
    fuzz_free(&whole);
    fuzz_free(&bytes);
    fuzz_free(&cut);
    return 0;
}

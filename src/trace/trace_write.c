#include "trace/trace_inside.h"

static const enum trace_column write_columns[] = {
    COLUMN_ARRIVAL_S, COLUMN_TENANT, COLUMN_LANE,       COLUMN_MODEL,
    COLUMN_STREAM,    COLUMN_PROMPT, COLUMN_CACHED,     COLUMN_OUTPUT,
    COLUMN_ESTIMATE,  COLUMN_LIMIT,  COLUMN_QUEUE_WAIT, COLUMN_FIRST_BYTE,
    COLUMN_LATENCY,   COLUMN_STATUS, COLUMN_REASON,     COLUMN_OUTCOME,
};

/* A time in seconds, exact: as many decimals as it needs. */
static void write_time(struct trace_text *t, uint64_t ns)
{
    char fraction[] = ".000000000";
    size_t used = sizeof fraction - 1;
    uint64_t rest = ns % WEIR_NS_PER_S;
    trace_text_number(t, ns / WEIR_NS_PER_S);
    if (rest == 0)
        return;
    for (size_t i = used - 1; i > 0; i--, rest /= 10)
        fraction[i] = (char)('0' + rest % 10);
    while (fraction[used - 1] == '0')
        used--;
    fraction[used] = '\0';
    trace_text_add(t, fraction);
}

static void write_wait(struct trace_text *t, uint64_t ns)
{
    if (ns > 0)
        write_time(t, weir_min_u64(ns, WEIR_TRACE_TIME_MAX_NS));
    trace_text_add(t, ",");
}

static void write_tok(struct trace_text *t, uint32_t tok)
{
    trace_text_number(t, weir_min_u64(tok, WEIR_TRACE_TOK_MAX));
    trace_text_add(t, ",");
}

static void write_byte(struct trace_text *t, char byte)
{
    const char text[2] = {byte, '\0'};
    trace_text_add(t, text);
}

/* Always in quotes: then neither a comma nor a # at the row's begin needs a case of its own. */
static void write_name(struct trace_text *t, const char *name)
{
    char kept[WEIR_TRACE_NAME_BYTES];
    size_t used = 0;
    for (; *name && used + 1 < sizeof kept; name++)
        kept[used++] = (unsigned char)*name < ' ' || *name == 0x7f ? ' ' : *name;
    if (*name) /* not in the middle of a UTF-8 sequence */
        while (used > 0 && ((unsigned char)*name & 0xc0) == 0x80)
            name--, used--;
    kept[used] = '\0';
    if (trace_name_fault(kept)) /* not UTF-8: what can be read is kept */
        for (char *c = kept; *c; c++)
            *c = (unsigned char)*c >= 0x80 ? '?' : *c;
    if (used == 0) {
        write_byte(t, ',');
        return;
    }
    write_byte(t, '"');
    for (const char *c = kept; *c; c++) {
        if (*c == '"')
            write_byte(t, '"');
        write_byte(t, *c);
    }
    trace_text_add(t, "\",");
}

size_t weir_trace_header(int64_t began_us, char *out, size_t cap)
{
    if (cap < WEIR_TRACE_HEADER_BYTES)
        return 0;
    struct trace_text t = {.at = out, .cap = cap};
    trace_text_add(&t, "#weir recording 1 began ");
    write_time(&t, began_us > 0
                       ? weir_min_u64((uint64_t)began_us, WEIR_TRACE_TIME_MAX_NS / WEIR_NS_PER_US) *
                             WEIR_NS_PER_US
                       : 0);
    for (size_t i = 0; i < WEIR_COUNT(write_columns); i++) {
        write_byte(&t, i == 0 ? '\n' : ',');
        trace_text_add(&t, trace_column_names[write_columns[i]]);
    }
    write_byte(&t, '\n');
    return t.used;
}

size_t weir_trace_line(const struct weir_trace_entry *e, const char *tenant, const char *lane,
                       const char *model, char *out, size_t cap)
{
    if (cap < WEIR_TRACE_LINE_BYTES)
        return 0;
    struct trace_text t = {.at = out, .cap = cap};
    write_time(&t, weir_min_u64(e->arrival_ns, WEIR_TRACE_TIME_MAX_NS));
    write_byte(&t, ',');
    write_name(&t, tenant);
    write_name(&t, lane);
    write_name(&t, model);
    trace_text_add(&t, e->is_stream ? "1," : "0,");
    write_tok(&t, e->prompt_tok);
    write_tok(&t, e->cached_tok < e->prompt_tok ? e->cached_tok : e->prompt_tok);
    write_tok(&t, e->output_tok);
    write_tok(&t, e->estimate_tok);
    write_tok(&t, e->output_limit_tok);
    write_wait(&t, e->queue_wait_ns);
    write_wait(&t, e->first_byte_ns);
    write_wait(&t, e->latency_ns);
    write_tok(&t, e->status < 1000 ? e->status : 999);
    if (e->outcome == WEIR_TRACE_REFUSED || e->outcome == WEIR_TRACE_CUT)
        trace_text_add(&t, weir_refusal_row(e->refusal)->code);
    write_byte(&t, ',');
    trace_text_add(&t, trace_outcome_words[e->outcome]);
    write_byte(&t, '\n');
    return t.used;
}

size_t weir_trace_dropped_line(uint64_t count, char *out, size_t cap)
{
    if (cap < WEIR_TRACE_LINE_BYTES)
        return 0;
    struct trace_text t = {.at = out, .cap = cap};
    trace_text_add(&t, "#weir dropped ");
    trace_text_number(&t, count);
    write_byte(&t, '\n');
    return t.used;
}

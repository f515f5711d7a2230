#include "trace/trace_inside.h"

static const enum trace_column write_columns[] = {
    COLUMN_ARRIVAL_S, COLUMN_TENANT, COLUMN_LANE,       COLUMN_MODEL,
    COLUMN_STREAM,    COLUMN_PROMPT, COLUMN_CACHED,     COLUMN_OUTPUT,
    COLUMN_ESTIMATE,  COLUMN_LIMIT,  COLUMN_QUEUE_WAIT, COLUMN_FIRST_BYTE,
    COLUMN_LATENCY,   COLUMN_STATUS, COLUMN_REASON,     COLUMN_OUTCOME,
};

/* Where the next byte goes. Every line has a bound that its buffer holds (WEIR_TRACE_LINE_BYTES),
 * so nothing is checked on the way: a gateway writes one for each request. */
struct trace_out {
    char *at;
};

static void write_byte(struct trace_out *o, char byte)
{
    *o->at++ = byte;
}

static void write_text(struct trace_out *o, const char *text)
{
    while (*text)
        *o->at++ = *text++;
}

static void write_number(struct trace_out *o, uint64_t number)
{
    char digits[20];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *o->at++ = digits[--count];
}

/* A time in seconds, exact: as many decimals as it needs. */
static void write_time(struct trace_out *o, uint64_t ns)
{
    uint32_t rest = (uint32_t)(ns % WEIR_NS_PER_S);
    write_number(o, ns / WEIR_NS_PER_S);
    if (rest == 0)
        return;
    write_byte(o, '.');
    for (uint32_t place = (uint32_t)WEIR_NS_PER_S / 10; rest > 0; rest %= place, place /= 10)
        write_byte(o, (char)('0' + rest / place));
}

static void write_wait(struct trace_out *o, uint64_t ns)
{
    if (ns > 0)
        write_time(o, weir_min_u64(ns, WEIR_TRACE_TIME_MAX_NS));
    write_byte(o, ',');
}

static void write_tok(struct trace_out *o, uint32_t tok)
{
    write_number(o, weir_min_u64(tok, WEIR_TRACE_TOK_MAX));
    write_byte(o, ',');
}

/* A name that the reader takes: cut where it is long, blanks for control characters, UTF-8 or not
 * at all. Returns kept. */
static const char *write_name_mend(const char *name, char kept[static WEIR_TRACE_NAME_BYTES])
{
    size_t used = 0;
    for (; *name && used + 1 < WEIR_TRACE_NAME_BYTES; name++) {
        size_t control = trace_control(name);
        kept[used++] = control ? ' ' : *name;
        name += control == 2;
    }
    while (used > 0 && ((unsigned char)*name & 0xc0) == 0x80) /* not in the middle of a sequence */
        name--, used--;
    kept[used] = '\0';
    if (trace_name_fault(kept))
        for (char *c = kept; *c; c++)
            *c = (unsigned char)*c >= 0x80 ? '?' : *c;
    return kept;
}

/* Always in quotes: then neither a comma nor a # at the row's begin needs a case of its own. */
static void write_name(struct trace_out *o, const char *name)
{
    char kept[WEIR_TRACE_NAME_BYTES];
    if (*name) {
        if (trace_name_fault(name))
            name = write_name_mend(name, kept);
        write_byte(o, '"');
        for (; *name; name++) {
            if (*name == '"')
                write_byte(o, '"');
            write_byte(o, *name);
        }
        write_byte(o, '"');
    }
    write_byte(o, ',');
}

size_t weir_trace_header(int64_t began_us, char *out, size_t cap)
{
    const uint64_t max_us = WEIR_TRACE_TIME_MAX_NS / WEIR_NS_PER_US;
    struct trace_out o = {out};
    if (cap < WEIR_TRACE_HEADER_BYTES)
        return 0;
    write_text(&o, "#weir recording 1 began ");
    write_time(&o, began_us > 0 ? weir_min_u64((uint64_t)began_us, max_us) * WEIR_NS_PER_US : 0);
    for (size_t i = 0; i < WEIR_COUNT(write_columns); i++) {
        write_byte(&o, i == 0 ? '\n' : ',');
        write_text(&o, trace_column_names[write_columns[i]]);
    }
    write_byte(&o, '\n');
    return (size_t)(o.at - out);
}

size_t weir_trace_line(const struct weir_trace_entry *e, const char *tenant, const char *lane,
                       const char *model, char *out, size_t cap)
{
    struct trace_out o = {out};
    if (cap < WEIR_TRACE_LINE_BYTES)
        return 0;
    write_time(&o, weir_min_u64(e->arrival_ns, WEIR_TRACE_TIME_MAX_NS));
    write_byte(&o, ',');
    write_name(&o, tenant);
    write_name(&o, lane);
    write_name(&o, model);
    write_text(&o, e->is_stream ? "1," : "0,");
    write_tok(&o, e->prompt_tok);
    write_tok(&o, e->cached_tok < e->prompt_tok ? e->cached_tok : e->prompt_tok);
    write_tok(&o, e->output_tok);
    write_tok(&o, e->estimate_tok);
    write_tok(&o, e->output_limit_tok);
    write_wait(&o, e->queue_wait_ns);
    write_wait(&o, e->first_byte_ns);
    write_wait(&o, e->latency_ns);
    write_tok(&o, e->status < 1000 ? e->status : 999);
    if (e->outcome == WEIR_TRACE_REFUSED || e->outcome == WEIR_TRACE_CUT)
        write_text(&o, weir_refusal_row(e->refusal)->code);
    write_byte(&o, ',');
    write_text(&o, trace_outcome_words[e->outcome]);
    write_byte(&o, '\n');
    WEIR_INVARIANT((size_t)(o.at - out) <= WEIR_TRACE_LINE_BYTES);
    return (size_t)(o.at - out);
}

size_t weir_trace_dropped_line(uint64_t count, char *out, size_t cap)
{
    struct trace_out o = {out};
    if (cap < WEIR_TRACE_LINE_BYTES)
        return 0;
    write_text(&o, "#weir dropped ");
    write_number(&o, count);
    write_byte(&o, '\n');
    return (size_t)(o.at - out);
}

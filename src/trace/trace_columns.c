#include "trace/trace_inside.h"

#define BIT(column) (UINT32_C(1) << (column))
#define COLUMNS_ARRIVAL (BIT(COLUMN_TIMESTAMP) | BIT(COLUMN_ARRIVAL_S) | BIT(COLUMN_ARRIVAL_MS))

_Static_assert(COLUMN_COUNT <= 32, "a column is a bit");

const char *const trace_column_names[COLUMN_COUNT] = {
    [COLUMN_TIMESTAMP] = "TIMESTAMP",
    [COLUMN_CONTEXT] = "ContextTokens",
    [COLUMN_GENERATED] = "GeneratedTokens",
    [COLUMN_ARRIVAL_S] = "arrival_s",
    [COLUMN_ARRIVAL_MS] = "arrival_ms",
    [COLUMN_TENANT] = "tenant",
    [COLUMN_PROMPT] = "prompt_tokens",
    [COLUMN_OUTPUT] = "output_tokens",
    [COLUMN_REUSED] = "reused_prefix_tokens",
    [COLUMN_SCHEDULER] = "scheduler",
    [COLUMN_FIRST_TOKEN] = "first_token_s",
    [COLUMN_LATENCY] = "latency_s",
    [COLUMN_LANE] = "lane",
    [COLUMN_MODEL] = "model",
    [COLUMN_STREAM] = "stream",
    [COLUMN_CACHED] = "cached_tokens",
    [COLUMN_ESTIMATE] = "estimate_tokens",
    [COLUMN_LIMIT] = "output_limit_tokens",
    [COLUMN_QUEUE_WAIT] = "queue_wait_s",
    [COLUMN_FIRST_BYTE] = "first_byte_s",
    [COLUMN_STATUS] = "status",
    [COLUMN_REASON] = "reason",
    [COLUMN_OUTCOME] = "outcome",
};

/* No word begins another, so that one cut short is seen. */
const char *const trace_outcome_words[WEIR_TRACE_OUTCOME_COUNT] = {
    [WEIR_TRACE_FINISHED] = "finished", [WEIR_TRACE_REFUSED] = "refused",
    [WEIR_TRACE_GONE] = "gone",         [WEIR_TRACE_FAILED] = "failed",
    [WEIR_TRACE_CUT] = "cut",
};

/* What a form must have. */
static const uint32_t form_columns[] = {
    [WEIR_TRACE_UNKNOWN] = 0,
    [WEIR_TRACE_AZURE] = BIT(COLUMN_TIMESTAMP) | BIT(COLUMN_CONTEXT) | BIT(COLUMN_GENERATED),
    [WEIR_TRACE_ARENA] =
        BIT(COLUMN_ARRIVAL_S) | BIT(COLUMN_TENANT) | BIT(COLUMN_PROMPT) | BIT(COLUMN_OUTPUT),
    [WEIR_TRACE_MOONCAKE] = BIT(COLUMN_ARRIVAL_MS) | BIT(COLUMN_PROMPT) | BIT(COLUMN_OUTPUT),
    [WEIR_TRACE_RECORDING] =
        BIT(COLUMN_ARRIVAL_S) | BIT(COLUMN_TENANT) | BIT(COLUMN_LANE) | BIT(COLUMN_MODEL) |
        BIT(COLUMN_STREAM) | BIT(COLUMN_PROMPT) | BIT(COLUMN_CACHED) | BIT(COLUMN_OUTPUT) |
        BIT(COLUMN_ESTIMATE) | BIT(COLUMN_LIMIT) | BIT(COLUMN_QUEUE_WAIT) | BIT(COLUMN_FIRST_BYTE) |
        BIT(COLUMN_LATENCY) | BIT(COLUMN_STATUS) | BIT(COLUMN_REASON) | BIT(COLUMN_OUTCOME),
};

const char *weir_trace_form_name(enum weir_trace_form form)
{
    switch (form) {
    case WEIR_TRACE_UNKNOWN:
        break;
    case WEIR_TRACE_AZURE:
        return "Azure";
    case WEIR_TRACE_ARENA:
        return "arena";
    case WEIR_TRACE_MOONCAKE:
        return "Mooncake";
    case WEIR_TRACE_RECORDING:
        return "recording";
    }
    return "unknown";
}

static const char *columns_cell(const struct weir_trace_reader *r, enum trace_column column)
{
    uint32_t cell = r->column_cell[column];
    return cell == WEIR_NONE ? NULL : r->text + r->cell_at[cell];
}

static bool columns_unknown(struct weir_trace_reader *r)
{
    struct trace_text t = trace_problem_begin(r);
    trace_text_add(&t, "the first line must name the columns; it begins with ");
    trace_text_cell(&t, r->text + r->cell_at[0]);
    trace_text_add(&t, ". Known are TIMESTAMP,ContextTokens,GeneratedTokens (Azure), "
                       "arrival_s,tenant,prompt_tokens,output_tokens (arena), "
                       "arrival_ms,prompt_tokens,output_tokens (Mooncake), and weir's recordings");
    return false;
}

static bool columns_missing(struct weir_trace_reader *r, enum weir_trace_form form,
                            uint32_t missing)
{
    struct trace_text t = trace_problem_begin(r);
    trace_text_add(&t, "the columns are those of the ");
    trace_text_add(&t, weir_trace_form_name(form));
    trace_text_add(&t, " form, but without ");
    trace_text_add(&t, trace_column_names[__builtin_ctz(missing)]);
    return false;
}

static bool columns_said(struct weir_trace_reader *r, const char *text)
{
    struct trace_text t = trace_problem_begin(r);
    trace_text_add(&t, text);
    return false;
}

/* The header's cells to columns. */
static bool columns_find(struct weir_trace_reader *r, uint32_t *found)
{
    *found = 0;
    for (uint32_t c = 0; c < COLUMN_COUNT; c++)
        r->column_cell[c] = WEIR_NONE;
    for (uint32_t cell = 0; cell < r->cells_count; cell++)
        for (uint32_t c = 0; c < COLUMN_COUNT; c++) {
            if (!trace_is_equal(r->text + r->cell_at[cell], trace_column_names[c]))
                continue;
            if (*found & BIT(c)) {
                struct trace_text t = trace_problem_begin(r);
                trace_text_add(&t, "two columns are named ");
                trace_text_add(&t, trace_column_names[c]);
                return false;
            }
            *found |= BIT(c);
            r->column_cell[c] = cell;
        }
    return true;
}

bool trace_read_header(struct weir_trace_reader *r)
{
    uint32_t found, arrivals;
    if (!columns_find(r, &found))
        return false;
    arrivals = found & COLUMNS_ARRIVAL;
    if (arrivals & (arrivals - 1))
        return columns_said(r, "two columns tell the arrival: one of TIMESTAMP, arrival_s and "
                               "arrival_ms may stand");
    enum weir_trace_form form = found & BIT(COLUMN_OUTCOME)      ? WEIR_TRACE_RECORDING
                                : found & BIT(COLUMN_TIMESTAMP)  ? WEIR_TRACE_AZURE
                                : found & BIT(COLUMN_ARRIVAL_MS) ? WEIR_TRACE_MOONCAKE
                                : found & BIT(COLUMN_ARRIVAL_S)  ? WEIR_TRACE_ARENA
                                                                 : WEIR_TRACE_UNKNOWN;
    if (r->is_recording && form != WEIR_TRACE_RECORDING)
        return columns_said(r, "behind a \"#weir recording\" line the columns of a recording must "
                               "follow");
    if (form == WEIR_TRACE_UNKNOWN)
        return columns_unknown(r);
    if (form_columns[form] & ~found)
        return columns_missing(r, form, form_columns[form] & ~found);
    if (form == WEIR_TRACE_ARENA &&
        !(found & BIT(COLUMN_FIRST_TOKEN)) != !(found & BIT(COLUMN_LATENCY)))
        return columns_missing(
            r, form, found & BIT(COLUMN_LATENCY) ? BIT(COLUMN_FIRST_TOKEN) : BIT(COLUMN_LATENCY));
    r->form = form;
    r->columns_count = r->cells_count;
    return true;
}

static bool entry_tok(struct weir_trace_reader *r, enum trace_column column, uint32_t *tok)
{
    const char *cell = columns_cell(r, column);
    uint64_t value;
    if (!trace_whole(cell, WEIR_TRACE_TOK_MAX, &value))
        return trace_problem_cell(r, column, cell, "a whole number from 0 to 1000000000");
    *tok = (uint32_t)value;
    return true;
}

static bool entry_time(struct weir_trace_reader *r, enum trace_column column, uint64_t unit_ns,
                       uint64_t *ns)
{
    const char *cell = columns_cell(r, column);
    if (trace_decimal_ns(cell, unit_ns, ns))
        return true;
    return trace_problem_cell(r, column, cell,
                              unit_ns == WEIR_NS_PER_S
                                  ? "seconds as a decimal number from 0 to 4294967295"
                                  : "milliseconds as a decimal number from 0 to 4294967295000");
}

/* A time that may be missing: 0 then. */
static bool entry_wait(struct weir_trace_reader *r, enum trace_column column, uint64_t *ns)
{
    *ns = 0;
    return *columns_cell(r, column) == '\0' || entry_time(r, column, WEIR_NS_PER_S, ns);
}

static bool entry_name(struct weir_trace_reader *r, enum trace_column column,
                       enum weir_trace_kind kind, uint32_t *index)
{
    const char *cell = columns_cell(r, column), *fault = trace_name_fault(cell);
    if (fault)
        return trace_problem_cell(r, column, cell, fault);
    *index = trace_names_index(&r->names[kind], cell);
    if (*index != WEIR_NONE)
        return true;
    struct trace_text t = trace_problem_begin(r);
    trace_text_add(&t, "more than ");
    trace_text_number(&t, r->limits.names_max - 1);
    trace_text_add(&t, " different names stand in the column ");
    trace_text_add(&t, trace_column_names[column]);
    return false;
}

static bool entry_azure(struct weir_trace_reader *r, struct weir_trace_entry *e)
{
    const char *cell = columns_cell(r, COLUMN_TIMESTAMP);
    if (!trace_timestamp_ns(cell, &e->arrival_ns))
        return trace_problem_cell(r, COLUMN_TIMESTAMP, cell,
                                  "a date and time that exists, as in 2023-11-16 18:17:03.9799600, "
                                  "from 1970 to 2099, without a zone or in UTC");
    return entry_tok(r, COLUMN_CONTEXT, &e->prompt_tok) &&
           entry_tok(r, COLUMN_GENERATED, &e->output_tok);
}

/* The waits of a measured run: -1,-1 is a refusal by a request limit. */
static bool entry_measured(struct weir_trace_reader *r, struct weir_trace_entry *e)
{
    const char *first = columns_cell(r, COLUMN_FIRST_TOKEN);
    const char *latency = columns_cell(r, COLUMN_LATENCY);
    e->is_measured = true;
    if (trace_is_equal(first, "-1") && trace_is_equal(latency, "-1")) {
        e->outcome = WEIR_TRACE_REFUSED;
        e->refusal = WEIR_REFUSAL_RATE_LIMIT;
        return true;
    }
    if (!entry_time(r, COLUMN_FIRST_TOKEN, WEIR_NS_PER_S, &e->first_byte_ns) ||
        !entry_time(r, COLUMN_LATENCY, WEIR_NS_PER_S, &e->latency_ns))
        return false;
    if (e->latency_ns < e->first_byte_ns)
        return trace_problem_cell(r, COLUMN_LATENCY, latency, "at least first_token_s");
    return true;
}

static bool entry_arena(struct weir_trace_reader *r, struct weir_trace_entry *e, bool *is_chosen)
{
    if (columns_cell(r, COLUMN_SCHEDULER)) {
        uint32_t scheduler;
        if (!entry_name(r, COLUMN_SCHEDULER, WEIR_TRACE_SCHEDULER, &scheduler))
            return false;
        *is_chosen =
            !r->scheduler || trace_is_equal(columns_cell(r, COLUMN_SCHEDULER), r->scheduler);
    }
    if (!entry_time(r, COLUMN_ARRIVAL_S, WEIR_NS_PER_S, &e->arrival_ns) ||
        !entry_name(r, COLUMN_TENANT, WEIR_TRACE_TENANT, &e->tenant) ||
        !entry_tok(r, COLUMN_PROMPT, &e->prompt_tok) ||
        !entry_tok(r, COLUMN_OUTPUT, &e->output_tok))
        return false;
    return !columns_cell(r, COLUMN_FIRST_TOKEN) || entry_measured(r, e);
}

static bool entry_mooncake(struct weir_trace_reader *r, struct weir_trace_entry *e)
{
    if (!entry_time(r, COLUMN_ARRIVAL_MS, WEIR_NS_PER_MS, &e->arrival_ns) ||
        !entry_tok(r, COLUMN_PROMPT, &e->prompt_tok) ||
        !entry_tok(r, COLUMN_OUTPUT, &e->output_tok))
        return false;
    const char *reused = columns_cell(r, COLUMN_REUSED);
    if (reused && !entry_tok(r, COLUMN_REUSED, &e->cached_tok))
        return false;
    if (e->cached_tok > e->prompt_tok)
        return trace_problem_cell(r, COLUMN_REUSED, reused, "at most prompt_tokens");
    return true;
}

static bool entry_outcome(struct weir_trace_reader *r, struct weir_trace_entry *e)
{
    const char *reason = columns_cell(r, COLUMN_REASON), *word = columns_cell(r, COLUMN_OUTCOME);
    uint32_t outcome = 0, refusal = 0;
    while (outcome < WEIR_TRACE_OUTCOME_COUNT &&
           !trace_is_equal(word, trace_outcome_words[outcome]))
        outcome++;
    if (outcome == WEIR_TRACE_OUTCOME_COUNT)
        return trace_problem_cell(r, COLUMN_OUTCOME, word,
                                  "one of finished, refused, gone, failed, cut");
    while (refusal < WEIR_REFUSAL_COUNT &&
           !trace_is_equal(reason, weir_refusal_row((enum weir_refusal)refusal)->code))
        refusal++;
    if (refusal == WEIR_REFUSAL_COUNT)
        return trace_problem_cell(r, COLUMN_REASON, reason, "empty, or a code of docs/refusals.md");
    e->outcome = (enum weir_trace_outcome)outcome;
    e->refusal = (enum weir_refusal)refusal;
    bool may_have = outcome == WEIR_TRACE_REFUSED || outcome == WEIR_TRACE_CUT;
    if (outcome == WEIR_TRACE_REFUSED && refusal == WEIR_REFUSAL_NONE)
        return trace_problem_cell(r, COLUMN_REASON, reason, "the reason of the refusal");
    if (!may_have && refusal != WEIR_REFUSAL_NONE)
        return trace_problem_cell(r, COLUMN_REASON, reason, "empty for this outcome");
    return true;
}

static bool entry_recording(struct weir_trace_reader *r, struct weir_trace_entry *e)
{
    uint64_t value;
    if (!entry_time(r, COLUMN_ARRIVAL_S, WEIR_NS_PER_S, &e->arrival_ns) ||
        !entry_name(r, COLUMN_TENANT, WEIR_TRACE_TENANT, &e->tenant) ||
        !entry_name(r, COLUMN_LANE, WEIR_TRACE_LANE, &e->lane) ||
        !entry_name(r, COLUMN_MODEL, WEIR_TRACE_MODEL, &e->model) ||
        !entry_tok(r, COLUMN_PROMPT, &e->prompt_tok) ||
        !entry_tok(r, COLUMN_CACHED, &e->cached_tok) ||
        !entry_tok(r, COLUMN_OUTPUT, &e->output_tok) ||
        !entry_tok(r, COLUMN_ESTIMATE, &e->estimate_tok) ||
        !entry_tok(r, COLUMN_LIMIT, &e->output_limit_tok) ||
        !entry_wait(r, COLUMN_QUEUE_WAIT, &e->queue_wait_ns) ||
        !entry_wait(r, COLUMN_FIRST_BYTE, &e->first_byte_ns) ||
        !entry_wait(r, COLUMN_LATENCY, &e->latency_ns) || !entry_outcome(r, e))
        return false;
    const char *stream = columns_cell(r, COLUMN_STREAM), *status = columns_cell(r, COLUMN_STATUS);
    if (!trace_whole(stream, 1, &value))
        return trace_problem_cell(r, COLUMN_STREAM, stream, "0 or 1");
    e->is_stream = value == 1;
    if (!trace_whole(status, 999, &value))
        return trace_problem_cell(r, COLUMN_STATUS, status, "an HTTP status, or 0");
    e->status = (uint32_t)value;
    if (e->cached_tok > e->prompt_tok)
        return trace_problem_cell(r, COLUMN_CACHED, columns_cell(r, COLUMN_CACHED),
                                  "at most prompt_tokens");
    e->arrival_ns += r->began_ns;
    e->is_measured = true;
    return true;
}

bool trace_read_entry(struct weir_trace_reader *r, struct weir_trace_entry *entry, bool *is_chosen)
{
    if (r->cells_count != r->columns_count) {
        struct trace_text t = trace_problem_begin(r);
        trace_text_number(&t, r->cells_count);
        trace_text_add(&t, r->cells_count == 1 ? " cell where " : " cells where ");
        trace_text_number(&t, r->columns_count);
        trace_text_add(&t, " columns are named");
        return false;
    }
    *entry = (struct weir_trace_entry){.outcome = WEIR_TRACE_FINISHED};
    *is_chosen = true;
    switch (r->form) {
    case WEIR_TRACE_UNKNOWN:
        break;
    case WEIR_TRACE_AZURE:
        return entry_azure(r, entry);
    case WEIR_TRACE_ARENA:
        return entry_arena(r, entry, is_chosen);
    case WEIR_TRACE_MOONCAKE:
        return entry_mooncake(r, entry);
    case WEIR_TRACE_RECORDING:
        return entry_recording(r, entry);
    }
    WEIR_INVARIANT(r->form != WEIR_TRACE_UNKNOWN); /* a header was read */
    return false;
}

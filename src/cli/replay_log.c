#include "cli/replay.h"

#include <string.h>

/* The refusal that a gateway's code stands for; NONE when it is none of ours. */
static enum weir_refusal log_refusal(const char *code)
{
    for (int i = 1; i < WEIR_REFUSAL_COUNT; i++)
        if (strcmp(code, weir_refusal_row((enum weir_refusal)i)->code) == 0)
            return (enum weir_refusal)i;
    return WEIR_REFUSAL_NONE;
}

static enum weir_trace_outcome log_outcome(const struct weir_playback_result *r)
{
    switch ((enum weir_load_end)r->end) {
    case WEIR_LOAD_OK:
        return WEIR_TRACE_FINISHED;
    case WEIR_LOAD_ERROR_EVENT:
    case WEIR_LOAD_CUT:
    case WEIR_LOAD_TIMEOUT_IDLE:
        return WEIR_TRACE_CUT;
    case WEIR_LOAD_TIMEOUT_CONNECT:
    case WEIR_LOAD_TIMEOUT_WRITE:
    case WEIR_LOAD_TIMEOUT_HEAD:
    case WEIR_LOAD_TIMEOUT_TOTAL:
    case WEIR_LOAD_CANCELLED:
        return WEIR_TRACE_GONE;
    case WEIR_LOAD_429:
    case WEIR_LOAD_4XX:
    case WEIR_LOAD_5XX:
    case WEIR_LOAD_REDIRECT:
    case WEIR_LOAD_HTML:
    case WEIR_LOAD_GARBAGE:
    case WEIR_LOAD_RESET:
    case WEIR_LOAD_RESOLVE:
    case WEIR_LOAD_CONNECT:
    case WEIR_LOAD_TLS:
    case WEIR_LOAD_DESCRIPTORS:
    case WEIR_LOAD_END_COUNT:
        break;
    }
    return WEIR_TRACE_FAILED;
}

static struct weir_trace_entry log_entry(const struct replay_outcome *o, size_t i)
{
    const struct weir_playback_item *item = &o->plan->items[i];
    const struct weir_playback_result *r = &o->plan->results[i];
    bool is_used = r->end == WEIR_LOAD_OK || r->is_usage_known;
    struct weir_trace_entry e = {.arrival_ns = item->arrival_ns,
                                 .prompt_tok = r->is_usage_known ? r->input_tok
                                               : is_used         ? item->prompt_tok
                                                                 : 0,
                                 .cached_tok = r->is_usage_known ? r->cached_tok : 0,
                                 .output_tok = r->is_usage_known ? r->output_tok
                                               : is_used         ? item->output_tok
                                                                 : 0,
                                 .output_limit_tok = item->output_tok > 0 ? item->output_tok : 1,
                                 .first_byte_ns =
                                     r->head_ns > 0 ? r->head_ns - item->arrival_ns : 0,
                                 .latency_ns = r->end_ns - item->arrival_ns,
                                 .status = r->status,
                                 .outcome = log_outcome(r),
                                 .is_stream = item->is_stream};
    if (r->from_gateway && e.outcome == WEIR_TRACE_FAILED) {
        e.refusal = log_refusal(weir_playback_code(o->playback, r->code));
        e.outcome = e.refusal == WEIR_REFUSAL_NONE ? WEIR_TRACE_FAILED : WEIR_TRACE_REFUSED;
    }
    return e;
}

bool replay_record(const struct replay_outcome *o, FILE *out)
{
    char line[WEIR_TRACE_LINE_BYTES];
    _Static_assert(sizeof line >= WEIR_TRACE_HEADER_BYTES, "the header fits too");
    size_t bytes = weir_trace_header(o->began_us, line, sizeof line);
    if (fwrite(line, 1, bytes, out) != bytes)
        return false;
    for (size_t i = 0; i < o->plan->count; i++) {
        if (o->plan->results[i].state != WEIR_PLAYBACK_ENDED)
            continue;
        const struct weir_trace_entry *was = &o->plan->trace.entries[i];
        struct weir_trace_entry e = log_entry(o, i);
        bytes = weir_trace_line(&e, o->plan->tenants[was->tenant],
                                o->plan->trace.names[WEIR_TRACE_LANE][was->lane],
                                o->plan->models[was->model], line, sizeof line);
        if (fwrite(line, 1, bytes, out) != bytes)
            return false;
    }
    return fflush(out) == 0;
}

/* trace_show FILE: a trace as src/trace reads it, one JSON line an entry; for the end-to-end tests. */
#include <stdio.h>

#include "trace/trace_file.h"

int main(int argc, char **argv)
{
    static const char *const outcomes[WEIR_TRACE_OUTCOME_COUNT] = {"finished", "refused", "gone",
                                                                   "failed", "cut"};
    struct weir_trace t;
    char error[512];
    if (argc != 2 || !weir_trace_load(argv[1], NULL, &t, error, sizeof error)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: trace_show FILE" : error);
        return 1;
    }
    for (size_t i = 0; i < t.count; i++) {
        const struct weir_trace_entry *e = &t.entries[i];
        printf("{\"form\":\"%s\",\"arrival_ns\":%llu,\"tenant\":\"%s\",\"lane\":\"%s\","
               "\"model\":\"%s\",\"prompt\":%u,\"cached\":%u,\"output\":%u,\"estimate\":%u,"
               "\"limit\":%u,\"queue_ns\":%llu,\"first_byte_ns\":%llu,\"latency_ns\":%llu,"
               "\"status\":%u,\"outcome\":\"%s\",\"reason\":\"%s\",\"stream\":%s}\n",
               weir_trace_form_name(t.form), (unsigned long long)e->arrival_ns,
               t.names[WEIR_TRACE_TENANT][e->tenant], t.names[WEIR_TRACE_LANE][e->lane],
               t.names[WEIR_TRACE_MODEL][e->model], e->prompt_tok, e->cached_tok, e->output_tok,
               e->estimate_tok, e->output_limit_tok, (unsigned long long)e->queue_wait_ns,
               (unsigned long long)e->first_byte_ns, (unsigned long long)e->latency_ns, e->status,
               outcomes[e->outcome], weir_refusal_row(e->refusal)->code,
               e->is_stream ? "true" : "false");
    }
    weir_trace_free(&t);
    return 0;
}

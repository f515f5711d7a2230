/* access: one line of JSON for each request, when it is over or refused. No text of a client's is
 * in it. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gateway/state.h"

#define ACCESS_LINE_BYTES 2048

/* Names come from the configuration, which does not forbid quotes. */
static const char *access_escape(char *out, size_t cap, const char *text)
{
    size_t used = 0;
    for (; *text && used + 2 < cap; text++) {
        if (*text == '"' || *text == '\\')
            out[used++] = '\\';
        out[used++] = (unsigned char)*text < ' ' ? ' ' : *text;
    }
    out[used] = 0;
    return out;
}

static long long access_ms(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns >= from_ns ? (long long)((to_ns - from_ns) / WEIR_NS_PER_MS) : -1;
}

void weir_request_log(struct weir_request *r, const struct weir_flow_summary *s,
                      enum weir_refusal refusal)
{
    static const struct weir_flow_summary none = {.usage = {-1, -1, -1, -1}, .upstream = WEIR_NONE};
    struct weir_gateway *g = r->g;
    if (!weir_log_access_wanted(g->log))
        return;
    if (!s)
        s = &none;
    char id[WEIR_REQUEST_ID_BYTES], line[ACCESS_LINE_BYTES], stamp[32], tenant[140], label[300],
        upstream[300];
    struct timespec t;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    weir_request_id(r, id);
    const char *name = r->tenant != WEIR_NONE ? weir_tenancy_name(g->tenancy, r->tenant) : NULL;
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    const char *outcome = r->replay_slot != WEIR_NONE    ? "replayed"
                          : s->client_gone               ? "client_gone"
                          : refusal == WEIR_REFUSAL_NONE ? "answered"
                          : s->status != 0               ? "cut"
                                                         : "refused";
    int n = snprintf(
        line, sizeof line,
        "{\"time\":\"%s.%03ldZ\",\"id\":\"%s\",\"tenant\":\"%s\",\"route\":\"%s\",\"model\":\"%s\","
        "\"outcome\":"
        "\"%s\",\"reason\":\"%s\",\"status\":%u,\"upstream\":\"%s\",\"attempts\":%u,\"queue_ms\":%"
        "lld,"
        "\"first_byte_ms\":%lld,\"total_ms\":%lld,\"estimate_tokens\":%llu,\"input_tokens\":%lld,"
        "\"cached_tokens\":%lld,\"output_tokens\":%lld,\"charged_tokens\":%llu,\"estimated\":%s,"
        "\"body_bytes\":%llu,\"answer_bytes\":%llu}",
        stamp, t.tv_nsec / 1000000, id, name ? access_escape(tenant, sizeof tenant, name) : "",
        weir_api_name(r->api), access_escape(label, sizeof label, r->model_label), outcome,
        weir_refusal_row(refusal)->code,
        s->status && refusal == WEIR_REFUSAL_NONE ? s->status : r->status,
        s->upstream != WEIR_NONE
            ? access_escape(upstream, sizeof upstream, g->config->upstreams[s->upstream].name)
            : "",
        s->attempts, s->dispatched_ns ? (long long)(s->queue_wait_ns / WEIR_NS_PER_MS) : -1LL,
        access_ms(s->sent_ns, s->head_ns), access_ms(r->arrived_ns, now_ns),
        (unsigned long long)s->estimate_tok, (long long)s->usage.input_tok,
        (long long)s->usage.cached_tok, (long long)s->usage.output_tok,
        (unsigned long long)s->charged_tok, s->estimated ? "true" : "false",
        (unsigned long long)r->body_bytes, (unsigned long long)r->facts.answer_bytes);
    if (n > 0)
        weir_log_access(g->log, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

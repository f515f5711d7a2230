/* server_bench: the server alone, for wrk. Every request is answered with 648 bytes of JSON, or
 * with 20 events where the path is /stream; all in the turn that brought it.
 *
 *   server_bench [ADDRESS:PORT]        default 127.0.0.1:9100; SIGINT ends it and prints the cost
 *   wrk -t1 -c64 -d5 -s post.lua http://127.0.0.1:9100/v1/chat/completions
 *
 * Prints CPU per request of this process, user and system apart, and requests per turn. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "net/server.h"

static struct weir_loop *loop;
static uint64_t requests;
static char answer[649];

static enum weir_head_verdict on_head(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    (void)x;
    return WEIR_HEAD_READ_BODY;
}

static void stream(struct weir_exchange *x)
{
    const struct weir_slice usual = {NULL, 0};
    struct weir_http_out *out = weir_exchange_answer(x, 200, usual, WEIR_BODY_CHUNKED);
    weir_http_write_header_text(out, "content-type", "text/event-stream");
    if (!weir_exchange_answer_head_end(x))
        abort();
    for (int i = 0; i < 20; i++)
        weir_exchange_write(x, "data: {\"choices\":[{\"delta\":{\"content\":\"token\"}}]}\n\n", 52);
    weir_exchange_finish(x);
}

static void on_request(void *ctx, struct weir_exchange *x)
{
    struct weir_slice path = weir_exchange_path(x);
    (void)ctx;
    requests++;
    if (weir_slice_equal(path, WEIR_SLICE("/stream")))
        stream(x);
    else
        weir_exchange_respond(x, 200, "application/json", WEIR_SLICE(""),
                              (struct weir_slice){answer, sizeof answer - 1});
}

static void on_gone(void *ctx, struct weir_exchange *x, enum weir_gone why)
{
    (void)ctx;
    (void)x;
    (void)why;
}

static void on_done(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    (void)x;
}

static void stop(int signal)
{
    (void)signal;
    weir_loop_stop(loop);
}

static double us_of(struct timeval t)
{
    return (double)t.tv_sec * 1e6 + (double)t.tv_usec;
}

int main(int argc, char **argv)
{
    char why[256];
    const struct weir_server_limits limits = {
        .head_bytes = 65536,
        .body_bytes = 32u << 20,
        .connections = 10000,
        .head_ns = 30 * WEIR_NS_PER_S,
        .keep_alive_ns = 75 * WEIR_NS_PER_S,
        .body_min_bytes_per_s = 1000,
        .body_grace_ns = 10 * WEIR_NS_PER_S,
        .stall_ns = 60 * WEIR_NS_PER_S,
    };
    const struct weir_server_handler handler = {
        .head = on_head, .request = on_request, .gone = on_gone, .done = on_done};
    memset(answer, 'x', sizeof answer - 1);
    loop = weir_loop_create();
    if (!loop) {
        perror("loop");
        return 3;
    }
    struct weir_server *server = weir_server_listen(loop, argc > 1 ? argv[1] : "127.0.0.1:9100",
                                                    NULL, &limits, &handler, why, sizeof why);
    if (!server) {
        fprintf(stderr, "%s\n", why);
        return 2;
    }
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    int fault = weir_loop_run(loop);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (requests > 0)
        printf("%llu requests, %.2f us CPU each (user %.2f, system %.2f), %.1f a turn\n",
               (unsigned long long)requests,
               (us_of(usage.ru_utime) + us_of(usage.ru_stime)) / (double)requests,
               us_of(usage.ru_utime) / (double)requests, us_of(usage.ru_stime) / (double)requests,
               (double)requests / (double)weir_loop_turns(loop));
    weir_server_destroy(server);
    weir_loop_destroy(loop);
    return fault ? 3 : 0;
}

/* trace_bench: what a row of a trace costs: written by a gateway that records, read by the lab.
 *
 *   meson setup build-bench -Dbench=true && ninja -C build-bench && build-bench/bench/trace_bench
 *
 * Rows and how they are measured: bench/measure.h. */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "trace/trace.h"

static const struct weir_trace_entry entry = {.arrival_ns = UINT64_C(61044958171),
                                              .prompt_tok = 328,
                                              .output_tok = 24,
                                              .estimate_tok = 354,
                                              .output_limit_tok = 24,
                                              .queue_wait_ns = 1200345,
                                              .first_byte_ns = 412769058,
                                              .latency_ns = 902769058,
                                              .status = 200,
                                              .is_stream = true};

static size_t make_row(char *out)
{
    return weir_trace_line(&entry, "b3ba927b8c", "standard", "gpt-4o-mini", out,
                           WEIR_TRACE_LINE_BYTES);
}

static void write_row(void *arg)
{
    if (make_row(arg) == 0)
        abort();
}

struct reading {
    struct weir_trace_reader *reader;
    const char *row;
    size_t bytes;
    uint64_t taken;
};

static bool take_row(void *ctx, const struct weir_trace_entry *e)
{
    struct reading *g = ctx;
    g->taken += e->prompt_tok > 0;
    return true;
}

static void read_row(void *arg)
{
    struct reading *g = arg;
    if (!weir_trace_push(g->reader, g->row, g->bytes))
        abort();
}

static void bench_read(const char *name, const char *head, const char *row, size_t row_bytes)
{
    const struct weir_trace_limits limits = {64, UINT64_MAX};
    size_t bytes = weir_trace_bytes(&limits);
    struct reading g = {.row = row, .bytes = row_bytes};
    void *mem = calloc(1, bytes);
    if (!mem)
        abort();
    g.reader = weir_trace_init(mem, bytes, &limits, NULL, take_row, &g);
    if (!weir_trace_push(g.reader, head, strlen(head)))
        abort();
    bench_row(name, read_row, &g, row_bytes);
    free(mem);
}

int main(int argc, char **argv)
{
    static char row[WEIR_TRACE_LINE_BYTES], head[WEIR_TRACE_HEADER_BYTES + 1];
    static const char azure[] = "2023-11-16 18:17:03.9799600,4808,10\r\n";
    size_t bytes = make_row(row);
    bench_begin(argc, argv);
    bench_row("write a row of a recording", write_row, row, bytes);
    head[weir_trace_header(0, head, sizeof head)] = '\0';
    bench_read("read a row of a recording", head, row, bytes);
    bench_read("read an Azure row", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n", azure,
               sizeof azure - 1);
    return bench_end();
}

#include "trace/trace.h"

/* One step of the merge sort: runs of `width` of `from` to runs of twice that in `to`. Equal
 * arrivals are taken from the left, which keeps their order. */
static void settle_merge(const struct weir_trace_entry *from, struct weir_trace_entry *to,
                         size_t count, size_t width)
{
    for (size_t begin = 0; begin < count; begin += 2 * width) {
        size_t middle = count - begin < width ? count : begin + width;
        size_t end = count - middle < width ? count : middle + width;
        size_t left = begin, right = middle;
        for (size_t i = begin; i < end; i++)
            if (left < middle && (right == end || from[left].arrival_ns <= from[right].arrival_ns))
                to[i] = from[left++];
            else
                to[i] = from[right++];
    }
}

static bool settle_is_sorted(const struct weir_trace_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (entries[i].arrival_ns < entries[i - 1].arrival_ns)
            return false;
    return true;
}

void weir_trace_settle(struct weir_trace_entry *entries, struct weir_trace_entry *scratch,
                       size_t count)
{
    if (!settle_is_sorted(entries, count)) {
        struct weir_trace_entry *from = entries, *to = scratch;
        for (size_t width = 1; width < count; width *= 2) {
            settle_merge(from, to, count, width);
            struct weir_trace_entry *swap = from;
            from = to;
            to = swap;
        }
        for (size_t i = 0; from != entries && i < count; i++)
            entries[i] = from[i];
    }
    uint64_t first_ns = count > 0 ? entries[0].arrival_ns : 0;
    for (size_t i = 0; i < count; i++)
        entries[i].arrival_ns -= first_ns;
}

static void fill_add(struct weir_trace_sizes *sizes, const struct weir_trace_entry *e)
{
    sizes->requests++;
    sizes->prompt_tok += e->prompt_tok;
    sizes->output_tok += e->output_tok;
}

static uint32_t fill_mean(uint64_t sum_tok, uint64_t requests)
{
    return (uint32_t)weir_max_u64((sum_tok + requests / 2) / requests, 1);
}

size_t weir_trace_fill(struct weir_trace_entry *entries, size_t count,
                       struct weir_trace_sizes *sizes, uint32_t tenants_count)
{
    struct weir_trace_sizes all = {0};
    size_t filled = 0;
    for (uint32_t t = 0; t < tenants_count; t++)
        sizes[t] = (struct weir_trace_sizes){0};
    for (size_t i = 0; i < count; i++)
        if (entries[i].outcome == WEIR_TRACE_FINISHED) {
            WEIR_INVARIANT(entries[i].tenant < tenants_count);
            fill_add(&sizes[entries[i].tenant], &entries[i]);
            fill_add(&all, &entries[i]);
        }
    for (size_t i = 0; i < count && all.requests > 0; i++) {
        struct weir_trace_entry *e = &entries[i];
        if (e->prompt_tok > 0 || e->output_tok > 0 ||
            (e->outcome != WEIR_TRACE_REFUSED && e->outcome != WEIR_TRACE_GONE))
            continue;
        const struct weir_trace_sizes *mean =
            sizes[e->tenant].requests > 0 ? &sizes[e->tenant] : &all;
        e->prompt_tok = fill_mean(mean->prompt_tok, mean->requests);
        e->output_tok = fill_mean(mean->output_tok, mean->requests);
        filled++;
    }
    return filled;
}

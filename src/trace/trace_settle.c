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

#include "wire/sse_boundary.h"

#include <string.h>

#include "wire/scan.h"

void weir_sse_boundary_init(struct weir_sse_boundary *b)
{
    memset(b, 0, sizeof *b);
}

void weir_sse_boundary_feed(struct weir_sse_boundary *b, const void *bytes, size_t n)
{
    const uint8_t *p = bytes, *end = p + n;
    while (p < end) {
        bool after_cr = b->cr;
        b->cr = false;
        if (*p == '\n' && after_cr) {
            p++;
            continue;
        }
        if (after_cr)
            b->lone_cr = true;
        if (*p == '\n' || *p == '\r') {
            b->cr = *p++ == '\r';
            if (b->line == 0)
                b->event = false;
            b->line = 0;
            continue;
        }
        b->line = 1;
        b->event = true;
        p = weir_scan_line(p, end);
    }
}

bool weir_sse_boundary_at(const struct weir_sse_boundary *b)
{
    return b->line == 0 && !b->event && (!b->cr || b->lone_cr);
}

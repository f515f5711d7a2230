/* The stream filter: any split gives the same bytes, and what comes out is what went in with pieces
 * left out. And the boundary tracker. */
#include "wire/fuzz.h"
#include "wire/sse_edit.h"

static size_t feed(struct weir_sse_edit *e, const uint8_t *p, size_t n, uint8_t *out)
{
    uint8_t *piece = fuzz_copy(p, n), *room = malloc(n + WEIR_SSE_EDIT_HOLD);
    size_t bytes = weir_sse_edit_feed(e, piece, n, room);
    FUZZ_CHECK(bytes <= n + WEIR_SSE_EDIT_HOLD, "more than the room");
    memcpy(out, room, bytes);
    free(room);
    free(piece);
    return bytes;
}

/* Whether a is b with bytes left out. */
static bool is_part(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < b_bytes && at < a_bytes; i++)
        at += a[at] == b[i];
    return at == a_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct weir_sse_edit e;
    size_t split = fuzz_split(data, n);
    uint8_t *whole = malloc(n + WEIR_SSE_EDIT_HOLD), *halves = malloc(n + WEIR_SSE_EDIT_HOLD),
            *single = malloc(n + 2 * WEIR_SSE_EDIT_HOLD);
    weir_sse_edit_init(&e);
    size_t whole_bytes = feed(&e, data, n, whole);
    whole_bytes += weir_sse_edit_finish(&e, whole + whole_bytes);
    uint64_t chunks = e.chunks_dropped, nulls = e.nulls_dropped;
    weir_sse_edit_init(&e);
    size_t halves_bytes = feed(&e, data, split, halves);
    halves_bytes += feed(&e, data + split, n - split, halves + halves_bytes);
    halves_bytes += weir_sse_edit_finish(&e, halves + halves_bytes);
    weir_sse_edit_init(&e);
    size_t single_bytes = 0;
    for (size_t i = 0; i < n; i++)
        single_bytes += weir_sse_edit_feed(&e, data + i, 1, single + single_bytes);
    single_bytes += weir_sse_edit_finish(&e, single + single_bytes);
    FUZZ_CHECK(e.chunks_dropped == chunks && e.nulls_dropped == nulls, "counts differ");
    FUZZ_CHECK(whole_bytes == halves_bytes && memcmp(whole, halves, whole_bytes) == 0, "halves");
    FUZZ_CHECK(whole_bytes == single_bytes && memcmp(whole, single, whole_bytes) == 0, "single");
    FUZZ_CHECK(is_part(whole, whole_bytes, data, n), "bytes that were not sent");
    FUZZ_CHECK(chunks || nulls || whole_bytes == n, "bytes lost without an edit");

    struct weir_sse_boundary a, b;
    weir_sse_boundary_init(&a);
    weir_sse_boundary_init(&b);
    weir_sse_boundary_feed(&a, data, n);
    weir_sse_boundary_feed(&b, data, split);
    weir_sse_boundary_feed(&b, data + split, n - split);
    FUZZ_CHECK(weir_sse_boundary_at(&a) == weir_sse_boundary_at(&b), "boundary");
    free(whole);
    free(halves);
    free(single);
    return 0;
}

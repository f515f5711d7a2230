/* Provider exports: no file hurts, and a file given twice counts once.
 *
 * The input is one file, or two with a 0x1e byte between them. */
#include "wire/fuzz.h"
#include "wire/usage_export.h"

static const struct weir_export *read_all(struct weir_export_reader *r, const uint8_t *data,
                                          size_t n, int times)
{
    FUZZ_CHECK(r, "no memory");
    const uint8_t *cut = n ? memchr(data, 0x1e, n) : NULL;
    size_t first = cut ? (size_t)(cut - data) : n;
    for (int i = 0; i < times; i++) {
        uint8_t *copy = fuzz_copy(data, first);
        weir_export_add(r, "first", copy, first);
        free(copy);
        if (cut) {
            copy = fuzz_copy(cut + 1, n - first - 1);
            weir_export_add(r, "second", copy, n - first - 1);
            free(copy);
        }
    }
    return weir_export_finish(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct weir_export_reader *r = weir_export_open(), *again = weir_export_open();
    const struct weir_export *e = read_all(r, data, n, 1), *f = read_all(again, data, n, 2);
    for (size_t i = 0; i < e->rows_count && e->errors == 0; i++) {
        const struct weir_export_row *row = &e->rows[i];
        FUZZ_CHECK(row->end_s > row->start_s && row->start_s >= 0, "a bucket is a stretch of time");
        FUZZ_CHECK(row->input_tok >= row->cached_tok + row->cache_write_tok, "parts of the input");
        FUZZ_CHECK(row->cached_tok >= 0 && row->cache_write_tok >= 0, "no part is negative");
        FUZZ_CHECK(row->input_tok <= WEIR_TOK_MAX && row->output_tok >= 0 &&
                       row->output_tok <= WEIR_TOK_MAX && row->requests >= -1,
                   "amounts are in range");
    }
    for (size_t i = 1; i < e->spans_count && e->errors == 0; i++)
        FUZZ_CHECK(e->spans[i].provider > e->spans[i - 1].provider ||
                       e->spans[i].start_s >= e->spans[i - 1].end_s,
                   "spans do not overlap");
    FUZZ_CHECK(e->problems_count <= 3 * (WEIR_EXPORT_PROBLEMS_MAX + 1), "problems are bounded");
    FUZZ_CHECK(e->errors > 0 || e->rows_count == f->rows_count, "given twice, counted once");
    weir_export_close(r);
    weir_export_close(again);
    return 0;
}

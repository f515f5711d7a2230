/* Responses: any split sees the same. The first byte chooses API, and stream or body. */
#include "wire/fuzz.h"
#include "wire/usage.h"

static void feed(struct weir_usage *u, const uint8_t *p, size_t n)
{
    uint8_t *piece = fuzz_copy(p, n);
    weir_usage_feed(u, piece, n);
    free(piece);
}

static void check_same(const struct weir_usage_seen *a, const struct weir_usage_seen *b)
{
    FUZZ_CHECK(a->input_known == b->input_known && a->output_known == b->output_known, "known");
    FUZZ_CHECK(a->complete == b->complete && a->error == b->error, "complete or error");
    FUZZ_CHECK(a->unreadable == b->unreadable, "unreadable");
    FUZZ_CHECK(a->input_total_tok == b->input_total_tok, "input");
    FUZZ_CHECK(a->output_total_tok == b->output_total_tok, "output");
    FUZZ_CHECK(a->cache_read_tok == b->cache_read_tok, "cache read");
    FUZZ_CHECK(a->cache_write_tok == b->cache_write_tok, "cache write");
    FUZZ_CHECK(a->reasoning_tok == b->reasoning_tok, "reasoning");
    FUZZ_CHECK(a->events == b->events, "events");
    FUZZ_CHECK(a->text_bytes == b->text_bytes, "text");
    FUZZ_CHECK(a->output_bytes == b->output_bytes, "output bytes");
    FUZZ_CHECK(strcmp(a->finish, b->finish) == 0, "finish");
    FUZZ_CHECK(strcmp(a->error_type, b->error_type) == 0, "error type");
    FUZZ_CHECK(strcmp(a->error_code, b->error_code) == 0, "error code");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    enum weir_api api = (enum weir_api)(data[0] % WEIR_API_COUNT);
    bool stream = data[0] & 0x80;
    const uint8_t *body = data + 1;
    size_t bytes = n - 1, split = fuzz_split(body, bytes);
    struct weir_usage whole, halves, single;
    weir_usage_init(&whole, api, stream);
    weir_usage_init(&halves, api, stream);
    weir_usage_init(&single, api, stream);
    feed(&whole, body, bytes);
    feed(&halves, body, split);
    feed(&halves, body + split, bytes - split);
    for (size_t i = 0; i < bytes; i++)
        weir_usage_feed(&single, body + i, 1);
    weir_usage_finish(&whole);
    weir_usage_finish(&halves);
    weir_usage_finish(&single);
    check_same(&whole.seen, &halves.seen);
    check_same(&whole.seen, &single.seen);
    FUZZ_CHECK(whole.seen.text_bytes <= whole.seen.output_bytes, "text is output");
    FUZZ_CHECK(whole.seen.output_bytes <= bytes * 3, "more text than bytes");
    return 0;
}

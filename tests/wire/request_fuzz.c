/* Request bodies: what ours accepts, jansson accepts with the same facts; the planned edits give a
 * body that is accepted and says what was meant; texts of faults fit. The first byte chooses the
 * API. */
#include "wire/fuzz.h"
#include "wire/json.h"
#include "wire/request_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    enum weir_api api = (enum weir_api)(data[0] % WEIR_API_COUNT);
    uint8_t *body = fuzz_copy(data + 1, n - 1);
    struct weir_request_facts f;
    char text[400];
    weir_request_read(&f, api, body, n - 1);
    size_t bytes = weir_request_fault_text(&f, text, sizeof text);
    FUZZ_CHECK(bytes > 0 && bytes == strlen(text), "fault text");
    FUZZ_CHECK(f.fault_at <= n - 1, "fault beyond the body");
    if (f.fault == WEIR_REQUEST_OK && api <= WEIR_API_ANTHROPIC_MESSAGES) {
        uint8_t *room = malloc(n + 256);
        const char *why = oracle_differs(&f, api, body, n - 1);
        FUZZ_CHECK(!why, why);
        why = oracle_edit_differs(&f, api, body, n - 1, room);
        FUZZ_CHECK(!why, why);
        free(room);
    }
    /* Any bytes can be quoted, and the quoted form is one JSON string. */
    char *quoted = malloc(6 * n + 2);
    bytes = weir_json_quote(quoted, 6 * n + 2, (const char *)data, n);
    FUZZ_CHECK(bytes > 0, "quote");
    struct weir_json r;
    struct weir_json_string s;
    weir_json_init(&r, quoted, bytes);
    FUZZ_CHECK(weir_json_kind(&r) == WEIR_JSON_STRING && weir_json_take_string(&r, &s) &&
                   weir_json_finish(&r),
               "what was quoted is no string");
    free(quoted);
    free(body);
    return 0;
}

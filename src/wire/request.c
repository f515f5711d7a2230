#include "wire/request.h"

#include <string.h>

#include "wire/json.h"
#include "wire/parts.h"

/* The walk over one body. Every function below reads exactly one value and returns false once a
 * fault is set, in facts or in json. */
struct reader {
    struct weir_json json;
    struct weir_request_facts *facts;
    enum weir_api api;
    uint32_t keys_seen; /* bit of enum weir_request_key: a policed member that was read */
};

static const char *const key_names[] = {
    [WEIR_KEY_NONE] = "",
    [WEIR_KEY_MODEL] = "model",
    [WEIR_KEY_STREAM] = "stream",
    [WEIR_KEY_STREAM_OPTIONS] = "stream_options",
    [WEIR_KEY_INCLUDE_USAGE] = "include_usage",
    [WEIR_KEY_MAX_TOKENS] = "max_tokens",
    [WEIR_KEY_MAX_COMPLETION_TOKENS] = "max_completion_tokens",
    [WEIR_KEY_MAX_OUTPUT_TOKENS] = "max_output_tokens",
    [WEIR_KEY_N] = "n",
    [WEIR_KEY_BEST_OF] = "best_of",
    [WEIR_KEY_USER] = "user",
    [WEIR_KEY_PREVIOUS_RESPONSE_ID] = "previous_response_id",
    [WEIR_KEY_CONVERSATION] = "conversation",
};
#define KEY_NAME_BYTES_MAX 21

#define KEY_BIT(key) (UINT32_C(1) << (key))

/* Members that count, by API. A limit that the API does not know is none: the provider would not
 * keep to it. */
static const uint32_t keys_of_api[WEIR_API_COUNT] = {
    [WEIR_API_OPENAI_CHAT] = KEY_BIT(WEIR_KEY_MODEL) | KEY_BIT(WEIR_KEY_STREAM) |
                             KEY_BIT(WEIR_KEY_STREAM_OPTIONS) | KEY_BIT(WEIR_KEY_MAX_TOKENS) |
                             KEY_BIT(WEIR_KEY_MAX_COMPLETION_TOKENS) | KEY_BIT(WEIR_KEY_N) |
                             KEY_BIT(WEIR_KEY_USER),
    [WEIR_API_OPENAI_COMPLETIONS] = KEY_BIT(WEIR_KEY_MODEL) | KEY_BIT(WEIR_KEY_STREAM) |
                                    KEY_BIT(WEIR_KEY_STREAM_OPTIONS) |
                                    KEY_BIT(WEIR_KEY_MAX_TOKENS) | KEY_BIT(WEIR_KEY_N) |
                                    KEY_BIT(WEIR_KEY_BEST_OF) | KEY_BIT(WEIR_KEY_USER),
    [WEIR_API_OPENAI_RESPONSES] = KEY_BIT(WEIR_KEY_MODEL) | KEY_BIT(WEIR_KEY_STREAM) |
                                  KEY_BIT(WEIR_KEY_MAX_OUTPUT_TOKENS) | KEY_BIT(WEIR_KEY_USER) |
                                  KEY_BIT(WEIR_KEY_PREVIOUS_RESPONSE_ID) |
                                  KEY_BIT(WEIR_KEY_CONVERSATION),
    [WEIR_API_OPENAI_EMBEDDINGS] = KEY_BIT(WEIR_KEY_MODEL) | KEY_BIT(WEIR_KEY_USER),
    [WEIR_API_ANTHROPIC_MESSAGES] =
        KEY_BIT(WEIR_KEY_MODEL) | KEY_BIT(WEIR_KEY_STREAM) | KEY_BIT(WEIR_KEY_MAX_TOKENS),
    [WEIR_API_ANTHROPIC_COUNT] = KEY_BIT(WEIR_KEY_MODEL),
    [WEIR_API_MODELS] = 0,
    [WEIR_API_OTHER] = KEY_BIT(WEIR_KEY_MODEL) | KEY_BIT(WEIR_KEY_STREAM),
};

const char *weir_request_key_name(enum weir_request_key key)
{
    return key_names[key];
}

/* --- Faults --- */

static size_t offset_of(const struct reader *r, const uint8_t *p)
{
    return (size_t)(p - r->json.start);
}

static bool refuse(struct reader *r, enum weir_request_fault fault, enum weir_request_key key,
                   const uint8_t *at)
{
    if (r->facts->fault == WEIR_REQUEST_OK) {
        r->facts->fault = fault;
        r->facts->fault_key = key;
        r->facts->fault_at = offset_of(r, at);
        r->facts->fault_byte = at < r->json.end ? *at : 0;
    }
    return false;
}

static enum weir_request_fault fault_of_json(enum weir_json_fault fault)
{
    switch (fault) {
    case WEIR_JSON_OK:
        return WEIR_REQUEST_OK;
    case WEIR_JSON_SYNTAX:
        return WEIR_REQUEST_SYNTAX;
    case WEIR_JSON_CUT:
        return WEIR_REQUEST_CUT;
    case WEIR_JSON_TRAILING:
        return WEIR_REQUEST_TRAILING;
    case WEIR_JSON_DEPTH:
        return WEIR_REQUEST_DEPTH;
    case WEIR_JSON_UTF8:
        return WEIR_REQUEST_UTF8;
    case WEIR_JSON_CONTROL:
        return WEIR_REQUEST_CONTROL;
    case WEIR_JSON_ESCAPE:
        return WEIR_REQUEST_ESCAPE;
    case WEIR_JSON_NUMBER:
        return WEIR_REQUEST_NUMBER;
    }
    return WEIR_REQUEST_SYNTAX;
}

/* --- Members that policy depends on --- */

/* A key as a careless reader would see it: escapes decoded, letters in lower case, and the two
 * characters beyond ASCII that fold to a letter (U+017F to s, U+212A to k). Returns its bytes; 0
 * for one that is longer than any name of ours. */
static size_t key_fold(const struct weir_json_string *key, char out[KEY_NAME_BYTES_MAX * 3])
{
    if (key->bytes > KEY_NAME_BYTES_MAX * 6)
        return 0;
    size_t n = key->lone ? SIZE_MAX : weir_json_decode(key, out, KEY_NAME_BYTES_MAX * 3);
    if (n == SIZE_MAX)
        return 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; kept++) {
        if (n - i >= 2 && memcmp(out + i, "\xc5\xbf", 2) == 0) {
            out[kept] = 's';
            i += 2;
        } else if (n - i >= 3 && memcmp(out + i, "\xe2\x84\xaa", 3) == 0) {
            out[kept] = 'k';
            i += 3;
        } else {
            char c = out[i++];
            out[kept] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
        }
    }
    return kept;
}

/* The policed member of that length: no two have the same. */
static enum weir_request_key key_of_length(size_t bytes)
{
    static const uint8_t by_length[KEY_NAME_BYTES_MAX + 1] = {
        [1] = WEIR_KEY_N,
        [4] = WEIR_KEY_USER,
        [5] = WEIR_KEY_MODEL,
        [6] = WEIR_KEY_STREAM,
        [7] = WEIR_KEY_BEST_OF,
        [10] = WEIR_KEY_MAX_TOKENS,
        [12] = WEIR_KEY_CONVERSATION,
        [13] = WEIR_KEY_INCLUDE_USAGE,
        [14] = WEIR_KEY_STREAM_OPTIONS,
        [17] = WEIR_KEY_MAX_OUTPUT_TOKENS,
        [20] = WEIR_KEY_PREVIOUS_RESPONSE_ID,
        [21] = WEIR_KEY_MAX_COMPLETION_TOKENS,
    };
    return bytes <= KEY_NAME_BYTES_MAX ? (enum weir_request_key)by_length[bytes] : WEIR_KEY_NONE;
}

static enum weir_request_key key_find(const void *name, size_t bytes, uint32_t among)
{
    enum weir_request_key key = key_of_length(bytes);
    if (!(among & KEY_BIT(key)) || memcmp(key_names[key], name, bytes) != 0)
        return WEIR_KEY_NONE;
    return key;
}

/* Which policed member a key is, WEIR_KEY_NONE for none. False when it is a second one, or one in
 * disguise. */
static bool key_police(struct reader *r, const struct weir_json_string *key, uint32_t among,
                       enum weir_request_key *found)
{
    *found = WEIR_KEY_NONE;
    bool plain = !key->escaped && !key->wide;
    if (plain && !(among & KEY_BIT(key_of_length(key->bytes))))
        return true; /* nothing of ours has that length */
    if (plain)
        *found = key_find(key->at, key->bytes, among);
    if (*found == WEIR_KEY_NONE) {
        char folded[KEY_NAME_BYTES_MAX * 3];
        size_t bytes = key_fold(key, folded);
        enum weir_request_key disguised = key_find(folded, bytes, among);
        if (disguised == WEIR_KEY_NONE)
            return true;
        return refuse(r, WEIR_REQUEST_SPELLING, disguised, key->at - 1);
    }
    if (r->keys_seen & KEY_BIT(*found))
        return refuse(r, WEIR_REQUEST_DUPLICATE, *found, key->at - 1);
    r->keys_seen |= KEY_BIT(*found);
    return true;
}

static bool read_name(struct reader *r, enum weir_request_key key)
{
    struct weir_json_string s;
    enum weir_json_kind kind = weir_json_kind(&r->json);
    if (kind == WEIR_JSON_NULL && key != WEIR_KEY_MODEL)
        return weir_json_skip(&r->json);
    if (kind != WEIR_JSON_STRING)
        return kind == WEIR_JSON_NONE ? false : refuse(r, WEIR_REQUEST_NOT_STRING, key, r->json.at);
    if (!weir_json_take_string(&r->json, &s))
        return false;
    if (s.lone)
        return refuse(r, WEIR_REQUEST_NAME_BAD, key, s.at - 1);
    if (key == WEIR_KEY_USER) {
        r->facts->has_user = true;
        r->facts->user = (struct weir_span){offset_of(r, s.at), s.bytes};
        return true;
    }
    if (key == WEIR_KEY_PREVIOUS_RESPONSE_ID) {
        r->facts->has_conversation = true;
        r->facts->previous_response_id = (struct weir_span){offset_of(r, s.at), s.bytes};
        return true;
    }
    size_t bytes = weir_json_decode(&s, r->facts->model, WEIR_MODEL_BYTES_MAX);
    if (bytes == SIZE_MAX)
        return refuse(r, WEIR_REQUEST_NAME_TOO_LONG, key, s.at - 1);
    for (size_t i = 0; i < bytes; i++)
        if ((uint8_t)r->facts->model[i] < 0x20 || r->facts->model[i] == 0x7f)
            return refuse(r, WEIR_REQUEST_NAME_BAD, key, s.at - 1);
    r->facts->model[bytes] = 0;
    r->facts->model_bytes = (uint32_t)bytes;
    return true;
}

static bool read_bool(struct reader *r, enum weir_request_key key, bool *value)
{
    enum weir_json_kind kind = weir_json_kind(&r->json);
    if (kind == WEIR_JSON_NONE)
        return false;
    if (kind != WEIR_JSON_TRUE && kind != WEIR_JSON_FALSE && kind != WEIR_JSON_NULL)
        return refuse(r, WEIR_REQUEST_NOT_BOOL, key, r->json.at);
    *value = kind == WEIR_JSON_TRUE;
    return weir_json_skip(&r->json);
}

/* A whole number min .. max, or null (*given is false then). */
static bool read_whole(struct reader *r, enum weir_request_key key, uint64_t min, uint64_t max,
                       uint64_t *value, bool *given)
{
    struct weir_json_string s;
    enum weir_json_kind kind = weir_json_kind(&r->json);
    *given = false;
    if (kind == WEIR_JSON_NONE)
        return false;
    if (kind == WEIR_JSON_NULL)
        return weir_json_skip(&r->json);
    if (kind != WEIR_JSON_NUM)
        return refuse(r, WEIR_REQUEST_NOT_WHOLE, key, r->json.at);
    if (!weir_json_take_number(&r->json, &s))
        return false;
    uint64_t sum = 0;
    for (size_t i = s.at[0] == '-'; i < s.bytes; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return refuse(r, WEIR_REQUEST_NOT_WHOLE, key, s.at);
        uint64_t digit = (uint64_t)(s.at[i] - '0');
        sum = sum > (UINT64_MAX - digit) / 10 ? UINT64_MAX : sum * 10 + digit;
    }
    if (s.at[0] == '-' || sum < min || sum > max)
        return refuse(r, WEIR_REQUEST_OUT_OF_RANGE, key, s.at);
    *value = sum;
    *given = true;
    return true;
}

static bool read_limit(struct reader *r, enum weir_request_key key)
{
    uint64_t limit_tok = 0;
    bool given;
    (void)weir_json_kind(&r->json); /* passes white space, so that at is where the value begins */
    const uint8_t *at = r->json.at;
    if (!read_whole(r, key, 0, (uint64_t)WEIR_TOK_MAX, &limit_tok, &given))
        return false;
    if (!given) {
        r->facts->limit_null = (struct weir_span){offset_of(r, at), 4};
        return true;
    }
    r->facts->has_limit = true;
    r->facts->limit_tok = weir_max_u64(r->facts->limit_tok, limit_tok);
    return true;
}

static bool read_count(struct reader *r, enum weir_request_key key, uint32_t *count)
{
    uint64_t value = 1;
    bool given;
    if (!read_whole(r, key, 1, WEIR_REQUEST_N_MAX, &value, &given))
        return false;
    *count = (uint32_t)value;
    return true;
}

static bool read_stream_options(struct reader *r)
{
    struct weir_request_facts *facts = r->facts;
    enum weir_json_kind kind = weir_json_kind(&r->json);
    const uint8_t *at = r->json.at;
    if (kind == WEIR_JSON_NONE)
        return false;
    if (kind != WEIR_JSON_OBJECT && kind != WEIR_JSON_NULL)
        return refuse(r, WEIR_REQUEST_NOT_AN_OBJECT, WEIR_KEY_STREAM_OPTIONS, at);
    facts->options_value.at = offset_of(r, at);
    if (kind == WEIR_JSON_NULL) {
        facts->options_value.bytes = 4;
        return weir_json_skip(&r->json);
    }
    struct weir_json_string key;
    bool first = true;
    facts->options_is_object = true;
    if (!weir_json_open(&r->json))
        return false;
    while (weir_json_member(&r->json, &first, &key)) {
        enum weir_request_key found;
        if (!key_police(r, &key, KEY_BIT(WEIR_KEY_INCLUDE_USAGE), &found))
            return false;
        if (found == WEIR_KEY_NONE) {
            if (!weir_json_skip(&r->json))
                return false;
            continue;
        }
        (void)weir_json_kind(&r->json);
        facts->include_value.at = offset_of(r, r->json.at);
        if (!read_bool(r, WEIR_KEY_INCLUDE_USAGE, &facts->has_include_usage))
            return false;
        facts->include_value.bytes = offset_of(r, r->json.at) - facts->include_value.at;
    }
    if (r->json.fault)
        return false;
    facts->options_empty = first;
    facts->options_value.bytes = offset_of(r, r->json.at) - facts->options_value.at;
    return true;
}

static bool read_conversation(struct reader *r)
{
    struct weir_json_string s;
    bool first = true;
    struct weir_span *id = &r->facts->previous_response_id;
    enum weir_json_kind kind = weir_json_kind(&r->json);
    if (kind == WEIR_JSON_NONE)
        return false;
    if (kind == WEIR_JSON_NULL)
        return weir_json_skip(&r->json);
    r->facts->has_conversation = true;
    if (kind == WEIR_JSON_STRING) {
        if (!weir_json_take_string(&r->json, &s))
            return false;
        *id = (struct weir_span){offset_of(r, s.at), s.bytes};
        return true;
    }
    if (kind != WEIR_JSON_OBJECT)
        return refuse(r, WEIR_REQUEST_NOT_AN_OBJECT, WEIR_KEY_CONVERSATION, r->json.at);
    if (!weir_json_open(&r->json))
        return false;
    while (weir_json_member(&r->json, &first, &s)) {
        bool is_id = WEIR_JSON_IS(&s, "id") && weir_json_kind(&r->json) == WEIR_JSON_STRING;
        if (!(is_id ? weir_json_take_string(&r->json, &s) : weir_json_skip(&r->json)))
            return false;
        if (is_id)
            *id = (struct weir_span){offset_of(r, s.at), s.bytes};
    }
    return !r->json.fault;
}

/* --- The document --- */

static bool read_policed(struct reader *r, enum weir_request_key key)
{
    switch (key) {
    case WEIR_KEY_NONE:
    case WEIR_KEY_INCLUDE_USAGE:
        break;
    case WEIR_KEY_MODEL:
    case WEIR_KEY_USER:
    case WEIR_KEY_PREVIOUS_RESPONSE_ID:
        return read_name(r, key);
    case WEIR_KEY_STREAM:
        return read_bool(r, key, &r->facts->stream);
    case WEIR_KEY_STREAM_OPTIONS:
        return read_stream_options(r);
    case WEIR_KEY_MAX_TOKENS:
    case WEIR_KEY_MAX_COMPLETION_TOKENS:
    case WEIR_KEY_MAX_OUTPUT_TOKENS:
        return read_limit(r, key);
    case WEIR_KEY_N:
        return read_count(r, key, &r->facts->n);
    case WEIR_KEY_BEST_OF:
        return read_count(r, key, &r->facts->best_of);
    case WEIR_KEY_CONVERSATION:
        return read_conversation(r);
    }
    return weir_json_skip(&r->json);
}

/* A member that is no policy's business: is it input? */
static bool read_unpoliced(struct reader *r, const struct weir_json_string *key)
{
    bool anthropic = weir_api_dialect(r->api) == WEIR_DIALECT_ANTHROPIC;
    if ((anthropic || r->api == WEIR_API_OPENAI_CHAT) && WEIR_JSON_IS(key, "messages"))
        return weir_parts_messages(&r->json, r->facts);
    if (r->api == WEIR_API_OPENAI_RESPONSES && WEIR_JSON_IS(key, "input"))
        return weir_parts_messages(&r->json, r->facts);
    if ((r->api == WEIR_API_OPENAI_EMBEDDINGS && WEIR_JSON_IS(key, "input")) ||
        (r->api == WEIR_API_OPENAI_COMPLETIONS && WEIR_JSON_IS(key, "prompt")))
        return weir_parts_prompts(&r->json, r->facts);
    if (anthropic && WEIR_JSON_IS(key, "system"))
        return weir_parts_content(&r->json, r->facts);
    if (WEIR_JSON_IS(key, "instructions") || WEIR_JSON_IS(key, "suffix"))
        return weir_parts_text(&r->json, r->facts);
    if (WEIR_JSON_IS(key, "tools") || WEIR_JSON_IS(key, "functions"))
        return weir_parts_tools(&r->json, r->facts);
    if (WEIR_JSON_IS(key, "response_format") || WEIR_JSON_IS(key, "prediction") ||
        WEIR_JSON_IS(key, "documents") ||
        (r->api == WEIR_API_OPENAI_RESPONSES &&
         (WEIR_JSON_IS(key, "text") || WEIR_JSON_IS(key, "prompt"))) ||
        (anthropic && (WEIR_JSON_IS(key, "output_format") || WEIR_JSON_IS(key, "output_config"))))
        return weir_json_take_raw(&r->json, &r->facts->classes);
    return weir_json_skip(&r->json);
}

static bool read_document(struct reader *r)
{
    struct weir_json_string key;
    bool first = true;
    enum weir_json_kind kind = weir_json_kind(&r->json);
    if (kind == WEIR_JSON_NONE)
        return false;
    if (kind != WEIR_JSON_OBJECT) {
        /* Not JSON at all, or JSON but no object? The scanner knows. */
        const uint8_t *at = r->json.at;
        if (!weir_json_skip(&r->json) || !weir_json_finish(&r->json))
            return false;
        return refuse(r, WEIR_REQUEST_NOT_OBJECT, WEIR_KEY_NONE, at);
    }
    if (!weir_json_open(&r->json))
        return false;
    r->facts->open_at = offset_of(r, r->json.at);
    while (weir_json_member(&r->json, &first, &key)) {
        enum weir_request_key found;
        if (!key_police(r, &key, keys_of_api[r->api], &found))
            return false;
        if (!(found ? read_policed(r, found) : read_unpoliced(r, &key)))
            return false;
    }
    r->facts->open_empty = first;
    return weir_json_finish(&r->json);
}

enum weir_request_fault weir_request_read(struct weir_request_facts *facts, enum weir_api api,
                                          const void *body, size_t body_bytes)
{
    struct reader r = {.facts = facts, .api = api};
    memset(facts, 0, sizeof *facts);
    facts->n = facts->best_of = facts->prompts = 1;
    if (body_bytes == 0) {
        facts->fault = WEIR_REQUEST_EMPTY;
        return facts->fault;
    }
    weir_json_init(&r.json, body, body_bytes);
    bool read = read_document(&r);
    if (r.json.fault)
        (void)refuse(&r, fault_of_json(r.json.fault), WEIR_KEY_NONE, r.json.fault_at);
    WEIR_INVARIANT(read == (facts->fault == WEIR_REQUEST_OK));
    return facts->fault;
}

#include "measure/prompt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"

#define PROMPT_WORD_BYTES 4u /* three letters and the blank before them */
#define PROMPT_FRAME_BYTES 512u

static const char prompt_words[64][4] = {
    "act", "add", "age", "air", "all", "and", "any", "arm", "art", "ask", "bad", "bag", "bar",
    "bed", "big", "bit", "box", "boy", "bus", "buy", "car", "cat", "cup", "cut", "day", "dog",
    "dry", "eat", "end", "eye", "far", "few", "fly", "for", "get", "hat", "her", "hot", "ice",
    "job", "key", "law", "let", "lot", "low", "man", "map", "new", "now", "off", "oil", "old",
    "one", "out", "own", "pay", "red", "run", "sea", "sun", "top", "war", "way", "yes"};
/* 24 tokens, 96 bytes: as many of each as the words that it stands for. */
static const char prompt_lead[] = " Then go on with this list of words: write as many more as you "
                                  "can, and do not stop before then.";
#define PROMPT_LEAD_TOK 24u
_Static_assert(sizeof prompt_lead - 1 == PROMPT_LEAD_TOK * PROMPT_WORD_BYTES,
               "it takes the room of its words");
_Static_assert(WEIR_PROMPT_LEAD_TOK > PROMPT_LEAD_TOK, "some words are left");

/* Of the words: at least one. */
static uint32_t prompt_tok(const struct weir_prompt_wish *wish)
{
    WEIR_INVARIANT(wish->prompt_tok <= WEIR_PROMPT_TOK_MAX);
    return wish->prompt_tok > WEIR_PROMPT_FRAME_TOK ? wish->prompt_tok - WEIR_PROMPT_FRAME_TOK : 1;
}

size_t weir_prompt_bytes(const struct weir_prompt_wish *wish)
{
    /* a character of the model may become \u00xx */
    return (size_t)prompt_tok(wish) * PROMPT_WORD_BYTES + strlen(wish->model) * 6 +
           PROMPT_FRAME_BYTES;
}

static char *prompt_put(char *out, const char *text)
{
    size_t n = strlen(text);
    memcpy(out, text, n);
    return out + n;
}

static char *prompt_put_model(char *out, const char *model)
{
    for (; *model; model++) {
        unsigned char byte = (unsigned char)*model;
        if (byte < ' ' || byte == '"' || byte == '\\')
            out += sprintf(out, "\\u%04x", byte);
        else
            *out++ = *model;
    }
    return out;
}

static char *prompt_put_words(char *out, uint64_t seed, uint64_t stream, uint32_t count)
{
    struct weir_rng rng;
    weir_rng_seed(&rng, seed, stream);
    uint64_t bits = 0;
    for (uint32_t i = 0; i < count; i++, bits >>= 6) {
        if (i % 10 == 0)
            bits = weir_rng_u64(&rng); /* six bits a word */
        *out = ' ';
        memcpy(out + 1, prompt_words[bits & 63], PROMPT_WORD_BYTES - 1);
        out += PROMPT_WORD_BYTES;
    }
    return out;
}

static char *prompt_put_text(char *out, const struct weir_prompt_wish *wish)
{
    uint32_t left_tok = prompt_tok(wish);
    bool has_lead = left_tok >= WEIR_PROMPT_LEAD_TOK;
    left_tok -= has_lead ? PROMPT_LEAD_TOK : 0;
    uint32_t shared_tok = (uint32_t)weir_min_u64(wish->shared_tok, left_tok);
    out = prompt_put_words(out, wish->shared_seed, 1, shared_tok);
    out = prompt_put_words(out, wish->seed, 2, left_tok - shared_tok);
    return has_lead ? prompt_put(out, prompt_lead) : out;
}

size_t weir_prompt_write(const struct weir_prompt_wish *wish, char *out)
{
    char *at = prompt_put(out, "{\"model\":\"");
    const char *limit = "max_tokens", *end = "";
    at = prompt_put_model(at, wish->model);
    switch (wish->api) {
    case WEIR_API_OPENAI_CHAT:
        limit = wish->has_modern_limit ? "max_completion_tokens" : "max_tokens";
        at = prompt_put(at, "\",\"messages\":[{\"role\":\"user\",\"content\":\"");
        end = "\"}]";
        break;
    case WEIR_API_OPENAI_COMPLETIONS:
        at = prompt_put(at, "\",\"prompt\":\"");
        end = "\"";
        break;
    case WEIR_API_OPENAI_RESPONSES:
        limit = "max_output_tokens";
        at = prompt_put(at, "\",\"input\":\"");
        end = "\"";
        break;
    case WEIR_API_ANTHROPIC_MESSAGES:
        at = prompt_put(at, "\",\"messages\":[{\"role\":\"user\",\"content\":\"");
        end = "\"}]";
        break;
    case WEIR_API_OPENAI_EMBEDDINGS:
    case WEIR_API_ANTHROPIC_COUNT:
    case WEIR_API_MODELS:
    case WEIR_API_OTHER:
        WEIR_INVARIANT(wish->api == WEIR_API_OPENAI_CHAT); /* no prompt can be made for these */
    }
    at = prompt_put_text(at, wish);
    at = prompt_put(at, end);
    at += sprintf(at, ",\"%s\":%u,\"stream\":%s", limit, wish->output_tok ? wish->output_tok : 1,
                  wish->is_stream ? "true" : "false");
    bool asks_usage = wish->is_stream && (wish->api == WEIR_API_OPENAI_CHAT ||
                                          wish->api == WEIR_API_OPENAI_COMPLETIONS);
    at = prompt_put(at, asks_usage ? ",\"stream_options\":{\"include_usage\":true}}" : "}");
    return (size_t)(at - out);
}

/* ---- a payload file ---- */

static char *prompt_read_all(FILE *file, size_t *bytes)
{
    size_t room = 65536;
    char *text = malloc(room);
    *bytes = 0;
    while (text) {
        *bytes += fread(text + *bytes, 1, room - *bytes, file);
        if (*bytes < room || room > WEIR_PROMPT_FILE_BYTES_MAX)
            return text;
        char *bigger = realloc(text, room *= 2);
        if (!bigger)
            free(text);
        text = bigger;
    }
    return NULL;
}

bool weir_prompt_file(const char *path, enum weir_api api, char **body, size_t *body_bytes,
                      struct weir_request_facts *facts, char *error_text, size_t error_bytes)
{
    char why[256];
    FILE *file = fopen(path, "rb");
    *body = NULL;
    errno = file ? 0 : errno;
    char *text = file ? prompt_read_all(file, body_bytes) : NULL;
    bool has_failed = !text || ferror(file);
    int fault = errno;
    if (file)
        fclose(file);
    if (has_failed) {
        snprintf(error_text, error_bytes, "%s: cannot be read: %s", path,
                 fault ? strerror(fault) : "out of memory");
    } else if (*body_bytes > WEIR_PROMPT_FILE_BYTES_MAX) {
        snprintf(error_text, error_bytes, "%s: has more than %u MiB; send a smaller body", path,
                 WEIR_PROMPT_FILE_BYTES_MAX >> 20);
    } else if (weir_request_read(facts, api, text, *body_bytes) != WEIR_REQUEST_OK) {
        weir_request_fault_text(facts, why, sizeof why);
        snprintf(error_text, error_bytes, "%s: is not a body of %s: %s", path, weir_api_name(api),
                 why);
    } else {
        *body = text;
        return true;
    }
    free(text);
    return false;
}

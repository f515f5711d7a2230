/* prompt: request bodies of about so many tokens, for instruments that send them.
 *
 * The words are common English ones of three letters: with the space before it each is one token to
 * every tokenizer in use and four bytes, so that n of them are 4n bytes for those that count bytes.
 * What an API puts around a message counts too: WEIR_PROMPT_FRAME_TOK of a wish are no words. Which
 * word comes where depends on the seed alone; prompts of different seeds part within a few words,
 * so that no cache of prefixes serves one with another's work, except for the shared_tok tokens at
 * the front that depend on shared_seed alone.
 *
 * From WEIR_PROMPT_LEAD_TOK words on the prompt ends with a sentence that asks for a long answer,
 * so that a real model uses its output limit.
 *
 * Thread: any. */
#ifndef WEIR_MEASURE_PROMPT_H
#define WEIR_MEASURE_PROMPT_H

#include "core/base.h"
#include "wire/request.h"

#define WEIR_PROMPT_LEAD_TOK 32u
#define WEIR_PROMPT_FRAME_TOK 3u /* the least that any of them takes */
#define WEIR_PROMPT_TOK_MAX 2000000u
#define WEIR_PROMPT_FILE_BYTES_MAX (32u << 20)

struct weir_prompt_wish {
    enum weir_api api;   /* chat, completions, responses, messages */
    const char *model;   /* escaped as needed */
    uint32_t prompt_tok; /* 0 counts as 1; at most WEIR_PROMPT_TOK_MAX */
    uint32_t output_tok; /* the limit; 0 counts as 1 */
    bool is_stream;
    bool has_modern_limit; /* chat: max_completion_tokens instead of max_tokens */
    uint64_t seed;
    uint64_t shared_seed;
    uint32_t shared_tok; /* of prompt_tok, at its front */
};

/* Bytes that weir_prompt_write needs at most. */
size_t weir_prompt_bytes(const struct weir_prompt_wish *wish);
/* Writes the body, without a NUL; returns its bytes. out: weir_prompt_bytes of room. The same wish
 * gives the same bytes. Streams of chat and completions ask for usage. */
size_t weir_prompt_write(const struct weir_prompt_wish *wish, char *out);

/* Reads a payload file for api; it is sent as it is, its `stream` included.
 *
 * *body   malloc'ed, the caller's
 * *facts  what it asks for (model, stream, limit)
 *
 * Fails: false and error_text with the file's name and what is wrong in it. */
WEIR_MUST_USE bool weir_prompt_file(const char *path, enum weir_api api, char **body,
                                    size_t *body_bytes, struct weir_request_facts *facts,
                                    char *error_text, size_t error_bytes);

#endif

/* api: which API a path belongs to, and how a path is put behind an upstream's base.
 *
 * A path is judged by its last segments, after normalising: slashes doubled or trailing, `.` and
 * `..`, percent escapes and letter case do not hide a metered path from the gateway. The prefix
 * before a single last segment must be empty or end in a version segment (`/v1/messages`,
 * `/api/v1/messages`, `/messages`, but not `/v1/threads/t1/messages`).
 *
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_API_H
#define WEIR_WIRE_API_H

#include "core/base.h"

enum weir_api {
    WEIR_API_OPENAI_CHAT,        /* POST /v1/chat/completions */
    WEIR_API_OPENAI_COMPLETIONS, /* POST /v1/completions */
    WEIR_API_OPENAI_RESPONSES,   /* POST /v1/responses */
    WEIR_API_OPENAI_EMBEDDINGS,  /* POST /v1/embeddings */
    WEIR_API_ANTHROPIC_MESSAGES, /* POST /v1/messages */
    WEIR_API_ANTHROPIC_COUNT,    /* POST /v1/messages/count_tokens */
    WEIR_API_MODELS,             /* GET /v1/models, /v1/models/ID */
    WEIR_API_OTHER
};
#define WEIR_API_COUNT 8

enum weir_dialect { WEIR_DIALECT_OPENAI, WEIR_DIALECT_ANTHROPIC };

/* The API of a request path. path ends at the first '?' or '#', or at path_bytes. */
enum weir_api weir_api_of_path(const char *path, size_t path_bytes);

/* Which shape errors and limit headers have. WEIR_API_MODELS and WEIR_API_OTHER are OpenAI's unless
 * the request carries an `anthropic-version` header: the caller then says so itself. */
enum weir_dialect weir_api_dialect(enum weir_api api);

/* "openai-chat", "anthropic-messages", ...: for logs and metric labels. */
const char *weir_api_name(enum weir_api api);

/* Whether usage in tokens is read and charged for this API (the first five). */
bool weir_api_is_metered(enum weir_api api);

/* Joins an upstream's base path and a request's path (with its query) by the longest overlap of
 * whole segments: "/api/v1" + "/v1/x?q" = "/api/v1/x?q"; "" + "/v1/x" = "/v1/x";
 * "/v1" + "/x" = "/v1/x". The base may end in '/', the path begins with '/'.
 *
 * Writes to out (no NUL) and returns the bytes, or 0 when out_cap is too small. */
WEIR_MUST_USE size_t weir_path_join(const char *base, size_t base_bytes, const char *path,
                                    size_t path_bytes, char *out, size_t out_cap);

#endif

/* endpoint: the URL an instrument is pointed at, taken apart.
 *
 *   http://127.0.0.1:8765                   the API is chosen by the caller: /v1/... is put behind
 *   https://host/base/v1                    so it is here, without doubling /v1
 *   https://host/base/v1/chat/completions   the path says which API it is
 *
 * Thread: any. Nothing allocates. */
#ifndef WEIR_MEASURE_ENDPOINT_H
#define WEIR_MEASURE_ENDPOINT_H

#include "core/base.h"
#include "wire/api.h"

#define WEIR_ENDPOINT_HOST_BYTES 256
#define WEIR_ENDPOINT_PATH_BYTES 1024

struct weir_endpoint {
    char host[WEIR_ENDPOINT_HOST_BYTES]; /* a name or a literal, IPv6 without brackets */
    uint16_t port;
    bool tls;
    enum weir_api api;
    char path[WEIR_ENDPOINT_PATH_BYTES]; /* of requests: "/base/v1/chat/completions" */
};

/* Reads url. api: which API to call; WEIR_API_OTHER: the one the path names, else chat.
 *
 * Fails: false and error_text, which says what to write instead. A user name or password in the URL
 * is refused (and not repeated in the text), so are a query, a fragment, a scheme other than http
 * and https, and a path that names another API than the one asked for. */
WEIR_MUST_USE bool weir_endpoint_read(const char *url, enum weir_api api,
                                      struct weir_endpoint *endpoint, char *error_text,
                                      size_t error_bytes);

/* "https://host:port/path", with the port where it is not the usual one. Returns out. */
#define WEIR_ENDPOINT_TEXT_BYTES (WEIR_ENDPOINT_HOST_BYTES + WEIR_ENDPOINT_PATH_BYTES + 24)
const char *weir_endpoint_text(const struct weir_endpoint *endpoint,
                               char out[static WEIR_ENDPOINT_TEXT_BYTES]);

#endif

#include "measure/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/slice.h"

/* The path of each API behind a base. */
static const char *endpoint_api_path(enum weir_api api)
{
    switch (api) {
    case WEIR_API_OPENAI_CHAT:
        return "/v1/chat/completions";
    case WEIR_API_OPENAI_COMPLETIONS:
        return "/v1/completions";
    case WEIR_API_OPENAI_RESPONSES:
        return "/v1/responses";
    case WEIR_API_OPENAI_EMBEDDINGS:
        return "/v1/embeddings";
    case WEIR_API_ANTHROPIC_MESSAGES:
        return "/v1/messages";
    case WEIR_API_ANTHROPIC_COUNT:
        return "/v1/messages/count_tokens";
    case WEIR_API_MODELS:
        return "/v1/models";
    case WEIR_API_OTHER:
        break;
    }
    return NULL;
}

static bool endpoint_scheme(const char **at, bool *tls)
{
    struct weir_slice url = weir_slice_of(*at);
    *tls = url.bytes >= 8 &&
           weir_slice_equal_caseless((struct weir_slice){url.at, 8}, WEIR_SLICE("https://"));
    bool plain = url.bytes >= 7 &&
                 weir_slice_equal_caseless((struct weir_slice){url.at, 7}, WEIR_SLICE("http://"));
    *at += *tls ? 8 : 7;
    return *tls || plain;
}

/* Digits up to end. 0: not a port. */
static uint16_t endpoint_port(const char *at, const char *end)
{
    unsigned port = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9' || port > 6553)
            return 0;
        port = port * 10 + (unsigned)(*at - '0');
    }
    return port <= 65535 ? (uint16_t)port : 0;
}

/* Reads host and port in [at, end). */
static bool endpoint_authority(struct weir_endpoint *e, const char *at, const char *end)
{
    const char *host = at, *host_end, *rest;
    if (at < end && *at == '[') {
        host++;
        host_end = memchr(at, ']', (size_t)(end - at));
        rest = host_end ? host_end + 1 : NULL;
    } else {
        host_end = memchr(at, ':', (size_t)(end - at));
        host_end = host_end ? host_end : end;
        rest = host_end;
    }
    if (!rest || host_end == host || (size_t)(host_end - host) >= sizeof e->host)
        return false;
    for (const char *p = host; p < host_end; p++)
        if (*p <= ' ' || *p >= 0x7f || strchr("<>\"\\^`{|}%", *p))
            return false;
    memcpy(e->host, host, (size_t)(host_end - host));
    e->host[host_end - host] = '\0';
    e->port = e->tls ? 443 : 80;
    if (rest == end)
        return true;
    e->port = *rest == ':' ? endpoint_port(rest + 1, end) : 0;
    return e->port != 0;
}

/* The path of requests, from that of the URL. NULL: right; else what is wrong. */
static const char *endpoint_path(struct weir_endpoint *e, enum weir_api api, const char *path)
{
    size_t bytes = strlen(path);
    for (const char *p = path; *p; p++)
        if (*p <= ' ' || *p >= 0x7f)
            return "its path holds a blank or a character that must be written as %XX";
    enum weir_api named = bytes > 1 ? weir_api_of_path(path, bytes) : WEIR_API_OTHER;
    if (named != WEIR_API_OTHER) {
        if (api != WEIR_API_OTHER && api != named)
            return "its path is that of another API than the one asked for";
        if (bytes >= sizeof e->path)
            return "its path is too long";
        e->api = named;
        memcpy(e->path, path, bytes + 1);
        return NULL;
    }
    e->api = api == WEIR_API_OTHER ? WEIR_API_OPENAI_CHAT : api;
    const char *own = endpoint_api_path(e->api);
    WEIR_INVARIANT(own);
    size_t n = weir_path_join(path, bytes, own, strlen(own), e->path, sizeof e->path - 1);
    if (n == 0)
        return "its path is too long";
    e->path[n] = '\0';
    return NULL;
}

bool weir_endpoint_read(const char *url, enum weir_api api, struct weir_endpoint *endpoint,
                        char *error_text, size_t error_bytes)
{
    const char *at = url, *wrong = NULL;
    *endpoint = (struct weir_endpoint){0};
    if (!endpoint_scheme(&at, &endpoint->tls)) {
        snprintf(error_text, error_bytes, "the URL must begin with http:// or https://");
        return false;
    }
    size_t authority_bytes = strcspn(at, "/?#");
    if (memchr(at, '@', authority_bytes))
        wrong = "it holds a user name or password; give the key by an environment variable";
    else if (strpbrk(at, "?#"))
        wrong = "it has a query or a fragment; leave it out";
    else if (!endpoint_authority(endpoint, at, at + authority_bytes))
        wrong = "it has no host, or a port that is not a number from 1 to 65535";
    else
        wrong = endpoint_path(endpoint, api, at + authority_bytes);
    if (wrong)
        snprintf(error_text, error_bytes, "the URL is wrong: %s", wrong);
    return !wrong;
}

const char *weir_endpoint_text(const struct weir_endpoint *endpoint,
                               char out[static WEIR_ENDPOINT_TEXT_BYTES])
{
    bool is_v6 = strchr(endpoint->host, ':') != NULL;
    char port[8] = "";
    if (endpoint->port != (endpoint->tls ? 443 : 80))
        snprintf(port, sizeof port, ":%u", endpoint->port);
    snprintf(out, WEIR_ENDPOINT_TEXT_BYTES, "%s://%s%s%s%s%s", endpoint->tls ? "https" : "http",
             is_v6 ? "[" : "", endpoint->host, is_v6 ? "]" : "", port, endpoint->path);
    return out;
}

/* http1_name: the header names weir acts on, as small numbers.
 *
 * The parser looks each name up once; everything later compares numbers, and a set of names is one
 * 64-bit mask. A name that is not listed is WEIR_HTTP_OTHER. Three families are known by their
 * prefix alone: x-ratelimit-, anthropic-ratelimit- and ratelimit (the IETF draft's fields). Thread:
 * any. */
#ifndef WEIR_NET_HTTP1_NAME_H
#define WEIR_NET_HTTP1_NAME_H

#include <stddef.h>
#include <stdint.h>

/* id, spelling in lower case */
#define WEIR_HTTP_NAMES(X)                                                                         \
    X(ACCEPT, "accept")                                                                            \
    X(ACCEPT_ENCODING, "accept-encoding")                                                          \
    X(ANTHROPIC_BETA, "anthropic-beta")                                                            \
    X(ANTHROPIC_VERSION, "anthropic-version")                                                      \
    X(API_KEY, "api-key")                                                                          \
    X(AUTHORIZATION, "authorization")                                                              \
    X(CACHE_CONTROL, "cache-control")                                                              \
    X(CONNECTION, "connection")                                                                    \
    X(CONTENT_ENCODING, "content-encoding")                                                        \
    X(CONTENT_LENGTH, "content-length")                                                            \
    X(CONTENT_TYPE, "content-type")                                                                \
    X(COOKIE, "cookie")                                                                            \
    X(DATE, "date")                                                                                \
    X(ETAG, "etag")                                                                                \
    X(EXPECT, "expect")                                                                            \
    X(FORWARDED, "forwarded")                                                                      \
    X(HOST, "host")                                                                                \
    X(HTTP2_SETTINGS, "http2-settings")                                                            \
    X(IDEMPOTENCY_KEY, "idempotency-key")                                                          \
    X(IF_NONE_MATCH, "if-none-match")                                                              \
    X(KEEP_ALIVE, "keep-alive")                                                                    \
    X(LAST_EVENT_ID, "last-event-id")                                                              \
    X(LOCATION, "location")                                                                        \
    X(ORIGIN, "origin")                                                                            \
    X(PROXY_AUTHENTICATE, "proxy-authenticate")                                                    \
    X(PROXY_AUTHORIZATION, "proxy-authorization")                                                  \
    X(PROXY_CONNECTION, "proxy-connection")                                                        \
    X(REQUEST_ID, "request-id")                                                                    \
    X(RETRY_AFTER, "retry-after")                                                                  \
    X(RETRY_AFTER_MS, "retry-after-ms")                                                            \
    X(SEC_FETCH_SITE, "sec-fetch-site")                                                            \
    X(SERVER, "server")                                                                            \
    X(SET_COOKIE, "set-cookie")                                                                    \
    X(TE, "te")                                                                                    \
    X(TRAILER, "trailer")                                                                          \
    X(TRANSFER_ENCODING, "transfer-encoding")                                                      \
    X(UPGRADE, "upgrade")                                                                          \
    X(USER_AGENT, "user-agent")                                                                    \
    X(VIA, "via")                                                                                  \
    X(WEIR_LANE, "weir-lane")                                                                      \
    X(WEIR_SOURCE, "weir-source")                                                                  \
    X(X_API_KEY, "x-api-key")                                                                      \
    X(X_FORWARDED_FOR, "x-forwarded-for")                                                          \
    X(X_GOOG_API_KEY, "x-goog-api-key")                                                            \
    X(X_REQUEST_ID, "x-request-id")                                                                \
    X(X_SHOULD_RETRY, "x-should-retry")                                                            \
    X(X_STAINLESS_READ_TIMEOUT, "x-stainless-read-timeout")                                        \
    X(X_STAINLESS_RETRY_COUNT, "x-stainless-retry-count")                                          \
    X(X_STAINLESS_TIMEOUT, "x-stainless-timeout")

enum weir_http_name {
    WEIR_HTTP_OTHER,
#define WEIR_HTTP_NAME_ID(id, text) WEIR_HTTP_##id,
    WEIR_HTTP_NAMES(WEIR_HTTP_NAME_ID)
#undef WEIR_HTTP_NAME_ID
        WEIR_HTTP_X_RATELIMIT_ANY,     /* x-ratelimit-... */
    WEIR_HTTP_ANTHROPIC_RATELIMIT_ANY, /* anthropic-ratelimit-... */
    WEIR_HTTP_RATELIMIT_ANY,           /* ratelimit, ratelimit-policy, ratelimit-... */
    WEIR_HTTP_NAME_COUNT,
};
_Static_assert(WEIR_HTTP_NAME_COUNT <= 64, "a set of names is one 64-bit mask");

/* The set that holds only this name. */
#define WEIR_HTTP_BIT(id) (UINT64_C(1) << (id))

/* The number of a name, in any case. The bytes must be token characters (RFC 9110 5.6.2): the
 * parser has checked them. bytes: 0 or more. */
enum weir_http_name weir_http_name_id(const char *name, size_t bytes);

/* Its spelling in lower case; the prefix for the three families; "" for WEIR_HTTP_OTHER. Static. */
const char *weir_http_name_text(enum weir_http_name id);

#endif

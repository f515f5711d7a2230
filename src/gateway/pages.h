/* pages: the files of the lab page, as the admin listener gives them out. They hold no secret: no
 * token is asked for.
 *
 *   GET /             302 to lab/
 *   GET /lab          302 to lab/
 *   GET /lab/         the page
 *   GET /lab/FILE     what it is made of, and weir-lab.html, the page as one file to keep
 *
 * The files lie in the program, each as it is, and smaller by gzip and brotli where that helps. Their
 * names stay the same from build to build: a browser asks again each time and is told 304 (RFC 9110
 * 13.1.2) while the tag is the same. A form has its own tag, so that no cache takes one for the
 * other. What is decided here touches no socket. Thread: any. */
#ifndef WEIR_GATEWAY_PAGES_H
#define WEIR_GATEWAY_PAGES_H

#include <stdint.h>

#include "net/slice.h"

/* One file. All of it static. */
struct weir_page {
    const char *path; /* below /lab/; "": the page itself */
    const char *type; /* its content-type */
    const char *tag;  /* SHA-256 of the plain bytes, in hex */
    struct weir_slice plain;
    struct weir_slice gzip, brotli; /* {NULL, 0}: no smaller */
    bool is_download;               /* to be kept as a file, not shown */
};

/* What was built in. count 0: a weir without the page, which says how to build one that has it. */
struct weir_pages {
    const struct weir_page *list;
    size_t count;
};

/* Whether a path (without query) is answered here. */
bool weir_pages_has(struct weir_slice path);

struct weir_page_request {
    bool is_get; /* or HEAD, whose body the server leaves out */
    struct weir_slice path;
    struct weir_slice accept_encoding; /* of the request's header; {NULL, 0}: none */
    struct weir_slice if_none_match;   /* likewise */
};

#define WEIR_PAGE_HEADERS_BYTES 1024u

struct weir_page_answer {
    uint32_t status;
    const char *type;                      /* static */
    struct weir_slice body;                /* static */
    char headers[WEIR_PAGE_HEADERS_BYTES]; /* lines that end in CRLF, for weir_exchange_respond */
};

/* The answer to a request whose path weir_pages_has. Of the forms a client accepts it gets the one it
 * prefers, among equals the smallest; one that accepts none of ours gets the plain bytes. */
void weir_pages_answer(const struct weir_pages *pages, const struct weir_page_request *request,
                       struct weir_page_answer *answer);

#endif

#include "http1_run.h"

#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Parses heads until one that is not interim. True if the body comes next. */
static bool run_head(struct http1_run *run, const struct http1_run_input *in, size_t given,
                     size_t *scanned)
{
    size_t max = in->head_bytes_max ? in->head_bytes_max : WEIR_HTTP_HEAD_BYTES_DEFAULT;
    do {
        run->answer = in->response
                          ? weir_http_response_parse(in->at + run->head_at, given - run->head_at,
                                                     max, in->method, scanned, &run->head)
                          : weir_http_request_parse(in->at + run->head_at, given - run->head_at,
                                                    max, scanned, &run->head);
        run->fault = run->answer == WEIR_HTTP_BAD ? run->head.fault : WEIR_HTTP_FAULT_NONE;
        if (run->answer != WEIR_HTTP_DONE)
            return false;
        run->consumed = run->head_at + run->head.head_bytes;
        *scanned = 0;
        if (!run->head.interim)
            return true;
        run->head_at = run->consumed;
        run->answer = WEIR_HTTP_MORE;
    } while (++run->interims < HTTP1_RUN_INTERIM_MAX);
    return false;
}

static void run_body(struct http1_run *run, struct weir_http_body *body,
                     const struct http1_run_input *in, size_t given)
{
    for (;;) {
        size_t used;
        struct weir_slice data;
        run->answer =
            weir_http_body_feed(body, in->at + run->consumed, given - run->consumed, &used, &data);
        if (run->answer == WEIR_HTTP_BAD) {
            run->fault = body->fault;
            return;
        }
        size_t kept = smaller(run->body_bytes, sizeof run->body);
        memcpy(run->body + kept, data.at, smaller(data.bytes, sizeof run->body - kept));
        run->body_bytes += data.bytes;
        run->consumed += used;
        if (run->answer == WEIR_HTTP_DONE || run->consumed == given)
            return;
    }
}

void http1_run(struct http1_run *run, const struct http1_run_input *in, size_t first_bytes,
               size_t more_bytes)
{
    struct weir_http_body body = {0};
    size_t scanned = 0;
    run->answer = WEIR_HTTP_MORE;
    run->fault = WEIR_HTTP_FAULT_NONE;
    run->head_done = false;
    run->head_at = run->consumed = run->body_bytes = 0;
    run->interims = 0;
    for (size_t given = 0, step = first_bytes; given < in->bytes && run->answer == WEIR_HTTP_MORE;
         step = more_bytes) {
        given += smaller(step, in->bytes - given);
        if (!run->head_done) {
            if (!run_head(run, in, given, &scanned))
                continue;
            run->head_done = true;
            weir_http_body_init(&body, &run->head,
                                in->body_bytes_max ? in->body_bytes_max : 1 << 20);
        }
        run_body(run, &body, in, given);
    }
    if (in->eof && run->head_done && run->answer == WEIR_HTTP_MORE) {
        run->answer = weir_http_body_eof(&body);
        run->fault = body.fault;
    }
}

static const char *head_difference(const struct weir_http_head *a, const struct weir_http_head *b)
{
    if (a->head_bytes != b->head_bytes || a->method != b->method || a->status != b->status)
        return "start line";
    if (memcmp(&a->target, &b->target, sizeof a->target) != 0 ||
        memcmp(&a->path, &b->path, sizeof a->path) != 0 ||
        memcmp(&a->authority, &b->authority, sizeof a->authority) != 0 ||
        memcmp(&a->reason, &b->reason, sizeof a->reason) != 0)
        return "target";
    if (a->framing != b->framing || a->content_length != b->content_length)
        return "framing";
    if (a->keep_alive != b->keep_alive || a->expect_continue != b->expect_continue ||
        a->upgrade != b->upgrade || a->version_minor != b->version_minor)
        return "connection";
    if (a->header_count != b->header_count || a->present != b->present ||
        a->repeated != b->repeated ||
        memcmp(a->header, b->header, a->header_count * sizeof a->header[0]) != 0)
        return "headers";
    return NULL;
}

bool http1_run_same(const struct http1_run *a, const struct http1_run *b, const char **what)
{
    *what = NULL;
    if (a->answer != b->answer || a->fault != b->fault)
        *what = "answer";
    else if (a->head_done != b->head_done || a->interims != b->interims || a->head_at != b->head_at)
        *what = "heads";
    else if (a->head_done && head_difference(&a->head, &b->head))
        *what = head_difference(&a->head, &b->head);
    else if (a->body_bytes != b->body_bytes ||
             memcmp(a->body, b->body, smaller(a->body_bytes, sizeof a->body)) != 0)
        *what = "body";
    else if (a->answer == WEIR_HTTP_DONE && a->consumed != b->consumed)
        *what = "consumed";
    return *what == NULL;
}

bool http1_run_splits(struct http1_run *run, const struct http1_run_input *in, size_t stride,
                      const char **what, size_t *split)
{
    struct http1_run other;
    *split = 0;
    http1_run(run, in, HTTP1_RUN_WHOLE, HTTP1_RUN_WHOLE);
    http1_run(&other, in, HTTP1_RUN_BYTE_BY_BYTE, HTTP1_RUN_BYTE_BY_BYTE);
    if (!http1_run_same(run, &other, what))
        return false;
    for (*split = 1; *split < in->bytes; *split += stride) {
        http1_run(&other, in, *split, HTTP1_RUN_WHOLE);
        if (!http1_run_same(run, &other, what))
            return false;
    }
    return true;
}

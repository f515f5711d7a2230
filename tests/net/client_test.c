/* The client over plain connections, against an upstream that does every wrong thing. */
#include "upstream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ = 256 << 10 }; /* the client's read buffer */

#define OK_HEAD "HTTP/1.1 200 OK\r\n"

static struct weir_target_view view_of(struct bed *bed)
{
    struct weir_target_view view;
    weir_target_view(bed->target, &view);
    return view;
}

/* Starts a call and plays it to the point where the upstream has read the request. */
static int begin(struct bed *bed, struct caller *c)
{
    caller_start(c, bed, GET, NULL);
    BED_UNTIL(bed, c->sent_count == 1);
    int fd = up_accept(bed);
    up_read(fd, GET);
    return fd;
}

/* Lets the kernel hold so many unread bytes; false when it may not. */
static bool client_end_grow(struct bed *bed, int bytes)
{
    return setsockopt(bed_client_end(bed), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == 0;
}

/* --- whole calls --- */

static void client__request_in_pieces__arrives_in_order_and_the_answer_comes_back(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    bed_open(&bed, NULL);
    struct weir_call_request request = {
        .head = WEIR_SLICE("POST /x HTTP/1.1\r\n\r\n"), .timeouts = bed_timeouts, .piece_count = 4};
    request.pieces[0] = WEIR_SLICE("one ");
    request.pieces[1] = WEIR_SLICE("");
    request.pieces[2] = WEIR_SLICE("two ");
    request.pieces[3] = WEIR_SLICE("three");
    caller_start_request(&c, &bed, &request);
    CHECK_INT(view_of(&bed).connects, 0);
    BED_UNTIL(&bed, c.sent_count == 1);
    int fd = up_accept(&bed);
    up_read(fd, "POST /x HTTP/1.1\r\n\r\none two three");
    up_write(fd, OK_HEAD "x-test: yes\r\ncontent-length: 5\r\n\r\nhello");
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_INT(c.status, 200);
    CHECK_STR(c.header, "yes");
    CHECK_STR(c.body, "hello");
    CHECK(c.sent);
    struct weir_target_view view = view_of(&bed);
    CHECK_INT(view.idle, 1);
    CHECK_INT(view.connects, 1);
    CHECK_INT(view.failures, 0);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

struct answer_case {
    const char *name;
    const char *bytes;
    bool close;   /* the upstream closes behind it */
    bool is_head; /* the request was HEAD */
    enum weir_call_failure failure;
    int status;
    const char *body;
    const char *trailers;
    bool pooled;
};

static const struct answer_case answer_cases[] = {
    {"length", OK_HEAD "content-length: 3\r\n\r\nabc", false, false, WEIR_CALL_OK, 200, "abc", "",
     true},
    {"length, and a close behind", OK_HEAD "content-length: 3\r\n\r\nabc", true, false,
     WEIR_CALL_OK, 200, "abc", "", false},
    {"length 0", OK_HEAD "content-length: 0\r\n\r\n", false, false, WEIR_CALL_OK, 200, "", "",
     true},
    {"chunks", OK_HEAD "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", false,
     false, WEIR_CALL_OK, 200, "abcde", "", true},
    {"chunks and trailers",
     OK_HEAD "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx-a: 1\r\nx-b:  two words \r\n\r\n",
     false, false, WEIR_CALL_OK, 200, "x", "x-a=1;x-b=two words;", true},
    {"until close", OK_HEAD "\r\nabc", true, false, WEIR_CALL_OK, 200, "abc", "", false},
    {"HTTP/1.0 until close", "HTTP/1.0 200 OK\r\n\r\nabc", true, false, WEIR_CALL_OK, 200, "abc",
     "", false},
    {"HTTP/1.0 with length is not kept", "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na", false,
     false, WEIR_CALL_OK, 200, "a", "", false},
    {"connection: close", OK_HEAD "connection: close\r\ncontent-length: 1\r\n\r\na", false, false,
     WEIR_CALL_OK, 200, "a", "", false},
    {"HEAD", OK_HEAD "content-length: 10\r\n\r\n", false, true, WEIR_CALL_OK, 200, "", "", true},
    {"204", "HTTP/1.1 204 No Content\r\n\r\n", false, false, WEIR_CALL_OK, 204, "", "", true},
    {"304", "HTTP/1.1 304 Not Modified\r\n\r\n", false, false, WEIR_CALL_OK, 304, "", "", true},
    {"100 and 103 before",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" OK_HEAD
     "content-length: 1\r\n\r\na",
     false, false, WEIR_CALL_OK, 200, "a", "", true},
    {"a byte too many", OK_HEAD "content-length: 1\r\n\r\nab", false, false, WEIR_CALL_OK, 200, "a",
     "", false},
    {"a second answer", OK_HEAD "content-length: 1\r\n\r\na" OK_HEAD "content-length: 0\r\n\r\n",
     false, false, WEIR_CALL_OK, 200, "a", "", false},
    {"bytes after the last chunk", OK_HEAD "transfer-encoding: chunked\r\n\r\n0\r\n\r\nx", false,
     false, WEIR_CALL_OK, 200, "", "", false},
    {"a body after HEAD", OK_HEAD "content-length: 3\r\n\r\nabc", false, true, WEIR_CALL_OK, 200,
     "", "", false},
    {"a redirect is passed on", "HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n",
     false, false, WEIR_CALL_OK, 302, "", "", true},
    {"a status of two digits", "HTTP/1.1 50 Oops\r\ncontent-length: 0\r\n\r\n", false, false,
     WEIR_CALL_E_ANSWER, 0, "", "", false},
    {"not HTTP", "SSH-2.0-OpenSSH\r\n", false, false, WEIR_CALL_E_ANSWER, 0, "", "", false},
    {"two lengths", OK_HEAD "content-length: 1\r\ncontent-length: 2\r\n\r\nab", false, false,
     WEIR_CALL_E_ANSWER, 0, "", "", false},
    {"length and chunks", OK_HEAD "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", false,
     false, WEIR_CALL_E_ANSWER, 0, "", "", false},
    {"101", "HTTP/1.1 101 Switching\r\n\r\n", false, false, WEIR_CALL_E_ANSWER, 0, "", "", false},
    {"bad chunk size behind good data",
     OK_HEAD "transfer-encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n", false, false, WEIR_CALL_E_ANSWER,
     200, "a", "", false},
    {"a chunk that does not end", OK_HEAD "transfer-encoding: chunked\r\n\r\n1\r\naXX", false,
     false, WEIR_CALL_E_ANSWER, 200, "a", "", false},
    {"cut in the status line", "HTTP/1.1 2", true, false, WEIR_CALL_E_CUT, 0, "", "", false},
    {"cut in the head", OK_HEAD "x-te", true, false, WEIR_CALL_E_CUT, 0, "", "", false},
    {"cut in the length", OK_HEAD "content-length: 5\r\n\r\nab", true, false, WEIR_CALL_E_CUT, 200,
     "ab", "", false},
    {"cut between chunks", OK_HEAD "transfer-encoding: chunked\r\n\r\n1\r\na\r\n", true, false,
     WEIR_CALL_E_CUT, 200, "a", "", false},
    {"cut before the last CRLF", OK_HEAD "transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", true,
     false, WEIR_CALL_E_CUT, 200, "a", "", false},
    {"closed after 100", "HTTP/1.1 100 Continue\r\n\r\n", true, false, WEIR_CALL_E_WRITE, 0, "", "",
     false},
    {"closed without a byte", "", true, false, WEIR_CALL_E_WRITE, 0, "", "", false},
};

#define AT_ONCE SIZE_MAX /* a step: everything is there, the close too, before the client looks */

/* step: bytes written at a time; each is read before the next is written. */
static void answer_case_run(const struct answer_case *a, size_t step)
{
    struct bed bed;
    struct caller c = {0};
    bed_open(&bed, NULL);
    const char *request = a->is_head ? "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n" : GET;
    caller_start(&c, &bed, request, NULL);
    BED_UNTIL(&bed, c.sent_count == 1);
    int fd = up_accept(&bed);
    up_read(fd, request);
    size_t bytes = strlen(a->bytes);
    for (size_t at = 0; at < bytes; at += step) {
        if (c.done_count > 0 && c.failure != WEIR_CALL_OK)
            break; /* refused before the end: its connection is closed */
        size_t n = bytes - at < step ? bytes - at : step;
        if (send(fd, a->bytes + at, n, MSG_NOSIGNAL) < 0)
            break;
        if (step != AT_ONCE)
            bed_wait(&bed);
    }
    if (a->close)
        close(fd);
    BED_UNTIL(&bed, c.done_count == 1);
    if (step >= bytes)
        bed_wait(&bed); /* what is behind the end was written with it, and is seen now */
    struct weir_target_view view = view_of(&bed);
    CHECK_MSG(c.failure == a->failure, "%.60s, step %zu: %s %.300s", a->name, step,
              weir_call_failure_label(c.failure), c.detail);
    CHECK_MSG(c.status == a->status, "%s, step %zu: status %d", a->name, step, c.status);
    CHECK_STR(c.body ? c.body : "", a->body);
    CHECK_STR(c.trailers, a->trailers);
    bed_wait(&bed);
    view = view_of(&bed);
    CHECK_MSG(view.idle == (a->pooled ? 1 : 0), "%s, step %zu: idle %u", a->name, step, view.idle);
    CHECK_INT(view.failures, a->failure != WEIR_CALL_OK);
    if (!a->close)
        close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void client__every_kind_of_answer_whole__ends_as_it_should(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(answer_cases); i++)
        answer_case_run(&answer_cases[i], 1 << 20);
    for (size_t i = 0; i < WEIR_COUNT(answer_cases); i++)
        answer_case_run(&answer_cases[i], AT_ONCE);
}

static void client__every_kind_of_answer_byte_by_byte__ends_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(answer_cases); i++)
        answer_case_run(&answer_cases[i], 1);
    for (size_t i = 0; i < WEIR_COUNT(answer_cases); i++)
        answer_case_run(&answer_cases[i], 7);
}

static void client__head_of_an_answer_up_to_its_limit__passes_and_beyond_fails(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct bed bed;
        struct caller c = {0};
        bed_open(&bed, NULL);
        int fd = begin(&bed, &c);
        size_t bytes = over ? 200 * 1024 : 100 * 1024;
        char *value = malloc(bytes);
        memset(value, 'v', bytes);
        up_write(fd, OK_HEAD "content-length: 0\r\nx-test: ");
        up_write_bytes(fd, value, bytes);
        up_write(fd, "\r\n\r\n");
        BED_UNTIL(&bed, c.done_count == 1);
        CHECK_INT(c.failure, over ? WEIR_CALL_E_ANSWER : WEIR_CALL_OK);
        free(value);
        close(fd);
        caller_free(&c);
        bed_close(&bed);
    }
}

/* --- the pool --- */

/* A call that is answered at once, on a new (fd -1) or a given connection; returns the connection.
 */
static int round_trip(struct bed *bed, int fd)
{
    struct caller c = {0};
    caller_start(&c, bed, GET, NULL);
    BED_UNTIL(bed, c.sent_count == 1);
    if (fd < 0)
        fd = up_accept(bed);
    up_read(fd, GET);
    up_write(fd, OK_HEAD "content-length: 2\r\n\r\nok");
    BED_UNTIL(bed, c.done_count == 1);
    CHECK_MSG(c.failure == WEIR_CALL_OK, "%s", c.detail);
    CHECK_STR(c.body, "ok");
    caller_free(&c);
    return fd;
}

static void client__calls_one_after_another__share_one_connection(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL);
    int fd = round_trip(&bed, -1);
    for (int i = 0; i < 20; i++)
        round_trip(&bed, fd);
    struct weir_target_view view = view_of(&bed);
    CHECK_INT(view.connects, 1);
    CHECK_INT(view.reuses, 20);
    close(fd);
    bed_close(&bed);
}

/* The read that brings the end fills the buffer, so that it does not show whether more is there. */
static void
client__answer_that_fills_the_read_buffer__is_pooled_only_if_nothing_follows(void **state)
{
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        struct bed bed;
        struct caller c = {0};
        bed_open(&bed, NULL);
        int fd = begin(&bed, &c);
        if (!client_end_grow(&bed, 4 << 20))
            skip();
        char *bytes = malloc(READ + 1);
        memset(bytes, 'b', READ + 1);
        const char *head = OK_HEAD "content-length: 262101\r\n\r\n";
        CHECK_INT(strlen(head) + 262101, READ);
        memcpy(bytes, head, strlen(head));
        up_write_bytes(fd, bytes, (size_t)READ + (size_t)extra);
        BED_UNTIL(&bed, c.done_count == 1);
        CHECK_INT(c.failure, WEIR_CALL_OK);
        CHECK_INT(c.body_calls, 1);
        CHECK_INT(view_of(&bed).idle, !extra);
        free(bytes);
        close(fd);
        caller_free(&c);
        bed_close(&bed);
    }
}

static void client__idle_connection_newest__is_used_first(void **state)
{
    (void)state;
    struct bed bed;
    struct caller a = {0}, b = {0};
    bed_open(&bed, NULL);
    int fa = begin(&bed, &a), fb = begin(&bed, &b);
    up_write(fa, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, a.done_count == 1);
    up_write(fb, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, b.done_count == 1);
    CHECK_INT(view_of(&bed).idle, 2);
    round_trip(&bed, fb);
    round_trip(&bed, fb);
    CHECK_INT(view_of(&bed).idle, 2);
    close(fa);
    close(fb);
    caller_free(&a);
    caller_free(&b);
    bed_close(&bed);
}

static void client__idle_connection_that_hangs_up__is_dropped_at_once(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL);
    for (int way = 0; way < 3; way++) {
        int fd = round_trip(&bed, -1);
        CHECK_INT(view_of(&bed).idle, 1);
        if (way == 0)
            close(fd);
        else if (way == 1)
            up_reset(fd);
        else
            up_write(fd, "HTTP/1.1 408 Request Timeout\r\n\r\n");
        bed_wait(&bed);
        CHECK_INT(view_of(&bed).idle, 0);
        if (way == 2)
            close(fd);
    }
    close(round_trip(&bed, -1));
    CHECK_INT(view_of(&bed).connects, 4);
    bed_close(&bed);
}

static void client__idle_connection_after_its_time__is_closed(void **state)
{
    (void)state;
    struct bed bed;
    struct caller a = {0}, b = {0};
    bed_open(&bed, NULL);
    int fa = begin(&bed, &a), fb = begin(&bed, &b);
    up_write(fa, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, a.done_count == 1);
    bed_pass(&bed, 6 * WEIR_NS_PER_S);
    up_write(fb, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, b.done_count == 1);
    bed_pass(&bed, 3999 * WEIR_NS_PER_MS);
    CHECK_INT(view_of(&bed).idle, 2);
    bed_pass(&bed, 3 * WEIR_NS_PER_MS);
    CHECK_INT(view_of(&bed).idle, 1);
    CHECK(up_is_closed(fa));
    CHECK(!up_is_closed(fb));
    bed_pass(&bed, 6 * WEIR_NS_PER_S);
    CHECK_INT(view_of(&bed).idle, 0);
    close(fa);
    close(fb);
    caller_free(&a);
    caller_free(&b);
    bed_close(&bed);
}

static void client__more_idle_connections_than_the_pool_holds__closes_the_oldest(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c[3] = {0};
    int fd[3];
    struct weir_target_rules rules = {.pool_idle_ns = 10 * WEIR_NS_PER_S, .pool_max = 2};
    bed_open(&bed, &rules);
    for (int i = 0; i < 3; i++)
        fd[i] = begin(&bed, &c[i]);
    CHECK_INT(view_of(&bed).busy, 3);
    for (int i = 0; i < 3; i++) {
        up_write(fd[i], OK_HEAD "content-length: 0\r\n\r\n");
        BED_UNTIL(&bed, c[i].done_count == 1);
    }
    CHECK_INT(view_of(&bed).idle, 2);
    CHECK(up_is_closed(fd[0]));
    for (int i = 0; i < 3; i++) {
        close(fd[i]);
        caller_free(&c[i]);
    }
    bed_close(&bed);
}

/* The connection breaks between the last look at it and the write: shut down behind the client's
 * back. */
static void client__reused_connection_dead_before_a_byte_was_sent__is_replaced_once(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    bed_open(&bed, NULL);
    int fd = round_trip(&bed, -1);
    CHECK_INT(shutdown(bed_client_end(&bed), SHUT_WR), 0);
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.sent_count == 1);
    close(fd);
    fd = up_accept(&bed);
    up_read(fd, GET);
    up_write(fd, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_MSG(c.failure == WEIR_CALL_OK, "%s", c.detail);
    CHECK_INT(view_of(&bed).connects, 2);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void
client__reused_connection_reset_after_the_request_was_sent__is_the_callers_to_judge(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    bed_open(&bed, NULL);
    int fd = round_trip(&bed, -1);
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.sent_count == 1);
    up_reset(fd);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_WRITE);
    CHECK(c.sent);
    CHECK(strstr(c.detail, "before the answer"));
    CHECK(strstr(c.detail, "127.0.0.1:"));
    CHECK_INT(view_of(&bed).connects, 1);
    caller_free(&c);
    bed_close(&bed);
}

/* As a server does that closes an idle connection while the request is on its way. */
static void
client__reused_connection_dies_unanswered__a_repeatable_request_is_sent_anew(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    struct weir_call_request request = {.head = WEIR_SLICE(GET),
                                        .pieces = {WEIR_SLICE("body")},
                                        .piece_count = 1,
                                        .is_repeatable = true,
                                        .timeouts = bed_timeouts};
    for (int how = 0; how < 2; how++) { /* by reset, by close */
        bed_open(&bed, NULL);
        c = (struct caller){0};
        int fd = round_trip(&bed, -1);
        caller_start_request(&c, &bed, &request);
        BED_UNTIL(&bed, c.sent_count == 1);
        up_read(fd, GET "body");
        how == 0 ? up_reset(fd) : (void)close(fd);
        BED_UNTIL(&bed, view_of(&bed).connects == 2);
        fd = up_accept(&bed);
        up_read(fd, GET "body");
        up_write(fd, OK_HEAD "content-length: 2\r\n\r\nhi");
        BED_UNTIL(&bed, c.done_count == 1);
        CHECK_MSG(c.failure == WEIR_CALL_OK, "%s", c.detail);
        CHECK_STR(c.body, "hi");
        CHECK_INT(c.sent_count, 1);
        close(fd);
        caller_free(&c);
        bed_close(&bed);
    }
}

static void
client__repeatable_request__is_sent_anew_once_only_and_not_once_an_answer_began(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    struct weir_call_request request = {
        .head = WEIR_SLICE(GET), .is_repeatable = true, .timeouts = bed_timeouts};
    /* The second connection dies too: it is new, so that is no race with an idle timer. */
    bed_open(&bed, NULL);
    int fd = round_trip(&bed, -1);
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, c.sent_count == 1);
    up_reset(fd);
    BED_UNTIL(&bed, view_of(&bed).connects == 2);
    fd = up_accept(&bed);
    up_read(fd, GET);
    up_reset(fd);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_WRITE);
    CHECK(c.sent);
    CHECK_INT(view_of(&bed).connects, 2);
    caller_free(&c);
    bed_close(&bed);
    /* Bytes of an answer came: who sent them has read the request. */
    for (int i = 0; i < 2; i++) {
        bed_open(&bed, NULL);
        c = (struct caller){0};
        fd = round_trip(&bed, -1);
        caller_start_request(&c, &bed, &request);
        BED_UNTIL(&bed, c.sent_count == 1);
        up_write(fd, i == 0 ? "HTT" : OK_HEAD);
        for (int turns = 0; turns < 10; turns++)
            bed_wait(&bed);
        close(fd);
        BED_UNTIL(&bed, c.done_count == 1);
        CHECK(c.failure != WEIR_CALL_OK);
        CHECK_INT(view_of(&bed).connects, 1);
        caller_free(&c);
        bed_close(&bed);
    }
}

/* --- timers, each alone --- */

static void client__connect_that_gets_no_answer__times_out(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    /* A listener whose queue is full drops further SYNs. */
    uint16_t port = 0;
    int full = up_listen(&port, 0), fill[4];
    struct weir_target_rules rules = {.pool_max = 1, .port = port};
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    CHECK_INT(getsockname(full, (struct sockaddr *)&address, &bytes), 0);
    for (int i = 0; i < 4; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fill[i], (struct sockaddr *)&address, bytes);
    }
    bed_open(&bed, &rules);
    caller_start(&c, &bed, GET, NULL);
    bed_turn(&bed);
    CHECK_INT(view_of(&bed).connecting, 1);
    bed_pass(&bed, 4990 * WEIR_NS_PER_MS);
    CHECK_INT(c.done_count, 0);
    bed_pass(&bed, 20 * WEIR_NS_PER_MS);
    CHECK_INT(c.done_count, 1);
    CHECK_INT(c.failure, WEIR_CALL_E_CONNECT_TIMEOUT);
    CHECK(!c.sent);
    CHECK(strstr(c.detail, "connect to 127.0.0.1:"));
    CHECK(strstr(c.detail, "5.000 s"));
    caller_free(&c);
    bed_close(&bed);
    close(full);
    for (int i = 0; i < 4; i++)
        close(fill[i]);
}

static void client__upstream_that_takes_nothing_of_the_request__times_out(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    enum { BODY = 32 << 20 };
    char *body = malloc(BODY), *sink = malloc(1 << 20);
    memset(body, 'b', BODY);
    bed_open(&bed, NULL);
    struct weir_call_request request = {
        .head = WEIR_SLICE(GET), .timeouts = bed_timeouts, .piece_count = 1};
    request.pieces[0] = (struct weir_slice){body, BODY};
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, c.sent_count == 1);
    int fd = up_accept(&bed);
    bed_turn(&bed);
    /* It takes something now and then: no timeout, though longer than write_ns in all. */
    for (int i = 0; i < 4; i++) {
        bed_pass(&bed, 9 * WEIR_NS_PER_S);
        CHECK_INT(c.done_count, 0);
        for (int k = 0; k < 16; k++) {
            CHECK(recv(fd, sink, 128 << 10, 0) > 0);
            bed_turn(&bed);
            bed_turn(&bed);
        }
    }
    /* The kernel may still move bytes between its own buffers for a while. */
    for (int i = 0; i < 20 && c.done_count == 0; i++)
        bed_pass(&bed, 11 * WEIR_NS_PER_S);
    CHECK_INT(c.done_count, 1);
    CHECK_INT(c.failure, WEIR_CALL_E_WRITE_TIMEOUT);
    CHECK(c.sent);
    free(body);
    free(sink);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void client__no_first_byte__times_out(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    bed_open(&bed, NULL);
    int fd = begin(&bed, &c);
    bed_pass(&bed, 19 * WEIR_NS_PER_S);
    up_write(fd, "HTTP/1.1 102 Processing\r\n\r\n"); /* an interim answer is not the first byte */
    bed_wait(&bed);
    bed_pass(&bed, 990 * WEIR_NS_PER_MS);
    CHECK_INT(c.done_count, 0);
    bed_pass(&bed, 20 * WEIR_NS_PER_MS);
    CHECK_INT(c.failure, WEIR_CALL_E_FIRST_BYTE_TIMEOUT);
    CHECK_INT(c.done_count, 1);
    CHECK(up_is_closed(fd));
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void client__answer_that_falls_silent__times_out_and_any_byte_counts(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    bed_open(&bed, NULL);
    int fd = begin(&bed, &c);
    up_write(fd, OK_HEAD "transfer-encoding: chunked\r\n\r\n");
    BED_UNTIL(&bed, c.head_count == 1);
    const char *bytes = "5\r\nabcde\r\n";
    for (size_t i = 0; i < strlen(bytes); i++) {
        bed_pass(&bed, 29 * WEIR_NS_PER_S);
        up_write_bytes(fd, bytes + i, 1);
        bed_wait(&bed);
        CHECK_INT(c.done_count, 0);
    }
    bed_pass(&bed, 29990 * WEIR_NS_PER_MS);
    CHECK_INT(c.done_count, 0);
    bed_pass(&bed, 20 * WEIR_NS_PER_MS);
    CHECK_INT(c.done_count, 1);
    CHECK_INT(c.failure, WEIR_CALL_E_IDLE_TIMEOUT);
    CHECK_STR(c.body, "abcde");
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void client__total_deadline__ends_a_call_in_every_state(void **state)
{
    (void)state;
    for (int phase = 0; phase < 4; phase++) {
        struct bed bed;
        struct caller c = {0};
        bed_open(&bed, NULL);
        struct weir_call_request request = {.head = WEIR_SLICE(GET), .timeouts = bed_timeouts};
        request.timeouts.total_deadline_ns = bed.now_ns + WEIR_NS_PER_S;
        int fd = -1;
        if (phase == 0) /* already passed when it begins */
            request.timeouts.total_deadline_ns = bed.now_ns;
        caller_start_request(&c, &bed, &request);
        if (phase > 0) {
            BED_UNTIL(&bed, c.sent_count == 1);
            fd = up_accept(&bed);
        }
        if (phase > 1) {
            up_write(fd, OK_HEAD "content-length: 9\r\n\r\nabc");
            BED_UNTIL(&bed, c.body_bytes == 3);
        }
        if (phase > 2)
            weir_call_pause(c.call); /* the total goes on while paused */
        if (phase > 0)
            bed_pass(&bed, 990 * WEIR_NS_PER_MS);
        CHECK_INT(c.done_count, 0);
        bed_pass(&bed, 20 * WEIR_NS_PER_MS);
        CHECK_INT(c.done_count, 1);
        CHECK_INT(c.failure, WEIR_CALL_E_TOTAL_TIMEOUT);
        CHECK(c.sent == (phase > 0));
        if (fd >= 0)
            close(fd);
        caller_free(&c);
        bed_close(&bed);
    }
}

/* --- back-pressure --- */

static void client__paused_call__reads_nothing_and_its_idle_timer_stands_still(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    bed_open(&bed, NULL);
    int fd = begin(&bed, &c);
    up_write(fd, OK_HEAD "content-length: 6\r\n\r\nabc");
    BED_UNTIL(&bed, c.body_bytes == 3);
    weir_call_pause(c.call);
    up_write(fd, "def");
    close(fd);
    for (int i = 0; i < 5; i++)
        bed_pass(&bed, 100 * WEIR_NS_PER_S);
    CHECK_INT(c.body_bytes, 3);
    CHECK_INT(c.done_count, 0);
    weir_call_resume(c.call);
    CHECK_INT(c.body_bytes, 3); /* not inside resume */
    bed_turn(&bed);
    CHECK_INT(c.done_count, 1);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_STR(c.body, "abcdef");
    caller_free(&c);
    bed_close(&bed);
}

static void client__slow_reader_of_a_long_answer__bounds_what_is_buffered(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {.pause_in_body = true};
    enum { BYTES = 24 << 20 };
    bed_open(&bed, NULL);
    int fd = begin(&bed, &c);
    char head[128], *block = malloc(1 << 20);
    snprintf(head, sizeof head, OK_HEAD "content-length: %d\r\n\r\n", BYTES);
    up_write(fd, head);
    CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    size_t written = 0, resumed = 0;
    while (c.done_count == 0) {
        for (size_t i = 0; i < 1 << 20; i++)
            block[i] = (char)((written + i) * 7 >> 3);
        size_t room = BYTES - written < 1 << 20 ? BYTES - written : 1 << 20;
        ssize_t n = room ? send(fd, block, room, MSG_NOSIGNAL) : 0;
        written += n > 0 ? (size_t)n : 0;
        size_t before = c.body_bytes;
        bed_turn(&bed);
        bed_turn(&bed);
        CHECK(c.body_bytes - before <= 256 << 10); /* one read after each resume */
        if (c.call) {
            weir_call_resume(c.call);
            resumed++;
        }
        CHECK(resumed < 100000);
    }
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_INT(c.body_bytes, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        if (c.body[i] != (char)(i * 7 >> 3))
            fail_msg("byte %zu differs", i);
    free(block);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void client__fast_answer__does_not_keep_other_calls_waiting(void **state)
{
    (void)state;
    struct bed bed;
    struct caller fast = {0}, other = {0};
    bed_open(&bed, NULL);
    int ff = begin(&bed, &fast);
    bool grown = client_end_grow(&bed, 16 << 20);
    int own = bed_client_end(&bed);
    int fo = begin(&bed, &other);
    up_write(ff, OK_HEAD "\r\n");
    BED_UNTIL(&bed, fast.head_count == 1);
    /* The window opens as the client reads; in the end more than a turn may read lies ready. */
    int bytes = 16 << 20, ready = 0;
    setsockopt(ff, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    CHECK_INT(fcntl(ff, F_SETFL, O_NONBLOCK), 0);
    char *block = calloc(1, 1 << 20);
    for (int i = 0; i < 200 && ready <= 5 * READ; i++) {
        while (send(ff, block, 1 << 20, MSG_NOSIGNAL) > 0)
            continue;
        CHECK_INT(ioctl(own, FIONREAD, &ready), 0);
        if (ready <= 5 * READ)
            bed_turn(&bed);
    }
    CHECK(!grown || ready > 5 * READ);
    size_t before = fast.body_bytes;
    bed_turn(&bed);
    CHECK(fast.body_bytes - before <= 4 * READ);
    CHECK(!grown || fast.body_bytes - before == 4 * READ);
    up_write(fo, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, other.done_count == 1);
    /* The rest comes without another event. */
    shutdown(ff, SHUT_WR);
    BED_UNTIL(&bed, fast.done_count == 1);
    CHECK_INT(fast.failure, WEIR_CALL_OK);
    free(block);
    close(ff);
    close(fo);
    caller_free(&fast);
    caller_free(&other);
    bed_close(&bed);
}

/* --- large requests, early answers --- */

static void big_request(struct weir_call_request *request, const char *body, size_t bytes)
{
    *request = (struct weir_call_request){
        .head = WEIR_SLICE(GET), .timeouts = bed_timeouts, .piece_count = 2};
    request->pieces[0] = (struct weir_slice){body, bytes / 3};
    request->pieces[1] = (struct weir_slice){body + bytes / 3, bytes - bytes / 3};
}

static void client__request_of_32_mib__arrives_whole(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    enum { BODY = 32 << 20 };
    char *body = malloc(BODY), *got = malloc(BODY + 100);
    for (size_t i = 0; i < BODY; i++)
        body[i] = (char)(i * 13 >> 4);
    bed_open(&bed, NULL);
    struct weir_call_request request;
    big_request(&request, body, BODY);
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, c.sent_count == 1);
    int fd = up_accept(&bed);
    CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    size_t got_bytes = 0, want_bytes = strlen(GET) + BODY;
    while (got_bytes < want_bytes) {
        bed_turn(&bed);
        ssize_t n = recv(fd, got + got_bytes, want_bytes - got_bytes, 0);
        CHECK(n > 0 || errno == EAGAIN);
        got_bytes += n > 0 ? (size_t)n : 0;
    }
    CHECK(memcmp(got + strlen(GET), body, BODY) == 0);
    bed_turn(&bed);
    CHECK_INT(fcntl(fd, F_SETFL, 0), 0);
    up_write(fd, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_INT(c.sent_count, 1);
    CHECK_INT(view_of(&bed).idle, 1);
    free(body);
    free(got);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void
client__error_answered_before_the_request_is_written__is_passed_on_and_not_pooled(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct bed bed;
        struct caller c = {0};
        enum { BODY = 32 << 20 };
        char *body = calloc(1, BODY), *sink = malloc(1 << 20);
        bed_open(&bed, NULL);
        struct weir_call_request request;
        big_request(&request, body, BODY);
        caller_start_request(&c, &bed, &request);
        BED_UNTIL(&bed, c.sent_count == 1);
        int fd = up_accept(&bed);
        bed_turn(&bed);
        up_write(fd, "HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\n\r\n");
        if (way == 0) { /* the head, then the body: the rest of the request is never written */
            BED_UNTIL(&bed, c.head_count == 1);
            CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
            size_t drained = 0;
            for (int i = 0; i < 200; i++) {
                ssize_t n = recv(fd, sink, 1 << 20, 0);
                drained += n > 0 ? (size_t)n : 0;
                bed_turn(&bed);
            }
            CHECK(drained < BODY);
        }
        up_write(fd, "full");
        if (way == 1)
            shutdown(fd, SHUT_RDWR); /* with bytes unread: a reset behind the answer */
        if (way == 2)
            close(fd);
        BED_UNTIL(&bed, c.done_count == 1);
        CHECK_MSG(c.failure == WEIR_CALL_OK, "way %d: %s", way, c.detail);
        CHECK_INT(c.status, 413);
        CHECK_STR(c.body, "full");
        CHECK_INT(view_of(&bed).idle, 0);
        free(body);
        free(sink);
        if (way != 2)
            close(fd);
        caller_free(&c);
        bed_close(&bed);
    }
}

static void
client__good_answer_that_begins_before_the_request_is_written__lets_it_be_written(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    enum { BODY = 16 << 20 };
    char *body = calloc(1, BODY), *sink = malloc(1 << 20);
    bed_open(&bed, NULL);
    struct weir_call_request request;
    big_request(&request, body, BODY);
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, c.sent_count == 1);
    int fd = up_accept(&bed);
    bed_turn(&bed);
    up_write(fd, OK_HEAD "content-length: 4\r\n\r\nab");
    BED_UNTIL(&bed, c.body_bytes == 2);
    size_t got = 0;
    CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (got < strlen(GET) + BODY) {
        ssize_t n = recv(fd, sink, 1 << 20, 0);
        got += n > 0 ? (size_t)n : 0;
        bed_turn(&bed);
    }
    up_write(fd, "cd");
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_STR(c.body, "abcd");
    CHECK_INT(view_of(&bed).idle, 1);
    free(body);
    free(sink);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void client__reset_within_the_request__says_so(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    enum { BODY = 16 << 20 };
    char *body = calloc(1, BODY);
    bed_open(&bed, NULL);
    struct weir_call_request request;
    big_request(&request, body, BODY);
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, c.sent_count == 1);
    int fd = up_accept(&bed);
    bed_turn(&bed);
    up_reset(fd);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_WRITE);
    CHECK(c.sent);
    CHECK_MSG(strstr(c.detail, "within the request"), "%s", c.detail);
    free(body);
    caller_free(&c);
    bed_close(&bed);
}

/* --- cancel, callbacks that call --- */

static void client__cancel_in_every_state__calls_nothing_more_and_closes(void **state)
{
    (void)state;
    for (int phase = 0; phase < 9; phase++) {
        struct bed bed;
        struct caller c = {0};
        int fd = -1;
        bed_open(&bed, NULL);
        c.cancel_in_sent = phase == 4;
        c.cancel_in_head = phase == 5;
        c.cancel_in_body = phase == 6 || phase == 8;
        caller_start(&c, &bed, GET, NULL);
        if (phase == 0) {
            weir_call_cancel(c.call); /* queued */
        } else if (phase == 1) {
            bed_turn(&bed); /* connecting */
            weir_call_cancel(c.call);
        } else {
            BED_UNTIL(&bed, c.sent_count == 1);
            fd = up_accept(&bed);
            if (phase == 2)
                weir_call_cancel(c.call); /* waiting */
            if (phase == 3) {
                up_write(fd, OK_HEAD "x");
                bed_wait(&bed);
                weir_call_cancel(c.call); /* half a head */
            }
            if (phase == 5 || phase == 6)
                up_write(fd, OK_HEAD "content-length: 3\r\n\r\nabc");
            if (phase == 7) {
                up_write(fd, OK_HEAD "content-length: 3\r\n\r\na");
                BED_UNTIL(&bed, c.body_bytes == 1);
                weir_call_pause(c.call);
                weir_call_resume(c.call);
                weir_call_cancel(c.call); /* about to be read again */
            }
            if (phase == 8) {
                up_write(fd, OK_HEAD "transfer-encoding: chunked\r\n");
                bed_wait(&bed);
                up_write(fd,
                         "\r\n1\r\na\r\n0\r\na: b\r\n\r\n"); /* the rest lies in what was held */
            }
        }
        for (int i = 0; i < 3; i++)
            bed_wait(&bed);
        CHECK_INT(c.done_count, 0);
        struct weir_target_view view = view_of(&bed);
        CHECK_INT(view.busy + view.idle + view.connecting, 0);
        CHECK_INT(view.failures, 0);
        if (fd >= 0) {
            char sink[256];
            while (recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
                continue;
            CHECK(up_is_closed(fd));
            close(fd);
        }
        caller_free(&c);
        bed_close(&bed);
    }
}

static void client__call_started_in_done__uses_the_connection_just_freed(void **state)
{
    (void)state;
    struct bed bed;
    struct caller b = {0}, a = {.start_in_done = true, .next = &b};
    bed_open(&bed, NULL);
    int fd = begin(&bed, &a);
    up_write(fd, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, b.sent_count == 1);
    up_read(fd, GET);
    up_write(fd, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, b.done_count == 1);
    CHECK_INT(b.failure, WEIR_CALL_OK);
    CHECK_INT(view_of(&bed).connects, 1);
    close(fd);
    caller_free(&a);
    caller_free(&b);
    bed_close(&bed);
}

static void client__refused_connection__fails_with_address_and_reason(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    uint16_t port = 0;
    int fd = up_listen(&port, 1);
    close(fd);
    struct weir_target_rules rules = {.pool_max = 1, .port = port};
    bed_open(&bed, &rules);
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_CONNECT);
    CHECK(!c.sent);
    char want[100];
    snprintf(want, sizeof want, "connect to 127.0.0.1:%u: Connection refused", port);
    CHECK_STR(c.detail, want);
    caller_free(&c);
    bed_close(&bed);
}

static void client__many_calls_at_once__all_end_and_the_pool_keeps_its_bound(void **state)
{
    (void)state;
    struct bed bed;
    enum { CALLS = 200, ROUNDS = 3 };
    static struct caller c[CALLS];
    static int fd[CALLS];
    bed_open(&bed, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        memset(c, 0, sizeof c);
        for (int i = 0; i < CALLS; i++)
            caller_start(&c[i], &bed, GET, NULL);
        uint32_t idle = view_of(&bed).idle;
        bed_turn(&bed);
        CHECK_INT(view_of(&bed).busy, idle);
        int fresh = 0;
        for (int i = round == 0 ? 0 : 8; i < CALLS; i++) {
            fd[i] = up_accept(&bed);
            fresh++;
            bed_turn(&bed);
        }
        CHECK_INT(fresh, CALLS - (int)idle);
        for (int i = 0; i < CALLS; i++) {
            BED_UNTIL(&bed, c[i].sent_count == 1);
        }
        for (int i = 0; i < CALLS; i++)
            up_write(fd[i], OK_HEAD "content-length: 0\r\n\r\n");
        for (int i = 0; i < CALLS; i++)
            BED_UNTIL(&bed, c[i].done_count == 1);
        CHECK_INT(view_of(&bed).idle, 8);
        int kept = 0;
        for (int i = 0; i < CALLS; i++) {
            char sink[256];
            while (recv(fd[i], sink, sizeof sink, MSG_DONTWAIT) > 0)
                continue;
            if (up_is_closed(fd[i]))
                close(fd[i]);
            else
                fd[kept++] = fd[i];
        }
        CHECK_INT(kept, 8);
    }
    for (int i = 0; i < 8; i++)
        close(fd[i]);
    bed_close(&bed);
}

/* --- descriptors --- */

static void client__no_descriptor_left__fails_clearly_and_recovers(void **state)
{
    (void)state;
    struct bed bed;
    struct caller a = {0}, b = {0}, c = {0};
    struct rlimit before, limit;
    bed_open(&bed, NULL);
    int fd = round_trip(&bed, -1); /* leaves an idle connection */
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    close(next);
    limit = before;
    limit.rlim_cur = (rlim_t)next;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    /* a takes the idle connection; b finds none and no descriptor. */
    caller_start(&a, &bed, GET, NULL);
    caller_start(&b, &bed, GET, NULL);
    BED_UNTIL(&bed, a.sent_count == 1 && b.done_count == 1);
    CHECK_INT(b.failure, WEIR_CALL_E_DESCRIPTORS);
    CHECK(!b.sent);
    CHECK_MSG(strstr(b.detail, "out of file descriptors"), "%s", b.detail);
    up_read(fd, GET);
    up_write(fd, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, a.done_count == 1);
    CHECK_INT(a.failure, WEIR_CALL_OK);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    /* Two at once again: one reuses, one connects. */
    caller_free(&a);
    caller_start(&a, &bed, GET, NULL);
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, a.sent_count == 1 && c.sent_count == 1);
    int fresh = up_accept(&bed);
    up_write(fd, OK_HEAD "content-length: 0\r\n\r\n");
    up_write(fresh, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, a.done_count == 1 && c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    close(fd);
    close(fresh);
    caller_free(&a);
    caller_free(&b);
    caller_free(&c);
    bed_close(&bed);
}

static void
client__no_descriptor_left_but_idle_connections_elsewhere__takes_one_of_theirs(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    struct rlimit before, limit;
    char text[200];
    bed_open(&bed, NULL);
    uint16_t port = 0;
    int listener = up_listen(&port, 8);
    struct weir_target_rules rules = {.host = "127.0.0.1", .port = port, .pool_max = 1};
    struct weir_target *first = bed.target,
                       *other = weir_target_create(bed.client, &rules, text, sizeof text);
    int fd = round_trip(&bed, -1);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    close(next);
    limit = before;
    limit.rlim_cur = (rlim_t)next;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    bed.target = other;
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.sent_count == 1);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK(up_is_closed(fd));
    weir_call_cancel(c.call);
    weir_target_destroy(other);
    bed.target = first;
    close(listener);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client__request_in_pieces__arrives_in_order_and_the_answer_comes_back),
        cmocka_unit_test(client__every_kind_of_answer_whole__ends_as_it_should),
        cmocka_unit_test(client__every_kind_of_answer_byte_by_byte__ends_the_same),
        cmocka_unit_test(client__head_of_an_answer_up_to_its_limit__passes_and_beyond_fails),
        cmocka_unit_test(client__calls_one_after_another__share_one_connection),
        cmocka_unit_test(
            client__answer_that_fills_the_read_buffer__is_pooled_only_if_nothing_follows),
        cmocka_unit_test(client__idle_connection_newest__is_used_first),
        cmocka_unit_test(client__idle_connection_that_hangs_up__is_dropped_at_once),
        cmocka_unit_test(client__idle_connection_after_its_time__is_closed),
        cmocka_unit_test(client__more_idle_connections_than_the_pool_holds__closes_the_oldest),
        cmocka_unit_test(client__reused_connection_dead_before_a_byte_was_sent__is_replaced_once),
        cmocka_unit_test(
            client__reused_connection_dies_unanswered__a_repeatable_request_is_sent_anew),
        cmocka_unit_test(
            client__repeatable_request__is_sent_anew_once_only_and_not_once_an_answer_began),
        cmocka_unit_test(
            client__reused_connection_reset_after_the_request_was_sent__is_the_callers_to_judge),
        cmocka_unit_test(client__connect_that_gets_no_answer__times_out),
        cmocka_unit_test(client__upstream_that_takes_nothing_of_the_request__times_out),
        cmocka_unit_test(client__no_first_byte__times_out),
        cmocka_unit_test(client__answer_that_falls_silent__times_out_and_any_byte_counts),
        cmocka_unit_test(client__total_deadline__ends_a_call_in_every_state),
        cmocka_unit_test(client__paused_call__reads_nothing_and_its_idle_timer_stands_still),
        cmocka_unit_test(client__slow_reader_of_a_long_answer__bounds_what_is_buffered),
        cmocka_unit_test(client__fast_answer__does_not_keep_other_calls_waiting),
        cmocka_unit_test(client__request_of_32_mib__arrives_whole),
        cmocka_unit_test(
            client__error_answered_before_the_request_is_written__is_passed_on_and_not_pooled),
        cmocka_unit_test(
            client__good_answer_that_begins_before_the_request_is_written__lets_it_be_written),
        cmocka_unit_test(client__reset_within_the_request__says_so),
        cmocka_unit_test(client__cancel_in_every_state__calls_nothing_more_and_closes),
        cmocka_unit_test(client__call_started_in_done__uses_the_connection_just_freed),
        cmocka_unit_test(client__refused_connection__fails_with_address_and_reason),
        cmocka_unit_test(client__many_calls_at_once__all_end_and_the_pool_keeps_its_bound),
        cmocka_unit_test(client__no_descriptor_left__fails_clearly_and_recovers),
        cmocka_unit_test(
            client__no_descriptor_left_but_idle_connections_elsewhere__takes_one_of_theirs),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}

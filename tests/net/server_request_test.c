/* Requests in, answers out: every way a request may be cut into pieces, framed, or be wrong. */
#include "net/server_rig.h"

#include <stdlib.h>
#include <sys/socket.h>

#define OK_HEAD(bytes)                                                                             \
    "HTTP/1.1 200 OK\r\ncontent-length: " #bytes "\r\ncontent-type: text/plain\r\n"
#define OK(bytes, body) OK_HEAD(bytes) "\r\n" body
#define OK_CLOSE(bytes, body) OK_HEAD(bytes) "connection: close\r\n\r\n" body
#define POST "POST /v1/messages HTTP/1.1\r\nhost: h\r\n"
#define GET "GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n"

static int setup(void **state)
{
    struct rig *rig = rig_create();
    rig_listen(rig);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    CHECK_INT(rig->heads, rig->ends);
    rig_destroy(rig);
    return 0;
}

static void requests__at_every_split__get_the_same_answer(void **state)
{
    static const char *const texts[] = {
        POST "content-length: 5\r\n\r\nhello",
        POST "transfer-encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nx-t: 1\r\n\r\n",
        "\r\n" POST "Content-Length: 5\r\nx: \xc3\xa9\r\n\r\nhello",
    };
    for (size_t t = 0; t < WEIR_COUNT(texts); t++) {
        size_t bytes = strlen(texts[t]);
        struct peer peer;
        peer_connect(&peer, *state);
        for (size_t at = 1; at < bytes; at++) {
            CHECK(peer_send(&peer, texts[t], at));
            rig_settle(*state);
            CHECK(peer_send(&peer, texts[t] + at, bytes - at));
            CHECK_HEARS(&peer, OK(5, "hello"));
            peer_forget(&peer);
            CHECK_DIARY((struct rig *)*state, "head request:5 done");
        }
        for (size_t at = 0; at < bytes; at++) {
            CHECK(peer_send(&peer, texts[t] + at, 1));
            rig_settle(*state);
        }
        CHECK_HEARS(&peer, OK(5, "hello"));
        CHECK_DIARY((struct rig *)*state, "head request:5 done");
        peer_close(&peer);
    }
}

static void pipelined__at_every_split__are_answered_in_order(void **state)
{
    static const char text[] = POST "content-length: 3\r\n\r\none" GET POST
                                    "transfer-encoding: chunked\r\n\r\n3\r\nsix\r\n0\r\n\r\n" POST
                                    "content-length: 4\r\n\r\nfour";
    static const char want[] = OK(3, "one") OK(0, "") OK(3, "six") OK(4, "four");
    size_t bytes = sizeof text - 1;
    for (size_t at = 0; at < bytes; at++) {
        struct peer peer;
        peer_connect(&peer, *state);
        CHECK(peer_send(&peer, text, at));
        rig_settle(*state);
        CHECK(peer_send(&peer, text + at, bytes - at));
        CHECK_HEARS(&peer, want);
        CHECK_DIARY((struct rig *)*state, "head request:3 done head request:0 done head request:3 "
                                          "done head request:4 done");
        peer_close(&peer);
    }
}

static void request_hold(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    (void)x;
}

static void pipelined__first_one_waits__second_is_not_begun(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->request = request_hold;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "content-length: 3\r\n\r\none" GET);
    peer_say(&peer, GET);
    CHECK_DIARY(rig, "head request:3");
    rig->request = NULL;
    rig_echo(rig, rig->x);
    CHECK_HEARS(&peer, OK(3, "one") OK(0, "") OK(0, ""));
    CHECK_DIARY(rig, "done head request:0 done head request:0 done");
    peer_close(&peer);
}

static void pipelined__a_thousand_at_once__are_all_answered(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->diary_off = true;
    peer_connect(&peer, rig);
    for (int i = 0; i < 1000; i++)
        CHECK(peer_send(&peer, GET, sizeof GET - 1));
    const char *heard = peer_hear(&peer);
    CHECK_INT(rig->requests, 1000);
    CHECK_INT(strlen(heard), 1000 * (sizeof(OK(0, "")) - 1));
    peer_close(&peer);
}

/* What is refused, as what, with which bare answer. A fault that ends in + was told to head()
 * first. */
static const struct {
    const char *text, *diary, *status;
} bad[] = {
    {"GET / HTTP/1.1\r\n\r\n", "fault:BAD_HEAD:HOST", "400 Bad Request"},
    {"GET / HTTP/2.0\r\nhost: h\r\n\r\n", "fault:BAD_HEAD:VERSION",
     "505 HTTP Version Not Supported"},
    {"BREW / HTTP/1.1\r\nhost: h\r\n\r\n", "fault:BAD_HEAD:METHOD", "501 Not Implemented"},
    {"\x16\x03\x01", "fault:BAD_HEAD:START_LINE", "400 Bad Request"},
    {"GET / HTTP/1.1\nhost: h\n\n", "fault:BAD_HEAD:LINE_END", "400 Bad Request"},
    {POST "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", "fault:BAD_HEAD:FRAMING",
     "400 Bad Request"},
    {POST "content-length: +4\r\n\r\n", "fault:BAD_HEAD:CONTENT_LENGTH", "400 Bad Request"},
    {POST "expect: the-unexpected\r\ncontent-length: 1\r\n\r\n", "fault:BAD_HEAD:EXPECTATION",
     "417 Expectation Failed"},
    {POST "content-length: 33554433\r\n\r\n", "head fault:BODY_TOO_LARGE:BODY_TOO_LARGE",
     "413 Content Too Large"},
    {POST "transfer-encoding: chunked\r\n\r\n2000001\r\n",
     "head fault:BODY_TOO_LARGE:BODY_TOO_LARGE", "413 Content Too Large"},
    {POST "transfer-encoding: chunked\r\n\r\n1\r\nx\r\nxyz\r\n", "head fault:BAD_BODY:CHUNK_SIZE",
     "400 Bad Request"},
    {POST "transfer-encoding: chunked\r\n\r\n1\r\nxx", "head fault:BAD_BODY:CHUNK_END",
     "400 Bad Request"},
};

static void bad_requests__whole_or_byte_by_byte__get_the_documented_answer_and_a_close(void **state)
{
    struct rig *rig = *state;
    for (size_t i = 0; i < 2 * WEIR_COUNT(bad); i++) {
        size_t row = i / 2, bytes = strlen(bad[row].text);
        char want[128];
        struct peer peer;
        peer_connect(&peer, rig);
        for (size_t at = 0; at < bytes; at += i % 2 ? 1 : bytes) {
            peer_send(&peer, bad[row].text + at, i % 2 ? 1 : bytes);
            rig_settle(rig);
        }
        snprintf(want, sizeof want, "HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                 bad[row].status);
        const char *heard = peer_hear(&peer);
        CHECK_MSG(strcmp(heard, want) == 0, "row %zu: %s", row, heard);
        const char *diary = rig_diary(rig);
        CHECK_MSG(strcmp(diary, bad[row].diary) == 0, "row %zu: %s", row, diary);
        CHECK_MSG(peer.eof, "row %zu", row);
        peer_close(&peer);
        CHECK_INT(weir_server_connections(rig->server), 0);
    }
}

static void fault_in_dialect(struct rig *rig, struct weir_exchange *x, enum weir_server_fault fault)
{
    struct weir_slice path = weir_exchange_path(x);
    (void)fault;
    CHECK(rig->test != NULL);
    CHECK_INT(weir_exchange_head(x) != NULL, rig->heads > 0);
    CHECK_MEM(path.at, path.bytes, (const char *)rig->test, strlen(rig->test));
    weir_exchange_respond(x, 400, "application/json", WEIR_SLICE("x-should-retry: false\r\n"),
                          WEIR_SLICE("{}"));
}

static void fault__handler_answers__in_its_own_words_knowing_the_path(void **state)
{
    struct rig *rig = *state;
    static const char want[] =
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\ncontent-type: "
        "application/json\r\nx-should-retry: false\r\nconnection: close\r\n\r\n{}";
    char *long_head = malloc(70001);
    memset(long_head, 'a', 70000);
    long_head[70000] = '\0';
    memcpy(long_head, POST "x: ", sizeof(POST "x: ") - 1);
    const struct {
        const char *text, *path;
    } rows[] = {
        {"POST /v1/messages?b HTTP/1.1\r\nbad name: 1\r\n\r\n", "/v1/messages?b"},
        {"POST /v1/messages\r\nhost: h\r\n\r\n", "/v1/messages"},
        {"\x16\x03\x01", ""},
        {long_head, "/v1/messages"},
        {POST "transfer-encoding: chunked\r\n\r\nq", "/v1/messages"},
    };
    rig->fault = fault_in_dialect;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct peer peer;
        rig->test = (void *)(uintptr_t)rows[i].path;
        peer_connect(&peer, rig);
        peer_say(&peer, rows[i].text);
        CHECK_HEARS(&peer, want);
        peer_close(&peer);
    }
    CHECK_DIARY(rig, "fault:BAD_HEAD:HEADER_NAME fault:BAD_HEAD:START_LINE "
                     "fault:BAD_HEAD:START_LINE fault:HEAD_TOO_LARGE:HEAD_TOO_LARGE head "
                     "fault:BAD_BODY:CHUNK_SIZE");
    free(long_head);
}

static void head__up_to_the_limit__is_taken(void **state)
{
    struct rig *rig = *state;
    size_t prefix_bytes = sizeof(POST "x: ") - 1, bytes = rig->limits.head_bytes;
    char *text = malloc(bytes);
    memset(text, 'a', bytes);
    memcpy(text, POST "x: ", prefix_bytes);
    memcpy(text + bytes - 4, "\r\n\r\n", 4);
    struct peer peer;
    peer_connect(&peer, rig);
    CHECK(peer_send(&peer, text, bytes));
    CHECK_HEARS(&peer, OK(0, ""));
    CHECK_DIARY(rig, "head request:0 done");
    peer_close(&peer);
    free(text);
}

static void expect__head_accepts__100_then_answer(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "expect: 100-continue\r\ncontent-length: 5\r\n\r\n");
    CHECK_HEARS(&peer, "HTTP/1.1 100 Continue\r\n\r\n");
    CHECK_DIARY(rig, "head");
    peer_say(&peer, "hello");
    CHECK_HEARS(&peer, "HTTP/1.1 100 Continue\r\n\r\n" OK(5, "hello"));
    peer_forget(&peer);
    /* With the body, or the first of it, already there nobody waits for the 100. */
    peer_say(&peer, POST "expect: 100-continue\r\ncontent-length: 5\r\n\r\nhello");
    CHECK_HEARS(&peer, OK(5, "hello"));
    peer_forget(&peer);
    peer_say(&peer, POST "expect: 100-continue\r\ncontent-length: 5\r\n\r\nhel");
    CHECK_HEARS(&peer, "");
    peer_say(&peer, "lo");
    CHECK_HEARS(&peer, OK(5, "hello"));
    peer_close(&peer);
}

static enum weir_head_verdict head_refuse(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    weir_exchange_respond(x, 401, NULL, WEIR_SLICE(""), WEIR_SLICE("no"));
    return WEIR_HEAD_ANSWERED;
}

static void expect__head_refuses__no_100_and_a_close(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->head = head_refuse;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "expect: 100-continue\r\ncontent-length: 5\r\n\r\n");
    CHECK_HEARS(&peer, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: "
                       "close\r\n\r\nno");
    CHECK(peer.eof);
    CHECK_DIARY(rig, "head done");
    peer_close(&peer);
}

static void refused_at_head__body_already_there__connection_stays(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->head = head_refuse;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "content-length: 5\r\n\r\nhello");
    CHECK_HEARS(&peer, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno");
    peer_forget(&peer);
    rig->head = NULL;
    peer_say(&peer, GET);
    CHECK_HEARS(&peer, OK(0, ""));
    CHECK_DIARY(rig, "head done head request:0 done");
    peer_close(&peer);
}

/* The client writes all of a large body before it reads: the answer must survive that. */
static void refused_at_head__large_body_follows__answer_arrives(void **state)
{
    struct rig *rig = *state;
    size_t bytes = 40u << 20;
    char *body = calloc(1, bytes);
    const struct {
        const char *head, *status, *diary;
    } rows[] = {
        {POST "content-length: 104857600\r\n\r\n", "HTTP/1.1 413 ",
         "head fault:BODY_TOO_LARGE:BODY_TOO_LARGE"},
        {POST "content-length: 30000000\r\n\r\n", "HTTP/1.1 401 ", "head done"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct peer peer;
        rig->head = i == 1 ? head_refuse : NULL;
        peer_connect(&peer, rig);
        peer_say(&peer, rows[i].head);
        CHECK(peer_send(&peer, body, i == 1 ? 30000000 : bytes));
        const char *heard = peer_hear(&peer);
        CHECK_MSG(strncmp(heard, rows[i].status, strlen(rows[i].status)) == 0, "%s", heard);
        CHECK(peer.eof && !peer.reset);
        CHECK_DIARY(rig, rows[i].diary);
        peer_close(&peer);
        CHECK_INT(weir_server_connections(rig->server), 0);
    }
    free(body);
}

static void request_check_large(struct rig *rig, struct weir_exchange *x)
{
    struct weir_slice body = weir_exchange_body(x);
    uint64_t sum = 0;
    for (size_t i = 0; i < body.bytes; i++)
        sum = sum * 31 + (unsigned char)body.at[i];
    CHECK(sum == *(uint64_t *)rig->test);
    weir_exchange_body_drop(x);
    CHECK_INT(weir_exchange_body(x).bytes, 0);
    weir_exchange_respond(x, 200, NULL, WEIR_SLICE(""), WEIR_SLICE(""));
}

static void body__32_mib_counted_or_chunked__arrives_whole(void **state)
{
    struct rig *rig = *state;
    size_t bytes = 32u << 20;
    char *body = malloc(bytes);
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++) {
        body[i] = (char)(i * 7 + i / 1000);
        sum = sum * 31 + (unsigned char)body[i];
    }
    rig->test = &sum;
    rig->request = request_check_large;
    struct peer peer;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "content-length: 33554432\r\n\r\n");
    CHECK(peer_send(&peer, body, bytes));
    CHECK_HEARS(&peer, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    peer_forget(&peer);
    peer_say(&peer, POST "transfer-encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < bytes; at += 65536) {
        CHECK(peer_send(&peer, "10000\r\n", 7));
        CHECK(peer_send(&peer, body + at, 65536));
        CHECK(peer_send(&peer, "\r\n", 2));
    }
    peer_say(&peer, "0\r\nx-trailer: 1\r\n\r\n");
    CHECK_HEARS(&peer, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    CHECK_DIARY(rig, "head request:33554432 done head request:33554432 done");
    peer_close(&peer);
    free(body);
}

static void request_stream(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    weir_http_write_header_text(weir_exchange_answer(x, 200, WEIR_SLICE("Fine"), WEIR_BODY_CHUNKED),
                                "x-a", "b");
    CHECK(weir_exchange_answer_head_end(x));
    weir_exchange_write(x, "event one", 9);
    weir_exchange_write(x, "", 0);
    weir_exchange_write(x, "event two!", 10);
    weir_exchange_trailer(x, WEIR_SLICE("x-usage"), WEIR_SLICE("12"));
    weir_exchange_trailer(x, WEIR_SLICE("bad name"), WEIR_SLICE("12"));
    weir_exchange_trailer(x, WEIR_SLICE("x-cost"), WEIR_SLICE("3"));
    weir_exchange_finish(x);
}

static void streamed_answer__by_version_and_method__is_framed_as_it_must_be(void **state)
{
    struct rig *rig = *state;
    const struct {
        const char *request, *answer;
        bool eof;
    } rows[] = {
        {GET,
         "HTTP/1.1 200 Fine\r\ntransfer-encoding: chunked\r\nx-a: b\r\n\r\n9\r\nevent "
         "one\r\na\r\nevent two!\r\n0\r\nx-usage: 12\r\nx-cost: 3\r\n\r\n",
         false},
        {"HEAD / HTTP/1.1\r\nhost: h\r\n\r\n",
         "HTTP/1.1 200 Fine\r\ntransfer-encoding: chunked\r\nx-a: b\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n",
         "HTTP/1.1 200 Fine\r\nx-a: b\r\nconnection: close\r\n\r\nevent oneevent two!", true},
        {"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
         "HTTP/1.1 200 Fine\r\nx-a: b\r\nconnection: close\r\n\r\nevent oneevent two!", true},
        {"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
         "HTTP/1.1 200 Fine\r\ntransfer-encoding: chunked\r\nx-a: b\r\nconnection: "
         "close\r\n\r\n9\r\nevent one\r\na\r\nevent two!\r\n0\r\nx-usage: 12\r\nx-cost: "
         "3\r\n\r\n",
         true},
    };
    rig->request = request_stream;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct peer peer;
        peer_connect(&peer, rig);
        peer_say(&peer, rows[i].request);
        CHECK_HEARS(&peer, rows[i].answer);
        CHECK_INT(peer.eof, rows[i].eof);
        CHECK_DIARY(rig, "head request:0 done");
        peer_close(&peer);
    }
}

static void request_status(struct rig *rig, struct weir_exchange *x)
{
    weir_exchange_respond(x, *(uint32_t *)rig->test, NULL, WEIR_SLICE("etag: x\r\n"),
                          WEIR_SLICE("body"));
}

static void answers__204_304_and_head__carry_no_body(void **state)
{
    struct rig *rig = *state;
    const struct {
        uint32_t status;
        const char *request, *answer;
    } rows[] = {
        {204, GET, "HTTP/1.1 204 No Content\r\netag: x\r\n\r\n"},
        {304, GET, "HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n"},
        {200, "HEAD / HTTP/1.1\r\nhost: h\r\n\r\n",
         "HTTP/1.1 200 OK\r\ncontent-length: 4\r\netag: x\r\n\r\n"},
        {200, "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
         "HTTP/1.1 200 OK\r\ncontent-length: 4\r\netag: x\r\nconnection: keep-alive\r\n\r\nbody"},
    };
    struct peer peer;
    uint32_t status;
    rig->test = &status;
    rig->request = request_status;
    peer_connect(&peer, rig);
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        status = rows[i].status;
        peer_say(&peer, rows[i].request);
        CHECK_HEARS(&peer, rows[i].answer);
        peer_forget(&peer);
    }
    peer_close(&peer);
}

static void request_bad_header(struct rig *rig, struct weir_exchange *x)
{
    static char large[WEIR_EXCHANGE_HEAD_BYTES];
    const struct weir_slice usual = {NULL, 0};
    struct weir_http_out *out = weir_exchange_answer(x, 200, usual, 0);
    weir_http_write_header_text(out, "x", "a\r\nevil: 1");
    CHECK(!weir_exchange_answer_head_end(x));
    CHECK(!weir_exchange_answering(x));
    memset(large, 'x', sizeof large);
    out = weir_exchange_answer(x, 200, usual, 0);
    weir_http_write_header(out, WEIR_SLICE("x"), (struct weir_slice){large, sizeof large});
    CHECK(!weir_exchange_answer_head_end(x));
    out = weir_exchange_answer(x, 502, usual, 2);
    weir_http_write_header_text(out, "date", "Thu, 01 Jan 1970 00:00:00 GMT");
    weir_exchange_answer_dated(x);
    weir_exchange_close_after(x);
    CHECK(weir_exchange_answer_head_end(x));
    CHECK(weir_exchange_answering(x));
    weir_exchange_write(x, "no", 2);
    weir_exchange_finish(x);
    (void)rig;
}

static void answer_head__malformed_or_too_long__can_be_taken_back(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->request = request_bad_header;
    peer_connect(&peer, rig);
    peer_say(&peer, GET);
    /* The date that the handler brought is the only one; the rig drops the line. */
    CHECK_HEARS(&peer,
                "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    CHECK(peer.eof);
    peer_close(&peer);
}

static void done_keeps(struct rig *rig, struct weir_exchange *x)
{
    CHECK(weir_exchange_user(x) == rig);
    CHECK(weir_exchange_connection_user(x) == rig);
    weir_exchange_write(x, "ignored", 7); /* the answer is over */
}

static void request_users(struct rig *rig, struct weir_exchange *x)
{
    CHECK(weir_exchange_user(x) == NULL);
    CHECK(weir_exchange_connection_user(x) == (rig->requests == 1 ? NULL : rig));
    CHECK_INT(strncmp(weir_exchange_peer(x), "127.0.0.1:", 10), 0);
    weir_exchange_user_set(x, rig);
    weir_exchange_connection_user_set(x, rig);
    rig_echo(rig, x);
}

static void users__of_exchange_and_connection__live_as_long_as_these(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->request = request_users;
    rig->done = done_keeps;
    peer_connect(&peer, rig);
    peer_say(&peer, GET);
    peer_say(&peer, GET);
    CHECK_HEARS(&peer, OK(0, "") OK(0, ""));
    CHECK_INT(rig->closed, 0);
    peer_close(&peer);
    CHECK_INT(rig->closed, 1);
}

static void connection_close__is_answered_and_done(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    peer_connect(&peer, rig);
    peer_say(&peer, "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    CHECK_HEARS(&peer, OK_CLOSE(0, ""));
    CHECK(peer.eof);
    CHECK_INT(weir_server_connections(rig->server), 0);
    peer_close(&peer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests__at_every_split__get_the_same_answer),
        TEST(pipelined__at_every_split__are_answered_in_order),
        TEST(pipelined__first_one_waits__second_is_not_begun),
        TEST(pipelined__a_thousand_at_once__are_all_answered),
        TEST(bad_requests__whole_or_byte_by_byte__get_the_documented_answer_and_a_close),
        TEST(fault__handler_answers__in_its_own_words_knowing_the_path),
        TEST(head__up_to_the_limit__is_taken),
        TEST(expect__head_accepts__100_then_answer),
        TEST(expect__head_refuses__no_100_and_a_close),
        TEST(refused_at_head__body_already_there__connection_stays),
        TEST(refused_at_head__large_body_follows__answer_arrives),
        TEST(body__32_mib_counted_or_chunked__arrives_whole),
        TEST(streamed_answer__by_version_and_method__is_framed_as_it_must_be),
        TEST(answers__204_304_and_head__carry_no_body),
        TEST(answer_head__malformed_or_too_long__can_be_taken_back),
        TEST(users__of_exchange_and_connection__live_as_long_as_these),
        TEST(connection_close__is_answered_and_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

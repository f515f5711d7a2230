/* The engine of the instruments, against the mock with each of its faults and against scripted peers. */
#include "measure/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure/prompt.h"
#include "net/certs.h"
#include "net/server.h"
#include "net/stream.h"
#include "support/check.h"
#include "support/mock_child.h"

enum { RECORDS_MAX = 256 };
#define KEY "sk-the-right-key-0123456789"

/* ---- a bed: loop, engine, what it told ---- */

struct bed {
    struct weir_loop *loop;
    struct weir_load *load;
    struct weir_load_record records[RECORDS_MAX];
    char details[RECORDS_MAX][WEIR_LOAD_DETAIL_BYTES];
    size_t users[RECORDS_MAX];
    uint32_t records_count;
    uint32_t begin_again; /* so many more calls from the callback */
    struct weir_load_ask ask;
};

static void bed_ended(void *ctx, void *user, const struct weir_load_record *record)
{
    struct bed *bed = ctx;
    CHECK(bed->records_count < RECORDS_MAX);
    bed->records[bed->records_count] = *record;
    CHECK(record->detail);
    snprintf(bed->details[bed->records_count], WEIR_LOAD_DETAIL_BYTES, "%s", record->detail);
    bed->users[bed->records_count++] = (size_t)(uintptr_t)user;
    if (bed->begin_again > 0) {
        bed->begin_again--;
        bed->begin_again += !weir_load_begin(bed->load, &bed->ask);
    }
}

struct bed_rules {
    const char *url;
    enum weir_api api;
    const char *const *keys;
    uint32_t keys_count;
    const char *ca_file;
    struct weir_load_timeouts timeouts;
    uint32_t in_flight_max;
};

static struct bed *bed_open(const struct bed_rules *rules)
{
    char error_text[512] = "";
    struct weir_endpoint endpoint;
    struct bed *bed = calloc(1, sizeof *bed);
    CHECK(bed);
    CHECK_MSG(weir_endpoint_read(rules->url, rules->api, &endpoint, error_text, sizeof error_text),
              "%s", error_text);
    bed->loop = weir_loop_create();
    CHECK(bed->loop);
    const struct weir_load_rules load_rules = {.endpoint = &endpoint,
                                               .keys = rules->keys,
                                               .keys_count = rules->keys_count,
                                               .ca_file = rules->ca_file,
                                               .timeouts = rules->timeouts,
                                               .in_flight_max =
                                                   rules->in_flight_max ? rules->in_flight_max : 8};
    bed->load =
        weir_load_create(bed->loop, &load_rules, bed_ended, bed, error_text, sizeof error_text);
    CHECK_MSG(bed->load, "%s", error_text);
    return bed;
}

static void bed_until(struct bed *bed, uint32_t records_count)
{
    uint64_t until_ns = weir_loop_clock_ns() + 20 * WEIR_NS_PER_S;
    while (bed->records_count < records_count) {
        CHECK_MSG(weir_loop_clock_ns() < until_ns, "%u records of %u", bed->records_count,
                  records_count);
        CHECK(weir_loop_turn(bed->loop, 100 * WEIR_NS_PER_MS) == 0);
    }
}

static void bed_close(struct bed *bed)
{
    weir_load_destroy(bed->load);
    weir_loop_destroy(bed->loop);
    free(bed);
}

static size_t body_make(char out[static 4096], enum weir_api api, bool is_stream)
{
    const struct weir_prompt_wish wish = {.api = api,
                                          .model = "m",
                                          .prompt_tok = 40,
                                          .output_tok = 6,
                                          .is_stream = is_stream,
                                          .seed = 1};
    CHECK(weir_prompt_bytes(&wish) <= 4096);
    return weir_prompt_write(&wish, out);
}

static const char *url_of(uint16_t port)
{
    static char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    return url;
}

/* ---- answers as they should be ---- */

static void load__each_api_whole_and_as_stream__is_ok_with_usage_and_times_in_order(void **state)
{
    (void)state;
    static const enum weir_api apis[] = {WEIR_API_OPENAI_CHAT, WEIR_API_OPENAI_COMPLETIONS,
                                         WEIR_API_OPENAI_RESPONSES, WEIR_API_ANTHROPIC_MESSAGES};
    struct weir_mock_config config = weir_mock_config_default();
    config.key = KEY;
    config.step_ns = WEIR_NS_PER_MS;
    struct mock_child mock = mock_child_start(&config);
    for (size_t i = 0; i < WEIR_COUNT(apis) * 2; i++) {
        bool is_stream = i % 2;
        const char *key = KEY;
        char body[4096];
        struct bed *bed = bed_open(&(struct bed_rules){.url = url_of(mock.port),
                                                       .api = apis[i / 2],
                                                       .keys = &key,
                                                       .keys_count = 1,
                                                       .timeouts = weir_load_timeouts_default()});
        uint64_t before_ns = weir_loop_clock_ns();
        CHECK(weir_load_begin(bed->load, &(struct weir_load_ask){
                                             .body = body,
                                             .body_bytes = body_make(body, apis[i / 2], is_stream),
                                             .intended_ns = before_ns - 5,
                                             .user = (void *)(uintptr_t)7}));
        bed_until(bed, 1);
        const struct weir_load_record *r = &bed->records[0];
        CHECK_MSG(r->end == WEIR_LOAD_OK, "%zu: %s", i, bed->details[0]);
        CHECK_INT(bed->users[0], 7);
        CHECK_INT(r->status, 200);
        CHECK_INT(r->intended_ns, before_ns - 5);
        CHECK(r->usage_known);
        CHECK_INT(r->output_tok, 6);
        CHECK_INT(r->input_tok, 40); /* the mock's frame is as long as the prompt's */
        CHECK_INT(r->is_stream, is_stream);
        CHECK(before_ns <= r->sent_ns);
        CHECK(r->sent_ns <= r->head_ns);
        CHECK(r->head_ns <= r->end_ns);
        CHECK_INT(r->first_token_ns != 0, is_stream);
        CHECK(!is_stream || (r->head_ns <= r->first_token_ns && r->first_token_ns <= r->end_ns));
        CHECK_INT(r->events >= 6, is_stream);
        CHECK_STR(r->code, "");
        CHECK_STR(bed->details[0], "");
        CHECK(!r->from_gateway);
        bed_close(bed);
    }
    mock_child_stop(&mock);
}

static void
load__an_answer_whose_first_event_is_a_role__has_its_first_token_with_the_next(void **state)
{
    (void)state;
    static const enum weir_api apis[] = {WEIR_API_OPENAI_CHAT, WEIR_API_OPENAI_RESPONSES,
                                         WEIR_API_ANTHROPIC_MESSAGES};
    static const uint32_t opening[] = {1, 4, 2}; /* events before output, as the mock writes them */
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.plain_gap_ns = 20 * WEIR_NS_PER_MS;
    struct mock_child mock = mock_child_start(&config);
    for (size_t i = 0; i < WEIR_COUNT(apis); i++) {
        char body[4096];
        struct bed *bed = bed_open(&(struct bed_rules){
            .url = url_of(mock.port), .api = apis[i], .timeouts = weir_load_timeouts_default()});
        CHECK(weir_load_begin(
            bed->load,
            &(struct weir_load_ask){.body = body, .body_bytes = body_make(body, apis[i], true)}));
        bed_until(bed, 1);
        const struct weir_load_record *r = &bed->records[0];
        CHECK_INT(r->end, WEIR_LOAD_OK);
        uint64_t waited_ns = r->first_token_ns - r->head_ns;
        CHECK_MSG(waited_ns >= opening[i] * config.plain_gap_ns * 3 / 4, "api %zu: %llu ns", i,
                  (unsigned long long)waited_ns);
        bed_close(bed);
    }
    mock_child_stop(&mock);
}

/* ---- answers as they should not be ---- */

struct fault_case {
    const char *fault; /* of the mock */
    bool is_stream;
    enum weir_load_end end;
    uint16_t status;
    const char *detail, *code;
    uint64_t wait_ns; /* of the hint; 0: none */
};

static const struct fault_case fault_cases[] = {
    {"status=429;retry-after=2", false, WEIR_LOAD_429, 429, "status 429 rate_limit_exceeded",
     "rate_limit_exceeded", 2 * WEIR_NS_PER_S},
    {"status=429;retry-after-ms=1500", true, WEIR_LOAD_429, 429, "status 429",
     "rate_limit_exceeded", 1500 * WEIR_NS_PER_MS},
    {"status=404", false, WEIR_LOAD_4XX, 404, "status 404", "invalid_request", 0},
    {"status=503", true, WEIR_LOAD_5XX, 503, "status 503 server_error", "server_error", 0},
    {"status=529;retry-after=1", false, WEIR_LOAD_5XX, 529, "status 529", "server_error",
     WEIR_NS_PER_S},
    {"early", false, WEIR_LOAD_4XX, 413, "status 413", "invalid_request", 0},
    {"redirect", false, WEIR_LOAD_REDIRECT, 307, "status 307 to http://127.0.0.1:1/elsewhere", "",
     0},
    {"html", false, WEIR_LOAD_HTML, 200, "with a web page", "", 0},
    {"html", true, WEIR_LOAD_HTML, 200, "with a web page", "", 0},
    {"gzip", false, WEIR_LOAD_GARBAGE, 200, "a compressed body", "", 0},
    {"cut=3", true, WEIR_LOAD_CUT, 200, "within the answer", "", 0},
    {"cut=3;end=tidy", true, WEIR_LOAD_CUT, 200, "without its last word", "", 0},
    {"cut=30", false, WEIR_LOAD_CUT, 200, "within the answer", "", 0},
    {"cut=30;end=tidy", false, WEIR_LOAD_CUT, 200, "a JSON body cut short", "", 0},
    {"reset=head", false, WEIR_LOAD_RESET, 0, "before the answer", "", 0},
    {"reset=body", true, WEIR_LOAD_CUT, 200, "within the answer", "", 0},
    {"error=2", true, WEIR_LOAD_ERROR_EVENT, 200, "an error inside the answer", "server_error", 0},
    {"stall=head", false, WEIR_LOAD_TIMEOUT_HEAD, 0, "first byte of the answer: not within 0.050 s",
     "", 0},
    {"stall=body", true, WEIR_LOAD_TIMEOUT_IDLE, 200, "next byte of the answer: not within 0.060 s",
     "", 0},
    {"bytewise", true, WEIR_LOAD_OK, 200, "", "", 0},
    {"nousage", true, WEIR_LOAD_OK, 200, "", "", 0},
    {"nousage", false, WEIR_LOAD_OK, 200, "", "", 0},
};

static void load__each_fault_of_the_mock__ends_as_what_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(fault_cases); i++) {
        const struct fault_case *f = &fault_cases[i];
        struct weir_mock_config config = weir_mock_config_default();
        config.plain = true;
        config.fault = f->fault;
        struct mock_child mock = mock_child_start(&config);
        struct weir_load_timeouts timeouts = weir_load_timeouts_default();
        timeouts.head_ns =
            f->end == WEIR_LOAD_TIMEOUT_HEAD ? 50 * WEIR_NS_PER_MS : timeouts.head_ns;
        timeouts.idle_ns =
            f->end == WEIR_LOAD_TIMEOUT_IDLE ? 60 * WEIR_NS_PER_MS : timeouts.idle_ns;
        struct bed *bed = bed_open(&(struct bed_rules){
            .url = url_of(mock.port), .api = WEIR_API_OPENAI_CHAT, .timeouts = timeouts});
        char body[4096];
        CHECK(weir_load_begin(
            bed->load,
            &(struct weir_load_ask){
                .body = body, .body_bytes = body_make(body, WEIR_API_OPENAI_CHAT, f->is_stream)}));
        bed_until(bed, 1);
        const struct weir_load_record *r = &bed->records[0];
        CHECK_MSG(r->end == f->end, "%s: %s: %s", f->fault, weir_load_end_name(r->end),
                  bed->details[0]);
        CHECK_MSG(r->status == f->status, "%s: %u", f->fault, r->status);
        CHECK_MSG(strstr(bed->details[0], f->detail), "%s: %s", f->fault, bed->details[0]);
        CHECK_STR(r->code, f->code);
        CHECK_INT(r->hint.has_wait ? r->hint.wait_ns : 0, f->wait_ns);
        CHECK_STR(weir_load_first_detail(bed->load, f->end), bed->details[0]);
        CHECK_INT(strstr(f->fault, "nousage") && r->usage_known, false);
        CHECK_INT(weir_load_end_advice(r->end)[0] != '\0', f->end != WEIR_LOAD_OK);
        bed_close(bed);
        mock_child_stop(&mock);
    }
}

/* ---- a peer that says what the test says, in a thread ---- */

struct peer {
    pthread_t thread;
    int listener;
    uint16_t port;
    const char *says;
    char heard[8192];
};

static void *peer_run(void *arg)
{
    struct peer *peer = arg;
    size_t heard = 0;
    int fd = accept(peer->listener, NULL, NULL);
    while (fd >= 0 && heard < sizeof peer->heard - 1) {
        ssize_t n = recv(fd, peer->heard + heard, sizeof peer->heard - 1 - heard, 0);
        heard += n > 0 ? (size_t)n : 0;
        peer->heard[heard] = '\0';
        if (n <= 0 || (strstr(peer->heard, "\r\n\r\n") && peer->heard[heard - 1] == '}'))
            break;
    }
    if (fd >= 0) {
        (void)!send(fd, peer->says, strlen(peer->says), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while (recv(fd, peer->heard + heard, sizeof peer->heard - 1 - heard, 0) > 0)
            continue;
        close(fd);
    }
    return NULL;
}

static int listen_on(uint16_t *port, int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fd, backlog) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &bytes) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

#define JSON_OK "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
#define SSE_OK "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"

static const struct {
    const char *says;
    enum weir_load_end end;
    const char *detail, *code, *advertised;
    bool from_gateway;
} peer_cases[] = {
    {"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", WEIR_LOAD_GARBAGE, "start line", "", "", false},
    {"", WEIR_LOAD_RESET, "before the answer", "", "", false},
    {"HTTP/1.1 200 OK\r\ncontent-len", WEIR_LOAD_CUT, "within the answer", "", "", false},
    {JSON_OK "content-length: 0\r\n\r\n", WEIR_LOAD_GARBAGE, "an empty body", "", "", false},
    {"HTTP/1.1 204 No Content\r\n\r\n", WEIR_LOAD_GARBAGE, "an empty body", "", "", false},
    {JSON_OK "content-length: 5\r\n\r\nhello", WEIR_LOAD_GARBAGE, "no JSON", "", "", false},
    {JSON_OK "content-length: 11\r\n\r\n{\"ok\":true}", WEIR_LOAD_GARBAGE,
     "JSON without output, finish or usage where an answer of openai-chat was expected", "", "",
     false},
    {"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n<!doctype html>", WEIR_LOAD_HTML, "a web page",
     "", "", false},
    {SSE_OK "data: not JSON\n\ndata: [DONE]\n\n", WEIR_LOAD_GARBAGE, "without readable events", "",
     "", false},
    {SSE_OK "\x01\x02\xff binary", WEIR_LOAD_GARBAGE, "without readable events", "", "", false},
    {SSE_OK ": only a comment\n\n", WEIR_LOAD_GARBAGE, "without readable events", "", "", false},
    {"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", WEIR_LOAD_REDIRECT,
     "status 302 to an address it does not name", "", "", false},
    {"HTTP/1.1 307 Temporary Redirect\r\nlocation: https://else.example/?k=" KEY
     "\r\ncontent-length: 0\r\n\r\n",
     WEIR_LOAD_REDIRECT, "status 307 to (it repeats the key)", "", "", false},
    {"HTTP/1.1 401 Unauthorized\r\ncontent-length: 60\r\n\r\n{\"error\":{\"code\":\"no such "
     "key " KEY "\"}}",
     WEIR_LOAD_4XX, "status 401 (it repeats the key)", "(it repeats the key)", "", false},
    {"HTTP/1.1 429 Too Many Requests\r\nweir-source: gateway\r\nretry-after: 1\r\ncontent-length: "
     "31\r\n\r\n{\"error\":{\"code\":\"queue_full\"}} ",
     WEIR_LOAD_429, "status 429 queue_full from a weir gateway", "queue_full", "", true},
    {"HTTP/1.1 429 Too Many Requests\r\nweir-source: gateway\r\nweir-reason: "
     "budget_busy\r\ncontent-length: "
     "31\r\n\r\n{\"error\":{\"code\":\"other_code\"}} ",
     WEIR_LOAD_429, "status 429 budget_busy from a weir gateway", "budget_busy", "", true},
    {JSON_OK "x-ratelimit-of: " KEY "\r\nratelimit-x: \xc3\xa4\r\n"
             "x-ratelimit-limit-requests: 60\r\nX-RateLimit-Remaining-Requests: 59\r\n"
             "ratelimit-policy: \"burst\";q=100;w=60\r\ndate: x\r\ncontent-length: 41\r\n\r\n"
             "{\"choices\":[{\"message\":{\"content\":\"a\"}}]}",
     WEIR_LOAD_OK, "", "",
     "ratelimit-x: ??\nx-ratelimit-limit-requests: 60\nX-RateLimit-Remaining-Requests: 59\n"
     "ratelimit-policy: \"burst\";q=100;w=60\n",
     false},
};

static void load__a_peer_that_says_the_wrong_thing__is_named_and_no_key_is_repeated(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(peer_cases); i++) {
        const char *key = KEY;
        char body[4096];
        struct peer peer = {.says = peer_cases[i].says};
        peer.listener = listen_on(&peer.port, 4);
        CHECK(pthread_create(&peer.thread, NULL, peer_run, &peer) == 0);
        struct bed *bed = bed_open(&(struct bed_rules){.url = url_of(peer.port),
                                                       .api = WEIR_API_OPENAI_CHAT,
                                                       .keys = &key,
                                                       .keys_count = 1,
                                                       .timeouts = weir_load_timeouts_default()});
        CHECK(weir_load_begin(
            bed->load,
            &(struct weir_load_ask){.body = body,
                                    .body_bytes = body_make(body, WEIR_API_OPENAI_CHAT, false)}));
        bed_until(bed, 1);
        const struct weir_load_record *r = &bed->records[0];
        CHECK_MSG(r->end == peer_cases[i].end, "%.60s: %s: %s", peer_cases[i].says,
                  weir_load_end_name(r->end), bed->details[0]);
        CHECK_MSG(strstr(bed->details[0], peer_cases[i].detail), "%.60s: %s", peer_cases[i].says,
                  bed->details[0]);
        CHECK_STR(r->code, peer_cases[i].code);
        CHECK_STR(weir_load_advertised(bed->load), peer_cases[i].advertised);
        CHECK_INT(r->from_gateway, peer_cases[i].from_gateway);
        CHECK(!strstr(bed->details[0], KEY));
        CHECK(r->end != WEIR_LOAD_OK ||
              (r->limits[WEIR_DIM_REQUESTS].has_limit && r->limits[WEIR_DIM_REQUESTS].limit == 60 &&
               !r->usage_known));
        bed_close(bed);
        pthread_join(peer.thread, NULL);
        close(peer.listener);
        CHECK(strstr(peer.heard, "POST /v1/chat/completions HTTP/1.1\r\n"));
        CHECK(strstr(peer.heard, "authorization: Bearer " KEY "\r\n"));
    }
}

/* ---- connections that do not come about ---- */

/* A listener whose queue is full: the kernel drops what comes, as a firewall does. */
static int listen_full(uint16_t *port, int fill[4])
{
    int listener = listen_on(port, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(*port)};
    for (int i = 0; i < 4; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK(fill[i] >= 0);
        CHECK(connect(fill[i], (struct sockaddr *)&address, sizeof address) == 0 ||
              errno == EINPROGRESS);
    }
    return listener;
}

static enum weir_load_end end_of(const char *url, const char *ca_file, size_t body_bytes,
                                 const char *detail)
{
    struct weir_load_timeouts timeouts = weir_load_timeouts_default();
    timeouts.connect_ns = timeouts.write_ns = 200 * WEIR_NS_PER_MS;
    struct bed *bed = bed_open(&(struct bed_rules){
        .url = url, .api = WEIR_API_OPENAI_CHAT, .ca_file = ca_file, .timeouts = timeouts});
    char *body = calloc(1, body_bytes);
    CHECK(body);
    CHECK(weir_load_begin(bed->load,
                          &(struct weir_load_ask){.body = body, .body_bytes = body_bytes}));
    bed_until(bed, 1);
    enum weir_load_end end = bed->records[0].end;
    CHECK_MSG(strstr(bed->details[0], detail), "%s: %s", url, bed->details[0]);
    CHECK_INT(bed->records[0].status, 0);
    bed_close(bed);
    free(body);
    return end;
}

static void load__nobody_there__is_told_apart_from_silence(void **state)
{
    (void)state;
    uint16_t port;
    int fill[4], listener = listen_on(&port, 4);
    CHECK_INT(end_of(url_of(port), NULL, 64u << 20, "takes the request"), WEIR_LOAD_TIMEOUT_WRITE);
    close(listener);
    CHECK_INT(end_of(url_of(port), NULL, 10, "refused"), WEIR_LOAD_CONNECT);
    listener = listen_full(&port, fill);
    CHECK_INT(end_of(url_of(port), NULL, 10, "connect to 127.0.0.1"), WEIR_LOAD_TIMEOUT_CONNECT);
    for (int i = 0; i < 4; i++)
        close(fill[i]);
    close(listener);
    CHECK_INT(end_of("http://no-such-host.invalid", NULL, 10, "no-such-host.invalid"),
              WEIR_LOAD_RESOLVE);
}

static enum weir_head_verdict tls_head(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    (void)x;
    return WEIR_HEAD_READ_BODY;
}

static void tls_request(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    weir_exchange_respond(x, 200, "application/json", (struct weir_slice){0},
                          WEIR_SLICE("{\"choices\":[{\"message\":{\"content\":\"a\"}}]}"));
}

static void tls_over(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    (void)x;
}

static void tls_gone(void *ctx, struct weir_exchange *x, enum weir_gone why)
{
    (void)why;
    tls_over(ctx, x);
}

static void load__a_certificate__must_hold(void **state)
{
    (void)state;
    struct certs certs;
    char error_text[400], cert_file[96], key_file[96], url[64];
    const struct weir_server_handler handler = {
        .head = tls_head, .request = tls_request, .gone = tls_gone, .done = tls_over};
    const struct weir_server_limits limits = {.head_bytes = 65536,
                                              .body_bytes = 65536,
                                              .connections = 8,
                                              .head_ns = WEIR_NS_PER_S,
                                              .keep_alive_ns = WEIR_NS_PER_S,
                                              .body_grace_ns = WEIR_NS_PER_S,
                                              .stall_ns = WEIR_NS_PER_S};
    certs_create(&certs);
    certs_make(&certs, "good", &(struct cert_rules){.names = "IP:127.0.0.1"}, cert_file, key_file);
    for (int i = 0; i < 3; i++) { /* trusted, not trusted, plain HTTP where TLS is expected */
        struct weir_tls *tls =
            i < 2 ? weir_tls_server_create(cert_file, key_file, error_text, sizeof error_text)
                  : NULL;
        struct weir_endpoint endpoint;
        struct bed *bed = calloc(1, sizeof *bed);
        CHECK(bed);
        bed->loop = weir_loop_create();
        struct weir_server *server = weir_server_listen(bed->loop, "127.0.0.1:0", tls, &limits,
                                                        &handler, error_text, sizeof error_text);
        CHECK_MSG(server, "%s", error_text);
        snprintf(url, sizeof url, "https://127.0.0.1:%u", weir_server_port(server));
        CHECK(weir_endpoint_read(url, WEIR_API_OTHER, &endpoint, error_text, sizeof error_text));
        bed->load = weir_load_create(
            bed->loop,
            &(struct weir_load_rules){.endpoint = &endpoint,
                                      .ca_file = i == 1 ? certs.other_ca_file : certs.ca_file,
                                      .timeouts = weir_load_timeouts_default(),
                                      .in_flight_max = 1},
            bed_ended, bed, error_text, sizeof error_text);
        CHECK_MSG(bed->load, "%s", error_text);
        CHECK(weir_load_begin(bed->load, &(struct weir_load_ask){.body = "{}", .body_bytes = 2}));
        bed_until(bed, 1);
        CHECK_MSG(bed->records[0].end == (i == 0 ? WEIR_LOAD_OK : WEIR_LOAD_TLS), "%d: %s", i,
                  bed->details[0]);
        CHECK_MSG(i != 1 || strstr(bed->details[0], "certificate"), "%s", bed->details[0]);
        weir_server_destroy(server);
        bed_close(bed);
        if (tls)
            weir_tls_destroy(tls);
    }
    certs_destroy(&certs);
}

/* ---- keys, the cap, the end ---- */

static void load__two_keys__go_with_their_own_requests(void **state)
{
    (void)state;
    static const char *const keys[] = {"sk-another-key-987654", KEY, NULL};
    struct weir_mock_config config = weir_mock_config_default();
    config.key = KEY;
    struct mock_child mock = mock_child_start(&config);
    static const enum weir_api apis[] = {WEIR_API_OPENAI_CHAT, WEIR_API_ANTHROPIC_MESSAGES};
    for (size_t a = 0; a < WEIR_COUNT(apis); a++) {
        char body[4096];
        size_t body_bytes = body_make(body, apis[a], false);
        struct bed *bed = bed_open(&(struct bed_rules){.url = url_of(mock.port),
                                                       .api = apis[a],
                                                       .keys = keys,
                                                       .keys_count = 3,
                                                       .timeouts = weir_load_timeouts_default()});
        for (uint32_t i = 0; i < 3; i++)
            CHECK(weir_load_begin(
                bed->load,
                &(struct weir_load_ask){.body = body, .body_bytes = body_bytes, .key_index = i}));
        bed_until(bed, 3);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_INT(bed->records[i].status, bed->records[i].key_index == 1 ? 200 : 401);
            CHECK_INT(bed->records[i].end,
                      bed->records[i].key_index == 1 ? WEIR_LOAD_OK : WEIR_LOAD_4XX);
        }
        bed_close(bed);
    }
    mock_child_stop(&mock);
}

static void load__a_key_no_header_can_carry__is_refused_and_not_shown(void **state)
{
    (void)state;
    static const char *const bad[] = {"sk-secret\r\nx: y", "sk-secret ", "", "sk-\x01secret"};
    struct weir_loop *loop = weir_loop_create();
    struct weir_endpoint endpoint;
    char error_text[400];
    CHECK(weir_endpoint_read("http://h", WEIR_API_OTHER, &endpoint, error_text, sizeof error_text));
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        const char *keys[] = {"good", bad[i]};
        CHECK(!weir_load_create(
            loop,
            &(struct weir_load_rules){
                .endpoint = &endpoint, .keys = keys, .keys_count = 2, .in_flight_max = 1},
            bed_ended, NULL, error_text, sizeof error_text));
        CHECK_MSG(strstr(error_text, "credential 2") && !strstr(error_text, "secret"), "%s",
                  error_text);
    }
    CHECK(!weir_load_create(
        loop,
        &(struct weir_load_rules){
            .endpoint = &(struct weir_endpoint){.host = "h", .tls = true, .path = "/"},
            .ca_file = "/nonexistent/ca.pem",
            .in_flight_max = 1},
        bed_ended, NULL, error_text, sizeof error_text));
    CHECK_MSG(strstr(error_text, "/nonexistent/ca.pem"), "%s", error_text);
    weir_loop_destroy(loop);
}

static void load__the_cap_is_reached__says_no_and_goes_on_when_one_ended(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.in_flight_max = 2;
    config.latency_ns = 5 * WEIR_NS_PER_MS;
    struct mock_child mock = mock_child_start(&config);
    char body[4096];
    struct bed *bed = bed_open(&(struct bed_rules){.url = url_of(mock.port),
                                                   .api = WEIR_API_OPENAI_CHAT,
                                                   .timeouts = weir_load_timeouts_default(),
                                                   .in_flight_max = 3});
    bed->ask = (struct weir_load_ask){.body = body,
                                      .body_bytes = body_make(body, WEIR_API_OPENAI_CHAT, false)};
    for (int i = 0; i < 3; i++)
        CHECK(weir_load_begin(bed->load, &bed->ask));
    CHECK(!weir_load_begin(bed->load, &bed->ask));
    bed->begin_again = 20;
    bed_until(bed, 23);
    struct weir_load_view view;
    weir_load_view(bed->load, &view);
    CHECK_INT(view.begun, 23);
    CHECK_INT(view.in_flight, 0);
    CHECK_INT(view.in_flight_peak, 3);
    CHECK_INT(view.ended[WEIR_LOAD_OK] + view.ended[WEIR_LOAD_429], 23);
    CHECK(view.ended[WEIR_LOAD_429] > 0); /* the mock lets two in */
    CHECK_INT(view.connects + view.reuses, 23);
    CHECK(view.connects <= 3);
    CHECK(view.turn_max_ns > 0);
    bed_close(bed);
    mock_child_stop(&mock);
}

static void load__stopped__gives_each_call_its_record_and_begins_no_more(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.fault = "stall=body";
    struct mock_child mock = mock_child_start(&config);
    char body[4096];
    struct bed *bed = bed_open(&(struct bed_rules){.url = url_of(mock.port),
                                                   .api = WEIR_API_OPENAI_CHAT,
                                                   .timeouts = weir_load_timeouts_default(),
                                                   .in_flight_max = 64});
    bed->ask = (struct weir_load_ask){.body = body,
                                      .body_bytes = body_make(body, WEIR_API_OPENAI_CHAT, true)};
    for (uint32_t i = 0; i < 64; i++) { /* some connected, some connecting, some only queued */
        bed->ask.user = (void *)(uintptr_t)(i + 1);
        CHECK(weir_load_begin(bed->load, &bed->ask));
        if (i % 8 == 0)
            CHECK(weir_loop_turn(bed->loop, WEIR_NS_PER_MS) == 0);
    }
    bed->begin_again = 100;
    weir_load_stop(bed->load);
    CHECK_INT(bed->records_count, 64);
    bool seen[65] = {false};
    for (uint32_t i = 0; i < 64; i++) {
        CHECK_INT(bed->records[i].end, WEIR_LOAD_CANCELLED);
        CHECK(bed->records[i].end_ns >= bed->records[i].intended_ns);
        CHECK(bed->users[i] >= 1 && bed->users[i] <= 64 && !seen[bed->users[i]]);
        seen[bed->users[i]] = true;
    }
    CHECK(!weir_load_begin(bed->load, &bed->ask));
    weir_load_stop(bed->load); /* nothing is left to cancel */
    CHECK_INT(bed->records_count, 64);
    bed_close(bed);
    mock_child_stop(&mock);
}

static void load__more_at_once_than_descriptors__is_refused_with_the_limit_to_raise(void **state)
{
    (void)state;
    struct weir_loop *loop = weir_loop_create();
    struct weir_endpoint endpoint;
    struct rlimit before, few = {200, 200};
    char error_text[400];
    CHECK(weir_endpoint_read("http://h", WEIR_API_OTHER, &endpoint, error_text, sizeof error_text));
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few.rlim_max =
        before.rlim_max; /* the hard limit cannot be raised again: ask for more than it */
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    struct weir_load_rules rules = {.endpoint = &endpoint, .in_flight_max = 300};
    struct weir_load *load =
        weir_load_create(loop, &rules, bed_ended, NULL, error_text, sizeof error_text);
    CHECK_MSG(load, "%s", error_text);
    weir_load_destroy(load);
    CHECK(getrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK(few.rlim_cur >= 300);
    if (before.rlim_max < WEIR_LOAD_IN_FLIGHT_MAX) {
        rules.in_flight_max = WEIR_LOAD_IN_FLIGHT_MAX;
        CHECK(!weir_load_create(loop, &rules, bed_ended, NULL, error_text, sizeof error_text));
        CHECK_MSG(strstr(error_text, "ulimit -n"), "%s", error_text);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    weir_loop_destroy(loop);
}

static void load__names_and_advice__are_there_and_apart(void **state)
{
    (void)state;
    for (int i = 0; i < WEIR_LOAD_END_COUNT; i++) {
        CHECK(weir_load_end_name((enum weir_load_end)i)[0]);
        CHECK(weir_load_end_advice((enum weir_load_end)i));
        for (int j = 0; j < i; j++)
            CHECK(strcmp(weir_load_end_name((enum weir_load_end)i),
                         weir_load_end_name((enum weir_load_end)j)) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load__each_api_whole_and_as_stream__is_ok_with_usage_and_times_in_order),
        cmocka_unit_test(
            load__an_answer_whose_first_event_is_a_role__has_its_first_token_with_the_next),
        cmocka_unit_test(load__each_fault_of_the_mock__ends_as_what_it_is),
        cmocka_unit_test(load__a_peer_that_says_the_wrong_thing__is_named_and_no_key_is_repeated),
        cmocka_unit_test(load__nobody_there__is_told_apart_from_silence),
        cmocka_unit_test(load__a_certificate__must_hold),
        cmocka_unit_test(load__two_keys__go_with_their_own_requests),
        cmocka_unit_test(load__a_key_no_header_can_carry__is_refused_and_not_shown),
        cmocka_unit_test(load__the_cap_is_reached__says_no_and_goes_on_when_one_ended),
        cmocka_unit_test(load__stopped__gives_each_call_its_record_and_begins_no_more),
        cmocka_unit_test(load__more_at_once_than_descriptors__is_refused_with_the_limit_to_raise),
        cmocka_unit_test(load__names_and_advice__are_there_and_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The client over TLS, against an upstream made of the server half of the streams, on the same
 * loop. */
#include "certs.h"
#include "upstream.h"

#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define OK_HEAD "HTTP/1.1 200 OK\r\n"

static struct certs certs;

/* --- the upstream --- */

struct tls_end {
    struct weir_stream stream; /* first */
    struct tls_up *up;
    bool ready;
    int records; /* of application data received */
    char *got;
    size_t got_bytes, got_room;
    const char *out;
    size_t out_bytes;
};

enum { ENDS = 16 };

struct tls_up {
    struct weir_io io; /* first: the listener */
    struct bed *bed;
    struct weir_tls *tls;
    struct tls_end ends[ENDS];
    int count;
    int version_max; /* 0: the newest */
    bool stall;      /* accepts, and says nothing */
    bool hold;       /* does not read what is sent */
    bool hang_up;    /* closes in the handshake */
};

static void end_record(int writing, int version, int type, const void *bytes, size_t count,
                       SSL *ssl, void *arg)
{
    (void)version;
    (void)ssl;
    /* A record's header; in TLS 1.3 the outer type is always application data once keys are set. */
    if (!writing && type == SSL3_RT_HEADER && count == 5 && ((const unsigned char *)bytes)[0] == 23)
        ((struct tls_end *)arg)->records++;
}

static void end_write(struct tls_end *e)
{
    while (e->out_bytes > 0) {
        struct iovec iov = {(char *)(uintptr_t)e->out, e->out_bytes};
        ssize_t n = weir_stream_writev(&e->stream, &iov, 1);
        if (n <= 0)
            return;
        e->out += n;
        e->out_bytes -= (size_t)n;
    }
}

static void end_ready(struct weir_stream *stream, uint32_t events)
{
    struct tls_end *e = (struct tls_end *)stream;
    (void)events;
    if (!stream->open)
        return;
    if (e->up->hang_up) {
        weir_stream_close(stream, e->up->bed->loop, false);
        return;
    }
    if (e->up->stall)
        return;
    if (!e->ready) {
        e->ready = weir_stream_handshake(stream) == 1;
        if (!e->ready)
            return;
        e->records = 0;
    }
    end_write(e);
    while (!e->up->hold) {
        if (e->got_room - e->got_bytes < 65536) {
            e->got_room = 2 * e->got_room + 65536;
            e->got = realloc(e->got, e->got_room);
        }
        ssize_t n = weir_stream_read(stream, e->got + e->got_bytes, e->got_room - e->got_bytes - 1);
        if (n <= 0)
            return;
        e->got_bytes += (size_t)n;
        e->got[e->got_bytes] = '\0';
    }
}

static void up_ready(struct weir_io *io, uint32_t events)
{
    struct tls_up *up = (struct tls_up *)io;
    int fd;
    (void)events;
    while ((fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        CHECK(up->count < ENDS);
        struct tls_end *e = &up->ends[up->count++];
        e->up = up;
        CHECK_INT(weir_stream_open(&e->stream, up->bed->loop, fd, end_ready), 0);
        CHECK_INT(weir_stream_secure(&e->stream, up->tls, NULL), 0);
        if (up->version_max)
            SSL_set_max_proto_version(e->stream.ssl, up->version_max);
        SSL_set_msg_callback(e->stream.ssl, end_record);
        SSL_set_msg_callback_arg(e->stream.ssl, e);
    }
}

/* host: of the target; NULL ca_file: the test authority's. */
static void up_open(struct tls_up *up, struct bed *bed, const char *host, const char *ca_file,
                    const struct cert_rules *rules)
{
    static int number;
    char name[16], cert_file[96], key_file[96], text[400];
    struct weir_target_rules target = {.host = host,
                                       .tls = true,
                                       .ca_file = ca_file ? ca_file : certs.ca_file,
                                       .pool_idle_ns = 10 * WEIR_NS_PER_S,
                                       .pool_max = 4};
    snprintf(name, sizeof name, "c%d", number++);
    certs_make(&certs, name, rules, cert_file, key_file);
    bed_open(bed, &target);
    memset(up, 0, sizeof *up);
    up->bed = bed;
    up->tls = weir_tls_server_create(cert_file, key_file, text, sizeof text);
    CHECK_MSG(up->tls, "%s", text);
    up->io = (struct weir_io){.ready = up_ready, .fd = bed->listener};
    CHECK_INT(fcntl(bed->listener, F_SETFL, O_NONBLOCK), 0);
    CHECK_INT(weir_loop_add(bed->loop, &up->io), 0);
}

static void up_close(struct tls_up *up)
{
    for (int i = 0; i < up->count; i++) {
        weir_stream_close(&up->ends[i].stream, up->bed->loop, false);
        free(up->ends[i].got);
    }
    weir_loop_remove(up->bed->loop, &up->io);
    weir_tls_destroy(up->tls);
    bed_close(up->bed);
}

static void end_answer(struct tls_end *e, const char *bytes, size_t count)
{
    e->out = bytes;
    e->out_bytes = count;
    end_write(e);
}

static void end_say(struct tls_end *e, const char *text)
{
    end_answer(e, text, strlen(text));
}

static const struct cert_rules good = {.names = "DNS:localhost,IP:127.0.0.1"};

/* A call answered on the upstream's n-th connection. */
static void round_trip(struct tls_up *up, int n)
{
    struct caller c = {0};
    size_t before = n < up->count ? up->ends[n].got_bytes : 0;
    caller_start(&c, up->bed, GET, NULL);
    BED_UNTIL(up->bed, c.done_count == 1 ||
                           (up->count > n && up->ends[n].got_bytes == before + strlen(GET)));
    CHECK_MSG(c.done_count == 0, "%s", c.detail);
    end_say(&up->ends[n], OK_HEAD "content-length: 2\r\n\r\nok");
    BED_UNTIL(up->bed, c.done_count == 1);
    CHECK_MSG(c.failure == WEIR_CALL_OK, "%s", c.detail);
    CHECK_STR(c.body, "ok");
    caller_free(&c);
}

static struct weir_target_view view_of(struct bed *bed)
{
    struct weir_target_view view;
    weir_target_view(bed->target, &view);
    return view;
}

/* --- tests --- */

static void tls__call_by_name__is_verified_pooled_and_says_whom_it_wants(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    up_open(&up, &bed, "localhost", NULL, &good);
    for (int i = 0; i < 5; i++)
        round_trip(&up, 0);
    CHECK_INT(up.count, 1);
    CHECK_STR(SSL_get_servername(up.ends[0].stream.ssl, TLSEXT_NAMETYPE_host_name), "localhost");
    const unsigned char *protocol;
    unsigned int bytes;
    SSL_get0_alpn_selected(up.ends[0].stream.ssl, &protocol, &bytes);
    CHECK_MEM(protocol, bytes, "http/1.1", 8);
    CHECK_STR(SSL_get_version(up.ends[0].stream.ssl), "TLSv1.3");
    CHECK_INT(view_of(&bed).connects, 1);
    CHECK_INT(view_of(&bed).reuses, 4);
    up_close(&up);
}

static void tls__call_by_address__wants_the_address_in_the_certificate(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    up_open(&up, &bed, "127.0.0.1", NULL, &good);
    round_trip(&up, 0);
    CHECK(!SSL_get_servername(up.ends[0].stream.ssl, TLSEXT_NAMETYPE_host_name));
    up_close(&up);
}

static void tls__certificate_that_is_not_right__is_refused_with_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        struct cert_rules rules;
        bool other_ca_file;
        const char *says[3];
    } cases[] = {
        {"localhost",
         {.names = "DNS:api.example,DNS:*.api.example"},
         false,
         {"certificate of localhost:",
          "does not match host localhost, it is for api.example, *.api.example", "url"}},
        {"127.0.0.1",
         {.names = "DNS:localhost,IP:10.0.0.1"},
         false,
         {"does not match host 127.0.0.1, it is for localhost, 10.0.0.1", "", ""}},
        {"127.0.0.1", {.names = "DNS:127.0.0.1"}, false, {"does not match host 127.0.0.1", "", ""}},
        {"api.weir.localhost",
         {.names = "DNS:a*.weir.localhost"},
         false,
         {"does not match", "", ""}},
        {"b.api.weir.localhost",
         {.names = "DNS:*.weir.localhost"},
         false,
         {"does not match", "", ""}},
        {"localhost",
         {.names = "DNS:localhost", .from_days = -20, .to_days = -10},
         false,
         {"expired on 20", "renew", "clock"}},
        {"localhost",
         {.names = "DNS:localhost", .from_days = 10, .to_days = 20},
         false,
         {"valid only from 20", "clock", ""}},
        {"localhost",
         {.names = "DNS:localhost", .other_ca = true},
         false,
         {"not signed by an authority", "ca_file", ""}},
        {"localhost", {.names = "DNS:localhost"}, true, {"not signed by an authority", "", ""}},
        {"localhost",
         {.names = "DNS:localhost", .self_signed = true},
         false,
         {"not signed by an authority", "self", "ca_file"}},
    };
    for (size_t i = 0; i < WEIR_COUNT(cases); i++) {
        struct bed bed;
        struct tls_up up;
        struct caller c = {0};
        up_open(&up, &bed, cases[i].host, cases[i].other_ca_file ? certs.other_ca_file : NULL,
                &cases[i].rules);
        caller_start(&c, &bed, GET, NULL);
        BED_UNTIL(&bed, c.done_count == 1);
        CHECK_MSG(c.failure == WEIR_CALL_E_TLS, "case %zu: %s", i, c.detail);
        CHECK(!c.sent);
        for (int k = 0; k < 3; k++)
            CHECK_MSG(strstr(c.detail, cases[i].says[k]), "case %zu: %s", i, c.detail);
        CHECK_INT(up.ends[0].got_bytes, 0);
        caller_free(&c);
        up_close(&up);
    }
}

static void tls__system_store__does_not_know_the_test_authority(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    struct caller c = {0};
    char text[200];
    up_open(&up, &bed, "localhost", NULL, &good);
    struct weir_target *with_file = bed.target;
    struct weir_target_rules rules = {.host = "localhost", .port = bed.port, .tls = true};
    bed.target = weir_target_create(bed.client, &rules, text, sizeof text);
    CHECK(bed.target);
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_TLS);
    CHECK_MSG(strstr(c.detail, "install ca-certificates"), "%s", c.detail);
    weir_target_destroy(bed.target);
    bed.target = with_file;
    caller_free(&c);
    up_close(&up);
}

static void tls__files_that_cannot_be_used__are_named_at_start(void **state)
{
    (void)state;
    struct bed bed;
    char text[400], cert_file[96], key_file[96], other_cert[96], other_key[96];
    bed_open(&bed, NULL);
    struct weir_target_rules rules = {
        .host = "a", .port = 1, .tls = true, .ca_file = "/nonexistent/ca.pem"};
    CHECK(!weir_target_create(bed.client, &rules, text, sizeof text));
    CHECK_MSG(strstr(text, "/nonexistent/ca.pem") && strstr(text, "No such file"), "%s", text);
    certs_make(&certs, "f1", &good, cert_file, key_file);
    certs_make(&certs, "f2", &good, other_cert, other_key);
    rules.ca_file = key_file; /* PEM, but no certificate in it */
    CHECK(!weir_target_create(bed.client, &rules, text, sizeof text));
    CHECK(strstr(text, key_file));
    CHECK(!weir_tls_server_create("/nonexistent", key_file, text, sizeof text));
    CHECK_MSG(strstr(text, "/nonexistent") && strstr(text, "No such file"), "%s", text);
    CHECK(!weir_tls_server_create(cert_file, "/nonexistent", text, sizeof text));
    CHECK_MSG(strstr(text, "key file /nonexistent"), "%s", text);
    CHECK(!weir_tls_server_create(cert_file, other_key, text, sizeof text));
    CHECK_MSG(strstr(text, "mismatch"), "%s", text);
    bed_close(&bed);
}

static void tls__upstream_that_does_not_speak_tls__is_told_apart(void **state)
{
    (void)state;
    struct bed bed;
    struct caller c = {0};
    struct weir_target_rules rules = {
        .host = "localhost", .tls = true, .ca_file = certs.ca_file, .pool_max = 1};
    bed_open(&bed, &rules);
    caller_start(&c, &bed, GET, NULL);
    bed_wait(&bed);
    int fd = up_accept(&bed);
    bed_wait(&bed);
    up_write(fd, "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_TLS);
    CHECK_MSG(strstr(c.detail, "does not speak TLS"), "%s", c.detail);
    close(fd);
    caller_free(&c);
    bed_close(&bed);
}

static void tls__handshake_that_is_broken_off_or_stalls__ends_the_call(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct bed bed;
        struct tls_up up;
        struct caller c = {0};
        up_open(&up, &bed, "localhost", NULL, &good);
        up.hang_up = way == 0;
        up.stall = way > 0;
        caller_start(&c, &bed, GET, NULL);
        if (way == 0) {
            BED_UNTIL(&bed, c.done_count == 1);
            CHECK_INT(c.failure, WEIR_CALL_E_TLS);
        } else {
            BED_UNTIL(&bed, up.count == 1);
            for (int i = 0; i < 5; i++)
                bed_wait(&bed);
            CHECK_INT(view_of(&bed).connecting, 1);
            if (way == 1) {
                bed_pass(&bed, 5010 * WEIR_NS_PER_MS);
                CHECK_INT(c.done_count, 1);
                CHECK_INT(c.failure, WEIR_CALL_E_CONNECT_TIMEOUT);
                CHECK_MSG(strstr(c.detail, "TLS handshake with 127.0.0.1:"), "%s", c.detail);
            } else {
                CHECK(!weir_call_cancel(c.call));
            }
        }
        CHECK(!c.sent);
        caller_free(&c);
        up_close(&up);
    }
}

static void tls__second_connection__resumes_the_session(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t v = 0; v < WEIR_COUNT(versions); v++) {
        struct bed bed;
        struct tls_up up;
        up_open(&up, &bed, "localhost", NULL, &good);
        up.version_max = versions[v];
        for (int i = 0; i < 4; i++) {
            round_trip(&up, i);
            CHECK_INT(weir_stream_resumed(&up.ends[i].stream), i > 0);
            if (i % 2 == 0) /* the pool's time is over, or the upstream closes */
                bed_pass(&bed, 11 * WEIR_NS_PER_S);
            else
                weir_stream_close(&up.ends[i].stream, bed.loop, false);
            BED_UNTIL(&bed, view_of(&bed).idle == 0);
        }
        CHECK_INT(view_of(&bed).connects, 4);
        CHECK_INT(view_of(&bed).tls_resumed, 3);
        up_close(&up);
    }
}

static void tls__session_ticket_on_an_idle_connection__does_not_end_it(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    up_open(&up, &bed, "localhost", NULL, &good);
    round_trip(&up, 0);
    SSL *ssl = up.ends[0].stream.ssl;
    CHECK_INT(SSL_new_session_ticket(ssl), 1);
    CHECK_INT(SSL_do_handshake(ssl), 1);
    for (int i = 0; i < 3; i++)
        bed_wait(&bed);
    CHECK_INT(view_of(&bed).idle, 1);
    round_trip(&up, 0);
    CHECK_INT(view_of(&bed).connects, 1);
    /* But bytes do: they would be taken for the next answer. */
    end_say(&up.ends[0], "HTTP/1.1 408 Timeout\r\n\r\n");
    BED_UNTIL(&bed, view_of(&bed).idle == 0);
    up_close(&up);
}

static void tls__head_and_small_body__are_one_record(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    struct caller c = {0};
    up_open(&up, &bed, "localhost", NULL, &good);
    round_trip(&up, 0);
    int before = up.ends[0].records;
    size_t before_bytes = up.ends[0].got_bytes;
    struct weir_call_request request = {
        .head = WEIR_SLICE(GET), .timeouts = bed_timeouts, .piece_count = 3};
    for (int i = 0; i < 3; i++)
        request.pieces[i] = WEIR_SLICE("some bytes of the body ");
    caller_start_request(&c, &bed, &request);
    size_t want = strlen(GET) + 3 * request.pieces[0].bytes;
    BED_UNTIL(&bed, up.ends[0].got_bytes == before_bytes + want);
    CHECK_INT(up.ends[0].records, before + 1);
    CHECK_STR(up.ends[0].got + before_bytes,
              GET "some bytes of the body some bytes of the body some bytes of the body ");
    end_say(&up.ends[0], OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, c.done_count == 1);
    caller_free(&c);
    up_close(&up);
}

static void tls__wildcard_of_a_whole_label__is_accepted(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    static const struct cert_rules rules = {.names = "DNS:*.weir.localhost"};
    up_open(&up, &bed, "api.weir.localhost", NULL, &rules);
    round_trip(&up, 0);
    up_close(&up);
}

/* A record that was put together and did not fit is offered again from elsewhere. */
static void tls__pieces_that_do_not_fit_at_once__arrive_unchanged(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    struct caller c = {0};
    enum { PIECE = 10000 };
    static char bytes[WEIR_CALL_PIECES_MAX][PIECE];
    int small = 4096;
    up_open(&up, &bed, "localhost", NULL, &good);
    round_trip(&up, 0);
    CHECK_INT(setsockopt(bed_client_end(&bed), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    struct weir_call_request request = {
        .head = WEIR_SLICE(GET), .timeouts = bed_timeouts, .piece_count = WEIR_CALL_PIECES_MAX};
    for (size_t i = 0; i < WEIR_CALL_PIECES_MAX; i++) {
        for (size_t k = 0; k < PIECE; k++)
            bytes[i][k] = (char)(i * 100 + k * 3 / 2);
        request.pieces[i] = (struct weir_slice){bytes[i], PIECE};
    }
    size_t before = up.ends[0].got_bytes + strlen(GET);
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, up.ends[0].got_bytes == before + sizeof bytes);
    CHECK(memcmp(up.ends[0].got + before, bytes, sizeof bytes) == 0);
    end_say(&up.ends[0], OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_MSG(c.failure == WEIR_CALL_OK, "%s", c.detail);
    caller_free(&c);
    up_close(&up);
}

/* 24 MiB both ways, with an upstream that does not read for a while and a caller that pauses. */
static void tls__large_bodies_both_ways__arrive_unchanged(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    struct caller c = {.pause_in_body = true};
    enum { BODY = 24 << 20 };
    char *body = malloc(BODY), head[80];
    for (size_t i = 0; i < BODY; i++)
        body[i] = (char)(i * 11 >> 5);
    up_open(&up, &bed, "localhost", NULL, &good);
    struct weir_call_request request = {
        .head = WEIR_SLICE(GET), .timeouts = bed_timeouts, .piece_count = 3};
    request.pieces[0] = (struct weir_slice){body, 5000};
    request.pieces[1] = (struct weir_slice){body + 5000, 123457};
    request.pieces[2] = (struct weir_slice){body + 128457, BODY - 128457};
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, up.count == 1 && up.ends[0].ready);
    up.hold = true;
    for (int i = 0; i < 20; i++)
        bed_wait(&bed);
    CHECK(up.ends[0].got_bytes < BODY);
    CHECK_INT(c.sent_count, 1);
    up.hold = false;
    end_ready(&up.ends[0].stream, 0);
    BED_UNTIL(&bed, up.ends[0].got_bytes == strlen(GET) + BODY);
    CHECK(memcmp(up.ends[0].got + strlen(GET), body, BODY) == 0);
    bed_wait(&bed);
    snprintf(head, sizeof head, OK_HEAD "content-length: %d\r\n\r\n", BODY);
    end_say(&up.ends[0], head);
    CHECK_INT(up.ends[0].out_bytes, 0);
    BED_UNTIL(&bed, c.head_count == 1);
    end_answer(&up.ends[0], body, BODY);
    for (int i = 0; i < 100000 && c.done_count == 0; i++) {
        size_t before = c.body_bytes;
        bed_turn(&bed);
        CHECK(c.body_bytes - before <= 256 << 10);
        if (c.call)
            weir_call_resume(c.call);
    }
    CHECK_INT(c.done_count, 1);
    CHECK_MSG(c.failure == WEIR_CALL_OK, "%s", c.detail);
    CHECK_INT(c.body_bytes, BODY);
    CHECK(memcmp(c.body, body, BODY) == 0);
    CHECK_INT(view_of(&bed).idle, 1);
    free(body);
    caller_free(&c);
    up_close(&up);
}

static void tls__answer_until_close__is_whole_only_with_close_notify(void **state)
{
    (void)state;
    for (int proper = 0; proper < 2; proper++) {
        struct bed bed;
        struct tls_up up;
        struct caller c = {0};
        up_open(&up, &bed, "localhost", NULL, &good);
        caller_start(&c, &bed, GET, NULL);
        BED_UNTIL(&bed, up.count == 1 && up.ends[0].got_bytes == strlen(GET));
        end_say(&up.ends[0], OK_HEAD "\r\nabc");
        if (!proper)
            SSL_set_quiet_shutdown(up.ends[0].stream.ssl, 1);
        weir_stream_close(&up.ends[0].stream, bed.loop, false);
        BED_UNTIL(&bed, c.done_count == 1);
        CHECK_MSG(c.failure == (proper ? WEIR_CALL_OK : WEIR_CALL_E_CUT), "%s", c.detail);
        CHECK_STR(c.body, "abc");
        if (!proper)
            CHECK_MSG(strstr(c.detail, "close-notify"), "%s", c.detail);
        caller_free(&c);
        up_close(&up);
    }
}

static void tls__bytes_behind_the_answer__keep_the_connection_out_of_the_pool(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    struct caller c = {0};
    up_open(&up, &bed, "localhost", NULL, &good);
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, up.count == 1 && up.ends[0].got_bytes == strlen(GET));
    end_say(&up.ends[0], OK_HEAD "content-length: 1\r\n\r\na");
    end_say(&up.ends[0], OK_HEAD "content-length: 0\r\n\r\n"); /* a record of its own */
    BED_UNTIL(&bed, c.done_count == 1);
    bed_wait(&bed);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_INT(view_of(&bed).idle, 0);
    caller_free(&c);
    up_close(&up);
}

static void tls__answer_byte_by_byte__is_read_as_it_comes(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    struct caller c = {0};
    up_open(&up, &bed, "localhost", NULL, &good);
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, up.count == 1 && up.ends[0].got_bytes == strlen(GET));
    const char *answer = OK_HEAD "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n";
    for (size_t i = 0; i < strlen(answer); i++) {
        end_answer(&up.ends[0], answer + i, 1);
        bed_wait(&bed);
    }
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_STR(c.body, "abc");
    CHECK_STR(c.trailers, "x=y;");
    CHECK_INT(view_of(&bed).idle, 1);
    caller_free(&c);
    up_close(&up);
}

static void tls__error_answered_before_the_request_is_written__is_passed_on(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    struct caller c = {0};
    enum { BODY = 24 << 20 };
    char *body = calloc(1, BODY);
    up_open(&up, &bed, "localhost", NULL, &good);
    struct weir_call_request request = {
        .head = WEIR_SLICE(GET), .timeouts = bed_timeouts, .piece_count = 1};
    request.pieces[0] = (struct weir_slice){body, BODY};
    up.hold = true;
    caller_start_request(&c, &bed, &request);
    BED_UNTIL(&bed, up.count == 1 && up.ends[0].ready && c.sent_count == 1);
    end_say(&up.ends[0], "HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\n\r\nfull");
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_OK);
    CHECK_INT(c.status, 413);
    CHECK_INT(view_of(&bed).idle, 0);
    free(body);
    caller_free(&c);
    up_close(&up);
}

static void tls__peer_that_offers_only_h2__is_refused_by_the_server(void **state)
{
    (void)state;
    struct bed bed;
    struct tls_up up;
    up_open(&up, &bed, "localhost", NULL, &good);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)"\x02h2", 3);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    CHECK_INT(getsockname(bed.listener, (struct sockaddr *)&address, &bytes), 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&address, bytes), 0);
    CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    int result = -1, error = SSL_ERROR_WANT_READ;
    for (int i = 0; i < 1000 && error == SSL_ERROR_WANT_READ; i++) {
        result = SSL_connect(ssl);
        error = SSL_get_error(ssl, result);
        bed_wait(&bed);
    }
    CHECK(result != 1);
    CHECK_INT(error, SSL_ERROR_SSL);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    up_close(&up);
}

static int setup(void **state)
{
    (void)state;
    certs_create(&certs);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    certs_destroy(&certs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls__call_by_name__is_verified_pooled_and_says_whom_it_wants),
        cmocka_unit_test(tls__call_by_address__wants_the_address_in_the_certificate),
        cmocka_unit_test(tls__certificate_that_is_not_right__is_refused_with_what_to_do),
        cmocka_unit_test(tls__system_store__does_not_know_the_test_authority),
        cmocka_unit_test(tls__files_that_cannot_be_used__are_named_at_start),
        cmocka_unit_test(tls__upstream_that_does_not_speak_tls__is_told_apart),
        cmocka_unit_test(tls__handshake_that_is_broken_off_or_stalls__ends_the_call),
        cmocka_unit_test(tls__second_connection__resumes_the_session),
        cmocka_unit_test(tls__session_ticket_on_an_idle_connection__does_not_end_it),
        cmocka_unit_test(tls__head_and_small_body__are_one_record),
        cmocka_unit_test(tls__wildcard_of_a_whole_label__is_accepted),
        cmocka_unit_test(tls__pieces_that_do_not_fit_at_once__arrive_unchanged),
        cmocka_unit_test(tls__large_bodies_both_ways__arrive_unchanged),
        cmocka_unit_test(tls__answer_until_close__is_whole_only_with_close_notify),
        cmocka_unit_test(tls__bytes_behind_the_answer__keep_the_connection_out_of_the_pool),
        cmocka_unit_test(tls__answer_byte_by_byte__is_read_as_it_comes),
        cmocka_unit_test(tls__error_answered_before_the_request_is_written__is_passed_on),
        cmocka_unit_test(tls__peer_that_offers_only_h2__is_refused_by_the_server),
    };
    return cmocka_run_group_tests_name("client_tls", tests, setup, teardown);
}

/* The server behind TLS: the same rules as plain, where TLS makes them harder to keep. */
#include "net/server_rig.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/stream.h"

#define GET "GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n"
#define POST "POST /v1/messages HTTP/1.1\r\nhost: h\r\n"
#define OK_HEAD(bytes)                                                                             \
    "HTTP/1.1 200 OK\r\ncontent-length: " #bytes "\r\ncontent-type: text/plain\r\n\r\n"

static char folder[] = "/tmp/weir_server_tls_XXXXXX", cert_file[64], key_file[64];
static SSL_CTX *client_ctx;

static int make_certificate(void **state)
{
    (void)state;
    CHECK(mkdtemp(folder));
    snprintf(cert_file, sizeof cert_file, "%s/cert.pem", folder);
    snprintf(key_file, sizeof key_file, "%s/key.pem", folder);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    CHECK(key && cert);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *file = fopen(cert_file, "w");
    CHECK(file && PEM_write_X509(file, cert));
    fclose(file);
    file = fopen(key_file, "w");
    CHECK(file && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
    client_ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(client_ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
    return client_ctx ? 0 : -1;
}

static int remove_certificate(void **state)
{
    (void)state;
    SSL_CTX_free(client_ctx);
    unlink(cert_file);
    unlink(key_file);
    rmdir(folder);
    return 0;
}

static int setup(void **state)
{
    struct rig *rig = rig_create();
    char why[256];
    rig->tls = weir_tls_server_create(cert_file, key_file, why, sizeof why);
    CHECK_MSG(rig->tls, "%s", why);
    rig_listen(rig);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    struct weir_tls *tls = rig->tls;
    CHECK_INT(rig->heads, rig->ends);
    rig_destroy(rig);
    weir_tls_destroy(tls);
    return 0;
}

/* A client: an SSL over a peer's socket; got is what came decrypted. */
struct secure {
    struct peer peer;
    SSL *ssl;
    char *got;
    size_t got_bytes, got_room;
    bool notified, cut; /* ended by close-notify, or without */
};

static void secure_connect(struct secure *s, struct rig *rig)
{
    memset(s, 0, sizeof *s);
    peer_connect(&s->peer, rig);
    s->ssl = SSL_new(client_ctx);
    SSL_set_fd(s->ssl, s->peer.fd);
    SSL_set_connect_state(s->ssl);
    CHECK(fcntl(s->peer.fd, F_SETFL, O_NONBLOCK) == 0);
    int result;
    while ((result = SSL_do_handshake(s->ssl)) != 1) {
        CHECK_INT(SSL_get_error(s->ssl, result), SSL_ERROR_WANT_READ);
        rig_settle(rig);
    }
    rig_settle(rig);
}

static void secure_take(struct secure *s)
{
    while (!s->notified && !s->cut) {
        if (s->got_room - s->got_bytes < 65536) {
            s->got_room = 2 * s->got_room + 131072;
            s->got = realloc(s->got, s->got_room);
            CHECK(s->got);
        }
        int n = SSL_read(s->ssl, s->got + s->got_bytes, 60000);
        if (n > 0) {
            s->got_bytes += (size_t)n;
            continue;
        }
        int error = SSL_get_error(s->ssl, n);
        ERR_clear_error();
        if (error == SSL_ERROR_WANT_READ)
            return;
        s->notified = error == SSL_ERROR_ZERO_RETURN;
        s->cut = !s->notified;
    }
}

static bool secure_send(struct secure *s, const char *bytes, size_t count)
{
    while (count > 0) {
        int n = SSL_write(s->ssl, bytes, (int)(count > 1u << 20 ? 1u << 20 : count));
        if (n > 0) {
            bytes += n;
            count -= (size_t)n;
            continue;
        }
        int error = SSL_get_error(s->ssl, n);
        ERR_clear_error();
        if (error != SSL_ERROR_WANT_WRITE)
            return false;
        rig_settle(s->peer.rig);
    }
    return true;
}

static void secure_say(struct secure *s, const char *text)
{
    CHECK(secure_send(s, text, strlen(text)));
    rig_settle(s->peer.rig);
}

static const char *secure_hear(struct secure *s)
{
    size_t before;
    do {
        before = s->got_bytes;
        rig_settle(s->peer.rig);
        secure_take(s);
    } while (s->got_bytes != before);
    if (!s->got)
        return "";
    s->got[s->got_bytes] = '\0';
    char *date;
    while ((date = strstr(s->got, "\r\ndate: "))) {
        char *end = strstr(date + 2, "\r\n");
        memmove(date, end, (size_t)(s->got + s->got_bytes + 1 - end));
        s->got_bytes -= (size_t)(end - date);
    }
    return s->got;
}

static void secure_close(struct secure *s)
{
    SSL_free(s->ssl);
    free(s->got);
    s->got = NULL;
    peer_close(&s->peer);
}

static void requests__at_every_split_into_records__get_the_same_answer(void **state)
{
    struct rig *rig = *state;
    static const char text[] = POST "content-length: 5\r\n\r\nhello" GET;
    struct secure s;
    secure_connect(&s, rig);
    for (size_t at = 1; at < sizeof text - 1; at++) {
        CHECK(secure_send(&s, text, at));
        rig_settle(rig);
        CHECK(secure_send(&s, text + at, sizeof text - 1 - at));
        CHECK_STR(secure_hear(&s), OK_HEAD(5) "hello" OK_HEAD(0));
        s.got_bytes = 0;
        CHECK_DIARY(rig, "head request:5 done head request:0 done");
    }
    secure_close(&s);
}

static void request_hold(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    (void)x;
}

/* The TLS layer reads ahead: the second request lies in its buffer, and no event tells of it. */
static void pipelined__read_ahead_by_tls__is_not_forgotten(void **state)
{
    struct rig *rig = *state;
    struct secure s;
    rig->request = request_hold;
    secure_connect(&s, rig);
    char *large = calloc(1, 40000);
    CHECK(secure_send(&s, POST "content-length: 40000\r\n\r\n",
                      sizeof(POST "content-length: 40000\r\n\r\n") - 1));
    CHECK(secure_send(&s, large, 40000));
    CHECK(secure_send(&s, GET, sizeof GET - 1));
    CHECK(secure_send(&s, GET, sizeof GET - 1));
    rig_settle(rig);
    CHECK_DIARY(rig, "head request:40000");
    rig->request = NULL;
    weir_exchange_respond(rig->x, 200, "text/plain", WEIR_SLICE(""), WEIR_SLICE(""));
    CHECK_STR(secure_hear(&s), OK_HEAD(0) OK_HEAD(0) OK_HEAD(0));
    secure_close(&s);
    rig_diary(rig);
    free(large);
}

static void body_and_answer__of_8_mib__pass_whole(void **state)
{
    struct rig *rig = *state;
    struct secure s;
    size_t bytes = 8u << 20;
    char *body = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        body[i] = (char)('a' + i % 23);
    secure_connect(&s, rig);
    secure_say(&s, POST "content-length: 8388608\r\n\r\n");
    CHECK(secure_send(&s, body, bytes));
    secure_hear(&s);
    CHECK(s.got_bytes > bytes);
    CHECK(memcmp(s.got + s.got_bytes - bytes, body, bytes) == 0);
    CHECK_DIARY(rig, "head request:8388608 done");
    secure_close(&s);
    free(body);
}

static void client__closes_while_its_request_waits__is_gone_at_once(void **state)
{
    struct rig *rig = *state;
    rig->request = request_hold;
    for (int polite = 0; polite < 2; polite++) {
        struct secure s;
        secure_connect(&s, rig);
        secure_say(&s, GET);
        CHECK_DIARY(rig, "head request:0");
        if (polite)
            SSL_shutdown(s.ssl);
        close(s.peer.fd);
        s.peer.fd = -1;
        CHECK_INT(weir_loop_turn(rig->loop, 0), 0);
        CHECK_DIARY(rig, "gone:closed");
        CHECK_INT(weir_server_connections(rig->server), 0);
        secure_close(&s);
    }
}

static void refusal__while_the_body_is_sent__arrives_with_a_close_notify(void **state)
{
    struct rig *rig = *state;
    struct secure s;
    char *body = calloc(1, 4u << 20);
    secure_connect(&s, rig);
    secure_say(&s, POST "content-length: 99999999\r\n\r\n");
    CHECK(secure_send(&s, body, 4u << 20));
    CHECK_STR(secure_hear(&s),
              "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    CHECK(s.notified);
    secure_close(&s);
    CHECK_INT(weir_server_connections(rig->server), 0);
    rig_diary(rig);
    free(body);
}

static void request_abort(struct rig *rig, struct weir_exchange *x)
{
    const struct weir_slice usual = {NULL, 0};
    weir_exchange_answer(x, 200, usual, WEIR_BODY_CHUNKED);
    CHECK(weir_exchange_answer_head_end(x));
    weir_exchange_write(x, "part", 4);
    rig_abort(rig, x);
}

static void abort__sends_what_was_written(void **state)
{
    struct rig *rig = *state;
    struct secure s;
    rig->request = request_abort;
    secure_connect(&s, rig);
    secure_say(&s, GET);
    CHECK_STR(secure_hear(&s),
              "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n");
    CHECK(s.notified || s.cut);
    secure_close(&s);
    rig_diary(rig);
}

static void handshake__never_done_or_not_tls__is_closed_without_a_word(void **state)
{
    struct rig *rig = *state;
    struct peer silent, plain;
    peer_connect(&silent, rig);
    peer_connect(&plain, rig);
    peer_say(&plain, GET);
    peer_hear(&plain);
    CHECK(plain.eof || plain.reset);
    CHECK_INT(weir_server_connections(rig->server), 1);
    rig_wait(rig, rig->limits.head_ns + 2 * WEIR_NS_PER_MS);
    CHECK_INT(weir_server_connections(rig->server), 0);
    CHECK_DIARY(rig, "");
    peer_close(&silent);
    peer_close(&plain);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests__at_every_split_into_records__get_the_same_answer),
        TEST(pipelined__read_ahead_by_tls__is_not_forgotten),
        TEST(body_and_answer__of_8_mib__pass_whole),
        TEST(client__closes_while_its_request_waits__is_gone_at_once),
        TEST(refusal__while_the_body_is_sent__arrives_with_a_close_notify),
        TEST(abort__sends_what_was_written),
        TEST(handshake__never_done_or_not_tls__is_closed_without_a_word),
    };
    return cmocka_run_group_tests(tests, make_certificate, remove_certificate);
}

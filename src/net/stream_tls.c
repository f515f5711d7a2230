#include "net/stream_tls.h"

#include <errno.h>
#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES 16384             /* the longest piece of a TLS record */
#define READ_AHEAD_BYTES (32u * 1024u) /* fetched by one recv */

struct weir_tls {
    SSL_CTX *ctx;
};

struct weir_tls_peer {
    char *host;
    uint16_t port;
    bool literal; /* host is an address: no SNI, and the certificate must name the address */
    SSL_SESSION *session;
    X509 *refused; /* the last certificate that was not accepted, to explain it */
};

/* --- the socket as OpenSSL sees it ---
 *
 * OpenSSL's own socket BIO would call recv once more after each short read, and write() raises
 * SIGPIPE. This one goes through the stream, which knows when there is nothing to read. */

static int bio_read(BIO *bio, char *buf, int room)
{
    ssize_t n = stream_socket_read(BIO_get_data(bio), buf, (size_t)room);
    BIO_clear_retry_flags(bio);
    if (n == WEIR_STREAM_AGAIN)
        BIO_set_retry_read(bio);
    return n < 0 ? -1 : (int)n;
}

static int bio_write(BIO *bio, const char *buf, int bytes)
{
    struct iovec one = {.iov_base = (char *)(uintptr_t)buf, .iov_len = (size_t)bytes};
    ssize_t n = stream_socket_write(BIO_get_data(bio), &one, 1);
    BIO_clear_retry_flags(bio);
    if (n == WEIR_STREAM_AGAIN)
        BIO_set_retry_write(bio);
    return n < 0 ? -1 : (int)n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

/* One for the process, never freed: connections may outlive the settings they were made with. */
static BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;
    if (method)
        return method;
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir stream");
    if (method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
        BIO_meth_set_ctrl(method, bio_ctrl))
        return method;
    BIO_meth_free(method);
    return method = NULL;
}

/* --- settings --- */

/* The reason of OpenSSL's oldest queued error, for a sentence. */
static const char *openssl_reason(void)
{
    unsigned long code = ERR_peek_error();
    if (ERR_SYSTEM_ERROR(code))
        return strerror(ERR_GET_REASON(code));
    const char *reason = ERR_reason_error_string(code);
    return reason ? reason : "unknown error";
}

static struct weir_tls *tls_create(const SSL_METHOD *side, char *error_text, size_t error_bytes)
{
    struct weir_tls *tls = calloc(1, sizeof *tls);
    ERR_clear_error();
    if (tls && bio_method() && (tls->ctx = SSL_CTX_new(side)) != NULL &&
        SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION)) {
        SSL_CTX_set_mode(tls->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                       SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_read_ahead(tls->ctx, 1);
        SSL_CTX_set_default_read_buffer_len(tls->ctx, READ_AHEAD_BYTES);
        return tls;
    }
    snprintf(error_text, error_bytes, "cannot set up TLS: %s", openssl_reason());
    weir_tls_destroy(tls);
    return NULL;
}

static int server_choose_protocol(SSL *ssl, const unsigned char **chosen,
                                  unsigned char *chosen_bytes, const unsigned char *offered,
                                  unsigned int offered_bytes, void *arg)
{
    (void)ssl;
    (void)arg;
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *found;
    if (SSL_select_next_proto(&found, chosen_bytes, ours, sizeof ours - 1, offered,
                              offered_bytes) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

struct weir_tls *weir_tls_server_create(const char *cert_file, const char *key_file,
                                        char *error_text, size_t error_bytes)
{
    struct weir_tls *tls = tls_create(TLS_server_method(), error_text, error_bytes);
    if (!tls)
        return NULL;
    static const unsigned char id[] = "weir";
    SSL_CTX_set_session_id_context(tls->ctx, id, sizeof id - 1);
    SSL_CTX_set_options(tls->ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_alpn_select_cb(tls->ctx, server_choose_protocol, NULL);
    if (SSL_CTX_use_certificate_chain_file(tls->ctx, cert_file) != 1)
        snprintf(error_text, error_bytes,
                 "certificate file %s: %s: give a PEM file with the certificate and its chain",
                 cert_file, openssl_reason());
    else if (SSL_CTX_use_PrivateKey_file(tls->ctx, key_file, SSL_FILETYPE_PEM) != 1)
        snprintf(
            error_text, error_bytes,
            "key file %s: %s: give a PEM file with the private key of %s, without a passphrase",
            key_file, openssl_reason(), cert_file);
    else
        return tls;
    weir_tls_destroy(tls);
    return NULL;
}

static int client_session_new(SSL *ssl, SSL_SESSION *session)
{
    struct weir_tls_peer *peer = SSL_get_app_data(ssl);
    SSL_SESSION_free(peer->session);
    peer->session = session;
    return 1; /* the reference is ours now */
}

static int client_verified(int accepted, X509_STORE_CTX *verification)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct weir_tls_peer *peer = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(verification);
    if (!accepted && certificate) {
        X509_free(peer->refused);
        X509_up_ref(certificate);
        peer->refused = certificate;
    }
    return accepted;
}

struct weir_tls *weir_tls_client_create(const char *ca_file, char *error_text, size_t error_bytes)
{
    struct weir_tls *tls = tls_create(TLS_client_method(), error_text, error_bytes);
    if (!tls)
        return NULL;
    static const unsigned char offer[] = "\x08http/1.1";
    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, client_verified);
    SSL_CTX_set_session_cache_mode(tls->ctx,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(tls->ctx, client_session_new);
    if (SSL_CTX_set_alpn_protos(tls->ctx, offer, sizeof offer - 1) != 0)
        snprintf(error_text, error_bytes, "cannot set up TLS: out of memory");
    else if (!ca_file && SSL_CTX_set_default_verify_paths(tls->ctx) != 1)
        snprintf(
            error_text, error_bytes,
            "cannot use the system's CA certificates: %s: install ca-certificates, or set ca_file",
            openssl_reason());
    else if (ca_file && SSL_CTX_load_verify_file(tls->ctx, ca_file) != 1)
        snprintf(error_text, error_bytes, "ca_file %s: %s: give a PEM file with CA certificates",
                 ca_file, openssl_reason());
    else
        return tls;
    weir_tls_destroy(tls);
    return NULL;
}

void weir_tls_destroy(struct weir_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    free(tls);
}

struct weir_tls_peer *weir_tls_peer_create(const char *host, uint16_t port)
{
    unsigned char address[16];
    struct weir_tls_peer *peer = calloc(1, sizeof *peer);
    if (!peer || !(peer->host = strdup(host))) {
        free(peer);
        return NULL;
    }
    peer->port = port;
    peer->literal =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    return peer;
}

void weir_tls_peer_destroy(struct weir_tls_peer *peer)
{
    if (!peer)
        return;
    SSL_SESSION_free(peer->session);
    X509_free(peer->refused);
    free(peer->host);
    free(peer);
}

/* --- streams --- */

static bool secure_client(SSL *ssl, struct weir_tls_peer *peer)
{
    SSL_set_connect_state(ssl);
    SSL_set_app_data(ssl, peer);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (peer->literal) {
        if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), peer->host) != 1)
            return false;
    } else if (SSL_set1_host(ssl, peer->host) != 1 ||
               SSL_set_tlsext_host_name(ssl, peer->host) != 1) {
        return false;
    }
    if (peer->session && SSL_SESSION_is_resumable(peer->session))
        SSL_set_session(ssl, peer->session); /* on failure: a full handshake */
    return true;
}

int weir_stream_secure(struct weir_stream *s, struct weir_tls *tls, struct weir_tls_peer *peer)
{
    WEIR_INVARIANT(s->open && !s->ssl);
    ERR_clear_error();
    SSL *ssl = SSL_new(tls->ctx);
    BIO *bio = BIO_new(bio_method());
    if (!ssl || !bio) {
        BIO_free(bio);
        SSL_free(ssl);
        return -ENOMEM;
    }
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    if (!peer) {
        SSL_set_accept_state(ssl);
    } else if (!secure_client(ssl, peer)) {
        SSL_free(ssl);
        return -ENOMEM;
    }
    s->ssl = ssl;
    s->peer = peer;
    return 0;
}

/* The answer for a call of OpenSSL's that returned result, not above 0. */
static int tls_answer(struct weir_stream *s, int result)
{
    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return WEIR_STREAM_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return WEIR_STREAM_EOF;
    default:
        return WEIR_STREAM_ERROR;
    }
}

int weir_stream_handshake(struct weir_stream *s)
{
    if (!s->ssl)
        return 1;
    ERR_clear_error();
    s->fault = 0;
    int result = SSL_do_handshake(s->ssl);
    if (result == 1)
        return 1;
    int answer = tls_answer(s, result);
    return answer == WEIR_STREAM_AGAIN ? answer : WEIR_STREAM_ERROR;
}

bool weir_stream_resumed(const struct weir_stream *s)
{
    return s->ssl && SSL_session_reused(s->ssl);
}

ssize_t stream_tls_read(struct weir_stream *s, void *buf, size_t room)
{
    size_t got = 0;
    ERR_clear_error();
    s->fault = 0;
    while (got < room) {
        size_t n;
        int result = SSL_read_ex(s->ssl, (char *)buf + got, room - got, &n);
        if (result != 1)
            return got ? (ssize_t)got : tls_answer(s, result); /* an end or error is met again */
        got += n;
    }
    return (ssize_t)got;
}

bool stream_tls_pending(const struct weir_stream *s)
{
    return SSL_has_pending(s->ssl);
}

/* Takes a run of bytes from the front of the vector, from skip on: in place where the piece there
 * is long enough for a record of its own, else copied together, so that a head and a small body are
 * one record. */
static const char *gather(const struct iovec *iov, int count, size_t skip, char *flat,
                          size_t *bytes)
{
    while (count > 0 && skip >= iov->iov_len) {
        skip -= iov->iov_len;
        iov++;
        count--;
    }
    *bytes = 0;
    if (count == 0)
        return flat;
    if (count == 1 || iov->iov_len - skip >= RECORD_BYTES) {
        *bytes = iov->iov_len - skip;
        if (*bytes > RECORD_BYTES)
            *bytes = RECORD_BYTES;
        return (const char *)iov->iov_base + skip;
    }
    for (; count > 0 && *bytes < RECORD_BYTES; iov++, count--, skip = 0) {
        size_t n = iov->iov_len - skip;
        if (n > RECORD_BYTES - *bytes)
            n = RECORD_BYTES - *bytes;
        if (n > 0)
            memcpy(flat + *bytes, (const char *)iov->iov_base + skip, n);
        *bytes += n;
    }
    return flat;
}

ssize_t stream_tls_write(struct weir_stream *s, const struct iovec *iov, int count)
{
    char flat[RECORD_BYTES];
    size_t taken = 0;
    ERR_clear_error();
    s->fault = 0;
    for (;;) {
        size_t bytes, n;
        const char *from = gather(iov, count, taken, flat, &bytes);
        if (bytes == 0)
            return (ssize_t)taken;
        int result = SSL_write_ex(s->ssl, from, bytes, &n);
        if (result != 1) {
            if (taken > 0)
                return (ssize_t)taken;
            int answer = tls_answer(s, result);
            return answer == WEIR_STREAM_AGAIN ? answer : WEIR_STREAM_ERROR;
        }
        taken += n;
    }
}

void stream_tls_shutdown(struct weir_stream *s)
{
    ERR_clear_error();
    if (!SSL_in_init(s->ssl))
        SSL_shutdown(s->ssl);
    ERR_clear_error();
}

void stream_tls_close(struct weir_stream *s, bool quiet)
{
    ERR_clear_error();
    if (quiet || SSL_in_init(s->ssl))
        SSL_set_quiet_shutdown(s->ssl, 1);
    /* Also when quiet: a connection freed without it would take its session along. */
    SSL_shutdown(s->ssl);
    SSL_free(s->ssl);
    s->ssl = NULL;
    ERR_clear_error();
}

/* --- what went wrong, in words --- */

/* The names a certificate is for: "a.example, b.example". */
static void certificate_names(X509 *certificate, char *text, size_t text_bytes)
{
    size_t used = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    text[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && used + 4 < text_bytes; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char literal[INET6_ADDRSTRLEN] = "";
        const char *one = literal;
        int one_bytes = 0;
        if (name->type == GEN_DNS) {
            one = (const char *)ASN1_STRING_get0_data(name->d.dNSName);
            one_bytes = ASN1_STRING_length(name->d.dNSName);
        } else if (name->type == GEN_IPADD) {
            int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;
            inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), literal, sizeof literal);
            one_bytes = (int)strlen(literal);
        }
        bool plain = one_bytes > 0;
        for (int k = 0; k < one_bytes; k++)
            plain = plain && one[k] > ' ' && one[k] < 0x7f;
        if (!plain)
            continue;
        int n =
            snprintf(text + used, text_bytes - used, "%s%.*s", used ? ", " : "", one_bytes, one);
        used = n < 0 || (size_t)n >= text_bytes - used ? text_bytes : used + (size_t)n;
    }
    GENERAL_NAMES_free(names);
    if (text[0] == '\0')
        snprintf(text, text_bytes, "no host");
}

static void certificate_date(const ASN1_TIME *time, char *text, size_t text_bytes)
{
    struct tm tm;
    if (ASN1_TIME_to_tm(time, &tm) != 1 || strftime(text, text_bytes, "%Y-%m-%d", &tm) == 0)
        snprintf(text, text_bytes, "an unknown date");
}

static void certificate_fault_text(const struct weir_stream *s, long verdict, char *text,
                                   size_t text_bytes)
{
    const char *host = s->peer->host;
    X509 *certificate = s->peer->refused;
    char detail[160];
    char who[300];
    snprintf(who, sizeof who, strchr(host, ':') ? "certificate of [%s]:%u" : "certificate of %s:%u",
             host, s->peer->port);
    switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        snprintf(detail, sizeof detail, "another host");
        if (certificate)
            certificate_names(certificate, detail, sizeof detail);
        snprintf(
            text, text_bytes,
            "%s does not match host %s, it is for %s: use one of these names in the upstream's url",
            who, host, detail);
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID: {
        bool expired = verdict == X509_V_ERR_CERT_HAS_EXPIRED;
        snprintf(detail, sizeof detail, "an unknown date");
        if (certificate)
            certificate_date(expired ? X509_get0_notAfter(certificate)
                                     : X509_get0_notBefore(certificate),
                             detail, sizeof detail);
        snprintf(
            text, text_bytes,
            expired
                ? "%s expired on %s: the upstream must renew it (or this machine's clock is wrong)"
                : "%s is valid only from %s on: check this machine's clock",
            who, detail);
        return;
    }
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
        snprintf(
            text, text_bytes,
            "%s is not signed by an authority this machine knows (%s): install ca-certificates, or "
            "set the upstream's ca_file to the authority's certificate",
            who, X509_verify_cert_error_string(verdict));
        return;
    default:
        snprintf(text, text_bytes, "%s is not accepted: %s", who,
                 X509_verify_cert_error_string(verdict));
    }
}

const char *stream_tls_fault_text(const struct weir_stream *s, char *text, size_t text_bytes)
{
    long verdict = s->peer ? SSL_get_verify_result(s->ssl) : X509_V_OK;
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    if (verdict != X509_V_OK)
        certificate_fault_text(s, verdict, text, text_bytes);
    else if (code == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        snprintf(text, text_bytes, "the peer closed the connection without TLS's close-notify");
    else if (reason == SSL_R_WRONG_VERSION_NUMBER && s->peer)
        snprintf(text, text_bytes, "%s:%u does not speak TLS: is its url http:// ?", s->peer->host,
                 s->peer->port);
    else
        snprintf(text, text_bytes, "TLS: %s", openssl_reason());
    return text;
}

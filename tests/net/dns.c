#include "dns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TYPE_A = 1, TYPE_AAAA = 28 };

void dns_set(struct dns *dns, struct dns_row row)
{
    for (int i = 0; i < dns->row_count; i++) {
        if (strcmp(dns->rows[i].name, row.name) == 0 && dns->rows[i].family == row.family) {
            dns->rows[i] = row;
            return;
        }
    }
    CHECK(dns->row_count < DNS_ROWS);
    dns->rows[dns->row_count++] = row;
}

static void put_u16(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

/* Writes the answer to a question into out (512 bytes and more); 0: none. */
static size_t answer(struct dns *dns, const unsigned char *question, size_t bytes,
                     unsigned char *out, bool by_tcp)
{
    char name[256] = "";
    size_t at = 12;
    CHECK(bytes > 12);
    while (question[at] != 0) {
        size_t n = strlen(name);
        snprintf(name + n, sizeof name - n, "%s%.*s", n ? "." : "", question[at],
                 (const char *)question + at + 1);
        at += 1u + question[at];
        CHECK(at < bytes);
    }
    at++;
    int type = question[at] << 8 | question[at + 1];
    at += 4;
    dns->asked++;
    dns->asked_by_tcp += by_tcp;
    const struct dns_row *row = NULL;
    for (int i = 0; i < dns->row_count; i++)
        if (strcasecmp(dns->rows[i].name, name) == 0 &&
            type == (dns->rows[i].family == AF_INET ? TYPE_A : TYPE_AAAA))
            row = &dns->rows[i];
    enum dns_way way = row ? row->way : DNS_NXDOMAIN;
    if (way == DNS_DROP || (way == DNS_TRUNCATED_DROP && by_tcp))
        return 0;
    bool truncated = (way == DNS_TRUNCATED || way == DNS_TRUNCATED_DROP) && !by_tcp;
    memcpy(out, question, at);
    put_u16(out + 2, 0x8180u | (truncated ? 0x0200u : 0) |
                         (way == DNS_NXDOMAIN   ? 3u
                          : way == DNS_SERVFAIL ? 2u
                                                : 0));
    put_u16(out + 8, 0);
    put_u16(out + 10, 0);
    uint32_t count = 0;
    bool has_addresses = (way == DNS_ANSWER || way == DNS_TRUNCATED) && !truncated;
    const char *next = has_addresses && row->addresses ? row->addresses : "";
    char one[64];
    for (int used; sscanf(next, "%63s%n", one, &used) == 1; next += used) {
        size_t length = type == TYPE_A ? 4 : 16;
        put_u16(out + at, 0xc00c);
        put_u16(out + at + 2, (uint32_t)type);
        put_u16(out + at + 4, 1);
        put_u16(out + at + 6, row->ttl_s >> 16);
        put_u16(out + at + 8, row->ttl_s & 0xffff);
        put_u16(out + at + 10, (uint32_t)length);
        CHECK_INT(inet_pton(row->family, one, out + at + 12), 1);
        at += 12 + length;
        count++;
    }
    put_u16(out + 6, count);
    return at;
}

static void udp_ready(struct weir_io *io, uint32_t events)
{
    struct dns *dns = (struct dns *)io;
    unsigned char question[2048], out[4096];
    struct sockaddr_storage from;
    socklen_t from_bytes = sizeof from;
    ssize_t n;
    (void)events;
    while ((n = recvfrom(io->fd, question, sizeof question, 0, (struct sockaddr *)&from,
                         &from_bytes)) >= 0) {
        size_t bytes = answer(dns, question, (size_t)n, out, false);
        if (bytes > 0)
            CHECK(sendto(io->fd, out, bytes, 0, (struct sockaddr *)&from, from_bytes) > 0);
        from_bytes = sizeof from;
    }
}

static struct dns *dns_of_end;

static void end_ready(struct weir_io *io, uint32_t events)
{
    unsigned char in[2048], out[4096];
    (void)events;
    ssize_t n = recv(io->fd, in, sizeof in, 0);
    if (n <= 0) {
        if (n == 0)
            weir_loop_close(dns_of_end->loop, io);
        return;
    }
    /* c-ares writes length and question at once, perhaps several. */
    for (ssize_t at = 0; at + 2 < n;) {
        size_t bytes = (size_t)in[at] << 8 | in[at + 1];
        CHECK(at + 2 + (ssize_t)bytes <= n);
        size_t out_bytes = answer(dns_of_end, in + at + 2, bytes, out + 2, true);
        at += 2 + (ssize_t)bytes;
        if (out_bytes == 0)
            continue;
        put_u16(out, (uint32_t)out_bytes);
        /* In two pieces, so that the reader must come back. */
        CHECK_INT(send(io->fd, out, 5, MSG_NOSIGNAL), 5);
        CHECK(send(io->fd, out + 5, out_bytes - 3, MSG_NOSIGNAL) > 0);
    }
}

static void tcp_ready(struct weir_io *io, uint32_t events)
{
    struct dns *dns = dns_of_end;
    int fd;
    (void)events;
    while ((fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int i = 0;
        while (i < DNS_TCP && dns->tcp_ends[i].fd >= 0)
            i++;
        CHECK(i < DNS_TCP);
        dns->tcp_ends[i] = (struct weir_io){.ready = end_ready, .fd = fd};
        CHECK_INT(weir_loop_add(dns->loop, &dns->tcp_ends[i]), 0);
    }
}

void dns_open(struct dns *dns, struct weir_loop *loop)
{
    struct sockaddr_in address;
    memset(dns, 0, sizeof *dns);
    dns->loop = loop;
    dns_of_end = dns;
    for (int i = 0; i < DNS_TCP; i++)
        dns->tcp_ends[i].fd = -1;
    for (int tries = 0;; tries++) {
        socklen_t bytes = sizeof address;
        address =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK_INT(bind(udp, (struct sockaddr *)&address, sizeof address), 0);
        CHECK_INT(getsockname(udp, (struct sockaddr *)&address, &bytes), 0);
        if (bind(tcp, (struct sockaddr *)&address, sizeof address) == 0 && listen(tcp, 8) == 0) {
            dns->udp = (struct weir_io){.ready = udp_ready, .fd = udp};
            dns->tcp = (struct weir_io){.ready = tcp_ready, .fd = tcp};
            break;
        }
        CHECK(tries < 20); /* that port is taken for TCP: another */
        close(udp);
        close(tcp);
    }
    CHECK_INT(weir_loop_add(loop, &dns->udp), 0);
    CHECK_INT(weir_loop_add(loop, &dns->tcp), 0);
    snprintf(dns->servers, sizeof dns->servers, "127.0.0.1:%u", ntohs(address.sin_port));
}

void dns_close(struct dns *dns)
{
    for (int i = 0; i < DNS_TCP; i++)
        if (dns->tcp_ends[i].fd >= 0)
            weir_loop_close(dns->loop, &dns->tcp_ends[i]);
    if (dns->udp.fd >= 0)
        weir_loop_close(dns->loop, &dns->udp);
    if (dns->tcp.fd >= 0)
        weir_loop_close(dns->loop, &dns->tcp);
}

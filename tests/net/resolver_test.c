/* Names: by TTL, by family, by failure; against a name server on the same loop. */
#include "dns.h"
#include "upstream.h"

#include "net/resolver.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME "api.weir.test"

/* --- the resolver alone --- */

struct rig {
    struct weir_loop *loop;
    struct weir_resolver *resolver;
    struct weir_name *name;
    struct dns dns;
    uint64_t now_ns;
    int changed;
};

static void rig_changed(void *ctx)
{
    ((struct rig *)ctx)->changed++;
}

static void rig_open(struct rig *r, const char *host)
{
    memset(r, 0, sizeof *r);
    r->loop = weir_loop_create();
    r->now_ns = weir_loop_now_ns(r->loop);
    weir_loop_time_set(r->loop, r->now_ns);
    dns_open(&r->dns, r->loop);
    r->resolver = weir_resolver_create(r->loop);
    weir_resolver_servers_set(r->resolver, r->dns.servers);
    r->name = weir_name_create(r->resolver, host, 443, rig_changed, r);
    CHECK(r->name);
}

static void rig_close(struct rig *r)
{
    weir_name_destroy(r->name);
    weir_resolver_destroy(r->resolver);
    dns_close(&r->dns);
    weir_loop_destroy(r->loop);
}

static void rig_turn(struct rig *r)
{
    CHECK_INT(weir_loop_turn(r->loop, 5 * WEIR_NS_PER_MS), 0);
}

static void rig_pass(struct rig *r, uint64_t ns)
{
    r->now_ns += ns;
    weir_loop_time_set(r->loop, r->now_ns);
    CHECK_INT(weir_loop_turn(r->loop, 0), 0);
}

/* Turns until nothing is asked any more. */
static void rig_settle(struct rig *r)
{
    uint32_t asked;
    int quiet = 0;
    do {
        asked = r->dns.asked;
        rig_turn(r);
        quiet = asked == r->dns.asked ? quiet + 1 : 0;
    } while (quiet < 4);
}

/* Asks until there is an answer. */
static enum weir_name_answer rig_get(struct rig *r)
{
    int changed = r->changed;
    enum weir_name_answer answer = weir_name_get(r->name);
    CHECK_INT(r->changed, changed);
    if (answer != WEIR_NAME_WAIT)
        return answer;
    for (int i = 0; weir_name_get(r->name) == WEIR_NAME_WAIT; i++) {
        CHECK(i < 2000);
        rig_turn(r);
    }
    CHECK(r->changed > changed);
    return weir_name_get(r->name);
}

/* The addresses in order, "127.0.0.1:443 [::1]:443 ". */
static const char *order(struct rig *r)
{
    static char text[1024];
    struct weir_address a[16];
    char one[WEIR_ADDRESS_TEXT_BYTES];
    uint32_t count = weir_name_order(r->name, a, WEIR_COUNT(a));
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s ", weir_address_text(&a[i], one));
    }
    return text;
}

static void name__literals_and_localhost__ask_nobody(void **state)
{
    (void)state;
    static const struct {
        const char *host, *addresses;
    } cases[] = {
        {"10.1.2.3", "10.1.2.3:443 "},
        {"::1", "[::1]:443 "},
        {"2001:db8::5", "[2001:db8::5]:443 "},
        {"localhost", "127.0.0.1:443 [::1]:443 "},
        {"LocalHost.", "127.0.0.1:443 [::1]:443 "},
        {"a.b.localhost", "127.0.0.1:443 [::1]:443 "},
    };
    for (size_t i = 0; i < WEIR_COUNT(cases); i++) {
        struct rig r;
        rig_open(&r, cases[i].host);
        CHECK_INT(weir_name_get(r.name), WEIR_NAME_READY);
        CHECK_STR(order(&r), cases[i].addresses);
        rig_turn(&r);
        CHECK_INT(r.dns.asked, 0);
        rig_close(&r);
    }
}

static void name__both_families__alternate_with_ipv6_first(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 60, "10.0.0.1 10.0.0.2 10.0.0.3"});
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 60, "fd00::1 fd00::2"});
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_settle(&r);
    CHECK_INT(r.changed, 2);
    CHECK_STR(order(&r), "[fd00::1]:443 10.0.0.1:443 [fd00::2]:443 10.0.0.2:443 10.0.0.3:443 ");
    /* The next call begins with the next address of each. */
    CHECK_STR(order(&r), "[fd00::2]:443 10.0.0.2:443 [fd00::1]:443 10.0.0.3:443 10.0.0.1:443 ");
    CHECK_INT(r.dns.asked, 2);
    rig_close(&r);
}

static void name__addresses_that_failed_and_families_that_won__change_the_order(void **state)
{
    (void)state;
    struct rig r;
    struct weir_address a[4];
    rig_open(&r, NAME);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 300, "10.0.0.1"});
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 300, "fd00::1"});
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_settle(&r);
    CHECK_INT(weir_name_order(r.name, a, 4), 2);
    weir_name_address_failed(r.name, &a[0]);
    CHECK_STR(order(&r), "10.0.0.1:443 [fd00::1]:443 ");
    rig_pass(&r, 31 * WEIR_NS_PER_S);
    CHECK_STR(order(&r), "[fd00::1]:443 10.0.0.1:443 ");
    weir_name_address_won(r.name, &a[1]);
    CHECK_STR(order(&r), "10.0.0.1:443 [fd00::1]:443 ");
    rig_pass(&r, 599 * WEIR_NS_PER_S);
    weir_name_address_won(r.name, &a[1]); /* winning when tried first proves nothing */
    CHECK_STR(order(&r), "10.0.0.1:443 [fd00::1]:443 ");
    rig_pass(&r, 2 * WEIR_NS_PER_S);
    CHECK_STR(order(&r), "[fd00::1]:443 10.0.0.1:443 ");
    /* What is known of an address outlives its refresh. */
    weir_name_address_failed(r.name, &a[0]);
    CHECK_INT(weir_name_get(r.name), WEIR_NAME_READY);
    rig_settle(&r);
    CHECK_INT(r.dns.asked, 4);
    CHECK_STR(order(&r), "10.0.0.1:443 [fd00::1]:443 ");
    rig_close(&r);
}

static void name__ttl__decides_when_it_is_asked_again_within_bounds(void **state)
{
    (void)state;
    static const struct {
        uint32_t ttl_s;
        uint64_t good_s;
    } cases[] = {{0, 1}, {1, 1}, {7, 7}, {300, 300}, {86400, 300}};
    for (size_t i = 0; i < WEIR_COUNT(cases); i++) {
        struct rig r;
        rig_open(&r, NAME);
        dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, cases[i].ttl_s, "10.0.0.1"});
        dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 0, NULL});
        CHECK_INT(rig_get(&r), WEIR_NAME_READY);
        rig_settle(&r);
        CHECK_INT(r.dns.asked, 2);
        rig_pass(&r, cases[i].good_s * WEIR_NS_PER_S - 1);
        CHECK_INT(weir_name_get(r.name), WEIR_NAME_READY);
        rig_settle(&r);
        CHECK_INT(r.dns.asked, 2);
        dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 1, "10.0.0.2"});
        rig_pass(&r, 1);
        /* The old address serves while the new one is asked for. */
        CHECK_INT(weir_name_get(r.name), WEIR_NAME_READY);
        CHECK_STR(order(&r), "10.0.0.1:443 ");
        rig_settle(&r);
        CHECK_INT(r.dns.asked, 4);
        CHECK_STR(order(&r), "10.0.0.2:443 ");
        rig_close(&r);
    }
}

static void name__that_does_not_exist__fails_and_is_asked_again_after_a_second(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    CHECK_INT(rig_get(&r), WEIR_NAME_FAILED);
    CHECK_MSG(strstr(weir_name_detail(r.name), "resolve " NAME ": there is no such host"), "%s",
              weir_name_detail(r.name));
    CHECK(!weir_name_lacked_descriptors(r.name));
    rig_settle(&r);
    uint32_t asked = r.dns.asked; /* search domains of this machine may add some */
    CHECK(asked >= 2);
    rig_pass(&r, WEIR_NS_PER_S - 1);
    CHECK_INT(weir_name_get(r.name), WEIR_NAME_FAILED);
    rig_settle(&r);
    CHECK_INT(r.dns.asked, asked);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 60, "10.0.0.1"});
    rig_pass(&r, 1);
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_close(&r);
}

static void name__without_an_address__says_so(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 60, NULL});
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 60, NULL});
    CHECK_INT(rig_get(&r), WEIR_NAME_FAILED);
    CHECK_MSG(strstr(weir_name_detail(r.name), "no address") ||
                  strstr(weir_name_detail(r.name), "no such host"), /* by a search domain */
              "%s", weir_name_detail(r.name));
    rig_close(&r);
}

static void name__one_family_is_never_answered__the_other_is_enough(void **state)
{
    (void)state;
    for (int dropped = 0; dropped < 2; dropped++) {
        struct rig r;
        rig_open(&r, NAME);
        dns_set(&r.dns, (struct dns_row){NAME, dropped ? AF_INET : AF_INET6, DNS_DROP, 0, NULL});
        dns_set(&r.dns, (struct dns_row){NAME, dropped ? AF_INET6 : AF_INET, DNS_ANSWER, 60,
                                         dropped ? "fd00::1" : "10.0.0.1"});
        CHECK_INT(rig_get(&r), WEIR_NAME_READY);
        CHECK_STR(order(&r), dropped ? "[fd00::1]:443 " : "10.0.0.1:443 ");
        rig_close(&r); /* with a question still open */
    }
}

static void
name__old_addresses__serve_while_name_servers_fail_but_not_when_the_name_is_gone(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 10, "10.0.0.1"});
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_settle(&r);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_SERVFAIL, 0, NULL});
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_SERVFAIL, 0, NULL});
    for (int i = 0; i < 3; i++) {
        uint32_t asked = r.dns.asked;
        rig_pass(&r, 11 * WEIR_NS_PER_S);
        CHECK_INT(weir_name_get(r.name), WEIR_NAME_READY);
        rig_settle(&r);
        CHECK(r.dns.asked > asked);
        CHECK_STR(order(&r), "10.0.0.1:443 ");
    }
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_NXDOMAIN, 0, NULL});
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_NXDOMAIN, 0, NULL});
    rig_pass(&r, 2 * WEIR_NS_PER_S);
    CHECK_INT(weir_name_get(r.name), WEIR_NAME_READY);
    rig_settle(&r);
    CHECK_INT(weir_name_get(r.name), WEIR_NAME_FAILED);
    rig_close(&r);
}

static void name__name_server_that_is_not_there__fails_and_recovers(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    CHECK_INT(getsockname(r.dns.udp.fd, (struct sockaddr *)&address, &bytes), 0);
    weir_loop_close(r.loop, &r.dns.udp);
    CHECK_INT(rig_get(&r), WEIR_NAME_FAILED);
    CHECK_MSG(strstr(weir_name_detail(r.name), "name server"), "%s", weir_name_detail(r.name));
    /* It comes back on its port. */
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    r.dns.udp.fd = fd;
    CHECK_INT(weir_loop_add(r.loop, &r.dns.udp), 0);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 60, "10.0.0.1"});
    rig_pass(&r, WEIR_NS_PER_S);
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_close(&r);
}

static void name__answer_too_long_for_udp__is_asked_for_over_tcp(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    dns_set(&r.dns,
            (struct dns_row){NAME, AF_INET, DNS_TRUNCATED, 60,
                             "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 "
                             "10.0.0.8 10.0.0.9 10.0.0.10"});
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_TRUNCATED, 60, "fd00::1"});
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_settle(&r);
    CHECK_INT(r.dns.asked_by_tcp, 2);
    struct weir_address a[16];
    CHECK_INT(weir_name_order(r.name, a, 16), 9); /* eight a family at most */
    CHECK_INT(weir_name_order(r.name, a, 3), 3);
    rig_close(&r);
}

/* The second question goes out on a connection that could be written all along: no event announces
 * that. */
static void name__asked_over_a_tcp_connection_that_is_open__is_answered(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_TRUNCATED, 60, "10.0.0.1"});
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET6, DNS_TRUNCATED_DROP, 0, NULL});
    dns_set(&r.dns, (struct dns_row){"b.weir.test", AF_INET, DNS_TRUNCATED, 60, "10.0.0.2"});
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_settle(&r);
    struct weir_name *first = r.name;
    r.name = weir_name_create(r.resolver, "b.weir.test", 443, rig_changed, &r);
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    CHECK_STR(order(&r), "10.0.0.2:443 ");
    CHECK_INT(r.dns.asked_by_tcp, 3);
    weir_name_destroy(first);
    rig_close(&r);
}

static void name__destroyed_while_it_is_asked_for__is_safe(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NAME);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 60, "10.0.0.1"});
    CHECK_INT(weir_name_get(r.name), WEIR_NAME_WAIT);
    weir_name_destroy(r.name);
    r.name = NULL;
    rig_settle(&r);
    CHECK_INT(r.changed, 0);
    rig_close(&r);
}

static void name__no_descriptor_left__says_so_and_recovers(void **state)
{
    (void)state;
    struct rig r;
    struct rlimit before, limit;
    rig_open(&r, NAME);
    dns_set(&r.dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 60, "10.0.0.1"});
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    close(next);
    limit = before;
    limit.rlim_cur =
        (rlim_t)next + 1; /* for /etc/resolv.conf and the like, not for a second socket */
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int hold = dup(0);
    CHECK_INT(hold, next);
    enum weir_name_answer answer = rig_get(&r);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(hold);
    CHECK_INT(answer, WEIR_NAME_FAILED);
    CHECK_MSG(weir_name_lacked_descriptors(r.name), "%s", weir_name_detail(r.name));
    CHECK_MSG(strstr(weir_name_detail(r.name), "out of file descriptors"), "%s",
              weir_name_detail(r.name));
    rig_pass(&r, WEIR_NS_PER_S);
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    rig_close(&r);
}

/* The first line of /etc/hosts with an IPv4 address and a name that is not localhost. */
static bool hosts_entry(char ip[64], char host[256])
{
    char line[1024];
    FILE *f = fopen("/etc/hosts", "r");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%63[0-9.] %255s", ip, host) == 2 && !strstr(host, "localhost");
    if (f)
        fclose(f);
    return found;
}

static void name__in_etc_hosts__is_found_there(void **state)
{
    (void)state;
    struct rig r;
    char ip[64], host[256], want[80];
    if (!hosts_entry(ip, host)) {
        print_message("# /etc/hosts of this machine names nobody: nothing to look up there\n");
        return;
    }
    rig_open(&r, host);
    dns_set(&r.dns, (struct dns_row){host, AF_INET, DNS_ANSWER, 60, "10.9.9.9"});
    CHECK_INT(rig_get(&r), WEIR_NAME_READY);
    snprintf(want, sizeof want, "%s:443 ", ip);
    CHECK_STR(order(&r), want);
    rig_close(&r);
}

/* --- calls by name --- */

#define OK_HEAD "HTTP/1.1 200 OK\r\n"

/* pool_max 0: each call connects anew. */
static void named_open(struct bed *bed, struct dns *dns, uint32_t pool_max)
{
    struct weir_target_rules rules = {
        .host = NAME, .pool_idle_ns = 100000 * WEIR_NS_PER_S, .pool_max = pool_max};
    bed_open(bed, &rules);
    dns_open(dns, bed->loop);
    weir_client_name_servers_set(bed->client, dns->servers);
}

static void named_close(struct bed *bed, struct dns *dns)
{
    dns_close(dns);
    bed_close(bed);
}

static void named_call(struct bed *bed, int *fd)
{
    struct caller c = {0};
    caller_start(&c, bed, GET, NULL);
    BED_UNTIL(bed, c.sent_count == 1 || c.done_count == 1);
    CHECK_MSG(c.done_count == 0, "%s", c.detail);
    if (*fd < 0)
        *fd = up_accept(bed);
    up_read(*fd, GET);
    up_write(*fd, OK_HEAD "content-length: 0\r\n\r\n");
    BED_UNTIL(bed, c.done_count == 1);
    CHECK_MSG(c.failure == WEIR_CALL_OK, "%s", c.detail);
    caller_free(&c);
}

static void client__name__is_asked_for_again_by_ttl_while_live_connections_are_kept(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    int fd = -1;
    named_open(&bed, &dns, 1);
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 5, "127.0.0.1"});
    named_call(&bed, &fd);
    CHECK_INT(dns.asked, 2);
    /* The name points elsewhere now, and its time is over: the connection lives on, and nobody
     * asks. */
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 5, "127.0.0.77"});
    bed_pass(&bed, 100 * WEIR_NS_PER_S);
    named_call(&bed, &fd);
    CHECK_INT(dns.asked, 2);
    close(fd);
    bed_wait(&bed);
    /* A new connection still uses the old address, and asks; the one after that goes to the new
     * one. */
    fd = -1;
    named_call(&bed, &fd);
    for (int i = 0; i < 5; i++)
        bed_wait(&bed);
    CHECK_INT(dns.asked, 4);
    close(fd);
    bed_wait(&bed);
    struct caller c = {0};
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_CONNECT);
    CHECK_MSG(strstr(c.detail, "connect to 127.0.0.77:"), "%s", c.detail);
    caller_free(&c);
    named_close(&bed, &dns);
}

static void client__name_that_does_not_exist__fails_the_calls_that_wait_for_it(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    struct caller a = {0}, b = {0}, next = {0};
    named_open(&bed, &dns, 0);
    a.start_in_done = true;
    a.next = &next;
    caller_start(&a, &bed, GET, NULL);
    caller_start(&b, &bed, GET, NULL);
    BED_UNTIL(&bed, a.done_count == 1 && b.done_count == 1 && next.done_count == 1);
    CHECK_INT(a.failure, WEIR_CALL_E_RESOLVE);
    CHECK_INT(b.failure, WEIR_CALL_E_RESOLVE);
    CHECK_INT(next.failure, WEIR_CALL_E_RESOLVE);
    CHECK_MSG(strstr(a.detail, "resolve " NAME), "%s", a.detail);
    CHECK(!a.sent);
    caller_free(&a);
    caller_free(&b);
    caller_free(&next);
    named_close(&bed, &dns);
}

static void client__name_server_that_says_nothing__is_bounded_by_the_connect_timer(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    struct caller a = {0}, b = {0};
    named_open(&bed, &dns, 0);
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_DROP, 0, NULL});
    dns_set(&dns, (struct dns_row){NAME, AF_INET6, DNS_DROP, 0, NULL});
    caller_start(&a, &bed, GET, NULL);
    caller_start(&b, &bed, GET, NULL);
    bed_wait(&bed);
    CHECK(!weir_call_cancel(b.call)); /* waits for the name */
    bed_pass(&bed, 5010 * WEIR_NS_PER_MS);
    CHECK_INT(a.done_count, 1);
    CHECK_INT(a.failure, WEIR_CALL_E_CONNECT_TIMEOUT);
    CHECK_MSG(strstr(a.detail, "resolve " NAME), "%s", a.detail);
    caller_free(&a);
    caller_free(&b);
    named_close(&bed, &dns);
}

static int listen_v6(uint16_t port, int backlog)
{
    struct sockaddr_in6 address = {
        .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback, .sin6_port = htons(port)};
    int on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, backlog) == 0)
        return fd;
    close(fd);
    return -1;
}

/* IPv6 that swallows connections: a listener whose queue is full. */
static void client__dead_ipv6_address__costs_a_quarter_of_a_second_once(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    int fill[4];
    named_open(&bed, &dns, 0);
    int full = listen_v6(bed.port, 0);
    if (full < 0)
        skip();
    struct sockaddr_in6 address = {
        .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback, .sin6_port = htons(bed.port)};
    for (int i = 0; i < 4; i++) {
        fill[i] = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fill[i], (struct sockaddr *)&address, sizeof address);
    }
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 300, "127.0.0.1"});
    dns_set(&dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 300, "::1"});
    struct caller c = {0};
    /* Both answers must be there, else IPv4 alone is raced. */
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, dns.asked == 2);
    for (int i = 0; i < 5; i++)
        bed_wait(&bed);
    if (c.sent_count ==
        1) { /* IPv4 was answered first and used at once: right, but not what is tested */
        weir_call_cancel(c.call);
        close(up_accept(&bed));
        bed_pass(&bed, 601 * WEIR_NS_PER_S); /* IPv6 gets its new chance */
        caller_free(&c);
        caller_start(&c, &bed, GET, NULL);
        for (int i = 0; i < 5; i++)
            bed_wait(&bed);
    }
    CHECK_INT(c.sent_count, 0);
    bed_pass(&bed, 249 * WEIR_NS_PER_MS);
    bed_wait(&bed);
    CHECK_INT(c.sent_count, 0);
    bed_pass(&bed, 3 * WEIR_NS_PER_MS);
    BED_UNTIL(&bed, c.sent_count == 1);
    close(up_accept(&bed));
    BED_UNTIL(&bed, c.done_count == 1);
    /* From now on IPv4 comes first. */
    for (int i = 0; i < 3; i++) {
        int fd = -1;
        named_call(&bed, &fd);
        close(fd);
    }
    /* After ten minutes IPv6 gets a new chance, and dead as it is costs as much once more. */
    bed_pass(&bed, 601 * WEIR_NS_PER_S);
    caller_free(&c);
    caller_start(&c, &bed, GET, NULL);
    bed_wait(&bed);
    bed_pass(&bed, 249 * WEIR_NS_PER_MS);
    bed_wait(&bed);
    CHECK_INT(c.sent_count, 0);
    bed_pass(&bed, 3 * WEIR_NS_PER_MS);
    BED_UNTIL(&bed, c.sent_count == 1);
    close(up_accept(&bed));
    BED_UNTIL(&bed, c.done_count == 1);
    for (int i = 0; i < 4; i++)
        close(fill[i]);
    close(full);
    caller_free(&c);
    named_close(&bed, &dns);
}

static void client__ipv6_address_that_refuses__costs_no_time(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    named_open(&bed, &dns, 0);
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 300, "127.0.0.1"});
    dns_set(&dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 300, "::1"});
    for (int i = 0; i < 3; i++) {
        int fd = -1;
        named_call(&bed, &fd); /* time stands still all along */
        close(fd);
        bed_pass(&bed, 700 * WEIR_NS_PER_S);
    }
    named_close(&bed, &dns);
}

static void client__ipv6_address_that_answers__is_used(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    struct caller c = {0};
    named_open(&bed, &dns, 0);
    int v6 = listen_v6(bed.port, 8);
    if (v6 < 0)
        skip();
    dns_set(&dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 300, "::1"});
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.sent_count == 1);
    int fd = accept(v6, NULL, NULL);
    up_read(fd, GET);
    up_reset(fd);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_WRITE);
    CHECK_MSG(strstr(c.detail, "[::1]:"), "%s", c.detail);
    close(v6);
    caller_free(&c);
    named_close(&bed, &dns);
}

static void client__dead_address_of_the_same_family__costs_a_quarter_of_a_second_once(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    struct caller c = {0};
    int fill[4], fd = -1;
    named_open(&bed, &dns, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(bed.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 4);
    int full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(full, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(full, 0), 0);
    for (int i = 0; i < 4; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fill[i], (struct sockaddr *)&address, sizeof address);
    }
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 300, "127.0.0.1 127.0.0.5"});
    dns_set(&dns, (struct dns_row){NAME, AF_INET6, DNS_ANSWER, 300, NULL});
    named_call(&bed, &fd);
    close(fd);
    caller_start(&c, &bed, GET, NULL); /* .5 is first by rotation */
    bed_wait(&bed);
    bed_pass(&bed, 249 * WEIR_NS_PER_MS);
    bed_wait(&bed);
    CHECK_INT(c.sent_count, 0);
    bed_pass(&bed, 3 * WEIR_NS_PER_MS);
    BED_UNTIL(&bed, c.sent_count == 1);
    close(up_accept(&bed));
    BED_UNTIL(&bed, c.done_count == 1);
    for (int i = 0; i < 4; i++) {
        fd = -1;
        named_call(&bed, &fd); /* time stands still */
        close(fd);
    }
    for (int i = 0; i < 4; i++)
        close(fill[i]);
    close(full);
    caller_free(&c);
    named_close(&bed, &dns);
}

static void client__address_that_refused__is_tried_last(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    struct caller c = {0};
    named_open(&bed, &dns, 0);
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 300, "127.0.0.7 127.0.0.1"});
    for (int i = 0; i < 2; i++) {
        int fd = -1;
        named_call(&bed, &fd); /* .7 refuses; then .1 comes first by rotation */
        close(fd);
    }
    close(bed.listener);
    bed.listener = -1;
    /* It would be .7's turn to be first; the last one that fails is the one that is named. */
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_CONNECT);
    CHECK_MSG(strstr(c.detail, "127.0.0.7"), "%s", c.detail);
    caller_free(&c);
    named_close(&bed, &dns);
}

static void client__several_addresses__are_tried_until_one_takes_the_connection(void **state)
{
    (void)state;
    struct bed bed;
    struct dns dns;
    named_open(&bed, &dns, 0);
    dns_set(&dns,
            (struct dns_row){NAME, AF_INET, DNS_ANSWER, 300, "127.0.0.7 127.0.0.8 127.0.0.1"});
    for (int i = 0; i < 6; i++) {
        int fd = -1;
        named_call(&bed, &fd);
        close(fd);
    }
    struct weir_target_view view;
    weir_target_view(bed.target, &view);
    CHECK_INT(view.connects, 6);
    CHECK_INT(view.failures, 0);
    dns_set(&dns, (struct dns_row){NAME, AF_INET, DNS_ANSWER, 300, "127.0.0.7 127.0.0.8"});
    bed_pass(&bed, 301 * WEIR_NS_PER_S);
    int fd = -1;
    named_call(&bed, &fd); /* with the old addresses; asks */
    close(fd);
    for (int i = 0; i < 5; i++)
        bed_wait(&bed);
    struct caller c = {0};
    caller_start(&c, &bed, GET, NULL);
    BED_UNTIL(&bed, c.done_count == 1);
    CHECK_INT(c.failure, WEIR_CALL_E_CONNECT);
    CHECK_MSG(strstr(c.detail, "Connection refused"), "%s", c.detail);
    caller_free(&c);
    named_close(&bed, &dns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name__literals_and_localhost__ask_nobody),
        cmocka_unit_test(name__both_families__alternate_with_ipv6_first),
        cmocka_unit_test(name__addresses_that_failed_and_families_that_won__change_the_order),
        cmocka_unit_test(name__ttl__decides_when_it_is_asked_again_within_bounds),
        cmocka_unit_test(name__that_does_not_exist__fails_and_is_asked_again_after_a_second),
        cmocka_unit_test(name__without_an_address__says_so),
        cmocka_unit_test(name__one_family_is_never_answered__the_other_is_enough),
        cmocka_unit_test(
            name__old_addresses__serve_while_name_servers_fail_but_not_when_the_name_is_gone),
        cmocka_unit_test(name__name_server_that_is_not_there__fails_and_recovers),
        cmocka_unit_test(name__answer_too_long_for_udp__is_asked_for_over_tcp),
        cmocka_unit_test(name__asked_over_a_tcp_connection_that_is_open__is_answered),
        cmocka_unit_test(name__destroyed_while_it_is_asked_for__is_safe),
        cmocka_unit_test(name__no_descriptor_left__says_so_and_recovers),
        cmocka_unit_test(name__in_etc_hosts__is_found_there),
        cmocka_unit_test(client__name__is_asked_for_again_by_ttl_while_live_connections_are_kept),
        cmocka_unit_test(client__name_that_does_not_exist__fails_the_calls_that_wait_for_it),
        cmocka_unit_test(client__name_server_that_says_nothing__is_bounded_by_the_connect_timer),
        cmocka_unit_test(client__dead_ipv6_address__costs_a_quarter_of_a_second_once),
        cmocka_unit_test(client__ipv6_address_that_refuses__costs_no_time),
        cmocka_unit_test(client__ipv6_address_that_answers__is_used),
        cmocka_unit_test(client__dead_address_of_the_same_family__costs_a_quarter_of_a_second_once),
        cmocka_unit_test(client__address_that_refused__is_tried_last),
        cmocka_unit_test(client__several_addresses__are_tried_until_one_takes_the_connection),
    };
    return cmocka_run_group_tests_name("resolver", tests, NULL, NULL);
}

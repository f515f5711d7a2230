/* Many connections: what they cost, what happens when descriptors run out, and chaos. Clients that
 * need descriptors of their own run in a child. */
#include "net/server_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/server_exchange.h"

#define GET "GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n"
#define WAITING                                                                                    \
    "POST /v1/messages HTTP/1.1\r\nhost: h\r\nauthorization: Bearer x\r\n"                         \
    "content-type: application/json\r\naccept: */*\r\ncontent-length: "                            \
    "16\r\n\r\n{\"messages\":[]} "

static uint32_t descriptors_max(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return (uint32_t)(limit.rlim_max > 1000000 ? 1000000 : limit.rlim_max);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A child that connects count times, sends text on each, and holds them until the pipe closes. */
struct crowd {
    pid_t pid;
    int hold_fd;
};

static struct crowd crowd_start(struct rig *rig, uint32_t count, const char *text)
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    uint16_t port = weir_server_port(rig->server);
    struct crowd crowd = {fork(), ends[1]};
    CHECK(crowd.pid >= 0);
    if (crowd.pid > 0) {
        close(ends[0]);
        return crowd;
    }
    char byte;
    close(ends[1]);
    for (uint32_t i = 0; i < count; i++) {
        int fd = connect_to(port);
        if (fd < 0 || send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
            _exit(1);
    }
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 2);
}

static void crowd_end(struct crowd *crowd)
{
    int status;
    close(crowd->hold_fd);
    CHECK(waitpid(crowd->pid, &status, 0) == crowd->pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void request_hold(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    (void)x;
}

/* Turns until the count is reached; a turn waits for events only. */
static void turn_until(struct rig *rig, const uint64_t *count, uint64_t want)
{
    for (int quiet = 0; *count < want; quiet++) {
        CHECK_MSG(quiet < 100000, "%llu of %llu", (unsigned long long)*count,
                  (unsigned long long)want);
        CHECK_INT(weir_loop_turn(rig->loop, 100 * WEIR_NS_PER_MS), 0);
    }
}

static size_t memory_now(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void many(const char *what, const char *text, bool held, size_t bytes_each_max)
{
    uint32_t count = descriptors_max() >= 15100 ? 15000 : descriptors_max() - 100;
    struct rig *rig = rig_create();
    rig->limits.connections = count;
    rig->diary_off = true;
    rig->request = held ? request_hold : NULL;
    rig_listen(rig);
    /* What grows once, with the first connection and the table of descriptors. */
    struct peer first;
    peer_connect(&first, rig);
    peer_say(&first, GET);
    size_t before = memory_now();
    struct crowd crowd = crowd_start(rig, count - 1, text);
    turn_until(rig, &rig->requests, count);
    rig_settle(rig);
    CHECK_INT(weir_server_connections(rig->server), count);
    size_t each = (memory_now() - before) / (count - 1);
    print_message("# %u connections, %s: %zu bytes each\n", count, what, each);
    if (BLOCK_KEEP) /* else the allocator's own bookkeeping is counted */
        CHECK_MSG(each <= bytes_each_max, "%zu", each);
    crowd_end(&crowd);
    if (held)
        turn_until(rig, &rig->ends, count - 1);
    while (weir_server_connections(rig->server) > 1)
        CHECK_INT(weir_loop_turn(rig->loop, 100 * WEIR_NS_PER_MS), 0);
    peer_close(&first);
    CHECK_INT(rig->ends, rig->heads);
    rig_destroy(rig);
}

static void connections__fifteen_thousand_idle__cost_little_each(void **state)
{
    (void)state;
    many("idle after a request", GET, false, 640);
}

static void connections__fifteen_thousand_waiting__cost_head_body_and_under_a_kib(void **state)
{
    (void)state;
    many("waiting, head 150 B and body 16 B in blocks of 512 B and 256 B", WAITING, true,
         768 + 640);
}

/* --- no descriptors --- */

/* In a child of its own: the limit is lowered to what is in use and a few more. */
static int descriptors_child(void)
{
    struct rig *rig = rig_create();
    rig->diary_off = true;
    rig->request = request_hold;
    rig_listen(rig);
    int clients[40];
    for (size_t i = 0; i < WEIR_COUNT(clients); i++)
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)clients[39] + 1 + 10;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);

    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(weir_server_port(rig->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (size_t i = 0; i < WEIR_COUNT(clients); i++) {
        CHECK_INT(connect(clients[i], (struct sockaddr *)&to, sizeof to), 0);
        CHECK(send(clients[i], GET, sizeof GET - 1, MSG_NOSIGNAL) > 0);
        rig_settle(rig);
    }
    CHECK_INT(rig->requests, 10);
    CHECK(strstr(rig->log, "ulimit -n"));
    struct weir_server_view view;
    weir_server_view(rig->server, &view);
    CHECK_INT(view.descriptors_short, 30);
    /* Those that found none were told so, and the answer was not lost to a RST. */
    char got[256];
    for (size_t i = 10; i < WEIR_COUNT(clients); i++) {
        ssize_t n = recv(clients[i], got, sizeof got - 1, MSG_DONTWAIT);
        CHECK(n > 0);
        got[n] = '\0';
        CHECK(strstr(got, "HTTP/1.1 503 ") == got && strstr(got, "retry-after: 1\r\n"));
        CHECK_INT(recv(clients[i], got, sizeof got, MSG_DONTWAIT), 0);
    }
    /* One goes, another comes in. */
    rig->request = NULL;
    close(clients[0]);
    close(clients[39]);
    rig_settle(rig);
    CHECK_INT(rig->ends, 1);
    int fd = connect_to(weir_server_port(rig->server));
    CHECK(fd >= 0);
    CHECK(send(fd, GET, sizeof GET - 1, MSG_NOSIGNAL) > 0);
    rig_settle(rig);
    CHECK_INT(rig->requests, 11);
    close(fd);
    rig_settle(rig);
    /* The log speaks at most once a second. */
    rig->log[0] = '\0';
    for (size_t i = 1; i < WEIR_COUNT(clients) - 1; i++)
        close(clients[i]);
    rig_settle(rig);
    CHECK_INT(weir_server_connections(rig->server), 0);
    rig_destroy(rig);
    return 0;
}

static void descriptors__run_out__are_survived_and_named_in_the_log(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(descriptors_child());
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- chaos --- */

#define CHAOS_PEERS 48
#define CHAOS_STEPS 3000

static uint64_t chaos_seed;

static uint32_t chaos_next(uint32_t below)
{
    chaos_seed ^= chaos_seed << 13;
    chaos_seed ^= chaos_seed >> 7;
    chaos_seed ^= chaos_seed << 17;
    return (uint32_t)(chaos_seed >> 11) % below;
}

/* What the handler holds of an exchange: one each, freed at its end. */
struct chaos_hold {
    struct weir_exchange *x;
    struct chaos_hold *next;
    bool judged;
};

struct chaos {
    struct chaos_hold *holds;
    uint64_t left;
};

static void chaos_end(struct rig *rig, struct weir_exchange *x)
{
    struct chaos *chaos = rig->test;
    struct chaos_hold *hold = weir_exchange_user(x);
    CHECK(hold && hold->x == x);
    for (struct chaos_hold **h = &chaos->holds; *h; h = &(*h)->next) {
        if (*h == hold) {
            *h = hold->next;
            free(hold);
            return;
        }
    }
    fail_msg("an exchange ended that was not known");
}

static void chaos_abort(struct rig *rig, struct weir_exchange *x)
{
    chaos_end(rig, x);
    rig_abort(rig, x);
}

/* Some act of the handler on an exchange, in any state. May end it. */
static void chaos_act(struct rig *rig, struct weir_exchange *x)
{
    static char text[100000];
    const struct weir_slice usual = {NULL, 0};
    uint32_t kind = chaos_next(12);
    if (kind == 0) {
        chaos_abort(rig, x);
    } else if (!weir_exchange_answering(x)) {
        if (kind < 4) {
            weir_exchange_respond(x, 200, "text/plain", usual,
                                  (struct weir_slice){text, chaos_next(2000)});
        } else if (kind < 8) {
            if (kind == 7)
                weir_exchange_close_after(x);
            weir_exchange_answer(x, 200, usual, WEIR_BODY_CHUNKED);
            CHECK(weir_exchange_answer_head_end(x));
        }
    } else if (x->answer == ANSWER_BODY) {
        if (kind < 3)
            weir_exchange_finish(x);
        else if (!weir_exchange_full(x))
            weir_exchange_write(x, text, chaos_next(kind == 4 ? sizeof text : 300));
    }
}

static enum weir_head_verdict chaos_head(struct rig *rig, struct weir_exchange *x)
{
    struct chaos *chaos = rig->test;
    struct chaos_hold *hold = calloc(1, sizeof *hold);
    CHECK(!weir_exchange_user(x));
    hold->x = x;
    hold->next = chaos->holds;
    chaos->holds = hold;
    weir_exchange_user_set(x, hold);
    if (chaos_next(4) == 0)
        chaos_act(rig, x);
    else if (chaos_next(10) == 0)
        return WEIR_HEAD_ANSWERED;
    return WEIR_HEAD_READ_BODY;
}

static void chaos_request(struct rig *rig, struct weir_exchange *x)
{
    if (chaos_next(2) == 0)
        chaos_act(rig, x);
}

static void chaos_fault(struct rig *rig, struct weir_exchange *x, enum weir_server_fault fault)
{
    bool told = fault == WEIR_SERVER_BAD_BODY || fault == WEIR_SERVER_BODY_TOO_LARGE ||
                fault == WEIR_SERVER_BODY_SLOW;
    if (told)
        chaos_end(rig, x);
    switch (chaos_next(4)) {
    case 0:
        weir_exchange_respond(x, 418, NULL, WEIR_SLICE(""), WEIR_SLICE("{}"));
        break;
    case 1:
        weir_exchange_abort(x);
        break;
    case 2:
        weir_exchange_answer(x, 400, WEIR_SLICE(""), 10);
        CHECK(weir_exchange_answer_head_end(x));
        break;
    case 3:
        break;
    }
}

/* Requests good, bad, slow and pipelined; a peer sends them in pieces of any size. */
static const char *const chaos_texts[] = {
    GET,
    GET GET GET,
    WAITING,
    WAITING GET WAITING,
    "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello!",
    "POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 99999999\r\n\r\nabc",
    "GET / HTTP/1.0\r\n\r\n",
    "HEAD / HTTP/1.1\r\nhost: h\r\n\r\n" GET,
    "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n" GET,
    "nonsense\r\n\r\n",
};

struct chaos_peer {
    int fd;
    const char *rest;
};

static void chaos_peer_act(struct rig *rig, struct chaos_peer *p)
{
    static char sink[65536];
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (p->fd < 0) {
        p->fd = connect_to(weir_server_port(rig->server));
        CHECK(p->fd >= 0);
        p->rest = "";
        return;
    }
    switch (chaos_next(12)) {
    case 0:
        setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(p->fd);
        p->fd = -1;
        return;
    case 1:
        close(p->fd);
        p->fd = -1;
        return;
    case 2:
        if (chaos_next(4) == 0)
            shutdown(p->fd, SHUT_WR);
        return;
    case 3:
    case 4:
    case 5:
        (void)!recv(p->fd, sink, 1 + chaos_next(sizeof sink), MSG_DONTWAIT);
        return;
    default:
        if (!*p->rest)
            p->rest = chaos_texts[chaos_next(WEIR_COUNT(chaos_texts))];
        size_t n = strlen(p->rest);
        if (chaos_next(3) == 0)
            n = 1 + chaos_next((uint32_t)n);
        (void)!send(p->fd, p->rest, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        p->rest += n;
    }
}

static void chaos_run(uint64_t seed)
{
    struct rig *rig = rig_create();
    struct chaos chaos = {0};
    struct chaos_peer peers[CHAOS_PEERS];
    chaos_seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    rig->limits.connections = CHAOS_PEERS - 8;
    rig->limits.address_connections = seed % 2 ? 0 : CHAOS_PEERS - 16;
    rig->test = &chaos;
    rig->diary_off = true;
    rig->head = chaos_head;
    rig->request = chaos_request;
    rig->fault = chaos_fault;
    rig->drained = chaos_act;
    rig->done = chaos_end;
    rig->gone = chaos_end;
    rig_listen(rig);
    for (size_t i = 0; i < CHAOS_PEERS; i++)
        peers[i].fd = -1;
    for (int step = 0; step < CHAOS_STEPS; step++) {
        chaos_peer_act(rig, &peers[chaos_next(CHAOS_PEERS)]);
        struct chaos_hold *hold = chaos.holds;
        for (uint32_t skip = chaos_next(8); hold && skip > 0; skip--)
            hold = hold->next;
        /* Nothing is begun on an exchange whose answer is complete; the rest is fair game. */
        if (hold && chaos_next(3) == 0 && hold->x->answer != ANSWER_FINISHED)
            chaos_act(rig, hold->x);
        if (chaos_next(3) == 0)
            CHECK_INT(weir_loop_turn(rig->loop, 0), 0);
        if (chaos_next(50) == 0)
            rig_wait(rig, chaos_next(2000) * WEIR_NS_PER_MS);
        if (chaos_next(500) == 0)
            rig_wait(rig, 30 * WEIR_NS_PER_S);
    }
    if (seed % 3 == 0)
        weir_server_drain(rig->server);
    for (size_t i = 0; i < CHAOS_PEERS; i++) {
        if (peers[i].fd >= 0)
            close(peers[i].fd);
    }
    rig_settle(rig);
    CHECK_MSG(!chaos.holds && rig->heads == rig->ends, "seed %llu", (unsigned long long)seed);
    CHECK_MSG(weir_server_connections(rig->server) == 0, "seed %llu: %u", (unsigned long long)seed,
              weir_server_connections(rig->server));
    rig_destroy(rig);
}

static void chaos__any_order_of_acts__ends_each_exchange_once_and_leaves_nothing(void **state)
{
    (void)state;
    const char *one = getenv("WEIR_SEED");
    uint64_t seeds = getenv("WEIR_LONG") ? 2000 : 40;
    if (one) {
        chaos_run(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++)
        chaos_run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections__fifteen_thousand_idle__cost_little_each),
        cmocka_unit_test(connections__fifteen_thousand_waiting__cost_head_body_and_under_a_kib),
        cmocka_unit_test(descriptors__run_out__are_survived_and_named_in_the_log),
        cmocka_unit_test(chaos__any_order_of_acts__ends_each_exchange_once_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

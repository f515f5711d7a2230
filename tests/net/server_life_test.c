/* How exchanges and connections end: hang-ups in every phase, deadlines, slow readers, aborts,
 * caps, drain. Whatever happens, each exchange ends for its handler exactly once. */
#include "net/server_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/server_exchange.h"

#define POST "POST /v1/messages HTTP/1.1\r\nhost: h\r\n"
#define GET "GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n"
#define EMPTY_OK "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncontent-type: text/plain\r\n\r\n"
#define BARE(status) "HTTP/1.1 " status "\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

static int setup_quiet(void **state)
{
    *state = rig_create();
    return 0;
}

static int setup(void **state)
{
    setup_quiet(state);
    rig_listen(*state);
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    CHECK_INT(rig->heads, rig->ends);
    rig_destroy(rig);
    return 0;
}

static void request_hold(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    (void)x;
}

static void request_begin(struct rig *rig, struct weir_exchange *x)
{
    const struct weir_slice usual = {NULL, 0};
    (void)rig;
    weir_exchange_answer(x, 200, usual, WEIR_BODY_CHUNKED);
    CHECK(weir_exchange_answer_head_end(x));
    weir_exchange_write(x, "part", 4);
}

/* --- hang-ups --- */

static const struct {
    const char *sent, *before, *after;
    void (*request)(struct rig *rig, struct weir_exchange *x);
} phases[] = {
    {"", "", "", request_hold},
    {"POST / HT", "", "", request_hold},
    {POST "content-length: 5\r\n\r\nhel", "head", "gone:closed", request_hold},
    {POST "transfer-encoding: chunked\r\n\r\n5\r\nhel", "head", "gone:closed", request_hold},
    {POST "content-length: 5\r\n\r\nhello", "head request:5", "gone:closed", request_hold},
    {POST "content-length: 5\r\n\r\nhello" GET GET, "head request:5", "gone:closed", request_hold},
    {GET, "head request:0", "gone:closed", request_begin},
    {GET, "head request:0 done", "", NULL},
    {POST "content-length: x\r\n\r\n", "fault:BAD_HEAD:CONTENT_LENGTH", "", NULL},
};

static void peer_half_close(struct peer *peer)
{
    shutdown(peer->fd, SHUT_WR);
}

static void peer_reset_only(struct peer *peer)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(peer->fd);
    peer->fd = -1;
}

static void peer_close_only(struct peer *peer)
{
    close(peer->fd);
    peer->fd = -1;
}

static void client_hangs_up__in_any_phase_and_way__handler_knows_in_that_turn(void **state)
{
    struct rig *rig = *state;
    void (*const ways[])(struct peer *) = {peer_half_close, peer_reset_only, peer_close_only};
    for (size_t i = 0; i < WEIR_COUNT(phases) * WEIR_COUNT(ways); i++) {
        size_t row = i / WEIR_COUNT(ways);
        struct peer peer;
        rig->request = phases[row].request;
        peer_connect(&peer, rig);
        peer_say(&peer, phases[row].sent);
        CHECK_DIARY(rig, phases[row].before);
        ways[i % WEIR_COUNT(ways)](&peer);
        CHECK_INT(weir_loop_turn(rig->loop, 0), 0);
        CHECK_DIARY(rig, phases[row].after);
        CHECK_INT(weir_server_connections(rig->server), 0);
        peer_close(&peer);
        CHECK_DIARY(rig, "");
    }
}

static void client_hangs_up__with_a_last_request_unread__is_gone_all_the_same(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->request = request_hold;
    peer_connect(&peer, rig);
    peer_say(&peer, GET);
    CHECK(peer_send(&peer, GET, sizeof GET - 1));
    peer_close(&peer);
    CHECK_DIARY(rig, "head request:0 gone:closed");
    /* The same within one batch of events: nothing of it is begun. */
    peer_connect(&peer, rig);
    CHECK(peer_send(&peer, GET, sizeof GET - 1));
    shutdown(peer.fd, SHUT_WR);
    peer_close(&peer);
    CHECK_DIARY(rig, "");
}

static void gone_tries_to_answer(struct rig *rig, struct weir_exchange *x)
{
    const struct weir_slice usual = {NULL, 0};
    (void)rig;
    weir_exchange_respond(x, 200, "text/plain", WEIR_SLICE("a: b\r\n"), WEIR_SLICE("late"));
    weir_http_write_header_text(weir_exchange_answer(x, 200, usual, 4), "a", "b");
    CHECK(weir_exchange_answer_head_end(x));
    weir_exchange_write(x, "late", 4);
    weir_exchange_trailer(x, WEIR_SLICE("a"), WEIR_SLICE("b"));
    weir_exchange_finish(x);
    weir_exchange_abort(x);
}

static void gone__handler_answers_all_the_same__harmless(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->gone = gone_tries_to_answer;
    for (int i = 0; i < 2; i++) {
        rig->request = i ? request_begin : request_hold;
        peer_connect(&peer, rig);
        peer_say(&peer, GET);
        peer_reset(&peer);
        CHECK_DIARY(rig, "head request:0 gone:closed");
    }
}

/* --- aborts --- */

static enum weir_head_verdict head_abort(struct rig *rig, struct weir_exchange *x)
{
    rig_abort(rig, x);
    return WEIR_HEAD_READ_BODY;
}

static void request_abort(struct rig *rig, struct weir_exchange *x)
{
    rig_abort(rig, x);
    weir_exchange_abort(x); /* once more is nothing */
}

static void request_part_abort(struct rig *rig, struct weir_exchange *x)
{
    request_begin(rig, x);
    rig_abort(rig, x);
    weir_exchange_write(x, "never", 5);
    weir_exchange_finish(x);
}

static void request_counted_abort(struct rig *rig, struct weir_exchange *x)
{
    const struct weir_slice usual = {NULL, 0};
    weir_exchange_answer(x, 200, usual, rig->test ? 4 : 5);
    CHECK(weir_exchange_answer_head_end(x));
    weir_exchange_write(x, "part", 4);
    rig_abort(rig, x);
}

static void request_head_open_abort(struct rig *rig, struct weir_exchange *x)
{
    const struct weir_slice usual = {NULL, 0};
    weir_exchange_answer(x, 200, usual, 5);
    rig_abort(rig, x);
}

static void abort__in_any_state__is_an_end_no_client_takes_for_a_proper_one(void **state)
{
    struct rig *rig = *state;
    const struct {
        enum weir_head_verdict (*head)(struct rig *, struct weir_exchange *);
        void (*request)(struct rig *, struct weir_exchange *);
        const char *sent, *heard;
        bool reset, whole_length;
    } rows[] = {
        {head_abort, NULL, POST "content-length: 5\r\n\r\n", "", true, false},
        {NULL, request_abort, GET, "", true, false},
        {NULL, request_head_open_abort, GET, "", true, false},
        {NULL, request_part_abort, GET,
         "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n", false, false},
        {NULL, request_part_abort, "GET / HTTP/1.0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\npart", true, false},
        {NULL, request_counted_abort, GET, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\npart",
         false, false},
        {NULL, request_counted_abort, GET, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npart", true,
         true},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct peer peer;
        rig->head = rows[i].head;
        rig->request = rows[i].request;
        rig->test = rows[i].whole_length ? rig : NULL;
        peer_connect(&peer, rig);
        peer_say(&peer, rows[i].sent);
        for (int wait = 0; wait < 3; wait++)
            rig_wait(rig, 10 * WEIR_NS_PER_MS); /* until all is acknowledged */
        CHECK_HEARS(&peer, rows[i].heard);
        CHECK_MSG(peer.reset == rows[i].reset && peer.eof != rows[i].reset, "row %zu", i);
        CHECK_DIARY(rig, rows[i].head ? "head" : "head request:0");
        CHECK_INT(weir_server_connections(rig->server), 0);
        peer_close(&peer);
    }
}

static void abort__while_output_is_stuck__sends_it_first(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    size_t bytes = 8u << 20;
    char *text = calloc(1, bytes);
    rig->request = request_begin;
    peer_connect(&peer, rig);
    peer_say(&peer, GET);
    struct weir_exchange *x = rig->x;
    weir_exchange_write(x, text, bytes);
    rig_settle(rig);
    CHECK(weir_exchange_full(x));
    rig_abort(rig, x);
    peer_hear(&peer);
    CHECK(peer.eof);
    CHECK(peer.got_bytes > bytes);
    CHECK_DIARY(rig, "head request:0");
    peer_close(&peer);
    free(text);
}

/* --- deadlines --- */

static void head__a_byte_a_second__ends_at_the_deadline(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    peer_connect(&peer, rig);
    for (int i = 0; i < 10; i++) {
        CHECK_DIARY(rig, "");
        peer_say(&peer, "a");
        rig_wait(rig, WEIR_NS_PER_S);
    }
    rig_wait(rig, 2 * WEIR_NS_PER_MS);
    CHECK_DIARY(rig, "fault:HEAD_SLOW");
    CHECK_HEARS(&peer, BARE("408 Request Timeout"));
    CHECK(peer.eof);
    peer_close(&peer);
}

static void connection__silent__is_closed_without_a_word(void **state)
{
    struct rig *rig = *state;
    struct peer silent, idle;
    peer_connect(&silent, rig);
    peer_connect(&idle, rig);
    peer_say(&idle, GET);
    rig_diary(rig);
    rig_wait(rig, rig->limits.head_ns + 2 * WEIR_NS_PER_MS);
    CHECK_HEARS(&silent, "");
    CHECK(silent.eof);
    CHECK_HEARS(&idle, EMPTY_OK);
    CHECK(!idle.eof);
    rig_wait(rig, rig->limits.keep_alive_ns - rig->limits.head_ns);
    CHECK_HEARS(&idle, EMPTY_OK);
    CHECK(idle.eof);
    CHECK_DIARY(rig, "");
    peer_close(&silent);
    peer_close(&idle);
}

static void head_of_a_second_request__has_the_whole_deadline_again(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    peer_connect(&peer, rig);
    peer_say(&peer, GET);
    rig_wait(rig, 50 * WEIR_NS_PER_S);
    peer_say(&peer, "GET ");
    rig_wait(rig, rig->limits.head_ns - 2 * WEIR_NS_PER_MS);
    CHECK_DIARY(rig, "head request:0 done");
    rig_wait(rig, 4 * WEIR_NS_PER_MS);
    CHECK_DIARY(rig, "fault:HEAD_SLOW");
    peer_close(&peer);
}

static void body__at_the_minimum_rate__is_taken_and_below_it_is_slow(void **state)
{
    struct rig *rig = *state; /* 1000 bytes/s, 10 s grace */
    char kilo[1000];
    memset(kilo, 'x', sizeof kilo);
    for (int slow = 0; slow < 2; slow++) {
        struct peer peer;
        peer_connect(&peer, rig);
        peer_say(&peer, POST "content-length: 60000\r\n\r\n");
        bool refused = false;
        for (int s = 0; s < 60 && !refused; s++) {
            rig_wait(rig, WEIR_NS_PER_S);
            CHECK(peer_send(&peer, kilo, slow ? 700 : 1000));
            rig_settle(rig);
            /* 300 bytes a second short: the grace of 10,000 bytes lasts about 31 s */
            refused = rig->ends > (uint64_t)slow;
            CHECK_MSG(!refused || !slow || s == 30 || s == 31, "%d", s);
        }
        CHECK_DIARY(rig, slow ? "head fault:BODY_SLOW" : "head request:60000 done");
        peer_close(&peer);
    }
}

static void body__fast_then_silent__has_one_grace_and_no_more(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    size_t bytes = 1000000;
    char *body = calloc(1, bytes);
    peer_connect(&peer, rig);
    peer_say(&peer, POST "content-length: 2000000\r\n\r\n");
    rig_wait(rig, WEIR_NS_PER_S);
    CHECK(peer_send(&peer, body, bytes));
    rig_settle(rig);
    rig_wait(rig, rig->limits.body_grace_ns - 2 * WEIR_NS_PER_MS);
    CHECK_DIARY(rig, "head");
    rig_wait(rig, 4 * WEIR_NS_PER_MS);
    CHECK_DIARY(rig, "fault:BODY_SLOW");
    CHECK_HEARS(&peer, BARE("408 Request Timeout"));
    peer_close(&peer);
    free(body);
}

static void body__owns_at_most_twice_what_has_come(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "content-length: 33554432\r\n\r\n");
    char *piece = calloc(1, 100000);
    size_t came = 0;
    for (int i = 0; i < 100; i++) {
        CHECK(peer_send(&peer, piece, (size_t)(1 + i * 997)));
        came += (size_t)(1 + i * 997);
        rig_settle(rig);
        CHECK_INT(weir_block_bytes(&rig->x->body), came);
        CHECK_MSG(rig->x->body.room <= 2 * came + 512, "%zu of %zu", rig->x->body.room, came);
    }
    peer_close(&peer);
    CHECK_DIARY(rig, "head gone:closed");
    free(piece);
}

/* --- slow readers --- */

struct producer {
    size_t left, piece_bytes, held_max;
    char *piece;
};

/* Writes while it may, as a gateway does that reads its upstream under back-pressure. */
static void produce(struct rig *rig, struct weir_exchange *x)
{
    struct producer *p = rig->test;
    while (p->left > 0 && !weir_exchange_full(x)) {
        size_t n = p->left < p->piece_bytes ? p->left : p->piece_bytes;
        weir_exchange_write(x, p->piece, n);
        p->left -= n;
        if (x->out.room > p->held_max)
            p->held_max = x->out.room;
    }
    if (p->left == 0)
        weir_exchange_finish(x);
}

static void request_produce(struct rig *rig, struct weir_exchange *x)
{
    request_begin(rig, x);
    produce(rig, x);
}

static void slow_reader__of_64_mib__holds_a_bounded_buffer(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    struct producer p = {.left = 64u << 20, .piece_bytes = 20000, .piece = calloc(1, 20000)};
    rig->test = &p;
    rig->request = request_produce;
    rig->drained = produce;
    rig->diary_off = true;
    peer_connect(&peer, rig);
    peer_say(&peer, GET);
    CHECK(weir_block_bytes(&rig->x->out) > WEIR_EXCHANGE_HIGH_BYTES / 2);
    char sink[50000];
    size_t got = 0;
    while (rig->x) {
        ssize_t n = recv(peer.fd, sink, sizeof sink, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
        CHECK_INT(weir_loop_turn(rig->loop, 0), 0);
    }
    peer_take(&peer);
    CHECK(got + peer.got_bytes > 64u << 20);
    CHECK_MSG(p.held_max <= 3 * WEIR_EXCHANGE_HIGH_BYTES, "%zu", p.held_max);
    peer_close(&peer);
    free(p.piece);
}

static void drained_finish(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    weir_exchange_finish(x);
}

static void drained_abort(struct rig *rig, struct weir_exchange *x)
{
    rig_abort(rig, x);
}

static void drained__handler_ends_inside__is_fine(void **state)
{
    struct rig *rig = *state;
    size_t bytes = 8u << 20;
    char *text = calloc(1, bytes);
    for (int i = 0; i < 2; i++) {
        struct peer peer;
        rig->request = request_begin;
        rig->drained = i ? drained_abort : drained_finish;
        peer_connect(&peer, rig);
        peer_say(&peer, GET);
        weir_exchange_write(rig->x, text, bytes);
        rig_settle(rig);
        CHECK_DIARY(rig, "head request:0");
        peer_hear(&peer);
        CHECK_DIARY(rig, i ? "drained" : "drained done");
        CHECK_INT(peer.eof, i);
        peer_close(&peer);
    }
    free(text);
}

static void reader__takes_nothing_for_the_stall_time__is_gone(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    size_t bytes = 16u << 20;
    char *text = calloc(1, bytes);
    for (int finished = 0; finished < 2; finished++) {
        rig->request = request_begin;
        peer_connect(&peer, rig);
        peer_say(&peer, GET);
        weir_exchange_write(rig->x, text, bytes);
        if (finished)
            weir_exchange_finish(rig->x);
        rig_settle(rig);
        /* A reader that takes some now and then is slow, not gone. */
        for (int i = 0; i < 5; i++) {
            rig_wait(rig, rig->limits.stall_ns - WEIR_NS_PER_S);
            CHECK(recv(peer.fd, text, 100000, MSG_DONTWAIT) > 0);
            rig_settle(rig);
        }
        for (int i = 0; i < 59; i++)
            rig_wait(rig, WEIR_NS_PER_S);
        CHECK_DIARY(rig, "head request:0");
        for (int i = 0; i < 35; i++) /* looks come a quarter apart */
            rig_wait(rig, WEIR_NS_PER_S);
        CHECK_DIARY(rig, "gone:stalled");
        peer_hear(&peer);
        CHECK(peer.reset);
        peer_close(&peer);
    }
    struct weir_server_view view;
    weir_server_view(rig->server, &view);
    CHECK_INT(view.gone_stalled, 2);
    free(text);
}

static void stream__waits_for_its_upstream__has_no_deadline(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->request = request_begin;
    peer_connect(&peer, rig);
    peer_say(&peer, GET);
    rig_wait(rig, 3600 * WEIR_NS_PER_S);
    CHECK_DIARY(rig, "head request:0");
    weir_exchange_finish(rig->x);
    CHECK_HEARS(&peer, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                       "4\r\npart\r\n0\r\n\r\n");
    CHECK_DIARY(rig, "done");
    peer_close(&peer);
}

/* --- answers at odd times --- */

static void answer__while_the_body_still_comes__ends_the_exchange(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "content-length: 5\r\n\r\nhel");
    weir_exchange_respond(rig->x, 503, NULL, WEIR_SLICE(""), WEIR_SLICE(""));
    peer_say(&peer, "lo");
    CHECK_HEARS(&peer, BARE("503 Service Unavailable"));
    CHECK_DIARY(rig, "head done");
    CHECK(peer.eof);
    peer_close(&peer);
}

static enum weir_head_verdict head_later(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    (void)x;
    return WEIR_HEAD_ANSWERED;
}

static void head_says_answered__answer_comes_later__request_does_not_follow(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->head = head_later;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "content-length: 5\r\n\r\nhello");
    CHECK_DIARY(rig, "head");
    weir_exchange_respond(rig->x, 403, NULL, WEIR_SLICE(""), WEIR_SLICE(""));
    CHECK_HEARS(&peer, "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    CHECK_DIARY(rig, "done");
    peer_close(&peer);
}

struct late {
    struct weir_hook hook;
    struct rig *rig;
};

static void late_answer(struct weir_hook *hook)
{
    struct late *late = (struct late *)(void *)hook;
    if (late->rig->x)
        weir_exchange_finish(late->rig->x);
}

static void answer__in_a_hook_behind_the_servers__does_not_wait_for_an_event(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    struct late late = {{late_answer, NULL}, rig};
    weir_loop_at_turn_end(rig->loop, &late.hook);
    rig->request = request_begin;
    peer_connect(&peer, rig);
    CHECK(peer_send(&peer, GET, sizeof GET - 1));
    CHECK_INT(weir_loop_turn(rig->loop, 0), 0);
    CHECK_DIARY(rig, "head request:0");
    CHECK_INT(weir_loop_turn(rig->loop, WEIR_NEVER_NS), 0); /* would hang the test */
    CHECK_DIARY(rig, "done");
    weir_loop_hook_remove(rig->loop, &late.hook);
    peer_close(&peer);
}

/* --- caps --- */

static void connections__over_the_cap__are_told_in_their_dialect_then_dropped(void **state)
{
    struct rig *rig = *state;
    struct peer peers[30];
    rig->limits.connections = 4;
    rig_listen(rig);
    for (size_t i = 0; i < WEIR_COUNT(peers); i++)
        peer_connect(&peers[i], rig);
    CHECK_INT(weir_server_connections(rig->server), 4 + 16); /* 16 to be refused politely */
    struct weir_server_view view;
    weir_server_view(rig->server, &view);
    CHECK_INT(view.dropped, 10);
    CHECK(strstr(rig->log, "all 4 connections"));
    for (size_t i = 0; i < WEIR_COUNT(peers); i++) {
        peer_say(&peers[i], GET);
        CHECK_HEARS(&peers[i], i < 4 ? EMPTY_OK : i < 20 ? BARE("503 Service Unavailable") : "");
        CHECK_DIARY(rig, i < 4 ? "head request:0 done" : i < 20 ? "fault:CONNECTIONS" : "");
        CHECK_INT(peers[i].eof || peers[i].reset, i >= 4);
    }
    for (size_t i = 0; i < WEIR_COUNT(peers); i++)
        peer_close(&peers[i]);
    CHECK_INT(weir_server_connections(rig->server), 0);
    struct peer again;
    peer_connect(&again, rig);
    peer_say(&again, GET);
    CHECK_HEARS(&again, EMPTY_OK);
    peer_close(&again);
    rig_diary(rig);
}

static void connections__of_one_address__are_capped(void **state)
{
    struct rig *rig = *state;
    struct peer peers[3 + 16 + 2];
    rig->limits.address_connections = 3;
    rig_listen(rig);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < WEIR_COUNT(peers); i++)
            peer_connect(&peers[i], rig);
        for (size_t i = 0; i < WEIR_COUNT(peers); i++) {
            peer_say(&peers[i], GET);
            CHECK_HEARS(&peers[i], i < 3 ? EMPTY_OK : i < 19 ? BARE("429 Too Many Requests") : "");
            CHECK_DIARY(rig, i < 3    ? "head request:0 done"
                             : i < 19 ? "fault:ADDRESS_CONNECTIONS"
                                      : "");
        }
        for (size_t i = 0; i < WEIR_COUNT(peers); i++)
            peer_close(&peers[i]);
        CHECK_INT(weir_server_connections(rig->server), 0);
    }
}

/* --- the end --- */

static void linger__client_never_closes__ends_after_its_time(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    peer_connect(&peer, rig);
    peer_say(&peer, "BAD\r\n\r\n");
    CHECK_HEARS(&peer, BARE("400 Bad Request"));
    CHECK(peer.eof);
    CHECK_INT(weir_server_connections(rig->server), 1);
    peer_say(&peer, "and it goes on");
    rig_wait(rig, 10 * WEIR_NS_PER_S - 2 * WEIR_NS_PER_MS);
    CHECK_INT(weir_server_connections(rig->server), 1);
    rig_wait(rig, 4 * WEIR_NS_PER_MS);
    CHECK_INT(weir_server_connections(rig->server), 0);
    peer_close(&peer);
    CHECK_DIARY(rig, "fault:BAD_HEAD:START_LINE");
}

static void drain__idle_ones_close_and_running_ones_end_with_close(void **state)
{
    struct rig *rig = *state;
    struct peer idle, running, half, fresh;
    peer_connect(&idle, rig);
    peer_say(&idle, GET);
    peer_hear(&idle);
    peer_connect(&half, rig);
    peer_say(&half, "GET / HTTP/1.1\r\n");
    peer_connect(&running, rig);
    rig->request = request_hold;
    peer_say(&running, GET);
    weir_server_drain(rig->server);
    CHECK_HEARS(&idle, EMPTY_OK);
    CHECK(idle.eof);
    CHECK_INT(weir_server_connections(rig->server), 2);
    rig_echo(rig, rig->x);
    CHECK_HEARS(&running, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncontent-type: "
                          "text/plain\r\nconnection: close\r\n\r\n");
    CHECK(running.eof);
    rig->request = NULL;
    peer_say(&half, "host: h\r\n\r\n");
    CHECK(strstr(peer_hear(&half), "connection: close"));
    CHECK_INT(weir_server_connections(rig->server), 0);
    fresh.fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(weir_server_port(rig->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_INT(connect(fresh.fd, (struct sockaddr *)&to, sizeof to), -1);
    CHECK_INT(errno, ECONNREFUSED);
    close(fresh.fd);
    peer_close(&idle);
    peer_close(&half);
    peer_close(&running);
    rig_diary(rig);
}

static void destroy__with_connections_in_every_phase__tells_nobody(void **state)
{
    struct rig *rig = *state;
    struct peer peers[WEIR_COUNT(phases)];
    for (size_t i = 0; i < WEIR_COUNT(phases); i++) {
        rig->request = phases[i].request;
        peer_connect(&peers[i], rig);
        peer_say(&peers[i], phases[i].sent);
    }
    uint64_t ends = rig->ends;
    weir_server_destroy(rig->server);
    rig->server = NULL;
    CHECK_INT(rig->ends, ends);
    for (size_t i = 0; i < WEIR_COUNT(phases); i++) {
        close(peers[i].fd);
        free(peers[i].got);
    }
    rig->ends = rig->heads;
}

static void listen__bad_or_taken_address__says_what_to_do(void **state)
{
    struct rig *rig = *state;
    char taken[32], why[256];
    snprintf(taken, sizeof taken, "127.0.0.1:%u", weir_server_port(rig->server));
    const struct {
        const char *address, *says;
    } rows[] = {
        {taken, "choose another port"},
        {"203.0.113.1:0", "address of this machine"},
        {"8765", "127.0.0.1:8765"},
        {":8765", "127.0.0.1:8765"},
        {"127.0.0.1:99999", "127.0.0.1:8765"},
        {"127.0.0.1:80x", "127.0.0.1:8765"},
        {"::1:80", "[::1]:8765"},
        {"[127.0.0.1]:80", "[::1]:8765"},
        {"[::1:80", "[::1]:8765"},
    };
    struct weir_server_handler handler = {0};
    handler.head = (enum weir_head_verdict(*)(void *, struct weir_exchange *))(void *)abort;
    handler.request = (void (*)(void *, struct weir_exchange *))(void *)abort;
    handler.done = (void (*)(void *, struct weir_exchange *))(void *)abort;
    handler.gone = (void (*)(void *, struct weir_exchange *, enum weir_gone))(void *)abort;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        CHECK(!weir_server_listen(rig->loop, rows[i].address, NULL, &rig->limits, &handler, why,
                                  sizeof why));
        CHECK_MSG(strstr(why, rows[i].says), "%s", why);
        CHECK_MSG(strstr(why, rows[i].address), "%s", why);
    }
    static const char *const good[] = {"[::1]:0", "localhost:0", "[::]:0", "0.0.0.0:0"};
    for (size_t i = 0; i < WEIR_COUNT(good); i++) {
        struct weir_server *server =
            weir_server_listen(rig->loop, good[i], NULL, &rig->limits, &handler, why, sizeof why);
        CHECK_MSG(server, "%s", why);
        CHECK(weir_server_port(server) != 0);
        weir_server_destroy(server);
    }
}

static void waiting_request__owns_its_head_and_body_and_little_else(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    rig->request = request_hold;
    peer_connect(&peer, rig);
    peer_say(&peer, POST "authorization: Bearer x\r\naccept: */*\r\naccept-encoding: gzip\r\n"
                         "user-agent: OpenAI/Python 1.2.3\r\nx-stainless-lang: python\r\n"
                         "x-stainless-os: Linux\r\nx-stainless-retry-count: 0\r\n"
                         "content-type: application/json\r\ncontent-length: 5\r\n\r\nhello");
    const struct weir_exchange *x = rig->x;
    size_t parsed_bytes = (size_t)(x->head->base - (const char *)x->head);
    CHECK_INT(x->in.room, 0);
    CHECK_INT(x->out.room, 0);
    CHECK_INT(x->head->header_count, 10);
    CHECK_MSG(sizeof *x + parsed_bytes < 1024, "%zu + %zu", sizeof *x, parsed_bytes);
    CHECK(x->head_block.room <= 1024);
    CHECK(x->body.room <= 512);
    rig_echo(rig, rig->x);
    peer_hear(&peer);
    CHECK_INT(x->head_block.room + x->body.room + x->out.room + x->in.room, 0);
    peer_close(&peer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_QUIET(name) cmocka_unit_test_setup_teardown(name, setup_quiet, teardown)
    const struct CMUnitTest tests[] = {
        TEST(client_hangs_up__in_any_phase_and_way__handler_knows_in_that_turn),
        TEST(client_hangs_up__with_a_last_request_unread__is_gone_all_the_same),
        TEST(gone__handler_answers_all_the_same__harmless),
        TEST(abort__in_any_state__is_an_end_no_client_takes_for_a_proper_one),
        TEST(abort__while_output_is_stuck__sends_it_first),
        TEST(head__a_byte_a_second__ends_at_the_deadline),
        TEST(connection__silent__is_closed_without_a_word),
        TEST(head_of_a_second_request__has_the_whole_deadline_again),
        TEST(body__at_the_minimum_rate__is_taken_and_below_it_is_slow),
        TEST(body__fast_then_silent__has_one_grace_and_no_more),
        TEST(body__owns_at_most_twice_what_has_come),
        TEST(slow_reader__of_64_mib__holds_a_bounded_buffer),
        TEST(drained__handler_ends_inside__is_fine),
        TEST(reader__takes_nothing_for_the_stall_time__is_gone),
        TEST(stream__waits_for_its_upstream__has_no_deadline),
        TEST(answer__while_the_body_still_comes__ends_the_exchange),
        TEST(head_says_answered__answer_comes_later__request_does_not_follow),
        TEST(answer__in_a_hook_behind_the_servers__does_not_wait_for_an_event),
        TEST_QUIET(connections__over_the_cap__are_told_in_their_dialect_then_dropped),
        TEST_QUIET(connections__of_one_address__are_capped),
        TEST(linger__client_never_closes__ends_after_its_time),
        TEST(drain__idle_ones_close_and_running_ones_end_with_close),
        TEST(destroy__with_connections_in_every_phase__tells_nobody),
        TEST(listen__bad_or_taken_address__says_what_to_do),
        TEST(waiting_request__owns_its_head_and_body_and_little_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

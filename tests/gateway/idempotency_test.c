/* The store of idempotency keys: every state and every way between them, bounds, time; and how a
 * key is read and digested. */
#include "gateway/idempotency.h"
#include "gateway/idempotency_key.h"
#include "support/check.h"

#include <stdlib.h>

#define KEEP_NS (24 * 3600 * WEIR_NS_PER_S)

static const struct weir_idempotency_limits small = {
    .owners_max = 3, .keys_max = 4, .answer_bytes = 100, .answers_bytes = 250, .keep_ns = KEEP_NS};

static struct weir_idempotency *open_with(const struct weir_idempotency_limits *limits)
{
    struct weir_idempotency *s = weir_idempotency_create(limits);
    CHECK(s != NULL);
    return s;
}

static void audit(const struct weir_idempotency *s)
{
    const char *wrong = weir_idempotency_audit(s);
    CHECK_MSG(wrong == NULL, "%s", wrong);
}

static struct weir_idempotency_id id_of(uint32_t key, uint32_t request)
{
    struct weir_idempotency_id id = {0};
    memcpy(id.key, &key, sizeof key);
    memcpy(id.request, &request, sizeof request);
    return id;
}

static struct weir_idempotency_found found;

static uint32_t owner; /* of the keys that begin enters */

static enum weir_idempotency_outcome begin(struct weir_idempotency *s, uint32_t key,
                                           uint32_t request, uint64_t now_ns)
{
    struct weir_idempotency_id id = id_of(key, request);
    enum weir_idempotency_outcome outcome = weir_idempotency_begin(s, owner, &id, now_ns, &found);
    audit(s);
    return outcome;
}

static uint32_t begin_new(struct weir_idempotency *s, uint32_t key, uint64_t now_ns)
{
    CHECK_INT(begin(s, key, key, now_ns), WEIR_IDEMPOTENCY_NEW);
    return found.slot;
}

/* A whole answer whose body is so many of one letter. */
static void answer(struct weir_idempotency *s, uint32_t slot, char letter, size_t bytes,
                   uint64_t now_ns)
{
    weir_idempotency_record(s, slot, 200, WEIR_SLICE("OK"), WEIR_SLICE("a: b\r\n"), true, 0);
    for (size_t i = 0; i < bytes; i++)
        weir_idempotency_append(s, slot, &letter, 1);
    audit(s);
    weir_idempotency_keep(s, slot, now_ns);
    audit(s);
}

static void assert_replays(struct weir_idempotency *s, uint32_t key, char letter, size_t bytes,
                           uint64_t now_ns)
{
    struct weir_idempotency_answer a;
    CHECK_INT(begin(s, key, key, now_ns), WEIR_IDEMPOTENCY_REPLAY);
    uint32_t slot = found.slot;
    weir_idempotency_borrow(s, slot, &a);
    audit(s);
    CHECK_INT(a.status, 200);
    CHECK(a.is_chunked);
    CHECK_MEM(a.reason.at, a.reason.bytes, "OK", 2);
    CHECK_MEM(a.headers.at, a.headers.bytes, "a: b\r\n", 6);
    CHECK_INT(a.body.bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        CHECK(a.body.at[i] == letter);
    weir_idempotency_give_back(s, slot);
    audit(s);
}

static void assert_lost(struct weir_idempotency *s, uint32_t key, enum weir_idempotency_loss loss,
                        uint64_t now_ns)
{
    CHECK_INT(begin(s, key, key, now_ns), WEIR_IDEMPOTENCY_LOST);
    CHECK_INT(found.loss, loss);
}

/* ---- states ---- */

static void key__first_use_is_new_and_a_repeat_meanwhile_is_told_its_age(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    struct weir_idempotency_view view;
    uint32_t slot = begin_new(s, 1, 1000);
    const struct weir_idempotency_id want = id_of(1, 1);
    CHECK(memcmp(weir_idempotency_id(s, slot), &want, sizeof want) == 0);
    CHECK_INT(begin(s, 1, 1, 1000), WEIR_IDEMPOTENCY_RUNNING);
    CHECK_INT(found.age_ns, 0);
    CHECK_INT(begin(s, 1, 1, 5000), WEIR_IDEMPOTENCY_RUNNING);
    CHECK_INT(found.age_ns, 4000);
    CHECK_INT(begin(s, 1, 1, 10 * KEEP_NS), WEIR_IDEMPOTENCY_RUNNING); /* however long it takes */
    weir_idempotency_tick(s, 10 * KEEP_NS);
    CHECK_INT(begin(s, 1, 1, 10 * KEEP_NS), WEIR_IDEMPOTENCY_RUNNING);
    weir_idempotency_view(s, &view);
    CHECK_INT(view.keys_now, 1);
    CHECK_INT(view.running_now, 1);
    weir_idempotency_destroy(s);
}

static void key__other_request__is_a_mismatch_in_every_state(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    uint32_t slot = begin_new(s, 1, 0);
    CHECK_INT(begin(s, 1, 2, 0), WEIR_IDEMPOTENCY_MISMATCH);
    answer(s, slot, 'x', 3, 0);
    CHECK_INT(begin(s, 1, 2, 0), WEIR_IDEMPOTENCY_MISMATCH);
    weir_idempotency_lose(s, begin_new(s, 3, 0), WEIR_IDEMPOTENCY_CUT, 0);
    CHECK_INT(begin(s, 3, 2, 0), WEIR_IDEMPOTENCY_MISMATCH);
    assert_replays(s, 1, 'x', 3, 0);
    weir_idempotency_destroy(s);
}

static void key__keys_that_share_a_bucket__are_kept_apart(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    /* Four keys equal in the bits that choose the bucket, removed from the middle of its chain. */
    const uint32_t keys[] = {7, 7 + (1u << 16), 7 + (2u << 16), 7 + (3u << 16)};
    uint32_t slots[4];
    for (int i = 0; i < 4; i++)
        slots[i] = begin_new(s, keys[i], 0);
    weir_idempotency_forget(s, slots[1]);
    audit(s);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            CHECK_INT(begin(s, keys[i], keys[i], 0), WEIR_IDEMPOTENCY_RUNNING);
    CHECK_INT(begin(s, keys[1], keys[1], 0), WEIR_IDEMPOTENCY_NEW);
    weir_idempotency_destroy(s);
}

static void key__forgotten__may_come_anew_also_with_another_request(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    struct weir_idempotency_view view;
    uint32_t slot = begin_new(s, 1, 0);
    weir_idempotency_record(s, slot, 200, WEIR_SLICE("OK"), WEIR_SLICE(""), false, 50);
    weir_idempotency_forget(s, slot);
    audit(s);
    weir_idempotency_view(s, &view);
    CHECK_INT(view.answers_bytes_now, 0);
    CHECK_INT(view.keys_now, 0);
    CHECK_INT(begin(s, 1, 2, 0), WEIR_IDEMPOTENCY_NEW);
    weir_idempotency_destroy(s);
}

static void key__answer_kept__is_replayed_as_often_as_asked(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    answer(s, begin_new(s, 1, 0), 'x', 90, 0);
    for (int i = 0; i < 3; i++)
        assert_replays(s, 1, 'x', 90, 5);
    answer(s, begin_new(s, 2, 0), 'y', 0, 0); /* an empty body is an answer too */
    assert_replays(s, 2, 'y', 0, 5);
    weir_idempotency_destroy(s);
}

static void key__lost__says_why(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    const enum weir_idempotency_loss losses[] = {WEIR_IDEMPOTENCY_CLIENT_GONE, WEIR_IDEMPOTENCY_CUT,
                                                 WEIR_IDEMPOTENCY_NO_ANSWER,
                                                 WEIR_IDEMPOTENCY_ERROR};
    for (uint32_t i = 0; i < WEIR_COUNT(losses); i++) {
        uint32_t slot = begin_new(s, i, 0);
        weir_idempotency_record(s, slot, 200, WEIR_SLICE("OK"), WEIR_SLICE(""), true, 0);
        weir_idempotency_append(s, slot, "half", 4);
        weir_idempotency_lose(s, slot, losses[i], 0);
        assert_lost(s, i, losses[i], 0);
    }
    struct weir_idempotency_view view;
    weir_idempotency_view(s, &view);
    CHECK_INT(view.answers_bytes_now, 0);
    /* Kept without ever having been recorded. */
    weir_idempotency_keep(s, begin_new(s, 9, 0), 0);
    assert_lost(s, 9, WEIR_IDEMPOTENCY_NO_ANSWER, 0);
    weir_idempotency_destroy(s);
}

/* ---- bounds ---- */

static void answer__at_the_bound_is_kept_and_a_byte_more_is_lost(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    const size_t head = 2 + 6;
    answer(s, begin_new(s, 1, 0), 'x', 100 - head, 0);
    assert_replays(s, 1, 'x', 100 - head, 0);
    uint32_t slot = begin_new(s, 2, 0);
    weir_idempotency_record(s, slot, 200, WEIR_SLICE("OK"), WEIR_SLICE("a: b\r\n"), true, 0);
    for (size_t i = 0; i < 100 - head; i++)
        weir_idempotency_append(s, slot, "x", 1);
    CHECK(weir_idempotency_is_recording(s, slot));
    weir_idempotency_append(s, slot, "x", 1);
    CHECK(!weir_idempotency_is_recording(s, slot));
    weir_idempotency_append(s, slot, "x", 1); /* the rest passes by */
    audit(s);
    weir_idempotency_keep(s, slot, 0);
    assert_lost(s, 2, WEIR_IDEMPOTENCY_TOO_LARGE, 0);
    assert_replays(s, 1, 'x', 100 - head, 0); /* it cost no other answer */
    weir_idempotency_destroy(s);
}

static void answer__known_to_be_too_large__is_not_begun(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    const uint64_t lengths[] = {99, UINT64_MAX - 1, 101};
    const char *const headers[] = {"ab", "ab", ""};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t slot = begin_new(s, i, 0);
        weir_idempotency_record(s, slot, 200, WEIR_SLICE(""), weir_slice_of(headers[i]), false,
                                lengths[i]);
        CHECK(!weir_idempotency_is_recording(s, slot));
        audit(s);
        weir_idempotency_keep(s, slot, 0);
        assert_lost(s, i, WEIR_IDEMPOTENCY_TOO_LARGE, 0);
    }
    weir_idempotency_destroy(s);
}

static void answer__no_room_in_all__the_oldest_makes_it_and_its_key_stays(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    struct weir_idempotency_view view;
    for (uint32_t i = 1; i <= 3; i++)
        answer(s, begin_new(s, i, 0), (char)('a' + i), 80, 0);
    assert_lost(s, 1, WEIR_IDEMPOTENCY_NO_ROOM, 0);
    assert_replays(s, 2, 'c', 80, 0);
    assert_replays(s, 3, 'd', 80, 0);
    weir_idempotency_view(s, &view);
    CHECK_INT(view.answers_pushed_out, 1);
    CHECK_INT(view.keys_now, 3);
    /* Used of late: it stays, the other goes. */
    assert_replays(s, 2, 'c', 80, 0);
    answer(s, begin_new(s, 4, 0), 'e', 80, 0);
    assert_lost(s, 3, WEIR_IDEMPOTENCY_NO_ROOM, 0);
    assert_replays(s, 2, 'c', 80, 0);
    weir_idempotency_destroy(s);
}

static void answer__borrowed__is_not_dropped_and_a_new_one_goes_without(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    struct weir_idempotency_answer a[3];
    uint32_t slots[2];
    for (uint32_t i = 0; i < 2; i++) {
        answer(s, begin_new(s, i, 0), 'x', 90, 0);
        CHECK_INT(begin(s, i, i, 0), WEIR_IDEMPOTENCY_REPLAY);
        slots[i] = found.slot;
        weir_idempotency_borrow(s, slots[i], &a[i]);
    }
    weir_idempotency_borrow(s, slots[0], &a[2]); /* by two at once */
    answer(s, begin_new(s, 2, 0), 'y', 90, 0);
    assert_lost(s, 2, WEIR_IDEMPOTENCY_NO_ROOM, 0);
    weir_idempotency_give_back(s, slots[0]);
    answer(s, begin_new(s, 3, 0), 'y', 90, 0);
    assert_lost(s, 3, WEIR_IDEMPOTENCY_NO_ROOM, 0);
    CHECK(a[2].body.bytes == 90 && a[2].body.at[89] == 'x');
    /* Time passes for it only once nobody reads it, and new keys do not push it out. */
    weir_idempotency_tick(s, 2 * KEEP_NS);
    audit(s);
    CHECK_INT(begin(s, 0, 0, 2 * KEEP_NS), WEIR_IDEMPOTENCY_REPLAY);
    weir_idempotency_give_back(s, slots[0]);
    weir_idempotency_give_back(s, slots[1]);
    audit(s);
    CHECK_INT(begin(s, 0, 0, 2 * KEEP_NS), WEIR_IDEMPOTENCY_NEW);
    weir_idempotency_destroy(s);
}

static void recordings__count_too__those_that_find_no_room_are_dropped(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    uint32_t slots[3];
    for (uint32_t i = 0; i < 3; i++) {
        slots[i] = begin_new(s, i, 0);
        weir_idempotency_record(s, slots[i], 200, WEIR_SLICE(""), WEIR_SLICE(""), false, 100);
        audit(s);
    }
    CHECK(weir_idempotency_is_recording(s, slots[1]));
    CHECK(!weir_idempotency_is_recording(s, slots[2]));
    weir_idempotency_keep(s, slots[2], 0);
    assert_lost(s, 2, WEIR_IDEMPOTENCY_NO_ROOM, 0);
    weir_idempotency_keep(s, slots[0], 0); /* it takes the room of what came, which is nothing */
    weir_idempotency_keep(s, slots[1], 0);
    struct weir_idempotency_view view;
    weir_idempotency_view(s, &view);
    CHECK_INT(view.answers_bytes_now, 0);
    weir_idempotency_destroy(s);
}

static void record__again__drops_what_was_recorded(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    uint32_t slot = begin_new(s, 1, 0);
    weir_idempotency_record(s, slot, 500, WEIR_SLICE("No"), WEIR_SLICE("z: z\r\n"), true, 0);
    weir_idempotency_append(s, slot, "zzz", 3);
    answer(s, slot, 'x', 3, 0);
    assert_replays(s, 1, 'x', 3, 0);
    weir_idempotency_destroy(s);
}

static void keys__full__the_oldest_that_ended_is_forgotten_never_one_under_way(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    struct weir_idempotency_view view;
    uint32_t first = begin_new(s, 1, 0);
    answer(s, begin_new(s, 2, 0), 'x', 1, 0);
    weir_idempotency_lose(s, begin_new(s, 3, 0), WEIR_IDEMPOTENCY_CUT, 0);
    answer(s, first, 'x', 1, 0); /* began first, ended last */
    (void)begin_new(s, 4, 0);
    (void)begin_new(s, 5, 0); /* in the place of 2 */
    assert_lost(s, 3, WEIR_IDEMPOTENCY_CUT, 0);
    assert_replays(s, 1, 'x', 1, 0);
    (void)begin_new(s, 6, 0);
    (void)begin_new(s, 7, 0);
    CHECK_INT(begin(s, 8, 8, 0), WEIR_IDEMPOTENCY_FULL);
    CHECK_INT(begin(s, 4, 4, 0), WEIR_IDEMPOTENCY_RUNNING);
    weir_idempotency_view(s, &view);
    CHECK_INT(view.keys_pushed_out, 3);
    CHECK_INT(view.keys_now, 4);
    CHECK_INT(view.running_now, 4);
    weir_idempotency_destroy(s);
}

static void keys__one_owner_has_most__its_own_make_room(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    answer(s, begin_new(s, 1, 0), 'x', 1, 0); /* the quiet one, and the oldest of all */
    owner = 1;
    for (uint32_t i = 10; i < 30; i++)
        answer(s, begin_new(s, i, 0), 'x', 1, 0);
    assert_replays(s, 1, 'x', 1, 0);
    assert_replays(s, 29, 'x', 1, 0);
    assert_replays(s, 27, 'x', 1, 0);
    CHECK_INT(begin(s, 26, 26, 0), WEIR_IDEMPOTENCY_NEW);
    owner = 0;
    weir_idempotency_destroy(s);
}

static void answers__one_owner_has_most__its_own_make_room(void **state)
{
    (void)state;
    struct weir_idempotency_limits limits = small;
    limits.keys_max = 100;
    struct weir_idempotency *s = open_with(&limits);
    answer(s, begin_new(s, 1, 0), 'x', 60, 0);
    owner = 1;
    for (uint32_t i = 10; i < 20; i++)
        answer(s, begin_new(s, i, 0), 'y', 70, 0);
    assert_replays(s, 1, 'x', 60, 0);
    assert_replays(s, 19, 'y', 70, 0);
    assert_lost(s, 10, WEIR_IDEMPOTENCY_NO_ROOM, 0);
    owner = 0;
    weir_idempotency_destroy(s);
}

/* ---- time ---- */

static void key__is_remembered_for_keep_after_its_end_and_not_longer(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    const uint64_t end_ns = 500;
    answer(s, begin_new(s, 1, 0), 'x', 3, end_ns);
    weir_idempotency_lose(s, begin_new(s, 2, 0), WEIR_IDEMPOTENCY_CUT, end_ns);
    weir_idempotency_tick(s, end_ns + KEEP_NS - 1);
    assert_replays(s, 1, 'x', 3, end_ns + KEEP_NS - 1);
    assert_lost(s, 2, WEIR_IDEMPOTENCY_CUT, end_ns + KEEP_NS - 1);
    CHECK_INT(begin(s, 1, 1, end_ns + KEEP_NS), WEIR_IDEMPOTENCY_NEW); /* without a tick */
    weir_idempotency_tick(s, end_ns + KEEP_NS);
    audit(s);
    struct weir_idempotency_view view;
    weir_idempotency_view(s, &view);
    CHECK_INT(view.keys_now, 1);
    CHECK_INT(view.running_now, 1);
    CHECK_INT(view.answers_bytes_now, 0);
    CHECK_INT(view.keys_pushed_out, 0);
    weir_idempotency_destroy(s);
}

static void key__of_an_earlier_run__is_lost_until_its_own_time_is_over(void **state)
{
    (void)state;
    struct weir_idempotency_limits limits = small;
    limits.keep_ns = 100 * WEIR_NS_PER_S;
    static const struct {
        int64_t created_s, unix_s;
        uint64_t left_s; /* 0: over */
    } rows[] = {
        {1000, 1000, 100},         {1000, 1001, 99},
        {1000, 1099, 1},           {1000, 1100, 0},
        {1000, 2000, 0},           {1000, 900, 100}, /* the clock was set back */
        {INT64_MIN, INT64_MAX, 0}, {INT64_MAX, INT64_MIN, 100},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_idempotency *s = open_with(&limits);
        const struct weir_idempotency_id id = id_of(1, 1);
        const uint64_t now_ns = 7, end_ns = now_ns + rows[i].left_s * WEIR_NS_PER_S;
        weir_idempotency_load(s, &id, rows[i].created_s, rows[i].unix_s, now_ns);
        weir_idempotency_load(s, &id, 1, 1, now_ns); /* twice in the file: the first counts */
        if (rows[i].left_s > 0) {
            assert_lost(s, 1, WEIR_IDEMPOTENCY_RESTART, end_ns - 1);
            CHECK_INT(found.created_s, rows[i].created_s);
            CHECK_INT(begin(s, 1, 2, end_ns - 1), WEIR_IDEMPOTENCY_MISMATCH);
            CHECK_INT(begin(s, 1, 1, end_ns), WEIR_IDEMPOTENCY_NEW);
        } else {
            assert_lost(s, 1, WEIR_IDEMPOTENCY_RESTART, now_ns);
            CHECK_INT(found.created_s, 1); /* only the second was entered */
        }
        weir_idempotency_destroy(s);
    }
}

static void keys__of_earlier_runs_are_too_many__the_newest_are_known(void **state)
{
    (void)state;
    struct weir_idempotency *s = open_with(&small);
    (void)begin_new(s, 1, 0);
    for (uint32_t i = 10; i < 20; i++) {
        const struct weir_idempotency_id id = id_of(i, i);
        weir_idempotency_load(s, &id, i, 50, 0);
        audit(s);
    }
    for (uint32_t i = 17; i < 20; i++)
        assert_lost(s, i, WEIR_IDEMPOTENCY_RESTART, 0);
    CHECK_INT(begin(s, 1, 1, 0), WEIR_IDEMPOTENCY_RUNNING);
    CHECK_INT(begin(s, 16, 16, 0), WEIR_IDEMPOTENCY_NEW);
    weir_idempotency_destroy(s);
}

/* Random steps against the audit: whatever the order, the books are right. */
static void store__any_order_of_steps__keeps_its_books(void **state)
{
    (void)state;
    const struct weir_idempotency_limits limits = {.owners_max = 3,
                                                   .keys_max = 16,
                                                   .answer_bytes = 6000,
                                                   .answers_bytes = 20000,
                                                   .keep_ns = 1000};
    struct weir_idempotency *s = open_with(&limits);
    uint32_t running[16], running_now = 0, borrowed[8], borrowed_now = 0;
    uint64_t now_ns = 0;
    unsigned seen[WEIR_IDEMPOTENCY_OUTCOME_COUNT] = {0};
    srand(1);
    for (int step = 0; step < 40000; step++) {
        uint32_t pick = (uint32_t)rand();
        now_ns += pick % 20;
        switch (pick / 32 % 8) {
        case 0:
        case 1:
        case 2: {
            struct weir_idempotency_id id = id_of(pick / 256 % 24, pick / 8192 % 8 == 0);
            enum weir_idempotency_outcome outcome =
                weir_idempotency_begin(s, pick / 65536 % 3, &id, now_ns, &found);
            seen[outcome]++;
            if (outcome == WEIR_IDEMPOTENCY_NEW)
                running[running_now++] = found.slot;
            if (outcome == WEIR_IDEMPOTENCY_REPLAY && borrowed_now < 8) {
                struct weir_idempotency_answer a;
                weir_idempotency_borrow(s, found.slot, &a);
                borrowed[borrowed_now++] = found.slot;
            }
            break;
        }
        case 3:
            weir_idempotency_tick(s, now_ns);
            break;
        case 4:
            if (borrowed_now > 0)
                weir_idempotency_give_back(s, borrowed[--borrowed_now]);
            break;
        default:
            if (running_now == 0)
                break;
            uint32_t at = pick / 256 % running_now, slot = running[at], what = pick / 8192 % 10;
            static const char bytes[5000];
            if (what < 2)
                weir_idempotency_record(s, slot, 200, WEIR_SLICE("OK"), WEIR_SLICE(""), what == 0,
                                        what == 0 ? 0 : pick % 7000);
            else if (what < 6)
                weir_idempotency_append(s, slot, bytes, pick % sizeof bytes);
            else {
                if (what == 6)
                    weir_idempotency_forget(s, slot);
                else if (what == 7)
                    weir_idempotency_lose(s, slot, WEIR_IDEMPOTENCY_CUT, now_ns);
                else
                    weir_idempotency_keep(s, slot, now_ns);
                running[at] = running[--running_now];
            }
        }
        const char *wrong = weir_idempotency_audit(s);
        CHECK_MSG(wrong == NULL, "step %d: %s", step, wrong);
    }
    for (int i = 0; i < WEIR_IDEMPOTENCY_OUTCOME_COUNT; i++)
        CHECK_MSG(seen[i] > 0, "outcome %s never came",
                  weir_idempotency_outcome_name((enum weir_idempotency_outcome)i));
    weir_idempotency_destroy(s);
}

/* ---- the field ---- */

static struct weir_http_head head;

static void parse(const char *lines, const char *target)
{
    static char text[4096];
    size_t scanned = 0;
    int n = snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nhost: a\r\n%s\r\n", target, lines);
    CHECK_INT(weir_http_request_parse(text, (size_t)n, sizeof text, &scanned, &head),
              WEIR_HTTP_DONE);
}

static void field__string_or_bare__is_read_as_the_draft_says(void **state)
{
    (void)state;
    static const struct {
        const char *value, *key; /* key NULL: refused */
    } rows[] = {
        {"\"8e03978e-40d5\"", "8e03978e-40d5"},
        {"8e03978e-40d5", "8e03978e-40d5"},
        {"\"with space\"", "with space"},
        {"\"a\\\"b\\\\c\"", "a\"b\\c"},
        {"\"a,b;c\"", "a,b;c"},
        {"~!#$%&'*+-.^_`|:/=@?()<>[]{}", "~!#$%&'*+-.^_`|:/=@?()<>[]{}"},
        {"", NULL},
        {"\"\"", NULL},
        {"\"", NULL},
        {"\"open", NULL},
        {"\"bad\\escape\"", NULL},
        {"\"ends\\", NULL},
        {"\"a\" b", NULL},
        {"\"a\";p=1", NULL},
        {"a b", NULL},
        {"a,b", NULL},
        {"a;b", NULL},
        {"a\"b", NULL},
        {"a\\b", NULL},
        {"\"tab\there\"", NULL},
        {"caf\xc3\xa9", NULL},
        {"\"caf\xc3\xa9\"", NULL},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char line[200], key[WEIR_IDEMPOTENCY_KEY_BYTES_MAX];
        size_t bytes = 0;
        snprintf(line, sizeof line, "idempotency-key: %s\r\n", rows[i].value);
        parse(line, "/");
        const char *fault = weir_idempotency_key_read(&head, key, &bytes);
        CHECK_MSG(!fault == (rows[i].key != NULL), "%s: %s", rows[i].value, fault ? fault : "");
        if (rows[i].key)
            CHECK_MEM(key, bytes, rows[i].key, strlen(rows[i].key));
    }
}

static void field__length_is_bounded_in_both_forms(void **state)
{
    (void)state;
    for (size_t bytes = WEIR_IDEMPOTENCY_KEY_BYTES_MAX; bytes <= 256; bytes++)
        for (int quoted = 0; quoted < 3; quoted++) {
            char run[600] = "", line[700], key[WEIR_IDEMPOTENCY_KEY_BYTES_MAX];
            size_t got = 0;
            for (size_t i = 0; i < bytes; i++)
                strcat(run, quoted == 2 ? "\\\"" : "k");
            snprintf(line, sizeof line,
                     quoted ? "idempotency-key: \"%s\"\r\n" : "idempotency-key: %s\r\n", run);
            parse(line, "/");
            const char *fault = weir_idempotency_key_read(&head, key, &got);
            CHECK_MSG(!fault == (bytes == 255), "%zu, %d: %s", bytes, quoted, fault ? fault : "");
        }
}

static void field__given_twice__is_refused_even_if_equal(void **state)
{
    (void)state;
    char key[WEIR_IDEMPOTENCY_KEY_BYTES_MAX];
    size_t bytes;
    parse("idempotency-key: a\r\nIdempotency-Key: a\r\n", "/");
    CHECK(weir_idempotency_key_read(&head, key, &bytes) != NULL);
}

/* ---- digests ---- */

struct digest_row {
    const char *lines, *target, *key, *tenant, *body;
};

static struct weir_idempotency_id digest(const struct digest_row *row)
{
    static const uint8_t secret[WEIR_IDEMPOTENCY_SECRET_BYTES] = {1, 2, 3};
    struct weir_idempotency_id id;
    parse(row->lines, row->target);
    CHECK(weir_idempotency_key_digest(secret, &head, weir_slice_of(row->key), row->tenant,
                                      weir_slice_of(row->body), &id));
    return id;
}

static void digest__whose_it_is_and_the_key_make_one_half_the_request_the_other(void **state)
{
    (void)state;
    static const struct digest_row base = {"authorization: Bearer k\r\n", "/v1/x", "a", "t", "b"};
    static const struct {
        const char *name;
        struct digest_row row;
        bool same_key, same_request;
    } rows[] = {
        {"the same", {"authorization: Bearer k\r\n", "/v1/x", "a", "t", "b"}, true, true},
        {"a tenant's other credential", {"x-api-key: z\r\n", "/v1/x", "a", "t", "b"}, true, true},
        {"other key", {"", "/v1/x", "a2", "t", "b"}, false, true},
        {"other tenant", {"", "/v1/x", "a", "t2", "b"}, false, true},
        {"moved boundary", {"", "/v1/x", "ta", "", "b"}, false, true},
        {"other body", {"", "/v1/x", "a", "t", "b2"}, true, false},
        {"other path", {"", "/v1/y", "a", "t", "b"}, true, false},
        {"other query", {"", "/v1/x?q", "a", "t", "b"}, true, false},
        {"other coding", {"content-encoding: gzip\r\n", "/v1/x", "a", "t", "b"}, true, false},
    };
    struct weir_idempotency_id want = digest(&base);
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_idempotency_id got = digest(&rows[i].row);
        CHECK_MSG((memcmp(got.key, want.key, 16) == 0) == rows[i].same_key, "%s", rows[i].name);
        CHECK_MSG((memcmp(got.request, want.request, 16) == 0) == rows[i].same_request, "%s",
                  rows[i].name);
        CHECK(memcmp(got.key, got.request, 16) != 0);
    }
}

static void digest__passed_credentials__each_is_another_client(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "authorization: Bearer k\r\n",
                                        "authorization: Bearer l\r\n",
                                        "x-api-key: k\r\n",
                                        "api-key: k\r\n",
                                        "x-goog-api-key: k\r\n",
                                        "cookie: k\r\n",
                                        "cookie: l\r\n",
                                        "authorization: Bearer k\r\nx-api-key: k\r\n"};
    struct weir_idempotency_id ids[WEIR_COUNT(lines)];
    for (size_t i = 0; i < WEIR_COUNT(lines); i++) {
        ids[i] = digest(&(struct digest_row){lines[i], "/", "a", NULL, "b"});
        for (size_t j = 0; j < i; j++)
            CHECK_MSG(memcmp(ids[i].key, ids[j].key, 16) != 0, "%zu %zu", i, j);
    }
    /* Beside a credential a cookie says nothing: it may change from one repeat to the next. */
    struct weir_idempotency_id with = digest(
        &(struct digest_row){"authorization: Bearer k\r\ncookie: c\r\n", "/", "a", NULL, "b"});
    CHECK(memcmp(with.key, ids[1].key, 16) == 0);
}

static void digest__other_secret__tells_nothing(void **state)
{
    (void)state;
    uint8_t secret[WEIR_IDEMPOTENCY_SECRET_BYTES] = {0};
    struct weir_idempotency_id ids[2];
    parse("", "/");
    for (int i = 0; i < 2; i++) {
        secret[31] = (uint8_t)i;
        CHECK(weir_idempotency_key_digest(secret, &head, WEIR_SLICE("a"), "t", WEIR_SLICE("b"),
                                          &ids[i]));
    }
    CHECK(memcmp(ids[0].key, ids[1].key, 16) != 0);
    CHECK(memcmp(ids[0].request, ids[1].request, 16) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key__first_use_is_new_and_a_repeat_meanwhile_is_told_its_age),
        cmocka_unit_test(key__other_request__is_a_mismatch_in_every_state),
        cmocka_unit_test(key__keys_that_share_a_bucket__are_kept_apart),
        cmocka_unit_test(key__forgotten__may_come_anew_also_with_another_request),
        cmocka_unit_test(key__answer_kept__is_replayed_as_often_as_asked),
        cmocka_unit_test(key__lost__says_why),
        cmocka_unit_test(answer__at_the_bound_is_kept_and_a_byte_more_is_lost),
        cmocka_unit_test(answer__known_to_be_too_large__is_not_begun),
        cmocka_unit_test(answer__no_room_in_all__the_oldest_makes_it_and_its_key_stays),
        cmocka_unit_test(answer__borrowed__is_not_dropped_and_a_new_one_goes_without),
        cmocka_unit_test(recordings__count_too__those_that_find_no_room_are_dropped),
        cmocka_unit_test(record__again__drops_what_was_recorded),
        cmocka_unit_test(keys__full__the_oldest_that_ended_is_forgotten_never_one_under_way),
        cmocka_unit_test(keys__one_owner_has_most__its_own_make_room),
        cmocka_unit_test(answers__one_owner_has_most__its_own_make_room),
        cmocka_unit_test(key__is_remembered_for_keep_after_its_end_and_not_longer),
        cmocka_unit_test(key__of_an_earlier_run__is_lost_until_its_own_time_is_over),
        cmocka_unit_test(keys__of_earlier_runs_are_too_many__the_newest_are_known),
        cmocka_unit_test(store__any_order_of_steps__keeps_its_books),
        cmocka_unit_test(field__string_or_bare__is_read_as_the_draft_says),
        cmocka_unit_test(field__length_is_bounded_in_both_forms),
        cmocka_unit_test(field__given_twice__is_refused_even_if_equal),
        cmocka_unit_test(digest__whose_it_is_and_the_key_make_one_half_the_request_the_other),
        cmocka_unit_test(digest__passed_credentials__each_is_another_client),
        cmocka_unit_test(digest__other_secret__tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

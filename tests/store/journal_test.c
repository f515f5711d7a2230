/* The journal's bytes: what is written is read again, and what is not written is not read. */
#include "store/journal.h"

#include <stdlib.h>

#include "core/rng.h"
#include "support/check.h"

#define HOLD(epoch, counter) ((uint64_t)(epoch) << 40 | (counter))
#define LEAF                                                                                       \
    {7, 20000}, {2, 19990},                                                                        \
    {                                                                                              \
        1, 0                                                                                       \
    }

static const struct weir_journal_record samples[] = {
    {.kind = WEIR_JOURNAL_SCOPE,
     .amount_tok = WEIR_BALANCE_MAX,
     .is_configured = true,
     .depth = 1,
     .chain = {{1, 0}},
     .text = "org",
     .text_bytes = 3},
    {.kind = WEIR_JOURNAL_SCOPE,
     .amount_tok = 100000,
     .lapse_refunds = true,
     .depth = 3,
     .chain = {LEAF},
     .text = "tenant/\xc3\xa9\x01",
     .text_bytes = 10},
    {.kind = WEIR_JOURNAL_WINDOW,
     .amount_tok = WEIR_TOK_MAX,
     .depth = 1,
     .chain = {{7, 1796083200}}},
    {.kind = WEIR_JOURNAL_RESERVE,
     .state_after = WEIR_HOLD_HELD,
     .hold = HOLD(3, 1),
     .after_tok = 1200,
     .depth = 3,
     .chain = {LEAF}},
    {.kind = WEIR_JOURNAL_EXTEND,
     .state_before = WEIR_HOLD_HELD,
     .state_after = WEIR_HOLD_HELD,
     .hold = HOLD(3, 1),
     .before_tok = 1200,
     .after_tok = WEIR_TOK_MAX,
     .depth = 3,
     .chain = {LEAF}},
    {.kind = WEIR_JOURNAL_SETTLE,
     .state_before = WEIR_HOLD_HELD,
     .state_after = WEIR_HOLD_SETTLED,
     .hold = HOLD(3, 1),
     .before_tok = WEIR_TOK_MAX,
     .after_tok = 0,
     .estimated = true,
     .depth = 3,
     .chain = {LEAF}},
    {.kind = WEIR_JOURNAL_VOID,
     .state_before = WEIR_HOLD_HELD,
     .state_after = WEIR_HOLD_VOID,
     .hold = HOLD(WEIR_LEDGER_EPOCH_MAX, WEIR_LEDGER_COUNTER_MAX),
     .before_tok = 5,
     .depth = 6,
     .chain = {{INT64_MAX, UINT64_MAX}, {1, 0}, {6, INT64_MAX}, {5, 1}, {4, 2}, {3, 3}}},
    {.kind = WEIR_JOURNAL_LAPSE,
     .state_before = WEIR_HOLD_HELD,
     .state_after = WEIR_HOLD_LAPSED,
     .hold = HOLD(2, 9),
     .before_tok = 77,
     .after_tok = 77,
     .depth = 1,
     .chain = {{7, 3}}},
    {.kind = WEIR_JOURNAL_LAPSE,
     .state_before = WEIR_HOLD_HELD,
     .state_after = WEIR_HOLD_LAPSED,
     .hold = HOLD(2, 10),
     .before_tok = 77,
     .depth = 1,
     .chain = {{7, 3}}},
    {.kind = WEIR_JOURNAL_SETTLE,
     .state_before = WEIR_HOLD_LAPSED,
     .state_after = WEIR_HOLD_LATE,
     .hold = HOLD(2, 9),
     .before_tok = 77,
     .after_tok = 80,
     .depth = 1,
     .chain = {{7, 3}}},
    {.kind = WEIR_JOURNAL_SETTLE,
     .state_before = WEIR_HOLD_VOID,
     .state_after = WEIR_HOLD_LATE,
     .hold = HOLD(2, 8),
     .after_tok = 80,
     .depth = 1,
     .chain = {{7, 3}}},
    {.kind = WEIR_JOURNAL_SETTLE,
     .state_after = WEIR_HOLD_LATE,
     .hold = 0,
     .after_tok = 80,
     .depth = 1,
     .chain = {{7, 3}}},
    {.kind = WEIR_JOURNAL_SETTLE,
     .hold = UINT64_MAX,
     .after_tok = 80,
     .depth = 1,
     .chain = {{7, 3}}},
    {.kind = WEIR_JOURNAL_ADJUST,
     .amount_tok = -WEIR_TOK_MAX,
     .depth = 3,
     .chain = {LEAF},
     .text = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901"
             "2345678901234567890123456789012345678901234567890123456789012345678901234567890123"
             "456789012345678901234567890123456789",
     .text_bytes = WEIR_JOURNAL_TEXT_MAX},
    {.kind = WEIR_JOURNAL_ADJUST, .amount_tok = WEIR_TOK_MAX, .depth = 3, .chain = {LEAF}},
    {.kind = WEIR_JOURNAL_FORGET, .depth = 1, .chain = {{9, 0}}},
};

static void expect_same(const struct weir_journal_record *got,
                        const struct weir_journal_record *want)
{
    CHECK_INT(got->kind, want->kind);
    CHECK_INT(got->state_before, want->state_before);
    CHECK_INT(got->state_after, want->state_after);
    CHECK_INT(got->hold, want->hold);
    CHECK_INT(got->before_tok, want->before_tok);
    CHECK_INT(got->after_tok, want->after_tok);
    CHECK_INT(got->amount_tok, want->amount_tok);
    CHECK_INT(got->estimated, want->estimated);
    CHECK_INT(got->is_configured, want->is_configured);
    CHECK_INT(got->lapse_refunds, want->lapse_refunds);
    CHECK_INT(got->depth, want->depth);
    for (int i = 0; i < want->depth; i++) {
        CHECK_INT(got->chain[i].scope_id, want->chain[i].scope_id);
        CHECK_INT(got->chain[i].window, want->chain[i].window);
    }
    CHECK_INT(got->text_bytes, want->text_bytes);
    if (want->text_bytes > 0)
        CHECK(memcmp(got->text, want->text, want->text_bytes) == 0);
}

/* A copy whose end is the end of its memory, so that a sanitizer sees a read behind it. */
static uint8_t *copy_of(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    CHECK(copy != NULL);
    memcpy(copy, data, bytes);
    return copy;
}

/* Reads a blob to its end or to what is malformed. Each record that came out is a right one, and
 * written again it gives the very bytes that were read. Returns how many. */
static uint32_t read_all(const uint8_t *data, size_t bytes, enum weir_journal_next *end)
{
    uint8_t out[2 * WEIR_JOURNAL_RECORD_BYTES];
    struct weir_journal_reader reader = {.data = data, .bytes = bytes};
    struct weir_journal_record record;
    uint32_t count = 0;
    for (;;) {
        struct weir_journal_reader before = reader;
        *end = weir_journal_read(&reader, &record);
        if (*end != WEIR_JOURNAL_RECORD)
            break;
        count++;
        CHECK(weir_journal_record_wrong(&record) == NULL);
        struct weir_journal_writer writer = {
            .out = out, .room = sizeof out, .hold = before.hold, .window = before.window};
        CHECK(weir_journal_write(&writer, &record));
        CHECK_MEM(out, writer.bytes, data + before.at, reader.at - before.at);
    }
    CHECK_INT(weir_journal_read(&reader, &record), *end); /* and so it stays */
    return count;
}

static size_t write_samples(uint8_t *out, size_t room)
{
    struct weir_journal_writer writer = {.out = out, .room = room};
    for (size_t i = 0; i < WEIR_COUNT(samples); i++)
        CHECK(weir_journal_write(&writer, &samples[i]));
    CHECK_INT(writer.count, WEIR_COUNT(samples));
    return writer.bytes;
}

static uint8_t blob[64 * WEIR_JOURNAL_RECORD_BYTES];

static void journal__what_is_written__is_read_again(void **state)
{
    (void)state;
    size_t bytes = write_samples(blob, sizeof blob);
    struct weir_journal_reader reader = {.data = blob, .bytes = bytes};
    struct weir_journal_record record;
    for (size_t i = 0; i < WEIR_COUNT(samples); i++) {
        CHECK_INT(weir_journal_read(&reader, &record), WEIR_JOURNAL_RECORD);
        expect_same(&record, &samples[i]);
    }
    CHECK_INT(weir_journal_read(&reader, &record), WEIR_JOURNAL_END);
    CHECK_INT(weir_journal_read(&reader, &record), WEIR_JOURNAL_END);
}

static void journal__empty_blob__ends_at_once(void **state)
{
    (void)state;
    struct weir_journal_reader reader = {0};
    struct weir_journal_record record;
    CHECK_INT(weir_journal_read(&reader, &record), WEIR_JOURNAL_END);
}

static void journal__a_hold_of_a_chain_of_three__takes_few_bytes(void **state)
{
    (void)state;
    struct weir_journal_writer writer = {.out = blob, .room = sizeof blob};
    for (uint64_t i = 0; i < 30; i++) {
        struct weir_journal_record record = samples[3];
        record.hold += i;
        CHECK(weir_journal_write(&writer, &record));
    }
    CHECK(writer.bytes < 30 * 20);
}

static void journal__room_for_less_than_the_longest__writes_nothing(void **state)
{
    (void)state;
    struct weir_journal_record longest = samples[13];
    longest.depth = WEIR_LEDGER_DEPTH_MAX;
    for (int i = 0; i < longest.depth; i++)
        longest.chain[i] =
            (struct weir_journal_link){INT64_MAX - i, i % 2 ? 0 : UINT64_MAX / 2 + 1};
    struct weir_journal_writer writer = {.out = blob, .room = WEIR_JOURNAL_RECORD_BYTES - 1};
    CHECK(!weir_journal_write(&writer, &longest));
    CHECK_INT(writer.bytes, 0);
    writer.room++;
    CHECK(weir_journal_write(&writer, &longest));
    CHECK(writer.bytes <= WEIR_JOURNAL_RECORD_BYTES);
    CHECK(writer.bytes > WEIR_JOURNAL_RECORD_BYTES - 30); /* the bound is not far off */
    CHECK(!weir_journal_write(&writer, &samples[0]));
}

static void journal__cut_anywhere__gives_the_whole_records_before_it(void **state)
{
    (void)state;
    size_t bytes = write_samples(blob, sizeof blob);
    uint32_t count = 0;
    for (size_t cut = 0; cut <= bytes; cut++) {
        uint8_t *copy = copy_of(blob, cut);
        enum weir_journal_next end;
        uint32_t got = read_all(copy, cut, &end);
        CHECK(got == count || (got == count + 1 && end == WEIR_JOURNAL_END));
        CHECK(got <= WEIR_COUNT(samples));
        count = got;
        free(copy);
    }
    CHECK_INT(count, WEIR_COUNT(samples));
}

static void journal__any_byte_changed__never_leaves_the_blob_and_fails_its_crc(void **state)
{
    (void)state;
    size_t bytes = write_samples(blob, sizeof blob);
    uint32_t crc = weir_journal_crc(5, 1796083200, WEIR_COUNT(samples), blob, bytes);
    uint8_t *copy = copy_of(blob, bytes);
    for (size_t at = 0; at < bytes; at++) {
        for (unsigned value = 0; value < 256; value++) {
            enum weir_journal_next end;
            copy[at] = (uint8_t)value;
            CHECK(read_all(copy, bytes, &end) <= bytes / 3);
            CHECK((weir_journal_crc(5, 1796083200, WEIR_COUNT(samples), copy, bytes) == crc) ==
                  (value == blob[at]));
        }
        copy[at] = blob[at];
    }
    free(copy);
}

static void journal__random_bytes__are_read_without_harm(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 20260101, 0);
    uint64_t read = 0;
    for (int round = 0; round < 20000; round++) {
        size_t bytes = weir_rng_below(&rng, 80);
        uint8_t *data = malloc(bytes + 1);
        CHECK(data != NULL);
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)weir_rng_below(&rng, weir_chance(&rng, 1, 4) ? 256 : 20);
        if (bytes >= 3 && weir_chance(&rng, 3, 4)) { /* so that some of it is right */
            static const uint8_t states[] = {0x00, 0x01, 0x11, 0x12, 0x13, 0x14, 0x45, 0x05};
            data[0] = (uint8_t)(weir_rng_between(&rng, 1, 9) << 4 | 1);
            data[1] = states[weir_rng_below(&rng, WEIR_COUNT(states))];
            data[2] = 0;
        }
        enum weir_journal_next end;
        uint8_t *copy = copy_of(data, bytes);
        read += read_all(copy, bytes, &end);
        free(copy);
        free(data);
    }
    CHECK(read > 100);
}

static void journal__longer_form_of_a_number__is_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        enum weir_journal_next want;
    } rows[] = {
        /* WINDOW of scope 1, amount 0, window 0: the shortest forms */
        {"\x91\x00\x00\x00\x01\x00", 6, WEIR_JOURNAL_RECORD},
        {"\x91\x00\x00\x80\x00\x01\x00", 7, WEIR_JOURNAL_MALFORMED},
        {"\x91\x00\x00\x00\x81\x00\x00", 7, WEIR_JOURNAL_MALFORMED},
        {"\x91\x00\x00\x00\x01\x80\x80\x00", 8, WEIR_JOURNAL_MALFORMED},
        /* a window of 64 bits, and of 65 */
        {"\x91\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15, WEIR_JOURNAL_RECORD},
        {"\x91\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 15,
         WEIR_JOURNAL_MALFORMED},
        {"\x91\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 16,
         WEIR_JOURNAL_MALFORMED},
        {"\x91\x00\x10\x00\x01\x00", 6, WEIR_JOURNAL_MALFORMED},         /* a flag nobody knows */
        {"\x91\x00\x08\x00\x01\x00\x01x", 8, WEIR_JOURNAL_MALFORMED},    /* a text it cannot have */
        {"\x71\x00\x08\x00\x01\x00\x00", 7, WEIR_JOURNAL_MALFORMED},     /* flagged, but empty */
        {"\x71\x00\x08\x00\x01\x00\x02x", 8, WEIR_JOURNAL_MALFORMED},    /* past the end */
        {"\x92\x00\x00\x00\x01\x00\x02\x00", 8, WEIR_JOURNAL_MALFORMED}, /* two scopes */
        {"\x01\x00\x00\x00\x00\x00\x01\x00", 8, WEIR_JOURNAL_MALFORMED}, /* no such kind */
        {"\xa1\x00\x00\x00\x01\x00", 6, WEIR_JOURNAL_MALFORMED},
        {"\x11\x06\x00\x00\x00\x00\x01\x00", 8, WEIR_JOURNAL_MALFORMED}, /* no such state */
        {"\x91\x00\x00\x00\x00\x00", 6, WEIR_JOURNAL_MALFORMED},         /* scope 0 */
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        uint8_t *copy = copy_of((const uint8_t *)rows[i].bytes, rows[i].count);
        struct weir_journal_reader reader = {.data = copy, .bytes = rows[i].count};
        struct weir_journal_record record;
        enum weir_journal_next got = weir_journal_read(&reader, &record);
        CHECK_MSG(got == rows[i].want, "row %zu gives %d", i, (int)got);
        free(copy);
    }
}

/* Each row breaks one rule of a right record. */
static void journal__wrong_record__is_named(void **state)
{
    (void)state;
    static const struct {
        size_t sample;
        enum {
            KIND,
            STATES,
            HOLD_WHERE_NONE,
            AMOUNT_WHERE_NONE,
            BEFORE,
            AFTER,
            AMOUNT,
            FLAG,
            DEPTH,
            SCOPE_ID,
            TEXT
        } field;
        int64_t value;
    } rows[] = {
        {3, KIND, 0},
        {3, KIND, 10},
        {3, STATES, WEIR_HOLD_LAPSED},
        {4, STATES, WEIR_HOLD_SETTLED},
        {5, STATES, WEIR_HOLD_LATE},
        {6, STATES, WEIR_HOLD_LAPSED},
        {7, STATES, WEIR_HOLD_VOID},
        {13, STATES, WEIR_HOLD_HELD},
        {0, HOLD_WHERE_NONE, 1},
        {13, HOLD_WHERE_NONE, 1},
        {3, AMOUNT_WHERE_NONE, 1},
        {15, AMOUNT_WHERE_NONE, -1},
        {3, BEFORE, 1}, /* there was nothing before a reserve */
        {10, BEFORE, 1},
        {11, BEFORE, 1},
        {5, BEFORE, WEIR_TOK_MAX + 1},
        {5, BEFORE, -1},
        {3, AFTER, -1},
        {3, AFTER, WEIR_TOK_MAX + 1},
        {4, AFTER, 1200}, /* not larger */
        {6, AFTER, 1},
        {7, AFTER, 76},
        {13, AFTER, 1},
        {13, AMOUNT, WEIR_TOK_MAX + 1},
        {13, AMOUNT, -WEIR_TOK_MAX - 1},
        {13, AMOUNT, INT64_MIN},
        {0, AMOUNT, -1},
        {0, AMOUNT, WEIR_TOK_MAX + 1},
        {3, FLAG, 0},
        {5, FLAG, 1},
        {3, DEPTH, 0},
        {3, DEPTH, WEIR_LEDGER_DEPTH_MAX + 1},
        {2, DEPTH, 2},
        {15, DEPTH, 2},
        {3, SCOPE_ID, 0},
        {3, SCOPE_ID, -1},
        {3, SCOPE_ID, 7}, /* twice */
        {0, TEXT, WEIR_JOURNAL_TEXT_MAX + 1},
        {3, TEXT, 1},
    };
    for (size_t i = 0; i < WEIR_COUNT(samples); i++)
        CHECK(weir_journal_record_wrong(&samples[i]) == NULL);
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_journal_record r = samples[rows[i].sample];
        int64_t value = rows[i].value;
        switch (rows[i].field) {
        case KIND:
            r.kind = (enum weir_journal_kind)value;
            break;
        case STATES:
            r.state_after = (enum weir_hold_state)value;
            break;
        case HOLD_WHERE_NONE:
            r.hold = (uint64_t)value;
            break;
        case BEFORE:
            r.before_tok = value;
            break;
        case AFTER:
            r.after_tok = value;
            break;
        case AMOUNT_WHERE_NONE:
        case AMOUNT:
            r.amount_tok = value;
            break;
        case FLAG:
            *(value ? &r.is_configured : &r.estimated) = true;
            break;
        case DEPTH:
            r.depth = (uint8_t)value;
            r.chain[1].scope_id = 99;
            break;
        case SCOPE_ID:
            r.chain[r.depth - 1].scope_id = value;
            break;
        case TEXT:
            r.text_bytes = (uint8_t)value;
            break;
        }
        CHECK_MSG(weir_journal_record_wrong(&r) != NULL, "row %zu", i);
    }
}

static void chain__any_bytes__are_the_chain_that_wrote_them_or_none(void **state)
{
    (void)state;
    struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX];
    uint8_t bytes[WEIR_CHAIN_BYTES], again[WEIR_CHAIN_BYTES];
    for (size_t i = 0; i < WEIR_COUNT(samples); i++) {
        size_t count = weir_chain_write(samples[i].chain, samples[i].depth, bytes);
        CHECK_INT(weir_chain_read(bytes, count, chain), samples[i].depth);
        for (int k = 0; k < samples[i].depth; k++) {
            CHECK_INT(chain[k].scope_id, samples[i].chain[k].scope_id);
            CHECK_INT(chain[k].window, samples[i].chain[k].window);
        }
        for (size_t at = 0; at < count; at++)
            for (unsigned value = 0; value < 256; value++) {
                uint8_t *copy = copy_of(bytes, count);
                copy[at] = (uint8_t)value;
                uint8_t depth = weir_chain_read(copy, count, chain);
                if (depth > 0) {
                    size_t again_count = weir_chain_write(chain, depth, again);
                    CHECK_MEM(again, again_count, copy, count);
                }
                free(copy);
                copy = copy_of(bytes, at); /* and cut */
                CHECK(weir_chain_read(copy, at, chain) < samples[i].depth);
                free(copy);
            }
    }
    CHECK_INT(weir_chain_read(NULL, 0, chain), 0);
    CHECK_INT(weir_chain_read("\1\0\2\0\3\0\4\0\5\0\6\0", 12, chain), 6);
    CHECK_INT(weir_chain_read("\1\0\2\0\3\0\4\0\5\0\6\0\7\0", 14, chain), 0);
    CHECK_INT(weir_chain_read("\1\0\1\2", 4, chain), 0);
}

static void journal__crc__covers_what_stands_beside_the_blob(void **state)
{
    (void)state;
    uint32_t crc = weir_journal_crc(1, 2, 3, "abc", 3);
    CHECK(weir_journal_crc(2, 2, 3, "abc", 3) != crc);
    CHECK(weir_journal_crc(1, 3, 3, "abc", 3) != crc);
    CHECK(weir_journal_crc(1, 2, 4, "abc", 3) != crc);
    CHECK(weir_journal_crc(1, 2, 3, "abd", 3) != crc);
    CHECK(weir_journal_crc(1, 2, 3, "ab", 2) != crc);
    CHECK(weir_journal_crc(1, 2, 3, NULL, 0) != 0);
    CHECK(weir_journal_crc(-1, -1, UINT32_MAX, NULL, 0) != weir_journal_crc(0, 0, 0, NULL, 0));
}

static void journal__answer__is_what_the_caller_was_told(void **state)
{
    (void)state;
    static const enum weir_ledger_result want[WEIR_COUNT(samples)] = {
        WEIR_LEDGER_DONE,      WEIR_LEDGER_DONE,    WEIR_LEDGER_DONE,   WEIR_LEDGER_HELD,
        WEIR_LEDGER_HELD,      WEIR_LEDGER_SETTLED, WEIR_LEDGER_VOIDED, WEIR_LEDGER_DONE,
        WEIR_LEDGER_DONE,      WEIR_LEDGER_LATE,    WEIR_LEDGER_LATE,   WEIR_LEDGER_UNMATCHED,
        WEIR_LEDGER_UNMATCHED, WEIR_LEDGER_DONE,    WEIR_LEDGER_DONE,   WEIR_LEDGER_DONE};
    for (size_t i = 0; i < WEIR_COUNT(samples); i++) {
        CHECK_STR(weir_ledger_result_name(weir_journal_result(&samples[i])),
                  weir_ledger_result_name(want[i]));
        CHECK(strcmp(weir_journal_kind_name(samples[i].kind), "?") != 0);
    }
    CHECK_STR(weir_journal_kind_name((enum weir_journal_kind)0), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal__what_is_written__is_read_again),
        cmocka_unit_test(journal__empty_blob__ends_at_once),
        cmocka_unit_test(journal__a_hold_of_a_chain_of_three__takes_few_bytes),
        cmocka_unit_test(journal__room_for_less_than_the_longest__writes_nothing),
        cmocka_unit_test(journal__cut_anywhere__gives_the_whole_records_before_it),
        cmocka_unit_test(journal__any_byte_changed__never_leaves_the_blob_and_fails_its_crc),
        cmocka_unit_test(journal__random_bytes__are_read_without_harm),
        cmocka_unit_test(journal__longer_form_of_a_number__is_malformed),
        cmocka_unit_test(journal__wrong_record__is_named),
        cmocka_unit_test(chain__any_bytes__are_the_chain_that_wrote_them_or_none),
        cmocka_unit_test(journal__crc__covers_what_stands_beside_the_blob),
        cmocka_unit_test(journal__answer__is_what_the_caller_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

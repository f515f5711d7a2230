/* The server's two small parts: memory that goes round, and the count by address. */
#include "support/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "net/server_address.h"
#include "net/server_block.h"

static void block__any_appends_and_takes__holds_what_a_plain_buffer_holds(void **state)
{
    (void)state;
    struct weir_block_pool pool = {0};
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        struct weir_block b = {0};
        static char plain[2000000];
        size_t begin = 0, end = 0;
        for (int step = 0; step < 60; step++) {
            seed = seed * 1664525u + 1013904223u;
            size_t n = (seed >> 8) % (round % 10 == 0 ? 30000 : 700);
            if (seed >> 30 && end + n <= sizeof plain) {
                for (size_t i = 0; i < n; i++)
                    plain[end + i] = (char)(seed >> (i % 24));
                CHECK(weir_block_append(&pool, &b, plain + end, n));
                end += n;
            } else {
                n = n > end - begin ? end - begin : n;
                weir_block_consume(&pool, &b, n);
                begin += n;
            }
            CHECK_MEM(b.at ? b.at + b.begin : "", weir_block_bytes(&b), plain + begin, end - begin);
            CHECK(weir_block_bytes(&b) > 0 || !b.at);
        }
        weir_block_drop(&pool, &b);
        CHECK(!b.at && b.room == 0);
    }
    weir_block_pool_free(&pool);
}

static void block__given_back__is_taken_again_and_kept_within_bounds(void **state)
{
    (void)state;
    struct weir_block_pool pool = {0};
    static struct weir_block many[5000];
    for (size_t i = 0; i < WEIR_COUNT(many); i++)
        CHECK(weir_block_reserve(&pool, &many[i], 600, 0));
    for (size_t i = 0; i < WEIR_COUNT(many); i++) {
        CHECK_INT(many[i].room, 768);
        weir_block_drop(&pool, &many[i]);
    }
    CHECK_INT(pool.kept_count[2], BLOCK_KEEP ? 341 : 0);
    CHECK(weir_block_reserve(&pool, &many[0], 600, 0));
    CHECK_INT(pool.kept_count[2], BLOCK_KEEP ? 340 : 0);
    weir_block_drop(&pool, &many[0]);
    weir_block_pool_free(&pool);
}

static void block__of_any_size__leaves_little_over_and_goes_round(void **state)
{
    (void)state;
    struct weir_block_pool pool = {0};
    size_t rooms = 0, last = 0;
    for (size_t bytes = 1; bytes <= 256 * 1024; bytes++) {
        struct weir_block b = {0};
        CHECK(weir_block_reserve(&pool, &b, bytes, 0));
        CHECK_MSG(b.room >= bytes && (b.room - bytes < 256 || (b.room - bytes) * 5 < b.room), "%zu",
                  bytes);
        rooms += b.room != last;
        last = b.room;
        memset(b.at, 0xa5, b.room); /* a block of another class would be too short */
        weir_block_drop(&pool, &b);
    }
    CHECK_INT(rooms, BLOCK_CLASSES);
    weir_block_pool_free(&pool);
}

static void block__with_a_room_max__grows_to_it_and_not_past(void **state)
{
    (void)state;
    struct weir_block_pool pool = {0};
    struct weir_block b = {0};
    static char piece[100000];
    for (int i = 0; i < 10; i++)
        CHECK(weir_block_reserve(&pool, &b, sizeof piece, 1000000) &&
              weir_block_append(&pool, &b, piece, sizeof piece));
    CHECK_INT(b.room, 1000000);
    CHECK(!weir_block_reserve(&pool, &b, SIZE_MAX - 10, 0));
    CHECK_INT(weir_block_bytes(&b), 1000000);
    weir_block_drop(&pool, &b);
}

static uint64_t key_of(const char *text)
{
    struct sockaddr_storage s = {0};
    struct sockaddr_in *in = (void *)&s;
    struct sockaddr_in6 *in6 = (void *)&s;
    s.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    CHECK_INT(inet_pton(s.ss_family, text,
                        s.ss_family == AF_INET ? (void *)&in->sin_addr : (void *)&in6->sin6_addr),
              1);
    return weir_address_key(&s);
}

static void key__is_one_for_an_ipv4_address_and_for_an_ipv6_64(void **state)
{
    (void)state;
    CHECK(key_of("192.0.2.1") != key_of("192.0.2.2"));
    CHECK(key_of("192.0.2.1") == key_of("::ffff:192.0.2.1"));
    CHECK(key_of("2001:db8:1:2::1") == key_of("2001:db8:1:2:ffff::9"));
    CHECK(key_of("2001:db8:1:2::1") != key_of("2001:db8:1:3::1"));
    CHECK(key_of("::1") != key_of("0.0.0.0"));
}

static void counts__any_adds_and_removes__are_those_of_a_plain_table(void **state)
{
    (void)state;
    struct weir_address_table table = {0};
    static uint32_t plain[300];
    uint32_t seed = 7;
    CHECK_INT(weir_address_table_init(&table, 300), 0);
    /* Small enough that runs of full places join and wrap round. */
    for (int step = 0; step < 300000; step++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t i = (seed >> 8) % WEIR_COUNT(plain);
        if (seed >> 31 || plain[i] == 0) {
            CHECK_INT(weir_address_add(&table, i * 77), ++plain[i]);
        } else {
            CHECK_INT(weir_address_remove(&table, i * 77), --plain[i]);
        }
    }
    for (uint32_t i = 0; i < WEIR_COUNT(plain); i++) {
        while (plain[i] > 0)
            CHECK_INT(weir_address_remove(&table, i * 77), --plain[i]);
    }
    for (uint64_t i = 0; i <= table.mask; i++)
        CHECK_INT(table.places[i].count, 0);
    weir_address_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block__any_appends_and_takes__holds_what_a_plain_buffer_holds),
        cmocka_unit_test(block__given_back__is_taken_again_and_kept_within_bounds),
        cmocka_unit_test(block__of_any_size__leaves_little_over_and_goes_round),
        cmocka_unit_test(block__with_a_room_max__grows_to_it_and_not_past),
        cmocka_unit_test(key__is_one_for_an_ipv4_address_and_for_an_ipv6_64),
        cmocka_unit_test(counts__any_adds_and_removes__are_those_of_a_plain_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

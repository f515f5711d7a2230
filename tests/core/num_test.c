#include "core/num.h"

#include "support/check.h"
#include "support/tape.h"

typedef unsigned __int128 u128;

static void muldiv__products_beyond_64_bits__are_exact(void **state)
{
    (void)state;
    CHECK(weir_muldiv_floor(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    CHECK(weir_muldiv_floor(UINT64_MAX, 10, 20) == UINT64_MAX / 2);
    CHECK(weir_muldiv_ceil(UINT64_MAX, 10, 20) == UINT64_MAX / 2 + 1);
    CHECK(weir_muldiv_floor(7, 3, 2) == 10);
    CHECK(weir_muldiv_ceil(7, 3, 2) == 11);
    CHECK(weir_muldiv_ceil(6, 3, 2) == 9);
    CHECK(weir_muldiv_ceil(0, 3, 2) == 0);
}

static void muldiv__too_large__saturates(void **state)
{
    (void)state;
    CHECK(weir_muldiv_floor(UINT64_MAX, 2, 1) == UINT64_MAX);
    CHECK(weir_muldiv_ceil(UINT64_MAX, 2, 1) == UINT64_MAX);
    uint64_t carry = 0;
    CHECK(weir_muldiv_carry(UINT64_MAX, 7, 3, &carry) == UINT64_MAX);
    CHECK(carry == 0);
}

static void muldiv_carry_is_split_invariant(struct tape *t)
{
    uint64_t rate = tape_below(t, UINT64_C(1) << 40);
    uint64_t divisor = 1 + tape_below(t, UINT64_C(1) << 34);
    uint64_t together = 0, apart = 0, time = 0, carry = 0;
    while (tape_more(t)) {
        uint64_t step = tape_below(t, UINT64_C(1) << 32) >> tape_below(t, 32);
        time += step;
        apart += weir_muldiv_carry(step, rate, divisor, &carry);
        uint64_t carry_together = 0;
        together = weir_muldiv_carry(time, rate, divisor, &carry_together);
        TAPE_CHECK(t, apart == together);
        TAPE_CHECK(t, carry == carry_together);
        TAPE_CHECK(t, (u128)apart * divisor + carry == (u128)time * rate);
    }
}

static void muldiv_carry__any_cut_of_time__adds_up_to_the_same(void **state)
{
    (void)state;
    tape_check(__func__, muldiv_carry_is_split_invariant, 2000, 200);
}

static void units__rounding__is_by_name(void **state)
{
    (void)state;
    static const struct {
        int64_t utok, ceil_tok, floor_tok;
    } rows[] = {
        {0, 0, 0},
        {1, 1, 0},
        {999999, 1, 0},
        {1000000, 1, 1},
        {1000001, 2, 1},
        {-1, 0, -1},
        {-999999, 0, -1},
        {-1000000, -1, -1},
        {-1000001, -1, -2},
        {INT64_MAX, 9223372036855, 9223372036854},
        {INT64_MIN, -9223372036854, -9223372036855},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        CHECK_INT(weir_tok_from_utok_ceil(rows[i].utok), rows[i].ceil_tok);
        CHECK_INT(weir_tok_from_utok_floor(rows[i].utok), rows[i].floor_tok);
    }
    CHECK_INT(weir_utok_from_tok(-3), -3000000);
    CHECK_INT(weir_utok_from_tok(INT64_MAX / 1000000), INT64_MAX / 1000000 * 1000000);
    CHECK_INT(weir_utok_from_tok(INT64_MAX / 1000000 + 1), INT64_MAX);
    CHECK_INT(weir_utok_from_tok(INT64_MIN), INT64_MIN);
}

static void saturating__ends__hold(void **state)
{
    (void)state;
    CHECK_INT(weir_add_sat_i64(INT64_MAX, 1), INT64_MAX);
    CHECK_INT(weir_add_sat_i64(INT64_MIN, -1), INT64_MIN);
    CHECK_INT(weir_add_sat_i64(INT64_MAX, INT64_MIN), -1);
    CHECK_INT(weir_sub_sat_i64(INT64_MIN, 1), INT64_MIN);
    CHECK_INT(weir_sub_sat_i64(0, INT64_MIN), INT64_MAX);
    CHECK(weir_sub_sat_u64(3, 5) == 0);
    CHECK(weir_sub_sat_u64(5, 3) == 2);
    CHECK(weir_add_sat_u64(UINT64_MAX, 1) == UINT64_MAX);
    CHECK(weir_abs_i64(INT64_MIN) == UINT64_C(1) << 63);
    CHECK(weir_div_ceil_u64(UINT64_MAX, 2) == UINT64_C(1) << 63);
    CHECK_INT(weir_log2_floor_u64(1), 0);
    CHECK_INT(weir_log2_floor_u64(UINT64_MAX), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(muldiv__products_beyond_64_bits__are_exact),
        cmocka_unit_test(muldiv__too_large__saturates),
        cmocka_unit_test(muldiv_carry__any_cut_of_time__adds_up_to_the_same),
        cmocka_unit_test(units__rounding__is_by_name),
        cmocka_unit_test(saturating__ends__hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

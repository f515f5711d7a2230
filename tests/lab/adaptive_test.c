/* What the adaptive limit comes to before backends of known capacity: docs/adaptive.md.
 *
 * The knee of a backend is replicas x sequences: with more calls than that in flight, some only
 * wait. WEIR_TEST_LONG=1 takes more seeds. */
#include "lab/adaptive_rig.h"
#include "lab/adaptive_rivals.h"

#include "support/check.h"

#include <stdlib.h>

#define SECOND WEIR_NS_PER_S

static bool is_long(void)
{
    return getenv("WEIR_TEST_LONG") != NULL;
}

static struct rig_series out;

static double knee_of(const struct rig_case *c)
{
    return (double)c->backend.replicas * c->backend.sequences;
}

/* The kind is sent from a time on, alone. */
static void add_phase(struct rig_case *c, uint64_t from_s, struct rig_kind kind)
{
    c->phases[c->phase_count++] =
        (struct rig_phase){.from_ns = from_s * SECOND, .kind_count = 1, .kinds = {kind}};
}

static struct rig_kind with_output(struct rig_kind kind, uint32_t mean_tok)
{
    kind.output.mean = mean_tok;
    kind.output.high = 8 * mean_tok;
    return kind;
}

static struct rig_kind with_prompt(struct rig_kind kind, uint32_t low_tok, uint32_t high_tok)
{
    kind.prompt.low = low_tok;
    kind.prompt.high = high_tok;
    return kind;
}

/* Between two times the limit's mean is within a tenth of the knee, and it swings by less than a
 * fifth of it. */
static void check_settled(const char *what, uint64_t seed, uint32_t from_s, uint32_t until_s,
                          double knee)
{
    struct rig_swing w = rig_swing(&out, from_s, until_s, knee);
    CHECK_MSG(w.mean > 0.9 && w.mean < 1.1, "%s, knee %.0f, seed %llu: mean %.3f of it", what, knee,
              (unsigned long long)seed, w.mean);
    CHECK_MSG(w.most - w.least < 0.2, "%s, knee %.0f, seed %llu: swings %.3f .. %.3f", what, knee,
              (unsigned long long)seed, w.least, w.most);
}

/* ---- the knee ---- */

static const struct {
    const char *name;
    uint32_t kind_count;
    struct {
        uint32_t share;
        const struct rig_kind *kind;
        uint32_t fixed_tok; /* of the prompt; 0: as the kind says */
    } of[3];
} mixes[] = {{"chat", 1, {{1, &rig_chat, 0}}},
             {"chat, prompts alike", 1, {{1, &rig_chat, 500}}},
             {"code", 1, {{1, &rig_code, 0}}},
             {"code, prompts alike", 1, {{1, &rig_code, 2048}}},
             {"arena", 1, {{1, &rig_arena, 0}}},
             {"agents and apps", 2, {{2, &rig_agent, 0}, {6, &rig_chat, 0}}}};

static void set_mix(struct rig_case *c, size_t mix)
{
    c->phases[0].kind_count = mixes[mix].kind_count;
    for (uint32_t i = 0; i < mixes[mix].kind_count; i++) {
        struct rig_kind *kind = &c->phases[0].kinds[i];
        *kind = *mixes[mix].of[i].kind;
        kind->share = mixes[mix].of[i].share;
        if (mixes[mix].of[i].fixed_tok > 0)
            kind->prompt =
                (struct weir_length){.kind = WEIR_LENGTH_FIXED, .mean = mixes[mix].of[i].fixed_tok};
    }
}

static void check_knee(uint32_t replicas, uint32_t sequences, size_t mix, uint64_t seed)
{
    struct rig_case c = rig_case_of(replicas, sequences);
    set_mix(&c, mix);
    c.run_ns = 250 * SECOND;
    rig_run(&c, &rig_weir, seed, &out);
    check_settled(mixes[mix].name, seed, 120, 250, knee_of(&c));
    CHECK(out.most <= c.ceiling && out.least >= c.min);
    /* From 16 at first, by half a period: at most that far beyond. */
    CHECK_MSG(out.most <= 2 * knee_of(&c), "most %u, knee %.0f", out.most, knee_of(&c));
}

static void adaptive__any_capacity_and_mix__finds_the_knee_and_swings_little(void **state)
{
    (void)state;
    static const uint32_t replicas[] = {1, 2, 4, 8}, sequences[] = {16, 48, 64};
    for (size_t mix = 0; mix < WEIR_COUNT(mixes); mix++)
        for (size_t i = 0; i < WEIR_COUNT(replicas); i++)
            for (size_t j = 0; j < WEIR_COUNT(sequences); j++) {
                for (uint64_t seed = 1; seed <= (is_long() ? 5 : 1); seed++)
                    check_knee(replicas[i], sequences[j], mix, seed);
            }
}

/* ---- changes ---- */

/* Trouble of replicas 0 .. count - 1 from 120 s to 240 s, in a run of 360 s. */
static void set_trouble(struct rig_case *c, struct weir_backend_trouble troubles[static 8],
                        uint32_t count, enum weir_trouble_kind kind, uint32_t slow_permille)
{
    for (uint32_t i = 0; i < count; i++)
        troubles[i] = (struct weir_backend_trouble){.replica = i,
                                                    .kind = kind,
                                                    .from_ns = 120 * SECOND,
                                                    .until_ns = 240 * SECOND,
                                                    .slow_permille = slow_permille};
    c->backend.troubles = troubles;
    c->backend.trouble_count = count;
    c->run_ns = 360 * SECOND;
}

static void adaptive__replicas_lost_and_back__follows_within_60_s(void **state)
{
    (void)state;
    static const struct {
        uint32_t replicas, sequences, lost;
        size_t mix;
    } rows[] = {{4, 16, 2, 0}, {4, 16, 3, 0}, {4, 16, 2, 1},
                {4, 48, 2, 4}, {8, 16, 2, 2}, {2, 64, 1, 0}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        for (uint64_t seed = 1; seed <= (is_long() ? 20 : 4); seed++) {
            struct weir_backend_trouble troubles[8];
            struct rig_case c = rig_case_of(rows[i].replicas, rows[i].sequences);
            set_mix(&c, rows[i].mix);
            set_trouble(&c, troubles, rows[i].lost, WEIR_TROUBLE_FAIL, 0);
            rig_run(&c, &rig_weir, seed, &out);
            double left = (rows[i].replicas - rows[i].lost) * (double)rows[i].sequences;
            uint32_t down_s = rig_settles(&out, 120, 240, left, 0.15);
            uint32_t up_s = rig_settles(&out, 240, 360, knee_of(&c), 0.15);
            CHECK_MSG(down_s <= 60, "row %zu, seed %d: %u s down", i, (int)seed, down_s);
            CHECK_MSG(up_s <= 60, "row %zu, seed %d: %u s up", i, (int)seed, up_s);
        }
}

static void adaptive__replicas_slowed__are_no_queue(void **state)
{
    (void)state;
    static const struct {
        uint32_t slowed, slow_permille;
    } rows[] = {{4, 2000}, {1, 4000}, {2, 3000}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_backend_trouble troubles[8];
        struct rig_case c = rig_case_of(4, 16);
        set_trouble(&c, troubles, rows[i].slowed, WEIR_TROUBLE_SLOW, rows[i].slow_permille);
        rig_run(&c, &rig_weir, 1, &out);
        check_settled("slowed", i, 150, 240, 64);
        check_settled("as before", i, 270, 360, 64);
        CHECK(rig_settles(&out, 120, 240, 64, 0.15) <= 30);
        CHECK(rig_settles(&out, 240, 360, 64, 0.15) <= 30);
    }
}

/* ---- what it is not to be fooled by ---- */

static void adaptive__longer_and_shorter_answers__change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (is_long() ? 5 : 1); seed++) {
        struct rig_case c = rig_case_of(4, 16);
        add_phase(&c, 120, with_output(rig_chat, 1000));
        add_phase(&c, 240, with_output(rig_chat, 60));
        rig_run(&c, &rig_weir, seed, &out);
        check_settled("250 tokens", seed, 60, 120, 64);
        check_settled("1,000 tokens", seed, 120, 240, 64);
        check_settled("60 tokens", seed, 240, 400, 64);
    }
}

static void adaptive__longer_and_shorter_prompts__change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (is_long() ? 5 : 1); seed++) {
        struct rig_case c = rig_case_of(4, 16);
        add_phase(&c, 120, with_prompt(rig_chat, 4000, 12000));
        add_phase(&c, 240, with_prompt(rig_chat, 20, 60));
        rig_run(&c, &rig_weir, seed, &out);
        check_settled("about 900 tokens", seed, 60, 120, 64);
        check_settled("about 8,000 tokens", seed, 120, 240, 64);
        check_settled("about 40 tokens", seed, 270, 400, 64);
    }
}

/* All input suddenly costs four times as much, as when a prefix cache fails, at the same pace. That
 * looks like a queue until it does not shrink with the limit; and back it looks like room. */
static void adaptive__the_same_input_takes_longer__is_learned_and_unlearned(void **state)
{
    (void)state;
    static const uint32_t capacities[][2] = {{4, 16}, {8, 64}};
    for (size_t i = 0; i < WEIR_COUNT(capacities); i++)
        for (uint64_t seed = 1; seed <= (is_long() ? 10 : 2); seed++) {
            struct rig_case c = rig_case_of(capacities[i][0], capacities[i][1]);
            struct rig_kind slow = rig_chat;
            slow.hidden_tok = 3000;
            add_phase(&c, 120, slow);
            add_phase(&c, 300, rig_chat);
            c.run_ns = 480 * SECOND;
            rig_run(&c, &rig_weir, seed, &out);
            check_settled("before", seed, 80, 120, knee_of(&c));
            check_settled("after", seed, 400, 480, knee_of(&c));
            CHECK(rig_swing(&out, 120, 480, knee_of(&c)).most < 1.7);
        }
}

static void adaptive__a_tenant_that_is_always_slow__changes_nothing(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    struct rig_kind slow = rig_chat;
    slow.share = 15;
    slow.hidden_tok = 20000; /* ten times as long to its first byte as its input tells */
    add_phase(&c, 120, rig_chat);
    c.phases[1].kinds[0].share = 85;
    c.phases[1].kinds[1] = slow;
    c.phases[1].kind_count = 2;
    add_phase(&c, 240, rig_chat);
    rig_run(&c, &rig_weir, 1, &out);
    check_settled("before", 1, 60, 120, 64);
    check_settled("with it", 1, 120, 240, 64);
    check_settled("after", 1, 240, 400, 64);
}

static void adaptive__bursts__find_the_same_knee(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    c.phases[0].rate_micro_per_s = 40000000;
    c.phases[0].on_ns = 10 * SECOND;
    c.phases[0].off_ns = 30 * SECOND;
    rig_run(&c, &rig_weir, 1, &out);
    check_settled("bursts", 1, 120, 400, 64);
}

static void adaptive__light_load__leaves_the_limit(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    c.start = 64;
    c.phases[0].rate_micro_per_s = 4000000; /* of about 19 */
    rig_run(&c, &rig_weir, 1, &out);
    CHECK(out.done > 1000);
    CHECK_INT(out.least, 64);
    CHECK_INT(out.most, 64);
}

static void adaptive__without_streams__holds__with_some__finds(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    c.phases[0].kinds[0].is_whole = true;
    rig_run(&c, &rig_weir, 1, &out);
    CHECK(out.done > 1000);
    CHECK_INT(out.least, 16);
    CHECK_INT(out.most, 16);
    c.phases[0].kinds[1] = rig_chat;
    c.phases[0].kind_count = 2;
    rig_run(&c, &rig_weir, 1, &out);
    check_settled("half of them streams", 1, 100, 400, 64);
}

static void adaptive__estimates_off_by_a_third__finds(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    c.noise_permille = 330;
    rig_run(&c, &rig_weir, 1, &out);
    struct rig_swing w = rig_swing(&out, 100, 400, 64);
    CHECK_MSG(w.mean > 0.9 && w.mean < 1.1, "mean %.3f", w.mean);
}

/* ---- refusals ---- */

static void adaptive__one_call_in_a_hundred_refused__changes_nothing(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    c.phases[0].kinds[0].refused_permille = 10;
    rig_run(&c, &rig_weir, 1, &out);
    struct rig_swing w = rig_swing(&out, 100, 400, 64);
    CHECK_MSG(w.mean > 0.9 && w.mean < 1.1, "mean %.3f", w.mean);
}

static void adaptive__one_call_in_three_refused__goes_to_the_floor_and_comes_back(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    struct rig_kind refused = rig_chat;
    refused.refused_permille = 330;
    add_phase(&c, 120, refused);
    add_phase(&c, 240, rig_chat);
    rig_run(&c, &rig_weir, 1, &out);
    struct rig_swing w = rig_swing(&out, 150, 240, 64);
    CHECK_MSG(w.most < 0.25, "most %.3f", w.most);
    CHECK_INT(out.least, 4);
    CHECK(rig_settles(&out, 240, 400, 64, 0.15) <= 90);
}

/* ---- the ends ---- */

static void adaptive__ceiling_below_the_knee__is_the_limit(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(4, 16);
    c.ceiling = 40;
    rig_run(&c, &rig_weir, 1, &out);
    CHECK_INT(out.most, 40);
    CHECK_INT(out.at[60].limit, 40);
    CHECK_INT(out.at[399].limit, 40);
}

static void adaptive__floor_above_the_knee__is_the_limit_in_the_end(void **state)
{
    (void)state;
    struct rig_case c = rig_case_of(1, 16);
    c.min = c.start = 24;
    rig_run(&c, &rig_weir, 1, &out);
    CHECK_INT(out.least, 24);
}

static void adaptive__same_seed__same_limits(void **state)
{
    (void)state;
    static struct rig_series again;
    struct rig_case c = rig_case_of(2, 16);
    c.run_ns = 100 * SECOND;
    rig_run(&c, &rig_weir, 3, &out);
    rig_run(&c, &rig_weir, 3, &again);
    CHECK(memcmp(&out, &again, sizeof out) == 0);
    rig_run(&c, &rig_weir, 4, &again);
    CHECK(memcmp(&out, &again, sizeof out) != 0);
}

/* ---- the others ---- */

/* The furthest mean from the knee, over some capacities. */
static double worst_error(const struct rig_rule *rule)
{
    static const uint32_t capacities[][2] = {{1, 16}, {2, 64}, {4, 48}};
    double worst = 0;
    for (size_t i = 0; i < WEIR_COUNT(capacities); i++) {
        struct rig_case c = rig_case_of(capacities[i][0], capacities[i][1]);
        c.run_ns = 250 * SECOND;
        rig_run(&c, rule, 1, &out);
        double off = rig_swing(&out, 120, 250, knee_of(&c)).mean - 1;
        worst = off > worst ? off : -off > worst ? -off : worst;
    }
    return worst;
}

static void adaptive__the_rules_of_others__are_further_off(void **state)
{
    (void)state;
    const struct rig_rule *rivals[] = {&rig_gradient2, &rig_gradient2_first,
                                       &rig_vegas,     &rig_vegas_first,
                                       &rig_aimd,      &rig_aimd_first};
    double ours = worst_error(&rig_weir);
    CHECK_MSG(ours < 0.1, "%.3f", ours);
    for (size_t i = 0; i < WEIR_COUNT(rivals); i++) {
        double theirs = worst_error(rivals[i]);
        CHECK_MSG(theirs > 3 * ours, "%s %.3f, ours %.3f", rivals[i]->name, theirs, ours);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adaptive__any_capacity_and_mix__finds_the_knee_and_swings_little),
        cmocka_unit_test(adaptive__replicas_lost_and_back__follows_within_60_s),
        cmocka_unit_test(adaptive__replicas_slowed__are_no_queue),
        cmocka_unit_test(adaptive__longer_and_shorter_answers__change_nothing),
        cmocka_unit_test(adaptive__longer_and_shorter_prompts__change_nothing),
        cmocka_unit_test(adaptive__the_same_input_takes_longer__is_learned_and_unlearned),
        cmocka_unit_test(adaptive__a_tenant_that_is_always_slow__changes_nothing),
        cmocka_unit_test(adaptive__bursts__find_the_same_knee),
        cmocka_unit_test(adaptive__light_load__leaves_the_limit),
        cmocka_unit_test(adaptive__without_streams__holds__with_some__finds),
        cmocka_unit_test(adaptive__estimates_off_by_a_third__finds),
        cmocka_unit_test(adaptive__one_call_in_a_hundred_refused__changes_nothing),
        cmocka_unit_test(adaptive__one_call_in_three_refused__goes_to_the_floor_and_comes_back),
        cmocka_unit_test(adaptive__ceiling_below_the_knee__is_the_limit),
        cmocka_unit_test(adaptive__floor_above_the_knee__is_the_limit_in_the_end),
        cmocka_unit_test(adaptive__same_seed__same_limits),
        cmocka_unit_test(adaptive__the_rules_of_others__are_further_off),
    };
    return cmocka_run_group_tests_name("lab/adaptive", tests, NULL, NULL);
}

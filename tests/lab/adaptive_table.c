/* adaptive_table: prints the tables of docs/adaptive.md: our rule for the limit beside those of
 * others, on the same backends.
 *
 *   ninja -C build-test tests/lab/lab_adaptive_table && build-test/tests/lab/lab_adaptive_table
 *
 * Deterministic: the same figures each time, on every machine. Takes some seconds. */
#include "lab/adaptive_rig.h"
#include "lab/adaptive_rivals.h"

#include <math.h>
#include <stdio.h>

#define SECOND WEIR_NS_PER_S
#define SEEDS 5

static struct rig_series out;
static const uint32_t replicas[] = {1, 2, 4, 8}, sequences[] = {16, 48, 64};

struct spread {
    double error_least, error_most; /* of the mean limit from the knee, as parts of it */
    double swing;                   /* the largest */
    double queued;                  /* upstream on average, as a part of the knee */
};

static struct spread spread_of(const struct rig_rule *rule, const struct rig_kind *kinds,
                               uint32_t kind_count)
{
    struct spread s = {.error_least = 1e9, .error_most = -1e9};
    for (size_t i = 0; i < WEIR_COUNT(replicas); i++)
        for (size_t j = 0; j < WEIR_COUNT(sequences); j++)
            for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                double knee = (double)replicas[i] * sequences[j];
                struct rig_case c = rig_case_of(replicas[i], sequences[j]);
                c.phases[0].kind_count = kind_count;
                for (uint32_t k = 0; k < kind_count; k++)
                    c.phases[0].kinds[k] = kinds[k];
                rig_run(&c, rule, seed, &out);
                struct rig_swing w = rig_swing(&out, 200, 400, knee);
                double error = w.mean - 1;
                s.error_least = error < s.error_least ? error : s.error_least;
                s.error_most = error > s.error_most ? error : s.error_most;
                s.swing = w.most - w.least > s.swing ? w.most - w.least : s.swing;
                s.queued += rig_queued(&out, 200, 400, knee) /
                            (WEIR_COUNT(replicas) * WEIR_COUNT(sequences) * SEEDS);
            }
    return s;
}

static void print_spread(const char *name, const struct spread *s)
{
    printf("| %s | %+ld .. %+ld %% | %.0f %% | %.0f %% |", name, lround(100 * s->error_least),
           lround(100 * s->error_most), 100 * s->swing, 100 * s->queued);
}

/* Two of four replicas fail at 200 s and are back at 320 s. */
static void print_follows(const struct rig_rule *rule)
{
    uint32_t down_s = 0, up_s = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct weir_backend_trouble troubles[2];
        struct rig_case c = rig_case_of(4, 16);
        for (uint32_t i = 0; i < 2; i++)
            troubles[i] = (struct weir_backend_trouble){.replica = i,
                                                        .kind = WEIR_TROUBLE_FAIL,
                                                        .from_ns = 200 * SECOND,
                                                        .until_ns = 320 * SECOND};
        c.backend.troubles = troubles;
        c.backend.trouble_count = 2;
        c.run_ns = 440 * SECOND;
        rig_run(&c, rule, seed, &out);
        uint32_t down = rig_settles(&out, 200, 320, 32, 0.15);
        uint32_t up = rig_settles(&out, 320, 440, 64, 0.15);
        down_s = down > down_s ? down : down_s;
        up_s = up > up_s ? up : up_s;
    }
    if (down_s < 120)
        printf(" %u s |", down_s);
    else
        printf(" not |");
    if (up_s < 120)
        printf(" %u s |", up_s);
    else
        printf(" not |");
}

/* What the mean limit comes to when answers are four times as long from 200 s on. */
static void print_long_answers(const struct rig_rule *rule)
{
    double before = 0, after = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rig_case c = rig_case_of(4, 16);
        c.phases[1] = c.phases[0];
        c.phases[1].from_ns = 200 * SECOND;
        c.phases[1].kinds[0].output.mean *= 4;
        c.phases[1].kinds[0].output.high *= 4;
        c.phase_count = 2;
        c.run_ns = 500 * SECOND;
        rig_run(&c, rule, seed, &out);
        before += rig_swing(&out, 120, 200, 64).mean * 64 / SEEDS;
        after += rig_swing(&out, 300, 500, 64).mean * 64 / SEEDS;
    }
    printf(" %.0f → %.0f |\n", before, after);
}

static void print_rules(void)
{
    static const struct rig_rule *const rules[] = {
        &rig_weir,        &rig_gradient2, &rig_gradient2_first, &rig_vegas,
        &rig_vegas_first, &rig_aimd,      &rig_aimd_first};
    printf("| rule, and what it goes by | off the knee | swing | queued upstream | half lost | "
           "back | knee 64, answers 4 x as long |\n");
    printf("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < WEIR_COUNT(rules); i++) {
        struct spread s = spread_of(rules[i], &rig_chat, 1);
        print_spread(rules[i]->name, &s);
        print_follows(rules[i]);
        print_long_answers(rules[i]);
    }
}

static void print_mixes(void)
{
    struct rig_kind alike = rig_chat, code_alike = rig_code, both[2] = {rig_agent, rig_chat};
    alike.prompt = (struct weir_length){.kind = WEIR_LENGTH_FIXED, .mean = 500};
    code_alike.prompt = (struct weir_length){.kind = WEIR_LENGTH_FIXED, .mean = 2048};
    both[0].share = 1;
    both[1].share = 3;
    const struct {
        const char *name;
        const struct rig_kind *kinds;
        uint32_t count;
    } rows[] = {{"chat: prompts 300 .. 1,500, 250 out", &rig_chat, 1},
                {"chat, every prompt 500", &alike, 1},
                {"code: prompts about 1,469, 13 out", &rig_code, 1},
                {"code, every prompt 2,048", &code_alike, 1},
                {"arena: prompts about 40, 211 out", &rig_arena, 1},
                {"one agent call (6,000 .. 24,000, 1,000 out) to three of chat", both, 2}};
    printf(
        "\n| traffic | off the knee | swing | queued upstream |\n| --- | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct spread s = spread_of(&rig_weir, rows[i].kinds, rows[i].count);
        print_spread(rows[i].name, &s);
        printf("\n");
    }
}

int main(void)
{
    print_rules();
    print_mixes();
    return 0;
}

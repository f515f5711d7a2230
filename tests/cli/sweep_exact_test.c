/* `weir sweep` against the mock in one process, on a simulated clock: what it says of an endpoint is
 * exact, and does not depend on how busy the machine is. */
#include <math.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/inside.h"
#include "support/check.h"
#include "support/lockstep.h"

/* `weir sweep URL flags --json` before a mock of that configuration; the caller's. */
static json_t *sweep(const struct weir_mock_config *config, const char *flags, int *status)
{
    char line[512];
    snprintf(line, sizeof line, "sweep http://127.0.0.1:%u %s --json", lockstep_open(config),
             flags);
    json_t *all = inside_json(cli_sweep, line, status);
    lockstep_close();
    return all;
}

/* ---- the knee ---- */

static void check_knee(uint32_t replicas, uint32_t sequences, bool is_slower, bool is_whole)
{
    int status;
    char flags[200];
    struct weir_mock_config config = weir_mock_config_default();
    double capacity = replicas * sequences;
    config.replicas = replicas;
    config.sequences = sequences;
    config.step_ns = 8 * LOCKSTEP_TICK_NS;
    config.step_sequence_ns = is_slower ? LOCKSTEP_TICK_NS / 4 : 0;
    snprintf(flags, sizeof flags, "--model m --prompt 1 --output 10 --levels 1,2,4,8,16,32%s%s",
             capacity > 16 ? ",64,128" : "", is_whole ? " --whole" : "");
    json_t *all = sweep(&config, flags, &status);
    const json_t *knee = json_object_get(all, "knee");
    CHECK_INT(status, 0);
    CHECK_STR(json_string_value(json_object_get(knee, "result")), "found");
    CHECK_MSG(fabs(inside_number(knee, "at") - capacity) <= 0.1 * capacity,
              "capacity %.0f (%u replicas), slower %d, whole %d: the knee is at %.2f", capacity,
              replicas, is_slower, is_whole, inside_number(knee, "at"));
    CHECK_INT(json_integer_value(json_object_get(knee, "max_in_flight")),
              lround(inside_number(knee, "at")));
    json_decref(all);
}

static void knee__of_each_capacity__is_within_a_tenth(void **state)
{
    (void)state;
    static const struct {
        uint32_t replicas, sequences;
    } sizes[] = {{1, 1}, {1, 3}, {1, 6}, {3, 4}, {2, 10}, {3, 15}};
    for (uint32_t i = 0; i < WEIR_COUNT(sizes); i++) {
        check_knee(sizes[i].replicas, sizes[i].sequences, false, i % 2);
        check_knee(sizes[i].replicas, sizes[i].sequences, true, i % 2 == 0);
    }
}

/* ---- which failure ---- */

struct failure {
    const char *flags; /* beyond a=.. and b=.. */
    enum weir_mock_order order;
    uint32_t capacity, a, b;
    const char *want, *queues; /* queues fairly: "true", "false" or "null" */
};

static void check_failure(const struct failure *f)
{
    int status;
    char flags[200];
    struct weir_mock_config config = weir_mock_config_default();
    config.replicas = 1;
    config.sequences = f->capacity;
    config.order = f->order;
    config.step_ns = 4 * LOCKSTEP_TICK_NS;
    config.step_sequence_ns = 0;
    snprintf(flags, sizeof flags, "--model m --prompt 1 --clients a=%u,b=%u %s", f->a, f->b,
             f->flags);
    json_t *all = sweep(&config, flags, &status);
    const json_t *verdict = json_object_get(all, "verdict");
    const char *got = json_string_value(json_object_get(verdict, "failure"));
    char *queues = json_dumps(json_object_get(verdict, "queues_fairly"), JSON_ENCODE_ANY);
    CHECK_INT(status, 0);
    CHECK_MSG(got && strcmp(got, f->want) == 0,
              "order %d, capacity %u, a=%u, b=%u: %s, not %s; times %.2f, share %.2f",
              (int)f->order, f->capacity, f->a, f->b, got, f->want,
              inside_number(verdict, "times_one_alone"), inside_number(verdict, "worst_share"));
    CHECK_STR(queues, f->queues);
    free(queues);
    json_decref(all);
}

#define KEYS "--output 4 --key-env WEIR_KEY_A --key-env WEIR_KEY_B"

/* A batch of `capacity` at a time, and a + b in flight. */
static void failure__each_of_the_four__is_named(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 4; seed++) {
        const struct failure rows[] = {
            {KEYS, WEIR_MOCK_FIFO, 3 + seed, 20 + seed, 1, "overload and unfairness", "false"},
            {KEYS, WEIR_MOCK_STRICT, 3 + seed, 20 + seed, 1, "overload and unfairness", "false"},
            {KEYS, WEIR_MOCK_TURNS, 3 + seed, 20 + seed, 1, "overload", "true"},
            /* The first key's line never empties, and nobody waits long. */
            {KEYS, WEIR_MOCK_STRICT, 9 + seed, 20 + 2 * seed, 1, "unfairness", "false"},
            {KEYS, WEIR_MOCK_FIFO, 22 + seed, 20 + seed, 1, "neither", "null"},
        };
        for (size_t i = 0; i < WEIR_COUNT(rows); i++)
            check_failure(&rows[i]);
    }
}

/* Waiting there is, though too little to be called overload. */
static void failure__close_to_the_line__is_said_to_be_so(void **state)
{
    (void)state;
    int status;
    struct weir_mock_config config = weir_mock_config_default();
    config.replicas = 1;
    config.sequences = 3;
    config.step_ns = 4 * LOCKSTEP_TICK_NS;
    json_t *all = sweep(&config, "--model m --prompt 1 --output 4 --clients a=6,b=1", &status);
    const json_t *verdict = json_object_get(all, "verdict");
    const char *said = json_string_value(json_object_get(verdict, "text"));
    CHECK_STR(json_string_value(json_object_get(verdict, "failure")), "neither");
    CHECK_MSG(strstr(said, "Close to the line"), "%s", said);
    json_decref(all);
}

/* Alike, or of one key, they cannot see whether the endpoint queues fairly. */
static void queue__of_clients_that_cannot_tell__is_not_judged(void **state)
{
    (void)state;
    static const struct failure rows[] = {
        {KEYS, WEIR_MOCK_FIFO, 3, 8, 8, "overload", "null"},
        {KEYS, WEIR_MOCK_TURNS, 3, 8, 8, "overload", "null"},
        {KEYS, WEIR_MOCK_STRICT, 4, 8, 8, "overload and unfairness", "false"},
        {"--output 4", WEIR_MOCK_TURNS, 3, 20, 1, "overload and unfairness", "false"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        check_failure(&rows[i]);
}

static void caps__of_an_account_or_of_each_key__are_told_apart(void **state)
{
    (void)state;
    for (uint32_t limit = 4; limit <= 7; limit++)
        for (int is_per_key = 0; is_per_key < 2; is_per_key++)
            for (int is_met_alone = 0; is_met_alone < 2; is_met_alone++) {
                int status;
                char flags[200];
                struct weir_mock_config config = weir_mock_config_default();
                config.plain = true;
                config.latency_ns = 10 * LOCKSTEP_TICK_NS;
                config.fault = "retry-after-ms=40";
                *(is_per_key ? &config.key_in_flight_max : &config.in_flight_max) = limit;
                snprintf(
                    flags, sizeof flags,
                    "--model m --prompt 1 --key-env WEIR_KEY_A --key-env WEIR_KEY_B --levels %u",
                    is_met_alone ? limit + 2 : limit - 1);
                json_t *all = sweep(&config, flags, &status);
                const json_t *verdict = json_object_get(all, "verdict");
                const char *limits = json_string_value(json_object_get(verdict, "limits")),
                           *want = !is_per_key    ? "per_account"
                                   : is_met_alone ? "per_key"
                                                  : "not_met";
                CHECK_MSG(limits && strcmp(limits, want) == 0,
                          "limit %u, per key %d, met alone %d: %s, not %s", limit, is_per_key,
                          is_met_alone, limits, want);
                CHECK_INT(status, 0);
                json_decref(all);
            }
}

static int setup(void **state)
{
    (void)state;
    return setenv("WEIR_KEY_A", "sk-a-0123456789", 1) || setenv("WEIR_KEY_B", "sk-b-0123456789", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knee__of_each_capacity__is_within_a_tenth),
        cmocka_unit_test(failure__each_of_the_four__is_named),
        cmocka_unit_test(failure__close_to_the_line__is_said_to_be_so),
        cmocka_unit_test(queue__of_clients_that_cannot_tell__is_not_judged),
        cmocka_unit_test(caps__of_an_account_or_of_each_key__are_told_apart),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

/* Which failure it is, of endpoints made for it: the backend of the lab behind a line in one of
 * three orders, two unequal clients in a closed loop, alone and together. */
#include "measure/verdict.h"

#include "core/rng.h"
#include "lab/backend.h"
#include "lab/chance.h"
#include "support/check.h"

#include <stdlib.h>

enum order { FIFO, TURNS, FIRST_CLIENT_FIRST };

struct endpoint {
    uint32_t capacity;
    enum order order;
    uint32_t refuse_above; /* in flight, of all; 0: never */
    uint32_t key_above;    /* in flight, of one client; 0: never */
    uint64_t seed;
};

enum { CLIENTS = 2, JOBS = 4000 };

struct job {
    uint64_t sent_ns, took_ns;
    uint32_t client, place; /* place: how many its client had sent before */
    bool is_waiting, is_refused;
};

struct loop {
    const struct endpoint *e;
    struct weir_backend *b;
    struct weir_rng rng;
    struct job jobs[JOBS];
    uint32_t sent, running, turn, limit, again[JOBS], again_count;
    uint32_t sent_by[CLIENTS], in_flight[CLIENTS];
};

/* Whoever is refused comes again, as the loop goes on. */
static void loop_send(struct loop *l, uint32_t client, uint64_t now_ns)
{
    if (l->sent == l->limit)
        return;
    struct job *j = &l->jobs[l->sent++];
    *j = (struct job){.sent_ns = now_ns, .client = client, .place = l->sent_by[client]++};
    j->is_refused =
        (l->e->refuse_above && l->in_flight[0] + l->in_flight[1] >= l->e->refuse_above) ||
        (l->e->key_above && l->in_flight[client] >= l->e->key_above);
    j->is_waiting = !j->is_refused;
    l->in_flight[client] += !j->is_refused;
    if (j->is_refused) {
        j->took_ns = weir_rng_between(&l->rng, 20, 60) * WEIR_NS_PER_MS;
        l->again[l->again_count++] = l->sent - 1;
    }
}

/* When the first of the refused comes again; *place is where it is listed. */
static uint64_t loop_again_ns(const struct loop *l, uint32_t *place)
{
    uint64_t first_ns = WEIR_NEVER_NS;
    for (uint32_t i = 0; i < l->again_count; i++) {
        const struct job *j = &l->jobs[l->again[i]];
        if (j->sent_ns + j->took_ns < first_ns) {
            first_ns = j->sent_ns + j->took_ns;
            *place = i;
        }
    }
    return first_ns;
}

/* The waiting job whose turn it is, or WEIR_NONE. */
static uint32_t loop_choose(struct loop *l)
{
    uint32_t first[CLIENTS] = {WEIR_NONE, WEIR_NONE};
    for (uint32_t i = l->sent; i-- > 0;)
        if (l->jobs[i].is_waiting)
            first[l->jobs[i].client] = i;
    uint32_t oldest = first[0] < first[1] ? first[0] : first[1];
    if (first[0] == WEIR_NONE || first[1] == WEIR_NONE || l->e->order == FIFO)
        return oldest;
    return l->e->order == FIRST_CLIENT_FIRST ? first[0] : first[l->turn++ % CLIENTS];
}

static void loop_start(struct loop *l, uint64_t now_ns)
{
    uint32_t job;
    while (l->running < l->e->capacity && (job = loop_choose(l)) != WEIR_NONE) {
        static const struct weir_length output = {
            .kind = WEIR_LENGTH_UNIFORM, .low = 30, .high = 50};
        l->jobs[job].is_waiting = false;
        l->running++;
        weir_backend_join(l->b, job, 10, weir_length_draw(&output, &l->rng), now_ns);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What a client (CLIENTS: all of them) came to; what filled its line is left out where enough is left. */
static struct weir_verdict_run loop_run(const struct loop *l, uint32_t client,
                                        const uint32_t in_flight[CLIENTS])
{
    static uint64_t times[JOBS];
    struct weir_verdict_run run = {0};
    for (uint32_t i = 0; i < l->sent; i++) {
        const struct job *j = &l->jobs[i];
        if ((client != CLIENTS && j->client != client) ||
            (l->sent_by[j->client] >= 3 * in_flight[j->client] && j->place < in_flight[j->client]))
            continue;
        run.mean_ns += (double)j->took_ns;
        run.refused += j->is_refused;
        if (!j->is_refused)
            times[run.ok++] = j->took_ns;
    }
    qsort(times, run.ok, sizeof times[0], compare);
    run.median_ns = run.ok ? (double)times[run.ok / 2] : 0;
    run.mean_ns = run.ok + run.refused ? run.mean_ns / (double)(run.ok + run.refused) : 0;
    return run;
}

/* A closed loop of `limit` requests; runs[CLIENTS]: all. */
static void loop_go(const struct endpoint *e, const uint32_t in_flight[CLIENTS], uint32_t limit,
                    struct weir_verdict_run runs[CLIENTS + 1])
{
    static struct loop l;
    const struct weir_backend_rules rules = {.replicas = 1,
                                             .sequences = e->capacity,
                                             .step_ns = 6 * WEIR_NS_PER_MS,
                                             .step_sequence_ns = 50 * WEIR_NS_PER_US,
                                             .prefill_permille = 100};
    size_t bytes = weir_backend_bytes(&rules, JOBS);
    void *mem = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    memset(mem, 0, bytes);
    memset(&l, 0, sizeof l);
    l.e = e;
    l.limit = limit;
    l.b = weir_backend_init(mem, bytes, &rules, JOBS);
    weir_rng_seed(&l.rng, e->seed, limit);
    for (uint32_t c = 0; c < CLIENTS; c++)
        for (uint32_t i = 0; i < in_flight[c]; i++)
            loop_send(&l, c, 0);
    loop_start(&l, 0);
    while (l.running > 0 || l.again_count > 0) {
        struct weir_backend_event event;
        uint32_t place = 0;
        uint64_t due_ns = weir_backend_due_ns(l.b), again_ns = loop_again_ns(&l, &place);
        if (again_ns < due_ns) {
            uint32_t job = l.again[place];
            l.again[place] = l.again[--l.again_count];
            loop_send(&l, l.jobs[job].client, again_ns);
            loop_start(&l, again_ns);
            continue;
        }
        if (!weir_backend_next(l.b, due_ns, &event) || event.kind != WEIR_BACKEND_DONE)
            continue;
        struct job *j = &l.jobs[event.job];
        j->took_ns = event.at_ns - j->sent_ns;
        l.running--;
        l.in_flight[j->client]--;
        loop_send(&l, j->client, event.at_ns);
        loop_start(&l, event.at_ns);
    }
    for (uint32_t c = 0; c <= CLIENTS; c++)
        runs[c] = loop_run(&l, c, in_flight);
    free(mem);
}

static struct weir_verdict judge(const struct endpoint *e, uint32_t a, uint32_t b)
{
    struct weir_verdict_run light[CLIENTS + 1], runs[CLIENTS + 1];
    struct weir_verdict_client clients[CLIENTS] = {{.in_flight = a, .key = 0},
                                                   {.in_flight = b, .key = 1}};
    struct weir_verdict verdict;
    loop_go(e, (const uint32_t[]){0, 1}, 16, light);
    loop_go(e, (const uint32_t[]){a, 0}, 12 * a, runs);
    clients[0].alone = runs[0];
    loop_go(e, (const uint32_t[]){0, b}, b * 12 > 16 ? b * 12 : 16, runs);
    clients[1].alone = runs[1];
    loop_go(e, (const uint32_t[]){a, b}, 12 * (a + b), runs);
    clients[0].together = runs[0];
    clients[1].together = runs[1];
    weir_verdict_judge(light[1].median_ns, clients, CLIENTS, &runs[CLIENTS], &verdict);
    return verdict;
}

static void check_verdict(const struct endpoint *e, uint32_t a, uint32_t b, const char *want,
                          enum weir_verdict_queue queue)
{
    struct weir_verdict v = judge(e, a, b);
    CHECK_MSG(v.queue == queue, "a %u, b %u, capacity %u, order %d, seed %llu: queue %d, not %d", a,
              b, e->capacity, (int)e->order, (unsigned long long)e->seed, (int)v.queue, (int)queue);
    CHECK_MSG(strcmp(weir_verdict_name(&v), want) == 0,
              "a %u, b %u, capacity %u, order %d, seed %llu: %s, not %s; %.2f times, %.3f failed, "
              "shares %.2f %.2f",
              a, b, e->capacity, (int)e->order, (unsigned long long)e->seed, weir_verdict_name(&v),
              want, v.times, v.failed, v.shares[0].share, v.shares[1].share);
}

static void verdict__room_for_all__is_neither(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct endpoint e = {
            .capacity = (uint32_t)(41 + seed), .order = (enum order)(seed % 3), .seed = seed};
        check_verdict(&e, 40, 1, "neither", WEIR_QUEUE_UNTOLD);
        check_verdict(&e, 20, 20, "neither", WEIR_QUEUE_UNTOLD);
    }
}

static void verdict__many_before_few_places_in_a_fair_order__is_overload(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct endpoint e = {.capacity = (uint32_t)(3 + seed % 8), .order = TURNS, .seed = seed};
        check_verdict(&e, 40, 1, "overload", WEIR_QUEUE_FAIR);
        check_verdict(&e, 40, 3, "overload", WEIR_QUEUE_FAIR);
        e.order = FIFO; /* fair to equals */
        check_verdict(&e, 20, 20, "overload", WEIR_QUEUE_UNTOLD);
    }
}

static void verdict__in_order_of_arrival_one_takes_all__is_both(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct endpoint e = {.capacity = (uint32_t)(3 + seed % 8), .order = FIFO, .seed = seed};
        check_verdict(&e, 40, 1, "overload and unfairness", WEIR_QUEUE_UNFAIR);
        e.order = FIRST_CLIENT_FIRST;
        check_verdict(&e, 40, 1, "overload and unfairness", WEIR_QUEUE_UNFAIR);
    }
}

static void verdict__most_is_well_and_one_starves__is_unfairness(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct endpoint e = {
            .capacity = (uint32_t)(18 + seed % 8), .order = FIRST_CLIENT_FIRST, .seed = seed};
        check_verdict(&e, 40, 1, "unfairness", WEIR_QUEUE_UNFAIR);
        check_verdict(&e, 30, 2, "unfairness", WEIR_QUEUE_UNFAIR);
    }
}

static void verdict__refusals__tell_what_the_limit_holds_for(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct endpoint e = {.capacity = 60, .refuse_above = (uint32_t)(8 + seed), .seed = seed};
        struct weir_verdict v = judge(&e, 40, 1);
        CHECK(v.is_overload);
        CHECK_INT(v.caps, WEIR_CAPS_PER_ACCOUNT);
        v = judge(&e, 40, 40);
        CHECK_INT(v.caps, WEIR_CAPS_PER_ACCOUNT);
        v = judge(&e, 2, 1);
        CHECK_INT(v.caps, WEIR_CAPS_NOT_MET);
        e.key_above = e.refuse_above;
        e.refuse_above = 0;
        v = judge(&e, 40, 1);
        CHECK_INT(v.caps, WEIR_CAPS_PER_KEY);
        v = judge(&e, 40, 40);
        CHECK_MSG(v.caps == WEIR_CAPS_PER_KEY, "seed %llu: %d", (unsigned long long)seed, v.caps);
    }
}

static void verdict__nothing_ended_well__is_unknown(void **state)
{
    (void)state;
    struct weir_verdict_run none = {.failed = 10, .mean_ns = 1e6};
    struct weir_verdict_client clients[] = {{.in_flight = 3, .alone = none, .together = none}};
    struct weir_verdict v;
    weir_verdict_judge(0, clients, 1, &none, &v);
    CHECK_STR(weir_verdict_name(&v), "unknown");
    CHECK_INT(v.caps, WEIR_CAPS_ONE_KEY);
    CHECK(!v.is_overload && !v.is_unfair);
    weir_verdict_judge(1e6, clients, 1, &none, &v);
    CHECK_STR(weir_verdict_name(&v), "overload"); /* all failed together */
}

/* Refused, and nobody waits: there is no line whose order could be fair. */
static void verdict__refusals_without_a_line__tell_nothing_of_its_order(void **state)
{
    (void)state;
    const struct weir_verdict_run all = {.ok = 10, .refused = 30, .mean_ns = 1e9};
    struct weir_verdict_client clients[] = {
        {.in_flight = 39,
         .alone = {.ok = 9, .mean_ns = 1e9},
         .together = {.ok = 10, .refused = 30, .mean_ns = 1e9}},
        {.in_flight = 1,
         .alone = {.ok = 9, .mean_ns = 1e9},
         .together = {.ok = 5, .refused = 5, .mean_ns = 1e9}},
    };
    struct weir_verdict v;
    weir_verdict_judge(1e9, clients, WEIR_COUNT(clients), &all, &v);
    CHECK_STR(weir_verdict_name(&v), "overload");
    CHECK(v.shares[1].arrival < 1.0 / WEIR_VERDICT_TIMES);
    CHECK_INT(v.queue, WEIR_QUEUE_UNTOLD);
}

static void fair_share__by_hand__is_max_min(void **state)
{
    (void)state;
    /* Asked for alone: 1, 4, 9, 0 a second; together 10: fair is 1, 4, 5, 0. */
    const struct weir_verdict_run all = {.ok = 9, .mean_ns = 1e9};
    struct weir_verdict_client clients[] = {
        {.in_flight = 1,
         .alone = {.ok = 9, .mean_ns = 1e9, .median_ns = 1e9},
         .together = {.ok = 9, .mean_ns = 2e9, .median_ns = 2e9}},
        {.in_flight = 4, .alone = {.ok = 9, .mean_ns = 1e9}, .together = {.ok = 9, .mean_ns = 2e9}},
        {.in_flight = 9,
         .alone = {.ok = 9, .mean_ns = 1e9},
         .together = {.ok = 9, .mean_ns = 1.2e9}},
        {.in_flight = 5, .alone = {.failed = 3, .mean_ns = 1e9}, .together = {.failed = 3}},
    };
    struct weir_verdict v;
    weir_verdict_judge(1e9, clients, WEIR_COUNT(clients), &all, &v);
    static const double fair[] = {1, 4, 5, 0}, share[] = {0.5, 0.5, 1.5, 1};
    for (size_t i = 0; i < WEIR_COUNT(clients); i++)
        CHECK_MSG(v.shares[i].fair_per_s > fair[i] - 1e-9 &&
                      v.shares[i].fair_per_s < fair[i] + 1e-9 &&
                      v.shares[i].share > share[i] - 1e-9 && v.shares[i].share < share[i] + 1e-9,
                  "%zu: fair %f, share %f", i, v.shares[i].fair_per_s, v.shares[i].share);
    CHECK(v.shares[0].times == 2);
    CHECK_INT(v.worst, 0);
    CHECK(!v.is_unfair); /* half is no third */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdict__room_for_all__is_neither),
        cmocka_unit_test(verdict__many_before_few_places_in_a_fair_order__is_overload),
        cmocka_unit_test(verdict__in_order_of_arrival_one_takes_all__is_both),
        cmocka_unit_test(verdict__most_is_well_and_one_starves__is_unfairness),
        cmocka_unit_test(verdict__refusals__tell_what_the_limit_holds_for),
        cmocka_unit_test(verdict__nothing_ended_well__is_unknown),
        cmocka_unit_test(verdict__refusals_without_a_line__tell_nothing_of_its_order),
        cmocka_unit_test(fair_share__by_hand__is_max_min),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

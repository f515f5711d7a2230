#include "lab/adaptive_rivals.h"

#include <math.h>

struct rival {
    double limit, min, ceiling;
    /* the window */
    double sum_ns;
    uint32_t count, in_flight_most;
    bool is_dropped;
    uint64_t since_ns;
    /* Gradient2 */
    double long_ns;
    uint32_t seen;
    /* Vegas */
    double least_ns;
    double probe_in; /* samples until the least is taken anew */
    struct weir_rng rng;
};

static void rival_init(void *state, uint32_t min, uint32_t start, uint32_t ceiling)
{
    struct rival *v = state;
    *v = (struct rival){.limit = start, .min = min, .ceiling = ceiling};
    weir_rng_seed(&v->rng, 7, 7);
}

static uint32_t rival_limit(const void *state)
{
    return (uint32_t)((const struct rival *)state)->limit;
}

static uint32_t rival_started(void *state, uint32_t in_flight)
{
    (void)state;
    (void)in_flight;
    return 0;
}

static void rival_set(struct rival *v, double limit)
{
    v->limit = fmin(fmax(limit, v->min), v->ceiling);
}

/* ---- Gradient2 ---- */

static void gradient2_update(struct rival *v, double short_ns, uint32_t in_flight, bool is_dropped)
{
    (void)is_dropped; /* it goes by time alone */
    v->seen++;
    v->long_ns += (short_ns - v->long_ns) / (v->seen <= 10 ? v->seen : 601 / 2.0);
    if (v->long_ns / short_ns > 2)
        v->long_ns *= 0.95;
    if (in_flight < v->limit / 2)
        return;
    double gradient = fmax(0.5, fmin(1.0, 1.5 * v->long_ns / short_ns));
    rival_set(v, v->limit * 0.8 + (v->limit * gradient + 4) * 0.2);
}

/* ---- Vegas ---- */

static double vegas_probe(struct rival *v)
{
    return 30 * v->limit * (0.5 + (double)weir_rng_below(&v->rng, 1000) / 2000);
}

static void vegas_update(struct rival *v, double took_ns, uint32_t in_flight, bool is_dropped)
{
    if (v->least_ns == 0 || --v->probe_in <= 0) {
        v->probe_in = vegas_probe(v);
        v->least_ns = took_ns;
        return;
    }
    if (took_ns < v->least_ns) {
        v->least_ns = took_ns;
        return;
    }
    double step = fmax(1, floor(log10(v->limit)));
    if (is_dropped) {
        rival_set(v, v->limit - step);
        return;
    }
    if (in_flight < v->limit / 2)
        return;
    double queue = ceil(v->limit * (1 - v->least_ns / took_ns));
    if (queue <= step)
        rival_set(v, v->limit + 6 * step);
    else if (queue < 3 * step)
        rival_set(v, v->limit + step);
    else if (queue > 6 * step)
        rival_set(v, v->limit - step);
}

/* ---- windows ---- */

static void rival_sample(struct rival *v, uint64_t took_ns, uint32_t in_flight, bool is_dropped,
                         uint64_t now_ns, void (*update)(struct rival *v, double, uint32_t, bool))
{
    if (v->count == 0)
        v->since_ns = now_ns;
    v->sum_ns += (double)took_ns;
    v->count++;
    v->is_dropped |= is_dropped;
    v->in_flight_most = in_flight > v->in_flight_most ? in_flight : v->in_flight_most;
    if (v->count < 10 || now_ns - v->since_ns < WEIR_NS_PER_S)
        return;
    update(v, v->sum_ns / v->count, v->in_flight_most, v->is_dropped);
    v->sum_ns = 0;
    v->count = v->in_flight_most = 0;
    v->is_dropped = false;
}

static void rival_not(void *state, const struct rig_call *call, uint64_t now_ns)
{
    (void)state;
    (void)call;
    (void)now_ns;
}

#define RIVAL_TOLD(name, update, is_dropped)                                                       \
    static void name(void *state, const struct rig_call *call, uint64_t now_ns)                    \
    {                                                                                              \
        rival_sample(state, now_ns - call->started_ns, call->in_flight, is_dropped, now_ns,        \
                     update);                                                                      \
    }
RIVAL_TOLD(gradient2_told, gradient2_update, false)
RIVAL_TOLD(gradient2_dropped, gradient2_update, true)
RIVAL_TOLD(vegas_told, vegas_update, false)
RIVAL_TOLD(vegas_dropped, vegas_update, true)

/* ---- AIMD ---- */

static void aimd_update(struct rival *v, uint64_t took_ns, uint32_t in_flight, bool is_dropped)
{
    if (is_dropped || took_ns > 5 * WEIR_NS_PER_S)
        rival_set(v, floor(v->limit * 0.9));
    else if (in_flight * 2.0 >= v->limit)
        rival_set(v, v->limit + 1);
}

static void aimd_told(void *state, const struct rig_call *call, uint64_t now_ns)
{
    aimd_update(state, now_ns - call->started_ns, call->in_flight, false);
}

static void aimd_dropped(void *state, const struct rig_call *call, uint64_t now_ns)
{
    aimd_update(state, now_ns - call->started_ns, call->in_flight, true);
}

#define RIVAL(name_, first_, ended_, refused_)                                                     \
    {                                                                                              \
        .name = name_, .bytes = sizeof(struct rival), .init = rival_init, .limit = rival_limit,    \
        .started = rival_started, .first_byte = first_, .ended = ended_, .refused = refused_       \
    }

const struct rig_rule rig_gradient2 =
    RIVAL("Gradient2, whole call", rival_not, gradient2_told, gradient2_dropped);
const struct rig_rule rig_gradient2_first =
    RIVAL("Gradient2, first byte", gradient2_told, rival_not, gradient2_dropped);
const struct rig_rule rig_vegas = RIVAL("Vegas, whole call", rival_not, vegas_told, vegas_dropped);
const struct rig_rule rig_vegas_first =
    RIVAL("Vegas, first byte", vegas_told, rival_not, vegas_dropped);
const struct rig_rule rig_aimd = RIVAL("AIMD, whole call", rival_not, aimd_told, aimd_dropped);
const struct rig_rule rig_aimd_first =
    RIVAL("AIMD, first byte", aimd_told, rival_not, aimd_dropped);

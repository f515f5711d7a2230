#include "measure/verdict.h"

#include <math.h>

static uint64_t run_all(const struct weir_verdict_run *run)
{
    return run->ok + run->refused + run->failed;
}

/* What ended well a second. */
static double run_per_s(uint32_t in_flight, const struct weir_verdict_run *run)
{
    if (run->ok == 0 || !(run->mean_ns > 0))
        return 0;
    return in_flight / run->mean_ns * 1e9 * (double)run->ok / (double)run_all(run);
}

/* Likewise, counted between its first and its last. */
static double run_counted_per_s(const struct weir_verdict_run *run)
{
    return run->took_ns > 0 ? (double)run->ok / run->took_ns * 1e9 : 0;
}

static double run_refused(const struct weir_verdict_run *run)
{
    uint64_t all = run_all(run);
    return all ? (double)run->refused / (double)all : 0;
}

/* Max-min fair: whoever asks for less than an even part of what is left gets all it asks for. */
static void verdict_fill(struct weir_verdict_share *shares, size_t count, double total)
{
    size_t open = count;
    bool is_filled[WEIR_VERDICT_CLIENTS_MAX] = {false}, has_changed = true;
    while (has_changed && open > 0) {
        double even = total / (double)open;
        has_changed = false;
        for (size_t i = 0; i < count; i++) {
            if (is_filled[i] || shares[i].alone_per_s > even)
                continue;
            shares[i].fair_per_s = shares[i].alone_per_s;
            total -= shares[i].alone_per_s;
            is_filled[i] = has_changed = true;
            open--;
            break; /* the even part has changed */
        }
    }
    for (size_t i = 0; i < count; i++)
        if (!is_filled[i])
            shares[i].fair_per_s = total / (double)open;
}

/* What is in flight does not stay what it was where refusals end a run: Little's law would say too
 * much of such a run, and so of all beside it. Counting has edges, but the same in all of them. */
static double caps_per_s(const struct weir_verdict_client *client,
                         const struct weir_verdict_run *run, bool is_short)
{
    return is_short ? run_counted_per_s(run) : run_per_s(client->in_flight, run);
}

static enum weir_verdict_caps verdict_caps(const struct weir_verdict_client *clients, size_t count)
{
    double none = WEIR_VERDICT_REFUSED_NONE_PERMILLE / 1000.0;
    double some = WEIR_VERDICT_FAILED_PERMILLE / 1000.0, alone = 0, together = 0;
    bool is_one_key = true, is_met = false, is_new = false, is_vague = false, is_short = false;
    for (size_t i = 0; i < count; i++)
        is_short = is_short || clients[i].alone.is_short || clients[i].together.is_short;
    for (size_t i = 0; i < count; i++) {
        double before = run_refused(&clients[i].alone), now = run_refused(&clients[i].together);
        is_one_key = is_one_key && clients[i].key == clients[0].key;
        is_met = is_met || before > none || now > none;
        is_new = is_new || (before <= none && now >= some);
        is_vague = is_vague || (before <= none && now > none && now < some);
        alone += caps_per_s(&clients[i], &clients[i].alone, is_short);
        together += caps_per_s(&clients[i], &clients[i].together, is_short);
    }
    if (is_one_key)
        return WEIR_CAPS_ONE_KEY;
    if (!is_met)
        return WEIR_CAPS_NOT_MET;
    if (is_new)
        return WEIR_CAPS_PER_ACCOUNT;
    /* Whoever is refused is so by itself: do they get as much together as each alone? */
    if (is_vague || !(alone > 0))
        return WEIR_CAPS_UNCLEAR;
    return together > 0.8 * alone    ? WEIR_CAPS_PER_KEY
           : together < 0.67 * alone ? WEIR_CAPS_PER_ACCOUNT
                                     : WEIR_CAPS_UNCLEAR;
}

/* Of clients whose shares are known. */
static enum weir_verdict_queue verdict_queue(const struct weir_verdict *v, size_t count)
{
    bool is_telling = false;
    if (v->is_unfair)
        return WEIR_QUEUE_UNFAIR;
    for (size_t i = 0; i < count; i++)
        is_telling = is_telling || v->shares[i].arrival < 1.0 / WEIR_VERDICT_TIMES;
    return is_telling && v->times >= WEIR_VERDICT_TIMES ? WEIR_QUEUE_FAIR : WEIR_QUEUE_UNTOLD;
}

void weir_verdict_judge(double light_ns, const struct weir_verdict_client *clients, size_t count,
                        const struct weir_verdict_run *all, struct weir_verdict *verdict)
{
    WEIR_INVARIANT(count >= 1 && count <= WEIR_VERDICT_CLIENTS_MAX);
    *verdict = (struct weir_verdict){.caps = verdict_caps(clients, count)};
    double total = 0, in_flight = 0;
    for (size_t i = 0; i < count; i++) {
        struct weir_verdict_share *s = &verdict->shares[i];
        s->alone_per_s = run_per_s(clients[i].in_flight, &clients[i].alone);
        s->together_per_s = run_per_s(clients[i].in_flight, &clients[i].together);
        if (clients[i].alone.median_ns > 0)
            s->times = clients[i].together.median_ns / clients[i].alone.median_ns;
        total += s->together_per_s;
        in_flight += clients[i].in_flight;
    }
    verdict_fill(verdict->shares, count, total);
    for (uint32_t i = 0; i < count; i++) {
        struct weir_verdict_share *s = &verdict->shares[i];
        s->share = s->fair_per_s > 0 ? s->together_per_s / s->fair_per_s : 1;
        s->arrival =
            s->fair_per_s > 0 ? total * clients[i].in_flight / in_flight / s->fair_per_s : 1;
        if (s->share < verdict->shares[verdict->worst].share)
            verdict->worst = i;
    }
    verdict->is_known = light_ns > 0 && run_all(all) > 0;
    if (!verdict->is_known)
        return;
    verdict->times = all->mean_ns / light_ns;
    verdict->failed = (double)(all->refused + all->failed) / (double)run_all(all);
    verdict->is_overload = verdict->times >= WEIR_VERDICT_TIMES ||
                           verdict->failed * 1000 > WEIR_VERDICT_FAILED_PERMILLE;
    verdict->is_unfair = verdict->shares[verdict->worst].share < 1.0 / WEIR_VERDICT_TIMES;
    verdict->queue = verdict_queue(verdict, count);
}

const char *weir_verdict_name(const struct weir_verdict *verdict)
{
    if (!verdict->is_known)
        return "unknown";
    if (verdict->is_overload)
        return verdict->is_unfair ? "overload and unfairness" : "overload";
    return verdict->is_unfair ? "unfairness" : "neither";
}

/* verdict: which failure it is that several clients of one endpoint see.
 *
 * Two failures need different cures, and look alike from one client:
 *
 *   overload    more is in flight than the endpoint has room for: the mean time of all together is
 *               WEIR_VERDICT_TIMES what one request alone takes, or more than
 *               WEIR_VERDICT_FAILED_PERMILLE fail. Cure: bound what is in flight.
 *   unfairness  a client gets less than 1 / WEIR_VERDICT_TIMES of its fair share. Its fair share is
 *               max-min fair: what the clients got together is poured out evenly, up to what each
 *               got when it was alone. A client that asks for less than an even share should
 *               hardly notice the others. Cure: a fair order.
 *
 * In order of arrival a client with 40 in flight takes 40 times what one with 1 gets, and both wait
 * alike: medians side by side show nothing there, medians alone and together do. So an endpoint
 * that is overloaded and not unfair queues fairly only where order of arrival would have been
 * unfair to one of these clients.
 *
 * What a client gets follows from Little's law: in flight / mean time, of which the share that
 * ended well. Thread: any. Nothing allocates. Source: docs/sweep.md, "Which failure is it?". */
#ifndef WEIR_MEASURE_VERDICT_H
#define WEIR_MEASURE_VERDICT_H

#include "core/base.h"

#define WEIR_VERDICT_CLIENTS_MAX 16u
#define WEIR_VERDICT_TIMES 3u
#define WEIR_VERDICT_FAILED_PERMILLE 50u
#define WEIR_VERDICT_REFUSED_NONE_PERMILLE 10u /* up to here a client counts as not refused */

/* One run. Zero: nothing ended. */
struct weir_verdict_run {
    uint64_t ok, refused, failed; /* refused: by 429 */
    double mean_ns;               /* of the time of all of them, however they ended */
    double took_ns;               /* from the first sent to the last ended, by whomever */
    bool is_short;                /* refusals ended it before it had sent what it should */
    double median_ns; /* of those that ended well: to the first token, else to the end */
};

struct weir_verdict_client {
    uint32_t in_flight;
    uint32_t key; /* clients of one credential have one number */
    struct weir_verdict_run alone, together;
};

/* Of what limits (429) hold for. */
enum weir_verdict_caps {
    WEIR_CAPS_ONE_KEY,     /* all clients used one credential */
    WEIR_CAPS_NOT_MET,     /* nothing was refused */
    WEIR_CAPS_PER_KEY,     /* what one key does refuses no other */
    WEIR_CAPS_PER_ACCOUNT, /* a client is refused because of what another key did */
    WEIR_CAPS_UNCLEAR,
};

/* Whether what waits is served in a fair order. */
enum weir_verdict_queue {
    WEIR_QUEUE_UNTOLD, /* nothing waits, or the clients are so alike that arrival order is fair to them */
    WEIR_QUEUE_FAIR,
    WEIR_QUEUE_UNFAIR,
};

struct weir_verdict_share {
    double alone_per_s, together_per_s, fair_per_s;
    double share;   /* together / fair; 1 where it asked for nothing */
    double arrival; /* the share that it would have in order of arrival */
    double times;   /* median together / alone; 0: unknown */
};

struct weir_verdict {
    bool is_known; /* false: too little ended well to say anything */
    bool is_overload, is_unfair;
    double times;   /* mean time of all together / light_ns */
    double failed;  /* share of all together that was refused or failed */
    uint32_t worst; /* the client with the smallest share */
    enum weir_verdict_caps caps;
    enum weir_verdict_queue queue;
    struct weir_verdict_share shares[WEIR_VERDICT_CLIENTS_MAX];
};

/* light_ns: what one request takes when nobody else is there, to its end: the median, which one slow
 * start does not move; 0: unknown. all: of all clients together. count: 1 ..
 * WEIR_VERDICT_CLIENTS_MAX. */
void weir_verdict_judge(double light_ns, const struct weir_verdict_client *clients, size_t count,
                        const struct weir_verdict_run *all, struct weir_verdict *verdict);

/* "overload", "unfairness", "overload and unfairness", "neither", "unknown". Static. */
const char *weir_verdict_name(const struct weir_verdict *verdict);

#endif

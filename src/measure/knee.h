/* knee: where a concurrency curve stops giving more.
 *
 * Each level of a sweep keeps so many requests in flight, each next one sent when one ends. Then
 *
 *     in flight = throughput x mean time in the system        (Little's law, whatever the endpoint)
 *
 * which gives a level's throughput without the edges of its run, when the line fills and drains;
 * and up to the knee throughput grows with the level, and from there on only the time does: what is
 * in flight beyond the knee waits. The knee is found in two steps:
 *
 * 1. The first level, from below, that no later level beats by more than WEIR_KNEE_FLAT_PERMILLE in
 *    throughput, one later level having at least WEIR_KNEE_BEYOND_PERMILLE of its concurrency. The
 *    knee lies at it or between it and the level before it. Without such a level it is not reached.
 * 2. Between the two it is placed by Little's law again. Of the n in flight at a flat level those
 *    wait whose time to first token (without streams: whose whole time) is longer than service
 *    alone takes; service alone is the line through the two levels below, since a batch grows
 *    slower as it fills. With X the flat throughput and a + b x level that line, the knee is
 *    (n - X (time - a)) / (1 - X b), for whole times with n - X time = 0; the median over up to
 *    three flat levels, held between the two levels of step 1.
 *
 * Where a batch grows s times slower until it is full, 1 - X b is 1 / s for whole times: the curve is
 * nearly flat before the knee, and an error of 1 % in X moves its place by s %. That is told (blur).
 *
 * A level that was refused (429) or failed more than WEIR_KNEE_FAILED_PERMILLE is a limit too: the
 * curve ends before it, and that is said.
 *
 * Thread: any. Nothing allocates. Source: docs/sweep.md, "The knee". */
#ifndef WEIR_MEASURE_KNEE_H
#define WEIR_MEASURE_KNEE_H

#include "core/base.h"

#define WEIR_KNEE_LEVELS_MAX 64u
#define WEIR_KNEE_FLAT_PERMILLE 50u
#define WEIR_KNEE_BEYOND_PERMILLE 1250u
#define WEIR_KNEE_FAILED_PERMILLE 50u
#define WEIR_KNEE_BLUR_ROUGH 4.0 /* from here on the place is less certain than its levels */
#define WEIR_KNEE_OK_MIN 3u      /* answers without which a level says nothing */

/* What a level came to. Levels rise. */
struct weir_knee_level {
    uint32_t in_flight;
    uint64_t ok, refused, failed; /* refused: by 429 */
    double mean_ns;               /* of their time from sending to the end, in the steady part */
    double first_ns;              /* of their time to first token likewise; 0: unknown */
};

enum weir_knee_result {
    WEIR_KNEE_FOUND,
    WEIR_KNEE_NOT_REACHED, /* throughput still grows at the last level */
    WEIR_KNEE_REFUSED,     /* before throughput levelled off, 429s began */
    WEIR_KNEE_FAILING,     /* before throughput levelled off, other failures began */
    WEIR_KNEE_UNKNOWN,     /* fewer than two levels with answers */
};

struct weir_knee {
    enum weir_knee_result result;
    uint32_t low, high; /* FOUND: it lies in low .. high (the same where the first level is flat);
                              else the last good level, and the one that ended the curve or 0 */
    double at;          /* FOUND: where it is */
    double blur;        /* FOUND: an error of 1 % in throughput moves it by so many percent */
    double per_s;       /* the flat throughput; without a knee the largest */
    double growth;      /* NOT_REACHED: of throughput over the last two levels, 0.2 for 20 % */
    uint32_t max_in_flight; /* to set; 0: nothing can be said */
};

/* Answers a second at that level by Little's law; 0: unknown. */
double weir_knee_per_s(const struct weir_knee_level *level);

/* levels: count of them, at most WEIR_KNEE_LEVELS_MAX. */
void weir_knee_find(const struct weir_knee_level *levels, size_t count, struct weir_knee *knee);

#endif

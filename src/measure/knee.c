#include "measure/knee.h"

#include <math.h>

#define FLAT_USED_MAX 3u

double weir_knee_per_s(const struct weir_knee_level *level)
{
    return level->mean_ns > 0 ? level->in_flight / level->mean_ns * 1e9 : 0;
}

/* Levels that count, from below, up to the first that failed too often. */
static size_t knee_usable(const struct weir_knee_level *levels, size_t count,
                          struct weir_knee *knee)
{
    for (size_t i = 0; i < count; i++) {
        const struct weir_knee_level *l = &levels[i];
        uint64_t bad = l->refused + l->failed, all = bad + l->ok;
        if (bad * 1000 > all * WEIR_KNEE_FAILED_PERMILLE) {
            knee->result = l->refused >= l->failed ? WEIR_KNEE_REFUSED : WEIR_KNEE_FAILING;
            knee->high = l->in_flight;
            return i;
        }
        if (l->ok < WEIR_KNEE_OK_MIN || !(l->mean_ns > 0))
            return i;
    }
    return count;
}

static bool knee_is_flat_from(const struct weir_knee_level *levels, size_t count, size_t k)
{
    double most = weir_knee_per_s(&levels[k]) * (1 + WEIR_KNEE_FLAT_PERMILLE / 1000.0);
    bool is_beyond = false;
    for (size_t j = k + 1; j < count; j++) {
        if (weir_knee_per_s(&levels[j]) > most)
            return false;
        is_beyond = is_beyond || levels[j].in_flight * 1000.0 >=
                                     levels[k].in_flight * (double)WEIR_KNEE_BEYOND_PERMILLE;
    }
    return is_beyond;
}

/* The time that grows once requests wait. */
static double knee_time_ns(const struct weir_knee_level *l, bool has_first)
{
    return has_first ? l->first_ns : l->mean_ns;
}

/* The line of service alone, through the two levels below k (flat where there is one). */
static void knee_service(const struct weir_knee_level *levels, size_t k, bool has_first, double *a,
                         double *b)
{
    double y1 = knee_time_ns(&levels[k - 1], has_first);
    *a = y1;
    *b = 0;
    if (k < 2)
        return;
    double y0 = knee_time_ns(&levels[k - 2], has_first);
    *b = fmax((y1 - y0) / (double)(levels[k - 1].in_flight - levels[k - 2].in_flight), 0);
    *a = y1 - *b * levels[k - 1].in_flight;
}

static double median(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Where between level k - 1 and level k, the first flat one. */
static double knee_place(const struct weir_knee_level *levels, size_t count, size_t k, double *blur)
{
    double low = k > 0 ? levels[k - 1].in_flight : levels[0].in_flight, high = levels[k].in_flight;
    double at[FLAT_USED_MAX], a, b;
    size_t used = 0;
    bool has_first = true;
    *blur = 1;
    if (k == 0)
        return low;
    for (size_t i = 0; i < count; i++)
        has_first = has_first && levels[i].first_ns > 0;
    knee_service(levels, k, has_first, &a, &b);
    for (size_t j = k; j < count && used < FLAT_USED_MAX; j++) {
        double per_ns = weir_knee_per_s(&levels[j]) / 1e9, n = levels[j].in_flight;
        double in_service = has_first ? n - per_ns * (levels[j].first_ns - a) : per_ns * a;
        double left = 1 - per_ns * b; /* at most 0: service alone would never level off */
        *blur = fmax(*blur, left > 0.05 ? 1 / left : 20);
        at[used++] = left > 0.05 ? in_service / left : high;
    }
    return fmin(fmax(median(at, used), low), high);
}

void weir_knee_find(const struct weir_knee_level *levels, size_t count, struct weir_knee *knee)
{
    WEIR_INVARIANT(count <= WEIR_KNEE_LEVELS_MAX);
    *knee = (struct weir_knee){.result = WEIR_KNEE_NOT_REACHED};
    size_t usable = knee_usable(levels, count, knee);
    for (size_t i = 0; i < usable; i++)
        knee->per_s = fmax(knee->per_s, weir_knee_per_s(&levels[i]));
    for (size_t k = 0; k < usable; k++) {
        if (!knee_is_flat_from(levels, usable, k))
            continue;
        knee->result = WEIR_KNEE_FOUND;
        knee->low = levels[k > 0 ? k - 1 : 0].in_flight;
        knee->high = levels[k].in_flight;
        knee->at = knee_place(levels, usable, k, &knee->blur);
        knee->max_in_flight = (uint32_t)(knee->at + 0.5);
        return;
    }
    if (usable > 0)
        knee->low = knee->max_in_flight = levels[usable - 1].in_flight;
    if (knee->result == WEIR_KNEE_NOT_REACHED && usable < 2) {
        knee->result = WEIR_KNEE_UNKNOWN;
        knee->max_in_flight = 0; /* whether more would have gone well, nobody tried */
    } else if (usable > 1) {
        knee->growth =
            weir_knee_per_s(&levels[usable - 1]) / weir_knee_per_s(&levels[usable - 2]) - 1;
    }
}

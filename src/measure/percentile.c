#include "measure/percentile.h"

#include "core/num.h"

#include <stdlib.h>

bool weir_sample_init(struct weir_sample *sample, size_t room)
{
    WEIR_INVARIANT(room <= WEIR_SAMPLE_ROOM_MAX);
    *sample = (struct weir_sample){0};
    if (room > 0 && !(sample->values = malloc(room * sizeof *sample->values)))
        return false;
    sample->room = room;
    return true;
}

void weir_sample_free(struct weir_sample *sample)
{
    free(sample->values);
    *sample = (struct weir_sample){0};
}

void weir_sample_add(struct weir_sample *sample, uint64_t value)
{
    WEIR_INVARIANT(sample->count < sample->room);
    sample->values[sample->count++] = value;
}

static int compare_values(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t weir_sample_at(struct weir_sample *sample, uint32_t permille)
{
    WEIR_INVARIANT(permille <= 1000);
    if (sample->count == 0)
        return 0;
    if (sample->sorted < sample->count) {
        qsort(sample->values, sample->count, sizeof *sample->values, compare_values);
        sample->sorted = sample->count;
    }
    uint64_t rank = weir_muldiv_ceil(sample->count, permille, 1000);
    return sample->values[rank == 0 ? 0 : rank - 1];
}

uint64_t weir_sample_mean(const struct weir_sample *sample)
{
    uint64_t mean = 0, rest = 0; /* by parts: a sum could wrap */
    for (size_t i = 0; i < sample->count; i++) {
        mean += sample->values[i] / sample->count;
        rest += sample->values[i] % sample->count;
    }
    return sample->count ? mean + rest / sample->count : 0;
}

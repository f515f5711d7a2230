/* The gap against its twin and its bounds, the first byte choosing the policy. */
#include "core/gap_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tape_property *const properties[] = {gap_world_fifo, gap_world_drr, gap_world_drr_cost,
                                                gap_world_vtc};
    if (size == 0)
        return 0;
    return tape_fuzz(properties[data[0] % 4], data + 1, size - 1);
}

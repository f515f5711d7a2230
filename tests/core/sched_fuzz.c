/* The scheduler against its model, the first byte choosing the policy. */
#include "core/sched_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tape_property *const properties[] = {sched_model_fifo, sched_model_drr,
                                                sched_model_drr_cost, sched_model_vtc};
    if (size == 0)
        return 0;
    return tape_fuzz(properties[data[0] % 4], data + 1, size - 1);
}

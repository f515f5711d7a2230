/* The gate against its model. */
#include "core/gate_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return tape_fuzz(gate_model_holds, data, size);
}

/* The model on setups that the fuzzer makes. */
#include "lab/lab_setup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return tape_fuzz(lab_setup_any, data, size < 2000 ? size : 2000);
}

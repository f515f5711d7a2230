/* The property of backend_property.h on tapes that libFuzzer writes. */
#include "lab/backend_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return tape_fuzz(backend_property, data, size);
}

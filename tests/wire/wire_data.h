/* wire_data: the samples of tests/data/wire, read whole; and bytes in a block of their exact size,
 * so that a sanitizer sees a read beyond them. */
#ifndef WEIR_TESTS_WIRE_DATA_H
#define WEIR_TESTS_WIRE_DATA_H

#include <stdint.h>
#include <stdlib.h>

#include "support/check.h"

struct wire_bytes {
    uint8_t *at; /* malloc'd */
    size_t n;
};

static inline struct wire_bytes wire_copy(const void *bytes, size_t n)
{
    struct wire_bytes b = {malloc(n ? n : 1), n};
    CHECK(b.at != NULL);
    if (n)
        memcpy(b.at, bytes, n);
    return b;
}

/* A sample by its name below tests/data/wire. */
static inline struct wire_bytes wire_load(const char *name)
{
    const char *root = getenv("WEIR_TEST_DATA");
    char path[512];
    snprintf(path, sizeof path, "%s/wire/%s", root ? root : "tests/data", name);
    FILE *file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "%s", path);
    fseek(file, 0, SEEK_END);
    size_t n = (size_t)ftell(file);
    rewind(file);
    struct wire_bytes b = {malloc(n ? n : 1), n};
    CHECK(b.at != NULL);
    CHECK_INT(fread(b.at, 1, n, file), n);
    fclose(file);
    return b;
}

#endif

#include <string.h>

#include "trace/trace_inside.h"

/* Slots: a power of two at least twice the names, so that a search is short and always ends. */
static uint32_t names_slots(uint32_t max)
{
    uint32_t slots = 4;
    while (slots < max * 2)
        slots *= 2;
    return slots;
}

size_t trace_names_bytes(uint32_t max)
{
    return (size_t)max * WEIR_TRACE_NAME_BYTES + (size_t)names_slots(max) * sizeof(uint32_t);
}

void trace_names_init(struct trace_names *n, void *mem, uint32_t max)
{
    n->text = mem;
    n->slots = (uint32_t *)(void *)((char *)mem + (size_t)max * WEIR_TRACE_NAME_BYTES);
    n->slots_mask = names_slots(max) - 1;
    n->max = max;
    n->count = 1; /* the unnamed one needs no slot */
}

uint32_t trace_names_index(struct trace_names *n, const char *name)
{
    if (name[0] == '\0')
        return 0;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    size_t bytes = 1;                               /* with its NUL */
    for (const char *c = name; *c; c++, bytes++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    WEIR_INVARIANT(bytes <= WEIR_TRACE_NAME_BYTES);
    uint32_t slot = (uint32_t)(hash >> 32) & n->slots_mask;
    for (; n->slots[slot] != 0; slot = (slot + 1) & n->slots_mask)
        if (memcmp(n->text[n->slots[slot]], name, bytes) == 0)
            return n->slots[slot];
    if (n->count == n->max)
        return WEIR_NONE;
    memcpy(n->text[n->count], name, bytes);
    n->slots[slot] = n->count;
    return n->count++;
}

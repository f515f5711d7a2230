#include "gateway/config_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_named(const void *a, const void *b)
{
    const struct weir_named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

struct weir_names weir_names_collect(const void *rows, uint32_t count, size_t row_bytes)
{
    struct weir_names names = {
        weir_config_must(calloc(count ? count : 1, sizeof(struct weir_named))), 0};
    for (uint32_t i = 0; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)rows + i * row_bytes, sizeof name);
        if (name)
            names.list[names.count++] = (struct weir_named){name, i};
    }
    qsort(names.list, names.count, sizeof *names.list, compare_named);
    return names;
}

uint32_t weir_names_find(const struct weir_names *names, const char *name)
{
    uint32_t low = 0, high = names->count;
    while (low < high) { /* the first of its name */
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(names->list[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < names->count && strcmp(names->list[low].name, name) == 0 ? names->list[low].index
                                                                          : WEIR_NONE;
}

void weir_names_check_unique(struct weir_loader *loader, const struct weir_names *names,
                             const void *rows, size_t row_bytes, const char *what)
{
    for (uint32_t i = 1; i < names->count; i++) {
        if (strcmp(names->list[i - 1].name, names->list[i].name) != 0)
            continue;
        const char *row = (const char *)rows + names->list[i].index * row_bytes;
        const char *before = (const char *)rows + names->list[i - 1].index * row_bytes;
        weir_loader_error_at(loader, row, "%s '%s' is given twice; first on line %u", what,
                             names->list[i].name, weir_loader_place(loader, before).line);
    }
}

uint32_t weir_names_resolve(struct weir_loader *loader, const void *field, const char *name,
                            const struct weir_names *names, const char *what)
{
    uint32_t index = weir_names_find(names, name);
    if (index != WEIR_NONE)
        return index;
    enum { KNOWN_MAX = 200 };
    const char *known[KNOWN_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < names->count && count < KNOWN_MAX; i++)
        known[count++] = names->list[i].name;
    char before[64];
    snprintf(before, sizeof before, "there is no %s", what);
    weir_loader_unknown(loader, weir_loader_place(loader, field), before, name, "", known, count);
    return WEIR_NONE;
}

void weir_names_free(struct weir_names *names)
{
    free(names->list);
}

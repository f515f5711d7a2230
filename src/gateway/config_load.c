#include "gateway/config_load.h"

#include "gateway/config_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROBLEMS_MAX = 200, /* errors, and warnings; after that only their number is of interest */
    BLOCK_BYTES = 16 << 10
};

/* ---- memory: blocks that live as long as the config ---- */

struct block {
    struct block *next;
    size_t used, room;
    _Alignas(16) unsigned char bytes[];
};

struct weir_config_private {
    struct block *blocks;
    struct weir_zone **zones;
    size_t zones_count;
    struct weir_secrets *secrets; /* NULL: none yet */
    struct weir_mark *given;      /* by address; NULL: not kept */
    size_t given_count;
};

void *weir_config_must(void *memory)
{
    if (!memory)
        weir_config_no_memory();
    return memory;
}

void *weir_config_alloc(struct weir_config *config, size_t count, size_t bytes)
{
    size_t wanted;
    if (__builtin_mul_overflow(count, bytes, &wanted) || wanted > SIZE_MAX / 2)
        weir_config_no_memory();
    wanted = (wanted + 15) & ~(size_t)15;
    struct block *block = config->private->blocks;
    if (!block || block->room - block->used < wanted) {
        size_t room = wanted > BLOCK_BYTES ? wanted : BLOCK_BYTES;
        block = weir_config_must(calloc(1, sizeof *block + room));
        block->room = room;
        block->next = config->private->blocks;
        config->private->blocks = block;
    }
    void *memory = block->bytes + block->used;
    block->used += wanted;
    return memory;
}

char *weir_config_text(struct weir_config *config, const char *text, size_t bytes)
{
    char *copy = weir_config_alloc(config, bytes + 1, 1);
    memcpy(copy, text, bytes);
    return copy;
}

const struct weir_zone *weir_config_zone(struct weir_config *config, const char *name)
{
    struct weir_config_private *private = config->private;
    for (size_t i = 0; i < private->zones_count; i++)
        if (strcmp(weir_zone_name(private->zones[i]), name) == 0)
            return private->zones[i];
    struct weir_zone *zone = weir_zone_open(name);
    if (!zone)
        return NULL;
    private->zones = weir_config_must(
        realloc(private->zones, (private->zones_count + 1) * sizeof(struct weir_zone *)));
    private->zones[private->zones_count++] = zone;
    return zone;
}

struct weir_secrets **weir_config_secrets(struct weir_config *config)
{
    return &config->private->secrets;
}

struct weir_config *weir_config_new(void)
{
    struct weir_config *config = weir_config_must(calloc(1, sizeof *config));
    config->private = weir_config_must(calloc(1, sizeof *config->private));
    return config;
}

void weir_config_free(struct weir_config *config)
{
    if (!config)
        return;
    for (struct block *block = config->private->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    weir_config_free_secrets(config->private->secrets);
    for (size_t i = 0; i < config->private->zones_count; i++)
        weir_zone_close(config->private->zones[i]);
    free(config->private->zones);
    free(config->private->given);
    free(config->private);
    free(config);
}

/* ---- problems ---- */

static void add_problem(struct weir_loader *loader, struct weir_place place, bool is_warning,
                        const char *format, va_list arguments)
{
    struct weir_config_problems *problems = loader->problems;
    if (++*(is_warning ? &problems->warnings : &problems->errors) > PROBLEMS_MAX)
        return;
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        weir_config_no_memory();
    problems->list =
        weir_config_must(realloc(problems->list, (problems->count + 1) * sizeof *problems->list));
    problems->list[problems->count++] =
        (struct weir_config_problem){.where = weir_config_must(strdup(place.where)),
                                     .line = place.line,
                                     .column = place.column,
                                     .is_warning = is_warning,
                                     .text = text};
}

void weir_loader_error(struct weir_loader *loader, struct weir_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_problem(loader, place, false, format, arguments);
    va_end(arguments);
}

void weir_loader_error_at(struct weir_loader *loader, const void *field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_problem(loader, weir_loader_place(loader, field), false, format, arguments);
    va_end(arguments);
}

void weir_loader_warn_at(struct weir_loader *loader, const void *field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_problem(loader, weir_loader_place(loader, field), true, format, arguments);
    va_end(arguments);
}

bool weir_loader_tells(const struct weir_loader *loader)
{
    return loader->problems->errors < PROBLEMS_MAX;
}

void weir_loader_warn(struct weir_loader *loader, struct weir_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_problem(loader, place, true, format, arguments);
    va_end(arguments);
}

void weir_config_problems_free(struct weir_config_problems *problems)
{
    for (uint32_t i = 0; i < problems->count; i++) {
        free((char *)problems->list[i].where);
        free((char *)problems->list[i].text);
    }
    free(problems->list);
    *problems = (struct weir_config_problems){0};
}

/* In the order of the file; a stable insertion sort, for the list is short. */
void weir_loader_sort_problems(struct weir_config_problems *problems)
{
    for (uint32_t i = 1; i < problems->count; i++) {
        struct weir_config_problem moved = problems->list[i];
        uint32_t at = i;
        while (at > 0 && (problems->list[at - 1].line > moved.line ||
                          (problems->list[at - 1].line == moved.line &&
                           problems->list[at - 1].column > moved.column))) {
            problems->list[at] = problems->list[at - 1];
            at--;
        }
        problems->list[at] = moved;
    }
}

void weir_loader_unknown(struct weir_loader *loader, struct weir_place place, const char *before,
                         const char *word, const char *after, const char *const *known,
                         size_t known_count)
{
    const char *near = weir_value_suggest(word, known, known_count);
    if (near)
        weir_loader_error(loader, place, "%s '%s'%s; did you mean '%s'?", before, word, after,
                          near);
    else
        weir_loader_error(loader, place, "%s '%s'%s", before, word, after);
}

/* ---- where a value came from ---- */

void weir_loader_mark(struct weir_loader *loader, const void *field, struct weir_place place)
{
    if (loader->marks_count == loader->marks_room) {
        loader->marks_room = loader->marks_room ? loader->marks_room * 2 : 256;
        loader->marks =
            weir_config_must(realloc(loader->marks, loader->marks_room * sizeof *loader->marks));
    }
    loader->marks[loader->marks_count++] = (struct weir_mark){field, place};
    loader->marks_sorted = false;
}

/* By address; of two for one field the flag's, which has no line, goes before the file's. */
static int compare_marks(const void *a, const void *b)
{
    const struct weir_mark *x = a, *y = b;
    if (x->field != y->field)
        return ((uintptr_t)x->field > (uintptr_t)y->field) -
               ((uintptr_t)x->field < (uintptr_t)y->field);
    return (x->place.line > y->place.line) - (x->place.line < y->place.line);
}

/* The first of that field; marks are by address. */
static const struct weir_mark *search_marks(const struct weir_mark *marks, size_t count,
                                            const void *field)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)marks[middle].field < (uintptr_t)field)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && marks[low].field == field ? &marks[low] : NULL;
}

static void sort_marks(struct weir_loader *loader)
{
    if (!loader->marks_sorted && loader->marks_count)
        qsort(loader->marks, loader->marks_count, sizeof *loader->marks, compare_marks);
    loader->marks_sorted = true;
}

static const struct weir_mark *find_mark(struct weir_loader *loader, const void *field)
{
    sort_marks(loader);
    return search_marks(loader->marks, loader->marks_count, field);
}

void weir_loader_keep_given(struct weir_loader *loader)
{
    struct weir_config_private *private = loader->config->private;
    sort_marks(loader);
    private->given = loader->marks;
    private->given_count = loader->marks_count;
    loader->marks = NULL;
    loader->marks_count = loader->marks_room = 0;
}

bool weir_config_is_given(const struct weir_config *config, const void *field)
{
    WEIR_INVARIANT(config->private->given);
    return search_marks(config->private->given, config->private->given_count, field) != NULL;
}

struct weir_place weir_loader_place(struct weir_loader *loader, const void *field)
{
    const struct weir_mark *mark = find_mark(loader, field);
    return mark ? mark->place : loader->whole;
}

bool weir_loader_given(struct weir_loader *loader, const void *field)
{
    return find_mark(loader, field) != NULL;
}

void weir_loader_move_marks(struct weir_loader *loader, const void *old, size_t bytes,
                            const void *moved)
{
    for (size_t i = 0; i < loader->marks_count; i++) {
        uintptr_t from = (uintptr_t)loader->marks[i].field - (uintptr_t)old;
        if (from < bytes)
            loader->marks[i].field = (const char *)moved + from;
    }
    loader->marks_sorted = false;
}

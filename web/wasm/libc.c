/* libc: what of the C library is better small here: malloc and its kin, memcpy and its kin, qsort and
 * strstr, for a module that lives in one page.
 *
 * The C library's allocator is 11 KB; a load and a run ask for a few hundred pieces and give all of
 * them back. Pieces are powers of two, and what is given back is kept for the next of its size: what
 * one setup needed is there for the next, and loading the same setup again takes nothing more. The
 * libc's memcpy goes byte by byte; the machine has an instruction for it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 65536, HEAD_BYTES = 16, CLASS_MIN = 5, CLASS_MAX = 31 };

/* Before each piece; its memory is aligned to 16 bytes. */
struct head {
    uint32_t class;    /* the piece has 1 << class bytes, the head among them */
    struct head *next; /* while it is free */
};

static struct head *free_lists[CLASS_MAX + 1];
extern unsigned char __heap_base; /* by the linker: where the data ends */
static uintptr_t heap_end;        /* of what was given out */

static void *grow(size_t bytes)
{
    if (heap_end == 0)
        heap_end = ((uintptr_t)&__heap_base + 63) & ~(uintptr_t)63;
    uintptr_t end = heap_end + bytes;
    size_t have = __builtin_wasm_memory_size(0) * (size_t)PAGE_BYTES;
    if (end < heap_end)
        return NULL;
    if (end > have &&
        __builtin_wasm_memory_grow(0, (end - have + PAGE_BYTES - 1) / PAGE_BYTES) == SIZE_MAX)
        return NULL;
    void *memory = (void *)heap_end;
    heap_end = end;
    return memory;
}

void *malloc(size_t bytes)
{
    if (bytes > (UINT32_C(1) << CLASS_MAX) - HEAD_BYTES)
        return NULL;
    uint32_t class = CLASS_MIN;
    while ((UINT32_C(1) << class) < bytes + HEAD_BYTES)
        class ++;
    struct head *head = free_lists[class];
    if (head)
        free_lists[class] = head->next;
    else
        head = grow((size_t)1 << class);
    if (!head)
        return NULL;
    head->class = class;
    return (char *)head + HEAD_BYTES;
}

void free(void *memory)
{
    if (!memory)
        return;
    struct head *head = (struct head *)((char *)memory - HEAD_BYTES);
    head->next = free_lists[head->class];
    free_lists[head->class] = head;
}

void *calloc(size_t count, size_t bytes)
{
    size_t wanted;
    if (__builtin_mul_overflow(count, bytes, &wanted))
        return NULL;
    void *memory = malloc(wanted);
    return memory ? memset(memory, 0, wanted) : NULL;
}

void *realloc(void *memory, size_t bytes)
{
    if (!memory)
        return malloc(bytes);
    size_t room = ((size_t)1 << ((struct head *)((char *)memory - HEAD_BYTES))->class) - HEAD_BYTES;
    if (bytes <= room)
        return memory;
    void *more = malloc(bytes);
    if (!more)
        return NULL;
    memcpy(more, memory, room);
    free(memory);
    return more;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    return __builtin_memcpy(to, from, bytes);
}

void *memmove(void *to, const void *from, size_t bytes)
{
    return __builtin_memmove(to, from, bytes);
}

void *memset(void *to, int byte, size_t bytes)
{
    return __builtin_memset(to, byte, bytes);
}

/* ---- sorting, searching ---- */

/* Merges two neighbours, left before right where they are alike: the order does not depend on who
 * sorts. */
static void merge(char *to, const char *left, const char *middle, const char *right, size_t bytes,
                  int (*compare)(const void *, const void *))
{
    const char *a = left, *b = middle;
    for (; a < middle || b < right; to += bytes) {
        bool takes_left = b == right || (a < middle && compare(a, b) <= 0);
        memcpy(to, takes_left ? a : b, bytes);
        *(takes_left ? &a : &b) += bytes;
    }
}

void qsort(void *list, size_t count, size_t bytes, int (*compare)(const void *, const void *))
{
    char *from = list, *scratch = malloc(count * bytes + 1), *to = scratch;
    if (!scratch)
        __builtin_trap();
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t at = 0; at < count; at += 2 * width) {
            size_t middle = at + width < count ? at + width : count;
            size_t end = at + 2 * width < count ? at + 2 * width : count;
            merge(to + at * bytes, from + at * bytes, from + middle * bytes, from + end * bytes,
                  bytes, compare);
        }
        char *other = from;
        from = to;
        to = other;
    }
    if (from != list)
        memcpy(list, from, count * bytes);
    free(scratch);
}

char *strstr(const char *text, const char *word)
{
    size_t bytes = strlen(word);
    for (; strncmp(text, word, bytes) != 0; text++)
        if (!*text)
            return NULL;
    return (char *)text;
}

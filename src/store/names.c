#include "store/names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct name {
    char text[WEIR_NAME_BYTES_MAX]; /* empty: free */
    uint32_t next_free;             /* plus one */
    uint32_t leaving;               /* turn of the last leave; 0: it stays */
};

/* Names by number, and a hash of them: open addressing, at most half full, no tombstones. */
struct table {
    struct name *names;
    uint32_t *hash; /* number plus one; 0: empty */
    uint32_t max, hash_mask;
    uint32_t touched; /* numbers from here on were never used */
    uint32_t free;    /* plus one */
};

struct weir_names {
    struct table scopes, labels;
    _Atomic uint32_t labels_now;
    uint32_t turns;
    void *memory;
    size_t memory_bytes;
};

static uint32_t hash_of(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (uint32_t)(h ^ h >> 32);
}

static uint32_t *table_place(const struct table *t, const char *text)
{
    uint32_t at = hash_of(text) & t->hash_mask;
    while (t->hash[at] && strcmp(t->names[t->hash[at] - 1].text, text) != 0)
        at = (at + 1) & t->hash_mask;
    return &t->hash[at];
}

static uint32_t table_find(const struct table *t, const char *text)
{
    uint32_t number = *table_place(t, text);
    return number ? number - 1 : WEIR_NONE;
}

static uint32_t table_add(struct table *t, const char *text)
{
    uint32_t *place = table_place(t, text), number = t->free;
    if (*place)
        return *place - 1;
    if (number)
        t->free = t->names[number - 1].next_free;
    else if (t->touched < t->max)
        number = ++t->touched;
    else
        return WEIR_NONE;
    *place = number;
    strcpy(t->names[number - 1].text, text); /* the callers know that it fits */
    return number - 1;
}

static void table_remove(struct table *t, uint32_t number)
{
    struct name *name = &t->names[number];
    uint32_t at = (uint32_t)(table_place(t, name->text) - t->hash);
    for (uint32_t next = (at + 1) & t->hash_mask; t->hash[next]; next = (next + 1) & t->hash_mask) {
        uint32_t home = hash_of(t->names[t->hash[next] - 1].text) & t->hash_mask;
        if (((next - home) & t->hash_mask) >= ((next - at) & t->hash_mask)) {
            t->hash[at] = t->hash[next];
            at = next;
        }
    }
    t->hash[at] = 0;
    name->text[0] = '\0';
    name->leaving = 0;
    name->next_free = t->free;
    t->free = number + 1;
}

static size_t table_bytes(struct table *t, uint32_t max)
{
    uint32_t slots = 16;
    while (slots < 2 * (uint64_t)max)
        slots *= 2;
    t->max = max;
    t->hash_mask = slots - 1;
    return max * sizeof(struct name) + slots * sizeof(uint32_t);
}

static char *table_place_in(struct table *t, char *memory)
{
    t->names = (struct name *)(void *)memory;
    t->hash = (uint32_t *)(void *)(memory + t->max * sizeof(struct name));
    return (char *)(t->hash + t->hash_mask + 1);
}

struct weir_names *weir_names_create(uint32_t scopes_max, uint32_t labels_max)
{
    struct weir_names *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->memory_bytes = table_bytes(&n->scopes, scopes_max) + table_bytes(&n->labels, labels_max);
    n->memory = mmap(NULL, n->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (n->memory == MAP_FAILED) {
        free(n);
        return NULL;
    }
    table_place_in(&n->labels, table_place_in(&n->scopes, n->memory));
    uint32_t other = weir_names_label(n, "other");
    WEIR_INVARIANT(other == WEIR_LABEL_OTHER);
    return n;
}

void weir_names_destroy(struct weir_names *n)
{
    if (!n)
        return;
    munmap(n->memory, n->memory_bytes);
    free(n);
}

static bool name_is_good(const char *name)
{
    return name[0] != '\0' && strlen(name) < WEIR_NAME_BYTES_MAX;
}

uint32_t weir_names_scope(struct weir_names *n, const char *name)
{
    return name_is_good(name) ? table_add(&n->scopes, name) : WEIR_NONE;
}

uint32_t weir_names_scope_find(const struct weir_names *n, const char *name)
{
    return name_is_good(name) ? table_find(&n->scopes, name) : WEIR_NONE;
}

const char *weir_names_scope_text(const struct weir_names *n, uint32_t slot)
{
    if (slot >= n->scopes.max || n->scopes.names[slot].text[0] == '\0')
        return NULL;
    return n->scopes.names[slot].text;
}

uint32_t weir_names_scope_leave(struct weir_names *n, uint32_t slot)
{
    if (!weir_names_scope_text(n, slot))
        return 0;
    n->turns += n->turns == UINT32_MAX ? 2 : 1; /* 0 means that it stays */
    n->scopes.names[slot].leaving = n->turns;
    return n->turns;
}

void weir_names_scope_stay(struct weir_names *n, uint32_t slot)
{
    if (weir_names_scope_text(n, slot))
        n->scopes.names[slot].leaving = 0;
}

void weir_names_scope_left(struct weir_names *n, uint32_t slot, uint32_t turn)
{
    if (turn != 0 && weir_names_scope_text(n, slot) && n->scopes.names[slot].leaving == turn)
        table_remove(&n->scopes, slot);
}

uint32_t weir_names_scopes_max(const struct weir_names *n)
{
    return n->scopes.max;
}

uint32_t weir_names_label(struct weir_names *n, const char *text)
{
    char cut[WEIR_NAME_BYTES_MAX];
    size_t bytes = strnlen(text, sizeof cut - 1);
    if (bytes == 0)
        return WEIR_LABEL_OTHER;
    memcpy(cut, text, bytes);
    while (text[bytes] != '\0' && bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes--; /* not in the middle of a character */
    cut[bytes] = '\0';
    uint32_t label = bytes > 0 ? table_add(&n->labels, cut) : WEIR_NONE;
    /* Released after the text: who reads the number may read the text. */
    atomic_store_explicit(&n->labels_now, n->labels.touched, memory_order_release);
    return label != WEIR_NONE ? label : WEIR_LABEL_OTHER;
}

const char *weir_names_label_text(const struct weir_names *n, uint32_t label)
{
    return n->labels.names[label < weir_names_labels(n) ? label : WEIR_LABEL_OTHER].text;
}

uint32_t weir_names_labels(const struct weir_names *n)
{
    return atomic_load_explicit(&n->labels_now, memory_order_acquire);
}

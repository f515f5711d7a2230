#include "gateway/idempotency_inside.h"

#include <stdlib.h>
#include <string.h>

#define IDEMPOTENCY_TICK_MAX 4096    /* keys looked at in one tick; the rest in the next */
#define IDEMPOTENCY_FIRST_BYTES 4096 /* room of a recording whose length is not known */

/* ---- lists: which is the offset of the links in an entry ---- */

static struct links *links_of(struct weir_idempotency *s, uint32_t slot_1, size_t which)
{
    return (struct links *)(void *)((char *)&s->entries[slot_1 - 1] + which);
}

static void list_append(struct weir_idempotency *s, struct list *list, size_t which, uint32_t slot)
{
    struct links *links = links_of(s, slot + 1, which);
    *links = (struct links){.older_1 = list->newest_1};
    if (list->newest_1)
        links_of(s, list->newest_1, which)->newer_1 = slot + 1;
    else
        list->oldest_1 = slot + 1;
    list->newest_1 = slot + 1;
}

static void list_remove(struct weir_idempotency *s, struct list *list, size_t which, uint32_t slot)
{
    struct links *links = links_of(s, slot + 1, which);
    if (links->older_1)
        links_of(s, links->older_1, which)->newer_1 = links->newer_1;
    else
        list->oldest_1 = links->newer_1;
    if (links->newer_1)
        links_of(s, links->newer_1, which)->older_1 = links->older_1;
    else
        list->newest_1 = links->older_1;
    *links = (struct links){0};
}

/* ---- owners: who has most makes room ---- */

static void owner_rank(struct weir_heap *heap, uint32_t owner, uint64_t amount)
{
    if (amount == 0 && weir_heap_has(heap, owner))
        weir_heap_remove(heap, owner);
    else if (amount > 0 && weir_heap_has(heap, owner))
        weir_heap_rekey(heap, owner, UINT64_MAX - amount);
    else if (amount > 0)
        weir_heap_push(heap, owner, UINT64_MAX - amount);
}

/* A KEPT answer of nobody's reading may be dropped. */
static void evictable_add(struct weir_idempotency *s, uint32_t slot)
{
    struct entry *e = &s->entries[slot];
    struct owner *o = &s->owners[e->owner];
    list_append(s, &o->evictable, EVICTABLE, slot);
    o->evictable_bytes += e->answer->room;
    owner_rank(&s->by_bytes, e->owner, o->evictable_bytes);
}

static void evictable_remove(struct weir_idempotency *s, uint32_t slot)
{
    struct entry *e = &s->entries[slot];
    struct owner *o = &s->owners[e->owner];
    list_remove(s, &o->evictable, EVICTABLE, slot);
    o->evictable_bytes -= e->answer->room;
    owner_rank(&s->by_bytes, e->owner, o->evictable_bytes);
}

/* An ended key of nobody's reading may be forgotten, and so may its answer. */
static void forgettable_add(struct weir_idempotency *s, uint32_t slot)
{
    struct entry *e = &s->entries[slot];
    struct owner *o = &s->owners[e->owner];
    list_append(s, &o->forgettable, FORGETTABLE, slot);
    owner_rank(&s->by_keys, e->owner, ++o->forgettable_now);
    if (e->state == ENTRY_KEPT)
        evictable_add(s, slot);
}

static void forgettable_remove(struct weir_idempotency *s, uint32_t slot)
{
    struct entry *e = &s->entries[slot];
    struct owner *o = &s->owners[e->owner];
    list_remove(s, &o->forgettable, FORGETTABLE, slot);
    owner_rank(&s->by_keys, e->owner, --o->forgettable_now);
    if (e->state == ENTRY_KEPT)
        evictable_remove(s, slot);
}

/* ---- the table: chains, since keys are digests under a secret and spread by themselves ---- */

static uint32_t *bucket_of(struct weir_idempotency *s, const struct weir_idempotency_id *id)
{
    uint32_t h;
    memcpy(&h, id->key, sizeof h);
    return &s->buckets[h & s->buckets_mask];
}

static uint32_t table_find(struct weir_idempotency *s, const struct weir_idempotency_id *id)
{
    for (uint32_t at_1 = *bucket_of(s, id); at_1; at_1 = s->entries[at_1 - 1].chain_1)
        if (memcmp(s->entries[at_1 - 1].id.key, id->key, sizeof id->key) == 0)
            return at_1 - 1;
    return WEIR_NONE;
}

static void answer_free(struct weir_idempotency *s, struct entry *e)
{
    if (e->answer)
        s->view.answers_bytes_now -= e->answer->room;
    free(e->answer);
    e->answer = NULL;
}

/* Forgets an entry, in whatever state. */
static void entry_remove(struct weir_idempotency *s, uint32_t slot)
{
    struct entry *e = &s->entries[slot];
    WEIR_INVARIANT(e->state != ENTRY_FREE && e->borrows == 0);
    uint32_t *link = bucket_of(s, &e->id);
    while (*link != slot + 1)
        link = &s->entries[*link - 1].chain_1;
    *link = e->chain_1;
    if (e->state == ENTRY_RUNNING) {
        s->view.running_now--;
    } else {
        list_remove(s, &s->ended, ENDED, slot);
        forgettable_remove(s, slot);
    }
    answer_free(s, e);
    *e = (struct entry){.chain_1 = s->free_1};
    s->free_1 = slot + 1;
    s->view.keys_now--;
}

/* A free slot, in its bucket; WEIR_NONE: every one is of a request under way, or read out. */
static uint32_t entry_new(struct weir_idempotency *s, uint32_t owner,
                          const struct weir_idempotency_id *id)
{
    if (!s->free_1 && s->used == s->limits.keys_max) {
        if (s->by_keys.count == 0)
            return WEIR_NONE;
        entry_remove(s, s->owners[weir_heap_top(&s->by_keys)].forgettable.oldest_1 - 1);
        s->view.keys_pushed_out++;
    }
    uint32_t slot = s->free_1 ? s->free_1 - 1 : s->used++;
    struct entry *e = &s->entries[slot];
    if (s->free_1)
        s->free_1 = e->chain_1;
    uint32_t *bucket = bucket_of(s, id);
    *e = (struct entry){.id = *id, .owner = owner, .chain_1 = *bucket};
    *bucket = slot + 1;
    s->view.keys_now++;
    return slot;
}

/* ---- making and ending ---- */

static bool owners_create(struct weir_idempotency *s, uint32_t owners)
{
    struct weir_heap *heaps[] = {&s->by_keys, &s->by_bytes};
    s->owners = calloc(owners, sizeof *s->owners);
    for (size_t i = 0; i < WEIR_COUNT(heaps); i++) {
        s->heap_entries[i] = calloc((size_t)owners + WEIR_HEAP_SPARE, sizeof *s->heap_entries[i]);
        s->heap_places[i] = calloc(owners, sizeof *s->heap_places[i]);
        if (!s->heap_entries[i] || !s->heap_places[i])
            return false;
        weir_heap_init(heaps[i], s->heap_entries[i], s->heap_places[i], owners);
    }
    return s->owners != NULL;
}

struct weir_idempotency *weir_idempotency_create(const struct weir_idempotency_limits *limits)
{
    WEIR_INVARIANT(limits->keys_max > 0 && limits->keys_max < WEIR_NONE);
    WEIR_INVARIANT(limits->owners_max < WEIR_NONE);
    WEIR_INVARIANT(limits->answers_bytes >= limits->answer_bytes);
    uint32_t buckets = 16;
    while (buckets < limits->keys_max && buckets < UINT32_C(1) << 30)
        buckets *= 2;
    struct weir_idempotency *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->limits = *limits;
    s->buckets_mask = buckets - 1;
    s->entries = calloc(limits->keys_max, sizeof *s->entries);
    s->buckets = calloc(buckets, sizeof *s->buckets);
    if (!owners_create(s, limits->owners_max + 1) || !s->entries || !s->buckets) {
        weir_idempotency_destroy(s);
        return NULL;
    }
    return s;
}

void weir_idempotency_destroy(struct weir_idempotency *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->used && s->entries; i++)
        free(s->entries[i].answer);
    for (size_t i = 0; i < WEIR_COUNT(s->heap_entries); i++) {
        free(s->heap_entries[i]);
        free(s->heap_places[i]);
    }
    free(s->owners);
    free(s->entries);
    free(s->buckets);
    free(s);
}

/* ---- asking ---- */

enum weir_idempotency_outcome weir_idempotency_begin(struct weir_idempotency *s, uint32_t owner,
                                                     const struct weir_idempotency_id *id,
                                                     uint64_t now_ns,
                                                     struct weir_idempotency_found *found)
{
    WEIR_INVARIANT(owner < s->limits.owners_max);
    *found = (struct weir_idempotency_found){.slot = WEIR_NONE};
    uint32_t slot = table_find(s, id);
    struct entry *e = slot != WEIR_NONE ? &s->entries[slot] : NULL;
    if (e && e->state != ENTRY_RUNNING && now_ns >= e->at_ns && e->borrows == 0) {
        entry_remove(s, slot);
        e = NULL;
    }
    if (!e) {
        found->slot = slot = entry_new(s, owner, id);
        if (slot == WEIR_NONE)
            return WEIR_IDEMPOTENCY_FULL;
        s->entries[slot].state = ENTRY_RUNNING;
        s->entries[slot].loss = WEIR_IDEMPOTENCY_NO_ANSWER;
        s->entries[slot].at_ns = now_ns;
        s->view.running_now++;
        return WEIR_IDEMPOTENCY_NEW;
    }
    if (memcmp(e->id.request, id->request, sizeof id->request) != 0)
        return WEIR_IDEMPOTENCY_MISMATCH;
    switch ((enum entry_state)e->state) {
    case ENTRY_FREE:
        break;
    case ENTRY_RUNNING:
        found->age_ns = now_ns > e->at_ns ? now_ns - e->at_ns : 0;
        return WEIR_IDEMPOTENCY_RUNNING;
    case ENTRY_KEPT:
        found->slot = slot;
        return WEIR_IDEMPOTENCY_REPLAY;
    case ENTRY_LOST:
        found->loss = (enum weir_idempotency_loss)e->loss;
        found->created_s = e->created_s;
        return WEIR_IDEMPOTENCY_LOST;
    }
    WEIR_INVARIANT(e->state != ENTRY_FREE); /* a free one is in no bucket */
    return WEIR_IDEMPOTENCY_LOST;
}

static struct entry *running(const struct weir_idempotency *s, uint32_t slot)
{
    WEIR_INVARIANT(slot < s->used && s->entries[slot].state == ENTRY_RUNNING);
    return &s->entries[slot];
}

const struct weir_idempotency_id *weir_idempotency_id(const struct weir_idempotency *s,
                                                      uint32_t slot)
{
    return &running(s, slot)->id;
}

/* ---- recording ---- */

/* Makes room for bytes more, at the cost of kept answers. */
static bool answers_make_room(struct weir_idempotency *s, size_t bytes)
{
    while (s->limits.answers_bytes - s->view.answers_bytes_now < bytes) {
        if (s->by_bytes.count == 0)
            return false;
        uint32_t slot = s->owners[weir_heap_top(&s->by_bytes)].evictable.oldest_1 - 1;
        struct entry *e = &s->entries[slot];
        evictable_remove(s, slot);
        answer_free(s, e);
        e->state = ENTRY_LOST;
        e->loss = WEIR_IDEMPOTENCY_NO_ROOM;
        s->view.answers_pushed_out++;
    }
    return true;
}

/* Gives an answer (NULL: a new one) room for so many bytes. NULL: it may not have them; then the
 * one given is gone, and e->loss says why. */
static struct answer *answer_grow(struct weir_idempotency *s, struct entry *e, size_t room)
{
    struct answer *a = e->answer;
    size_t had = a ? a->room : 0;
    e->loss = WEIR_IDEMPOTENCY_NO_ROOM;
    if (answers_make_room(s, room - had)) {
        struct answer *bigger = realloc(a, sizeof *a + room);
        if (bigger) {
            if (!a)
                *bigger = (struct answer){0};
            bigger->room = room;
            s->view.answers_bytes_now += room - had;
            e->answer = bigger;
            return bigger;
        }
    }
    answer_free(s, e);
    return NULL;
}

static void answer_put(struct answer *a, const void *bytes, size_t count)
{
    if (count > 0)
        memcpy(a->bytes + a->used, bytes, count);
    a->used += count;
}

void weir_idempotency_record(struct weir_idempotency *s, uint32_t slot, uint32_t status,
                             struct weir_slice reason, struct weir_slice headers, bool is_chunked,
                             uint64_t body_bytes)
{
    struct entry *e = running(s, slot);
    size_t head_bytes = reason.bytes + headers.bytes, max = s->limits.answer_bytes;
    answer_free(s, e);
    if (head_bytes > max || body_bytes > max - head_bytes) {
        e->loss = WEIR_IDEMPOTENCY_TOO_LARGE;
        return;
    }
    size_t room = head_bytes + (size_t)body_bytes;
    if (is_chunked && max - head_bytes > IDEMPOTENCY_FIRST_BYTES)
        room = head_bytes + IDEMPOTENCY_FIRST_BYTES;
    struct answer *a = answer_grow(s, e, room);
    if (!a)
        return;
    a->status = status;
    a->is_chunked = is_chunked;
    a->reason_bytes = (uint32_t)reason.bytes;
    a->headers_bytes = (uint32_t)headers.bytes;
    answer_put(a, reason.at, reason.bytes);
    answer_put(a, headers.at, headers.bytes);
}

void weir_idempotency_append(struct weir_idempotency *s, uint32_t slot, const void *bytes,
                             size_t count)
{
    struct entry *e = running(s, slot);
    struct answer *a = e->answer;
    if (!a)
        return;
    if (count > s->limits.answer_bytes - a->used) {
        answer_free(s, e);
        e->loss = WEIR_IDEMPOTENCY_TOO_LARGE;
        return;
    }
    if (count > a->room - a->used) {
        size_t room = a->room < s->limits.answer_bytes / 2 ? 2 * a->room : s->limits.answer_bytes;
        if (room < a->used + count)
            room = a->used + count;
        a = answer_grow(s, e, room);
        if (!a)
            return;
    }
    answer_put(a, bytes, count);
}

bool weir_idempotency_is_recording(const struct weir_idempotency *s, uint32_t slot)
{
    return running(s, slot)->answer != NULL;
}

/* ---- the end ---- */

void weir_idempotency_forget(struct weir_idempotency *s, uint32_t slot)
{
    (void)running(s, slot);
    entry_remove(s, slot);
}

static void entry_end(struct weir_idempotency *s, uint32_t slot, enum entry_state state,
                      uint64_t until_ns)
{
    struct entry *e = &s->entries[slot];
    e->state = (uint8_t)state;
    e->at_ns = until_ns;
    s->view.running_now--;
    list_append(s, &s->ended, ENDED, slot);
    forgettable_add(s, slot);
}

void weir_idempotency_lose(struct weir_idempotency *s, uint32_t slot,
                           enum weir_idempotency_loss loss, uint64_t now_ns)
{
    struct entry *e = running(s, slot);
    answer_free(s, e);
    e->loss = (uint8_t)loss;
    entry_end(s, slot, ENTRY_LOST, weir_add_sat_u64(now_ns, s->limits.keep_ns));
}

void weir_idempotency_keep(struct weir_idempotency *s, uint32_t slot, uint64_t now_ns)
{
    struct entry *e = running(s, slot);
    if (!e->answer) {
        weir_idempotency_lose(s, slot, (enum weir_idempotency_loss)e->loss, now_ns);
        return;
    }
    struct answer *fitting = realloc(e->answer, sizeof *fitting + e->answer->used);
    if (fitting) {
        s->view.answers_bytes_now -= fitting->room - fitting->used;
        fitting->room = fitting->used;
        e->answer = fitting;
    }
    entry_end(s, slot, ENTRY_KEPT, weir_add_sat_u64(now_ns, s->limits.keep_ns));
}

/* ---- replays ---- */

void weir_idempotency_borrow(struct weir_idempotency *s, uint32_t slot,
                             struct weir_idempotency_answer *answer)
{
    WEIR_INVARIANT(slot < s->used && s->entries[slot].state == ENTRY_KEPT);
    struct entry *e = &s->entries[slot];
    const struct answer *a = e->answer;
    if (e->borrows++ == 0)
        forgettable_remove(s, slot);
    size_t head_bytes = a->reason_bytes + a->headers_bytes;
    *answer =
        (struct weir_idempotency_answer){.status = a->status,
                                         .is_chunked = a->is_chunked,
                                         .reason = {a->bytes, a->reason_bytes},
                                         .headers = {a->bytes + a->reason_bytes, a->headers_bytes},
                                         .body = {a->bytes + head_bytes, a->used - head_bytes}};
}

void weir_idempotency_give_back(struct weir_idempotency *s, uint32_t slot)
{
    WEIR_INVARIANT(slot < s->used && s->entries[slot].state == ENTRY_KEPT);
    WEIR_INVARIANT(s->entries[slot].borrows > 0);
    if (--s->entries[slot].borrows == 0)
        forgettable_add(s, slot); /* just used: among the last to go */
}

/* ---- earlier runs, time ---- */

void weir_idempotency_load(struct weir_idempotency *s, const struct weir_idempotency_id *id,
                           int64_t created_s, int64_t unix_s, uint64_t now_ns)
{
    uint64_t age_s = unix_s > created_s ? (uint64_t)unix_s - (uint64_t)created_s : 0;
    if (age_s >= (s->limits.keep_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S ||
        table_find(s, id) != WEIR_NONE)
        return;
    uint64_t left_ns = s->limits.keep_ns - age_s * WEIR_NS_PER_S;
    uint32_t slot = entry_new(s, s->limits.owners_max, id);
    if (slot == WEIR_NONE)
        return;
    s->entries[slot].loss = WEIR_IDEMPOTENCY_RESTART;
    s->entries[slot].created_s = created_s;
    s->view.running_now++; /* for a moment: entry_end counts it off */
    entry_end(s, slot, ENTRY_LOST, weir_add_sat_u64(now_ns, left_ns));
}

void weir_idempotency_tick(struct weir_idempotency *s, uint64_t now_ns)
{
    uint32_t at_1 = s->ended.oldest_1;
    for (uint32_t n = 0; at_1 && n < IDEMPOTENCY_TICK_MAX; n++) {
        const struct entry *e = &s->entries[at_1 - 1];
        uint32_t slot = at_1 - 1;
        if (now_ns < e->at_ns)
            return;
        at_1 = e->ended.newer_1;
        if (e->borrows == 0)
            entry_remove(s, slot);
    }
}

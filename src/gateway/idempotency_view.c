#include "gateway/idempotency_inside.h"

const char *weir_idempotency_outcome_name(enum weir_idempotency_outcome outcome)
{
    static const char *const names[WEIR_IDEMPOTENCY_OUTCOME_COUNT] = {
        [WEIR_IDEMPOTENCY_NEW] = "new",           [WEIR_IDEMPOTENCY_RUNNING] = "in_progress",
        [WEIR_IDEMPOTENCY_MISMATCH] = "mismatch", [WEIR_IDEMPOTENCY_REPLAY] = "replayed",
        [WEIR_IDEMPOTENCY_LOST] = "lost",         [WEIR_IDEMPOTENCY_FULL] = "full"};
    WEIR_INVARIANT((uint32_t)outcome < WEIR_IDEMPOTENCY_OUTCOME_COUNT);
    return names[outcome];
}

void weir_idempotency_view(const struct weir_idempotency *s, struct weir_idempotency_view *view)
{
    *view = s->view;
}

static const char *audit_list(const struct weir_idempotency *s, const struct list *list,
                              size_t which, uint32_t *count)
{
    uint32_t before_1 = 0;
    *count = 0;
    for (uint32_t at_1 = list->oldest_1; at_1; *count += 1) {
        const struct links *links =
            (const struct links *)(const void *)((const char *)&s->entries[at_1 - 1] + which);
        if (*count > s->used || links->older_1 != before_1)
            return "a list is linked both ways and ends";
        before_1 = at_1;
        at_1 = links->newer_1;
    }
    return list->newest_1 == before_1 ? NULL : "a list ends at its newest";
}

/* What the owners have of their own, and how they are ranked. */
static const char *audit_owners(const struct weir_idempotency *s)
{
    for (uint32_t i = 0; i <= s->limits.owners_max; i++) {
        const struct owner *o = &s->owners[i];
        uint32_t forgettable = 0, evictable = 0, forgettable_now, evictable_now;
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < s->used; k++) {
            const struct entry *e = &s->entries[k];
            if (e->owner != i || e->borrows > 0)
                continue;
            forgettable += e->state == ENTRY_KEPT || e->state == ENTRY_LOST;
            evictable += e->state == ENTRY_KEPT;
            bytes += e->state == ENTRY_KEPT ? e->answer->room : 0;
        }
        const char *wrong = audit_list(s, &o->forgettable, FORGETTABLE, &forgettable_now);
        if (!wrong)
            wrong = audit_list(s, &o->evictable, EVICTABLE, &evictable_now);
        if (wrong)
            return wrong;
        if (forgettable_now != forgettable || evictable_now != evictable ||
            o->forgettable_now != forgettable || o->evictable_bytes != bytes)
            return "an owner's lists and sums are those of its entries";
        if (weir_heap_has(&s->by_keys, i) != (forgettable > 0) ||
            weir_heap_has(&s->by_bytes, i) != (bytes > 0))
            return "who has something to give is ranked";
        if (forgettable > 0 && s->owners[weir_heap_top(&s->by_keys)].forgettable_now < forgettable)
            return "who has most is at the top";
    }
    return NULL;
}

const char *weir_idempotency_audit(const struct weir_idempotency *s)
{
    uint32_t keys = 0, running_now = 0, ended = 0, ended_now;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->used; i++) {
        const struct entry *e = &s->entries[i];
        keys += e->state != ENTRY_FREE;
        running_now += e->state == ENTRY_RUNNING;
        ended += e->state == ENTRY_KEPT || e->state == ENTRY_LOST;
        bytes += e->answer ? e->answer->room : 0;
        if ((e->state == ENTRY_FREE || e->state == ENTRY_LOST) && e->answer)
            return "only RUNNING and KEPT have an answer";
        if (e->state == ENTRY_KEPT && !e->answer)
            return "a KEPT one has its answer";
        if (e->state != ENTRY_KEPT && e->borrows)
            return "only a KEPT one is borrowed";
        if (e->answer && e->answer->room > s->limits.answer_bytes)
            return "no answer has more than answer_bytes";
    }
    const char *wrong = audit_list(s, &s->ended, ENDED, &ended_now);
    if (!wrong)
        wrong = audit_owners(s);
    if (wrong)
        return wrong;
    if (ended_now != ended)
        return "the list of ended ones holds them";
    if (keys != s->view.keys_now || running_now != s->view.running_now)
        return "the counts are those of the entries";
    if (bytes != s->view.answers_bytes_now || bytes > s->limits.answers_bytes)
        return "answers_bytes_now is the sum of their rooms, and at most answers_bytes";
    return NULL;
}

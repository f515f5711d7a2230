#include "support/ledger_rows.h"

#include <stdlib.h>

#include "support/check.h"

struct weir_ledger *ledger_in_memory(const struct weir_ledger_limits *limits, uint64_t epoch,
                                     void **mem)
{
    size_t bytes = weir_ledger_bytes(limits);
    *mem = aligned_alloc(64, bytes);
    CHECK(*mem != NULL);
    memset(*mem, 0, bytes);
    return weir_ledger_init(*mem, bytes, limits, epoch);
}

static size_t hold_at(const struct ledger_rows *file, uint64_t hold)
{
    size_t i = file->hold_count; /* from the end: tests ask for what is new */
    while (i > 0 && file->holds[i - 1].id != hold)
        i--;
    return i;
}

void ledger_rows_hold(struct ledger_rows *file, const struct weir_ledger *l, uint64_t hold)
{
    struct weir_ledger_record record;
    if (!weir_ledger_record(l, hold, &record))
        return;
    size_t at = hold_at(file, hold);
    if (at == 0) {
        CHECK(file->hold_count < WEIR_COUNT(file->holds));
        at = ++file->hold_count;
    }
    file->holds[at - 1] = record;
}

void ledger_rows_holds(struct ledger_rows *file, const struct weir_ledger *l)
{
    uint32_t cursor = 0;
    for (struct weir_ledger_hold view; weir_ledger_hold_next(l, &cursor, &view);)
        ledger_rows_hold(file, l, view.id);
}

static size_t row_at(const struct ledger_rows *file, uint32_t scope, uint64_t window)
{
    size_t i = file->row_count;
    while (i > 0 && (file->rows[i - 1].scope != scope || file->rows[i - 1].window != window))
        i--;
    return i;
}

size_t ledger_rows_take(struct ledger_rows *file, struct weir_ledger *l)
{
    size_t count = 0;
    memset(file->told, 0, sizeof file->told);
    for (struct weir_ledger_balance row; weir_ledger_changed_next(l, &row); count++) {
        size_t at = row_at(file, row.scope, row.window);
        if (at == 0) {
            CHECK(file->row_count < WEIR_COUNT(file->rows));
            at = ++file->row_count;
        }
        CHECK_MSG(!file->told[at - 1], "scope %u, window %llu is told twice", row.scope,
                  (unsigned long long)row.window);
        file->told[at - 1] = true;
        file->rows[at - 1] = row;
    }
    return count;
}

static bool record_names(const struct weir_ledger_record *record, uint32_t scope, uint64_t window,
                         bool any_window)
{
    for (uint8_t i = 0; i < record->depth; i++)
        if (record->chain[i].scope == scope && (any_window || record->chain[i].window == window))
            return true;
    return false;
}

void ledger_rows_scope_drop(struct ledger_rows *file, uint32_t scope)
{
    size_t kept = 0;
    for (size_t i = 0; i < file->row_count; i++)
        if (file->rows[i].scope != scope)
            file->rows[kept++] = file->rows[i];
    file->row_count = kept;
    kept = 0;
    for (size_t i = 0; i < file->hold_count; i++)
        if (!record_names(&file->holds[i], scope, 0, true))
            file->holds[kept++] = file->holds[i];
    file->hold_count = kept;
}

const struct weir_ledger_balance *ledger_rows_row(const struct ledger_rows *file, uint32_t scope,
                                                  uint64_t window)
{
    size_t at = row_at(file, scope, window);
    return at ? &file->rows[at - 1] : NULL;
}

const struct weir_ledger_record *ledger_rows_find(const struct ledger_rows *file, uint64_t hold)
{
    size_t at = hold_at(file, hold);
    return at ? &file->holds[at - 1] : NULL;
}

static bool is_live(const struct weir_ledger_record *record)
{
    return record->state == WEIR_HOLD_HELD || record->state == WEIR_HOLD_LAPSED;
}

/* The latest window of its scope, or one that a live hold names. */
static bool row_is_needed(const struct ledger_rows *file, const struct weir_ledger_balance *row)
{
    bool is_latest = true;
    for (size_t i = 0; i < file->row_count; i++)
        if (file->rows[i].scope == row->scope && file->rows[i].window > row->window)
            is_latest = false;
    for (size_t i = 0; i < file->hold_count && !is_latest; i++)
        if (is_live(&file->holds[i]) &&
            record_names(&file->holds[i], row->scope, row->window, false))
            return true;
    return is_latest;
}

static void load_scopes(struct weir_ledger *fresh, const struct weir_ledger *scopes_of,
                        uint32_t scopes_max)
{
    /* Parents first: as many rounds as there are levels. */
    for (int level = 0; level < WEIR_LEDGER_DEPTH_MAX; level++)
        for (uint32_t scope = 0; scope < scopes_max; scope++) {
            struct weir_ledger_totals t, there;
            if (!weir_ledger_totals(scopes_of, scope, &t) ||
                weir_ledger_totals(fresh, scope, &there) ||
                (t.parent != WEIR_NONE && !weir_ledger_totals(fresh, t.parent, &there)))
                continue;
            const struct weir_ledger_rules rules = {.parent = t.parent,
                                                    .unlimited = t.unlimited,
                                                    .lapse_refunds = t.lapse_refunds,
                                                    .granted_tok = t.granted_tok};
            CHECK_INT(weir_ledger_scope_set(fresh, scope, &rules).result, WEIR_LEDGER_DONE);
        }
}

static int id_order(const void *a, const void *b)
{
    uint64_t x = ((const struct weir_ledger_record *)a)->id;
    uint64_t y = ((const struct weir_ledger_record *)b)->id;
    return (x > y) - (x < y);
}

void ledger_rows_load(struct ledger_rows *file, struct weir_ledger *fresh,
                      const struct weir_ledger *scopes_of, uint32_t scopes_max, bool reversed)
{
    load_scopes(fresh, scopes_of, scopes_max);
    for (size_t i = 0; i < file->row_count; i++) {
        const struct weir_ledger_balance *row = &file->rows[reversed ? file->row_count - 1 - i : i];
        if (row_is_needed(file, row))
            CHECK_INT(weir_ledger_load_balance(fresh, row).result, WEIR_LEDGER_DONE);
    }
    qsort(file->holds, file->hold_count, sizeof file->holds[0], id_order);
    for (size_t i = 0; i < file->hold_count; i++)
        if (is_live(&file->holds[i]))
            CHECK_INT(weir_ledger_load_hold(fresh, &file->holds[i]).result, WEIR_LEDGER_DONE);
    const char *wrong = weir_ledger_audit(fresh);
    CHECK_MSG(wrong == NULL, "after loading: %s", wrong);
}

struct weir_ledger_answer ledger_rows_load_hold(const struct ledger_rows *file,
                                                struct weir_ledger *l, uint64_t hold)
{
    const struct weir_ledger_record *record = ledger_rows_find(file, hold);
    CHECK(record != NULL);
    for (uint8_t i = 0; i < record->depth; i++) {
        const struct weir_ledger_balance *row =
            ledger_rows_row(file, record->chain[i].scope, record->chain[i].window);
        CHECK(row != NULL);
        struct weir_ledger_answer answer = weir_ledger_load_balance(l, row);
        if (answer.result != WEIR_LEDGER_DONE && answer.result != WEIR_LEDGER_SAME)
            return answer;
    }
    return weir_ledger_load_hold(l, record);
}

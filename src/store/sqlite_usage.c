/* The usage table: what was used by scope, upstream, model and hour. A batch sums up first, so that
 * many settles of one kind write one row. */
#include <string.h>

#include "store/sqlite_inside.h"

/* Labels that are not in the file yet. */
static bool labels_set(struct sql_store *s)
{
    sqlite3_stmt *row = s->file.statements[SQL_LABEL_ADD];
    for (uint32_t end = weir_names_labels(s->base.names); s->file.labels < end; s->file.labels++) {
        const char *text = weir_names_label_text(s->base.names, s->file.labels);
        sqlite3_bind_int64(row, 1, s->file.labels);
        sqlite3_bind_text(row, 2, text, -1, SQLITE_STATIC);
        s->rows_written++;
        if (!sql_begin(s) || !sql_run(s, SQL_LABEL_ADD, "write a label"))
            return false;
    }
    return true;
}

static struct sql_usage_sum *usage_sum(struct sql_store *s, const int64_t key[SQL_USAGE_KEYS])
{
    uint64_t mixed = 0;
    for (int i = 0; i < SQL_USAGE_KEYS; i++)
        mixed = (mixed ^ (uint64_t)key[i]) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(mixed >> 32) & (2 * SQL_BATCH_MAX - 1);
    for (; s->usage_places[at]; at = (at + 1) & (2 * SQL_BATCH_MAX - 1)) {
        struct sql_usage_sum *sum = &s->usage[s->usage_places[at] - 1];
        if (memcmp(sum->key, key, sizeof sum->key) == 0)
            return sum;
    }
    WEIR_INVARIANT(s->usage_count < SQL_BATCH_MAX); /* no more than operations in a batch */
    struct sql_usage_sum *sum = &s->usage[s->usage_count++];
    *sum = (struct sql_usage_sum){0};
    memcpy(sum->key, key, sizeof sum->key);
    s->usage_places[at] = (uint16_t)s->usage_count;
    return sum;
}

/* Columns stay within the range of balances too, so that no sum can leave that of integers. */
static int64_t usage_cap(int64_t amount, int64_t max)
{
    return weir_max_i64(-max, weir_min_i64(max, amount));
}

static void usage_clear(struct sql_store *s)
{
    s->usage_count = 0;
    memset(s->usage_places, 0, sizeof s->usage_places);
}

void sql_usage_drop(struct sql_store *s)
{
    if (s->usage_count > 0)
        usage_clear(s);
}

bool sql_usage_flush(struct sql_store *s)
{
    sqlite3_stmt *row = s->file.statements[SQL_USAGE_ADD];
    for (uint32_t i = 0; i < s->usage_count; i++) {
        for (int k = 0; k < SQL_USAGE_SUMS; k++)
            s->usage[i].sums[k] = usage_cap(s->usage[i].sums[k], WEIR_BALANCE_MAX);
        sql_bind(row, 1, s->usage[i].key, SQL_USAGE_KEYS);
        sql_bind(row, 1 + SQL_USAGE_KEYS, s->usage[i].sums, SQL_USAGE_SUMS);
        s->rows_written++;
        if (!sql_begin(s) || !sql_run(s, SQL_USAGE_ADD, "write the usage"))
            return false;
    }
    sql_usage_drop(s);
    return !s->file.in_transaction || labels_set(s);
}

static void usage_add(struct sql_store *s, const int64_t key[SQL_USAGE_KEYS],
                      const int64_t amounts[SQL_USAGE_SUMS])
{
    struct sql_usage_sum *sum = usage_sum(s, key);
    for (int i = 0; i < SQL_USAGE_SUMS; i++)
        sum->sums[i] += usage_cap(amounts[i], WEIR_TOK_MAX); /* of a batch: at most 2^62 */
}

void sql_usage_add(struct sql_store *s, int64_t scope_id, const struct weir_store_usage *usage,
                   int64_t amount_tok, enum weir_ledger_result result)
{
    usage_add(s, (int64_t[]){scope_id, usage->upstream, usage->model, s->wall_s / 3600},
              (int64_t[]){1, weir_max_i64(0, usage->input_tok), weir_max_i64(0, usage->cached_tok),
                          weir_max_i64(0, usage->cache_write_tok),
                          weir_max_i64(0, usage->output_tok), usage->estimated ? amount_tok : 0,
                          result == WEIR_LEDGER_LATE ? amount_tok : 0,
                          result == WEIR_LEDGER_UNMATCHED ? amount_tok : 0});
}

void sql_usage_correct(struct sql_store *s, int64_t scope_id, const struct weir_store_usage *usage)
{
    usage_add(s, (int64_t[]){scope_id, usage->upstream, usage->model, usage->utc_hour},
              (int64_t[]){0, usage->input_tok, 0, 0, usage->output_tok, 0, 0, 0});
}

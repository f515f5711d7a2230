/* config_fields: how a row of the field tables is written. Internal to the configuration's own
 * tables. */
#ifndef WEIR_GATEWAY_CONFIG_FIELDS_H
#define WEIR_GATEWAY_CONFIG_FIELDS_H

#include "gateway/config_table.h"

/* The place of a member, which must have exactly the type named: a row cannot write over a
 * neighbour. */
#define AT(s, m, type)                                                                             \
    (offsetof(struct s, m) + 0 * sizeof(_Generic(((struct s *)0)->m, type : (char)1)))

#define TEXT(s, m) .kind = WEIR_FIELD_TEXT, .offset = AT(s, m, const char *)
#define NAME(s, m) .kind = WEIR_FIELD_NAME, .offset = AT(s, m, const char *)
#define PATH(s, m) .kind = WEIR_FIELD_PATH, .offset = AT(s, m, const char *)
#define U32(s, m, low, high)                                                                       \
    .kind = WEIR_FIELD_U32, .offset = AT(s, m, uint32_t), .min = (low), .max = (high)
#define COUNT(s, m, low, high)                                                                     \
    .kind = WEIR_FIELD_COUNT, .offset = AT(s, m, uint64_t), .min = (low), .max = (high)
#define TOKENS(s, m, low, high)                                                                    \
    .kind = WEIR_FIELD_COUNT, .offset = AT(s, m, int64_t), .min = (low), .max = (high)
#define BOOL(s, m) .kind = WEIR_FIELD_BOOL, .offset = AT(s, m, bool)
#define TIME(s, m, low, high)                                                                      \
    .kind = WEIR_FIELD_TIME, .offset = AT(s, m, uint64_t), .min = (low), .max = (high)
#define BYTES(s, m, low, high)                                                                     \
    .kind = WEIR_FIELD_BYTES, .offset = AT(s, m, uint64_t), .min = (low), .max = (high)
#define FACTOR(s, m, low, high)                                                                    \
    .kind = WEIR_FIELD_FACTOR, .offset = AT(s, m, uint32_t), .min = (low), .max = (high)
#define RATE(s, m)                                                                                 \
    .kind = WEIR_FIELD_RATE, .offset = AT(s, m, struct weir_config_rate), .min = 1,                \
    .max = TOK_BUCKET_MAX
#define ADDR(s, m) .kind = WEIR_FIELD_ADDR, .offset = AT(s, m, struct weir_config_addr)
#define CHOICE(s, m, type, list)                                                                   \
    .kind = WEIR_FIELD_CHOICE, .offset = AT(s, m, type), .choices = (list),                        \
    .choices_count = WEIR_COUNT(list)
#define MODELS(s, m, n)                                                                            \
    .kind = WEIR_FIELD_MODELS, .offset = AT(s, m, const char **), .count_offset = AT(s, n, uint32_t)
#define TEXTS(s, m, n)                                                                             \
    .kind = WEIR_FIELD_TEXTS, .offset = AT(s, m, const char **), .count_offset = AT(s, n, uint32_t)
#define PERIOD(s, m) .kind = WEIR_FIELD_PERIOD, .offset = AT(s, m, struct weir_window_rule)
#define ROWS(s, m, n, rows, type)                                                                  \
    .kind = WEIR_FIELD_ROWS, .offset = AT(s, m, type), .count_offset = AT(s, n, uint32_t),         \
    .table = &(rows)
#define TABLE(s, m, fields, type)                                                                  \
    .kind = WEIR_FIELD_TABLE, .offset = AT(s, m, type), .table = &(fields)
#define SAME_STRUCT(fields) .kind = WEIR_FIELD_TABLE, .offset = 0, .table = &(fields)

/* What a field or table means, and how a default is computed. Only the reference prints it: where
 * there is none (the lab page's module), the words are left out. */
#ifdef WEIR_WITHOUT_REFERENCE
#define HELP(...) .help = NULL
#define DERIVED(...) .derived = NULL
#else
#define HELP(...) .help = __VA_ARGS__
#define DERIVED(...) .derived = __VA_ARGS__
#endif

#define LATER .kind = WEIR_FIELD_LATER
#define FIELDS(list) .fields = (list), .fields_count = WEIR_COUNT(list)

#define S WEIR_NS_PER_S
#define MS WEIR_NS_PER_MS
#define HOUR (3600 * WEIR_NS_PER_S)
#define DAY (24 * HOUR)
#define MIB (UINT64_C(1) << 20)
#define TOK_BUCKET_MAX (UINT64_C(1) << 42) /* what a bucket can hold, in whole tokens */

#endif

/* config_table: the one table of everything that can be set.
 *
 * Each field has its key, kind, place in the struct, range, default and meaning. The YAML walker,
 * the flags, the defaults, the printed configuration and docs/configuration.md are all driven by
 * it. Internal to the configuration's own files and to tests. */
#ifndef WEIR_GATEWAY_CONFIG_TABLE_H
#define WEIR_GATEWAY_CONFIG_TABLE_H

#include "gateway/config.h"

enum weir_field_kind {
    WEIR_FIELD_TEXT,    /* const char * */
    WEIR_FIELD_NAME,    /* const char *: letters, digits, . _ - and at most 63 of them */
    WEIR_FIELD_U32,     /* uint32_t */
    WEIR_FIELD_COUNT,   /* uint64_t, or int64_t that is never negative */
    WEIR_FIELD_BOOL,    /* bool */
    WEIR_FIELD_TIME,    /* uint64_t, ns */
    WEIR_FIELD_BYTES,   /* uint64_t */
    WEIR_FIELD_FACTOR,  /* uint32_t, thousandths */
    WEIR_FIELD_LENGTH,  /* struct weir_config_length, the two kinds that are one word */
    WEIR_FIELD_RATE,    /* struct weir_config_rate */
    WEIR_FIELD_CHOICE,  /* an enum of ours */
    WEIR_FIELD_ADDR,    /* struct weir_config_addr */
    WEIR_FIELD_URL,     /* the five fields from url on in struct weir_config_upstream */
    WEIR_FIELD_PATH,    /* const char *: a request path that begins with / */
    WEIR_FIELD_MODELS,  /* const char ** and its count */
    WEIR_FIELD_TEXTS,   /* const char ** and its count: any short texts */
    WEIR_FIELD_PERIOD,  /* enum weir_period and the seconds after it: struct weir_window_rule */
    WEIR_FIELD_DIGESTS, /* uint8_t (*)[32] and its count */
    WEIR_FIELD_LOG,     /* enum weir_config_access, and access_file after it */
    WEIR_FIELD_TABLE,   /* a struct of its own fields */
    WEIR_FIELD_ROWS,    /* pointer to structs, and their count */
    WEIR_FIELD_LATER    /* known, but not enforced by this version: refused */
};

struct weir_field_choice {
    const char *name;
    uint32_t value;
};

struct weir_field_table {
    const char *name; /* as shown: "upstreams[]" */
    const struct weir_field *fields;
    size_t fields_count;
    size_t row_bytes; /* of a ROWS table */
    uint32_t rows_max;
    const char *help;
};

struct weir_field {
    const char *key;
    enum weir_field_kind kind;
    size_t offset; /* into the row's struct; of a TABLE: of the sub-struct */
    /* MODELS, TEXTS, DIGESTS, ROWS: where the count is; LOG: where the file's name is. */
    size_t count_offset;
    uint64_t min, max;
    const struct weir_field_choice *choices;
    size_t choices_count;
    const struct weir_field_table *table;
    size_t shown_offset; /* TABLE: printed only where the uint32_t there is not 0; 0: always */
    const struct weir_field *word; /* TABLE: what one word in its place sets; NULL: nothing */
    const char *preset;  /* the default, as a person would write it; NULL: none, or computed */
    const char *derived; /* how the default is computed, or what "not given" means */
    bool is_required;
    bool zero_is_off;   /* 0 is allowed below min */
    bool one_is_a_list; /* ROWS: a mapping in its place is a list of one */
    bool is_lab;        /* belongs to `weir lab`: others say that they do not use it */
    const char *also;   /* CHOICE: what may stand there beside its words */
    const char *help;   /* LATER: the reason and what to do */
};

extern const struct weir_field_table weir_config_root_table;
/* and, in it, what belongs to the lab (config_table_lab.c) */
extern const struct weir_field_table weir_config_traffic_table;
extern const struct weir_field_table weir_config_backend_table;

/* What a field accepts, as in "a whole number between 1 and 1000". */
void weir_field_accepts(const struct weir_field *field, char *out, size_t out_bytes);

/* The field of that key in table, or NULL. */
const struct weir_field *weir_field_find(const struct weir_field_table *table, const char *key);

#endif

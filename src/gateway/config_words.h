/* config_words: the values of a configuration as a person would write them, by the table of fields.
 * Internal to the configuration's own files. Thread: any. */
#ifndef WEIR_GATEWAY_CONFIG_WORDS_H
#define WEIR_GATEWAY_CONFIG_WORDS_H

#include "gateway/config_load.h"
#include "gateway/config_value.h"

enum { WEIR_FIELD_WORD_MAX = WEIR_VALUE_TEXT_MAX + 264 };

uint32_t weir_field_u32(const void *row, size_t offset);
uint64_t weir_field_u64(const void *row, size_t offset);
/* The word of a one-word field, in scratch or of the config; NULL: nothing is set, nothing to
 * print. */
const char *weir_field_word(const struct weir_field *field, const void *row,
                            char scratch[WEIR_FIELD_WORD_MAX]);
/* MODELS, TEXTS, DIGESTS; and one of their entries. */
bool weir_field_is_words(const struct weir_field *field);
const char *weir_field_item(const struct weir_field *field, const void *row, uint32_t i,
                            char out[65]);
/* The first of the rows of a ROWS field; they are field->table->row_bytes apart. */
const char *weir_field_rows(const struct weir_field *field, const void *row, uint32_t *count);
/* Whether a table is to be printed, whatever is in it. */
bool weir_field_is_shown(const struct weir_field *field, const void *row);
/* Whether anything of a table would be printed: an empty one is left out. */
bool weir_table_has_something(const struct weir_field_table *table, const void *row);

/* Start from {0}; the owner frees bytes. */
struct weir_text {
    char *bytes;
    size_t used, room;
};
void weir_text_bytes(struct weir_text *text, const char *bytes, size_t count);
void weir_text_put(struct weir_text *text, const char *more);
void weir_text_blanks(struct weir_text *text, int count);

/* The field at the end of a path (struct weir_config_set), and its row and table. NULL: there is no
 * such path. */
const struct weir_field *weir_config_find(struct weir_config *config, const char *path,
                                          const struct weir_field_table **table, const void **row);

#endif

/* names: the names of scopes and the labels of usage rows, as small numbers.
 *
 * A scope has a name that lasts (in the configuration, in a file) and, while it is used, a slot:
 * the number that the ledger calls its scope. A slot is given by name and goes back when its scope
 * is forgotten. Labels (names of upstreams and models) are only ever added: label 0 is "other" and
 * stands for every text that came when the table was full.
 *
 * Tables are mapped, not touched: unused room costs nothing. Thread: loop gives and takes back; a
 * store's own thread may read the text of a slot from the submit of its SCOPE until the answer to
 * its SCOPE_FORGET, and of labels below weir_names_labels, which never change. */
#ifndef WEIR_STORE_NAMES_H
#define WEIR_STORE_NAMES_H

#include "core/base.h"

/* Bytes with the NUL. A longer scope name is no name; a longer label is cut. */
#define WEIR_NAME_BYTES_MAX 136
#define WEIR_LABEL_OTHER 0u

struct weir_names;

/* scopes_max: 1 .. 2^24; labels_max: 1 .. 2^20, label 0 included. NULL: no memory. */
WEIR_MUST_USE struct weir_names *weir_names_create(uint32_t scopes_max, uint32_t labels_max);
void weir_names_destroy(struct weir_names *n);

/* The slot of a name, a new one if it has none. WEIR_NONE: the table is full, or the name is empty
 * or too long.   Cost: O(1). */
uint32_t weir_names_scope(struct weir_names *n, const char *name);
/* As above, but gives no new one. */
uint32_t weir_names_scope_find(const struct weir_names *n, const char *name);
/* NULL: the slot is free. */
const char *weir_names_scope_text(const struct weir_names *n, uint32_t slot);
/* Giving a slot back takes two steps, since it is defined and forgotten by operations that are
 * answered later: `leave` when its SCOPE_FORGET is submitted, `left` with what leave returned when
 * the answer DONE is collected. It frees the slot unless `stay` was called in between: when a SCOPE
 * is submitted again. A slot that is not in use is ignored by all three. */
uint32_t weir_names_scope_leave(struct weir_names *n, uint32_t slot);
void weir_names_scope_stay(struct weir_names *n, uint32_t slot);
void weir_names_scope_left(struct weir_names *n, uint32_t slot, uint32_t turn);
uint32_t weir_names_scopes_max(const struct weir_names *n);

/* The label of a text, a new one if it has none; WEIR_LABEL_OTHER: the table is full. Cost: O(1).
 */
uint32_t weir_names_label(struct weir_names *n, const char *text);
/* "other" for numbers that were never given. */
const char *weir_names_label_text(const struct weir_names *n, uint32_t label);
/* Labels given so far: they are 0 .. this - 1. Thread: any. */
uint32_t weir_names_labels(const struct weir_names *n);

#endif

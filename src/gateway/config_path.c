#include "gateway/config_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Single values by their path, laid over the file: `tenants.batch.weight=2`. */

enum { KNOWN_MAX = 200 };

/* Where a path has come to, and what is left of it. */
struct step {
    struct weir_loader *loader;
    struct weir_place place;
    const struct weir_field_table *table;
    char *row;
    const char *rest;
};

static char *rows_of(const struct weir_field *field, const void *row, uint32_t *count)
{
    char *rows;
    memcpy(&rows, (const char *)row + field->offset, sizeof rows);
    memcpy(count, (const char *)row + field->count_offset, sizeof *count);
    return rows;
}

/* The name of a row, NULL: rows of that table have none, or this one was given none. */
static const char *name_of(const struct weir_field_table *table, const char *row)
{
    const struct weir_field *first = &table->fields[0];
    bool is_named =
        first->offset == 0 && (first->kind == WEIR_FIELD_NAME || first->kind == WEIR_FIELD_TEXT ||
                               first->kind == WEIR_FIELD_PATH);
    const char *name = NULL;
    if (is_named)
        memcpy(&name, row, sizeof name);
    return name;
}

/* The row that the rest of the path begins with the name of, the longest such name; or, by its
 * number, one of rows without names. Moves the rest past it. NULL: none. */
static char *take_row(const struct weir_field *field, const void *row, const char **rest)
{
    uint32_t count;
    size_t longest = 0;
    char *rows = rows_of(field, row, &count), *found = NULL;
    for (uint32_t i = 0; i < count; i++) {
        char *each = rows + i * field->table->row_bytes, number[16];
        const char *name = name_of(field->table, each);
        if (!name) {
            snprintf(number, sizeof number, "%u", i + 1);
            name = number;
        }
        size_t bytes = strlen(name);
        if (bytes > longest && strncmp(*rest, name, bytes) == 0 &&
            ((*rest)[bytes] == '.' || (*rest)[bytes] == '\0')) {
            longest = bytes;
            found = each;
        }
    }
    *rest += longest;
    return found;
}

/* The one list of a table that has one. */
static const struct weir_field *only_list(const struct weir_field_table *table)
{
    const struct weir_field *list = NULL;
    for (size_t i = 0; i < table->fields_count; i++)
        if (table->fields[i].kind == WEIR_FIELD_ROWS) {
            if (list)
                return NULL;
            list = &table->fields[i];
        }
    return list;
}

static size_t add_rows(const struct weir_field *field, const void *row, const char **known,
                       size_t known_count)
{
    uint32_t count;
    const char *rows = rows_of(field, row, &count);
    for (uint32_t i = 0; i < count && known_count < KNOWN_MAX; i++) {
        const char *name = name_of(field->table, rows + i * field->table->row_bytes);
        if (name)
            known[known_count++] = name;
    }
    return known_count;
}

/* Whether a list is that of the tenants, and whoever sends is one of them. */
static bool is_senders(const struct step *step, const struct weir_field *list)
{
    return step->loader->for_lab && list == weir_field_find(&weir_config_root_table, "tenants");
}

static void say_unknown(const struct step *step, const struct weir_field *list)
{
    const char *known[KNOWN_MAX];
    size_t count = 0;
    char word[64], after[160], before[64];
    size_t bytes = strcspn(step->rest, ".");
    snprintf(word, sizeof word, "%.*s", (int)weir_min_u64(bytes, 60), step->rest);
    if (list) {
        count = add_rows(list, step->row, known, 0);
        if (is_senders(step, list)) /* traffic has one list, its tenants */
            count = add_rows(only_list(&weir_config_traffic_table), &step->loader->config->traffic,
                             known, count);
        snprintf(before, sizeof before, "there is no");
        snprintf(after, sizeof after, " under %s", list->key);
    } else {
        for (size_t i = 0; i < step->table->fields_count && count < KNOWN_MAX; i++)
            known[count++] = step->table->fields[i].key;
        const struct weir_field *only = only_list(step->table);
        if (only)
            count = add_rows(only, step->row, known, count);
        snprintf(before, sizeof before, "unknown key");
        snprintf(after, sizeof after, "%s%s", *step->table->name ? " in " : " at the top level",
                 step->table->name);
    }
    weir_loader_unknown(step->loader, step->place, before, word, after, known, count);
}

/* How many bytes of a path a name takes, and so stands at its beginning; 0: it does not. */
static size_t name_bytes(const char *path, const char *name)
{
    size_t bytes = name ? strlen(name) : 0;
    return strncmp(path, name ? name : "", bytes) == 0 && (path[bytes] == '.' || !path[bytes])
               ? bytes
               : 0;
}

/* The longest name of somebody who sends that a path begins with; NULL: none. */
static const char *find_sender(const struct weir_loader *loader, const char *path)
{
    const struct weir_config_traffic *traffic = &loader->config->traffic;
    const char *found = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < traffic->tenants_count + loader->senders_count; i++) {
        const char *name = i < traffic->tenants_count ? traffic->tenants[i].name
                                                      : loader->senders[i - traffic->tenants_count];
        size_t bytes = name_bytes(path, name);
        if (bytes > longest) {
            longest = bytes;
            found = name;
        }
    }
    return found;
}

/* In the lab whoever sends is a tenant, with the defaults of one if `tenants` has no entry of that
 * name. A path to such a tenant makes the entry. False after a problem was reported. */
static bool add_sender(struct step *step, const struct weir_field *list)
{
    struct weir_loader *loader = step->loader;
    const char *name = find_sender(loader, step->rest), *rest = step->rest;
    (void)take_row(list, step->row, &rest);
    uint32_t count;
    char *rows = rows_of(list, step->row, &count);
    if (!name || strlen(name) <= (size_t)(rest - step->rest) || count == list->table->rows_max)
        return true;
    size_t bytes = count * list->table->row_bytes;
    uint32_t more = count + 1;
    char *moved = weir_config_alloc(loader->config, more, list->table->row_bytes);
    weir_loader_presets(loader, list->table, moved + bytes);
    if (!weir_loader_set(loader, &list->table->fields[0], moved + bytes, "the tenant's name", name,
                         step->place))
        return false;
    if (rows)
        memcpy(moved, rows, bytes);
    weir_loader_move_marks(loader, rows, bytes, moved);
    memcpy(step->row + list->offset, &moved, sizeof moved);
    memcpy(step->row + list->count_offset, &more, sizeof more);
    return true;
}

/* Goes into a row of a list. False after a problem was reported. */
static bool enter_list(struct step *step, const struct weir_field *list)
{
    uint32_t count;
    if (is_senders(step, list) && !add_sender(step, list))
        return false;
    char *rows = rows_of(list, step->row, &count);
    char *row = take_row(list, step->row, &step->rest);
    if (!row && count == 1 &&
        (!name_of(list->table, rows) || list->one_is_a_list)) /* it needs no name */
        row = rows;
    else if (row && *step->rest == '.')
        step->rest++;
    if (!row) {
        say_unknown(step, list);
        return false;
    }
    step->row = row;
    step->table = list->table;
    if (*step->rest)
        return true;
    weir_loader_error(step->loader, step->place,
                      "is a whole entry of %s; go on with one of its keys, as in .%s", list->key,
                      list->table->fields[1].key);
    return false;
}

/* The field at the path's end; NULL after a problem was reported. */
static const struct weir_field *follow(struct step *step)
{
    for (;;) {
        char key[64];
        size_t bytes = strcspn(step->rest, ".");
        snprintf(key, sizeof key, "%.*s", (int)weir_min_u64(bytes, sizeof key - 1), step->rest);
        const struct weir_field *field = weir_field_find(step->table, key);
        if (!field) {
            const struct weir_field *list = only_list(step->table);
            const char *rest = step->rest;
            if (!list || !take_row(list, step->row, &rest)) {
                say_unknown(step, NULL);
                return NULL;
            }
            if (!enter_list(step, list))
                return NULL;
            continue;
        }
        if (step->rest[bytes] == '\0')
            return field;
        if (field->kind == WEIR_FIELD_TABLE) {
            step->row += field->offset;
            step->table = field->table;
            step->rest += bytes + 1;
        } else if (field->kind == WEIR_FIELD_ROWS) {
            step->rest += bytes + 1;
            if (!enter_list(step, field))
                return NULL;
        } else {
            weir_loader_error(step->loader, step->place, "'%s' has no parts of its own", key);
            return NULL;
        }
    }
}

void weir_config_apply_set(struct weir_loader *loader, const struct weir_config_set *set)
{
    char where[256];
    int bytes = snprintf(where, sizeof where, "--set %.200s", set->path);
    struct step step = {.loader = loader,
                        .place = {.where = weir_config_text(loader->config, where, (size_t)bytes)},
                        .table = &weir_config_root_table,
                        .row = (char *)loader->config,
                        .rest = set->path};
    const struct weir_field *field = follow(&step);
    if (field)
        weir_config_walk_value(loader, step.table, field, step.row, step.place, set->value);
}

const struct weir_field *weir_config_find(struct weir_config *config, const char *path,
                                          const struct weir_field_table **table, const void **row)
{
    struct weir_config_problems problems = {0};
    struct weir_loader loader = {.config = config, .problems = &problems};
    struct step step = {.loader = &loader,
                        .place = {.where = ""},
                        .table = &weir_config_root_table,
                        .row = (char *)config,
                        .rest = path};
    const struct weir_field *field = follow(&step);
    weir_config_problems_free(&problems);
    *table = step.table;
    *row = step.row;
    return field && field->kind != WEIR_FIELD_LATER ? field : NULL;
}

#include "gateway/config_print.h"

#include "gateway/config_words.h"

#include <stdlib.h>
#include <string.h>

/* Two forms: everything in force, a key a line; and what was given and is not the default, where
 * what is short stands in one line.
 *
 * A value was given when the loader marked its place. That alone is not enough (who writes a default
 * changes nothing), and neither is a difference: what follows from another value (a burst from its
 * rate) follows again. */

enum { LINE_MAX_BYTES = 120, TABLES_MAX = 16 };

struct printer {
    struct weir_text out;
    const struct weir_config *given; /* NULL: everything is printed */
    struct weir_config *usual;       /* the defaults, and memory for rows of them */
    struct {
        const struct weir_field_table *table;
        const char *row;
    } rows[TABLES_MAX]; /* one of each table, with the defaults */
    bool is_length;     /* inside of a length, which one word may have given: differences count */
};

/* ---- scalars ---- */

static void print_scalar(struct printer *p, const char *text, bool in_flow)
{
    bool is_plain =
        *text && strcmp(text, "null") != 0 &&
        text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                          "_./-")] == '\0' &&
        text[0] != '-';
    bool is_link = !in_flow && !strpbrk(text, " \"\\#*&!|>'%@`[]{},~?") && strchr(text, ':') &&
                   *text != ':' && text[strlen(text) - 1] != ':';
    if (is_plain || is_link) {
        weir_text_put(&p->out, text);
        return;
    }
    weir_text_put(&p->out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            weir_text_put(&p->out, "\\");
        weir_text_bytes(&p->out, text, 1);
    }
    weir_text_put(&p->out, "\"");
}

/* ---- what is printed ---- */

/* A row with the defaults; NULL when everything is printed. */
static const char *usual_row(struct printer *p, const struct weir_field_table *table)
{
    size_t i = 0;
    if (!p->given)
        return NULL;
    while (i < TABLES_MAX && p->rows[i].table && p->rows[i].table != table)
        i++;
    WEIR_INVARIANT(i < TABLES_MAX);
    if (!p->rows[i].table) {
        struct weir_loader loader = {.config = p->usual};
        char *row = weir_config_alloc(p->usual, 1, table->row_bytes);
        weir_loader_presets(&loader, table, row);
        p->rows[i].table = table;
        p->rows[i].row = row;
    }
    return p->rows[i].row;
}

static const char *inside(const char *row, const struct weir_field *field)
{
    return row ? row + field->offset : NULL;
}

static const struct weir_config_length *length_at(const struct weir_field *field, const char *row)
{
    bool is_length = field->word && field->word->kind == WEIR_FIELD_LENGTH;
    return is_length ? (const struct weir_config_length *)(row + field->offset) : NULL;
}

static bool same_length(const struct weir_config_length *a, const struct weir_config_length *b)
{
    return a->distribution == b->distribution && a->mean == b->mean && a->low == b->low &&
           a->high == b->high && a->sigma_permille == b->sigma_permille;
}

/* `900` or `300..1500`; false: this length needs its parts. */
static bool short_length(const struct weir_config_length *l, char word[WEIR_FIELD_WORD_MAX])
{
    bool is_fixed = l->distribution == WEIR_CONFIG_LENGTH_FIXED && !l->low && !l->high;
    bool is_uniform = l->distribution == WEIR_CONFIG_LENGTH_UNIFORM;
    if (l->sigma_permille || (!is_fixed && !is_uniform))
        return false;
    weir_value_count_text(is_fixed ? l->mean : l->low, word);
    if (is_uniform) {
        strcat(word, "..");
        weir_value_count_text(l->high, word + strlen(word));
    }
    return true;
}

static bool is_given(const struct printer *p, const void *at)
{
    return !p->given || weir_config_is_given(p->given, at);
}

static bool table_has(struct printer *p, const struct weir_field_table *table, const char *row,
                      const char *usual);

/* Whether a one-word field is printed; its word then. */
static const char *word_of(struct printer *p, const struct weir_field *field, const char *row,
                           const char *usual, char scratch[WEIR_FIELD_WORD_MAX])
{
    char other[WEIR_FIELD_WORD_MAX];
    const char *word = weir_field_word(field, row, scratch);
    if (!word || !usual)
        return word;
    const char *before = weir_field_word(field, usual, other);
    bool is_chosen = p->is_length || is_given(p, row + field->offset);
    bool is_usual = field->preset && before && strcmp(word, before) == 0;
    return is_chosen && !is_usual ? word : NULL;
}

static bool field_has(struct printer *p, const struct weir_field *field, const char *row,
                      const char *usual)
{
    char scratch[WEIR_FIELD_WORD_MAX];
    uint32_t count;
    const struct weir_config_length *length;
    if (weir_field_is_words(field))
        return weir_field_u32(row, field->count_offset) > 0 && is_given(p, row + field->offset);
    if (field->kind == WEIR_FIELD_ROWS) {
        const char *rows = weir_field_rows(field, row, &count);
        bool has = !usual && count > 0;
        for (uint32_t i = 0; i < count && !has; i++)
            has = table_has(p, field->table, rows + i * field->table->row_bytes,
                            usual_row(p, field->table));
        return has;
    }
    if (field->kind != WEIR_FIELD_TABLE)
        return word_of(p, field, row, usual, scratch) != NULL;
    if (!usual && !weir_field_is_shown(field, row))
        return false;
    if (usual && (length = length_at(field, row)))
        return !same_length(length, length_at(field, usual));
    return table_has(p, field->table, row + field->offset, inside(usual, field)) ||
           (field->word &&
            word_of(p, field->word, row + field->offset, inside(usual, field), scratch));
}

static bool table_has(struct printer *p, const struct weir_field_table *table, const char *row,
                      const char *usual)
{
    for (size_t i = 0; i < table->fields_count; i++)
        if (field_has(p, &table->fields[i], row, usual))
            return true;
    return false;
}

/* The word that a table is short for, where it is. */
static const char *table_word(struct printer *p, const struct weir_field *field, const char *row,
                              const char *usual, bool in_short, char scratch[WEIR_FIELD_WORD_MAX])
{
    const struct weir_config_length *length = length_at(field, row);
    if (length && in_short && short_length(length, scratch))
        return scratch;
    if (length || !field->word ||
        table_has(p, field->table, row + field->offset, inside(usual, field)))
        return NULL;
    return weir_field_word(field->word, row + field->offset, scratch);
}

/* ---- in one line ---- */

static void flow_table(struct printer *p, const struct weir_field_table *table, const char *row,
                       const char *usual);

static void flow_value(struct printer *p, const struct weir_field *field, const char *row,
                       const char *usual)
{
    char scratch[WEIR_FIELD_WORD_MAX], hex[65];
    uint32_t count;
    const char *word;
    if (weir_field_is_words(field)) {
        count = weir_field_u32(row, field->count_offset);
        weir_text_put(&p->out, "[");
        for (uint32_t i = 0; i < count; i++) {
            weir_text_put(&p->out, i ? ", " : "");
            print_scalar(p, weir_field_item(field, row, i, hex), true);
        }
        weir_text_put(&p->out, "]");
    } else if (field->kind == WEIR_FIELD_ROWS) {
        const char *rows = weir_field_rows(field, row, &count);
        weir_text_put(&p->out, "[");
        for (uint32_t i = 0; i < count; i++) {
            weir_text_put(&p->out, i ? ", " : "");
            flow_table(p, field->table, rows + i * field->table->row_bytes,
                       usual_row(p, field->table));
        }
        weir_text_put(&p->out, "]");
    } else if (field->kind != WEIR_FIELD_TABLE) {
        word = weir_field_word(field, row, scratch);
        print_scalar(p, word ? word : "", true);
    } else if ((word = table_word(p, field, row, usual, true, scratch))) {
        print_scalar(p, word, true);
    } else {
        p->is_length = length_at(field, row) != NULL;
        flow_table(p, field->table, row + field->offset, inside(usual, field));
        p->is_length = false;
    }
}

static void flow_table(struct printer *p, const struct weir_field_table *table, const char *row,
                       const char *usual)
{
    const char *before = "";
    weir_text_put(&p->out, "{");
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        if (!field_has(p, field, row, usual))
            continue;
        weir_text_put(&p->out, before);
        weir_text_put(&p->out, field->key);
        weir_text_put(&p->out, ": ");
        flow_value(p, field, row, usual);
        before = ", ";
    }
    weir_text_put(&p->out, "}");
}

/* Where the line that is being printed began. */
static size_t line_bytes(const struct printer *p)
{
    size_t at = p->out.used;
    while (at > 0 && p->out.bytes[at - 1] != '\n')
        at--;
    return p->out.used - at;
}

/* Takes back what made the line too long; true: it is short enough, or has to be as it is. */
static bool keep_line(struct printer *p, size_t before)
{
    if (line_bytes(p) <= LINE_MAX_BYTES) {
        weir_text_put(&p->out, "\n");
        return true;
    }
    p->out.used = before;
    p->out.bytes[before] = '\0';
    return false;
}

/* ---- a key a line ---- */

static void print_table(struct printer *p, const struct weir_field_table *table, const char *row,
                        const char *usual, int depth, bool in_dash);

static void print_rows(struct printer *p, const struct weir_field *field, const char *row,
                       int depth)
{
    uint32_t count;
    const char *rows = weir_field_rows(field, row, &count);
    for (uint32_t i = 0; i < count; i++) {
        const char *each = rows + i * field->table->row_bytes;
        const char *usual = usual_row(p, field->table);
        if (usual && !table_has(p, field->table, each, usual))
            continue;
        size_t before = p->out.used;
        if (usual) {
            weir_text_blanks(&p->out, 2 * (depth - 1));
            weir_text_put(&p->out, "- ");
            flow_table(p, field->table, each, usual);
            if (keep_line(p, before))
                continue;
        }
        print_table(p, field->table, each, usual, depth, true);
    }
}

static void print_words(struct printer *p, const struct weir_field *field, const char *row,
                        int depth)
{
    char hex[65];
    uint32_t count = weir_field_u32(row, field->count_offset);
    weir_text_put(&p->out, "\n");
    for (uint32_t i = 0; i < count; i++) {
        weir_text_blanks(&p->out, 2 * (depth + 1));
        weir_text_put(&p->out, "- ");
        print_scalar(p, weir_field_item(field, row, i, hex), false);
        weir_text_put(&p->out, "\n");
    }
}

static void print_field(struct printer *p, const struct weir_field *field, const char *row,
                        const char *usual, int depth)
{
    char scratch[WEIR_FIELD_WORD_MAX];
    bool is_table = field->kind == WEIR_FIELD_TABLE, is_words = weir_field_is_words(field);
    const char *word = is_table ? table_word(p, field, row, usual, usual != NULL, scratch)
                                : weir_field_word(field, row, scratch);
    size_t before = p->out.used;
    if (word) {
        weir_text_put(&p->out, " ");
        print_scalar(p, word, false);
        weir_text_put(&p->out, "\n");
        return;
    }
    if (usual && field->kind != WEIR_FIELD_ROWS) {
        weir_text_put(&p->out, " ");
        flow_value(p, field, row, usual);
        if (keep_line(p, before))
            return;
    }
    if (is_words) {
        print_words(p, field, row, depth);
    } else if (is_table) {
        weir_text_put(&p->out, "\n");
        p->is_length = length_at(field, row) != NULL;
        print_table(p, field->table, row + field->offset, inside(usual, field), depth + 1, false);
        p->is_length = false;
    } else {
        weir_text_put(&p->out, "\n");
        print_rows(p, field, row, usual ? depth + 1 : depth + 2);
    }
}

/* in_dash: the first key of a list's entry stands behind its dash. */
static void print_table(struct printer *p, const struct weir_field_table *table, const char *row,
                        const char *usual, int depth, bool in_dash)
{
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        if (!field_has(p, field, row, usual))
            continue;
        weir_text_blanks(&p->out, in_dash ? 2 * (depth - 1) : 2 * depth);
        weir_text_put(&p->out, in_dash ? "- " : "");
        weir_text_put(&p->out, field->key);
        weir_text_put(&p->out, ":");
        print_field(p, field, row, usual, depth);
        in_dash = false;
    }
}

char *weir_config_yaml(const struct weir_config *config)
{
    struct printer p = {0};
    weir_text_put(&p.out, "");
    if (config->builtin_mock)
        weir_text_put(
            &p.out,
            "# No file and no upstream: the built-in mock answers, at a port chosen at start.\n");
    print_table(&p, &weir_config_root_table, (const char *)config, NULL, 0, false);
    return p.out.bytes;
}

char *weir_config_given_yaml(const struct weir_config *config)
{
    struct printer p = {.given = config, .usual = weir_config_new()};
    struct weir_loader loader = {.config = p.usual};
    weir_loader_presets(&loader, &weir_config_root_table, p.usual);
    weir_text_put(&p.out, "");
    print_table(&p, &weir_config_root_table, (const char *)config, (const char *)p.usual, 0, false);
    weir_config_free(p.usual);
    return p.out.bytes;
}

/* ---- one value ---- */

char *weir_config_get(struct weir_config *config, const char *path)
{
    struct printer p = {0};
    const struct weir_field_table *table;
    const void *row;
    char scratch[WEIR_FIELD_WORD_MAX], hex[65];
    const struct weir_field *field = weir_config_find(config, path, &table, &row);
    if (!field)
        return NULL;
    weir_text_put(&p.out, "");
    bool is_words = weir_field_is_words(field);
    uint32_t count = is_words || field->kind == WEIR_FIELD_ROWS
                         ? weir_field_u32(row, field->count_offset)
                         : WEIR_NONE;
    if (is_words && count == 1) {
        print_scalar(&p, weir_field_item(field, row, 0, hex), false);
    } else if (field->kind == WEIR_FIELD_TABLE || count != WEIR_NONE) {
        if (count > 0)
            flow_value(&p, field, row, NULL);
    } else {
        const char *word = weir_field_word(field, row, scratch);
        if (word)
            print_scalar(&p, word, false);
    }
    return p.out.bytes;
}

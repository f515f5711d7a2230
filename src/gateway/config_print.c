#include "gateway/config_print.h"

#include "gateway/config_table.h"
#include "gateway/config_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading a field back ---- */

static const char *read_text(const void *row, size_t offset)
{
    const char *text;
    memcpy(&text, (const char *)row + offset, sizeof text);
    return text;
}

static uint32_t read_u32(const void *row, size_t offset)
{
    uint32_t value;
    memcpy(&value, (const char *)row + offset, sizeof value);
    return value;
}

static uint64_t read_u64(const void *row, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)row + offset, sizeof value);
    return value;
}

static const char *choice_name(const struct weir_field *field, uint32_t value)
{
    for (size_t i = 0; i < field->choices_count; i++)
        if (field->choices[i].value == value)
            return field->choices[i].name;
    WEIR_INVARIANT(false);
}

static const char *period_word(const struct weir_window_rule *rule,
                               char scratch[WEIR_VALUE_TEXT_MAX])
{
    if (rule->period != WEIR_PERIOD_SECONDS)
        return weir_value_period_name(rule->period);
    weir_value_duration_text(rule->seconds * WEIR_NS_PER_S, scratch);
    return scratch;
}

/* The word of a one-word field, in scratch or of the config; NULL: nothing is set, nothing to
 * print. */
static const char *field_word(const struct weir_field *field, const void *row,
                              char scratch[WEIR_VALUE_TEXT_MAX + 264])
{
    uint64_t amount;
    switch (field->kind) {
    case WEIR_FIELD_TEXT:
    case WEIR_FIELD_NAME:
    case WEIR_FIELD_PATH:
    case WEIR_FIELD_URL:
        return read_text(row, field->offset);
    case WEIR_FIELD_U32:
        weir_value_count_text(read_u32(row, field->offset), scratch);
        return scratch;
    case WEIR_FIELD_COUNT:
        amount = read_u64(row, field->offset);
        weir_value_count_text(amount, scratch);
        return amount == 0 && field->min > 0 ? NULL : scratch;
    case WEIR_FIELD_FACTOR:
        weir_value_factor_text(read_u32(row, field->offset), scratch);
        return read_u32(row, field->offset) == 0 && field->min > 0 ? NULL : scratch;
    case WEIR_FIELD_LENGTH: /* printed as the mapping it is short for */
        return NULL;
    case WEIR_FIELD_BOOL: {
        bool answer;
        memcpy(&answer, (const char *)row + field->offset, sizeof answer);
        return answer ? "true" : "false";
    }
    case WEIR_FIELD_TIME:
        weir_value_duration_text(read_u64(row, field->offset), scratch);
        return scratch;
    case WEIR_FIELD_BYTES:
        weir_value_bytes_text(read_u64(row, field->offset), scratch);
        return scratch;
    case WEIR_FIELD_RATE: {
        struct weir_config_rate rate;
        memcpy(&rate, (const char *)row + field->offset, sizeof rate);
        weir_value_rate_text(rate, scratch);
        return rate.count ? scratch : NULL;
    }
    case WEIR_FIELD_CHOICE:
        return choice_name(field, read_u32(row, field->offset));
    case WEIR_FIELD_ADDR: {
        struct weir_config_addr addr;
        memcpy(&addr, (const char *)row + field->offset, sizeof addr);
        bool is_six = strchr(addr.host, ':') != NULL;
        snprintf(scratch, WEIR_VALUE_TEXT_MAX + 264, "%s%.255s%s:%u", is_six ? "[" : "", addr.host,
                 is_six ? "]" : "", addr.port);
        return scratch;
    }
    case WEIR_FIELD_LOG: {
        const char *file = read_text(row, field->count_offset);
        uint32_t access = read_u32(row, field->offset);
        return file ? file : access == WEIR_CONFIG_ACCESS_OFF ? "off" : "stderr";
    }
    case WEIR_FIELD_PERIOD:
        return period_word((const struct weir_window_rule *)((const char *)row + field->offset),
                           scratch);
    case WEIR_FIELD_MODELS:
    case WEIR_FIELD_TEXTS:
    case WEIR_FIELD_DIGESTS:
    case WEIR_FIELD_TABLE:
    case WEIR_FIELD_ROWS:
    case WEIR_FIELD_LATER:
        break;
    }
    return NULL;
}

static void digest_hex(const uint8_t digest[32], char out[65])
{
    for (size_t i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static const char *list_item(const struct weir_field *field, const void *row, uint32_t i,
                             char out[65])
{
    if (field->kind != WEIR_FIELD_DIGESTS) {
        const char **texts;
        memcpy(&texts, (const char *)row + field->offset, sizeof texts);
        return texts[i];
    }
    const uint8_t(*digests)[32];
    memcpy(&digests, (const char *)row + field->offset, sizeof digests);
    digest_hex(digests[i], out);
    return out;
}

/* ---- YAML ---- */

static void print_scalar(FILE *out, const char *text)
{
    bool is_plain =
        *text && strcmp(text, "null") != 0 &&
        text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                          "_./-")] == '\0' &&
        text[0] != '-';
    bool is_link = !strpbrk(text, " \"\\#*&!|>'%@`[]{},~?") && strchr(text, ':') && *text != ':' &&
                   text[strlen(text) - 1] != ':';
    if (is_plain || is_link) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_table(FILE *out, const struct weir_field_table *table, const void *row, int depth,
                        bool in_dash);

/* Whether a table is to be printed, whatever is in it. */
static bool is_shown(const struct weir_field *field, const void *row)
{
    return !field->shown_offset || read_u32(row, field->shown_offset) > 0;
}

static bool is_list_of_words(const struct weir_field *field)
{
    return field->kind == WEIR_FIELD_MODELS || field->kind == WEIR_FIELD_TEXTS ||
           field->kind == WEIR_FIELD_DIGESTS;
}

/* Whether anything of a table would be printed: an empty one is left out. */
static bool has_something(const struct weir_field_table *table, const void *row)
{
    char scratch[WEIR_VALUE_TEXT_MAX + 264];
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        bool is_list = is_list_of_words(field) || field->kind == WEIR_FIELD_ROWS;
        if (is_list ? read_u32(row, field->count_offset) > 0
            : field->kind == WEIR_FIELD_TABLE
                ? has_something(field->table, (const char *)row + field->offset)
                : field_word(field, row, scratch) != NULL)
            return true;
    }
    return false;
}

static void print_rows(FILE *out, const struct weir_field *field, const void *row, int depth)
{
    const char *rows;
    memcpy(&rows, (const char *)row + field->offset, sizeof rows);
    uint32_t count = read_u32(row, field->count_offset);
    for (uint32_t i = 0; i < count; i++)
        print_table(out, field->table, rows + i * field->table->row_bytes, depth + 1, true);
}

static void print_table(FILE *out, const struct weir_field_table *table, const void *row, int depth,
                        bool in_dash)
{
    char scratch[WEIR_VALUE_TEXT_MAX + 264], hex[65];
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        const char *word = NULL;
        bool is_words = is_list_of_words(field);
        bool is_rows = field->kind == WEIR_FIELD_ROWS, is_table = field->kind == WEIR_FIELD_TABLE;
        if (is_words || is_rows) {
            if (read_u32(row, field->count_offset) == 0)
                continue;
        } else if (is_table) {
            if (!is_shown(field, row))
                continue;
            if (!has_something(field->table, (const char *)row + field->offset)) {
                if (!field->word)
                    continue;
                is_table = false; /* nothing beyond its one word */
                word = field_word(field->word, (const char *)row + field->offset, scratch);
            }
        } else if (!(word = field_word(field, row, scratch))) {
            continue;
        }
        if (in_dash) /* the first key of a list's entry stands behind its dash */
            fprintf(out, "%*s- %s:", 2 * (depth - 1), "", field->key);
        else
            fprintf(out, "%*s%s:", 2 * depth, "", field->key);
        in_dash = false;
        if (is_words) {
            uint32_t count = read_u32(row, field->count_offset);
            for (uint32_t j = 0; j < count; j++) {
                fprintf(out, "\n%*s- ", 2 * (depth + 1), "");
                print_scalar(out, list_item(field, row, j, hex));
            }
            fputc('\n', out);
        } else if (is_table) {
            fputc('\n', out);
            print_table(out, field->table, (const char *)row + field->offset, depth + 1, false);
        } else if (is_rows) {
            fputc('\n', out);
            print_rows(out, field, row, depth + 1);
        } else {
            fputc(' ', out);
            print_scalar(out, word);
            fputc('\n', out);
        }
    }
}

static char *finish(FILE *out, char **text)
{
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(*text);
        return NULL;
    }
    return *text;
}

char *weir_config_yaml(const struct weir_config *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    if (config->builtin_mock)
        fputs("# No file and no upstream: the built-in mock answers, at a port chosen at start.\n",
              out);
    print_table(out, &weir_config_root_table, config, 0, false);
    return finish(out, &text);
}

/* ---- JSON: as in YAML, but amounts without a unit are numbers ---- */

static json_t *table_json(const struct weir_field_table *table, const void *row)
{
    char scratch[WEIR_VALUE_TEXT_MAX + 264], hex[65];
    json_t *object = json_object();
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        const char *at = (const char *)row + field->offset;
        json_t *value = NULL;
        if (field->kind == WEIR_FIELD_TABLE) {
            if (!is_shown(field, row))
                continue;
            if (has_something(field->table, at))
                value = table_json(field->table, at);
            else if (field->word)
                value = json_string(field_word(field->word, at, scratch));
        } else if (field->kind == WEIR_FIELD_ROWS) {
            const char *rows;
            memcpy(&rows, at, sizeof rows);
            value = json_array();
            for (uint32_t j = 0; j < read_u32(row, field->count_offset); j++)
                json_array_append_new(value,
                                      table_json(field->table, rows + j * field->table->row_bytes));
        } else if (is_list_of_words(field)) {
            value = json_array();
            for (uint32_t j = 0; j < read_u32(row, field->count_offset); j++)
                json_array_append_new(value, json_string(list_item(field, row, j, hex)));
        } else {
            const char *word = field_word(field, row, scratch);
            if (!word)
                continue;
            if (field->kind == WEIR_FIELD_U32)
                value = json_integer((json_int_t)read_u32(row, field->offset));
            else if (field->kind == WEIR_FIELD_COUNT)
                value = json_integer((json_int_t)read_u64(row, field->offset));
            else if (field->kind == WEIR_FIELD_BOOL)
                value = json_boolean(strcmp(word, "true") == 0);
            else
                value = json_string(word);
        }
        if (value)
            json_object_set_new(object, field->key, value);
    }
    return object;
}

json_t *weir_config_json(const struct weir_config *config)
{
    return table_json(&weir_config_root_table, config);
}

/* ---- the reference ---- */

static void print_reference_table(FILE *out, const struct weir_field_table *table)
{
    char accepts[256];
    fprintf(out,
            "\n## %s\n\n%s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
            *table->name ? table->name : "The top level", table->help);
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        if (field->kind == WEIR_FIELD_LATER) {
            fprintf(out, "| `%s` | not supported yet | | %s |\n", field->key, field->help);
            continue;
        }
        weir_field_accepts(field, accepts, sizeof accepts);
        fprintf(out, "| `%s` | %s | ", field->key, accepts);
        if (field->preset || (field->word && field->word->preset))
            fprintf(out, "`%s`", field->preset ? field->preset : field->word->preset);
        if (field->derived)
            fprintf(out, "%s%s", field->preset ? ", " : "", field->derived);
        if (field->is_required)
            fputs("required", out);
        if (field->table)
            fprintf(out, " | see %s below", field->table->name);
        else
            fprintf(out, " | %s", field->help);
        fputs(" |\n", out);
    }
    for (size_t i = 0; i < table->fields_count; i++)
        if (table->fields[i].table)
            print_reference_table(out, table->fields[i].table);
}

char *weir_config_reference(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fputs("# Configuration\n\n"
          "Printed by `weir check --defaults` from the table that the program itself reads; a test "
          "keeps the\n"
          "two alike. `weir check -c weir.yaml` says what is wrong with a file, all at once with "
          "line and\n"
          "column, or prints what would be in force. A key that is not listed here is refused, and "
          "so is\n"
          "one that this version does not enforce.\n\n"
          "Counts may end in k, M, G (thousands); durations in ms, s, m, h, d; sizes in KiB, MiB, "
          "GiB; a\n"
          "rate is a count per s, m, h or d (1.5/s is 90/m). Credentials are never in the file: "
          "`key_env`\n"
          "and `key_file` name where they are.\n\n"
          "What weir keeps itself lies in the state directory, for its owner's eyes only: "
          "`ledger.db`,\n"
          "`keys.json` (digests of the weir keys), `admin.token` (for the admin API) and "
          "`install.secret`.\n"
          "It is `$WEIR_STATE`, else `$XDG_STATE_HOME/weir`, else `/var/lib/weir` for root and\n"
          "`~/.local/state/weir` for others. `weir key` and `weir ledger` look there too, so run "
          "them as the\n"
          "gateway's user.\n",
          out);
    print_reference_table(out, &weir_config_root_table);
    return finish(out, &text);
}

#include "gateway/config_reference.h"

#include "gateway/config_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON: as in YAML, but amounts without a unit are numbers ---- */

static json_t *table_json(const struct weir_field_table *table, const void *row)
{
    char scratch[WEIR_FIELD_WORD_MAX], hex[65];
    json_t *object = json_object();
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        const char *at = (const char *)row + field->offset;
        json_t *value = NULL;
        if (field->kind == WEIR_FIELD_TABLE) {
            if (!weir_field_is_shown(field, row))
                continue;
            if (weir_table_has_something(field->table, at))
                value = table_json(field->table, at);
            else if (field->word)
                value = json_string(weir_field_word(field->word, at, scratch));
        } else if (field->kind == WEIR_FIELD_ROWS) {
            const char *rows;
            memcpy(&rows, at, sizeof rows);
            value = json_array();
            for (uint32_t j = 0; j < weir_field_u32(row, field->count_offset); j++)
                json_array_append_new(value,
                                      table_json(field->table, rows + j * field->table->row_bytes));
        } else if (weir_field_is_words(field)) {
            value = json_array();
            for (uint32_t j = 0; j < weir_field_u32(row, field->count_offset); j++)
                json_array_append_new(value, json_string(weir_field_item(field, row, j, hex)));
        } else {
            const char *word = weir_field_word(field, row, scratch);
            if (!word)
                continue;
            if (field->kind == WEIR_FIELD_U32)
                value = json_integer((json_int_t)weir_field_u32(row, field->offset));
            else if (field->kind == WEIR_FIELD_COUNT)
                value = json_integer((json_int_t)weir_field_u64(row, field->offset));
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

static char *finish(FILE *out, char **text)
{
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(*text);
        return NULL;
    }
    return *text;
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

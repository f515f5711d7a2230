#include "gateway/config_words.h"

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

uint32_t weir_field_u32(const void *row, size_t offset)
{
    uint32_t value;
    memcpy(&value, (const char *)row + offset, sizeof value);
    return value;
}

uint64_t weir_field_u64(const void *row, size_t offset)
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

const char *weir_field_word(const struct weir_field *field, const void *row,
                            char scratch[WEIR_FIELD_WORD_MAX])
{
    uint64_t amount;
    switch (field->kind) {
    case WEIR_FIELD_TEXT:
    case WEIR_FIELD_NAME:
    case WEIR_FIELD_PATH:
    case WEIR_FIELD_URL:
        return read_text(row, field->offset);
    case WEIR_FIELD_U32:
        weir_value_count_text(weir_field_u32(row, field->offset), scratch);
        return scratch;
    case WEIR_FIELD_COUNT:
        amount = weir_field_u64(row, field->offset);
        weir_value_count_text(amount, scratch);
        return amount == 0 && field->min > 0 ? NULL : scratch;
    case WEIR_FIELD_FACTOR:
        weir_value_factor_text(weir_field_u32(row, field->offset), scratch);
        return weir_field_u32(row, field->offset) == 0 && field->min > 0 ? NULL : scratch;
    case WEIR_FIELD_LENGTH: /* printed as the mapping it is short for */
        return NULL;
    case WEIR_FIELD_BOOL: {
        bool answer;
        memcpy(&answer, (const char *)row + field->offset, sizeof answer);
        return answer ? "true" : "false";
    }
    case WEIR_FIELD_TIME:
        weir_value_duration_text(weir_field_u64(row, field->offset), scratch);
        return scratch;
    case WEIR_FIELD_BYTES:
        weir_value_bytes_text(weir_field_u64(row, field->offset), scratch);
        return scratch;
    case WEIR_FIELD_RATE: {
        struct weir_config_rate rate;
        memcpy(&rate, (const char *)row + field->offset, sizeof rate);
        weir_value_rate_text(rate, scratch);
        return rate.count ? scratch : NULL;
    }
    case WEIR_FIELD_CHOICE:
        return choice_name(field, weir_field_u32(row, field->offset));
    case WEIR_FIELD_ADDR: {
        struct weir_config_addr addr;
        memcpy(&addr, (const char *)row + field->offset, sizeof addr);
        bool is_six = strchr(addr.host, ':') != NULL;
        snprintf(scratch, WEIR_FIELD_WORD_MAX, "%s%.255s%s:%u", is_six ? "[" : "", addr.host,
                 is_six ? "]" : "", addr.port);
        return scratch;
    }
    case WEIR_FIELD_LOG: {
        const char *file = read_text(row, field->count_offset);
        uint32_t access = weir_field_u32(row, field->offset);
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

const char *weir_field_item(const struct weir_field *field, const void *row, uint32_t i,
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

bool weir_field_is_words(const struct weir_field *field)
{
    return field->kind == WEIR_FIELD_MODELS || field->kind == WEIR_FIELD_TEXTS ||
           field->kind == WEIR_FIELD_DIGESTS;
}

const char *weir_field_rows(const struct weir_field *field, const void *row, uint32_t *count)
{
    const char *rows;
    memcpy(&rows, (const char *)row + field->offset, sizeof rows);
    *count = weir_field_u32(row, field->count_offset);
    return rows;
}

bool weir_field_is_shown(const struct weir_field *field, const void *row)
{
    return !field->shown_offset || weir_field_u32(row, field->shown_offset) > 0;
}

bool weir_table_has_something(const struct weir_field_table *table, const void *row)
{
    char scratch[WEIR_FIELD_WORD_MAX];
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        bool is_list = weir_field_is_words(field) || field->kind == WEIR_FIELD_ROWS;
        if (is_list ? weir_field_u32(row, field->count_offset) > 0
            : field->kind == WEIR_FIELD_TABLE
                ? weir_table_has_something(field->table, (const char *)row + field->offset)
                : weir_field_word(field, row, scratch) != NULL)
            return true;
    }
    return false;
}

/* ---- a text that grows ---- */

void weir_text_bytes(struct weir_text *text, const char *bytes, size_t count)
{
    if (text->room - text->used <= count) {
        text->room = 2 * (text->room + count) + 256;
        text->bytes = weir_config_must(realloc(text->bytes, text->room));
    }
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
    text->bytes[text->used] = '\0';
}

void weir_text_put(struct weir_text *text, const char *more)
{
    weir_text_bytes(text, more, strlen(more));
}

void weir_text_blanks(struct weir_text *text, int count)
{
    for (; count > 0; count--)
        weir_text_put(text, " ");
}

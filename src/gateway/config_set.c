#include "gateway/config_load.h"

#include "gateway/config_value.h"

#include <ctype.h>
#include <string.h>

/* One field from one word: what the walker, the flags and the defaults have in common. */

static void not_accepted(struct weir_loader *loader, const struct weir_field *field,
                         const char *label, const char *text, struct weir_place place)
{
    char accepts[256];
    weir_field_accepts(field, accepts, sizeof accepts);
    if (field->kind == WEIR_FIELD_CHOICE || field->kind == WEIR_FIELD_PERIOD) {
        const char *known[16];
        size_t count = 0;
        if (field->kind == WEIR_FIELD_PERIOD)
            while (count < WEIR_PERIOD_SECONDS) {
                known[count] = weir_value_period_name((enum weir_period)count);
                count++;
            }
        for (size_t i = 0; i < field->choices_count && count < WEIR_COUNT(known); i++)
            known[count++] = field->choices[i].name;
        const char *near = weir_value_suggest(text, known, count);
        if (near) {
            weir_loader_error(loader, place, "%s must be %s, not '%s'; did you mean '%s'?", label,
                              accepts, text, near);
            return;
        }
    }
    weir_loader_error(loader, place, "%s must be %s, not '%s'%s", label, accepts, text,
                      field->kind == WEIR_FIELD_TIME && text[strspn(text, "0123456789")] == '\0' &&
                              *text
                          ? " (the unit is missing)"
                          : "");
}

static bool is_name(const char *text)
{
    size_t bytes = strlen(text);
    if (bytes == 0 || bytes > 63 || !isalnum((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
            return false;
    return true;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static bool set_choice(struct weir_loader *loader, const struct weir_field *field, void *at,
                       const char *label, const char *text, struct weir_place place)
{
    for (size_t i = 0; i < field->choices_count; i++) {
        const struct weir_field_choice *choice = &field->choices[i];
        if (strcmp(choice->name, text) != 0)
            continue;
        memcpy(at, &choice->value, sizeof choice->value);
        return true;
    }
    not_accepted(loader, field, label, text, place);
    return false;
}

static bool set_amount(const struct weir_field *field, void *at, const char *text)
{
    uint64_t amount = 0;
    bool is_right = field->kind == WEIR_FIELD_TIME    ? weir_value_duration(text, &amount)
                    : field->kind == WEIR_FIELD_BYTES ? weir_value_bytes(text, &amount)
                                                      : weir_value_count(text, &amount);
    if (!is_right || amount > field->max ||
        (amount < field->min && !(field->zero_is_off && amount == 0)))
        return false;
    if (field->kind == WEIR_FIELD_U32) {
        uint32_t narrow = (uint32_t)amount; /* max is below 2^32 */
        memcpy(at, &narrow, sizeof narrow);
    } else {
        memcpy(at, &amount, sizeof amount);
    }
    return true;
}

/* `900` or `300..1500`. */
static bool set_length(struct weir_config_length *length, const char *text)
{
    const char *dots = strstr(text, "..");
    char first[32];
    uint64_t low, high;
    if (!dots) {
        if (!weir_value_count(text, &low) || low > UINT32_MAX)
            return false;
        *length = (struct weir_config_length){.distribution = WEIR_CONFIG_LENGTH_FIXED,
                                              .mean = (uint32_t)low};
        return true;
    }
    if ((size_t)(dots - text) >= sizeof first)
        return false;
    memcpy(first, text, (size_t)(dots - text));
    first[dots - text] = '\0';
    if (!weir_value_count(first, &low) || !weir_value_count(dots + 2, &high) || high > UINT32_MAX ||
        low > high)
        return false;
    *length = (struct weir_config_length){
        .distribution = WEIR_CONFIG_LENGTH_UNIFORM, .low = (uint32_t)low, .high = (uint32_t)high};
    return true;
}

static bool set_factor(const struct weir_field *field, uint32_t *at, const char *text)
{
    uint32_t permille;
    if (!weir_value_factor(text, &permille) || permille > field->max ||
        (permille < field->min && !(field->zero_is_off && permille == 0)))
        return false;
    *at = permille;
    return true;
}

static bool set_text(struct weir_loader *loader, void *at, const char *text)
{
    char *copy = weir_config_text(loader->config, text, strlen(text));
    memcpy(at, &copy, sizeof copy);
    return true;
}

static bool set_addr(struct weir_loader *loader, struct weir_config_addr *addr, const char *text)
{
    char host[256];
    if (!weir_value_addr(text, host, &addr->port))
        return false;
    addr->host = weir_config_text(loader->config, host, strlen(host));
    addr->is_loopback = weir_value_is_loopback(host);
    return true;
}

/* Takes a URL apart; a reason, or NULL when it is right. */
static const char *set_url(struct weir_loader *loader, struct weir_config_upstream *upstream,
                           const char *text)
{
    const char *rest;
    if (strncasecmp(text, "https://", 8) == 0) {
        upstream->is_tls = true;
        rest = text + 8;
    } else if (strncasecmp(text, "http://", 7) == 0) {
        upstream->is_tls = false;
        rest = text + 7;
    } else {
        return "must begin with http:// or https://";
    }
    if (strpbrk(rest, "?#"))
        return "must have no query and no fragment";
    size_t authority_bytes = strcspn(rest, "/");
    if (memchr(rest, '@', authority_bytes))
        return "must hold no credential; use key_env or key_file";
    if (strspn(rest + authority_bytes,
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
               "-._~!$&'()*+,;=:@/%") != strlen(rest + authority_bytes))
        return "has a path with characters that must be percent-encoded";
    char authority[256 + 8], host[256];
    if (authority_bytes == 0 || authority_bytes > 255)
        return "has no host";
    memcpy(authority, rest, authority_bytes);
    authority[authority_bytes] = '\0';
    const char *after = authority[0] == '[' ? strchr(authority, ']') : authority;
    if (!after || !strchr(after, ':')) /* no port of its own */
        strcpy(authority + authority_bytes, upstream->is_tls ? ":443" : ":80");
    if (!weir_value_addr(authority, host, &upstream->port) || upstream->port == 0)
        return "has a host or port that cannot be";
    const char *path = rest + authority_bytes;
    size_t path_bytes = strlen(path);
    while (path_bytes > 0 && path[path_bytes - 1] == '/')
        path_bytes--;
    upstream->host = weir_config_text(loader->config, host, strlen(host));
    upstream->prefix = weir_config_text(loader->config, path, path_bytes);
    upstream->url = weir_config_text(loader->config, text, strlen(text));
    return NULL;
}

static bool set_log(struct weir_loader *loader, const struct weir_field *field, void *row,
                    const char *text)
{
    enum weir_config_access access;
    char *file = NULL;
    if (strcmp(text, "off") == 0)
        access = WEIR_CONFIG_ACCESS_OFF;
    else if (strcmp(text, "stderr") == 0)
        access = WEIR_CONFIG_ACCESS_STDERR;
    else if (text[0] == '/' || text[0] == '.')
        access = WEIR_CONFIG_ACCESS_FILE;
    else
        return false;
    if (access == WEIR_CONFIG_ACCESS_FILE)
        file = weir_config_text(loader->config, text, strlen(text));
    memcpy((char *)row + field->offset, &access, sizeof access);
    memcpy((char *)row + field->count_offset, &file, sizeof file);
    return true;
}

bool weir_loader_set(struct weir_loader *loader, const struct weir_field *field, void *row,
                     const char *label, const char *text, struct weir_place place)
{
    void *at = (char *)row + field->offset;
    bool is_right = false;
    if (!is_printable(text)) {
        weir_loader_error(loader, place, "%s has a control character in it", label);
        return false;
    }
    switch (field->kind) {
    case WEIR_FIELD_TEXT:
        is_right = *text && set_text(loader, at, text);
        break;
    case WEIR_FIELD_NAME:
        is_right = is_name(text) && set_text(loader, at, text);
        break;
    case WEIR_FIELD_PATH: {
        const char *asterisk = strchr(text, '*');
        is_right = text[0] == '/' && !strpbrk(text, " ?#") && (!asterisk || !asterisk[1]) &&
                   set_text(loader, at, text);
        break;
    }
    case WEIR_FIELD_U32:
    case WEIR_FIELD_COUNT:
    case WEIR_FIELD_TIME:
    case WEIR_FIELD_BYTES:
        is_right = set_amount(field, at, text);
        break;
    case WEIR_FIELD_FACTOR:
        is_right = set_factor(field, at, text);
        break;
    case WEIR_FIELD_LENGTH:
        is_right = set_length(at, text);
        break;
    case WEIR_FIELD_BOOL: {
        bool answer = strcmp(text, "true") == 0;
        is_right = answer || (strcmp(text, "false") == 0 && !field->min);
        if (is_right)
            memcpy(at, &answer, sizeof answer);
        break;
    }
    case WEIR_FIELD_RATE: {
        struct weir_config_rate rate = {0}; /* none: what was given before is taken away */
        is_right =
            strcmp(text, "none") == 0 || (weir_value_rate(text, &rate) && rate.count <= field->max);
        if (is_right)
            memcpy(at, &rate, sizeof rate);
        break;
    }
    case WEIR_FIELD_PERIOD:
        is_right = weir_value_period(text, at);
        if (!is_right) /* no period at all: what goes with one is then not judged */
            *(struct weir_window_rule *)at =
                (struct weir_window_rule){.period = WEIR_PERIOD_SECONDS};
        break;
    case WEIR_FIELD_CHOICE:
        if (!set_choice(loader, field, at, label, text, place))
            return false;
        is_right = true;
        break;
    case WEIR_FIELD_ADDR:
        is_right = set_addr(loader, at, text);
        break;
    case WEIR_FIELD_URL: {
        const char *reason = set_url(loader, row, text);
        if (reason) {
            weir_loader_error(loader, place, "%s %s", label, reason);
            return false;
        }
        at = (char *)row + field->offset;
        is_right = true;
        break;
    }
    case WEIR_FIELD_LOG:
        is_right = set_log(loader, field, row, text);
        break;
    case WEIR_FIELD_MODELS:
    case WEIR_FIELD_TEXTS:
    case WEIR_FIELD_DIGESTS:
    case WEIR_FIELD_TABLE:
    case WEIR_FIELD_ROWS:
    case WEIR_FIELD_LATER:
        break; /* not one word: the walker's */
    }
    if (!is_right) {
        not_accepted(loader, field, label, text, place);
        return false;
    }
    if (place.where)
        weir_loader_mark(loader, at, place);
    return true;
}

static void set_preset(struct weir_loader *loader, const struct weir_field *field, void *row)
{
    bool is_right =
        weir_loader_set(loader, field, row, field->key, field->preset, (struct weir_place){0});
    WEIR_INVARIANT(is_right);
}

void weir_loader_presets(struct weir_loader *loader, const struct weir_field_table *table,
                         void *row)
{
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct weir_field *field = &table->fields[i];
        if (field->kind == WEIR_FIELD_TABLE) {
            weir_loader_presets(loader, field->table, (char *)row + field->offset);
            if (field->word && field->word->preset)
                set_preset(loader, field->word, (char *)row + field->offset);
        } else if (field->preset) {
            set_preset(loader, field, row);
        }
    }
}

#include "gateway/zone.h"

#include "gateway/config_value.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct weir_zone {
    GTimeZone *glib;
    char name[WEIR_ZONE_NAME_MAX];
};

/* A name of the database, and no path out of it, offset or rule, which the library would take. All
 * names begin with a capital; what does not is the database's own (right/, which counts leap
 * seconds, posixrules, localtime). */
static bool is_name(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 0 && bytes < WEIR_ZONE_NAME_MAX && g_ascii_isupper(name[0]) &&
           name[bytes - 1] != '/' && !strstr(name, "//") &&
           name[strspn(
               name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/")] == '\0';
}

const char *weir_zone_database(void)
{
    const char *other = getenv("TZDIR");
    return other && *other ? other : "/usr/share/zoneinfo";
}

bool weir_zone_database_exists(void)
{
    return access(weir_zone_database(), R_OK | X_OK) == 0;
}

/* Whether there is a file of that name and it is a zone: the library complains about others on
 * standard error. */
static bool is_in_database(const char *name)
{
    char path[4096], magic[4] = "";
    int bytes = snprintf(path, sizeof path, "%s/%s", weir_zone_database(), name);
    FILE *file = bytes > 0 && (size_t)bytes < sizeof path ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    bool is_zone = fread(magic, 1, sizeof magic, file) == sizeof magic &&
                   memcmp(magic, "TZif", sizeof magic) == 0;
    fclose(file);
    return is_zone;
}

struct weir_zone *weir_zone_open(const char *name)
{
    bool is_utc = strcmp(name, "UTC") == 0;
    if (!is_name(name) || (!is_utc && !is_in_database(name)))
        return NULL;
    GTimeZone *glib = is_utc ? g_time_zone_new_utc() : g_time_zone_new_identifier(name);
    if (!glib)
        return NULL;
    struct weir_zone *zone = calloc(1, sizeof *zone);
    if (!zone) {
        g_time_zone_unref(glib);
        return NULL;
    }
    zone->glib = glib;
    strcpy(zone->name, name);
    return zone;
}

void weir_zone_close(struct weir_zone *zone)
{
    if (!zone)
        return;
    g_time_zone_unref(zone->glib);
    free(zone);
}

const char *weir_zone_name(const struct weir_zone *zone)
{
    return zone->name;
}

static int interval_at(const struct weir_zone *zone, int64_t unix_s)
{
    return g_time_zone_find_interval(zone->glib, G_TIME_TYPE_UNIVERSAL, unix_s);
}

struct weir_zone_span weir_zone_span(const struct weir_zone *zone, int64_t unix_s, int64_t limit_s)
{
    WEIR_INVARIANT(unix_s < limit_s);
    int interval = interval_at(zone, unix_s);
    struct weir_zone_span span = {.end_s = limit_s,
                                  .offset_s = g_time_zone_get_offset(zone->glib, interval)};
    if (interval_at(zone, limit_s) == interval)
        return span;
    int64_t inside_s = unix_s; /* intervals are numbered in order: halve to the first other one */
    while (span.end_s - inside_s > 1) {
        int64_t middle_s = inside_s + (span.end_s - inside_s) / 2;
        if (interval_at(zone, middle_s) == interval)
            inside_s = middle_s;
        else
            span.end_s = middle_s;
    }
    return span;
}

/* ---- names that were probably meant ---- */

enum { NAMES_MAX = 2000, LIST_BYTES_MAX = 1 << 20 };

static bool is_city_of(const char *zone, const char *word)
{
    const char *slash = strrchr(zone, '/');
    return slash && g_ascii_strcasecmp(slash + 1, word) == 0;
}

/* The zones ("Z name ...") and other names of zones ("L zone name") of the database's source. Takes
 * text apart in place. */
static size_t list_names(char *text, const char **names)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && count < NAMES_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        if ((line[0] != 'Z' && line[0] != 'L') || line[1] != ' ')
            continue;
        char *name = line + 2;
        if (line[0] == 'L') {
            name = strchr(name, ' ');
            if (!name)
                continue;
            name++;
        }
        name[strcspn(name, " ")] = '\0';
        if (is_name(name))
            names[count++] = name;
    }
    return count;
}

bool weir_zone_suggest(const char *name, char out[WEIR_ZONE_NAME_MAX])
{
    char path[4096], word[WEIR_ZONE_NAME_MAX];
    int bytes = snprintf(path, sizeof path, "%s/tzdata.zi", weir_zone_database());
    FILE *file = bytes > 0 && (size_t)bytes < sizeof path ? fopen(path, "re") : NULL;
    if (!file || strlen(name) >= sizeof word) {
        if (file)
            fclose(file);
        return false;
    }
    strcpy(word, name);
    for (char *c = word; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    char *text = calloc(1, LIST_BYTES_MAX + 1);
    const char **names = calloc(NAMES_MAX, sizeof *names), *near = NULL;
    if (text && names) {
        text[fread(text, 1, LIST_BYTES_MAX, file)] = '\0';
        size_t count = list_names(text, names);
        for (size_t i = 0; i < count && !near; i++)
            if (g_ascii_strcasecmp(names[i], word) == 0 || is_city_of(names[i], word))
                near = names[i];
        if (!near)
            near = weir_value_suggest(word, names, count);
        if (near)
            strcpy(out, near); /* is_name has measured it */
    }
    fclose(file);
    free(text);
    free(names);
    return near != NULL;
}

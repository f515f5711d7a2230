/* host: a page's answers to what the configuration's loader asks of a machine.
 *
 * There are no files: paths are taken as they stand. There is no database of time zones: every name
 * is one, and means UTC, for the lab looks at the lengths of windows only. Credentials are not read.
 * YAML was taken apart by the page. */
#include "host.h"

#include "gateway/config_load.h"
#include "gateway/keys.h"
#include "lab/lab_private.h"
#include "measure/difference.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* ---- YAML ---- */

struct pushed {
    const char *text;
    struct weir_tree tree;
};

static struct pushed *pushed;
static uint32_t pushed_count, pushed_room;

void weir_host_push_tree(const char *text, const struct weir_tree *tree)
{
    if (pushed_count == pushed_room) {
        pushed_room = pushed_room ? 2 * pushed_room : 16;
        pushed = weir_config_must(realloc(pushed, pushed_room * sizeof *pushed));
    }
    pushed[pushed_count++] = (struct pushed){text, *tree};
}

void weir_host_drop_trees(void)
{
    pushed_count = 0;
}

void weir_tree_read(const char *text, size_t bytes, struct weir_tree *tree)
{
    uint32_t i = 0;
    (void)bytes;
    while (i < pushed_count && pushed[i].text != text)
        i++;
    WEIR_INVARIANT(i < pushed_count);
    *tree = pushed[i].tree;
}

void weir_tree_free(struct weir_tree *tree)
{
    *tree = (struct weir_tree){0};
}

/* ---- files ---- */

_Noreturn void weir_config_no_memory(void)
{
    weir_panic("out of memory", "the setup is too large for a page", 0);
}

char *weir_config_read_file(struct weir_loader *loader, const char *path, size_t *bytes)
{
    (void)path;
    (void)bytes;
    weir_loader_error(loader, loader->whole, "cannot be read: a page has no files");
    return NULL;
}

const char *weir_config_absolute(struct weir_loader *loader, struct weir_place place,
                                 const char *what, const char *path)
{
    (void)loader;
    (void)place;
    (void)what;
    return path;
}

void weir_config_check_ledger(struct weir_loader *loader, struct weir_place place, const char *path)
{
    (void)loader;
    (void)place;
    (void)path;
}

/* A recording's path says nothing where there are no files. */
void weir_config_finish_record(struct weir_loader *loader)
{
    (void)loader;
}

bool weir_state_dir(char *out, size_t out_bytes, struct weir_keys_error *error)
{
    (void)out;
    (void)out_bytes;
    (void)error;
    return false;
}

/* There are none. */
void weir_config_apply_flags(struct weir_loader *loader, const struct weir_config_source *from)
{
    (void)loader;
    (void)from;
}

/* ---- addresses ---- */

/* A page connects to none of them: it says whether they look like it. */
int inet_pton(int family, const char *restrict text, void *restrict address)
{
    const char *letters = family == AF_INET ? "0123456789." : "0123456789abcdefABCDEF:.";
    size_t marks = 0;
    for (const char *c = text; *c; c++)
        marks += *c == (family == AF_INET ? '.' : ':');
    memset(address, 0, family == AF_INET ? 4 : 16);
    if (text[strspn(text, letters)] != '\0' || (family == AF_INET ? marks != 3 : marks < 2))
        return 0;
    if (strncmp(text, "127.", 4) == 0)
        *(uint8_t *)address = 127;
    ((uint8_t *)address)[family == AF_INET ? 3 : 15] = 1;
    return 1;
}

/* ---- secrets ---- */

void weir_config_read_credential(struct weir_loader *loader, struct weir_config_upstream *upstream)
{
    (void)loader;
    (void)upstream;
}

void weir_config_free_secrets(struct weir_secrets *secrets)
{
    WEIR_INVARIANT(!secrets);
}

/* ---- time zones ---- */

struct weir_zone {
    char name[WEIR_ZONE_NAME_MAX];
};

struct weir_zone *weir_zone_open(const char *name)
{
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes >= WEIR_ZONE_NAME_MAX)
        return NULL;
    struct weir_zone *zone = weir_config_must(calloc(1, sizeof *zone));
    memcpy(zone->name, name, bytes);
    return zone;
}

void weir_zone_close(struct weir_zone *zone)
{
    free(zone);
}

const char *weir_zone_name(const struct weir_zone *zone)
{
    return zone->name;
}

bool weir_zone_database_exists(void)
{
    return true;
}

const char *weir_zone_database(void)
{
    return "the IANA database";
}

bool weir_zone_suggest(const char *name, char out[WEIR_ZONE_NAME_MAX])
{
    (void)name;
    (void)out;
    return false;
}

/* ---- audits ---- */

/* Tests have them; see src/lab/lab_audit.c. */
void lab_audit(struct weir_lab *lab)
{
    (void)lab;
}

/* ---- the service difference ---- */

/* The page shows the gap, which the core measures, and not this. */
const char *weir_difference_compute(const struct weir_trace_entry *entries, size_t count,
                                    uint32_t tenants_count,
                                    const struct weir_difference_points *points,
                                    struct weir_difference *result)
{
    (void)entries;
    (void)count;
    (void)tenants_count;
    (void)points;
    (void)result;
    return "it is not in the page";
}

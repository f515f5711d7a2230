/* The ledger's side of a comparison: page after page through the door. */
#include "cli/commands.h"
#include "cli/ledger_reconcile.h"
#include "cli/text.h"
#include "core/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(void)
{
    fputs("weir ledger reconcile: not enough memory\n", stderr);
    return CLI_FAULT_STATUS;
}

static bool grow(void *list, size_t *cap, size_t count, size_t size)
{
    void **at = list;
    if (count < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 256;
    void *larger = realloc(*at, more * size);
    if (!larger)
        return false;
    *at = larger;
    *cap = more;
    return true;
}

static int64_t amount(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static bool take_use(struct reconcile_books *b, const json_t *row)
{
    if (!grow(&b->uses, &b->uses_cap, b->uses_count, sizeof *b->uses))
        return false;
    b->uses[b->uses_count++] =
        (struct weir_reconcile_use){.scope = cli_json_text(row, "scope"),
                                    .upstream = cli_json_text(row, "upstream"),
                                    .model = cli_json_text(row, "model"),
                                    .utc_hour = amount(row, "hour_s") / 3600,
                                    .requests = amount(row, "requests"),
                                    .input_tok = amount(row, "input_tok"),
                                    .cached_tok = amount(row, "cached_tok"),
                                    .cache_write_tok = amount(row, "cache_write_tok"),
                                    .output_tok = amount(row, "output_tok"),
                                    .estimated_tok = amount(row, "estimated_tok"),
                                    .late_tok = amount(row, "late_tok"),
                                    .unmatched_tok = amount(row, "unmatched_tok")};
    return true;
}

static bool take_hold(struct reconcile_books *b, const json_t *row)
{
    if (!grow(&b->lapses, &b->lapses_cap, b->lapses_count, sizeof *b->lapses))
        return false;
    b->lapses[b->lapses_count++] =
        (struct weir_reconcile_lapse){.scope = cli_json_text(row, "scope"),
                                      .hold = cli_json_text(row, "hold"),
                                      .created_s = amount(row, "created_s"),
                                      .asked_tok = amount(row, "asked_tok"),
                                      .charged_tok = amount(row, "booked_tok")};
    return true;
}

static bool take_scope(struct reconcile_books *b, const json_t *row)
{
    size_t cap = b->scopes_cap;
    if (!grow(&b->scopes, &b->scopes_cap, b->scopes_count, sizeof *b->scopes) ||
        !grow(&b->window_starts, &cap, b->scopes_count, sizeof *b->window_starts))
        return false;
    const char *parent = json_string_value(json_object_get(row, "parent"));
    b->scopes[b->scopes_count] = (struct weir_reconcile_scope){cli_json_text(row, "scope"), parent};
    b->window_starts[b->scopes_count++] = amount(row, "window");
    return true;
}

/* All pages of a list. */
static int read_list(struct reconcile_books *b, struct ledger_door *door,
                     const struct ledger_path *path, const char *name,
                     bool (*take)(struct reconcile_books *, const json_t *))
{
    const char *after = NULL;
    for (;;) {
        struct ledger_path page = *path;
        json_t *answer, *row;
        size_t i;
        ledger_path_add(&page, "after", after);
        int status = ledger_door_call(door, "GET", page.text, NULL, &answer);
        if (status != CLI_DONE_STATUS)
            return status;
        if (json_array_append_new(b->pages, answer) != 0) /* keeps its texts */
            return no_memory();
        json_array_foreach(json_object_get(answer, name), i,
                           row) if (!take(b, row)) return no_memory();
        after = json_string_value(json_object_get(answer, "next"));
        if (!after)
            return CLI_DONE_STATUS;
    }
}

static int read_holds(struct reconcile_books *b, struct ledger_door *door, const char *state)
{
    struct ledger_path path;
    ledger_path_start(&path, "/v1/ledger/holds");
    ledger_path_add(&path, "state", state);
    return read_list(b, door, &path, "holds", take_hold);
}

static bool add_ids(struct reconcile_books *b, const char *const *ids, uint32_t count,
                    const char *scope, const char *upstream)
{
    if (count == 0)
        return true;
    struct weir_reconcile_id *larger = realloc(b->ids, (b->ids_count + count) * sizeof *b->ids);
    if (!larger)
        return false;
    b->ids = larger;
    for (uint32_t i = 0; i < count; i++)
        b->ids[b->ids_count++] = (struct weir_reconcile_id){ids[i], scope, upstream};
    return true;
}

/* The scope that a tenant is charged to. */
static const char *tenant_scope(struct reconcile_books *b, const struct weir_config_tenant *tenant)
{
    if (tenant->scope)
        return tenant->scope;
    size_t bytes = strlen(tenant->name) + sizeof "tenant/";
    char **larger = realloc(b->made, (b->made_count + 1) * sizeof *b->made);
    if (!larger)
        return NULL;
    b->made = larger;
    b->made[b->made_count] = malloc(bytes);
    if (!b->made[b->made_count])
        return NULL;
    snprintf(b->made[b->made_count], bytes, "tenant/%s", tenant->name);
    return b->made[b->made_count++];
}

static bool take_config(struct reconcile_books *b, const struct weir_config *config)
{
    b->upstreams = calloc(config->upstreams_count + 1, sizeof *b->upstreams);
    if (!b->upstreams)
        return false;
    for (uint32_t i = 0; i < config->upstreams_count; i++) {
        const struct weir_config_upstream *u = &config->upstreams[i];
        b->upstreams[b->upstreams_count++] = (struct weir_reconcile_upstream){
            u->name,
            {(u->api & WEIR_CONFIG_API_OPENAI) != 0, (u->api & WEIR_CONFIG_API_ANTHROPIC) != 0}};
        if (!add_ids(b, u->provider_ids, u->provider_ids_count, NULL, u->name))
            return false;
    }
    for (uint32_t i = 0; i < config->scopes_count; i++)
        if (!add_ids(b, config->scopes[i].provider_ids, config->scopes[i].provider_ids_count,
                     config->scopes[i].name, NULL))
            return false;
    for (uint32_t i = 0; i < config->tenants_count; i++) {
        const struct weir_config_tenant *t = &config->tenants[i];
        if (t->provider_ids_count == 0)
            continue;
        const char *scope = tenant_scope(b, t);
        if (!scope || !add_ids(b, t->provider_ids, t->provider_ids_count, scope, NULL))
            return false;
    }
    return true;
}

int reconcile_books_read(struct reconcile_books *books, struct ledger_door *door, int64_t from_s,
                         int64_t to_s)
{
    struct ledger_path path;
    char from[24], to[24];
    *books = (struct reconcile_books){.pages = json_array()};
    if (!books->pages || !take_config(books, ledger_door_config(door)))
        return no_memory();
    ledger_path_start(&path, "/v1/ledger");
    int status = read_list(books, door, &path, "scopes", take_scope);
    snprintf(from, sizeof from, "%" PRId64, from_s);
    snprintf(to, sizeof to, "%" PRId64, to_s);
    ledger_path_start(&path, "/v1/ledger/usage");
    ledger_path_add(&path, "from", from);
    ledger_path_add(&path, "to", to);
    if (status == CLI_DONE_STATUS)
        status = read_list(books, door, &path, "usage", take_use);
    if (status == CLI_DONE_STATUS)
        status = read_holds(books, door, "lapsed");
    /* At rest nobody is alive who could settle what is still held: it lapses at the next start. */
    if (status == CLI_DONE_STATUS && !ledger_door_is_live(door))
        status = read_holds(books, door, "held");
    return status;
}

void reconcile_books_free(struct reconcile_books *b)
{
    for (size_t i = 0; i < b->made_count; i++)
        free(b->made[i]);
    free(b->made);
    free(b->uses);
    free(b->lapses);
    free(b->scopes);
    free(b->window_starts);
    free(b->upstreams);
    free(b->ids);
    json_decref(b->pages);
}

static size_t scope_index(const struct reconcile_books *b, const char *name)
{
    size_t i = 0;
    while (i < b->scopes_count && strcmp(b->scopes[i].name, name) != 0)
        i++;
    return i;
}

bool reconcile_is_over(const struct reconcile_books *b,
                       const struct weir_reconcile_correction *correction)
{
    const char *name = correction->scope;
    for (int depth = 0; name && depth < WEIR_LEDGER_DEPTH_MAX; depth++) {
        size_t i = scope_index(b, name);
        if (i == b->scopes_count)
            return false;
        if (correction->end_s <= b->window_starts[i])
            return true;
        name = b->scopes[i].parent;
    }
    return false;
}

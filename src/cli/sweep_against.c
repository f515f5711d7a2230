#include "cli/sweep.h"

#include "cli/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two results of the same kind side by side. Both are read in the form that --json prints, so that an
 * older one and this one are compared by the same lines. */

/* ---- an older one ---- */

static bool is_list_of_objects(const json_t *list)
{
    size_t i;
    const json_t *each;
    json_array_foreach(list, i, each) if (!json_is_object(each)) return false;
    return json_is_array(list);
}

json_t *sweep_read_json(const char *path, const struct sweep_plan *plan)
{
    json_error_t error;
    const char *what = plan->clients_count > 0 ? "clients" : "levels";
    const char *other = plan->clients_count > 0 ? "levels" : "clients";
    json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    bool is_ours = strcmp(cli_json_text(all, "kind"), "weir sweep") == 0;
    if (is_ours && is_list_of_objects(json_object_get(all, what)))
        return all;
    if (!all && error.line > 0)
        fprintf(stderr, "weir sweep: --against %s: line %d: %s\n", path, error.line, error.text);
    else if (!all)
        fprintf(stderr, "weir sweep: --against %s: %s\n", path, error.text);
    else if (is_ours && json_object_get(all, other))
        fprintf(stderr,
                "weir sweep: --against %s: it has %s, and this sweep has %s: they cannot be "
                "compared\n",
                path, other, what);
    else
        fprintf(stderr,
                "weir sweep: --against %s: this is not what `weir sweep URL --json` prints for "
                "%s\n",
                path, what);
    json_decref(all);
    return NULL;
}

double sweep_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool sweep_is_same_payload(const struct sweep_plan *plan, const json_t *then)
{
    return strcmp(cli_json_text(json_object_get(then, "payload"), "sha256"), plan->digest) == 0;
}

const json_t *sweep_old_client(const json_t *then, const char *name)
{
    size_t i;
    const json_t *client;
    json_array_foreach(json_object_get(then, "clients"), i,
                       client) if (strcmp(cli_json_text(client, "name"), name) == 0) return client;
    return NULL;
}

static const json_t *find_level(const json_t *all, int64_t in_flight)
{
    size_t i;
    const json_t *level;
    json_array_foreach(json_object_get(all, "levels"), i,
                       level) if (cli_json_int(level, "in_flight") == in_flight) return level;
    return NULL;
}

/* ---- side by side ---- */

static json_t *copy_of(const json_t *value)
{
    return value ? json_deep_copy(value) : json_null();
}

static json_t *pair(const json_t *then, const json_t *now)
{
    return json_pack("{s:o, s:o}", "then", copy_of(then), "now", copy_of(now));
}

/* With the change, as a share of what it was. */
static json_t *pair_of_numbers(const json_t *then, const json_t *now, const char *name)
{
    double before = sweep_number(then, name), after = sweep_number(now, name);
    json_t *both = pair(json_object_get(then, name), json_object_get(now, name));
    json_object_set_new(both, "change",
                        before > 0 && after >= 0 ? json_real(after / before - 1) : json_null());
    return both;
}

static int64_t refused_of(const json_t *run)
{
    return cli_json_int(json_object_get(run, "not_ok"), "429");
}

/* Adds what is compared of one run to `to`. */
static json_t *put_run(json_t *to, const json_t *then, const json_t *now)
{
    static const char *const members[] = {"p50_ms", "p95_ms", "ttft_p50_ms", "requests_per_s"};
    for (size_t i = 0; i < WEIR_COUNT(members); i++)
        json_object_set_new(to, members[i], pair_of_numbers(then, now, members[i]));
    json_object_set_new(to, "sent",
                        pair(json_object_get(then, "sent"), json_object_get(now, "sent")));
    json_object_set_new(to, "refused",
                        json_pack("{s:I, s:I}", "then", (json_int_t)refused_of(then), "now",
                                  (json_int_t)refused_of(now)));
    return to;
}

static void compare_levels(json_t *to, const json_t *then, const json_t *now)
{
    json_t *levels = json_array();
    size_t i;
    const json_t *level, *knee_then = json_object_get(then, "knee"),
                         *knee_now = json_object_get(now, "knee");
    json_array_foreach(json_object_get(now, "levels"), i, level)
    {
        const json_t *old = find_level(then, cli_json_int(level, "in_flight"));
        if (old)
            json_array_append_new(levels,
                                  put_run(json_pack("{s:I}", "in_flight",
                                                    (json_int_t)cli_json_int(level, "in_flight")),
                                          old, level));
    }
    json_object_set_new(to, "levels", levels);
    json_object_set_new(
        to, "knee",
        pair(json_object_get(knee_then, "result"), json_object_get(knee_now, "result")));
    json_object_set_new(to, "max_in_flight",
                        pair(json_object_get(knee_then, "max_in_flight"),
                             json_object_get(knee_now, "max_in_flight")));
}

static void compare_clients(json_t *to, const json_t *then, const json_t *now)
{
    static const char *const runs[] = {"alone", "together"};
    json_t *clients = json_array();
    size_t i;
    const json_t *client, *verdict_then = json_object_get(then, "verdict"),
                          *verdict_now = json_object_get(now, "verdict");
    json_array_foreach(json_object_get(now, "clients"), i, client)
    {
        const json_t *old = sweep_old_client(then, cli_json_text(client, "name"));
        if (!old)
            continue;
        json_t *both = json_pack(
            "{s:s, s:o}", "name", cli_json_text(client, "name"), "in_flight",
            pair(json_object_get(old, "in_flight"), json_object_get(client, "in_flight")));
        for (size_t run = 0; run < WEIR_COUNT(runs); run++)
            json_object_set_new(both, runs[run],
                                put_run(json_object(), json_object_get(old, runs[run]),
                                        json_object_get(client, runs[run])));
        json_array_append_new(clients, both);
    }
    json_object_set_new(to, "clients", clients);
    json_object_set_new(
        to, "failure",
        pair(json_object_get(verdict_then, "failure"), json_object_get(verdict_now, "failure")));
    json_object_set_new(
        to, "limits",
        pair(json_object_get(verdict_then, "limits"), json_object_get(verdict_now, "limits")));
}

json_t *sweep_compare(const json_t *then, const json_t *now)
{
    const json_t *sha_then = json_object_get(json_object_get(then, "payload"), "sha256"),
                 *sha_now = json_object_get(json_object_get(now, "payload"), "sha256");
    json_t *to =
        json_pack("{s:s, s:s, s:s, s:s?, s:b}", "begun", cli_json_text(then, "begun"), "url",
                  cli_json_text(then, "url"), "version", cli_json_text(then, "version"), "note",
                  json_string_value(json_object_get(then, "note")), "same_payload",
                  sha_then != NULL && json_equal(sha_then, sha_now));
    if (json_object_get(now, "clients"))
        compare_clients(to, then, now);
    else
        compare_levels(to, then, now);
    return to;
}

/* ---- as tables ---- */

static void add_change(struct cli_table *t, const json_t *run, const char *member)
{
    char cell[64] = "-";
    const json_t *both = json_object_get(run, member);
    double then = sweep_number(both, "then"), now = sweep_number(both, "now"),
           change = sweep_number(both, "change");
    if (!isnan(change))
        snprintf(cell, sizeof cell,
                 fabs(change) < 0.005 ? "%.4g > %.4g (same)" : "%.4g > %.4g (%+.0f %%)", then, now,
                 change * 100);
    cli_table_add(t, cell);
}

static void add_run(struct cli_table *t, const char *name, const json_t *run)
{
    static const char *const members[] = {"p50_ms", "p95_ms", "ttft_p50_ms", "requests_per_s"};
    const json_t *refused = json_object_get(run, "refused");
    char cell[64];
    cli_table_add(t, name);
    for (size_t i = 0; i < WEIR_COUNT(members); i++)
        add_change(t, run, members[i]);
    snprintf(cell, sizeof cell, "%lld > %lld", (long long)cli_json_int(refused, "then"),
             (long long)cli_json_int(refused, "now"));
    cli_table_add(t, cell);
}

static const char *text_or(const json_t *object, const char *name, const char *instead)
{
    const char *text = cli_json_text(object, name);
    return *text ? text : instead;
}

static void show_levels_against(const json_t *both)
{
    struct cli_table t = {.titles = {"in flight", "p50 ms", "p95 ms", "TTFT p50", "req/s", "429s"},
                          .right = {true},
                          .columns = 6};
    size_t i;
    const json_t *level, *most = json_object_get(both, "max_in_flight"),
                         *knee = json_object_get(both, "knee");
    json_array_foreach(json_object_get(both, "levels"), i, level)
    {
        char name[32];
        add_run(&t, cli_amount(cli_json_int(level, "in_flight"), name), level);
    }
    if (i == 0)
        puts("no level in common.");
    else
        cli_table_print(&t, true);
    if (json_is_integer(json_object_get(most, "then")))
        printf("max_in_flight: then %lld, now %lld (knee: then %s, now %s)\n",
               (long long)cli_json_int(most, "then"), (long long)cli_json_int(most, "now"),
               text_or(knee, "then", "unknown"), text_or(knee, "now", "unknown"));
}

static void show_clients_against(const json_t *both)
{
    static const char *const runs[] = {"alone", "together"};
    struct cli_table t = {.titles = {"client", "p50 ms", "p95 ms", "TTFT p50", "req/s", "429s"},
                          .columns = 6};
    const json_t *failure = json_object_get(both, "failure"),
                 *clients = json_object_get(both, "clients"), *client;
    size_t i;
    for (size_t run = 0; run < WEIR_COUNT(runs); run++)
        json_array_foreach(clients, i, client)
        {
            const json_t *in_flight = json_object_get(client, "in_flight");
            int64_t then = cli_json_int(in_flight, "then"), now = cli_json_int(in_flight, "now");
            char name[160], before[48] = "";
            if (then != now)
                snprintf(before, sizeof before, "%lld > ", (long long)then);
            snprintf(name, sizeof name, "%.64s=%s%lld %s", cli_json_text(client, "name"), before,
                     (long long)now, runs[run]);
            add_run(&t, name, json_object_get(client, runs[run]));
        }
    if (json_array_size(clients) == 0)
        puts("no client in common.");
    else
        cli_table_print(&t, true);
    printf("Which failure: then %s, now %s\n", text_or(failure, "then", "unknown"),
           text_or(failure, "now", "unknown"));
}

void sweep_show_against(const struct sweep_plan *plan, const struct sweep_result *r,
                        const json_t *then)
{
    json_t *now = sweep_json(plan, r, then), *both = json_object_get(now, "against");
    if (!both) {
        puts("\n(not compared: out of memory)");
    } else {
        printf("\nAgainst %s at %s%s:\n", cli_json_text(then, "url"), cli_json_text(then, "begun"),
               sweep_is_same_payload(plan, then)
                   ? ""
                   : " (with ANOTHER payload: prompt length moves latency more than anything)");
        if (plan->clients_count > 0)
            show_clients_against(both);
        else
            show_levels_against(both);
    }
    json_decref(now);
}

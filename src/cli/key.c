#include "cli/args.h"
#include "cli/commands.h"
#include "gateway/config_value.h"
#include "gateway/keys.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct cli_option key_options[] = {
    {"--weight", "N", "new: the tenant's share among those that wait, 1 to 1000 (1)", NULL},
    {"--lane", "NAME", "new: its lane (the gateway's default lane)", NULL},
    {"--scope", "NAME", "new: its budget, a scope of the configuration (its own, unlimited)", NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command key_command = {
    .name = "weir key",
    .usage = "new TENANT | list | revoke ID-or-TENANT",
    .summary =
        "Makes, lists and revokes weir keys. A running gateway takes changes in within seconds.",
    .help = "`new` prints the key once; only its SHA-256 is stored, in the state directory: "
            "$WEIR_STATE,\n"
            "else $XDG_STATE_HOME/weir, else /var/lib/weir for root and ~/.local/state/weir for "
            "others.\n"
            "A tenant of the configuration may have any number of keys; its weight, lane and scope "
            "are\n"
            "those of the configuration. Any other name becomes a tenant with what is given here, "
            "the\n"
            "same for all its keys; while the configuration has no such scope it is refused.\n"
            "The first key ends pass-through: from then on every request needs one.\n\n"
            "Status 0: done. 1: no such key to revoke. 2: wrong usage, or the keys cannot be read "
            "or written.\n",
    .options = key_options,
    .options_count = WEIR_COUNT(key_options),
    .words_max = 2,
};

static void print_json(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(value);
}

static int key_new(struct weir_keys *keys, const struct cli_args *args, const char *tenant)
{
    struct weir_key_wish wish = {.tenant = tenant,
                                 .lane = cli_value(&key_command, args, "--lane"),
                                 .scope = cli_value(&key_command, args, "--scope")};
    const char *weight = cli_value(&key_command, args, "--weight");
    uint64_t number = 0;
    if (weight && (!weir_value_count(weight, &number) || number < 1 || number > 1000)) {
        fprintf(stderr, "weir key: --weight must be a whole number between 1 and 1000, not '%s'\n",
                weight);
        return CLI_USAGE_STATUS;
    }
    wish.weight = (uint32_t)number;
    char key[WEIR_KEY_CHARS + 1];
    struct weir_keys_error error;
    if (!weir_keys_add(keys, &wish, key, &error)) {
        fprintf(stderr, "weir key: %s\n", error.text);
        return CLI_USAGE_STATUS;
    }
    const struct weir_key *made = weir_keys_at(keys, weir_keys_count(keys) - 1);
    if (cli_value(&key_command, args, "--json")) {
        print_json(
            json_pack("{s:s, s:s, s:s}", "id", made->id, "tenant", made->tenant, "key", key));
    } else {
        printf("%s\n", key);
        fprintf(stderr, "This is the key of tenant %s (id %s). It is shown only now.\n",
                made->tenant, made->id);
    }
    explicit_bzero(key, sizeof key);
    return CLI_DONE_STATUS;
}

static int key_list(const struct weir_keys *keys, const struct cli_args *args)
{
    bool as_json = cli_value(&key_command, args, "--json") != NULL;
    json_t *list = json_array();
    if (!as_json)
        printf("%-12s  %-24s  %6s  %-12s  %-20s  %s\n", "ID", "TENANT", "WEIGHT", "LANE", "SCOPE",
               "MADE");
    for (uint32_t i = 0; i < weir_keys_count(keys); i++) {
        const struct weir_key *key = weir_keys_at(keys, i);
        time_t made = (time_t)key->made_s;
        struct tm parts;
        char when[32] = "?";
        if (gmtime_r(&made, &parts))
            strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
        if (as_json)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:i, s:s?, s:s?, s:s}", "id", key->id,
                                            "tenant", key->tenant, "weight", (int)key->weight,
                                            "lane", key->lane, "scope", key->scope, "made", when));
        else
            printf("%-12s  %-24s  %6u  %-12s  %-20s  %s\n", key->id, key->tenant, key->weight,
                   key->lane ? key->lane : "-", key->scope ? key->scope : "-", when);
    }
    if (as_json)
        print_json(list);
    else
        json_decref(list);
    return CLI_DONE_STATUS;
}

static int key_revoke(struct weir_keys *keys, const struct cli_args *args, const char *what)
{
    uint32_t revoked = 0;
    struct weir_keys_error error;
    if (!weir_keys_revoke(keys, what, &revoked, &error)) {
        fprintf(stderr, "weir key: %s\n", error.text);
        return CLI_USAGE_STATUS;
    }
    if (cli_value(&key_command, args, "--json"))
        print_json(json_pack("{s:i}", "revoked", (int)revoked));
    else if (revoked)
        printf("%u key%s revoked\n", revoked, revoked == 1 ? "" : "s");
    if (!revoked)
        fprintf(stderr, "weir key: no key has the id or tenant '%s'\n", what);
    return revoked ? CLI_DONE_STATUS : CLI_NO_STATUS;
}

static int say_usage(const char *action)
{
    static const char *const known[] = {"new", "list", "revoke"};
    const char *near = action ? weir_value_suggest(action, known, WEIR_COUNT(known)) : NULL;
    if (!action)
        fputs("weir key: new TENANT, list, or revoke ID-or-TENANT; see weir key --help\n", stderr);
    else if (near)
        fprintf(stderr, "weir key: unknown action '%s'; did you mean '%s'?\n", action, near);
    else
        fprintf(stderr, "weir key: unknown action '%s'; see weir key --help\n", action);
    return CLI_USAGE_STATUS;
}

int cli_key(int argc, char **argv)
{
    struct cli_args args;
    enum cli_parsed parsed = cli_parse(&key_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    const char *action = args.words_count > 0 ? args.words[0] : NULL;
    bool is_new = action && strcmp(action, "new") == 0,
         is_list = action && strcmp(action, "list") == 0;
    bool is_revoke = action && strcmp(action, "revoke") == 0;
    if (!is_new && !is_list && !is_revoke)
        return say_usage(action);
    if (args.words_count != (is_list ? 1 : 2)) {
        fprintf(stderr, "weir key %s: %s\n", action,
                is_list  ? "takes no name"
                : is_new ? "needs the tenant's name: weir key new TENANT"
                         : "needs an id or a tenant: weir key revoke ID-or-TENANT");
        return CLI_USAGE_STATUS;
    }
    for (size_t i = 0; i < 3; i++)
        if (!is_new && cli_value(&key_command, &args, key_options[i].flag)) {
            fprintf(stderr, "weir key %s: %s belongs to weir key new\n", action,
                    key_options[i].flag);
            return CLI_USAGE_STATUS;
        }
    char dir[4096];
    struct weir_keys_error error;
    struct weir_keys *keys =
        weir_state_dir(dir, sizeof dir, &error) ? weir_keys_open(dir, &error) : NULL;
    if (!keys) {
        fprintf(stderr, "weir key: %s\n", error.text);
        return CLI_USAGE_STATUS;
    }
    int status = is_new    ? key_new(keys, &args, args.words[1])
                 : is_list ? key_list(keys, &args)
                           : key_revoke(keys, &args, args.words[1]);
    weir_keys_close(keys);
    return status;
}

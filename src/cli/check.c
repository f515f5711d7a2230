#include "cli/args.h"
#include "cli/commands.h"
#include "gateway/config_print.h"
#include "gateway/config_reference.h"
#include "gateway/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_option check_options[] = {
    {"--config", "FILE", "the configuration; without one, the embedded default", "-c"},
    {"--no-credentials", NULL,
     "do not look for key_env and key_file: for a file of another machine", NULL},
    {"--json", NULL, "print problems and configuration as one JSON object", NULL},
    {"--defaults", NULL, "print every setting there is, as Markdown, and stop", NULL},
};

static const struct cli_command check_command = {
    .name = "weir check",
    .usage = "[-c] [FILE] [flags]",
    .summary = "Validates a configuration and prints what would be in force, defaults and all.",
    .help = "Status 0: it is valid. 1: it is not; every mistake is on stderr with its line and "
            "column.\n",
    .options = check_options,
    .options_count = WEIR_COUNT(check_options),
    .words_max = 1,
};

void cli_print_problems(const struct weir_config_problems *problems)
{
    for (uint32_t i = 0; i < problems->count; i++) {
        const struct weir_config_problem *problem = &problems->list[i];
        if (problem->line)
            fprintf(stderr, "%s:%u:%u: ", problem->where, problem->line, problem->column);
        else
            fprintf(stderr, "%s: ", problem->where);
        fprintf(stderr, "%s%s\n", problem->is_warning ? "warning: " : "", problem->text);
    }
    uint32_t warnings = 0;
    for (uint32_t i = 0; i < problems->count; i++)
        warnings += problems->list[i].is_warning;
    if (problems->warnings > warnings)
        fprintf(stderr, "and %u more warnings\n", problems->warnings - warnings);
    if (problems->errors > problems->count - warnings)
        fprintf(stderr, "and %u more errors\n", problems->errors - (problems->count - warnings));
}

/* Why the gateway would not start with this, or NULL. */
static const char *exposure(const struct weir_config *config)
{
    const char *reason = weir_config_exposed(config, 0);
    char dir[4096];
    struct weir_keys_error error;
    if (!reason || !weir_state_dir(dir, sizeof dir, &error))
        return reason;
    struct weir_keys *keys = weir_keys_open(dir, &error);
    if (keys)
        reason = weir_config_exposed(config, weir_keys_count(keys));
    weir_keys_close(keys);
    return reason;
}

static int print_json(const struct weir_config *config, const struct weir_config_problems *problems,
                      const char *reason)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < problems->count; i++) {
        const struct weir_config_problem *problem = &problems->list[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s, s:s}", "where", problem->where,
                                              "line", (json_int_t)problem->line, "column",
                                              (json_int_t)problem->column, "severity",
                                              problem->is_warning ? "warning" : "error", "text",
                                              problem->text));
    }
    if (reason)
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:i, s:s, s:s}", "where", "listen", "line", 0,
                                        "column", 0, "severity", "error", "text", reason));
    json_t *all = json_pack("{s:b, s:o, s:o}", "valid", config && !reason, "problems", list,
                            "config", config ? weir_config_json(config) : json_null());
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    json_decref(all);
    if (!text)
        return CLI_FAULT_STATUS;
    puts(text);
    free(text);
    return CLI_DONE_STATUS;
}

static int print_defaults(void)
{
    char *text = weir_config_reference();
    if (!text)
        return CLI_FAULT_STATUS;
    fputs(text, stdout);
    free(text);
    return CLI_DONE_STATUS;
}

int cli_check(int argc, char **argv)
{
    struct cli_args args;
    enum cli_parsed parsed = cli_parse(&check_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    if (cli_value(&check_command, &args, "--defaults"))
        return print_defaults();
    const char *file = cli_value(&check_command, &args, "--config");
    if (file && args.words_count) {
        fputs("weir check: one file at a time\n", stderr);
        return CLI_USAGE_STATUS;
    }
    if (args.words_count)
        file = args.words[0];
    struct weir_config_problems problems = {0};
    struct weir_config_source from = {
        .file = file, .no_secrets = cli_value(&check_command, &args, "--no-credentials") != NULL};
    struct weir_config *config = weir_config_load(&from, &problems);
    const char *reason = config ? exposure(config) : NULL;
    int status = CLI_DONE_STATUS;
    if (cli_value(&check_command, &args, "--json")) {
        status = print_json(config, &problems, reason);
    } else {
        cli_print_problems(&problems);
        if (reason)
            fprintf(stderr, "%s: %s\n", file ? file : "flags", reason);
        char *text = config && !reason ? weir_config_yaml(config) : NULL;
        if (text)
            fputs(text, stdout);
        else if (config && !reason)
            status = CLI_FAULT_STATUS;
        free(text);
    }
    if (status == CLI_DONE_STATUS && (!config || reason))
        status = CLI_NO_STATUS;
    weir_config_free(config);
    weir_config_problems_free(&problems);
    return status;
}

#include "cli/args.h"

#include "gateway/config_value.h"

#include <stdlib.h>
#include <string.h>

static size_t find_option(const struct cli_command *command, const char *flag, size_t bytes)
{
    for (size_t i = 0; i < command->options_count; i++) {
        const struct cli_option *option = &command->options[i];
        if ((strlen(option->flag) == bytes && memcmp(option->flag, flag, bytes) == 0) ||
            (option->letter && strlen(option->letter) == bytes &&
             memcmp(option->letter, flag, bytes) == 0))
            return i;
    }
    return SIZE_MAX;
}

static void say_unknown(const struct cli_command *command, const char *flag, size_t bytes)
{
    char word[64];
    const char *known[CLI_OPTIONS_MAX + 1];
    size_t count = 0;
    snprintf(word, sizeof word, "%.*s", (int)(bytes < 60 ? bytes : 60), flag);
    for (size_t i = 0; i < command->options_count; i++)
        known[count++] = command->options[i].flag;
    known[count++] = "--help";
    const char *near = weir_value_suggest(word, known, count);
    fprintf(stderr, "%s: unknown flag '%s'", command->name, word);
    if (near)
        fprintf(stderr, "; did you mean '%s'?\n", near);
    else
        fprintf(stderr, "; see %s --help\n", command->name);
}

/* Takes one flag at argv[*at] with its value, and moves *at to the last argument used. */
static bool take_flag(const struct cli_command *command, int argc, char **argv, int *at,
                      struct cli_args *args)
{
    const char *flag = argv[*at];
    const char *equals = strncmp(flag, "--", 2) == 0 ? strchr(flag, '=') : NULL;
    size_t bytes = equals ? (size_t)(equals - flag) : strlen(flag);
    size_t index = find_option(command, flag, bytes);
    if (index == SIZE_MAX) {
        say_unknown(command, flag, bytes);
        return false;
    }
    const struct cli_option *option = &command->options[index];
    const char *value = "";
    if (option->value) {
        if (equals) {
            value = equals + 1;
        } else if (*at + 1 < argc) {
            value = argv[++*at];
        } else {
            fprintf(stderr, "%s: %s needs a value: %s %s\n", command->name, option->flag,
                    option->flag, option->value);
            return false;
        }
    } else if (equals) {
        fprintf(stderr, "%s: %s takes no value\n", command->name, option->flag);
        return false;
    }
    if (command->many && strcmp(option->flag, command->many) == 0) {
        if (args->many_count == CLI_MANY_MAX) {
            fprintf(stderr, "%s: %s is given more than %d times\n", command->name, option->flag,
                    CLI_MANY_MAX);
            return false;
        }
        args->many[args->many_count++] = value;
        return true;
    }
    if (args->values[index]) {
        fprintf(stderr, "%s: %s is given twice\n", command->name, option->flag);
        return false;
    }
    args->values[index] = value;
    return true;
}

enum cli_parsed cli_parse(const struct cli_command *command, int argc, char **argv,
                          struct cli_args *args)
{
    WEIR_INVARIANT(command->options_count <= CLI_OPTIONS_MAX &&
                   command->words_max <= CLI_WORDS_MAX);
    *args = (struct cli_args){0};
    bool flags_end = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!flags_end && strcmp(word, "--") == 0) {
            flags_end = true;
        } else if (!flags_end && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            cli_print_help(command, stdout);
            return CLI_DONE;
        } else if (!flags_end && word[0] == '-' && word[1] != '\0' &&
                   !(word[1] >= '0' && word[1] <= '9')) {
            if (!take_flag(command, argc, argv, &i, args))
                return CLI_WRONG;
        } else if (args->words_count < command->words_max) {
            args->words[args->words_count++] = word;
        } else {
            fprintf(stderr, "%s: '%s' is one argument too many; see %s --help\n", command->name,
                    word, command->name);
            return CLI_WRONG;
        }
    }
    return CLI_GO;
}

void cli_print_help(const struct cli_command *command, FILE *out)
{
    fprintf(out, "usage: %s%s%s\n\n%s\n", command->name, *command->usage ? " " : "", command->usage,
            command->summary);
    if (command->options_count)
        fputc('\n', out);
    for (size_t i = 0; i < command->options_count; i++) {
        const struct cli_option *option = &command->options[i];
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s%s", option->letter ? option->letter : "",
                 option->letter ? ", " : "", option->flag, option->value ? " " : "",
                 option->value ? option->value : "");
        fprintf(out, "  %-24s %s\n", left, option->help);
    }
    fprintf(out, "  %-24s %s\n", "-h, --help", "this text");
    if (command->help)
        fprintf(out, "\n%s", command->help);
}

const char *cli_value(const struct cli_command *command, const struct cli_args *args,
                      const char *flag)
{
    size_t index = find_option(command, flag, strlen(flag));
    WEIR_INVARIANT(index != SIZE_MAX);
    return args->values[index];
}

bool cli_count(const struct cli_command *command, const struct cli_args *args, const char *flag,
               uint64_t least, uint64_t most, uint64_t *out)
{
    const char *text = cli_value(command, args, flag);
    uint64_t value;
    if (!text)
        return true;
    if (!weir_value_count(text, &value) || value < least || value > most) {
        fprintf(stderr, "%s: %s must be a whole number from %llu to %llu, not '%s'\n",
                command->name, flag, (unsigned long long)least, (unsigned long long)most, text);
        return false;
    }
    *out = value;
    return true;
}

bool cli_api(const struct cli_command *command, const struct cli_args *args, enum weir_api *api)
{
    static const struct {
        const char *name;
        enum weir_api api;
    } apis[] = {{"chat", WEIR_API_OPENAI_CHAT},
                {"completions", WEIR_API_OPENAI_COMPLETIONS},
                {"responses", WEIR_API_OPENAI_RESPONSES},
                {"messages", WEIR_API_ANTHROPIC_MESSAGES}};
    const char *text = cli_value(command, args, "--api");
    *api = WEIR_API_OTHER;
    for (size_t i = 0; text && i < WEIR_COUNT(apis); i++)
        if (strcmp(text, apis[i].name) == 0)
            *api = apis[i].api;
    if (!text || *api != WEIR_API_OTHER)
        return true;
    fprintf(stderr, "%s: --api must be chat, completions, responses or messages, not '%s'\n",
            command->name, text);
    return false;
}

const char *cli_key_of(const char *command, const char *variable)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *key = getenv(variable);
    bool is_name = strlen(variable) <= 64 && variable[strspn(variable, letters)] == '\0';
    if (key && *key)
        return key;
    fprintf(stderr,
            "%s: --key-env: the environment has no %s, or it is empty; `export %s=...` first (it "
            "takes the variable's name, not the key)\n",
            command, is_name ? variable : "such variable", is_name ? variable : "NAME");
    return NULL;
}

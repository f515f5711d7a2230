#include "cli/text.h"

#include "gateway/config_value.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *cli_amount(int64_t amount, char out[static CLI_AMOUNT_BYTES])
{
    char digits[CLI_AMOUNT_BYTES];
    uint64_t size = amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount;
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)size);
    char *to = out;
    if (amount < 0)
        *to++ = '-';
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

const char *cli_span(int64_t seconds, char out[static CLI_AMOUNT_BYTES])
{
    long long s = seconds < 0 ? 0 : seconds;
    if (s >= 86400)
        snprintf(out, CLI_AMOUNT_BYTES, "%lldd %lldh", s / 86400, s % 86400 / 3600);
    else if (s >= 3600)
        snprintf(out, CLI_AMOUNT_BYTES, "%lldh %lldm", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        snprintf(out, CLI_AMOUNT_BYTES, "%lldm %llds", s / 60, s % 60);
    else
        snprintf(out, CLI_AMOUNT_BYTES, "%llds", s);
    return out;
}

const char *cli_wait(uint64_t wait_ns, char out[static CLI_AMOUNT_BYTES])
{
    if (cli_is_never(wait_ns))
        snprintf(out, CLI_AMOUNT_BYTES, "never");
    else if (wait_ns >= 3600 * WEIR_NS_PER_S)
        cli_span((int64_t)(wait_ns / WEIR_NS_PER_S), out);
    else if (wait_ns >= 100 * WEIR_NS_PER_S)
        snprintf(out, CLI_AMOUNT_BYTES, "%.0f s", (double)wait_ns / 1e9);
    else
        snprintf(out, CLI_AMOUNT_BYTES, "%.3g s", (double)wait_ns / 1e9);
    return out;
}

const char *cli_bytes(uint64_t bytes, char out[static CLI_AMOUNT_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    uint64_t tenths = bytes > UINT64_MAX / 10 ? UINT64_MAX : bytes * 10;
    for (; tenths >= 10240 && unit + 1 < WEIR_COUNT(units); unit++)
        tenths /= 1024;
    if (unit == 0)
        snprintf(out, CLI_AMOUNT_BYTES, "%llu B", (unsigned long long)bytes);
    else
        snprintf(out, CLI_AMOUNT_BYTES, "%llu.%llu %s", (unsigned long long)(tenths / 10),
                 (unsigned long long)(tenths % 10), units[unit]);
    return out;
}

const char *cli_micros(int64_t us, char out[static CLI_AMOUNT_BYTES])
{
    snprintf(out, CLI_AMOUNT_BYTES, "%lld.%02lld ms", (long long)(us / 1000),
             (long long)(us % 1000 / 10));
    return out;
}

bool cli_read_amount(const char *text, bool is_signed, int64_t *amount)
{
    uint64_t value = 0;
    bool negative = is_signed && *text == '-';
    if (is_signed && (*text == '-' || *text == '+'))
        text++;
    if (!weir_value_count(text, &value) || value > WEIR_TOK_MAX)
        return false;
    *amount = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* ---- answers ---- */

int64_t cli_json_int(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? -1 : json_integer_value(value);
}

const char *cli_json_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

bool cli_print_json(json_t *value)
{
    /* 15 digits: 0.007 is written as that, not as the double nearest to it. */
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    bool done = text != NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(value);
    return done;
}

/* ---- tables ---- */

void cli_table_add(struct cli_table *table, const char *cell)
{
    if (table->cells_count == table->cells_room) {
        size_t room = table->cells_room ? table->cells_room * 2 : 128;
        char **cells = realloc(table->cells, room * sizeof *cells);
        if (!cells) {
            table->no_memory = true;
            return;
        }
        table->cells = cells;
        table->cells_room = room;
    }
    char *copy = strdup(cell);
    if (copy)
        table->cells[table->cells_count++] = copy;
    else
        table->no_memory = true;
}

void cli_table_add_amount(struct cli_table *table, int64_t amount, const char *instead)
{
    char text[CLI_AMOUNT_BYTES];
    cli_table_add(table, amount < 0 && instead ? instead : cli_amount(amount, text));
}

static void print_row(const struct cli_table *table, const char *const *cells, const int *widths)
{
    for (size_t i = 0; i < table->columns; i++) {
        bool last = i + 1 == table->columns;
        if (table->right[i])
            printf("%*s%s", widths[i], cells[i], last ? "\n" : "  ");
        else
            printf("%-*s%s", last ? 0 : widths[i], cells[i], last ? "\n" : "  ");
    }
}

void cli_table_print(struct cli_table *table, bool titles)
{
    int widths[CLI_COLUMNS_MAX] = {0};
    size_t rows = table->cells_count / table->columns;
    for (size_t i = 0; i < table->columns; i++) {
        size_t widest = strlen(table->titles[i]);
        for (size_t row = 0; row < rows; row++)
            widest = weir_max_u64(widest, strlen(table->cells[row * table->columns + i]));
        widths[i] = (int)widest;
    }
    if (titles)
        print_row(table, table->titles, widths);
    for (size_t row = 0; row < rows; row++)
        print_row(table, (const char *const *)&table->cells[row * table->columns], widths);
    if (table->no_memory)
        fputs("(some rows are missing: out of memory)\n", stdout);
    for (size_t i = 0; i < table->cells_count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->cells_count = table->cells_room = 0;
    table->no_memory = false;
}

static uint64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void cli_progress_line(const char *text)
{
    static uint64_t last_ms;
    static bool is_shown;
    if (last_ms == 0)
        last_ms = clock_ms(); /* what is over in 0.2 s shows nothing */
    if (!isatty(STDERR_FILENO) || (*text && clock_ms() - last_ms < 200) || (!*text && !is_shown))
        return;
    last_ms = clock_ms();
    is_shown = *text != '\0';
    fprintf(stderr, "\r\033[K%s", text);
}

void cli_progress(const char *what, int64_t count, bool end)
{
    char line[96], amount[CLI_AMOUNT_BYTES];
    snprintf(line, sizeof line, "%s %s\r", cli_amount(count, amount), what);
    if (!isatty(STDOUT_FILENO))
        cli_progress_line(end ? "" : line);
}

/* ---- enough ---- */

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    if (++interrupts > 1)
        _exit(130);
}

void cli_catch_interrupts(void)
{
    /* Restarted calls: what is being printed is printed to its end. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_is_interrupted(void)
{
    return interrupts > 0;
}

void cli_put_csv(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}

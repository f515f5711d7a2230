#include <string.h>

#include "core/num.h"
#include "trace/trace_inside.h"

#define CELL_SHOWN_BYTES 40

void trace_text_add(struct trace_text *t, const char *text)
{
    while (*text && t->used + 1 < t->cap)
        t->at[t->used++] = *text++;
    t->at[t->used] = '\0';
}

void trace_text_number(struct trace_text *t, uint64_t number)
{
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    trace_text_add(t, digits + at);
}

void trace_text_cell(struct trace_text *t, const char *cell)
{
    char shown[CELL_SHOWN_BYTES + 4];
    size_t used = 0;
    for (; *cell && used < CELL_SHOWN_BYTES; cell++) {
        size_t control = trace_control(cell);
        shown[used++] = control ? '?' : *cell;
        cell += control == 2;
    }
    if (*cell) { /* not in the middle of a UTF-8 sequence */
        while (used > 0 && ((unsigned char)shown[used - 1] & 0xc0) == 0x80)
            used--;
        if (used > 0 && (unsigned char)shown[used - 1] >= 0xc0)
            used--;
        memcpy(shown + used, "...", 3);
        used += 3;
    }
    shown[used] = '\0';
    trace_text_add(t, "\"");
    trace_text_add(t, shown);
    trace_text_add(t, "\"");
}

struct trace_text trace_problem_begin(struct weir_trace_reader *r)
{
    r->problem.line = r->row_line;
    r->problem.text[0] = '\0';
    return (struct trace_text){.at = r->problem.text, .cap = sizeof r->problem.text};
}

bool trace_problem_cell(struct weir_trace_reader *r, enum trace_column column, const char *cell,
                        const char *what)
{
    struct trace_text t = trace_problem_begin(r);
    trace_text_add(&t, trace_column_names[column]);
    trace_text_add(&t, " is ");
    trace_text_cell(&t, cell);
    trace_text_add(&t, ": it must be ");
    trace_text_add(&t, what);
    return false;
}

static char cell_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool trace_is_equal(const char *a, const char *b)
{
    while (*a && cell_lower(*a) == cell_lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

bool trace_whole(const char *cell, uint64_t max, uint64_t *value)
{
    uint64_t sum = 0;
    if (*cell == '\0')
        return false;
    for (; *cell; cell++) {
        if (*cell < '0' || *cell > '9')
            return false;
        uint64_t digit = (uint64_t)(*cell - '0');
        if (digit > max || sum > (max - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

/* Adds the digits behind a point: of units of unit_ns, those below 1 ns are dropped. */
static const char *cell_fraction(const char *at, uint64_t unit_ns, uint64_t *ns)
{
    for (; *at >= '0' && *at <= '9'; at++) {
        unit_ns /= 10;
        *ns += (uint64_t)(*at - '0') * unit_ns;
    }
    return at;
}

bool trace_decimal_ns(const char *cell, uint64_t unit_ns, uint64_t *ns)
{
    uint64_t max = WEIR_TRACE_TIME_MAX_NS / unit_ns, whole = 0;
    const char *at = cell;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (whole > (max - digit) / 10)
            return false;
        whole = whole * 10 + digit;
    }
    if (at == cell)
        return false;
    *ns = whole * unit_ns;
    if (*at == '.') {
        const char *fraction = at + 1;
        at = cell_fraction(fraction, unit_ns, ns);
        if (at == fraction)
            return false;
    }
    return *at == '\0' && *ns <= WEIR_TRACE_TIME_MAX_NS;
}

/* Exactly `digits` digits at *at, then moves behind them. */
static bool cell_digits(const char **at, uint32_t digits, uint32_t *value)
{
    *value = 0;
    for (; digits > 0; digits--, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *value = *value * 10 + (uint32_t)(**at - '0');
    }
    return true;
}

static bool cell_letter(const char **at, char letter)
{
    if (**at != letter)
        return false;
    (*at)++;
    return true;
}

static bool cell_is_leap(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970; false: there is no such day. */
static bool cell_days(uint32_t year, uint32_t month, uint32_t day, uint64_t *days)
{
    static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1970 || year > 2099 || month < 1 || month > 12 || day < 1)
        return false;
    if (day > month_days[month - 1] + (uint32_t)(month == 2 && cell_is_leap(year)))
        return false;
    *days = day - 1;
    for (uint32_t y = 1970; y < year; y++)
        *days += cell_is_leap(y) ? 366 : 365;
    for (uint32_t m = 1; m < month; m++)
        *days += month_days[m - 1] + (uint32_t)(m == 2 && cell_is_leap(year));
    return true;
}

bool trace_timestamp_ns(const char *cell, uint64_t *ns)
{
    uint32_t year, month, day, hour, minute, second;
    uint64_t days;
    const char *at = cell;
    if (!cell_digits(&at, 4, &year) || !cell_letter(&at, '-') || !cell_digits(&at, 2, &month) ||
        !cell_letter(&at, '-') || !cell_digits(&at, 2, &day) ||
        !(cell_letter(&at, ' ') || cell_letter(&at, 'T')) || !cell_digits(&at, 2, &hour) ||
        !cell_letter(&at, ':') || !cell_digits(&at, 2, &minute) || !cell_letter(&at, ':') ||
        !cell_digits(&at, 2, &second))
        return false;
    if (hour > 23 || minute > 59 || second > 59 || !cell_days(year, month, day, &days))
        return false;
    *ns = (((days * 24 + hour) * 60 + minute) * 60 + second) * WEIR_NS_PER_S;
    if (cell_letter(&at, '.')) {
        const char *fraction = at;
        at = cell_fraction(fraction, WEIR_NS_PER_S, ns);
        if (at == fraction)
            return false;
    }
    if (*at != '\0' && !cell_letter(&at, 'Z')) /* other zones are not looked up */
        for (const char *utc = "+00:00"; *utc; utc++)
            if (!cell_letter(&at, *utc))
                return false;
    return *at == '\0';
}

/* Bytes of the UTF-8 sequence at `at`, as in RFC 3629; 0: it is none. */
static size_t cell_sequence(const unsigned char *at)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t more = at[0] < 0x80 ? 0 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
    if ((at[0] >= 0x80 && at[0] < 0xc2) || at[0] > 0xf4)
        return 0;
    if (at[0] == 0xe0)
        low = 0xa0;
    else if (at[0] == 0xed)
        high = 0x9f;
    else if (at[0] == 0xf0)
        low = 0x90;
    else if (at[0] == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i <= more; i++, low = 0x80, high = 0xbf)
        if (at[i] < low || at[i] > high)
            return 0; /* a NUL stops here as well */
    return more + 1;
}

const char *trace_name_fault(const char *cell)
{
    const unsigned char *begin = (const unsigned char *)cell, *at = begin;
    while (*at && at - begin < WEIR_TRACE_NAME_BYTES) {
        size_t bytes = *at < 0x80 ? 1 : cell_sequence(at);
        if (bytes == 0)
            return "UTF-8 text";
        if (trace_control((const char *)at))
            return "text without control characters";
        at += bytes;
    }
    return at - begin < WEIR_TRACE_NAME_BYTES ? NULL : "at most 63 bytes long";
}

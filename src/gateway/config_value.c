#include "gateway/config_value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit count_units[] = {
    {"", 1}, {"k", 1000}, {"M", 1000000}, {"G", 1000000000}, {"T", UINT64_C(1000000000000)}};

static const struct unit time_units[] = {{"d", 86400 * WEIR_NS_PER_S},
                                         {"h", 3600 * WEIR_NS_PER_S},
                                         {"m", 60 * WEIR_NS_PER_S},
                                         {"s", WEIR_NS_PER_S},
                                         {"ms", WEIR_NS_PER_MS},
                                         {"us", WEIR_NS_PER_US},
                                         {"ns", 1}};

static const struct unit byte_units[] = {{"", 1},
                                         {"B", 1},
                                         {"kB", 1000},
                                         {"KiB", UINT64_C(1) << 10},
                                         {"MB", 1000000},
                                         {"MiB", UINT64_C(1) << 20},
                                         {"GB", 1000000000},
                                         {"GiB", UINT64_C(1) << 30}};

static const struct unit rate_units[] = {{"s", WEIR_NS_PER_S},
                                         {"m", 60 * WEIR_NS_PER_S},
                                         {"min", 60 * WEIR_NS_PER_S},
                                         {"h", 3600 * WEIR_NS_PER_S},
                                         {"d", 86400 * WEIR_NS_PER_S}};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const struct unit *find_unit(const struct unit *units, size_t count, const char *text,
                                    size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == bytes && memcmp(units[i].name, text, bytes) == 0)
            return &units[i];
    return NULL;
}

/* Reads digits with an optional fraction, then letters that name a unit, at *at; moves *at past
 * both. The number is digits / scale. */
static bool take_decimal(const char **at, const struct unit *units, size_t units_count,
                         uint64_t *digits, uint64_t *scale, const struct unit **unit)
{
    const char *p = *at;
    *digits = 0;
    *scale = 1;
    if (!is_digit(*p))
        return false;
    for (bool fraction = false; is_digit(*p) || (*p == '.' && !fraction); p++) {
        if (*p == '.') {
            fraction = true;
            if (!is_digit(p[1]))
                return false;
            continue;
        }
        if (__builtin_mul_overflow(*digits, 10, digits) ||
            __builtin_add_overflow(*digits, (uint64_t)(*p - '0'), digits))
            return false;
        if (fraction && __builtin_mul_overflow(*scale, 10, scale))
            return false;
    }
    const char *letters = p;
    while (isalpha((unsigned char)*p))
        p++;
    *unit = find_unit(units, units_count, letters, (size_t)(p - letters));
    *at = p;
    return *unit != NULL;
}

/* The same as a whole number of the smallest unit. */
static bool take_amount(const char **at, const struct unit *units, size_t units_count,
                        uint64_t *amount, const struct unit **unit)
{
    uint64_t digits, scale, product;
    if (!take_decimal(at, units, units_count, &digits, &scale, unit) ||
        __builtin_mul_overflow(digits, (*unit)->factor, &product) || product % scale != 0)
        return false;
    *amount = product / scale;
    return true;
}

bool weir_value_count(const char *text, uint64_t *out)
{
    const struct unit *unit;
    uint64_t amount;
    if (!take_amount(&text, count_units, WEIR_COUNT(count_units), &amount, &unit) || *text)
        return false;
    *out = amount;
    return true;
}

bool weir_value_bytes(const char *text, uint64_t *out_bytes)
{
    const struct unit *unit;
    uint64_t amount;
    if (!take_amount(&text, byte_units, WEIR_COUNT(byte_units), &amount, &unit) || *text)
        return false;
    *out_bytes = amount;
    return true;
}

bool weir_value_duration(const char *text, uint64_t *out_ns)
{
    if (strcmp(text, "0") == 0) {
        *out_ns = 0;
        return true;
    }
    uint64_t sum = 0;
    const struct unit *before = NULL;
    do {
        const struct unit *unit;
        uint64_t amount;
        if (!take_amount(&text, time_units, WEIR_COUNT(time_units), &amount, &unit))
            return false;
        if (before && unit->factor >= before->factor)
            return false; /* 1m1h and 1s1s are slips of the hand */
        before = unit;
        if (__builtin_add_overflow(sum, amount, &sum))
            return false;
    } while (*text);
    *out_ns = sum;
    return true;
}

static const char *const period_names[] = {[WEIR_PERIOD_NONE] = "none",
                                           [WEIR_PERIOD_HOUR] = "hour",
                                           [WEIR_PERIOD_DAY] = "day",
                                           [WEIR_PERIOD_WEEK] = "week",
                                           [WEIR_PERIOD_MONTH] = "month"};

const char *weir_value_period_name(enum weir_period period)
{
    WEIR_INVARIANT(period < WEIR_COUNT(period_names));
    return period_names[period];
}

bool weir_value_period(const char *text, struct weir_window_rule *out)
{
    for (size_t i = 0; i < WEIR_COUNT(period_names); i++)
        if (strcmp(text, period_names[i]) == 0) {
            out->period = (enum weir_period)i;
            out->seconds = 0;
            return true;
        }
    uint64_t ns;
    if (!weir_value_duration(text, &ns) || ns < WEIR_NS_PER_S || ns % WEIR_NS_PER_S != 0 ||
        ns > UINT64_C(36600) * 86400 * WEIR_NS_PER_S)
        return false;
    out->period = WEIR_PERIOD_SECONDS;
    out->seconds = (uint32_t)(ns / WEIR_NS_PER_S);
    return true;
}

bool weir_value_weekday(const char *text, uint32_t *out)
{
    static const char *const days[] = {"monday", "tuesday",  "wednesday", "thursday",
                                       "friday", "saturday", "sunday"};
    for (uint32_t i = 0; i < WEIR_COUNT(days); i++)
        if (strcmp(text, days[i]) == 0) {
            *out = i + 1;
            return true;
        }
    return false;
}

/* digits / scale per unit; the first unit from there up in which the count is whole. */
static bool whole_rate(uint64_t digits, uint64_t scale, const struct unit *unit,
                       struct weir_config_rate *out)
{
    for (size_t i = 0; i < WEIR_COUNT(rate_units); i++) {
        unsigned __int128 product =
            (unsigned __int128)digits * (rate_units[i].factor / WEIR_NS_PER_S);
        unsigned __int128 divisor = (unsigned __int128)scale * (unit->factor / WEIR_NS_PER_S);
        if (rate_units[i].factor < unit->factor || product % divisor != 0)
            continue;
        if (product / divisor > UINT64_MAX || product == 0)
            return false;
        *out = (struct weir_config_rate){(uint64_t)(product / divisor), rate_units[i].factor};
        return true;
    }
    return false;
}

bool weir_value_rate(const char *text, struct weir_config_rate *out)
{
    const struct unit *count, *unit;
    uint64_t digits, scale;
    if (!take_decimal(&text, count_units, WEIR_COUNT(count_units), &digits, &scale, &count) ||
        __builtin_mul_overflow(digits, count->factor, &digits) || *text != '/')
        return false;
    text++;
    unit = find_unit(rate_units, WEIR_COUNT(rate_units), text, strlen(text));
    return unit && whole_rate(digits, scale, unit, out);
}

bool weir_value_factor(const char *text, uint32_t *out_permille)
{
    static const struct unit plain[] = {{"", 1000}};
    const struct unit *unit;
    uint64_t permille;
    if (!take_amount(&text, plain, WEIR_COUNT(plain), &permille, &unit) || *text ||
        permille > 1000000)
        return false;
    *out_permille = (uint32_t)permille;
    return true;
}

void weir_value_factor_text(uint32_t permille, char out[WEIR_VALUE_TEXT_MAX])
{
    int used = snprintf(out, WEIR_VALUE_TEXT_MAX, "%u.%03u", permille / 1000, permille % 1000);
    while (out[used - 1] == '0')
        out[--used] = '\0';
    if (out[used - 1] == '.')
        out[used - 1] = '\0';
}

bool weir_value_addr(const char *text, char host[256], uint16_t *port)
{
    const char *start = text, *end, *colon;
    if (*text == '[') {
        start = text + 1;
        end = strchr(start, ']');
        if (!end || end[1] != ':')
            return false;
        colon = end + 1;
    } else {
        colon = strrchr(text, ':');
        if (!colon || memchr(text, ':', (size_t)(colon - text)))
            return false; /* an IPv6 literal needs its brackets */
        end = colon;
    }
    size_t bytes = (size_t)(end - start);
    if (bytes == 0 || bytes > 255)
        return false;
    char name[256];
    memcpy(name, start, bytes);
    name[bytes] = '\0';
    struct in6_addr six;
    if (*text == '[' && inet_pton(AF_INET6, name, &six) != 1)
        return false;
    if (*text != '[' &&
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                     ".-_") != bytes)
        return false;
    struct in_addr four;
    if (*text != '[' && strspn(name, "0123456789.") == bytes &&
        inet_pton(AF_INET, name, &four) != 1)
        return false; /* 127.0.0.256 is no name */
    uint32_t number = 0;
    const char *digit = colon + 1;
    if (!*digit)
        return false;
    for (; *digit; digit++) {
        if (!is_digit(*digit) || digit - colon > 5)
            return false;
        number = number * 10 + (uint32_t)(*digit - '0');
    }
    if (number > UINT16_MAX)
        return false;
    memcpy(host, name, bytes + 1);
    *port = (uint16_t)number;
    return true;
}

bool weir_value_is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcmp(host, "localhost") == 0;
}

static void print_in_largest(uint64_t amount, const struct unit *units, size_t count,
                             const char *plain, char out[WEIR_VALUE_TEXT_MAX])
{
    const struct unit *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (amount % units[i].factor == 0 && amount / units[i].factor > 0 &&
            (!best || units[i].factor > best->factor))
            best = &units[i];
    if (best)
        snprintf(out, WEIR_VALUE_TEXT_MAX, "%llu%s", (unsigned long long)(amount / best->factor),
                 best->name);
    else
        snprintf(out, WEIR_VALUE_TEXT_MAX, "%llu%s", (unsigned long long)amount, plain);
}

void weir_value_count_text(uint64_t count, char out[WEIR_VALUE_TEXT_MAX])
{
    snprintf(out, WEIR_VALUE_TEXT_MAX, "%llu", (unsigned long long)count);
}

void weir_value_duration_text(uint64_t ns, char out[WEIR_VALUE_TEXT_MAX])
{
    print_in_largest(ns, time_units, WEIR_COUNT(time_units), "", out);
}

void weir_value_bytes_text(uint64_t bytes, char out[WEIR_VALUE_TEXT_MAX])
{
    static const struct unit binary[] = {{"", 1},
                                         {"KiB", UINT64_C(1) << 10},
                                         {"MiB", UINT64_C(1) << 20},
                                         {"GiB", UINT64_C(1) << 30}};
    print_in_largest(bytes, binary, WEIR_COUNT(binary), "", out);
}

void weir_value_rate_text(struct weir_config_rate rate, char out[WEIR_VALUE_TEXT_MAX])
{
    const char *per = "?";
    for (size_t i = WEIR_COUNT(rate_units); i-- > 0;)
        if (rate_units[i].factor == rate.per_ns)
            per = rate_units[i].name; /* the first, shortest name of a unit wins */
    snprintf(out, WEIR_VALUE_TEXT_MAX, "%llu/%s", (unsigned long long)rate.count, per);
}

/* Edit distance in which a swap of two neighbours is one edit. Words longer than 40 letters do not
 * match anything we know, so the table stays on the stack. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > LONGEST || columns > LONGEST)
        return LONGEST;
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= rows; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= columns; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= columns; j++) {
            size_t change =
                tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]) ? 0 : 1;
            size_t best = d[i - 1][j - 1] + change;
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[rows][columns];
}

const char *weir_value_suggest(const char *word, const char *const *known, size_t known_count)
{
    const char *nearest = NULL;
    size_t nearest_edits = strlen(word) / 3 < 3 ? strlen(word) / 3 : 3;
    for (size_t i = 0; i < known_count; i++) {
        size_t edits = distance(word, known[i]);
        if (edits < nearest_edits + (nearest ? 0 : 1)) {
            nearest = known[i];
            nearest_edits = edits;
        }
    }
    return nearest;
}

#include "wire/dates.h"

#include <string.h>

#include "wire/text_out.h"

#define DAY_S INT64_C(86400)
#define YEAR_MAX 9999

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char days[] = "SunMonTueWedThuFriSat";

/* --- The calendar --- */

/* Days since 1970-01-01; counts eras of 400 years from March, so that a leap day ends its year. */
static int64_t days_of_date(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400, year_of_era = year % 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of_days(int64_t unix_days, int64_t *year, int64_t *month, int64_t *day)
{
    int64_t z = unix_days + 719468, era = z / 146097, day_of_era = z % 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = day_of_year - (153 * shifted + 2) / 5 + 1;
    *month = shifted < 10 ? shifted + 3 : shifted - 9;
    *year = year_of_era + era * 400 + (*month <= 2);
}

static bool date_is_valid(int64_t year, int64_t month, int64_t day)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1970 || year > YEAR_MAX || month < 1 || month > 12 || day < 1)
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= lengths[month - 1] + (month == 2 && leap);
}

static bool unix_of(const int64_t date[3], const int64_t time[3], int64_t *unix_s)
{
    if (!date_is_valid(date[0], date[1], date[2]) || time[0] > 23 || time[1] > 59 || time[2] > 60)
        return false;
    *unix_s =
        days_of_date(date[0], date[1], date[2]) * DAY_S + time[0] * 3600 + time[1] * 60 + time[2];
    return true;
}

/* --- Reading --- */

struct cursor {
    const char *s;
    size_t n;
};

/* Exactly `width` digits. */
static bool take_digits(struct cursor *c, size_t width, int64_t *value)
{
    if (c->n < width)
        return false;
    *value = 0;
    for (size_t i = 0; i < width; i++) {
        if (c->s[i] < '0' || c->s[i] > '9')
            return false;
        *value = *value * 10 + (c->s[i] - '0');
    }
    c->s += width;
    c->n -= width;
    return true;
}

static bool take_text(struct cursor *c, const char *text)
{
    size_t bytes = strlen(text);
    if (c->n < bytes || memcmp(c->s, text, bytes) != 0)
        return false;
    c->s += bytes;
    c->n -= bytes;
    return true;
}

static bool take_month(struct cursor *c, int64_t *month)
{
    for (int64_t i = 0; i < 12; i++)
        if (c->n >= 3 && memcmp(c->s, months + i * 3, 3) == 0) {
            c->s += 3;
            c->n -= 3;
            *month = i + 1;
            return true;
        }
    return false;
}

static bool take_time(struct cursor *c, int64_t time[3])
{
    return take_digits(c, 2, &time[0]) && take_text(c, ":") && take_digits(c, 2, &time[1]) &&
           take_text(c, ":") && take_digits(c, 2, &time[2]);
}

static bool read_imf(struct cursor c, int64_t date[3], int64_t time[3])
{
    return take_text(&c, " ") && take_digits(&c, 2, &date[2]) && take_text(&c, " ") &&
           take_month(&c, &date[1]) && take_text(&c, " ") && take_digits(&c, 4, &date[0]) &&
           take_text(&c, " ") && take_time(&c, time) && take_text(&c, " GMT") && c.n == 0;
}

static bool read_rfc850(struct cursor c, int64_t date[3], int64_t time[3])
{
    bool read = take_text(&c, " ") && take_digits(&c, 2, &date[2]) && take_text(&c, "-") &&
                take_month(&c, &date[1]) && take_text(&c, "-") && take_digits(&c, 2, &date[0]) &&
                take_text(&c, " ") && take_time(&c, time) && take_text(&c, " GMT") && c.n == 0;
    date[0] += date[0] >= 70 ? 1900 : 2000;
    return read;
}

static bool read_asctime(struct cursor c, int64_t date[3], int64_t time[3])
{
    if (!take_text(&c, " ") || !take_month(&c, &date[1]) || !take_text(&c, " "))
        return false;
    bool day = take_text(&c, " ") ? take_digits(&c, 1, &date[2]) : take_digits(&c, 2, &date[2]);
    return day && take_text(&c, " ") && take_time(&c, time) && take_text(&c, " ") &&
           take_digits(&c, 4, &date[0]) && c.n == 0;
}

bool weir_http_date_read(const char *s, size_t n, int64_t *unix_s)
{
    struct cursor c = {s, n};
    int64_t date[3], time[3];
    while (c.n > 0 && ((*c.s >= 'A' && *c.s <= 'Z') || (*c.s >= 'a' && *c.s <= 'z')))
        c.s++, c.n--; /* the name of the day tells nothing that the date does not */
    size_t name = n - c.n;
    if (name < 3)
        return false;
    if (take_text(&c, ","))
        return (name == 3 ? read_imf(c, date, time) : read_rfc850(c, date, time)) &&
               unix_of(date, time, unix_s);
    return name == 3 && read_asctime(c, date, time) && unix_of(date, time, unix_s);
}

bool weir_rfc3339_read(const char *s, size_t n, int64_t *unix_ns)
{
    struct cursor c = {s, n};
    int64_t date[3], time[3], unix_s, ns = 0, scale = 100000000;
    if (!take_digits(&c, 4, &date[0]) || !take_text(&c, "-") || !take_digits(&c, 2, &date[1]) ||
        !take_text(&c, "-") || !take_digits(&c, 2, &date[2]))
        return false;
    if (!take_text(&c, "T") && !take_text(&c, "t") && !take_text(&c, " "))
        return false;
    if (!take_time(&c, time) || !unix_of(date, time, &unix_s))
        return false;
    if (take_text(&c, ".")) {
        int64_t digit;
        if (!take_digits(&c, 1, &digit))
            return false;
        do {
            ns += digit * scale;
            scale /= 10; /* digits beyond nanoseconds add nothing */
        } while (take_digits(&c, 1, &digit));
    }
    int64_t hours, minutes, sign = 0;
    if (!take_text(&c, "Z") && !take_text(&c, "z")) {
        sign = take_text(&c, "+") ? 1 : take_text(&c, "-") ? -1 : 0;
        if (sign == 0 || !take_digits(&c, 2, &hours) || !take_text(&c, ":") ||
            !take_digits(&c, 2, &minutes) || hours > 23 || minutes > 59)
            return false;
        unix_s -= sign * (hours * 3600 + minutes * 60);
    }
    if (c.n != 0 || unix_s > INT64_MAX / (int64_t)WEIR_NS_PER_S - 1)
        return false;
    *unix_ns = unix_s * (int64_t)WEIR_NS_PER_S + ns;
    return true;
}

/* A decimal number at the cursor, times unit_ns, rounded up; at least one digit before or after the
 * point. */
static bool take_decimal(struct cursor *c, uint64_t unit_ns, uint64_t *ns)
{
    uint64_t whole = 0, fraction_ns = 0, scale = unit_ns;
    bool digits = false, rest = false;
    int64_t digit;
    while (take_digits(c, 1, &digit)) {
        digits = true;
        whole = whole > (UINT64_MAX - 9) / 10 ? UINT64_MAX : whole * 10 + (uint64_t)digit;
    }
    if (take_text(c, ".")) {
        uint64_t carry = 0; /* what a scale that is no multiple of ten leaves over */
        while (take_digits(c, 1, &digit)) {
            digits = true;
            carry = scale % 10;
            scale /= 10;
            fraction_ns += (uint64_t)digit * scale;
            rest |= digit > 0 && (scale == 0 || carry > 0);
        }
    }
    if (!digits)
        return false;
    uint64_t whole_ns = whole > UINT64_MAX / unit_ns ? UINT64_MAX : whole * unit_ns;
    *ns = weir_add_sat_u64(whole_ns, fraction_ns + rest);
    return true;
}

bool weir_decimal_read(const char *s, size_t n, uint64_t unit_ns, uint64_t *ns)
{
    struct cursor c = {s, n};
    return take_decimal(&c, unit_ns, ns) && c.n == 0;
}

bool weir_duration_read(const char *s, size_t n, uint64_t *ns)
{
    /* Longer names first: "ms" is not minutes. */
    static const struct {
        const char *name;
        uint64_t unit_ns;
    } units[] = {
        {"ns", 1},
        {"us", WEIR_NS_PER_US},
        {"\xc2\xb5s", WEIR_NS_PER_US},
        {"ms", WEIR_NS_PER_MS},
        {"s", WEIR_NS_PER_S},
        {"m", 60 * WEIR_NS_PER_S},
        {"h", 3600 * WEIR_NS_PER_S},
        {"d", 86400 * WEIR_NS_PER_S},
    };
    struct cursor c = {s, n};
    if (n == 1 && s[0] == '0') {
        *ns = 0;
        return true;
    }
    uint64_t sum = 0;
    while (c.n > 0) {
        struct cursor number = c;
        uint64_t part;
        if (!take_decimal(&c, 1, &part))
            return false;
        size_t i = 0;
        while (i < WEIR_COUNT(units) && !take_text(&c, units[i].name))
            i++;
        if (i == WEIR_COUNT(units) || !take_decimal(&number, units[i].unit_ns, &part))
            return false;
        sum = weir_add_sat_u64(sum, part);
    }
    *ns = sum;
    return n > 0;
}

/* Lays the missing parts around what is there, then reads it strictly. */
bool weir_iso_read(const char *s, size_t n, int64_t *unix_s, bool *has_zone, bool *has_time)
{
    char text[48] = {0}, whole[64];
    struct weir_text_out o = {whole, sizeof whole, 0, false};
    int64_t unix_ns, per_s = (int64_t)WEIR_NS_PER_S;
    if (n < 10 || n >= sizeof text || memchr(s, '\0', n))
        return false;
    memcpy(text, s, n);
    size_t time = 10, zone; /* where each begins */
    for (zone = time; zone < n && text[zone] != 'Z' && text[zone] != '+' && text[zone] != '-' &&
                      text[zone] != 'U';
         zone++)
        ;
    const char *zone_text = text + zone;
    size_t zone_bytes = n - zone;
    *has_zone = zone_bytes > 0;
    if (zone_bytes == 3 && memcmp(zone_text, "UTC", 3) == 0) {
        zone_text = "Z";
        zone_bytes = 1;
        zone -= zone > time && text[zone - 1] == ' ';
    }
    *has_time = zone > time;
    weir_out_bytes(&o, text, time);
    weir_out_text(&o, "T");
    if (*has_time && text[time] != 'T' && text[time] != ' ')
        return false;
    if (*has_time)
        weir_out_bytes(&o, text + time + 1, zone - time - 1);
    if (o.bytes == 11)
        weir_out_text(&o, "00");
    if (o.bytes == 13)
        weir_out_text(&o, ":00");
    if (o.bytes == 16)
        weir_out_text(&o, ":00");
    if (zone_bytes == 5 && zone_text[0] != 'Z') { /* +0200 */
        weir_out_bytes(&o, zone_text, 3);
        weir_out_text(&o, ":");
        weir_out_bytes(&o, zone_text + 3, 2);
    } else {
        weir_out_bytes(&o, zone_bytes ? zone_text : "Z", zone_bytes ? zone_bytes : 1);
    }
    if (weir_out_result(&o) == 0 || !weir_rfc3339_read(whole, o.bytes, &unix_ns))
        return false;
    *unix_s = unix_ns / per_s - (unix_ns % per_s < 0);
    return true;
}

/* --- Writing --- */

size_t weir_duration_write(char *out, size_t cap, uint64_t ns)
{
    struct weir_text_out o = {out, cap, 0, false};
    uint64_t ms = ns / WEIR_NS_PER_MS + (ns % WEIR_NS_PER_MS > 0);
    uint64_t hours = ms / 3600000, minutes = ms / 60000 % 60, seconds = ms / 1000 % 60;
    if (ms < 1000) {
        weir_out_u64(&o, ms);
        weir_out_text(&o, ms > 0 ? "ms" : "s");
        return weir_out_result(&o);
    }
    if (hours > 0) {
        weir_out_u64(&o, hours);
        weir_out_text(&o, "h");
    }
    if (hours > 0 || minutes > 0) {
        weir_out_u64(&o, minutes);
        weir_out_text(&o, "m");
    }
    weir_out_u64(&o, seconds);
    ms %= 1000;
    if (ms > 0) {
        uint32_t width = 3;
        for (; ms % 10 == 0; ms /= 10)
            width--;
        weir_out_text(&o, ".");
        weir_out_padded(&o, ms, width);
    }
    weir_out_text(&o, "s");
    return weir_out_result(&o);
}

/* Seconds within what four digits of a year can say. */
static int64_t clamp_unix_s(int64_t unix_s)
{
    int64_t last = days_of_date(YEAR_MAX, 12, 31) * DAY_S + DAY_S - 1;
    return unix_s < 0 ? 0 : unix_s > last ? last : unix_s;
}

static void write_time(struct weir_text_out *o, int64_t unix_s)
{
    uint64_t second = (uint64_t)(unix_s % DAY_S);
    weir_out_padded(o, second / 3600, 2);
    weir_out_text(o, ":");
    weir_out_padded(o, second / 60 % 60, 2);
    weir_out_text(o, ":");
    weir_out_padded(o, second % 60, 2);
}

size_t weir_rfc3339_write(char *out, size_t cap, int64_t unix_ns)
{
    struct weir_text_out o = {out, cap, 0, false};
    int64_t year, month, day, per_s = (int64_t)WEIR_NS_PER_S;
    int64_t unix_s = clamp_unix_s(unix_ns / per_s + (unix_ns % per_s > 0));
    date_of_days(unix_s / DAY_S, &year, &month, &day);
    weir_out_padded(&o, (uint64_t)year, 4);
    weir_out_text(&o, "-");
    weir_out_padded(&o, (uint64_t)month, 2);
    weir_out_text(&o, "-");
    weir_out_padded(&o, (uint64_t)day, 2);
    weir_out_text(&o, "T");
    write_time(&o, unix_s);
    weir_out_text(&o, "Z");
    return weir_out_result(&o);
}

size_t weir_http_date_write(char *out, size_t cap, int64_t unix_s)
{
    struct weir_text_out o = {out, cap, 0, false};
    int64_t year, month, day;
    unix_s = clamp_unix_s(unix_s);
    date_of_days(unix_s / DAY_S, &year, &month, &day);
    weir_out_bytes(&o, days + (unix_s / DAY_S + 4) % 7 * 3, 3); /* 1 January 1970: a Thursday */
    weir_out_text(&o, ", ");
    weir_out_padded(&o, (uint64_t)day, 2);
    weir_out_text(&o, " ");
    weir_out_bytes(&o, months + (month - 1) * 3, 3);
    weir_out_text(&o, " ");
    weir_out_padded(&o, (uint64_t)year, 4);
    weir_out_text(&o, " ");
    write_time(&o, unix_s);
    weir_out_text(&o, " GMT");
    return weir_out_result(&o);
}

/* zone: time zones by their IANA name ("Europe/Berlin"), from the system's database (tzdata).
 *
 * All a budget window needs of a zone is how far its clocks stand from UTC, and until when: that
 * one question is asked here, and the library that answers it (GLib) appears in no header. "UTC"
 * needs no database. TZDIR names another place of the database than /usr/share/zoneinfo.
 *
 * Known limit: beyond the last transition written out in the database (2037) the library applies a
 * zone's yearly rule, and gets the one with "negative" summer time (Europe/Dublin) wrong by an
 * hour or two in its winters from 2038 on. tests/gateway/window_test.c holds two dozen others to
 * glibc's answers up to 2080.
 *
 * Thread: any; a zone does not change once it is open. */
#ifndef WEIR_GATEWAY_ZONE_H
#define WEIR_GATEWAY_ZONE_H

#include "core/base.h"

#define WEIR_ZONE_NAME_MAX 64 /* bytes of a name with its NUL */

struct weir_zone;

/* The zone of that name, spelled as in the database. NULL: there is none, or no database. Offsets
 * ("+01:00") and rules ("CET-1CEST") are no names.
 *
 * Owns: the caller, until weir_zone_close. */
WEIR_MUST_USE struct weir_zone *weir_zone_open(const char *name);
void weir_zone_close(struct weir_zone *zone); /* NULL is fine */
const char *weir_zone_name(const struct weir_zone *zone);

/* One stretch of constant offset: local time is UTC + offset_s from the instant asked for until
 * end_s (excluded). */
struct weir_zone_span {
    int64_t end_s;
    int64_t offset_s;
};

/* The stretch that unix_s lies in, looked at no further than limit_s, which is above unix_s: at
 * limit_s itself the offset may be the same or another. */
struct weir_zone_span weir_zone_span(const struct weir_zone *zone, int64_t unix_s, int64_t limit_s);

/* Whether a database is there at all; and where, for messages. */
bool weir_zone_database_exists(void);
const char *weir_zone_database(void);

/* The zone that was probably meant by name: other case, a city alone, a slip of the hand. */
bool weir_zone_suggest(const char *name, char out[WEIR_ZONE_NAME_MAX]);

#endif

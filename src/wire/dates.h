/* dates: the forms in which headers give times and durations, read and written.
 *
 * All UTC, by the proleptic Gregorian calendar, years 1970 to 9999; leap seconds read as the second
 * after. Values that are not exactly of a form are refused, never guessed. Thread: any. */
#ifndef WEIR_WIRE_DATES_H
#define WEIR_WIRE_DATES_H

#include "core/base.h"

/* "6m0s", "2m59.56s", "74ms", "1h2m3s", "0"; units d, h, m, s, ms, us, ns. Rounded up to 1 ns. */
WEIR_MUST_USE bool weir_duration_read(const char *s, size_t n, uint64_t *ns);

/* A decimal number with an optional fraction, times unit_ns; rounded up, saturated at UINT64_MAX.
 */
WEIR_MUST_USE bool weir_decimal_read(const char *s, size_t n, uint64_t unit_ns, uint64_t *ns);

/* "Sun, 06 Nov 1994 08:49:37 GMT" and the two obsolete forms of RFC 9110 (rfc850, asctime). */
WEIR_MUST_USE bool weir_http_date_read(const char *s, size_t n, int64_t *unix_s);

/* "2025-11-30T00:00:38Z", with fractions and offsets. */
WEIR_MUST_USE bool weir_rfc3339_read(const char *s, size_t n, int64_t *unix_ns);

/* As people and tables write instants, with or without time of day, seconds and zone: "2025-11-30",
 * "2025-11-30 13:00", "2025-11-30T13", "2025-11-30T13:00:00+0200", "... UTC". Without a zone it is
 * UTC. Fractions of a second are cut off. */
WEIR_MUST_USE bool weir_iso_read(const char *s, size_t n, int64_t *unix_s, bool *has_zone,
                                 bool *has_time);

/* Writers: no NUL; return the bytes, or 0 when cap is too small. */

/* Go's form ("6m0s", "2m59.56s", "74ms"): milliseconds below one second, rounded up. cap 32. */
WEIR_MUST_USE size_t weir_duration_write(char *out, size_t cap, uint64_t ns);

/* Whole seconds, rounded up: "2025-11-30T00:00:38Z". cap 20. */
WEIR_MUST_USE size_t weir_rfc3339_write(char *out, size_t cap, int64_t unix_ns);

/* As in a Date header: "Sun, 06 Nov 1994 08:49:37 GMT". cap 29. */
WEIR_MUST_USE size_t weir_http_date_write(char *out, size_t cap, int64_t unix_s);

#endif

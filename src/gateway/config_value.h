/* config_value: how amounts are written by people, in YAML and in flags alike.
 *
 *   counts      250   100k   1.5M   2G            (k, M, G are thousands)
 *   durations   250ms   5s   1.5m   1h30m   1d    (a bare 0 is allowed, else a unit is needed)
 *   bytes       512   64KiB   32MiB   1.5GiB   10MB
 *   periods     none   hour   day   week   month   5h
 *   rates       2/s   100/m   1.5M/h   10k/d   1.5/s  (which is 90/m)
 *   addresses   127.0.0.1:8765   [::1]:8765   localhost:0
 *
 * Integers only: a fraction is accepted when its amount comes out whole (1.5k), refused when not
 * (1.5). The way back prints what parses to the same value. Thread: any. */
#ifndef WEIR_GATEWAY_CONFIG_VALUE_H
#define WEIR_GATEWAY_CONFIG_VALUE_H

#include "gateway/config.h"

#define WEIR_VALUE_TEXT_MAX 64

/* Each returns false, with *out unchanged, when text is not of that kind or does not fit in 64
 * bits. */
WEIR_MUST_USE bool weir_value_count(const char *text, uint64_t *out);
WEIR_MUST_USE bool weir_value_duration(const char *text, uint64_t *out_ns);
WEIR_MUST_USE bool weir_value_bytes(const char *text, uint64_t *out_bytes);
WEIR_MUST_USE bool weir_value_rate(const char *text, struct weir_config_rate *out);

/* A factor of up to three digits behind the point, in thousandths: 2.5 is 2500. At most 1000. */
WEIR_MUST_USE bool weir_value_factor(const char *text, uint32_t *out_permille);
void weir_value_factor_text(uint32_t permille, char out[WEIR_VALUE_TEXT_MAX]);

/* none, hour, day, week, month, or a duration in whole seconds up to a hundred years. Only period
 * and seconds of *out are set. */
WEIR_MUST_USE bool weir_value_period(const char *text, struct weir_window_rule *out);
/* The word for a period that has one: any but SECONDS. */
const char *weir_value_period_name(enum weir_period period);

/* monday to sunday: 1 to 7. */
WEIR_MUST_USE bool weir_value_weekday(const char *text, uint32_t *out);

/* Takes host:port apart into host (NUL-terminated, without brackets, at most 255 bytes) and port.
 */
WEIR_MUST_USE bool weir_value_addr(const char *text, char host[256], uint16_t *port);

/* Whether host, a literal or a name as weir_value_addr gives it, can only be reached from this
 * machine. */
bool weir_value_is_loopback(const char *host);

void weir_value_count_text(uint64_t count, char out[WEIR_VALUE_TEXT_MAX]);
void weir_value_duration_text(uint64_t ns, char out[WEIR_VALUE_TEXT_MAX]);
void weir_value_bytes_text(uint64_t bytes, char out[WEIR_VALUE_TEXT_MAX]);
void weir_value_rate_text(struct weir_config_rate rate, char out[WEIR_VALUE_TEXT_MAX]);

/* The known word nearest to word by at most a third of its letters (swaps count once), or NULL. */
const char *weir_value_suggest(const char *word, const char *const *known, size_t known_count);

#endif

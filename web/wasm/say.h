/* say: a JSON text that grows, for what the module tells the page. Numbers are whole ones. */
#ifndef WEIR_WEB_SAY_H
#define WEIR_WEB_SAY_H

#include "core/base.h"

/* Start from {0}; say_start keeps the room. */
struct say {
    char *text;
    size_t bytes, room;
};

void say_start(struct say *say);
void say_raw(struct say *say, const char *text);
void say_string(struct say *say, const char *text); /* quoted and escaped */
void say_u64(struct say *say, uint64_t number);
void say_i64(struct say *say, int64_t number);
void say_bool(struct say *say, bool answer);
/* [ { ] } and what stands before an entry: a comma unless it is the first, and the key unless NULL. */
void say_open(struct say *say, const char *bracket);
void say_close(struct say *say, const char *bracket);
void say_key(struct say *say, const char *key);
/* key and value */
void say_pair(struct say *say, const char *key, const char *text);
void say_count(struct say *say, const char *key, uint64_t number);

#endif

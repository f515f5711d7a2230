/* usage_export_private: what the readers of the formats share. */
#ifndef WEIR_WIRE_USAGE_EXPORT_PRIVATE_H
#define WEIR_WIRE_USAGE_EXPORT_PRIVATE_H

#include "wire/usage_export.h"

#include <stdarg.h>

/* What a column or a JSON member means. Texts first, then numbers. */
enum export_field {
    EXPORT_START, /* unix seconds, as OpenAI writes them */
    EXPORT_END,
    EXPORT_START_ISO,
    EXPORT_END_ISO,
    EXPORT_DATE, /* a day, or an hour of it; the bucket's length follows from that */
    EXPORT_KEY,
    EXPORT_KEY_NAME,
    EXPORT_PROJECT,
    EXPORT_PROJECT_NAME,
    EXPORT_MODEL,
    EXPORT_BATCH,
    EXPORT_TIER,
    EXPORT_GROUP, /* any other by which the provider groups: only tells rows apart */

    EXPORT_REQUESTS,
    EXPORT_INPUT, /* with cache */
    EXPORT_UNCACHED,
    EXPORT_CACHED,
    EXPORT_WRITE,    /* OpenAI: part of EXPORT_INPUT; Anthropic: of any age */
    EXPORT_WRITE_5M, /* Anthropic, with the next */
    EXPORT_WRITE_1H,
    EXPORT_OUTPUT,

    EXPORT_IGNORED, /* known, and of no use here */
    EXPORT_COST,    /* only the cost export has it */
    EXPORT_UNKNOWN
};
#define EXPORT_TEXTS EXPORT_REQUESTS
#define EXPORT_NUMBER_FIRST EXPORT_REQUESTS
#define EXPORT_NUMBERS (EXPORT_IGNORED - EXPORT_REQUESTS)

/* The field of that name; EXPORT_UNKNOWN. */
enum export_field export_field_of(enum weir_export_provider provider, const char *name);

/* One file while it is read. */
struct export_file {
    struct weir_export_reader *reader;
    const char *name;
    enum weir_export_provider provider;
    uint32_t index;
    uint32_t errors; /* of rows: past EXPORT_FILE_ERRORS_MAX the rest of the file is not read */
    bool is_iso_told, is_clash_told;
    bool has_hours; /* some EXPORT_DATE had a time that is not midnight */
    size_t rows_first, spans_first;
    char unknown[512];     /* names of columns that are not known, told at the end of the file */
    bool has_more_unknown; /* than there is room for */
};
#define EXPORT_FILE_ERRORS_MAX 20

/* A row while it is read. Texts are NUL-terminated; numbers are what was written. */
struct export_draft {
    char place[128]; /* "usage.csv:12", "usage.json: data[0].results[3]" */
    uint32_t line;
    bool text_has[EXPORT_TEXTS];
    char text[EXPORT_TEXTS][WEIR_EXPORT_NAME_MAX + 1];
    bool number_has[EXPORT_NUMBERS];
    int64_t number[EXPORT_NUMBERS];
    uint64_t identity;
    bool is_bad;    /* told: not to be added */
    bool no_output; /* embeddings: there is none */
};

void export_draft_begin(struct export_draft *d);
/* Takes a value as text: of a CSV cell, or of a JSON string or number. name: for messages. An empty
 * value is none. */
void export_draft_take(struct export_file *f, struct export_draft *d, enum export_field field,
                       const char *name, const char *value);
/* The bucket's times are known and right. */
bool export_draft_span(struct export_file *f, struct export_draft *d, int64_t *start_s,
                       int64_t *end_s);
/* Adds the row, or says what is wrong with it. A draft with nothing but times is an empty bucket. */
void export_draft_end(struct export_file *f, struct export_draft *d);

/* Remembers a name that is not known. */
void export_unknown(struct export_file *f, const char *name);

void export_add_row(struct export_file *f, const struct weir_export_row *row);
void export_add_span(struct export_file *f, int64_t start_s, int64_t end_s);
/* Makes all buckets of the file whole days. */
void export_widen(struct export_file *f);
/* A page of an API's answer, to see later whether the pages are all there. */
void export_add_page(struct export_file *f, const char *place, int64_t start_s, int64_t end_s,
                     bool has_more);
/* A copy that lives as long as the reader; the same text is kept once. "" when memory ends. */
const char *export_keep(struct weir_export_reader *r, const char *text);

__attribute__((format(printf, 3, 4))) void
export_say(struct weir_export_reader *r, enum weir_export_level level, const char *format, ...);
/* An error of a row, told once for each row. Always false, for the caller to return. */
__attribute__((format(printf, 3, 4))) bool
export_row_error(struct export_file *f, struct export_draft *d, const char *format, ...);
/* An error of the file. Always false. */
__attribute__((format(printf, 2, 3))) bool export_file_error(struct export_file *f,
                                                             const char *format, ...);

/* The readers: bytes without a byte order mark. Each finds out its provider. */
void export_read_csv(struct export_file *f, const char *bytes, size_t n);
void export_read_json(struct export_file *f, const char *bytes, size_t n);

#define EXPORT_TIME_BYTES 24
/* "2025-11-30T00:00Z" (seconds only when they are not 0) into out, which is returned. */
const char *export_time_text(int64_t unix_s, char out[EXPORT_TIME_BYTES]);

#endif

/* usage_export: what a provider says was used, read from the files its console and its API give.
 *
 *   OpenAI     usage API pages (completions, embeddings), the dashboard's completions CSV
 *   Anthropic  usage report pages (messages), the console's CSV
 *
 * A file is known by its content, a column by its name. Several files make one export: pages of one
 * answer, or months. What is not understood is told, never guessed: `problems` says where (file and
 * line, or the path inside the JSON), what, and what to do. With an error among them the rows are
 * not to be used.
 *
 * Counting, one rule for all formats: input_tok includes what was cached and what was written to a
 * cache; the splits of a total (text, audio, image) are never added to it. The same row given twice
 * by two files counts once; a bucket that grew between two downloads counts as the larger.
 *
 * Thread: any. Allocates; bounded by the limits below. Source: docs/ledger.md, "Reconciliation". */
#ifndef WEIR_WIRE_USAGE_EXPORT_H
#define WEIR_WIRE_USAGE_EXPORT_H

#include "core/base.h"

#define WEIR_EXPORT_FILE_MAX (UINT64_C(256) << 20) /* bytes of one file */
#define WEIR_EXPORT_FILES_MAX 64
#define WEIR_EXPORT_ROWS_MAX 1000000
#define WEIR_EXPORT_PROBLEMS_MAX 100 /* of each level; the rest is counted */
#define WEIR_EXPORT_NAME_MAX 256     /* bytes of a key, project or model name */

enum weir_export_provider { WEIR_EXPORT_OPENAI, WEIR_EXPORT_ANTHROPIC };
#define WEIR_EXPORT_PROVIDERS 2

enum weir_export_level {
    WEIR_EXPORT_NOTE,    /* for completeness */
    WEIR_EXPORT_WARNING, /* the export may not say everything */
    WEIR_EXPORT_ERROR    /* it cannot be used */
};

struct weir_export_problem {
    enum weir_export_level level;
    const char *text; /* a whole sentence with its place */
};

/* Texts are never NULL; "": not given. */
struct weir_export_row {
    enum weir_export_provider provider;
    int64_t start_s, end_s; /* unix seconds: [start, end) */
    const char *key;        /* the API key's id */
    const char *key_name;
    const char *project; /* OpenAI: project, Anthropic: workspace; its id */
    const char *project_name;
    const char *model; /* "": not grouped by model */
    bool is_batch;     /* came through the provider's batch API */
    int64_t requests;  /* -1: not told */
    int64_t input_tok; /* with what was cached and written */
    int64_t cached_tok;
    int64_t cache_write_tok;
    int64_t output_tok;
    uint32_t file;     /* index in the order of weir_export_add */
    uint32_t line;     /* CSV: of the row; JSON: of its first byte; from 1 */
    uint64_t identity; /* hash of all by which the provider groups */
};

/* A stretch of time that the export speaks of, also when nothing was used. */
struct weir_export_span {
    enum weir_export_provider provider;
    int64_t start_s, end_s;
};

struct weir_export {
    const struct weir_export_row *rows; /* by provider, start, model, key, project */
    size_t rows_count;
    const struct weir_export_span *spans; /* distinct, by provider and start; no two overlap */
    size_t spans_count;
    const struct weir_export_problem *problems;
    size_t problems_count;
    size_t errors, warnings; /* also those that did not fit */
};

struct weir_export_reader;

WEIR_MUST_USE struct weir_export_reader *weir_export_open(void); /* NULL: no memory */
/* Reads one file. name is for messages and is copied. What is wrong is in the problems. */
void weir_export_add(struct weir_export_reader *r, const char *name, const void *bytes, size_t n);
/* After the last file: looks across files. The result lives until weir_export_close. */
const struct weir_export *weir_export_finish(struct weir_export_reader *r);
void weir_export_close(struct weir_export_reader *r); /* NULL is fine */

/* "OpenAI", "Anthropic". */
const char *weir_export_provider_name(enum weir_export_provider provider);

#endif

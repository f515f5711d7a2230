/* trace: request traces, read from and written as CSV. A push parser without I/O.
 *
 * Bytes come in portions of any size, entries go out by callback in the order of the file. Which
 * form a file has is found by the column names of its first line (docs/traces.md lists the forms):
 *
 *   Azure      TIMESTAMP, ContextTokens, GeneratedTokens
 *   arena      arrival_s, tenant, prompt_tokens, output_tokens; measured: first_token_s, latency_s,
 *              and perhaps scheduler, of which one is chosen
 *   Mooncake   arrival_ms, prompt_tokens, output_tokens, reused_prefix_tokens
 *   recording  weir's own: a first line "#weir recording 1 began SECONDS", then the columns of
 *              weir_trace_header
 *
 * Lines end in LF or CRLF and the last needs no end; a byte order mark and blank lines are passed
 * over, as are lines that begin with #; cells are quoted as in RFC 4180. Columns may stand in any
 * order, and others beside them are passed over. Reading stops at the first line that does not hold
 * what its form says: a trace with holes is another trace. Only a recording may have a row that a
 * crash cut short, before its end or before a new "#weir recording" line; such rows are counted and
 * left out.
 *
 * The splitter is our own and not libcsv because this file also runs in the browser, where there is
 * neither libcsv nor an allocator.
 *
 * Thread: any, one at a time. Memory: the host's, at set-up; none after. No floats. */
#ifndef WEIR_TRACE_TRACE_H
#define WEIR_TRACE_TRACE_H

#include "core/base.h"
#include "core/refusal.h"

#define WEIR_TRACE_NAME_BYTES 64  /* with its NUL */
#define WEIR_TRACE_ROW_BYTES 4096 /* a longer row is refused */
#define WEIR_TRACE_CELLS_MAX 64
#define WEIR_TRACE_TOK_MAX 1000000000u
#define WEIR_TRACE_TIME_MAX_NS (UINT64_C(4294967295) * WEIR_NS_PER_S)

enum weir_trace_form {
    WEIR_TRACE_UNKNOWN,
    WEIR_TRACE_AZURE,
    WEIR_TRACE_ARENA,
    WEIR_TRACE_MOONCAKE,
    WEIR_TRACE_RECORDING
};

enum weir_trace_outcome {
    WEIR_TRACE_FINISHED,
    WEIR_TRACE_REFUSED, /* by the gateway, before an answer began; refusal says why */
    WEIR_TRACE_GONE,    /* its client hung up */
    WEIR_TRACE_FAILED,  /* the upstream answered with an error status, which was passed on */
    WEIR_TRACE_CUT,     /* an answer began and was cut */
    WEIR_TRACE_OUTCOME_COUNT
};

/* One request of a trace. What a form does not tell is 0 (names: index 0 is "", unnamed). A refused
 * one of the arena form has the tokens it asked for, a refused one of a recording has none. */
struct weir_trace_entry {
    uint64_t arrival_ns;                         /* since the trace's first arrival, once settled */
    uint32_t tenant, lane, model;                /* indices into the trace's names */
    uint32_t prompt_tok, cached_tok, output_tok; /* really used; cached is part of prompt */
    uint32_t estimate_tok;                       /* recording: what was held for it */
    uint32_t output_limit_tok;                   /* recording: the limit it named */
    uint64_t queue_wait_ns;                      /* recording: from arrival to dispatch */
    uint64_t first_byte_ns, latency_ns;          /* from arrival; 0: unknown, or never */
    uint32_t status;                             /* recording: HTTP status the client got */
    enum weir_trace_outcome outcome;
    enum weir_refusal refusal; /* of REFUSED and CUT */
    bool is_stream;
    bool is_measured;   /* the waits are there */
    bool is_dispatched; /* it left the queue at its last try; only the lab knows, a file does not */
};

/* What the names of a trace name. */
enum weir_trace_kind {
    WEIR_TRACE_TENANT,
    WEIR_TRACE_LANE,
    WEIR_TRACE_MODEL,
    WEIR_TRACE_SCHEDULER, /* of measured runs: those seen, chosen or not */
    WEIR_TRACE_KIND_COUNT
};

struct weir_trace_limits {
    uint32_t names_max; /* of each kind, the unnamed one among them; 2 .. 2^20 */
    uint64_t rows_max;
};

/* Where and why reading stopped. */
struct weir_trace_problem {
    uint64_t line;  /* the row begins here, from 1; 0: of the whole */
    char text[320]; /* "" while there is none */
};

/* What was seen beside the entries. */
struct weir_trace_facts {
    uint64_t rows;          /* entries given out */
    uint64_t rows_unchosen; /* of other schedulers */
    uint64_t rows_cut;      /* of a recording: cut short by a crash, left out */
    uint64_t rows_dropped;  /* of a recording: the gateway says that it dropped them */
    uint64_t unsorted_line; /* the first that arrives before the row above it; 0: none */
};

struct weir_trace_reader;

/* false: no more entries are wanted (the reader then stops with a problem that says so). */
typedef bool weir_trace_entry_fn(void *ctx, const struct weir_trace_entry *entry);

/* mem: zero, aligned to 16 bytes, the host's. scheduler: the run wanted of a file that holds
 * several, kept by pointer; NULL: the file must hold one. */
size_t weir_trace_bytes(const struct weir_trace_limits *limits);
struct weir_trace_reader *weir_trace_init(void *mem, size_t bytes,
                                          const struct weir_trace_limits *limits,
                                          const char *scheduler, weir_trace_entry_fn *each,
                                          void *ctx);
/* false: stopped; weir_trace_problem says where and why, and further bytes are ignored. */
WEIR_MUST_USE bool weir_trace_push(struct weir_trace_reader *r, const void *bytes, size_t count);
/* The file is over. false: as above; an empty trace is a problem too. */
WEIR_MUST_USE bool weir_trace_finish(struct weir_trace_reader *r);

const struct weir_trace_problem *weir_trace_problem(const struct weir_trace_reader *r);
const struct weir_trace_facts *weir_trace_facts(const struct weir_trace_reader *r);
enum weir_trace_form weir_trace_form(const struct weir_trace_reader *r);
const char *weir_trace_form_name(enum weir_trace_form form);
uint32_t weir_trace_names_count(const struct weir_trace_reader *r, enum weir_trace_kind kind);
const char *weir_trace_name(const struct weir_trace_reader *r, enum weir_trace_kind kind,
                            uint32_t index);

/* Sorts by arrival, those of one time in the order they stood, and lets arrivals count from the
 * first: until then they count from what their form does (1970 for Azure and recordings).
 * scratch: room for count entries. */
void weir_trace_settle(struct weir_trace_entry *entries, struct weir_trace_entry *scratch,
                       size_t count);

/* What the finished requests of a tenant used, together. */
struct weir_trace_sizes {
    uint64_t requests, prompt_tok, output_tok;
};

/* Makes a trace fit to be sent again: a request that a recording says was refused, or gone before
 * it was sent, used no tokens, but would have. It gets what its tenant's finished ones used on
 * average, of all tenants where that has none. sizes: room for tenants_count, overwritten. Returns
 * how many requests were filled in so; without a finished request in the whole trace none is. */
size_t weir_trace_fill(struct weir_trace_entry *entries, size_t count,
                       struct weir_trace_sizes *sizes, uint32_t tenants_count);

/* The writer of the recording form. Names are cut to WEIR_TRACE_NAME_BYTES - 1 and their control
 * characters become blanks, so that what is written can be read.
 * Both return the bytes written, without a NUL; 0: cap is below the bound. */
#define WEIR_TRACE_HEADER_BYTES 320
#define WEIR_TRACE_LINE_BYTES 800
/* The two lines that begin a recording: began_us is its time 0, in microseconds since 1970 (a model
 * run says 0). A file may hold several recordings, one behind the other. */
size_t weir_trace_header(int64_t began_us, char *out, size_t cap);
/* entry->tenant, lane and model are not looked at: the names are given. */
size_t weir_trace_line(const struct weir_trace_entry *entry, const char *tenant, const char *lane,
                       const char *model, char *out, size_t cap);
/* "#weir dropped COUNT": so many rows were lost here. */
size_t weir_trace_dropped_line(uint64_t count, char *out, size_t cap);

#endif

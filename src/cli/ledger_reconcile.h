/* ledger_reconcile: what the parts of `weir ledger reconcile` share. Thread: main. */
#ifndef WEIR_CLI_LEDGER_RECONCILE_H
#define WEIR_CLI_LEDGER_RECONCILE_H

#include "cli/ledger_door.h"
#include "gateway/reconcile.h"

/* The ledger's side of a comparison, fetched through the door. */
struct reconcile_books {
    struct weir_reconcile_use *uses;
    size_t uses_count, uses_cap;
    struct weir_reconcile_lapse *lapses;
    size_t lapses_count, lapses_cap;
    struct weir_reconcile_scope *scopes;
    int64_t *window_starts; /* of each scope's present window; 0: it has no beginning */
    size_t scopes_count, scopes_cap;
    struct weir_reconcile_upstream *upstreams;
    size_t upstreams_count;
    struct weir_reconcile_id *ids;
    size_t ids_count;
    char **made; /* names that were put together here */
    size_t made_count;
    json_t *pages; /* answers, whose texts are borrowed above */
};

/* Fetches use and lapsed holds from from_s to to_s, and the scopes; takes provider_ids and upstreams
 * from the configuration. Gives CLI_DONE_STATUS, or the exit status after saying what is wrong. */
WEIR_MUST_USE int reconcile_books_read(struct reconcile_books *books, struct ledger_door *door,
                                       int64_t from_s, int64_t to_s);
void reconcile_books_free(struct reconcile_books *books);

/* What --apply did or would do. */
struct reconcile_applied {
    size_t corrections, lapses;      /* booked, written off */
    int64_t raised_tok, lowered_tok; /* both positive */
    size_t over;                     /* corrections left: their window is over */
    int64_t over_tok;                /* their size */
    size_t nobody;                   /* corrections left: no scope of ours is known for them */
    int64_t nobody_tok;
};

/* Books the corrections. files: names for the reasons. Gives CLI_DONE_STATUS or an exit status; what
 * was booked until then is in *applied and stays. */
WEIR_MUST_USE int reconcile_apply(struct ledger_door *door, const struct weir_reconcile *r,
                                  const struct reconcile_books *books, const char *files,
                                  struct reconcile_applied *applied);

struct reconcile_shown {
    const struct weir_export *export;
    const struct weir_reconcile *r;     /* as it was found */
    const struct weir_reconcile *after; /* with --apply: as it is now; else NULL */
    const struct reconcile_books *books;
    int64_t max_drift_ppm;
    size_t files_count;
    int64_t begin_s;    /* the books can be compared from here on; 0: as far back as wanted */
    size_t early_count; /* buckets left out because they begin before that */
    size_t open_count;  /* buckets left out because they had not ended */
    bool with_windows;  /* print each bucket too */
    struct reconcile_applied applied; /* when it was; else what would be left */
    bool is_beyond;                   /* now */
};
void reconcile_print(const struct reconcile_shown *shown);
/* NULL: out of memory. */
WEIR_MUST_USE json_t *reconcile_json(const struct reconcile_shown *shown);

/* Drift as "-0.42 %", "0.00 %", "only weir". Away from zero, so that only 0 is shown as 0. */
#define RECONCILE_DRIFT_BYTES 32
const char *reconcile_drift_text(int64_t ppm, char out[static RECONCILE_DRIFT_BYTES]);
/* The name of the group's owner, for people. */
const char *reconcile_group_text(const struct weir_reconcile_group *group, char out[static 200]);
/* Corrections that cannot be booked, counted into *applied. */
bool reconcile_is_over(const struct reconcile_books *books,
                       const struct weir_reconcile_correction *correction);

#endif

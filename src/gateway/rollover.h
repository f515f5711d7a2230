/* rollover: begins each budget's windows when their time has come.
 *
 *   wall clock, calendar (gateway/window) --> rule of clocks (core/window) --> WINDOW operations of
 *   the store --> when answered: the next window's start, as loop time, to those who tell hints
 *
 * One scope goes round these states; its place is in exactly one of them:
 *
 *   WAITING   in a heap by the start of its next window
 *   ASKED     a WINDOW operation is under way
 *   HELD_BACK the clock says several windows ahead and is not believed yet
 *   UNKNOWN   the store does not have the scope yet (its definition is under way), or is in another
 *             window than was thought: it is looked up with the next reading of the clocks
 *
 * The clocks are compared once a second, so that a step is seen when it happens, whether a window
 * ends or not. At a midnight of many scopes, WEIR_ROLLOVER_AT_ONCE are under way at once, so that
 * requests find room in the store between them. A store that is full or away is asked again a
 * moment later; until then admission stays in the old window, which is the safe side.
 *
 * Thread: loop. Source: docs/ledger.md, "Windows". */
#ifndef WEIR_GATEWAY_ROLLOVER_H
#define WEIR_GATEWAY_ROLLOVER_H

#include "gateway/log.h"
#include "gateway/window.h"
#include "store/store.h"

struct weir_gateway;
struct weir_rollover;

#define WEIR_ROLLOVER_AT_ONCE 1024u

/* What it stands on; all borrowed. */
struct weir_rollover_host {
    struct weir_store *store;
    int64_t (*wall_ns)(void *ctx); /* since 1970 */
    /* A scope's next window begins at this loop time, not before. */
    void (*reset_at)(void *ctx, uint32_t scope, uint64_t reset_ns);
    void (*say)(void *ctx, enum weir_log_level level, const char *text);
    void *ctx;
};

/* For up to scopes_max scopes. NULL: no memory. */
WEIR_MUST_USE struct weir_rollover *weir_rollover_create(const struct weir_rollover_host *host,
                                                         uint32_t scopes_max);
void weir_rollover_destroy(struct weir_rollover *r); /* NULL is fine */

/* A scope whose windows follow the rule, which is no period NONE; the rule's zone is borrowed. Its
 * SCOPE operation has been submitted. Each slot once. */
void weir_rollover_add(struct weir_rollover *r, uint32_t scope,
                       const struct weir_window_rule *rule);

/* Does what is due at now_ns; the loop time at which it wants to be called next. */
uint64_t weir_rollover_tick(struct weir_rollover *r, uint64_t now_ns);

/* Shown every answer that was collected; takes those to WINDOW. true: tick again now. */
bool weir_rollover_answer(struct weir_rollover *r, const struct weir_store_answer *answer,
                          uint64_t now_ns);

/* An operator says that the wall clock is right: windows that were held back may begin. How many
 * those are; tick again now. */
uint32_t weir_rollover_confirm(struct weir_rollover *r);

/* How many scopes are held back: their clock is not believed yet. */
uint32_t weir_rollover_held_back(const struct weir_rollover *r);

/* The gateway's own: all scopes of its configuration that have a period; g->rollover stays NULL when
 * none has. Returns when the store has begun the windows that may begin now, so that no request is
 * charged to one before; after 10 s it says that it has not, and returns all the same. After
 * weir_budget_open. false: no memory. */
WEIR_MUST_USE bool weir_rollover_open(struct weir_gateway *g);
void weir_rollover_close(struct weir_gateway *g);
/* Each answer that the gateway collected goes here. */
void weir_rollover_answered(struct weir_gateway *g, const struct weir_store_answer *answer,
                            uint64_t now_ns);
/* Looks in this turn or the next: after a confirmation. */
void weir_rollover_look(struct weir_gateway *g);

#endif

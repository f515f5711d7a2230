/* idempotency: the keys by which clients name one piece of work, and what became of each.
 *
 *   (unknown) --begin--> RUNNING --keep--> KEPT     the answer is there: repeats get it
 *       ^                  |  |               |
 *       |  forget: nothing |  | lose          | the answer made room for a newer one
 *       |  was sent, or it |  v               v
 *       |  cost nothing    | LOST <-----------+     the answer is not known, the work was or may
 *       +------------------+   ^                    have been charged: repeats are refused
 *       ^                      |
 *       | keep_ns after its    +-- load: keys of earlier runs, whose answers ended with them
 *       | end (KEPT and LOST)
 *
 * Everything is bounded: keys, the bytes of one answer, and of all answers, those being recorded
 * included. What makes room is of the owner (the tenant) that has most of it, its oldest first: a
 * finished key is forgotten, or a kept answer dropped (its key stays). So one tenant's traffic
 * cannot make another's keys be forgotten while that one has fewer. What is being read out stays. A
 * recording that outgrows its bound is dropped and the request goes on: its key ends LOST.
 *
 * Slots are indices; a slot given by begin stays its caller's until it calls forget, keep or lose,
 * once. A key is 16 bytes of a keyed digest in which the tenant is included, so equal keys of two
 * tenants are different ones here; of the request there are another 16. Neither can be turned back.
 *
 * Owns: its memory; one mapped block that is touched as it fills, and the answers.
 * Thread: loop. Time is passed in. Source: docs/idempotency.md. */
#ifndef WEIR_GATEWAY_IDEMPOTENCY_H
#define WEIR_GATEWAY_IDEMPOTENCY_H

#include "core/base.h"
#include "net/slice.h"

#define WEIR_IDEMPOTENCY_HASH_BYTES 16

struct weir_idempotency;

struct weir_idempotency_limits {
    uint32_t owners_max;  /* indices are below */
    uint32_t keys_max;    /* at least 1 */
    size_t answer_bytes;  /* of one answer, its head included */
    size_t answers_bytes; /* of all; at least answer_bytes */
    uint64_t keep_ns;     /* after the end of the first request */
};

struct weir_idempotency_id {
    uint8_t key[WEIR_IDEMPOTENCY_HASH_BYTES];     /* tenant and key */
    uint8_t request[WEIR_IDEMPOTENCY_HASH_BYTES]; /* method, path and body */
};

enum weir_idempotency_outcome {
    WEIR_IDEMPOTENCY_NEW,      /* go on: the slot is the caller's */
    WEIR_IDEMPOTENCY_RUNNING,  /* the first is under way */
    WEIR_IDEMPOTENCY_MISMATCH, /* the key came with another request before */
    WEIR_IDEMPOTENCY_REPLAY,   /* its answer is kept: borrow it */
    WEIR_IDEMPOTENCY_LOST,
    WEIR_IDEMPOTENCY_FULL, /* every key remembered is of a request under way */
    WEIR_IDEMPOTENCY_OUTCOME_COUNT
};
/* "new", "in_progress", "mismatch", "replayed", "lost", "full": for metrics. Static. */
const char *weir_idempotency_outcome_name(enum weir_idempotency_outcome outcome);

enum weir_idempotency_loss {
    WEIR_IDEMPOTENCY_TOO_LARGE,   /* the answer is above answer_bytes */
    WEIR_IDEMPOTENCY_NO_ROOM,     /* it made room for newer ones, or found none */
    WEIR_IDEMPOTENCY_CLIENT_GONE, /* the client left before its end, and so the call was ended */
    WEIR_IDEMPOTENCY_CUT,         /* it did not end as it should */
    WEIR_IDEMPOTENCY_NO_ANSWER,   /* the request was sent, and no answer came */
    WEIR_IDEMPOTENCY_ERROR,       /* the answer was an error that is not kept, and it was charged */
    WEIR_IDEMPOTENCY_RESTART      /* an earlier run of the gateway had it */
};

/* What begin found beside the outcome. */
struct weir_idempotency_found {
    uint32_t slot;                   /* NEW, REPLAY */
    uint64_t age_ns;                 /* RUNNING: since it began */
    enum weir_idempotency_loss loss; /* LOST */
    int64_t created_s;               /* LOST by RESTART: when it began, unix seconds */
};

/* An answer as a client gets it. Slices lie in the store and stay while it is borrowed. */
struct weir_idempotency_answer {
    uint32_t status;
    bool is_chunked;           /* its length was not known when it began */
    struct weir_slice reason;  /* of the status line */
    struct weir_slice headers; /* "name: value\r\n" lines */
    struct weir_slice body;
};

/* NULL: out of memory. */
WEIR_MUST_USE struct weir_idempotency *
weir_idempotency_create(const struct weir_idempotency_limits *limits);
void weir_idempotency_destroy(struct weir_idempotency *s); /* NULL is fine */

/* Looks a key up, and enters it for its owner when it is new. Allocates nothing. Cost: O(1), or
 * O(log owners) where another key makes room. */
WEIR_MUST_USE enum weir_idempotency_outcome
weir_idempotency_begin(struct weir_idempotency *s, uint32_t owner,
                       const struct weir_idempotency_id *id, uint64_t now_ns,
                       struct weir_idempotency_found *found);
/* Of a slot that is RUNNING. */
const struct weir_idempotency_id *weir_idempotency_id(const struct weir_idempotency *s,
                                                      uint32_t slot);

/* Starts the recording of the answer of a RUNNING slot; again: the one before is dropped.
 * body_bytes is its length where that is known, or 0; is_chunked, when the client is not told it.
 */
void weir_idempotency_record(struct weir_idempotency *s, uint32_t slot, uint32_t status,
                             struct weir_slice reason, struct weir_slice headers, bool is_chunked,
                             uint64_t body_bytes);
/* Appends a copy to the body being recorded, if it still is. */
void weir_idempotency_append(struct weir_idempotency *s, uint32_t slot, const void *bytes,
                             size_t count);
/* False: nothing is recorded (any more), so nothing need be made only to be appended. */
bool weir_idempotency_is_recording(const struct weir_idempotency *s, uint32_t slot);

/* The end of a RUNNING slot. The key may come anew. */
void weir_idempotency_forget(struct weir_idempotency *s, uint32_t slot);
/* The answer is complete: KEPT, or LOST when its recording was dropped. */
void weir_idempotency_keep(struct weir_idempotency *s, uint32_t slot, uint64_t now_ns);
void weir_idempotency_lose(struct weir_idempotency *s, uint32_t slot,
                           enum weir_idempotency_loss loss, uint64_t now_ns);

/* Reads a KEPT answer; it is neither dropped nor moved until each borrow was given back. */
void weir_idempotency_borrow(struct weir_idempotency *s, uint32_t slot,
                             struct weir_idempotency_answer *answer);
void weir_idempotency_give_back(struct weir_idempotency *s, uint32_t slot);

/* Enters a key of an earlier run, oldest first; one that is known already stays as it is. All of
 * them together count as one owner's. It is remembered for what is left of keep_ns by the wall
 * clock: created_s is when it began, unix_s now; the whole time where the clock was set back. */
void weir_idempotency_load(struct weir_idempotency *s, const struct weir_idempotency_id *id,
                           int64_t created_s, int64_t unix_s, uint64_t now_ns);

/* Forgets what is older than keep_ns, a bounded number of keys. Call about once a second. */
void weir_idempotency_tick(struct weir_idempotency *s, uint64_t now_ns);

struct weir_idempotency_view {
    uint32_t keys_now, running_now;
    uint64_t answers_bytes_now;
    uint64_t keys_pushed_out;    /* finished ones forgotten before their time, since start */
    uint64_t answers_pushed_out; /* dropped before their time, since start */
};
void weir_idempotency_view(const struct weir_idempotency *s, struct weir_idempotency_view *view);

/* O(n): NULL, or the fact that is false. For tests. */
const char *weir_idempotency_audit(const struct weir_idempotency *s);

#endif

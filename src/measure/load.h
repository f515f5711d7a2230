/* load: sends requests to one endpoint and writes down what came of each.
 *
 * The engine of the instruments: it sends what it is told when it is told. Whether the next request
 * waits for an answer (closed loop) or for a point in time (open loop) is its caller's affair.
 *
 *     weir_load_begin -> (connection | connect, TLS) -> sent -> head -> first token -> end
 *                                                                        -> ended(user, record)
 *
 * Every call that was begun gets exactly one record, also when it is cancelled by weir_load_stop.
 *
 * Times are read from the clock where they happen, not once a turn, so that a busy turn does not
 * make an answer look faster than it was. What the engine itself delays is measured too:
 * weir_load_view.turn_max_ns bounds how long a byte that had arrived may have waited to be read.
 *
 * The first token is the first complete event of a stream that carries output: text, a tool call's
 * arguments, or reasoning, of any choice. Events that open an answer (the role chunk,
 * message_start, response.created, an empty delta) do not count. A whole answer has no first token.
 *
 * Redirects are not followed: a credential would go to whom the answer names. Keys appear in no
 * text of this header: what an endpoint says of them (an error code, a location) is blanked.
 *
 * Thread: loop. */
#ifndef WEIR_MEASURE_LOAD_H
#define WEIR_MEASURE_LOAD_H

#include "measure/endpoint.h"
#include "net/loop.h"
#include "wire/hints.h"

struct weir_load;

#define WEIR_LOAD_CODE_BYTES 40
#define WEIR_LOAD_DETAIL_BYTES 512
#define WEIR_LOAD_LIMITS_BYTES 2048

/* How a call ended. */
enum weir_load_end {
    WEIR_LOAD_OK,          /* a whole answer of this API, or a stream with its last word */
    WEIR_LOAD_429,         /* status 429; hint and code say more */
    WEIR_LOAD_4XX,         /* another status 400..499 */
    WEIR_LOAD_5XX,         /* status 500 or more (529 among them) */
    WEIR_LOAD_REDIRECT,    /* status 300..399, not followed; detail says where to */
    WEIR_LOAD_HTML,        /* status 200 and a web page */
    WEIR_LOAD_GARBAGE,     /* status 200, but not an answer of this API; or not HTTP */
    WEIR_LOAD_ERROR_EVENT, /* status 200, and an error inside the answer; code says which */
    WEIR_LOAD_CUT,         /* the answer began and did not end properly */
    WEIR_LOAD_RESET,       /* the connection broke before the answer began */
    WEIR_LOAD_RESOLVE,     /* the host's name has no address */
    WEIR_LOAD_CONNECT,     /* nobody listens there */
    WEIR_LOAD_TLS,         /* no TLS, or a certificate that does not hold; detail says what to do */
    WEIR_LOAD_TIMEOUT_CONNECT,
    WEIR_LOAD_TIMEOUT_WRITE,
    WEIR_LOAD_TIMEOUT_HEAD, /* request written, no answer begun */
    WEIR_LOAD_TIMEOUT_IDLE, /* between bytes of the answer */
    WEIR_LOAD_TIMEOUT_TOTAL,
    WEIR_LOAD_DESCRIPTORS, /* this process is out of file descriptors */
    WEIR_LOAD_CANCELLED,   /* by weir_load_stop */
    WEIR_LOAD_END_COUNT
};

/* Durations; WEIR_NEVER_NS switches one off. */
struct weir_load_timeouts {
    uint64_t connect_ns, write_ns, head_ns, idle_ns, total_ns;
};
/* 10 s to connect and to write, 600 s for the head, 300 s between bytes, 1 h in all. */
struct weir_load_timeouts weir_load_timeouts_default(void);
/* The default, but patience_ns for the head and between bytes, at most that to connect, and
 * WEIR_LOAD_PATIENCES times that in all, so that answers which trickle for ever end, too. */
struct weir_load_timeouts weir_load_timeouts_of(uint64_t patience_ns);
#define WEIR_LOAD_PATIENCES 10u

struct weir_load_rules {
    const struct weir_endpoint *endpoint; /* copied */
    const char *const *keys;              /* credentials by key_index; NULL element: none. Copied */
    uint32_t keys_count;                  /* 0: no credential is sent */
    const char *ca_file;                  /* NULL: the system's store. Copied */
    struct weir_load_timeouts timeouts;
    uint32_t in_flight_max; /* 1 .. WEIR_LOAD_IN_FLIGHT_MAX */
};
#define WEIR_LOAD_IN_FLIGHT_MAX 60000u

/* One request. */
struct weir_load_ask {
    const char *body; /* JSON; the caller's and unchanged until ended() */
    size_t body_bytes;
    uint32_t key_index;   /* ignored where there are no keys */
    uint64_t intended_ns; /* by weir_loop_clock_ns; 0: now */
    void *user;           /* handed to ended() */
};

/* What came of it. Times by weir_loop_clock_ns; 0: it did not come so far. */
struct weir_load_record {
    uint64_t intended_ns;    /* as asked */
    uint64_t sent_ns;        /* the first byte was handed to the kernel */
    uint64_t head_ns;        /* the head of the answer was read */
    uint64_t first_token_ns; /* see above; streams only */
    uint64_t end_ns;
    enum weir_load_end end;
    uint16_t status; /* 0: no head came */
    uint32_t key_index;
    bool is_stream;    /* the answer was an event stream */
    bool from_gateway; /* a weir gateway refused it itself; code says why (docs/refusals.md) */
    bool usage_known;  /* input and output were told */
    uint64_t input_tok, cached_tok, output_tok;    /* as told; cached is part of input */
    uint64_t events;                               /* of a stream, the opening ones included */
    struct weir_hint hint;                         /* of a refusal: when to come again */
    struct weir_limit_view limits[WEIR_DIM_COUNT]; /* limits the answer told */
    char code[WEIR_LOAD_CODE_BYTES]; /* error code, else error type; "" when OK or unknown */
    const char *detail;              /* one clause for people, "" when OK; valid in ended() only */
};

/* From the loop, or inside weir_load_stop. It may begin the next call, but not destroy the
 * engine. */
typedef void weir_load_ended_fn(void *ctx, void *user, const struct weir_load_record *record);

/* Connects to nobody yet. Raises the soft limit of file descriptors as far as in_flight_max needs.
 *
 * Owns: the caller, until destroy.   Fails: NULL and error_text (a key that no header can carry, by
 * its index; a CA file; too few descriptors, with the ulimit to set; memory). */
WEIR_MUST_USE struct weir_load *weir_load_create(struct weir_loop *loop,
                                                 const struct weir_load_rules *rules,
                                                 weir_load_ended_fn *ended, void *ctx,
                                                 char *error_text, size_t error_bytes);
/* No call may be in flight: weir_load_stop first. NULL is fine. */
void weir_load_destroy(struct weir_load *load);

/* Starts a call. false: in_flight_max are under way already, nothing was done (also when out of
 * memory). The bytes leave at the end of this turn of the loop. */
WEIR_MUST_USE bool weir_load_begin(struct weir_load *load, const struct weir_load_ask *ask);

/* Cancels what is in flight; each gets its record (CANCELLED) before this returns. Calls begun from
 * those callbacks are not started: weir_load_begin says false from now on. */
void weir_load_stop(struct weir_load *load);

struct weir_load_view {
    uint32_t in_flight, in_flight_peak;
    uint64_t begun, ended[WEIR_LOAD_END_COUNT];
    uint64_t connects, reuses; /* new connections; requests on one that was kept */
    uint64_t turn_max_ns;      /* the longest turn of the loop so far, waiting not counted */
};
void weir_load_view(const struct weir_load *load, struct weir_load_view *view);

/* The detail of the first call that ended so; "" when none did. */
const char *weir_load_first_detail(const struct weir_load *load, enum weir_load_end end);
/* The rate-limit headers of the latest answer that had any, "name: value" lines; "" before. */
const char *weir_load_advertised(const struct weir_load *load);

/* "ok", "429", "connect timeout", ...: for tables. Static. */
const char *weir_load_end_name(enum weir_load_end end);
/* What a person can do about it, one sentence; "" for OK and CANCELLED. Static. */
const char *weir_load_end_advice(enum weir_load_end end);

#endif

/* mock: a synthetic model server that speaks both API families, for trying weir without a key, and
 * for tests.
 *
 * It is deterministic: the same request gets the same words. How fast they come is modelled
 * (mock_engine.h): replicas that run their sequences in steps, so that tokens per second fall as
 * the batch grows. In plain mode there is no model: answers go out at once, so that the mock is
 * never what a benchmark measures.
 *
 * Faults are asked for by flag (for every n-th request) or by a request header, see mock_fault.h.
 * What it has received can be read back: GET /mock/stats (counts), GET /mock/requests (the latest
 * heads and bodies, as JSON).
 *
 * Thread: main. It knows nothing of the gateway. */
#ifndef WEIR_MOCK_MOCK_H
#define WEIR_MOCK_MOCK_H

#include "net/loop.h"

/* Whose turn it is, of those that wait for a place in a batch. A key is a credential. */
enum weir_mock_order {
    WEIR_MOCK_FIFO,   /* whoever came first */
    WEIR_MOCK_TURNS,  /* the keys take turns: an endpoint that queues fairly */
    WEIR_MOCK_STRICT, /* the key seen first goes before all others: one that lets the last starve */
};

struct weir_mock_config {
    const char *listen;        /* "127.0.0.1:8767" */
    bool plain;                /* answer at once, without the model */
    uint32_t replicas;         /* default 4 */
    uint32_t sequences;        /* per replica, default 48 */
    uint64_t step_ns;          /* default 6 ms */
    uint64_t step_sequence_ns; /* more per sequence in the batch, default 250 us */
    uint32_t prefill_permille; /* of a step's token for each prompt token, default 100 */
    uint64_t latency_ns;       /* before anything of an answer, default 0 */
    uint32_t output_tok;       /* when the request gives no smaller limit; default 24 */
    uint64_t plain_gap_ns;     /* plain mode, streams: between two events; default 0: all at once */
    enum weir_mock_order order;   /* default FIFO; plain mode: nobody waits */
    uint32_t in_flight_max;       /* above it 429 with a hint (1 s, or the fault's); 0: none */
    uint32_t key_in_flight_max;   /* likewise, of one key */
    const char *key;              /* NULL: any credential; else others get 401 */
    const char *fault;            /* as in the mock-fault header; NULL: none */
    uint32_t fault_every;         /* the fault hits every n-th request; default 1 */
    void (*ready)(uint16_t port); /* called once when it listens; may be NULL */
};

/* The defaults above. */
struct weir_mock_config weir_mock_config_default(void);

struct weir_mock;

/* Listens, on a loop of the caller's, until it is closed. What config points to must stay.
 *
 * Owns: the caller, until close.   Fails: NULL and error_text.   Thread: loop; SIGPIPE is ignored. */
WEIR_MUST_USE struct weir_mock *weir_mock_open(struct weir_loop *loop,
                                               const struct weir_mock_config *config,
                                               char *error_text, size_t error_bytes);
/* Closes everything at once. NULL is fine. */
void weir_mock_close(struct weir_mock *mock);
/* The port really bound. */
uint16_t weir_mock_port(const struct weir_mock *mock);

/* A process that does nothing else (src/mock/mock_serve.c): serves until SIGINT or SIGTERM; 0, or 2
 * with the reason on standard error when it cannot start, or 3 when the loop fails. */
int weir_mock_serve(const struct weir_mock_config *config);

#endif

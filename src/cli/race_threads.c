#include "cli/race_threads.h"

#include <pthread.h>
#include <stdlib.h>

#define RACE_STACK_BYTES (512u * 1024u)

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opens;
    enum { GATE_SHUT, GATE_OPEN, GATE_GIVEN_UP } state;
    void (*work)(void *ctx, uint32_t index);
    void *ctx;
};

struct runner {
    struct gate *gate;
    pthread_t thread;
    uint32_t index;
};

static void *run_one(void *arg)
{
    struct runner *r = arg;
    pthread_mutex_lock(&r->gate->lock);
    while (r->gate->state == GATE_SHUT)
        pthread_cond_wait(&r->gate->opens, &r->gate->lock);
    bool go = r->gate->state == GATE_OPEN;
    pthread_mutex_unlock(&r->gate->lock);
    if (go)
        r->gate->work(r->gate->ctx, r->index);
    return NULL;
}

bool race_run(uint32_t threads, void (*work)(void *ctx, uint32_t index), void *ctx)
{
    struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .opens = PTHREAD_COND_INITIALIZER,
                        .work = work,
                        .ctx = ctx};
    struct runner *runners = calloc(threads, sizeof *runners);
    pthread_attr_t attributes;
    uint32_t started = 0;
    if (!runners || pthread_attr_init(&attributes) != 0) {
        free(runners);
        return false;
    }
    pthread_attr_setstacksize(&attributes, RACE_STACK_BYTES);
    for (; started < threads; started++) {
        runners[started].gate = &gate;
        runners[started].index = started;
        if (pthread_create(&runners[started].thread, &attributes, run_one, &runners[started]) != 0)
            break;
    }
    pthread_attr_destroy(&attributes);
    pthread_mutex_lock(&gate.lock);
    gate.state = started == threads ? GATE_OPEN : GATE_GIVEN_UP;
    pthread_cond_broadcast(&gate.opens);
    pthread_mutex_unlock(&gate.lock);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(runners[i].thread, NULL);
    free(runners);
    return started == threads;
}

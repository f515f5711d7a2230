/* backend_private: what the parts of the backend share.
 *
 *   backend.c          memory, what the host calls, queues, troubles, the order within an instant
 *   backend_replica.c  one replica: its step at hand, and what the steps after it will do */
#ifndef WEIR_LAB_BACKEND_PRIVATE_H
#define WEIR_LAB_BACKEND_PRIVATE_H

#include "core/heap.h"
#include "lab/backend.h"

enum backend_job_state { JOB_OUT, JOB_TRAVELS, JOB_WAITS, JOB_JOINS, JOB_RUNS };

/* Jobs in order, linked through job.next and job.prev: a job is in one list at most. */
struct backend_job_list {
    uint32_t first, last; /* 1 + index; 0: none */
    uint32_t count;
};

struct backend_job {
    enum backend_job_state state;
    enum weir_backend_event_kind end; /* of the event that is kept for it */
    uint32_t next, prev;
    uint32_t replica; /* JOINS, RUNS */
    uint32_t prompt_tok, output_tok;
    uint32_t made_tok;         /* OUT: by its last run */
    bool has_begun;            /* its first token is made */
    uint64_t arrives_ns;       /* TRAVELS */
    uint64_t first_token_step; /* RUNS: the replica's number of the step that makes it */
};

/* An event that is kept until the host takes it. Of a job there are two at most. */
struct backend_kept_event {
    uint64_t at_ns;
    uint32_t next, prev; /* 1 + index; 0: none */
    bool is_kept;
};

struct backend_replica {
    struct weir_heap running;        /* by the number of the step at whose end something happens */
    struct backend_job_list joining; /* for the step after the one at hand */
    uint32_t held;                   /* running and joining */
    uint32_t decoding;               /* running, first token made: each gets a token every step */
    uint32_t slow_permille;
    bool is_down;
    bool is_stepping;  /* a step is at hand, though all its jobs may have left it */
    uint64_t steps;    /* that ended */
    uint64_t began_ns; /* the step at hand; equal to now: who comes or goes is still part of it */
    uint64_t due_ns;   /* its end */
    uint64_t following_ns; /* how long the steps after it take while nobody comes or goes */
    uint64_t tokens_made;
    uint64_t busy_ns, busy_from_ns; /* up to the start of this stretch of steps; its start */
    uint64_t kv_held_tok;
};

struct weir_backend {
    struct weir_backend_rules rules;
    uint32_t jobs_max;
    uint32_t live; /* replicas */
    uint64_t now_ns;
    uint64_t trouble_ns; /* when troubles change next */
    struct weir_backend_trouble *troubles;
    struct backend_replica *replicas;
    struct weir_heap due; /* replicas, by the end of the step that matters next */
    struct backend_job *jobs;
    struct backend_kept_event *kept; /* of a job j: 2j its first token, 2j + 1 its end */
    uint32_t kept_first, kept_last;
    struct backend_job_list travelling, waiting;
};

void backend_list_append(struct weir_backend *b, struct backend_job_list *list, uint32_t job);
void backend_list_remove(struct weir_backend *b, struct backend_job_list *list, uint32_t job);
/* 2 x job: its first token; 2 x job + 1: its end. Told as of now. */
void backend_keep_event(struct weir_backend *b, uint32_t index);
/* The job is in no list and on no replica any more. */
void backend_job_end(struct weir_backend *b, uint32_t job, enum weir_backend_event_kind end,
                     uint32_t made_tok);
uint64_t backend_job_kv_tok(const struct backend_job *j);
/* Output tokens of a job that runs, after so many steps of its replica. */
uint32_t backend_job_made_tok(const struct backend_job *j, uint64_t steps);

/* Steps of r that end after those counted, up to now_ns, at all of which the same jobs run. */
uint64_t backend_replica_steps_since(const struct backend_replica *r, uint64_t now_ns);
/* Counts the steps that ended by now. Those at which something happens were handled before. */
void backend_replica_settle(struct weir_backend *b, struct backend_replica *r);
/* After who runs there, or how fast, has changed. r is settled. */
void backend_replica_reshape(struct weir_backend *b, struct backend_replica *r);
/* Gives a job to a replica that has room for it. */
void backend_replica_take(struct weir_backend *b, struct backend_replica *r, uint32_t job);
/* Takes a job off its settled replica, whose shape the caller sees to. Returns what it has made. */
uint32_t backend_replica_release(struct weir_backend *b, struct backend_replica *r, uint32_t job);
/* A step ends now at which something happens. */
void backend_replica_step_ends(struct weir_backend *b, struct backend_replica *r);
/* All that it has fails; r is settled. */
void backend_replica_fail(struct weir_backend *b, struct backend_replica *r);

#endif

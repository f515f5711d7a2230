/* metrics_private: the text of /metrics and what prints into it. Only metrics_*.c include it. */
#ifndef WEIR_GATEWAY_METRICS_PRIVATE_H
#define WEIR_GATEWAY_METRICS_PRIVATE_H

#include "gateway/metrics.h"

#define METRICS_EXACT "%.15g" /* counts stay whole numbers, and seconds keep their nanoseconds */

/* The text, and what is looked up once for all rows. */
struct metrics_text {
    char *at;
    size_t used, room;
    bool failed;
    struct weir_store_status store;
    uint32_t *scopes; /* the store's slots of the configuration's scopes */
};

void metrics_add(struct metrics_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A label's value with the three escapes of the text format, cut where out ends. Returns out. */
const char *metrics_label(char *out, size_t cap, const char *value);

/* Prints the samples of one row of the table. */
typedef void metrics_print_fn(struct metrics_text *t, const char *name, struct weir_gateway *g);

/* metrics_fairness.c */
metrics_print_fn metrics_print_gap_work;
metrics_print_fn metrics_print_bound_work;
metrics_print_fn metrics_print_gap_requests;
metrics_print_fn metrics_print_bound_requests;
metrics_print_fn metrics_print_gap_jain;
metrics_print_fn metrics_print_gap_compared;
metrics_print_fn metrics_print_gap_broken;
metrics_print_fn metrics_print_gap_backlogged;
metrics_print_fn metrics_print_gap_tracked;

#endif

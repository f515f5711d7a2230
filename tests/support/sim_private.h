/* sim_private: what sim_host.c and sim_ledger.c share. */
#ifndef WEIR_TESTS_SIM_PRIVATE_H
#define WEIR_TESTS_SIM_PRIVATE_H

#include "support/sim_host.h"

enum sim_event_kind {
    SIM_ARRIVE,
    SIM_CLIENT_GONE,
    SIM_DRAIN,
    SIM_RESERVE_ANSWER,
    SIM_EXTEND_ANSWER,
    SIM_BUDGET_FREED,
    SIM_WINDOW,        /* of scope b begins */
    SIM_WINDOW_ANSWER, /* the flow hears of it */
    SIM_CALL_SENT,
    SIM_CALL_HEAD,
    SIM_CALL_PROGRESS,
    SIM_CALL_END
};

struct sim_event {
    uint64_t at_ns;
    uint64_t order;
    enum sim_event_kind kind;
    uint32_t request;
    uint32_t call;
    uint64_t a, b;
    struct weir_arrival *arrival;
    struct weir_reserve_told told;
};

void sim_events_push(struct sim *sim, struct sim_event e);

/* sim_ledger.c: carries the effects out. */
void sim_ledger_reserve(struct sim *sim, uint32_t request, const struct weir_effect *e);
void sim_ledger_extend(struct sim *sim, uint32_t request, const struct weir_effect *e);
void sim_ledger_close(struct sim *sim, uint32_t request, const struct weir_effect *e);
void sim_ledger_event(struct sim *sim, const struct sim_event *e);

#endif

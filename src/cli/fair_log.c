#include "cli/fair.h"

#include <stdlib.h>
#include <string.h>

#define LOG_CELLS_MAX 4000000u /* steps x tenants: some 70 MB */

bool fair_log_init(struct fair_log *log, uint32_t tenants_count, uint64_t requests)
{
    uint64_t room = LOG_CELLS_MAX / tenants_count;
    *log = (struct fair_log){.tenants_count = tenants_count,
                             .stride = weir_div_ceil_u64(requests, room)};
    log->room = (size_t)weir_div_ceil_u64(requests, log->stride);
    log->steps = calloc(log->room, sizeof *log->steps);
    log->served = calloc(log->room * tenants_count, sizeof *log->served);
    log->ideal = calloc(log->room * tenants_count, sizeof *log->ideal);
    log->backlogged = calloc(log->room * tenants_count, sizeof *log->backlogged);
    return log->steps && log->served && log->ideal && log->backlogged;
}

void fair_log_free(struct fair_log *log)
{
    free(log->steps);
    free(log->served);
    free(log->ideal);
    free(log->backlogged);
}

static void note_dispatch(struct fair_log *log, const struct weir_fair_now *now)
{
    size_t at = log->count++ * log->tenants_count;
    uint32_t backlogged = 0;
    for (uint32_t i = 0; i < log->tenants_count; i++) {
        log->served[at + i] = (double)now->dispatched_uwork[i] / WEIR_UWORK_PER_WORK;
        log->ideal[at + i] = now->ideal_uwork[i] / WEIR_UWORK_PER_WORK;
        log->backlogged[at + i] = log->was_backlogged[i];
        backlogged += log->was_backlogged[i];
    }
    log->steps[log->count - 1] = (struct fair_step){.dispatches = now->dispatches,
                                                    .at_ns = now->at_ns,
                                                    .item = now->item,
                                                    .is_contended = backlogged > 1};
}

void fair_log_note(void *user, const struct weir_fair_now *now)
{
    struct fair_log *log = user;
    if (now->event == WEIR_FAIR_SENT && now->dispatches % log->stride == 0)
        note_dispatch(log, now);
    memcpy(log->was_backlogged, now->is_backlogged,
           log->tenants_count * sizeof log->was_backlogged[0]);
}

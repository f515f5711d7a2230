#include "core/window.h"

int64_t weir_window_clock_see(struct weir_window_clock *clock, int64_t wall_ns, uint64_t now_ns)
{
    int64_t offset_ns = wall_ns - (int64_t)now_ns;
    int64_t step_ns = clock->is_seen ? offset_ns - clock->offset_ns : 0;
    uint64_t between_ns = clock->is_seen ? now_ns - clock->seen_ns : 0;
    int64_t slack_ns = (int64_t)(WEIR_WINDOW_SLACK_NS + between_ns / WEIR_WINDOW_SLEW_PARTS);
    bool is_step = step_ns > slack_ns || step_ns < -slack_ns;
    WEIR_INVARIANT(!clock->is_seen || now_ns >= clock->seen_ns);
    if (is_step || !clock->is_seen) {
        clock->agreed_since_ns = now_ns;
        clock->is_confirmed = false;
    }
    clock->is_seen = true;
    clock->offset_ns = offset_ns;
    clock->seen_ns = now_ns;
    return is_step ? step_ns : 0;
}

void weir_window_clock_confirm(struct weir_window_clock *clock)
{
    clock->is_confirmed = true;
}

uint64_t weir_window_clock_trusted_ns(const struct weir_window_clock *clock)
{
    if (!clock->is_seen)
        return WEIR_NEVER_NS;
    return clock->is_confirmed ? clock->agreed_since_ns
                               : weir_add_sat_u64(clock->agreed_since_ns, WEIR_WINDOW_AGREE_NS);
}

enum weir_window_verdict weir_window_judge(const struct weir_window_clock *clock, uint64_t present,
                                           uint64_t following, uint64_t computed, uint64_t now_ns)
{
    WEIR_INVARIANT(following > present);
    if (computed <= present)
        return WEIR_WINDOW_STAY;
    if (present == 0 || computed <= following || computed - present <= WEIR_WINDOW_AGREE_S)
        return WEIR_WINDOW_ROLL;
    return now_ns >= weir_window_clock_trusted_ns(clock) ? WEIR_WINDOW_ROLL : WEIR_WINDOW_ALARM;
}

#include "cli/replay.h"

#include "cli/text.h"

#include <stdlib.h>
#include <string.h>

static json_t *seconds(uint64_t ns)
{
    return json_real((double)ns / 1e9);
}

static json_t *spread(const struct weir_playback_spread *s)
{
    if (s->count == 0)
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)s->count, "p50_s",
                     seconds(s->p50_ns), "p95_s", seconds(s->p95_ns), "p99_s", seconds(s->p99_ns),
                     "max_s", seconds(s->max_ns));
}

static json_t *figures(const char *name, const struct weir_playback_figures *f)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I}",
                     "tenant", name, "planned", (json_int_t)f->planned, "sent",
                     (json_int_t)f->begun, "ok", (json_int_t)f->ok, "refused",
                     (json_int_t)f->refused, "failed", (json_int_t)f->failed, "held",
                     (json_int_t)f->held, "latency", spread(&f->latency), "ttft", spread(&f->ttft),
                     "per_output_token", spread(&f->tpot), "lag", spread(&f->lag), "input_tokens",
                     (json_int_t)f->input_tok, "output_tokens", (json_int_t)f->output_tok,
                     "answers_without_usage", (json_int_t)f->usage_unknown);
}

static json_t *reasons(const struct replay_outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->reasons_count; i++) {
        const struct weir_playback_reason *r = &o->reasons[i];
        const struct weir_playback_result sample = {.state = WEIR_PLAYBACK_ENDED,
                                                    .end = r->end,
                                                    .status = r->status,
                                                    .from_gateway = r->from_gateway};
        bool has_hint = r->hint_max_ns > 0 && !cli_is_never(r->hint_max_ns);
        bool is_refused = weir_playback_kind(&sample) == WEIR_PLAYBACK_REFUSED;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:i, s:s, s:b, s:I, s:o}", "tenant",
                            replay_tenant_name(o->plan, r->tenant), "kind",
                            is_refused ? "refused" : "failed", "end",
                            weir_load_end_name((enum weir_load_end)r->end), "status",
                            (int)r->status, "code", weir_playback_code(o->playback, r->code),
                            "by_gateway", (int)r->from_gateway, "count", (json_int_t)r->count,
                            "hint_max_s", has_hint ? seconds(r->hint_max_ns) : json_null()));
    }
    return list;
}

static const char *stop_word(enum weir_playback_stop stop)
{
    switch (stop) {
    case WEIR_PLAYBACK_GOES_ON:
    case WEIR_PLAYBACK_FAULT:
        break;
    case WEIR_PLAYBACK_DONE:
        return "done";
    case WEIR_PLAYBACK_STOPPED:
        return "stopped";
    case WEIR_PLAYBACK_HOPELESS:
        return "no endpoint";
    }
    return "fault";
}

bool replay_show_json(const struct replay_outcome *o)
{
    char target[WEIR_ENDPOINT_TEXT_BYTES], date[REPLAY_DATE_BYTES], text[REPLAY_TEXT_BYTES];
    uint32_t *tenants = replay_tenants_ordered(o);
    json_t *list = json_array();
    for (uint32_t i = 0; tenants && i < o->plan->tenants_used; i++)
        json_array_append_new(
            list, figures(replay_tenant_name(o->plan, tenants[i]), &o->figures[tenants[i]]));
    free(tenants);
    replay_distortion(o, text);
    return cli_print_json(json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s*, s:s, s:f, s:o, s:i, s:I, s:I, s:s, s:s, s:o, s:o, s:o, "
        "s:o}",
        "began", replay_date(o->began_us, date), "target",
        weir_endpoint_text(&o->plan->endpoint, target), "api", weir_api_name(o->plan->endpoint.api),
        "trace", o->wish->trace, "form", weir_trace_form_name(o->plan->trace.form), "note",
        o->wish->note, "end", stop_word(o->view.stop), "speed", o->wish->speed_permille / 1000.0,
        "duration_s", seconds(o->view.now_ns), "max_in_flight", (int)o->wish->in_flight_max,
        "in_flight_peak", (json_int_t)o->view.in_flight_peak, "connections",
        (json_int_t)o->view.connects, "distortion", text, "limits_told",
        weir_load_advertised(weir_playback_load(o->playback)), "turn_max_s",
        seconds(o->view.turn_max_ns), "all", figures("all", replay_all(o)), "tenants", list,
        "reasons", reasons(o)));
}

#include "cli/sweep.h"

#include "cli/text.h"

#include <errno.h>
#include <string.h>

/* ---- JSON ---- */

static json_t *number_or_null(bool is_known, double value)
{
    return is_known ? json_real(value) : json_null();
}

static bool has_hint(const struct weir_sweep_figures *f, uint64_t hint_ns)
{
    return f->hints > 0 && !cli_is_never(hint_ns);
}

static json_t *hint_or_null(const struct weir_sweep_figures *f, uint64_t hint_ns)
{
    return number_or_null(has_hint(f, hint_ns), (double)hint_ns / 1e9);
}

static void put_times(json_t *to, const char *prefix, const struct weir_sweep_times *times)
{
    const struct {
        const char *name;
        uint64_t ns;
    } rows[] = {{"p50_ms", times->p50_ns},
                {"p95_ms", times->p95_ns},
                {"p99_ms", times->p99_ns},
                {"mean_ms", times->mean_ns}};
    char name[64];
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        snprintf(name, sizeof name, "%s%s", prefix, rows[i].name);
        json_object_set_new(to, name, number_or_null(times->count > 0, (double)rows[i].ns / 1e6));
    }
}

static json_t *figures_json(const struct weir_sweep_figures *f)
{
    json_t *ended = json_object(),
           *to = json_pack("{s:I, s:I, s:I, s:I}", "in_flight", (json_int_t)f->in_flight, "sent",
                           (json_int_t)f->sent, "ok", (json_int_t)f->ended[WEIR_LOAD_OK],
                           "measured", (json_int_t)f->measured);
    for (int end = 0; end < WEIR_LOAD_END_COUNT; end++)
        if (end != WEIR_LOAD_OK && f->ended[end] > 0)
            json_object_set_new(ended, weir_load_end_name((enum weir_load_end)end),
                                json_integer((json_int_t)f->ended[end]));
    json_object_set_new(to, "not_ok", ended);
    json_object_set_new(to, "first_code", *f->code ? json_string(f->code) : json_null());
    put_times(to, "", &f->whole);
    put_times(to, "ttft_", &f->first);
    put_times(to, "per_token_", &f->token);
    json_object_set_new(to, "requests_per_s", number_or_null(f->per_s > 0, f->per_s));
    json_object_set_new(to, "output_tokens_per_s",
                        number_or_null(f->output_tok_per_s > 0, f->output_tok_per_s));
    json_object_set_new(to, "usage_told", json_integer((json_int_t)f->usage_known));
    json_object_set_new(to, "input_tokens", json_integer((json_int_t)f->input_tok));
    json_object_set_new(to, "output_tokens", json_integer((json_int_t)f->output_tok));
    json_object_set_new(to, "hints", json_integer((json_int_t)f->hints));
    json_object_set_new(to, "hint_min_s", hint_or_null(f, f->hint_min_ns));
    json_object_set_new(to, "hint_max_s", hint_or_null(f, f->hint_max_ns));
    json_object_set_new(to, "refused_by_weir", json_integer((json_int_t)f->from_gateway));
    json_object_set_new(to, "took_s", json_real((double)f->took_ns / 1e9));
    return to;
}

static json_t *lines_json(const char *lines)
{
    json_t *to = json_array();
    for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strcspn(at, "\r\n") > 0)
            json_array_append_new(to, json_stringn(at, strcspn(at, "\r\n")));
    return to;
}

static json_t *knee_json(const struct sweep_result *r)
{
    static const char *const names[] = {[WEIR_KNEE_FOUND] = "found",
                                        [WEIR_KNEE_NOT_REACHED] = "not_reached",
                                        [WEIR_KNEE_REFUSED] = "refused",
                                        [WEIR_KNEE_FAILING] = "failing",
                                        [WEIR_KNEE_UNKNOWN] = "unknown"};
    const struct weir_knee *k = &r->knee;
    char text[512];
    return json_pack("{s:s, s:o, s:o, s:I, s:I, s:f, s:I, s:s}", "result", names[k->result], "at",
                     number_or_null(k->result == WEIR_KNEE_FOUND, k->at), "blur",
                     number_or_null(k->result == WEIR_KNEE_FOUND, k->blur), "low",
                     (json_int_t)k->low, "high", (json_int_t)k->high, "requests_per_s", k->per_s,
                     "max_in_flight", (json_int_t)k->max_in_flight, "text",
                     sweep_knee_text(r, text, sizeof text));
}

static json_t *clients_json(const struct sweep_plan *plan, const struct sweep_result *r)
{
    json_t *to = json_array();
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        const struct weir_verdict_share *s = &r->verdict.shares[i];
        json_t *client = json_pack(
            "{s:s, s:I, s:s?, s:o, s:o, s:o, s:o}", "name", plan->clients[i].name, "in_flight",
            (json_int_t)plan->clients[i].part.in_flight, "key_env",
            plan->keys_count ? plan->key_names[plan->clients[i].part.key_index] : NULL, "alone",
            figures_json(&r->alone[i]), "together", figures_json(&r->together[i]), "fair_per_s",
            number_or_null(r->has_clients, s->fair_per_s), "share",
            number_or_null(r->has_clients, s->share));
        json_array_append_new(to, client);
    }
    return to;
}

static json_t *verdict_json(const struct sweep_plan *plan, const struct sweep_result *r)
{
    static const char *const caps[] = {[WEIR_CAPS_ONE_KEY] = "one_key",
                                       [WEIR_CAPS_NOT_MET] = "not_met",
                                       [WEIR_CAPS_PER_KEY] = "per_key",
                                       [WEIR_CAPS_PER_ACCOUNT] = "per_account",
                                       [WEIR_CAPS_UNCLEAR] = "unclear"};
    const struct weir_verdict *v = &r->verdict;
    char text[1024];
    return json_pack(
        "{s:s, s:b, s:b, s:o, s:f, s:f, s:s, s:f, s:s, s:s}", "failure", weir_verdict_name(v),
        "overload", v->is_overload, "unfairness", v->is_unfair, "queues_fairly",
        v->queue == WEIR_QUEUE_UNTOLD ? json_null() : json_boolean(v->queue == WEIR_QUEUE_FAIR),
        "times_one_alone", v->times, "failed", v->failed, "worst_client",
        plan->clients[v->worst].name, "worst_share", v->shares[v->worst].share, "limits",
        caps[v->caps], "text", sweep_verdict_text(plan, r, text, sizeof text));
}

/* Of levels or of clients. */
static void put_runs(json_t *all, const struct sweep_plan *plan, const struct sweep_result *r)
{
    if (plan->clients_count > 0) {
        json_object_set_new(all, "one_at_a_time", figures_json(&r->light));
        json_object_set_new(all, "clients", clients_json(plan, r));
        json_object_set_new(all, "all_together", figures_json(&r->together[plan->clients_count]));
        json_object_set_new(all, "verdict", r->has_clients ? verdict_json(plan, r) : json_null());
        return;
    }
    json_t *levels = json_array();
    for (uint32_t i = 0; i < r->levels_count; i++) {
        json_t *level = figures_json(&r->levels[i].figures);
        json_object_set_new(level, "planned", json_integer((json_int_t)r->levels[i].planned));
        json_array_append_new(levels, level);
    }
    json_object_set_new(all, "levels", levels);
    json_object_set_new(all, "knee", knee_json(r));
}

json_t *sweep_json(const struct sweep_plan *plan, const struct sweep_result *r,
                   const json_t *against)
{
    char begun[SWEEP_WHEN_BYTES], ended[SWEEP_WHEN_BYTES];
    json_t *payload = json_pack(
        "{s:s, s:I, s:s, s:b, s:o, s:o, s:s?}", "sha256", plan->digest, "bytes",
        (json_int_t)plan->body_bytes, "model", plan->model, "stream", plan->is_stream,
        "prompt_tokens",
        plan->prompt_tok ? json_integer((json_int_t)plan->prompt_tok) : json_null(), "output_limit",
        plan->output_tok ? json_integer((json_int_t)plan->output_tok) : json_null(), "file",
        plan->payload_file);
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s?, s:I, s:I, s:s?, s:b, s:o, s:o, s:o, s:f}",
        "kind", "weir sweep", "version", WEIR_VERSION, "begun", sweep_when(r->begun_unix_s, begun),
        "ended", sweep_when(r->ended_unix_s, ended), "url", plan->url, "host", plan->endpoint.host,
        "api", weir_api_name(plan->endpoint.api), "payload", payload, "note", plan->note,
        "requests_at_most", (json_int_t)sweep_all_requests(plan), "requests_sent",
        (json_int_t)r->sent, "stopped", *r->stop ? r->stop : NULL, "complete",
        r->end == WEIR_SWEEP_DONE, "went_wrong", lines_json(r->failures), "advertised",
        lines_json(r->advertised), "warm_up", figures_json(&r->warm_up[1]), "own_delay_max_ms",
        (double)r->turn_max_ns / 1e6);
    if (!all)
        return NULL;
    put_runs(all, plan, r);
    if (against)
        json_object_set_new(all, "against", sweep_compare(against, all));
    return all;
}

/* ---- CSV ---- */

static void put_csv_ms(FILE *out, const struct weir_sweep_times *times, uint64_t ns)
{
    if (times->count > 0)
        fprintf(out, ",%.4f", (double)ns / 1e6);
    else
        putc(',', out);
}

static void put_csv_row(const struct sweep_plan *plan, const struct sweep_result *r, FILE *out,
                        const char *client, const char *run, const struct weir_sweep_figures *f)
{
    char when[SWEEP_WHEN_BYTES], errors[512];
    const struct weir_sweep_times *const times[] = {&f->whole, &f->first, &f->token};
    if (f->sent == 0)
        return;
    fprintf(out, "%s,", sweep_when(r->begun_unix_s, when));
    cli_put_csv(out, plan->endpoint.host);
    fprintf(out, ",%s,", plan->digest);
    cli_put_csv(out, client);
    fprintf(out, ",%s,%u,%llu,%llu,%llu", run, f->in_flight, (unsigned long long)f->sent,
            (unsigned long long)f->ended[WEIR_LOAD_OK], (unsigned long long)f->measured);
    for (size_t i = 0; i < WEIR_COUNT(times); i++) {
        put_csv_ms(out, times[i], times[i]->p50_ns);
        put_csv_ms(out, times[i], times[i]->p95_ns);
        put_csv_ms(out, times[i], times[i]->p99_ns);
    }
    fprintf(out, ",%.4f,%.4f,%llu,", f->per_s, f->output_tok_per_s,
            (unsigned long long)f->ended[WEIR_LOAD_429]);
    if (has_hint(f, f->hint_max_ns))
        fprintf(out, "%.3f", (double)f->hint_max_ns / 1e9);
    putc(',', out);
    cli_put_csv(out, sweep_errors(f, errors, sizeof errors));
    putc(',', out);
    cli_put_csv(out, plan->note ? plan->note : "");
    putc('\n', out);
}

bool sweep_write_csv(const struct sweep_plan *plan, const struct sweep_result *r, FILE *out)
{
    fputs(SWEEP_CSV_BEGIN
          "sent,ok,measured,p50_ms,p95_ms,p99_ms,"
          "ttft_p50_ms,ttft_p95_ms,ttft_p99_ms,per_token_p50_ms,per_token_p95_ms,per_token_p99_ms,"
          "requests_per_s,output_tokens_per_s,refused_429,hint_max_s,not_ok,note\n",
          out);
    for (uint32_t i = 0; i < r->levels_count; i++)
        put_csv_row(plan, r, out, "", "level", &r->levels[i].figures);
    put_csv_row(plan, r, out, "", "one_at_a_time", &r->light);
    for (uint32_t i = 0; i < plan->clients_count; i++)
        put_csv_row(plan, r, out, plan->clients[i].name, "alone", &r->alone[i]);
    for (uint32_t i = 0; i < plan->clients_count; i++)
        put_csv_row(plan, r, out, plan->clients[i].name, "together", &r->together[i]);
    return fflush(out) == 0 && !ferror(out);
}

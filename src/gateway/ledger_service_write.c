#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gateway/config_value.h"
#include "gateway/ledger_service_inside.h"

#define WRITE_TAG (UINT64_C(1) << 63) /* the host's own tags do not have it */
/* Of a "did you mean", which the loop works out: names compared, and slots looked at for them. */
#define WRITE_KNOWN_MAX 1000
#define WRITE_SLOTS_MAX 20000u

/* ---- the body ---- */

/* Whether what (a part of the request) has members among those only (all: as a text); else says
 * which is not. */
static bool check_members(struct weir_ledger_call *call, const char *what, const json_t *part,
                          const char *const *known, size_t count, const char *all)
{
    const char *key;
    json_t *value;
    if (!json_is_object(part)) {
        service_reply(call, 400, service_error("%s must be a JSON object", what));
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)part, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(key, known[i]) != 0)
            i++;
        if (i < count)
            continue;
        service_reply(call, 400,
                      service_error("there is no member '%.40s' here; there are %s", key, all));
        return false;
    }
    return true;
}

/* Takes a whole number of tokens in min .. WEIR_TOK_MAX. */
static bool take_tokens(struct weir_ledger_call *call, const json_t *body, const char *name,
                        int64_t min, int64_t *tokens)
{
    const json_t *value = json_object_get(body, name);
    if (json_is_integer(value) && json_integer_value(value) >= min &&
        json_integer_value(value) <= WEIR_TOK_MAX) {
        *tokens = json_integer_value(value);
        return true;
    }
    service_reply(call, 400,
                  service_error("%s must be a whole number of tokens between %" PRId64
                                " and %" PRId64,
                                name, min, WEIR_TOK_MAX));
    return false;
}

static bool take_reason(struct weir_ledger_call *call, const json_t *body)
{
    const char *reason = json_string_value(json_object_get(body, "reason"));
    size_t bytes = reason ? strlen(reason) : 0, i = 0;
    if (bytes == 0 || bytes > WEIR_STORE_TEXT_MAX) {
        service_reply(
            call, 400,
            service_error("reason must say why, in 1 to %d bytes: it stays in the journal",
                          WEIR_STORE_TEXT_MAX));
        return false;
    }
    while (i < bytes && (unsigned char)reason[i] >= 0x20 && reason[i] != 0x7f)
        i++;
    if (i < bytes) {
        service_reply(call, 400,
                      service_error("reason must be one line without control characters"));
        return false;
    }
    memcpy(call->reason, reason, bytes + 1);
    return true;
}

/* Finds the scope that the body names, and its balance. */
static bool take_scope(struct weir_ledger_call *call, const json_t *body,
                       struct weir_ledger_totals *totals)
{
    struct weir_store *store = call->service->host.store;
    const char *name = json_string_value(json_object_get(body, "scope"));
    if (!name || *name == '\0') {
        service_reply(call, 400, service_error("scope must be the name of a scope"));
        return false;
    }
    call->scope = weir_names_scope_find(store->names, name);
    if (call->scope != WEIR_NONE && weir_store_totals(store, call->scope, totals))
        return true;
    const char *known[WRITE_KNOWN_MAX];
    size_t count = 0;
    uint32_t slots = (uint32_t)weir_min_u64(weir_store_scopes_max(store), WRITE_SLOTS_MAX);
    for (uint32_t i = 0; i < slots && count < WRITE_KNOWN_MAX; i++)
        if (weir_store_scope_name(store, i))
            known[count++] = weir_store_scope_name(store, i);
    const char *near = count ? weir_value_suggest(name, known, count) : NULL;
    if (near)
        service_reply(call, 404,
                      service_error("there is no scope '%.135s': did you mean '%s'?", name, near));
    else
        service_reply(
            call, 404,
            service_error("there is no scope '%.135s'; scopes come from the configuration, "
                          "and tenant/NAME from each tenant that names none",
                          name));
    return false;
}

/* ---- submit ---- */

static void submit(struct weir_ledger_call *call, struct weir_store_op *op)
{
    struct weir_ledger_service *service = call->service;
    struct weir_store_status status = {0};
    call->tag = WRITE_TAG | ++service->tag_last;
    call->kind = op->ledger.kind;
    call->hold = op->ledger.hold;
    op->tag = call->tag;
    op->deadline_ns = WEIR_NEVER_NS;
    weir_store_status(service->host.store, &status);
    /* A store that is not available would keep it, and do it when nobody thinks of it any more. */
    if (status.is_available && weir_store_submit(service->host.store, op))
        return;
    service_reply(call, 503,
                  *status.trouble
                      ? service_error("the ledger cannot write now: %s", status.trouble)
                      : service_error("the ledger has no room for more now; try again"));
}

static void write_grant(struct weir_ledger_call *call, const json_t *body)
{
    static const char *const known[] = {"scope", "granted_tok"};
    struct weir_ledger_totals totals;
    const json_t *granted = json_object_get(body, "granted_tok");
    bool unlimited = json_is_null(granted);
    if (!check_members(call, "the body", body, known, WEIR_COUNT(known), "scope and granted_tok") ||
        !take_scope(call, body, &totals) ||
        (!unlimited && !take_tokens(call, body, "granted_tok", 0, &call->amount_tok)))
        return;
    call->before_tok = totals.unlimited ? -1 : totals.granted_tok;
    struct weir_store_op op = {.ledger = {.kind = WEIR_LEDGER_SCOPE,
                                          .scope = call->scope,
                                          .parent = totals.parent,
                                          .unlimited = unlimited,
                                          .lapse_refunds = totals.lapse_refunds,
                                          .amount_tok = call->amount_tok}};
    submit(call, &op);
}

/* What a lapsed hold really used. Holds of this run end by themselves: their requests are alive. */
static void write_adjust_hold(struct weir_ledger_call *call, const json_t *body)
{
    const char *text = json_string_value(json_object_get(body, "hold"));
    uint64_t hold = 0;
    if (!text || !service_digits(text, UINT64_MAX, &hold) || hold == 0) {
        service_reply(call, 400,
                      service_error("hold must be an id as in a list of holds: a string "
                                    "of digits"));
        return;
    }
    if (!take_tokens(call, body, "tokens", 0, &call->amount_tok))
        return;
    if (weir_ledger_hold_epoch(hold) >= call->service->host.store->epoch) {
        service_reply(call, 409,
                      service_error("hold %" PRIu64
                                    " belongs to this run of the ledger, which settles "
                                    "it itself; only what an earlier run left behind is adjusted",
                                    hold));
        return;
    }
    struct weir_store_op op = {
        .ledger = {.kind = WEIR_LEDGER_SETTLE,
                   .scope = WEIR_NONE, /* an unknown hold books nothing */
                   .hold = hold,
                   .amount_tok = call->amount_tok},
        /* Nobody knows how it divides; a row of the usage table adds up to what was booked. */
        .usage = {.input_tok = call->amount_tok,
                  .cached_tok = -1,
                  .cache_write_tok = -1,
                  .output_tok = 0,
                  .upstream = WEIR_LABEL_OTHER,
                  .model = WEIR_LABEL_OTHER}};
    submit(call, &op);
}

/* Whether the label is the text's own. "other" is the name of the label that a full table gives too:
 * use of that name is there (a hold that was settled by hand), and can be corrected. */
static bool label_is_of(uint32_t label, const char *text)
{
    return label != WEIR_LABEL_OTHER || strcmp(text, "other") == 0;
}

/* The use that an adjustment corrects, when the body says: the usage table remembers it. */
static bool take_usage(struct weir_ledger_call *call, const json_t *body,
                       struct weir_store_usage *usage)
{
    static const char *const known[] = {"upstream", "model", "utc_hour", "input_tok", "output_tok"};
    const json_t *part = json_object_get(body, "usage");
    struct weir_store *store = call->service->host.store;
    int64_t hours_max = call->service->host.wall_s() / 3600;
    *usage = (struct weir_store_usage){0};
    if (!part)
        return true;
    const char *upstream = json_string_value(json_object_get(part, "upstream"));
    const char *model = json_string_value(json_object_get(part, "model"));
    json_int_t hour = json_integer_value(json_object_get(part, "utc_hour"));
    if (!check_members(call, "usage", part, known, WEIR_COUNT(known),
                       "upstream, model, utc_hour, input_tok and output_tok") ||
        !take_tokens(call, part, "input_tok", -WEIR_TOK_MAX, &usage->input_tok) ||
        !take_tokens(call, part, "output_tok", -WEIR_TOK_MAX, &usage->output_tok))
        return false;
    if (!upstream || !model || hour < 1 || hour > hours_max) {
        service_reply(call, 400,
                      service_error("usage needs an upstream, a model and an utc_hour between 1 "
                                    "and now (%" PRId64 "): hours since 1970",
                                    hours_max));
        return false;
    }
    if (strlen(upstream) >= WEIR_NAME_BYTES_MAX || strlen(model) >= WEIR_NAME_BYTES_MAX) {
        service_reply(call, 400,
                      service_error("usage names an upstream or a model by more than %d bytes: it "
                                    "would be cut and not found again",
                                    WEIR_NAME_BYTES_MAX - 1));
        return false;
    }
    if (usage->input_tok + usage->output_tok != call->amount_tok) {
        service_reply(call, 400,
                      service_error("tokens must be the sum of usage's input_tok and output_tok"));
        return false;
    }
    usage->upstream = weir_store_label(store, upstream);
    usage->model = weir_store_label(store, model);
    usage->utc_hour = hour;
    if (!label_is_of(usage->upstream, upstream) || !label_is_of(usage->model, model)) {
        service_reply(call, 503,
                      service_error("the ledger has no room for another name of an upstream or a "
                                    "model, so this could not be found again"));
        return false;
    }
    return true;
}

static void write_adjust(struct weir_ledger_call *call, const json_t *body)
{
    static const char *const known[] = {"scope", "hold", "tokens", "reason", "usage"};
    struct weir_ledger_totals totals;
    struct weir_store_usage usage;
    if (!check_members(call, "the body", body, known, WEIR_COUNT(known),
                       "scope or hold, tokens, reason and usage") ||
        !take_reason(call, body))
        return;
    if ((json_object_get(body, "scope") != NULL) == (json_object_get(body, "hold") != NULL)) {
        service_reply(call, 400, service_error("name either a scope or a hold"));
        return;
    }
    if (json_object_get(body, "hold")) {
        if (json_object_get(body, "usage"))
            service_reply(call, 400, service_error("usage goes with a scope, not with a hold"));
        else
            write_adjust_hold(call, body);
        return;
    }
    if (!take_scope(call, body, &totals) ||
        !take_tokens(call, body, "tokens", -WEIR_TOK_MAX, &call->amount_tok))
        return;
    if (call->amount_tok == 0) {
        service_reply(call, 400, service_error("an adjustment of 0 tokens changes nothing"));
        return;
    }
    if (!take_usage(call, body, &usage))
        return;
    call->before_tok = weir_ledger_used_tok(&totals);
    struct weir_store_op op = {.ledger = {.kind = WEIR_LEDGER_ADJUST,
                                          .scope = call->scope,
                                          .amount_tok = call->amount_tok},
                               .usage = usage,
                               .text = call->reason};
    submit(call, &op);
}

void service_write(struct weir_ledger_call *call, const json_t *body)
{
    if (call->route == ROUTE_GRANT)
        write_grant(call, body);
    else
        write_adjust(call, body);
}

/* ---- the answer ---- */

__attribute__((format(printf, 2, 3))) static void say(struct weir_ledger_call *call,
                                                      const char *format, ...)
{
    const struct weir_ledger_host *host = &call->service->host;
    char text[700];
    va_list arguments;
    if (!host->say)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    host->say(host->ctx, text);
}

static void written_scope(struct weir_ledger_call *call, const char *name,
                          enum weir_ledger_result result)
{
    struct weir_store *store = call->service->host.store;
    struct weir_ledger_totals totals;
    char text[SERVICE_TIME_BYTES];
    if (!weir_store_totals(store, call->scope, &totals)) {
        service_reply(call, 404, service_error("the scope '%s' was removed meanwhile", name));
        return;
    }
    int64_t used_tok = weir_ledger_used_tok(&totals);
    int64_t over_tok = totals.unlimited ? 0 : weir_max_i64(0, used_tok - totals.granted_tok);
    json_t *answer = json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:I}", "result", weir_ledger_result_name(result), "scope", name,
        "granted_tok", totals.unlimited ? json_null() : json_integer(totals.granted_tok),
        "used_tok", (json_int_t)used_tok, "overdrawn_tok", (json_int_t)over_tok, "window",
        (json_int_t)weir_min_u64(totals.window, INT64_MAX));
    json_object_set_new(
        answer, "window_start",
        totals.window
            ? json_string(service_time((int64_t)weir_min_u64(totals.window, INT64_MAX), NULL, text))
            : json_null());
    if (call->kind == WEIR_LEDGER_SCOPE) {
        json_object_set_new(answer, "before_tok",
                            call->before_tok < 0 ? json_null() : json_integer(call->before_tok));
        if (totals.unlimited)
            say(call, "ledger: the grant of %s was lifted by hand: it is unlimited", name);
        else
            say(call, "ledger: the grant of %s was set to %" PRId64 " by hand", name,
                totals.granted_tok);
    } else {
        json_object_set_new(answer, "tokens", json_integer(call->amount_tok));
        json_object_set_new(answer, "before_tok", json_integer(call->before_tok));
        say(call, "ledger: %s was adjusted by %" PRId64 " by hand: %s", name, call->amount_tok,
            call->reason);
    }
    service_reply(call, 200, answer);
}

static void written_hold(struct weir_ledger_call *call, enum weir_ledger_result result)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, call->hold);
    say(call, "ledger: hold %s was settled with %" PRId64 " by hand: %s", id, call->amount_tok,
        call->reason);
    service_reply(call, 200,
                  json_pack("{s:s, s:s, s:I}", "result", weir_ledger_result_name(result), "hold",
                            id, "tokens", (json_int_t)call->amount_tok));
}

void service_written(struct weir_ledger_call *call, const struct weir_store_answer *answer)
{
    struct weir_store *store = call->service->host.store;
    bool of_hold = call->kind == WEIR_LEDGER_SETTLE;
    struct weir_store_status status = {0};
    const char *name = of_hold ? NULL : weir_store_scope_name(store, call->scope);
    name = name ? name : "?";
    switch (answer->result) {
    case WEIR_LEDGER_DONE:
    case WEIR_LEDGER_SAME:
    case WEIR_LEDGER_SETTLED:
    case WEIR_LEDGER_LATE:
        if (of_hold)
            written_hold(call, answer->result);
        else
            written_scope(call, name, answer->result);
        return;
    case WEIR_LEDGER_CONFLICT:
        service_reply(call, 409,
                      service_error("hold %" PRIu64
                                    " was settled before with another amount, which "
                                    "stays; correct its scope by an adjustment instead",
                                    call->hold));
        return;
    case WEIR_LEDGER_UNKNOWN:
    case WEIR_LEDGER_BAD:
        if (of_hold)
            service_reply(call, 404,
                          service_error("there is no hold %" PRIu64
                                        ", or it ended long ago and was "
                                        "purged",
                                        call->hold));
        else
            service_reply(call, 409,
                          service_error("the balance of %s cannot take this: it would leave its "
                                        "range, or the scope is changing",
                                        name));
        return;
    case WEIR_LEDGER_UNAVAILABLE:
        weir_store_status(store, &status);
        service_reply(call, 503,
                      service_error("the ledger could not write, and nothing was changed: %s",
                                    *status.trouble ? status.trouble : "try again"));
        return;
    case WEIR_LEDGER_HELD:
    case WEIR_LEDGER_VOIDED:
    case WEIR_LEDGER_UNMATCHED:
    case WEIR_LEDGER_FINISHED:
    case WEIR_LEDGER_BUSY:
    case WEIR_LEDGER_EXHAUSTED:
    case WEIR_LEDGER_NEVER:
    case WEIR_LEDGER_FULL:
        break;
    }
    service_reply(
        call, 503,
        service_error("the ledger answered '%s'", weir_ledger_result_name(answer->result)));
}

void service_late(struct weir_ledger_call *call)
{
    struct weir_store_status status = {0};
    weir_store_status(call->service->host.store, &status);
    service_reply(call, 503,
                  service_error("the ledger has not answered within 5 s%s%s; it may still take "
                                "effect: look at the journal before you repeat it",
                                *status.trouble ? ": " : "", status.trouble));
}

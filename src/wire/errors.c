#include "wire/errors.h"

#include "wire/text_out.h"

struct types {
    const char *openai;
    const char *anthropic;
};

/* OpenAI's own 5xx say server_error, its refusals invalid_request_error; Anthropic's types are a
 * closed list that its SDKs map to classes. */
static struct types types_of_status(uint16_t status)
{
    switch (status) {
    case 401:
        return (struct types){"authentication_error", "authentication_error"};
    case 402:
        return (struct types){"insufficient_quota", "billing_error"};
    case 403:
        return (struct types){"permission_error", "permission_error"};
    case 404:
        return (struct types){"not_found_error", "not_found_error"};
    case 408:
    case 504:
        return (struct types){"timeout_error", "timeout_error"};
    case 409:
        return (struct types){"conflict_error", "conflict_error"};
    case 413:
        return (struct types){"invalid_request_error", "request_too_large"};
    case 429:
        return (struct types){"rate_limit_error", "rate_limit_error"};
    case 503:
    case 529:
        return (struct types){"server_error", "overloaded_error"};
    default:
        break;
    }
    if (status >= 500)
        return (struct types){"server_error", "api_error"};
    return (struct types){"invalid_request_error", "invalid_request_error"};
}

const char *weir_error_type_of_status(uint16_t status, enum weir_dialect dialect)
{
    struct types types = types_of_status(status);
    return dialect == WEIR_DIALECT_OPENAI ? types.openai : types.anthropic;
}

const char *weir_error_type(enum weir_refusal refusal, enum weir_dialect dialect)
{
    /* A store that cannot answer is a fault of ours, not a load that passes. */
    if (refusal == WEIR_REFUSAL_LEDGER_UNAVAILABLE)
        return dialect == WEIR_DIALECT_OPENAI ? "server_error" : "api_error";
    return weir_error_type_of_status(weir_refusal_row(refusal)->status, dialect);
}

struct weir_error_text weir_error_text(enum weir_refusal refusal, enum weir_dialect dialect,
                                       const char *message, const char *param,
                                       const char *request_id)
{
    const struct weir_refusal_row *row = weir_refusal_row(refusal);
    return (struct weir_error_text){
        .dialect = dialect,
        .status = row->status,
        .type = weir_error_type(refusal, dialect),
        .code = row->code,
        .message = message ? message : weir_refusal_message(refusal),
        .param = param,
        .request_id = request_id,
    };
}

static const char *type_of(const struct weir_error_text *e)
{
    return e->type ? e->type : weir_error_type_of_status(e->status, e->dialect);
}

static void write_body(struct weir_text_out *o, const struct weir_error_text *e)
{
    const char *message = e->message ? e->message : "";
    if (e->dialect == WEIR_DIALECT_ANTHROPIC) {
        weir_out_text(o, "{\"type\":\"error\",\"error\":{\"type\":");
        weir_out_quoted(o, type_of(e));
        weir_out_text(o, ",\"message\":");
        weir_out_quoted(o, message);
        weir_out_text(o, "},\"request_id\":");
        weir_out_quoted(o, e->request_id);
        weir_out_text(o, "}");
        return;
    }
    weir_out_text(o, "{\"error\":{\"message\":");
    weir_out_quoted(o, message);
    weir_out_text(o, ",\"type\":");
    weir_out_quoted(o, type_of(e));
    weir_out_text(o, ",\"param\":");
    weir_out_quoted(o, e->param);
    weir_out_text(o, ",\"code\":");
    weir_out_quoted(o, e->code);
    weir_out_text(o, "}}");
}

size_t weir_error_body(const struct weir_error_text *e, char *out, size_t cap)
{
    struct weir_text_out o = {out, cap, 0, false};
    write_body(&o, e);
    return weir_out_result(&o);
}

size_t weir_error_event(const struct weir_error_text *e, enum weir_api api, bool at_boundary,
                        char *out, size_t cap)
{
    struct weir_text_out o = {out, cap, 0, false};
    if (!at_boundary)
        weir_out_text(&o, "\n\n"); /* ends the line, then the event, that was cut */
    if (e->dialect == WEIR_DIALECT_ANTHROPIC || api == WEIR_API_OPENAI_RESPONSES)
        weir_out_text(&o, "event: error\n");
    weir_out_text(&o, "data: ");
    if (e->dialect == WEIR_DIALECT_OPENAI && api == WEIR_API_OPENAI_RESPONSES) {
        weir_out_text(&o, "{\"type\":\"error\",\"code\":");
        weir_out_quoted(&o, e->code ? e->code : type_of(e));
        weir_out_text(&o, ",\"message\":");
        weir_out_quoted(&o, e->message ? e->message : "");
        weir_out_text(&o, ",\"param\":");
        weir_out_quoted(&o, e->param);
        weir_out_text(&o, "}");
    } else {
        write_body(&o, e);
    }
    weir_out_text(&o, "\n\n");
    return weir_out_result(&o);
}

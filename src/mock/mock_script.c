#include "mock/mock_script.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SCRIPT_CREATED 1764460800 /* a fixed moment: answers are the same on every run */

static const char *const script_words[] = {
    "the",   "weir",   "holds", "the",   "stream", "back",  "and",    "lets",   "each",
    "field", "have",   "its",   "share", "of",     "water", "so",     "that",   "nobody",
    "waits", "behind", "work",  "they",  "did",    "not",   "create", "\\u2014"};
static const char *const script_tool_pieces[] = {"{\\\"ci", "ty\\\": \\\"S\\u00f6", "dra\\\"}"};

static const char *script_word(uint32_t i)
{
    return script_words[i % WEIR_COUNT(script_words)];
}

void mock_script_add(struct mock_script *s, const char *format, ...)
{
    for (int tries = 0; tries < 2 && !s->failed; tries++) {
        va_list args;
        va_start(args, format);
        int n = vsnprintf(s->text ? s->text + s->bytes : NULL, s->room - s->bytes, format, args);
        va_end(args);
        if (n >= 0 && (size_t)n < s->room - s->bytes) {
            s->bytes += (size_t)n;
            return;
        }
        size_t room = s->room * 2 + (n > 0 ? (size_t)n : 0) + 2048;
        char *bigger = realloc(s->text, room);
        if (!bigger) {
            s->failed = true;
            return;
        }
        s->text = bigger;
        s->room = room;
    }
}

static void script_event_end(struct mock_script *s)
{
    if (s->events == s->events_room) {
        uint32_t room = s->events_room * 2 + 64;
        uint32_t *bigger = realloc(s->ends, room * sizeof *bigger);
        if (!bigger) {
            s->failed = true;
            return;
        }
        s->ends = bigger;
        s->events_room = room;
    }
    s->ends[s->events++] = (uint32_t)s->bytes;
}

void mock_script_free(struct mock_script *s)
{
    free(s->text);
    free(s->ends);
    *s = (struct mock_script){0};
}

struct weir_slice mock_script_events(const struct mock_script *s, uint32_t from, uint32_t until)
{
    if (until > s->events)
        until = s->events;
    if (from >= until)
        return (struct weir_slice){s->text, 0};
    size_t at = from ? s->ends[from - 1] : 0;
    return (struct weir_slice){s->text + at, s->ends[until - 1] - at};
}

/* ---- OpenAI chat and completions ---- */

static void script_openai_usage(struct mock_script *s, const struct mock_script_wish *w)
{
    uint32_t output_tok = w->output_tok * w->choices;
    mock_script_add(s,
                    "{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                    "\"prompt_tokens_details\":{\"cached_tokens\":0},"
                    "\"completion_tokens_details\":{\"reasoning_tokens\":0}}",
                    w->prompt_tok, output_tok, w->prompt_tok + output_tok);
}

static void script_chunk(struct mock_script *s, const struct mock_script_wish *w, uint32_t choice,
                         const char *delta, const char *finish)
{
    bool chat = w->api == WEIR_API_OPENAI_CHAT;
    mock_script_add(
        s, "data: {\"id\":\"%s-mock%llu\",\"object\":\"%s\",\"created\":%d,\"model\":\"%s\",",
        chat ? "chatcmpl" : "cmpl", (unsigned long long)w->number,
        chat ? "chat.completion.chunk" : "text_completion", SCRIPT_CREATED, w->model);
    mock_script_add(s,
                    "\"choices\":[{\"index\":%u,%s,\"logprobs\":null,\"finish_reason\":%s}]%s}\n\n",
                    choice, delta, finish, w->usage ? ",\"usage\":null" : "");
    script_event_end(s);
}

static void script_openai_stream(struct mock_script *s, const struct mock_script_wish *w)
{
    bool chat = w->api == WEIR_API_OPENAI_CHAT;
    char delta[256];
    for (uint32_t c = 0; chat && c < w->choices; c++)
        script_chunk(s, w, c,
                     "\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}",
                     "null");
    if (chat && w->tool) {
        snprintf(delta, sizeof delta,
                 "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_mock%llu\",\"type\":"
                 "\"function\","
                 "\"function\":{\"name\":\"%.64s\",\"arguments\":\"\"}}]}",
                 (unsigned long long)w->number, w->tool);
        script_chunk(s, w, 0, delta, "null");
    }
    s->opening = s->events;
    for (uint32_t i = 0; i < w->output_tok; i++) {
        for (uint32_t c = 0; c < w->choices; c++) {
            if (chat && w->tool)
                snprintf(delta, sizeof delta,
                         "\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"%"
                         "s\"}}]}",
                         i < WEIR_COUNT(script_tool_pieces) ? script_tool_pieces[i] : "");
            else
                snprintf(delta, sizeof delta,
                         chat ? "\"delta\":{\"content\":\"%s%s\"}" : "\"text\":\"%s%s\"",
                         i ? " " : "", script_word(i));
            script_chunk(s, w, c, delta, "null");
        }
    }
    uint32_t tokens_end = s->events;
    for (uint32_t c = 0; c < w->choices; c++)
        script_chunk(s, w, c, chat ? "\"delta\":{}" : "\"text\":\"\"",
                     w->tool ? "\"tool_calls\"" : "\"stop\"");
    if (w->usage && !w->no_usage) {
        mock_script_add(
            s,
            "data: {\"id\":\"%s-mock%llu\",\"object\":\"%s\",\"created\":%d,\"model\":\"%s\","
            "\"choices\":[],\"usage\":",
            chat ? "chatcmpl" : "cmpl", (unsigned long long)w->number,
            chat ? "chat.completion.chunk" : "text_completion", SCRIPT_CREATED, w->model);
        script_openai_usage(s, w);
        mock_script_add(s, "}\n\n");
        script_event_end(s);
    }
    mock_script_add(s, "data: [DONE]\n\n");
    script_event_end(s);
    s->closing = s->events - tokens_end;
}

static void script_text(struct mock_script *s, uint32_t output_tok)
{
    for (uint32_t i = 0; i < output_tok; i++)
        mock_script_add(s, "%s%s", i ? " " : "", script_word(i));
}

static void script_openai_whole(struct mock_script *s, const struct mock_script_wish *w)
{
    bool chat = w->api == WEIR_API_OPENAI_CHAT;
    mock_script_add(
        s,
        "{\"id\":\"%s-mock%llu\",\"object\":\"%s\",\"created\":%d,\"model\":\"%s\",\"choices\":[",
        chat ? "chatcmpl" : "cmpl", (unsigned long long)w->number,
        chat ? "chat.completion" : "text_completion", SCRIPT_CREATED, w->model);
    for (uint32_t c = 0; c < w->choices; c++) {
        mock_script_add(s, "%s{\"index\":%u,", c ? "," : "", c);
        if (chat && w->tool) {
            mock_script_add(
                s,
                "\"message\":{\"role\":\"assistant\",\"content\":null,\"refusal\":null,\"tool_"
                "calls\":[{"
                "\"id\":\"call_mock%llu\",\"type\":\"function\",\"function\":{\"name\":\"%s\","
                "\"arguments\":\"{\\\"city\\\": \\\"S\\u00f6dra\\\"}\"}}]}",
                (unsigned long long)w->number, w->tool);
        } else {
            mock_script_add(s, chat ? "\"message\":{\"role\":\"assistant\",\"content\":\""
                                    : "\"text\":\"");
            script_text(s, w->output_tok);
            mock_script_add(s, chat ? "\",\"refusal\":null}" : "\"");
        }
        mock_script_add(s, ",\"logprobs\":null,\"finish_reason\":\"%s\"}",
                        w->tool ? "tool_calls" : "stop");
    }
    mock_script_add(s, "]");
    if (!w->no_usage) {
        mock_script_add(s, ",\"usage\":");
        script_openai_usage(s, w);
    }
    mock_script_add(s, "}");
}

/* ---- OpenAI responses ---- */

static void script_response(struct mock_script *s, const struct mock_script_wish *w,
                            const char *status, bool whole)
{
    mock_script_add(
        s,
        "{\"id\":\"resp_mock%llu\",\"object\":\"response\",\"created_at\":%d,\"status\":\"%s\","
        "\"error\":null,\"incomplete_details\":null,\"instructions\":null,\"metadata\":{},"
        "\"model\":\"%s\","
        "\"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[],\"temperature\":1.0,"
        "\"top_p\":1.0,\"output\":[",
        (unsigned long long)w->number, SCRIPT_CREATED, status, w->model);
    if (whole) {
        mock_script_add(s,
                        "{\"id\":\"msg_mock%llu\",\"type\":\"message\",\"status\":\"completed\","
                        "\"role\":\"assistant\","
                        "\"content\":[{\"type\":\"output_text\",\"annotations\":[],\"text\":\"",
                        (unsigned long long)w->number);
        script_text(s, w->output_tok);
        mock_script_add(s, "\"}]}");
    }
    mock_script_add(s, "],\"usage\":");
    if (whole && !w->no_usage)
        mock_script_add(s,
                        "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":0},"
                        "\"output_tokens\":%u,"
                        "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%u}}",
                        w->prompt_tok, w->output_tok, w->prompt_tok + w->output_tok);
    else
        mock_script_add(s, "null}");
}

static void script_response_event(struct mock_script *s, const char *type, uint32_t *sequence)
{
    mock_script_add(s, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u,", type, type,
                    (*sequence)++);
}

static void script_event_close(struct mock_script *s)
{
    mock_script_add(s, "}\n\n");
    script_event_end(s);
}

static void script_responses_stream(struct mock_script *s, const struct mock_script_wish *w)
{
    unsigned long long id = w->number;
    uint32_t n = 0;
    static const char *const begins[] = {"response.created", "response.in_progress"};
    for (size_t i = 0; i < WEIR_COUNT(begins); i++) {
        script_response_event(s, begins[i], &n);
        mock_script_add(s, "\"response\":");
        script_response(s, w, "in_progress", false);
        script_event_close(s);
    }
    script_response_event(s, "response.output_item.added", &n);
    mock_script_add(
        s,
        "\"output_index\":0,\"item\":{\"id\":\"msg_mock%llu\",\"type\":\"message\",\"status\":"
        "\"in_progress\",\"role\":\"assistant\",\"content\":[]}",
        id);
    script_event_close(s);
    script_response_event(s, "response.content_part.added", &n);
    mock_script_add(
        s,
        "\"item_id\":\"msg_mock%llu\",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":"
        "\"output_text\",\"annotations\":[],\"text\":\"\"}",
        id);
    script_event_close(s);
    s->opening = s->events;
    for (uint32_t i = 0; i < w->output_tok; i++) {
        script_response_event(s, "response.output_text.delta", &n);
        mock_script_add(s,
                        "\"item_id\":\"msg_mock%llu\",\"output_index\":0,\"content_index\":0,"
                        "\"delta\":\"%s%s\","
                        "\"logprobs\":[]",
                        id, i ? " " : "", script_word(i));
        script_event_close(s);
    }
    uint32_t tokens_end = s->events;
    script_response_event(s, "response.output_text.done", &n);
    mock_script_add(s,
                    "\"item_id\":\"msg_mock%llu\",\"output_index\":0,\"content_index\":0,"
                    "\"logprobs\":[],\"text\":\"",
                    id);
    script_text(s, w->output_tok);
    mock_script_add(s, "\"");
    script_event_close(s);
    script_response_event(s, "response.content_part.done", &n);
    mock_script_add(
        s,
        "\"item_id\":\"msg_mock%llu\",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":"
        "\"output_text\",\"annotations\":[],\"text\":\"",
        id);
    script_text(s, w->output_tok);
    mock_script_add(s, "\"}");
    script_event_close(s);
    script_response_event(s, "response.output_item.done", &n);
    mock_script_add(s,
                    "\"output_index\":0,\"item\":{\"id\":\"msg_mock%llu\",\"type\":\"message\","
                    "\"status\":\"completed\","
                    "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"annotations\":"
                    "[],\"text\":\"",
                    id);
    script_text(s, w->output_tok);
    mock_script_add(s, "\"}]}");
    script_event_close(s);
    script_response_event(s, "response.completed", &n);
    mock_script_add(s, "\"response\":");
    script_response(s, w, "completed", true);
    script_event_close(s);
    s->closing = s->events - tokens_end;
}

/* ---- Anthropic messages ---- */

static void script_anthropic_usage(struct mock_script *s, const struct mock_script_wish *w,
                                   uint32_t output_tok)
{
    if (w->no_usage)
        mock_script_add(s, "null");
    else
        mock_script_add(
            s,
            "{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
            "\"output_tokens\":%u}",
            w->prompt_tok, output_tok);
}

static void script_message_head(struct mock_script *s, const struct mock_script_wish *w)
{
    mock_script_add(
        s, "{\"id\":\"msg_mock%llu\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"%s\",",
        (unsigned long long)w->number, w->model);
}

static void script_anthropic_whole(struct mock_script *s, const struct mock_script_wish *w)
{
    script_message_head(s, w);
    if (w->tool) {
        mock_script_add(s,
                        "\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_mock%llu\",\"name\":\"%"
                        "s\",\"input\":"
                        "{\"city\":\"S\\u00f6dra\"}}],\"stop_reason\":\"tool_use\",",
                        (unsigned long long)w->number, w->tool);
    } else {
        mock_script_add(s, "\"content\":[{\"type\":\"text\",\"text\":\"");
        script_text(s, w->output_tok);
        mock_script_add(s, "\"}],\"stop_reason\":\"end_turn\",");
    }
    mock_script_add(s, "\"stop_sequence\":null,\"usage\":");
    script_anthropic_usage(s, w, w->output_tok);
    mock_script_add(s, "}");
}

static void script_anthropic_event(struct mock_script *s, const char *type)
{
    mock_script_add(s, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void script_anthropic_stream(struct mock_script *s, const struct mock_script_wish *w)
{
    script_anthropic_event(s, "message_start");
    mock_script_add(s, ",\"message\":");
    script_message_head(s, w);
    mock_script_add(s, "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
    script_anthropic_usage(s, w, 1);
    mock_script_add(s, "}");
    script_event_close(s);
    script_anthropic_event(s, "content_block_start");
    if (w->tool)
        mock_script_add(s,
                        ",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_mock%"
                        "llu\",\"name\":\"%s\","
                        "\"input\":{}}",
                        (unsigned long long)w->number, w->tool);
    else
        mock_script_add(s, ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    script_event_close(s);
    script_anthropic_event(s, "ping");
    script_event_close(s);
    s->opening = s->events;
    for (uint32_t i = 0; i < w->output_tok; i++) {
        script_anthropic_event(s, "content_block_delta");
        if (w->tool)
            mock_script_add(
                s, ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"%s\"}",
                i < WEIR_COUNT(script_tool_pieces) ? script_tool_pieces[i] : "");
        else
            mock_script_add(s, ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s%s\"}",
                            i ? " " : "", script_word(i));
        script_event_close(s);
    }
    uint32_t tokens_end = s->events;
    script_anthropic_event(s, "content_block_stop");
    mock_script_add(s, ",\"index\":0");
    script_event_close(s);
    script_anthropic_event(s, "message_delta");
    mock_script_add(s, ",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":null},\"usage\":",
                    w->tool ? "tool_use" : "end_turn");
    if (w->no_usage)
        mock_script_add(s, "null");
    else
        mock_script_add(s, "{\"output_tokens\":%u}", w->output_tok);
    script_event_close(s);
    script_anthropic_event(s, "message_stop");
    script_event_close(s);
    s->closing = s->events - tokens_end;
}

void mock_script_build(struct mock_script *s, const struct mock_script_wish *w)
{
    switch (w->api) {
    case WEIR_API_OPENAI_CHAT:
    case WEIR_API_OPENAI_COMPLETIONS:
        if (w->stream)
            script_openai_stream(s, w);
        else
            script_openai_whole(s, w);
        return;
    case WEIR_API_OPENAI_RESPONSES:
        if (w->stream)
            script_responses_stream(s, w);
        else
            script_response(s, w, "completed", true);
        return;
    case WEIR_API_OPENAI_EMBEDDINGS:
        mock_script_add(
            s,
            "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[0."
            "0125,-0.5,"
            "0.25]}],\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}}",
            w->model, w->prompt_tok, w->prompt_tok);
        return;
    case WEIR_API_ANTHROPIC_MESSAGES:
        if (w->stream)
            script_anthropic_stream(s, w);
        else
            script_anthropic_whole(s, w);
        return;
    case WEIR_API_ANTHROPIC_COUNT:
        mock_script_add(s, "{\"input_tokens\":%u}", w->prompt_tok);
        return;
    case WEIR_API_MODELS:
        mock_script_add(
            s,
            "{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\",\"created\":%d,"
            "\"owned_by\":\"weir\",\"type\":\"model\",\"display_name\":\"mock\",\"created_at\":"
            "\"2025-11-30T00:00:00Z\"}],\"has_more\":false,\"first_id\":\"mock\",\"last_id\":"
            "\"mock\"}",
            SCRIPT_CREATED);
        return;
    case WEIR_API_OTHER:
        mock_script_add(s, "{\"object\":\"mock\",\"ok\":true}");
        return;
    }
}

#include "trace/trace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole trace in memory, from a reader and what it gave out. No files: the lab page has this too. */

enum { ENTRIES_FIRST = 4096 };

bool weir_trace_collect(void *ctx, const struct weir_trace_entry *entry)
{
    struct weir_trace_collector *c = ctx;
    if (c->count == c->room) {
        size_t room = c->room ? c->room * 2 : ENTRIES_FIRST;
        struct weir_trace_entry *entries = realloc(c->entries, room * sizeof *entries);
        if (!entries) {
            c->is_out_of_memory = true;
            return false;
        }
        c->entries = entries;
        c->room = room;
    }
    c->entries[c->count++] = *entry;
    return true;
}

/* The names' pointers and their text, in one piece. */
static bool whole_names(const struct weir_trace_reader *reader, struct weir_trace *trace)
{
    size_t count = 0;
    for (uint32_t kind = 0; kind < WEIR_TRACE_KIND_COUNT; kind++)
        count += weir_trace_names_count(reader, kind);
    const char **pointers = malloc(count * (sizeof *pointers + WEIR_TRACE_NAME_BYTES));
    if (!pointers)
        return false;
    char *text = (char *)(pointers + count);
    trace->memory = (void *)pointers;
    for (uint32_t kind = 0; kind < WEIR_TRACE_KIND_COUNT; kind++) {
        trace->names[kind] = pointers;
        trace->names_count[kind] = weir_trace_names_count(reader, kind);
        for (uint32_t i = 0; i < trace->names_count[kind]; i++) {
            snprintf(text, WEIR_TRACE_NAME_BYTES, "%s", weir_trace_name(reader, kind, i));
            *pointers++ = text;
            text += WEIR_TRACE_NAME_BYTES;
        }
    }
    return true;
}

bool weir_trace_take(struct weir_trace_collector *c, const struct weir_trace_reader *reader,
                     struct weir_trace *trace)
{
    struct weir_trace_entry *scratch = malloc(c->count * sizeof *scratch);
    *trace = (struct weir_trace){0};
    if (!scratch)
        return false;
    weir_trace_settle(c->entries, scratch, c->count);
    free(scratch);
    if (!whole_names(reader, trace))
        return false;
    trace->form = weir_trace_form(reader);
    trace->facts = *weir_trace_facts(reader);
    trace->entries = c->entries;
    trace->count = c->count;
    trace->span_ns = c->entries[c->count - 1].arrival_ns;
    *c = (struct weir_trace_collector){0};
    return true;
}

void weir_trace_free(struct weir_trace *trace)
{
    free(trace->entries);
    free(trace->memory);
    *trace = (struct weir_trace){0};
}

void weir_trace_fill_sizes(struct weir_trace *trace)
{
    uint32_t tenants = trace->names_count[WEIR_TRACE_TENANT];
    struct weir_trace_sizes *sizes = calloc(tenants, sizeof *sizes);
    if (sizes)
        trace->filled = weir_trace_fill(trace->entries, trace->count, sizes, tenants);
    free(sizes);
}

void weir_trace_remark(const struct weir_trace *trace, char *text, size_t text_bytes)
{
    const struct weir_trace_facts *f = &trace->facts;
    size_t used = 0;
    text[0] = '\0';
    if (f->unsorted_line > 0 && trace->form != WEIR_TRACE_RECORDING)
        used += (size_t)snprintf(text, text_bytes,
                                 "line %llu arrives before the one above it: rows were sorted by "
                                 "arrival",
                                 (unsigned long long)f->unsorted_line);
    if (f->rows_cut > 0 && used < text_bytes)
        used += (size_t)snprintf(text + used, text_bytes - used,
                                 "%s%llu rows cut short by a crash were left out", used ? "; " : "",
                                 (unsigned long long)f->rows_cut);
    if (f->rows_dropped > 0 && used < text_bytes)
        used += (size_t)snprintf(
            text + used, text_bytes - used,
            "%s%llu requests are missing: the gateway could not write them in time",
            used ? "; " : "", (unsigned long long)f->rows_dropped);
    if (trace->filled > 0 && used < text_bytes)
        snprintf(text + used, text_bytes - used,
                 "%s%zu requests were refused or left before they used a token: they have the mean "
                 "size of their tenant's others",
                 used ? "; " : "", trace->filled);
}

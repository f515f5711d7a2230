#include "mock/mock_fault.h"

#include <string.h>

static bool fault_number(struct weir_slice text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || i > 9)
            return false;
        *value = *value * 10 + (uint64_t)(text.at[i] - '0');
    }
    return text.bytes > 0;
}

static bool fault_duration(struct weir_slice text, uint64_t *ns)
{
    static const struct {
        const char *suffix;
        uint64_t ns;
    } units[] = {{"ms", WEIR_NS_PER_MS}, {"us", WEIR_NS_PER_US}, {"s", WEIR_NS_PER_S}};
    for (size_t i = 0; i < WEIR_COUNT(units); i++) {
        size_t n = strlen(units[i].suffix);
        if (text.bytes > n && memcmp(text.at + text.bytes - n, units[i].suffix, n) == 0 &&
            fault_number((struct weir_slice){text.at, text.bytes - n}, ns)) {
            *ns *= units[i].ns;
            return true;
        }
    }
    return false;
}

static bool fault_place(struct weir_slice text, enum mock_place *place)
{
    if (weir_slice_equal(text, WEIR_SLICE("head")))
        *place = MOCK_HEAD;
    else if (weir_slice_equal(text, WEIR_SLICE("body")))
        *place = MOCK_BODY;
    else
        return false;
    return true;
}

static bool fault_valued(struct weir_slice name, struct weir_slice value, struct mock_fault *f)
{
    uint64_t n = 0;
    if (weir_slice_equal(name, WEIR_SLICE("stall")))
        return fault_place(value, &f->stall);
    if (weir_slice_equal(name, WEIR_SLICE("reset")))
        return fault_place(value, &f->reset);
    if (weir_slice_equal(name, WEIR_SLICE("latency")))
        return fault_duration(value, &f->latency_ns);
    if (weir_slice_equal(name, WEIR_SLICE("end")))
        return f->tidy = weir_slice_equal(value, WEIR_SLICE("tidy"));
    if (!fault_number(value, &n))
        return false;
    if (weir_slice_equal(name, WEIR_SLICE("status")) && n >= 200 && n <= 599) {
        f->status = (uint32_t)n;
    } else if (weir_slice_equal(name, WEIR_SLICE("retry-after"))) {
        f->retry_after_s = n;
    } else if (weir_slice_equal(name, WEIR_SLICE("retry-after-ms"))) {
        f->retry_after_ms = n;
    } else if (weir_slice_equal(name, WEIR_SLICE("cut"))) {
        f->has_cut = true;
        f->cut = (uint32_t)n;
    } else if (weir_slice_equal(name, WEIR_SLICE("error"))) {
        f->has_error = true;
        f->error = (uint32_t)n;
    } else {
        return false;
    }
    return true;
}

static bool fault_switch(struct weir_slice name, struct mock_fault *f)
{
    const struct {
        const char *name;
        bool *on;
    } switches[] = {{"bytewise", &f->bytewise}, {"gzip", &f->gzip},
                    {"html", &f->html},         {"garbage", &f->garbage},
                    {"nousage", &f->no_usage},  {"redirect", &f->redirect},
                    {"early", &f->early}};
    for (size_t i = 0; i < WEIR_COUNT(switches); i++)
        if (weir_slice_equal(name, weir_slice_of(switches[i].name)))
            return *switches[i].on = true;
    return false;
}

bool mock_fault_parse(struct weir_slice text, struct mock_fault *fault, struct weir_slice *bad)
{
    *fault = (struct mock_fault){0};
    while (text.bytes > 0) {
        size_t n = 0;
        while (n < text.bytes && text.at[n] != ';' && text.at[n] != ',')
            n++;
        struct weir_slice word = {text.at, n};
        text.at += n < text.bytes ? n + 1 : n;
        text.bytes -= n < text.bytes ? n + 1 : n;
        while (word.bytes > 0 && word.at[0] == ' ') {
            word.at++;
            word.bytes--;
        }
        while (word.bytes > 0 && word.at[word.bytes - 1] == ' ')
            word.bytes--;
        if (word.bytes == 0)
            continue;
        const char *equals = memchr(word.at, '=', word.bytes);
        bool known;
        if (equals) {
            struct weir_slice name = {word.at, (size_t)(equals - word.at)};
            known = fault_valued(name, (struct weir_slice){equals + 1, word.bytes - name.bytes - 1},
                                 fault);
        } else {
            known = fault_switch(word, fault);
        }
        if (!known) {
            *bad = word;
            return false;
        }
    }
    return true;
}

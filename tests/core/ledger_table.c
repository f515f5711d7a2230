#include "ledger_table.h"

#include <dirent.h>
#include <stdlib.h>

#include "support/ledger_rows.h"

/* Running a table. Names of scopes and holds are given ids in the order in which they are met. */

#define WORDS_MAX 24
#define NAMES_MAX 32

struct table_case {
    char name[160];
    char file[64];
    int line;   /* of its first line */
    char *text; /* its lines */
};

struct run {
    const struct table_case *c;
    int line;
    struct weir_ledger_limits limits;
    struct weir_ledger *l;
    void *mem;
    struct ledger_rows *file;
    uint64_t epoch;
    char scopes[NAMES_MAX][32];
    uint32_t scope_count;
    char holds[NAMES_MAX][32];
    uint64_t hold_ids[NAMES_MAX];
    uint32_t hold_count;
    char *words[WORDS_MAX];
    int word_count;
    int arrow; /* index of "->", or word_count */
    int end;   /* of the words left of it that are by their place */
};

#define ROW(r, cond, ...)                                                                          \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            char row_note[256];                                                                    \
            snprintf(row_note, sizeof row_note, __VA_ARGS__);                                      \
            fail_msg("%s:%d: %s: %s", (r)->c->file, (r)->line, (r)->c->name, row_note);            \
        }                                                                                          \
    } while (0)

static const char *word(const struct run *r, int at)
{
    ROW(r, at < r->word_count, "word %d is missing", at + 1);
    return r->words[at];
}

static int64_t number(const struct run *r, int at)
{
    const char *w = word(r, at);
    if (strcmp(w, "MAX") == 0)
        return WEIR_TOK_MAX;
    if (strcmp(w, "BALANCE") == 0)
        return WEIR_BALANCE_MAX;
    char *end;
    long long n = strtoll(w, &end, 10);
    ROW(r, *end == '\0' && end != w, "'%s' is not a number", w);
    return n;
}

static uint32_t scope(struct run *r, int at)
{
    const char *w = word(r, at);
    for (uint32_t i = 0; i < r->scope_count; i++)
        if (strcmp(r->scopes[i], w) == 0)
            return i;
    ROW(r, r->scope_count < NAMES_MAX, "too many scopes");
    snprintf(r->scopes[r->scope_count], sizeof r->scopes[0], "%s", w);
    return r->scope_count++;
}

/* A name, which belongs to the epoch of its first mention, or @EPOCH.COUNTER. */
static uint64_t hold(struct run *r, int at)
{
    const char *w = word(r, at);
    if (w[0] == '@') {
        char *end;
        uint64_t epoch = strtoull(w + 1, &end, 10);
        ROW(r, *end == '.', "'%s' is not @EPOCH.COUNTER", w);
        return weir_ledger_hold_id(epoch, strtoull(end + 1, NULL, 10));
    }
    for (uint32_t i = 0; i < r->hold_count; i++)
        if (strcmp(r->holds[i], w) == 0)
            return r->hold_ids[i];
    ROW(r, r->hold_count < NAMES_MAX, "too many holds");
    snprintf(r->holds[r->hold_count], sizeof r->holds[0], "%s", w);
    r->hold_ids[r->hold_count] = weir_ledger_hold_id(r->epoch, r->hold_count + 1);
    return r->hold_ids[r->hold_count++];
}

/* An optional "KEYWORD scope" at a place. */
static uint32_t scope_after(struct run *r, int at, const char *keyword)
{
    if (at >= r->end)
        return WEIR_NONE;
    ROW(r, strcmp(word(r, at), keyword) == 0, "expected '%s', not '%s'", keyword, word(r, at));
    return scope(r, at + 1);
}

static void expect_answer(struct run *r, struct weir_ledger_answer got)
{
    const char *want = r->arrow + 1 < r->word_count ? r->words[r->arrow + 1] : "done";
    ROW(r, strcmp(weir_ledger_result_name(got.result), want) == 0, "is %s, want %s",
        weir_ledger_result_name(got.result), want);
    if (got.result == WEIR_LEDGER_BUSY || got.result == WEIR_LEDGER_EXHAUSTED ||
        got.result == WEIR_LEDGER_NEVER) {
        uint32_t by = scope(r, r->arrow + 2);
        ROW(r, got.scope == by, "scope %u refused, want %s", got.scope, word(r, r->arrow + 2));
    }
}

static void expect_count(struct run *r, uint32_t got)
{
    if (r->arrow < r->word_count)
        ROW(r, got == number(r, r->arrow + 1), "is %u, want %s", got, word(r, r->arrow + 1));
}

/* "name value name value ..." right of the arrow. */
struct field {
    const char *name;
    int64_t value;
};

static void expect_fields(struct run *r, const struct field *fields, size_t count)
{
    ROW(r, r->arrow + 2 < r->word_count, "expects nothing");
    for (int at = r->arrow + 1; at < r->word_count; at += 2) {
        size_t i = 0;
        while (i < count && strcmp(fields[i].name, r->words[at]) != 0)
            i++;
        ROW(r, i < count, "no field '%s'", r->words[at]);
        ROW(r, fields[i].value == number(r, at + 1), "%s is %lld, want %s", fields[i].name,
            (long long)fields[i].value, word(r, at + 1));
    }
}

static void row_totals(struct run *r)
{
    struct weir_ledger_totals t;
    bool known = weir_ledger_totals(r->l, scope(r, 1), &t);
    if (strcmp(word(r, r->arrow + 1), "none") == 0) {
        ROW(r, !known, "the scope is known");
        return;
    }
    ROW(r, known, "the scope is not known");
    const struct field fields[] = {
        {"granted", t.granted_tok},     {"reserved", t.reserved_tok},
        {"committed", t.committed_tok}, {"lapsed", t.lapsed_tok},
        {"overrun", t.overrun_tok},     {"cut", t.cut_tok},
        {"raised", t.raised_tok},       {"lowered", t.lowered_tok},
        {"unmatched", t.unmatched_tok}, {"window", (int64_t)t.window},
        {"refunded", t.refunded_tok},   {"refused", (int64_t)t.refused_count},
        {"held", t.held_count},         {"lapsed_holds", t.lapsed_count},
    };
    expect_fields(r, fields, WEIR_COUNT(fields));
}

static void row_hold(struct run *r)
{
    struct weir_ledger_hold view;
    bool known = weir_ledger_hold_find(r->l, hold(r, 1), &view);
    const char *want = word(r, r->arrow + 1);
    if (strcmp(want, "unknown") == 0) {
        ROW(r, !known, "the hold is known");
        return;
    }
    ROW(r, known, "the hold is not known");
    ROW(r, strcmp(weir_hold_state_name(view.state), want) == 0, "is %s, want %s",
        weir_hold_state_name(view.state), want);
    ROW(r, view.booked_tok == number(r, r->arrow + 2), "counts %lld, want %s",
        (long long)view.booked_tok, word(r, r->arrow + 2));
}

static void row_row(struct run *r)
{
    uint32_t of = scope(r, 1);
    const struct weir_ledger_balance *row = ledger_rows_row(r->file, of, (uint64_t)number(r, 2));
    if (strcmp(word(r, r->arrow + 1), "none") == 0) {
        ROW(r, !row, "there is such a row");
        return;
    }
    ROW(r, row, "there is no such row");
    const struct field fields[] = {
        {"granted", row->granted_tok},     {"reserved", row->reserved_tok},
        {"committed", row->committed_tok}, {"lapsed", row->lapsed_tok},
        {"overrun", row->overrun_tok},     {"cut", row->cut_tok},
        {"raised", row->raised_tok},       {"lowered", row->lowered_tok},
        {"unmatched", row->unmatched_tok}, {"refunded", row->refunded_tok},
    };
    expect_fields(r, fields, WEIR_COUNT(fields));
}

/* The ledger is thrown away, and a fresh one filled from the rows it told: nothing is lost. */
static void row_reload(struct run *r)
{
    bool reversed = r->end > 1 && strcmp(word(r, 1), "reversed") == 0;
    ledger_rows_take(r->file, r->l);
    void *mem;
    struct weir_ledger *fresh = ledger_in_memory(&r->limits, r->epoch, &mem);
    ledger_rows_load(r->file, fresh, r->l, r->limits.scopes_max, reversed);
    for (uint32_t id = 0; id < r->limits.scopes_max; id++) {
        struct weir_ledger_totals was, is;
        memset(&was, 0, sizeof was);
        memset(&is, 0, sizeof is);
        ROW(r, weir_ledger_totals(r->l, id, &was) == weir_ledger_totals(fresh, id, &is),
            "scope %u is defined in one only", id);
        was.refused_count = 0; /* counted since start */
        ROW(r, memcmp(&was, &is, sizeof was) == 0, "scope %u differs", id);
    }
    ROW(r, ledger_rows_take(r->file, fresh) == 0, "what was loaded counts as changed");
    free(r->mem);
    r->mem = mem;
    r->l = fresh;
}

static void row_scope(struct run *r, bool unlimited)
{
    struct weir_ledger_rules rules = {.unlimited = unlimited};
    rules.lapse_refunds = strcmp(word(r, r->end - 1), "refunding") == 0;
    r->end -= rules.lapse_refunds;
    uint32_t id = scope(r, 1);
    rules.granted_tok = unlimited ? 0 : number(r, 2);
    rules.parent = scope_after(r, unlimited ? 2 : 3, "under");
    expect_answer(r, weir_ledger_scope_set(r->l, id, &rules));
}

static void row_lapse(struct run *r, bool crash)
{
    if (crash)
        ROW(r, weir_ledger_epoch_begin(r->l, ++r->epoch), "the epoch does not begin");
    uint32_t most = crash && r->end > 1 ? (uint32_t)number(r, 1) : UINT32_MAX;
    expect_count(r, weir_ledger_lapse(r->l, most));
}

static void row_forget(struct run *r)
{
    uint32_t most = r->end > 2 ? (uint32_t)number(r, 2) : UINT32_MAX;
    expect_count(r, weir_ledger_forget(r->l, (uint32_t)number(r, 1), most));
}

static void row_forget_scope(struct run *r)
{
    uint32_t id = scope(r, 1);
    struct weir_ledger_answer answer = weir_ledger_scope_forget(r->l, id);
    expect_answer(r, answer);
    if (answer.result == WEIR_LEDGER_DONE) {
        ledger_rows_take(r->file, r->l);
        ledger_rows_scope_drop(r->file, id);
    }
}

static void row_holds(struct run *r)
{
    struct weir_ledger_stats s;
    weir_ledger_stats(r->l, &s);
    const struct field fields[] = {{"held", s.held},
                                   {"lapsed", s.lapsed},
                                   {"finished", s.finished},
                                   {"counted", s.counted_tok}};
    expect_fields(r, fields, WEIR_COUNT(fields));
}

/* The operations. false: the verb is none of them. */
static bool run_operation(struct run *r, const char *verb)
{
    if (strcmp(verb, "grant") == 0 || strcmp(verb, "unlimited") == 0)
        row_scope(r, verb[0] == 'u');
    else if (strcmp(verb, "reserve") == 0)
        expect_answer(r, weir_ledger_reserve(r->l, hold(r, 1), scope(r, 2), number(r, 3)));
    else if (strcmp(verb, "extend") == 0)
        expect_answer(r, weir_ledger_extend(r->l, hold(r, 1), number(r, 2)));
    else if (strcmp(verb, "settle") == 0)
        expect_answer(r,
                      weir_ledger_settle(r->l, hold(r, 1), scope_after(r, 3, "on"), number(r, 2)));
    else if (strcmp(verb, "void") == 0)
        expect_answer(r, weir_ledger_void(r->l, hold(r, 1)));
    else if (strcmp(verb, "adjust") == 0)
        expect_answer(r, weir_ledger_adjust(r->l, scope(r, 1), number(r, 2)));
    else if (strcmp(verb, "window") == 0)
        expect_answer(r, weir_ledger_window_begin(r->l, scope(r, 1), (uint64_t)number(r, 2)));
    else if (strcmp(verb, "forget_scope") == 0)
        row_forget_scope(r);
    else if (strcmp(verb, "crash") == 0 || strcmp(verb, "lapse") == 0)
        row_lapse(r, verb[0] == 'c');
    else if (strcmp(verb, "forget") == 0)
        row_forget(r);
    else
        return false;
    return true;
}

static void run_row(struct run *r)
{
    const char *verb = r->words[0];
    if (run_operation(r, verb))
        ledger_rows_holds(r->file, r->l); /* a store writes the holds of each operation */
    else if (strcmp(verb, "told") == 0)
        expect_count(r, (uint32_t)ledger_rows_take(r->file, r->l));
    else if (strcmp(verb, "reload") == 0)
        row_reload(r);
    else if (strcmp(verb, "load") == 0)
        expect_answer(r, ledger_rows_load_hold(r->file, r->l, hold(r, 1)));
    else if (strcmp(verb, "row") == 0)
        row_row(r);
    else if (strcmp(verb, "totals") == 0)
        row_totals(r);
    else if (strcmp(verb, "hold") == 0)
        row_hold(r);
    else if (strcmp(verb, "holds") == 0)
        row_holds(r);
    else
        ROW(r, false, "unknown word '%s'", verb);
}

static void run_case(void **state)
{
    const struct table_case *c = *state;
    struct run r = {.c = c, .line = c->line - 1, .epoch = 1, .limits = {16, 32, 64}};
    r.file = calloc(1, sizeof *r.file);
    CHECK(r.file != NULL);
    char *text = strdup(c->text), *save_line = NULL;
    for (char *line = strtok_r(text, "\n", &save_line); line;
         line = strtok_r(NULL, "\n", &save_line)) {
        r.line++;
        line[strcspn(line, "#")] = '\0';
        char *save_word = NULL;
        r.word_count = 0;
        for (char *w = strtok_r(line, " \t\r", &save_word); w;
             w = strtok_r(NULL, " \t\r", &save_word)) {
            ROW(&r, r.word_count < WORDS_MAX, "too many words");
            r.words[r.word_count++] = w;
        }
        if (r.word_count == 0)
            continue;
        for (r.arrow = 0; r.arrow < r.word_count; r.arrow++)
            if (strcmp(r.words[r.arrow], "->") == 0)
                break;
        r.end = r.arrow;
        if (strcmp(r.words[0], "limits") == 0) {
            ROW(&r, r.l == NULL, "limits come first");
            r.limits = (struct weir_ledger_limits){(uint32_t)number(&r, 1), (uint32_t)number(&r, 2),
                                                   (uint32_t)number(&r, 3)};
            continue;
        }
        if (!r.l)
            r.l = ledger_in_memory(&r.limits, r.epoch, &r.mem);
        run_row(&r);
        const char *wrong = weir_ledger_audit(r.l);
        ROW(&r, wrong == NULL, "the audit says it is not so: %s", wrong);
    }
    ROW(&r, r.l != NULL, "an empty case");
    free(r.mem);
    free(r.file);
    free(text);
}

/* Reading the tables. */

static struct table_case cases[LEDGER_TABLE_CASES_MAX];
static size_t case_count;

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void read_table(const char *folder, const char *name)
{
    char path[512], line[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    struct table_case *c = NULL;
    size_t bytes = 0;
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        if (strncmp(line, "case ", 5) == 0) {
            if (case_count == WEIR_COUNT(cases)) {
                fprintf(stderr, "more cases than fit\n");
                exit(2);
            }
            c = &cases[case_count++];
            snprintf(c->file, sizeof c->file, "%s", name);
            snprintf(c->name, sizeof c->name, "ledger__%.*s", (int)strcspn(line + 5, " \n"),
                     line + 5);
            c->line = number + 1;
            c->text = calloc(1, 1);
            bytes = 0;
        } else if (c) {
            /* Empty lines would be eaten by strtok: keep the count with a blank. */
            size_t more = strlen(line) + 2;
            c->text = realloc(c->text, bytes + more + 1);
            bytes += (size_t)sprintf(c->text + bytes, " %s", line);
        }
    }
    fclose(file);
}

size_t ledger_table_read(struct CMUnitTest *tests, size_t tests_max)
{
    const char *data = getenv("WEIR_TEST_DATA");
    char folder[400];
    snprintf(folder, sizeof folder, "%s/ledger", data ? data : "tests/data");
    DIR *dir = opendir(folder);
    if (!dir) {
        fprintf(stderr, "cannot open %s\n", folder);
        exit(2);
    }
    char *names[64];
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && count < WEIR_COUNT(names);) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0)
            names[count++] = strdup(entry->d_name);
    }
    closedir(dir);
    qsort(names, count, sizeof names[0], name_order);
    for (size_t i = 0; i < count; i++) {
        read_table(folder, names[i]);
        free(names[i]);
    }
    if (case_count < 40 || case_count > tests_max) {
        fprintf(stderr, "%zu cases were found\n", case_count);
        exit(2);
    }
    for (size_t i = 0; i < case_count; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, run_case, NULL, NULL, &cases[i]};
    return case_count;
}

void ledger_table_free(void)
{
    for (size_t i = 0; i < case_count; i++)
        free(cases[i].text);
}

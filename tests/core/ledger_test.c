/* The ledger's rules: the tables of tests/data/ledger (one test a case), and what tables cannot
 * say. */
#include "core/ledger.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "support/check.h"

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
    struct weir_ledger *l;
    void *mem;
    uint64_t epoch;
    char scopes[NAMES_MAX][32];
    uint32_t scope_count;
    char holds[NAMES_MAX][32];
    uint64_t hold_ids[NAMES_MAX];
    uint32_t hold_count;
    char *words[WORDS_MAX];
    int word_count;
    int arrow; /* index of "->", or word_count */
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
    if (at >= r->arrow)
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
        {"granted", t.granted_tok},    {"reserved", t.reserved_tok}, {"committed", t.committed_tok},
        {"lapsed", t.lapsed_tok},      {"overrun", t.overrun_tok},   {"cut", t.cut_tok},
        {"raised", t.raised_tok},      {"lowered", t.lowered_tok},   {"unmatched", t.unmatched_tok},
        {"window", (int64_t)t.window},
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

static void run_row(struct run *r)
{
    const char *verb = r->words[0];
    if (strcmp(verb, "grant") == 0) {
        uint32_t id = scope(r, 1);
        const struct weir_ledger_rules rules = {.parent = scope_after(r, 3, "under"),
                                                .granted_tok = number(r, 2)};
        expect_answer(r, weir_ledger_scope_set(r->l, id, &rules));
    } else if (strcmp(verb, "unlimited") == 0) {
        uint32_t id = scope(r, 1);
        const struct weir_ledger_rules rules = {.parent = scope_after(r, 2, "under"),
                                                .unlimited = true};
        expect_answer(r, weir_ledger_scope_set(r->l, id, &rules));
    } else if (strcmp(verb, "reserve") == 0) {
        expect_answer(r, weir_ledger_reserve(r->l, hold(r, 1), scope(r, 2), number(r, 3)));
    } else if (strcmp(verb, "extend") == 0) {
        expect_answer(r, weir_ledger_extend(r->l, hold(r, 1), number(r, 2)));
    } else if (strcmp(verb, "settle") == 0) {
        expect_answer(r,
                      weir_ledger_settle(r->l, hold(r, 1), scope_after(r, 3, "on"), number(r, 2)));
    } else if (strcmp(verb, "void") == 0) {
        expect_answer(r, weir_ledger_void(r->l, hold(r, 1)));
    } else if (strcmp(verb, "adjust") == 0) {
        expect_answer(r, weir_ledger_adjust(r->l, scope(r, 1), number(r, 2)));
    } else if (strcmp(verb, "window") == 0) {
        expect_answer(r, weir_ledger_window_begin(r->l, scope(r, 1), (uint64_t)number(r, 2)));
    } else if (strcmp(verb, "forget_scope") == 0) {
        expect_answer(r, weir_ledger_scope_forget(r->l, scope(r, 1)));
    } else if (strcmp(verb, "crash") == 0) {
        ROW(r, weir_ledger_epoch_begin(r->l, ++r->epoch), "the epoch does not begin");
        expect_count(r,
                     weir_ledger_lapse(r->l, r->arrow > 1 ? (uint32_t)number(r, 1) : UINT32_MAX));
    } else if (strcmp(verb, "lapse") == 0) {
        expect_count(r, weir_ledger_lapse(r->l, UINT32_MAX));
    } else if (strcmp(verb, "forget") == 0) {
        uint32_t most = r->arrow > 2 ? (uint32_t)number(r, 2) : UINT32_MAX;
        expect_count(r, weir_ledger_forget(r->l, (uint32_t)number(r, 1), most));
    } else if (strcmp(verb, "told") == 0) {
        uint32_t count = 0;
        for (struct weir_ledger_balance row; weir_ledger_changed_next(r->l, &row);)
            count++;
        expect_count(r, count);
    } else if (strcmp(verb, "totals") == 0) {
        row_totals(r);
    } else if (strcmp(verb, "hold") == 0) {
        row_hold(r);
    } else if (strcmp(verb, "holds") == 0) {
        struct weir_ledger_stats s;
        weir_ledger_stats(r->l, &s);
        const struct field fields[] = {
            {"held", s.held}, {"lapsed", s.lapsed}, {"finished", s.finished}, {"counted", s.counted_tok}};
        expect_fields(r, fields, WEIR_COUNT(fields));
    } else {
        ROW(r, false, "unknown word '%s'", verb);
    }
}

static struct weir_ledger *ledger_new(const struct weir_ledger_limits *limits, void **mem)
{
    size_t bytes = weir_ledger_bytes(limits);
    *mem = aligned_alloc(64, bytes);
    CHECK(*mem != NULL);
    memset(*mem, 0, bytes);
    return weir_ledger_init(*mem, bytes, limits, 1);
}

static void run_case(void **state)
{
    const struct table_case *c = *state;
    struct run r = {.c = c, .line = c->line - 1, .epoch = 1};
    struct weir_ledger_limits limits = {16, 32, 64};
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
        if (strcmp(r.words[0], "limits") == 0) {
            ROW(&r, r.l == NULL, "limits come first");
            limits = (struct weir_ledger_limits){(uint32_t)number(&r, 1), (uint32_t)number(&r, 2),
                                                 (uint32_t)number(&r, 3)};
            continue;
        }
        if (!r.l)
            r.l = ledger_new(&limits, &r.mem);
        run_row(&r);
        const char *wrong = weir_ledger_audit(r.l);
        ROW(&r, wrong == NULL, "the audit says it is not so: %s", wrong);
    }
    ROW(&r, r.l != NULL, "an empty case");
    free(r.mem);
    free(text);
}

/* Reading the tables. */

static struct table_case cases[256];
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

static void read_tables(void)
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
}

/* What tables cannot say. */

static void ledger__unused_room__is_not_touched(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {100000, 200000, 1000000};
    size_t bytes = weir_ledger_bytes(&limits), page = 4096, pages = (bytes + page - 1) / page;
    CHECK(bytes < UINT64_C(120) << 20);
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mem != MAP_FAILED);
    struct weir_ledger *l = weir_ledger_init(mem, bytes, &limits, 1);
    CHECK_INT(weir_ledger_scope_set(l, 0, &(struct weir_ledger_rules){WEIR_NONE, false, false, 100})
                  .result,
              WEIR_LEDGER_DONE);
    for (uint64_t i = 1; i <= 100000; i++) {
        CHECK_INT(weir_ledger_reserve(l, weir_ledger_hold_id(1, i), 0, 100).result,
                  WEIR_LEDGER_HELD);
        CHECK_INT(weir_ledger_settle(l, weir_ledger_hold_id(1, i), 0, 0).result,
                  WEIR_LEDGER_SETTLED);
        CHECK(weir_ledger_forget(l, 10, 2) <= 1);
    }
    unsigned char *in_core = malloc(pages);
    CHECK(mincore(mem, bytes, in_core) == 0);
    size_t touched = 0;
    for (size_t i = 0; i < pages; i++)
        touched += in_core[i] & 1;
    free(in_core);
    /* The hash's buckets are walked through once (4 bytes a hold); records are used again. */
    CHECK_MSG(touched <= 100000 * 4 / page + 8, "%zu pages", touched);
    CHECK(weir_ledger_audit(l) == NULL);
    munmap(mem, bytes);
}

static void ledger__every_operation__is_applied_by_its_kind(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {4, 8, 8};
    void *mem;
    struct weir_ledger *l = ledger_new(&limits, &mem);
    const uint64_t h = weir_ledger_hold_id(1, 1), v = weir_ledger_hold_id(1, 2);
    const struct {
        struct weir_ledger_op op;
        enum weir_ledger_result result;
    } rows[] = {
        {{.kind = WEIR_LEDGER_SCOPE, .scope = 1, .parent = WEIR_NONE, .amount_tok = 90},
         WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_SCOPE, .scope = 2, .parent = 1, .unlimited = true}, WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_WINDOW, .scope = 2, .window = 7}, WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_RESERVE, .scope = 2, .hold = h, .amount_tok = 40}, WEIR_LEDGER_HELD},
        {{.kind = WEIR_LEDGER_RESERVE, .scope = 2, .hold = v, .amount_tok = 51}, WEIR_LEDGER_BUSY},
        {{.kind = WEIR_LEDGER_RESERVE, .scope = 2, .hold = v, .amount_tok = 5}, WEIR_LEDGER_HELD},
        {{.kind = WEIR_LEDGER_EXTEND, .hold = h, .amount_tok = 60}, WEIR_LEDGER_HELD},
        {{.kind = WEIR_LEDGER_SETTLE, .scope = 2, .hold = h, .amount_tok = 50},
         WEIR_LEDGER_SETTLED},
        {{.kind = WEIR_LEDGER_VOID, .hold = v}, WEIR_LEDGER_VOIDED},
        {{.kind = WEIR_LEDGER_ADJUST, .scope = 2, .amount_tok = -20}, WEIR_LEDGER_DONE},
        {{.kind = WEIR_LEDGER_SCOPE_FORGET, .scope = 2}, WEIR_LEDGER_DONE},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_ledger_answer answer = weir_ledger_apply(l, &rows[i].op);
        CHECK_MSG(answer.result == rows[i].result, "row %zu: %s", i,
                  weir_ledger_result_name(answer.result));
        if (answer.result == WEIR_LEDGER_BUSY)
            CHECK_INT(answer.scope, 1);
    }
    struct weir_ledger_totals t;
    CHECK(weir_ledger_totals(l, 1, &t));
    CHECK_INT(weir_ledger_used_tok(&t), 30);
    CHECK_INT(t.parent, WEIR_NONE);
    CHECK(!weir_ledger_totals(l, 2, &t));
    struct weir_ledger_stats s;
    weir_ledger_stats(l, &s);
    CHECK_INT(s.results[WEIR_LEDGER_DONE], 5);
    CHECK_INT(s.results[WEIR_LEDGER_BUSY], 1);
    CHECK_INT(s.finished, 0); /* those of a scope that is forgotten go with it */
    free(mem);
}

static void ledger__holds__are_listed_while_they_are_known(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {2, 2, 8};
    void *mem;
    struct weir_ledger *l = ledger_new(&limits, &mem);
    weir_ledger_scope_set(l, 0, &(struct weir_ledger_rules){WEIR_NONE, true, false, 0});
    for (uint64_t i = 1; i <= 5; i++)
        CHECK_INT(weir_ledger_reserve(l, weir_ledger_hold_id(1, i), 0, (int64_t)i).result,
                  WEIR_LEDGER_HELD);
    weir_ledger_settle(l, weir_ledger_hold_id(1, 2), 0, 20);
    weir_ledger_void(l, weir_ledger_hold_id(1, 4));
    CHECK_INT(weir_ledger_forget(l, 1, 8), 1);
    uint32_t cursor = 0;
    int64_t booked = 0;
    int count = 0;
    for (struct weir_ledger_hold view; weir_ledger_hold_next(l, &cursor, &view); count++) {
        booked += view.booked_tok;
        CHECK_INT(view.scope, 0);
        CHECK_INT(view.asked_tok, (int64_t)(view.id & WEIR_LEDGER_COUNTER_MAX));
    }
    CHECK_INT(count, 4);
    CHECK_INT(booked, 1 + 3 + 5); /* 2 is forgotten, 4 is void */
    free(mem);
}

static void ledger__epochs__only_go_up(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {1, 1, 1};
    void *mem;
    struct weir_ledger *l = ledger_new(&limits, &mem);
    CHECK(!weir_ledger_epoch_begin(l, 1));
    CHECK(!weir_ledger_epoch_begin(l, 0));
    CHECK(!weir_ledger_epoch_begin(l, WEIR_LEDGER_EPOCH_MAX + 1));
    CHECK(weir_ledger_epoch_begin(l, 5));
    CHECK(!weir_ledger_epoch_begin(l, 4));
    CHECK(weir_ledger_epoch_begin(l, WEIR_LEDGER_EPOCH_MAX));
    free(mem);
}

/* An audit that cannot fail proves nothing: it must see a word of a record that was changed. */
static void ledger__audit__sees_a_record_that_was_changed(void **state)
{
    (void)state;
    const struct weir_ledger_limits limits = {1, 1, 1};
    void *mem;
    struct weir_ledger *l = ledger_new(&limits, &mem);
    weir_ledger_scope_set(l, 0, &(struct weir_ledger_rules){WEIR_NONE, false, false, 1234567});
    CHECK_INT(weir_ledger_reserve(l, weir_ledger_hold_id(1, 1), 0, 765432).result,
              WEIR_LEDGER_HELD);
    CHECK(weir_ledger_audit(l) == NULL);
    int64_t *words = mem;
    int changed = 0;
    for (size_t i = 0; i < weir_ledger_bytes(&limits) / 8; i++) {
        if (words[i] != 765432)
            continue; /* the estimate asked for, the amount booked, the balance's reserved */
        words[i]++;
        changed += weir_ledger_audit(l) != NULL;
        words[i]--;
        CHECK(weir_ledger_audit(l) == NULL);
    }
    CHECK_INT(changed, 2); /* what was asked for is free to differ: extend changes the other two */
    free(mem);
}

int main(void)
{
    static struct CMUnitTest tests[WEIR_COUNT(cases) + 8];
    size_t count = 0;
    const struct CMUnitTest units[] = {
        cmocka_unit_test(ledger__unused_room__is_not_touched),
        cmocka_unit_test(ledger__every_operation__is_applied_by_its_kind),
        cmocka_unit_test(ledger__holds__are_listed_while_they_are_known),
        cmocka_unit_test(ledger__epochs__only_go_up),
        cmocka_unit_test(ledger__audit__sees_a_record_that_was_changed),
    };
    for (size_t i = 0; i < WEIR_COUNT(units); i++)
        tests[count++] = units[i];
    read_tables();
    for (size_t i = 0; i < case_count; i++)
        tests[count++] = (struct CMUnitTest){cases[i].name, run_case, NULL, NULL, &cases[i]};
    int failed = _cmocka_run_group_tests("ledger", tests, count, NULL, NULL);
    if (case_count < 40) {
        fprintf(stderr, "only %zu cases were found\n", case_count);
        failed++;
    }
    for (size_t i = 0; i < case_count; i++)
        free(cases[i].text);
    return failed;
}

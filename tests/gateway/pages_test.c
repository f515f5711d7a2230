/* What the admin listener says below /lab/: which form of a file a browser gets, when it is told that it has
 * it already, and what stands in the way. */
#include "gateway/pages.h"

#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "support/check.h"

static const struct weir_page list[] = {
    {"", "text/html; charset=utf-8", "aa", WEIR_SLICE("<page>"), WEIR_SLICE("gz"), WEIR_SLICE("b"),
     false},
    {"lab.js",
     "text/javascript; charset=utf-8",
     "bb",
     WEIR_SLICE("script"),
     WEIR_SLICE("gz"),
     {0},
     false},
    {"weir-lab.html", "text/html; charset=utf-8", "cc", WEIR_SLICE("one"), {0}, {0}, true},
};
static const struct weir_pages pages = {list, WEIR_COUNT(list)};
static const struct weir_pages none = {NULL, 0};

static struct weir_page_answer answer_of(const struct weir_pages *of, bool is_get, const char *path,
                                         const char *accept, const char *known)
{
    struct weir_page_answer answer;
    const struct weir_page_request request = {
        .is_get = is_get,
        .path = weir_slice_of(path),
        .accept_encoding = accept ? weir_slice_of(accept) : (struct weir_slice){0},
        .if_none_match = known ? weir_slice_of(known) : (struct weir_slice){0}};
    CHECK(weir_pages_has(request.path));
    weir_pages_answer(of, &request, &answer);
    return answer;
}

static bool has_line(const struct weir_page_answer *answer, const char *line)
{
    size_t bytes = strlen(line);
    for (const char *at = answer->headers; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, line, bytes) == 0 && strncmp(at + bytes, "\r\n", 2) == 0)
            return true;
    return false;
}

/* Every header line is whole: what is sent is well formed whatever was asked for. */
static void check_lines(const struct weir_page_answer *answer)
{
    for (const char *at = answer->headers; *at;) {
        const char *end = strstr(at, "\r\n"), *colon = strchr(at, ':');
        CHECK(end && colon && colon < end && colon > at);
        at = end + 2;
    }
    CHECK(has_line(answer, "x-content-type-options: nosniff"));
    CHECK(has_line(answer, "referrer-policy: no-referrer"));
}

static void
page__of_the_forms_a_client_accepts__it_gets_the_one_it_prefers_then_the_smallest(void **state)
{
    static const struct {
        const char *accept, *body, *coding, *tag;
    } rows[] = {
        {NULL, "<page>", NULL, "\"aa\""},
        {"", "<page>", NULL, "\"aa\""},
        {"gzip, deflate, br, zstd", "b", "br", "\"aa-br\""},
        {"gzip", "gz", "gzip", "\"aa-gz\""},
        {"GZip , identity", "gz", "gzip", "\"aa-gz\""},
        {"br;q=0.5, gzip;q=0.9", "gz", "gzip", "\"aa-gz\""},
        {"br ; q=0.9 , gzip ; q=0.9", "b", "br", "\"aa-br\""},
        {"br;q=0, gzip;q=0.001", "gz", "gzip", "\"aa-gz\""},
        {"br;q=0, gzip;q=0", "<page>", NULL, "\"aa\""},
        {"*", "b", "br", "\"aa-br\""},
        {"*;q=0", "<page>", NULL, "\"aa\""},
        {"br;q=0, *", "gz", "gzip", "\"aa-gz\""},
        {"identity, gzip;q=0.5", "<page>", NULL, "\"aa\""},
        {"identity;q=0", "<page>", NULL, "\"aa\""},
        {"zstd", "<page>", NULL, "\"aa\""},
        {"x-br, brr, b", "<page>", NULL, "\"aa\""},
        {"br;q=1.001", "<page>", NULL, "\"aa\""},
        {"br;q=", "<page>", NULL, "\"aa\""},
        {"br;q=0.12345", "<page>", NULL, "\"aa\""},
        {"br;q=1x", "<page>", NULL, "\"aa\""},
        {"br;level=4", "<page>", NULL, "\"aa\""},
        {",,;,;;,gzip;q=1.000,", "gz", "gzip", "\"aa-gz\""},
    };
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_page_answer answer = answer_of(&pages, true, "/lab/", rows[i].accept, NULL);
        char line[64];
        check_lines(&answer);
        CHECK_MSG(answer.status == 200, "row %zu: %u", i, answer.status);
        CHECK_MSG(weir_slice_equal(answer.body, weir_slice_of(rows[i].body)), "row %zu", i);
        snprintf(line, sizeof line, "etag: %s", rows[i].tag);
        CHECK(has_line(&answer, line));
        snprintf(line, sizeof line, "content-encoding: %s", rows[i].coding ? rows[i].coding : "");
        CHECK(has_line(&answer, line) == (rows[i].coding != NULL));
        CHECK(strstr(answer.headers, "content-encoding") == NULL || rows[i].coding);
        CHECK(has_line(&answer, "vary: accept-encoding"));
        CHECK(has_line(&answer, "cache-control: no-cache"));
    }
}

static void page__a_form_that_is_not_kept__is_not_sent(void **state)
{
    (void)state;
    struct weir_page_answer answer = answer_of(&pages, true, "/lab/lab.js", "br, gzip;q=0.1", NULL);
    CHECK(has_line(&answer, "content-encoding: gzip"));
    answer = answer_of(&pages, true, "/lab/weir-lab.html", "br, gzip", NULL);
    CHECK(weir_slice_equal(answer.body, WEIR_SLICE("one")));
}

static void page__the_tag_of_the_very_form_is_known__304_with_the_same_headers(void **state)
{
    static const struct {
        const char *accept, *known;
        bool is_known;
    } rows[] = {
        {"br", "\"aa-br\"", true},
        {"br", "W/\"aa-br\"", true},
        {"br", "\"zz\", \"aa-br\"", true},
        {"br", " \"zz\" ,W/\"aa-br\" , \"y\"", true},
        {"br", "*", true},
        {"br", " * ", true},
        {"br", "\"aa\"", false}, /* it has the plain form, and asks for the other */
        {"br", "\"aa-gz\"", false},
        {"br", "aa-br", false},
        {"br", "\"aa-br", false},
        {"br", "\"bb-br\"", false},
        {"br", "\"*\"", false},
        {NULL, "\"aa\"", true},
        {NULL, "", false},
        {NULL, "W/", false},
        {NULL, ",", false},
    };
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_page_answer answer =
            answer_of(&pages, true, "/lab/", rows[i].accept, rows[i].known);
        check_lines(&answer);
        CHECK_MSG(answer.status == (rows[i].is_known ? 304u : 200u), "row %zu: %u", i,
                  answer.status);
        CHECK(has_line(&answer, rows[i].accept ? "etag: \"aa-br\"" : "etag: \"aa\""));
        CHECK(has_line(&answer, "cache-control: no-cache"));
        CHECK(has_line(&answer, "vary: accept-encoding"));
    }
}

static void page__runs_only_its_own_scripts__and_the_policy_goes_with_each_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < pages.count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/lab/%s", pages.list[i].path);
        struct weir_page_answer answer = answer_of(&pages, true, path, NULL, NULL);
        const char *policy = strstr(answer.headers, "content-security-policy: ");
        CHECK(policy && strstr(policy, "default-src 'self';"));
        CHECK(strstr(policy, "script-src 'self' 'wasm-unsafe-eval';"));
        CHECK(strstr(policy, "frame-ancestors 'none'"));
        CHECK(!strstr(policy, "http") && !strstr(policy, "script-src 'self' 'unsafe-inline'"));
        CHECK(has_line(&answer, "content-disposition: attachment; filename=\"weir-lab.html\"") ==
              pages.list[i].is_download);
    }
}

static void page__any_other_method__405_that_says_which(void **state)
{
    static const char *const paths[] = {"/", "/lab", "/lab/", "/lab/lab.js", "/lab/nothing"};
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(paths); i++) {
        struct weir_page_answer answer = answer_of(&pages, false, paths[i], "br", NULL);
        check_lines(&answer);
        CHECK_INT(answer.status, 405);
        CHECK(has_line(&answer, "allow: GET, HEAD"));
    }
}

static void page__its_names_without_the_slash__lead_to_it(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "/lab"};
    for (size_t i = 0; i < WEIR_COUNT(paths); i++) {
        struct weir_page_answer answer = answer_of(&pages, true, paths[i], NULL, NULL);
        check_lines(&answer);
        CHECK_INT(answer.status, 302);
        CHECK(has_line(&answer, "location: lab/"));
    }
}

static void page__unknown_file__404_that_names_the_page(void **state)
{
    static const char *const paths[] = {"/lab/nothing", "/lab//",         "/lab/lab.js/",
                                        "/lab/lab",     "/lab/../lab.js", "/lab/%6cab.js"};
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(paths); i++) {
        struct weir_page_answer answer = answer_of(&pages, true, paths[i], "br", "*");
        check_lines(&answer);
        CHECK_INT(answer.status, 404);
        CHECK(strstr(answer.body.at, "/lab/"));
    }
}

static void page__not_built_in__404_that_says_how_to_build_it(void **state)
{
    (void)state;
    struct weir_page_answer answer = answer_of(&none, true, "/lab/", "br", NULL);
    CHECK_INT(answer.status, 404);
    CHECK(strstr(answer.body.at, "-Dpages=true"));
    CHECK_INT(answer_of(&none, true, "/lab", NULL, NULL).status, 302);
}

static void page__other_paths__are_not_answered_here(void **state)
{
    static const char *const paths[] = {"",      "*",          "/lab.js", "/labs/",
                                        "/lab2", "/v1/status", "//",      "/LAB/"};
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(paths); i++)
        CHECK(!weir_pages_has(weir_slice_of(paths[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            page__of_the_forms_a_client_accepts__it_gets_the_one_it_prefers_then_the_smallest),
        cmocka_unit_test(page__a_form_that_is_not_kept__is_not_sent),
        cmocka_unit_test(page__the_tag_of_the_very_form_is_known__304_with_the_same_headers),
        cmocka_unit_test(page__runs_only_its_own_scripts__and_the_policy_goes_with_each_file),
        cmocka_unit_test(page__any_other_method__405_that_says_which),
        cmocka_unit_test(page__its_names_without_the_slash__lead_to_it),
        cmocka_unit_test(page__unknown_file__404_that_names_the_page),
        cmocka_unit_test(page__not_built_in__404_that_says_how_to_build_it),
        cmocka_unit_test(page__other_paths__are_not_answered_here),
    };
    return cmocka_run_group_tests_name("gateway/pages", tests, NULL, NULL);
}

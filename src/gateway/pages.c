#include "gateway/pages.h"

#include <stdio.h>

#include "core/base.h"

#define PAGES_ROOT "/lab/"

/* The page runs its own scripts, WebAssembly and a worker, asks its own gateway, and nothing else. The
 * policy is sent with every file: a worker has that of its own script. */
#define PAGES_POLICY                                                                               \
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; " \
    "img-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; base-uri 'none'; "         \
    "form-action 'none'; frame-ancestors 'none'"
#define PAGES_COMMON "x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n"
#define PAGES_TEXT "text/plain; charset=utf-8"

enum page_form { PAGE_PLAIN, PAGE_GZIP, PAGE_BROTLI, PAGE_FORM_COUNT };

static const struct {
    const char *coding; /* as in content-encoding */
    const char *mark;   /* what its tag ends in */
} page_forms[PAGE_FORM_COUNT] = {
    [PAGE_PLAIN] = {"identity", ""}, [PAGE_GZIP] = {"gzip", "-gz"}, [PAGE_BROTLI] = {"br", "-br"}};

static bool slice_begins(struct weir_slice all, struct weir_slice with)
{
    return all.bytes >= with.bytes && memcmp(all.at, with.at, with.bytes) == 0;
}

bool weir_pages_has(struct weir_slice path)
{
    return weir_slice_equal(path, WEIR_SLICE("/")) || weir_slice_equal(path, WEIR_SLICE("/lab")) ||
           slice_begins(path, WEIR_SLICE(PAGES_ROOT));
}

/* ---- lists in headers ---- */

static struct weir_slice slice_trim(struct weir_slice s)
{
    while (s.bytes > 0 && (s.at[0] == ' ' || s.at[0] == '\t'))
        s = (struct weir_slice){s.at + 1, s.bytes - 1};
    while (s.bytes > 0 && (s.at[s.bytes - 1] == ' ' || s.at[s.bytes - 1] == '\t'))
        s.bytes--;
    return s;
}

/* Cuts what stands before the separator off the rest, trimmed. */
static struct weir_slice slice_cut(struct weir_slice *rest, char separator)
{
    const char *end = rest->bytes > 0 ? memchr(rest->at, separator, rest->bytes) : NULL;
    struct weir_slice first = {rest->at, end ? (size_t)(end - rest->at) : rest->bytes};
    *rest = end ? (struct weir_slice){end + 1, rest->bytes - first.bytes - 1}
                : (struct weir_slice){NULL, 0};
    return slice_trim(first);
}

/* "1", "0.25" in thousandths (RFC 9110 12.4.2); anything else: 0, so that no doubtful form is sent. */
static uint32_t quality_read(struct weir_slice text)
{
    uint32_t value, scale = 100;
    if (text.bytes == 0 || text.bytes > 5 || (text.at[0] != '0' && text.at[0] != '1') ||
        (text.bytes > 1 && text.at[1] != '.'))
        return 0;
    value = text.at[0] == '1' ? 1000 : 0;
    for (size_t i = 2; i < text.bytes; i++, scale /= 10) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return 0;
        value += (uint32_t)(text.at[i] - '0') * scale;
    }
    return value <= 1000 ? value : 0;
}

/* How much a coding is wanted, in thousandths; 0: not at all. */
static uint32_t quality_of(struct weir_slice accept, struct weir_slice coding)
{
    const struct weir_slice all = WEIR_SLICE("*");
    uint32_t of_all = 0;
    for (struct weir_slice rest = accept; rest.bytes > 0;) {
        struct weir_slice item = slice_cut(&rest, ','), parameters = item;
        struct weir_slice name = slice_cut(&parameters, ';');
        struct weir_slice weight = slice_trim(parameters);
        uint32_t quality = 1000;
        if (weight.bytes > 0)
            quality =
                slice_begins(weight, WEIR_SLICE("q=")) || slice_begins(weight, WEIR_SLICE("Q="))
                    ? quality_read((struct weir_slice){weight.at + 2, weight.bytes - 2})
                    : 0;
        if (weir_slice_equal_caseless(name, coding))
            return quality;
        if (weir_slice_equal(name, all))
            of_all = quality;
    }
    return of_all;
}

static struct weir_slice page_bytes(const struct weir_page *page, enum page_form form)
{
    switch (form) {
    case PAGE_PLAIN:
        return page->plain;
    case PAGE_GZIP:
        return page->gzip;
    case PAGE_BROTLI:
        return page->brotli;
    case PAGE_FORM_COUNT:
        break;
    }
    WEIR_INVARIANT(false);
}

static enum page_form page_choose(const struct weir_page *page, struct weir_slice accept)
{
    enum page_form best = PAGE_PLAIN;
    /* Not named, the plain form is there for whoever wants none of the others. */
    uint32_t best_quality = quality_of(accept, weir_slice_of(page_forms[PAGE_PLAIN].coding));
    for (int i = PAGE_PLAIN + 1; i < PAGE_FORM_COUNT; i++) {
        enum page_form form = (enum page_form)i;
        struct weir_slice bytes = page_bytes(page, form);
        uint32_t quality = quality_of(accept, weir_slice_of(page_forms[form].coding));
        if (bytes.bytes == 0 || quality == 0 || quality < best_quality ||
            (quality == best_quality && bytes.bytes > page_bytes(page, best).bytes))
            continue;
        best = form;
        best_quality = quality;
    }
    return best;
}

/* Whether If-None-Match names the tag, compared weakly (RFC 9110 13.1.2). Ours hold no comma. */
static bool tag_is_known(struct weir_slice header, struct weir_slice tag)
{
    if (weir_slice_equal(slice_trim(header), WEIR_SLICE("*")))
        return true;
    for (struct weir_slice rest = header; rest.bytes > 0;) {
        struct weir_slice item = slice_cut(&rest, ',');
        if (slice_begins(item, WEIR_SLICE("W/")))
            item = (struct weir_slice){item.at + 2, item.bytes - 2};
        if (weir_slice_equal(item, tag))
            return true;
    }
    return false;
}

/* ---- answers ---- */

static void answer_text(struct weir_page_answer *answer, uint32_t status, const char *headers,
                        struct weir_slice text)
{
    answer->status = status;
    answer->type = PAGES_TEXT;
    answer->body = text;
    snprintf(answer->headers, sizeof answer->headers, "%s%s", headers, PAGES_COMMON);
}

static const struct weir_page *page_find(const struct weir_pages *pages, struct weir_slice name)
{
    for (size_t i = 0; i < pages->count; i++)
        if (weir_slice_equal(name, weir_slice_of(pages->list[i].path)))
            return &pages->list[i];
    return NULL;
}

static void answer_page(const struct weir_page *page, const struct weir_page_request *request,
                        struct weir_page_answer *answer)
{
    enum page_form form = page_choose(page, request->accept_encoding);
    char tag[96];
    snprintf(tag, sizeof tag, "\"%s%s\"", page->tag, page_forms[form].mark);
    bool is_known = tag_is_known(request->if_none_match, weir_slice_of(tag));
    answer->status = is_known ? 304 : 200;
    answer->type = page->type;
    answer->body = page_bytes(page, form);
    char encoded[48] = "", kept[96] = "";
    if (form != PAGE_PLAIN)
        snprintf(encoded, sizeof encoded, "content-encoding: %s\r\n", page_forms[form].coding);
    if (page->is_download)
        snprintf(kept, sizeof kept, "content-disposition: attachment; filename=\"%s\"\r\n",
                 page->path);
    int bytes = snprintf(answer->headers, sizeof answer->headers,
                         "%s%setag: %s\r\ncache-control: no-cache\r\nvary: accept-encoding\r\n"
                         "content-security-policy: " PAGES_POLICY "\r\n" PAGES_COMMON,
                         encoded, kept, tag);
    WEIR_INVARIANT(bytes > 0 && (size_t)bytes < sizeof answer->headers);
}

void weir_pages_answer(const struct weir_pages *pages, const struct weir_page_request *request,
                       struct weir_page_answer *answer)
{
    const struct weir_slice root = WEIR_SLICE(PAGES_ROOT);
    const struct weir_page *page;
    WEIR_INVARIANT(weir_pages_has(request->path));
    if (!request->is_get) {
        answer_text(answer, 405, "allow: GET, HEAD\r\n",
                    WEIR_SLICE("The lab page is only read: GET or HEAD.\n"));
    } else if (!slice_begins(request->path, root)) {
        /* Relative, so that it is right behind a proxy's prefix, too. */
        answer_text(answer, 302, "location: lab/\r\n", WEIR_SLICE("The lab page is at /lab/.\n"));
    } else if (pages->count == 0) {
        answer_text(
            answer, 404, "",
            WEIR_SLICE("This weir was built without the lab page. In its source folder ./run "
                       "builds it with the page and serves; so does, without serving:\n\n"
                       "  sh tools/bootstrap.sh run && sh tools/build.sh build -Dpages=true\n"));
    } else if (!(page = page_find(pages, (struct weir_slice){request->path.at + root.bytes,
                                                             request->path.bytes - root.bytes}))) {
        answer_text(answer, 404, "",
                    WEIR_SLICE("There is no such file; the lab page is at /lab/.\n"));
    } else {
        answer_page(page, request, answer);
    }
}

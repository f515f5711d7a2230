/* Fuzz target: any bytes as a request, or as a response where they begin like one, against llhttp
 * where it is installed, and ours at every split against itself (every split of inputs up to
 * 40 bytes, about forty of longer ones). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WEIR_HAVE_LLHTTP
#include "http1_diff.h"
#else
#include "http1_run.h"
#define HTTP1_DIFF_BYTES_MAX 8192
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fail(const char *where, const char *what)
{
    fprintf(stderr, "%s: %s\n", where, what);
    abort();
}

static void fuzz_one(const struct http1_run_input *in)
{
    static struct http1_run run;
    const char *what;
    size_t split;
#ifdef WEIR_HAVE_LLHTTP
    bool theirs;
    if (!http1_diff(&run, in, &theirs, &what))
        fail("against llhttp", what);
#endif
    if (!http1_run_splits(&run, in, 1 + in->bytes / 40, &what, &split))
        fail("at a split", what);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0 || bytes > HTTP1_DIFF_BYTES_MAX)
        return 0;
    char *text = malloc(bytes); /* of exactly this size: AddressSanitizer guards its end */
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    if (*text == 'H' && bytes > 1 && text[1] == 'T') {
        fuzz_one(&(struct http1_run_input){
            .response = true, .method = WEIR_HTTP_POST, .at = text, .bytes = bytes, .eof = true});
        fuzz_one(&(struct http1_run_input){
            .response = true, .method = WEIR_HTTP_HEAD, .at = text, .bytes = bytes});
    } else {
        fuzz_one(&(struct http1_run_input){.at = text, .bytes = bytes});
    }
    free(text);
    return 0;
}

/* mock_fault: what shall go wrong, as text: words separated by ';' or ','.
 *
 *   status=503        answer with this status and an error body of the dialect
 *   retry-after=2     with status: the hint header (seconds); retry-after-ms=1500 likewise
 *   latency=200ms     before anything of the answer
 *   stall=head        never answer;  stall=body: the head and half of the body, then nothing
 *   cut=N             close in the middle, after N events (stream) or N bytes (whole)
 *   end=tidy          with cut: the framing is ended properly, only the last words are missing
 *   reset=head        reset the connection instead of answering;  reset=body: in the middle
 *   bytewise          every byte of the body in a write of its own
 *   gzip              the body compressed with gzip
 *   html              answer 200 with an HTML page
 *   garbage           answer 200 with a body that is neither JSON nor events
 *   nousage           leave usage out
 *   error=N           an in-band error event after N events
 *   redirect          307 to another address
 *   early             answer with the status (or 413) before the body was read, and close
 *
 * Unknown words are an error, so that a test with a typing mistake does not pass. */
#ifndef WEIR_MOCK_MOCK_FAULT_H
#define WEIR_MOCK_MOCK_FAULT_H

#include "core/base.h"
#include "net/slice.h"

enum mock_place { MOCK_NOWHERE, MOCK_HEAD, MOCK_BODY };

struct mock_fault {
    uint32_t status; /* 0: none */
    uint64_t retry_after_s, retry_after_ms;
    uint64_t latency_ns;
    enum mock_place stall, reset;
    bool has_cut, tidy, bytewise, gzip, html, garbage, no_usage, has_error, redirect, early;
    uint32_t cut, error;
};

/* false: text has a word that is not known; *bad is that word. */
WEIR_MUST_USE bool mock_fault_parse(struct weir_slice text, struct mock_fault *fault,
                                    struct weir_slice *bad);

#endif

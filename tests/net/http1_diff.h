/* http1_diff: our parser held against llhttp (Debian's node-llhttp), compiled in its strict mode.
 *
 * The property: whatever ours accepts, llhttp accepts with the same meaning (method, target,
 * status, reason, every header name and value, decoded body, bytes of the message), and where ours
 * wants to keep the connection, so does llhttp. It is asked of complete messages, and of messages
 * whose head is complete and whose body is still coming.
 *
 * Intended differences, all of them refusals of ours that llhttp accepts:
 *   - a line that ends in LF alone after the start line or the head; folded header lines; an empty
 *     header name; a request line without a version (HTTP/0.9); more than one space around the
 *     target; more than one empty line before a request, any before a response; HTTP/2.0 as a version;
 *   - methods beyond the seven of enum weir_http_method; a fragment, " < > or \ in the target; user
 *     information in an absolute target or no path before its query; schemes but http and https;
 *   - a missing, repeated or malformed Host; an expectation but 100-continue; a Connection header
 *     that is no list of tokens; Transfer-Encoding in HTTP/1.0, and codings before chunked;
 *   - control bytes in a reason phrase; a status below 100; 101, since we never ask for it; a body
 *     announced on 1xx or 204;
 *   - more than one extension a chunk, quoted or empty extension values; framing, routing and
 *     connection fields among trailers; chunk sizes of more than 15 digits;
 *   - everything above our limits (llhttp has none).
 * Intended differences of meaning:
 *   - llhttp does not trim white space after a value; we do, as RFC 9110 5.5 says (the comparison
 *     trims);
 *   - llhttp misreads "close<HTAB>" in Connection; ours may then close where it would not, never
 *     the other way ("keep-alive<HTAB>" of HTTP/1.0 is left out of the comparison);
 *   - llhttp reads Proxy-Connection as it reads Connection; no RFC gives it a meaning, and ours
 *     drops it (left out of the comparison of keep-alive);
 *   - llhttp leaves it to its caller that answers to HEAD and 1xx, 204, 304 have no body; the
 *     harness says so in on_headers_complete, as Node does. */
#ifndef WEIR_TESTS_NET_HTTP1_DIFF_H
#define WEIR_TESTS_NET_HTTP1_DIFF_H

#include "http1_run.h"

#define HTTP1_DIFF_BYTES_MAX 8192 /* of one input */

/* Runs ours (into *run, whole) and llhttp on one input. False if the property fails; *what says
 * where. in->bytes: at most HTTP1_DIFF_BYTES_MAX. *llhttp_accepts: it took the whole message. */
bool http1_diff(struct http1_run *run, const struct http1_run_input *in, bool *llhttp_accepts,
                const char **what);

#endif

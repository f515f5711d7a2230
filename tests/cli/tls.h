/* tls: an endpoint over TLS whose certificate is of an authority that nobody knows. */
#ifndef WEIR_TESTS_CLI_TLS_H
#define WEIR_TESTS_CLI_TLS_H

#include "net/certs.h"

/* From open to close $U is its URL and $CA the file of its authority. It completes handshakes, and answers no
 * POST. Needs openssl's command. */
void tls_open(struct certs *certs);
void tls_close(struct certs *certs);

#endif

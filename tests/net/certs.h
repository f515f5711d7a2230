/* certs: certificates made on the spot, as files in a folder that goes away again. */
#ifndef WEIR_TESTS_CERTS_H
#define WEIR_TESTS_CERTS_H

#include "support/check.h"

struct certs {
    char folder[64];
    char ca_file[96], other_ca_file[96];
    void *ca, *ca_key, *other_ca, *other_ca_key; /* X509, EVP_PKEY */
};

struct cert_rules {
    const char *names;       /* "DNS:localhost,IP:127.0.0.1" */
    long from_days, to_days; /* relative to now; 0, 0: from yesterday to tomorrow */
    bool self_signed, other_ca;
};

void certs_create(struct certs *certs);
void certs_destroy(struct certs *certs);
/* Writes NAME.crt and NAME.key. */
void certs_make(struct certs *certs, const char *name, const struct cert_rules *rules,
                char cert_file[96], char key_file[96]);

#endif

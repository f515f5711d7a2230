#include "certs.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>

#define DAY_S (24L * 3600)

static void extension_add(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    CHECK(e);
    CHECK_INT(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

static X509 *cert_new(EVP_PKEY *key, const char *name, long from_days, long to_days)
{
    static long serial = 1;
    X509 *cert = X509_new();
    CHECK(cert);
    CHECK_INT(X509_set_version(cert, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(cert), from_days * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(cert), to_days * DAY_S);
    CHECK_INT(X509_set_pubkey(cert, key), 1);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    return cert;
}

static void pem_write(const char *file, X509 *cert, EVP_PKEY *key)
{
    FILE *f = fopen(file, "w");
    CHECK(f);
    if (cert)
        CHECK_INT(PEM_write_X509(f, cert), 1);
    if (key)
        CHECK_INT(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
}

static void ca_make(const char *name, const char *file, void **cert, void **key)
{
    EVP_PKEY *k = EVP_EC_gen("P-256");
    X509 *c = cert_new(k, name, -100, 100);
    X509_set_issuer_name(c, X509_get_subject_name(c));
    extension_add(c, c, NID_basic_constraints, "critical,CA:TRUE");
    extension_add(c, c, NID_key_usage, "critical,keyCertSign");
    CHECK(X509_sign(c, k, EVP_sha256()) > 0);
    pem_write(file, c, NULL);
    *cert = c;
    *key = k;
}

void certs_create(struct certs *certs)
{
    snprintf(certs->folder, sizeof certs->folder, "/tmp/weir-certs-XXXXXX");
    CHECK(mkdtemp(certs->folder));
    snprintf(certs->ca_file, sizeof certs->ca_file, "%s/ca.crt", certs->folder);
    snprintf(certs->other_ca_file, sizeof certs->other_ca_file, "%s/other.crt", certs->folder);
    ca_make("test authority", certs->ca_file, &certs->ca, &certs->ca_key);
    ca_make("other authority", certs->other_ca_file, &certs->other_ca, &certs->other_ca_key);
}

void certs_destroy(struct certs *certs)
{
    char command[128];
    X509_free(certs->ca);
    X509_free(certs->other_ca);
    EVP_PKEY_free(certs->ca_key);
    EVP_PKEY_free(certs->other_ca_key);
    snprintf(command, sizeof command, "rm -r '%s'", certs->folder);
    CHECK_INT(system(command), 0);
}

void certs_make(struct certs *certs, const char *name, const struct cert_rules *rules,
                char cert_file[96], char key_file[96])
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    bool dated = rules->from_days || rules->to_days;
    X509 *cert =
        cert_new(key, "ignored.example", dated ? rules->from_days : -1, dated ? rules->to_days : 1);
    X509 *issuer = rules->self_signed ? cert : rules->other_ca ? certs->other_ca : certs->ca;
    EVP_PKEY *issuer_key = rules->self_signed ? key
                           : rules->other_ca  ? certs->other_ca_key
                                              : certs->ca_key;
    X509_set_issuer_name(cert, X509_get_subject_name(issuer));
    extension_add(cert, issuer, NID_subject_alt_name, rules->names);
    CHECK(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
    snprintf(cert_file, 96, "%s/%.16s.crt", certs->folder, name);
    snprintf(key_file, 96, "%s/%.16s.key", certs->folder, name);
    pem_write(cert_file, cert, NULL);
    pem_write(key_file, NULL, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}

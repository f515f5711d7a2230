#include "cli/tls.h"

#include <stdlib.h>

#include "cli/run.h"
#include "support/check.h"

void tls_open(struct certs *certs)
{
    char cert_file[96], key_file[96], line[512];
    certs_create(certs);
    certs_make(certs, "endpoint", &(struct cert_rules){.names = "IP:127.0.0.1"}, cert_file,
               key_file);
    snprintf(
        line, sizeof line,
        "timeout 60 openssl s_server -accept 127.0.0.1:0 -cert %s -key %s -www >$D/tls.log 2>&1 & "
        "echo $! >$D/tls.pid; for i in $(seq 200); do grep -q ACCEPT $D/tls.log && break; "
        "sleep 0.02; done; sed -n 's/^ACCEPT.*:\\([0-9]*\\).*/\\1/p' $D/tls.log",
        cert_file, key_file);
    CHECK_INT(run(line), 0);
    uint32_t port = (uint32_t)strtoul(run_out, NULL, 10);
    CHECK_MSG(port > 0, "%s", run_out);
    snprintf(line, sizeof line, "https://127.0.0.1:%u", port);
    CHECK(setenv("U", line, 1) == 0 && setenv("CA", certs->ca_file, 1) == 0);
}

void tls_close(struct certs *certs)
{
    CHECK_INT(run("kill $(cat $D/tls.pid)"), 0);
    certs_destroy(certs);
}

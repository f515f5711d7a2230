/* forward: the head that goes upstream is written anew from what was parsed, never copied.
 *
 * Left out: what concerns the client's connection only, Host, Content-Length, Expect (the writer
 * does that), every carrier of a credential where the upstream's own is put in or where the
 * client's was a weir key (there the idempotency key becomes the tenant's own, too), and weir's own
 * fields. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/state.h"
#include "net/http1_write.h"

#define FORWARD_EXTRA_BYTES 1024u /* request line, framing, what we add */

/* Fields that can carry a credential of the client. All of them go when the client's credential
 * must not leave. */
#define FORWARD_CREDENTIALS                                                                        \
    (WEIR_HTTP_BIT(WEIR_HTTP_AUTHORIZATION) | WEIR_HTTP_BIT(WEIR_HTTP_X_API_KEY) |                 \
     WEIR_HTTP_BIT(WEIR_HTTP_API_KEY) | WEIR_HTTP_BIT(WEIR_HTTP_X_GOOG_API_KEY) |                  \
     WEIR_HTTP_BIT(WEIR_HTTP_COOKIE))

/* The lines that are the same in every head for an upstream, in each dialect: host, and its
 * credential. */
bool weir_forward_prepare(struct weir_gateway *g)
{
    g->forward = calloc(g->config->upstreams_count, sizeof *g->forward);
    if (!g->forward)
        return false;
    for (uint32_t i = 0; i < g->config->upstreams_count; i++) {
        const struct weir_config_upstream *u = &g->config->upstreams[i];
        bool literal6 = strchr(u->host, ':') != NULL;
        bool usual_port = u->port == (u->is_tls ? 443 : 80);
        char port[8] = "";
        if (!usual_port)
            snprintf(port, sizeof port, ":%u", u->port);
        for (int d = 0; d < 2; d++) {
            const char *field =
                d == WEIR_DIALECT_ANTHROPIC ? "x-api-key: " : "authorization: Bearer ";
            int n = asprintf(&g->forward[i].lines[d], "host: %s%s%s%s\r\n%s%s%s",
                             literal6 ? "[" : "", u->host, literal6 ? "]" : "", port,
                             u->key ? field : "", u->key ? u->key : "", u->key ? "\r\n" : "");
            if (n < 0) {
                g->forward[i].lines[d] = NULL;
                return false;
            }
            g->forward[i].bytes[d] = (size_t)n;
        }
    }
    return true;
}

void weir_forward_free(struct weir_gateway *g)
{
    for (uint32_t i = 0; g->forward && i < g->config->upstreams_count; i++)
        for (int d = 0; d < 2; d++) {
            if (g->forward[i].lines[d])
                explicit_bzero(g->forward[i].lines[d], g->forward[i].bytes[d]);
            free(g->forward[i].lines[d]);
        }
    free(g->forward);
    g->forward = NULL;
}

/* A key may sit anywhere in a field, in its name too. */
static bool forward_holds_key(const struct weir_http_head *head, uint32_t i)
{
    return weir_tenancy_holds_key(weir_http_header_value(head, i)) ||
           weir_tenancy_holds_key(weir_http_header_name(head, i));
}

/* In key mode a key may also sit in a field we do not know. */
static void forward_headers(struct weir_http_out *out, const struct weir_http_head *head,
                            uint64_t skip, bool look_for_keys)
{
    bool found = false;
    for (uint32_t i = 0; look_for_keys && i < head->header_count && !found; i++)
        found = forward_holds_key(head, i);
    if (!found) {
        weir_http_write_passed(out, head, skip);
        return;
    }
    const uint64_t framing = WEIR_HTTP_BIT(WEIR_HTTP_HOST) |
                             WEIR_HTTP_BIT(WEIR_HTTP_CONTENT_LENGTH) |
                             WEIR_HTTP_BIT(WEIR_HTTP_EXPECT);
    for (uint32_t i = 0; i < head->header_count; i++) {
        enum weir_http_name id = (enum weir_http_name)head->header[i].id;
        if (weir_http_is_hop(head, i) ||
            (id != WEIR_HTTP_OTHER && ((skip | framing) & WEIR_HTTP_BIT(id))))
            continue;
        if (!forward_holds_key(head, i))
            weir_http_write_header(out, weir_http_header_name(head, i),
                                   weir_http_header_value(head, i));
    }
}

/* Where all tenants share a credential, an upstream that knows idempotency keys would take equal
 * keys of two tenants for one: it gets the digest, which is a tenant's own. */
static void forward_key(struct weir_http_out *out, const struct weir_idempotency_id *id)
{
    char line[64] = "idempotency-key: \"weir-";
    size_t used = strlen(line);
    for (size_t i = 0; i < sizeof id->key; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%02x", id->key[i]);
    used += (size_t)snprintf(line + used, sizeof line - used, "\"\r\n");
    weir_http_write_raw(out, (struct weir_slice){line, used});
}

bool weir_forward_head(struct weir_request *r, uint32_t upstream, bool has_body,
                       uint64_t body_bytes, struct weir_slice *head)
{
    const struct weir_gateway *g = r->g;
    const struct weir_config_upstream *u = &g->config->upstreams[upstream];
    const struct weir_http_head *from = weir_exchange_head(r->x);
    struct weir_slice lines = {g->forward[upstream].lines[r->dialect],
                               g->forward[upstream].bytes[r->dialect]};
    size_t room = from->head_bytes + FORWARD_EXTRA_BYTES + lines.bytes + strlen(u->prefix);
    if (r->head_room < room) {
        char *bigger = realloc(r->head, room);
        if (!bigger)
            return false;
        r->head = bigger;
        r->head_room = room;
    }
    struct weir_slice path = weir_http_text(from, from->path);
    char joined[WEIR_HTTP_TARGET_BYTES_MAX + 512];
    size_t joined_bytes =
        weir_path_join(u->prefix, strlen(u->prefix), path.at, path.bytes, joined, sizeof joined);
    if (joined_bytes == 0)
        return false;

    bool key_mode = weir_tenancy_is_key_mode(g->tenancy);
    uint64_t skip = WEIR_HTTP_BIT(WEIR_HTTP_WEIR_LANE) | WEIR_HTTP_BIT(WEIR_HTTP_WEIR_SOURCE);
    if (key_mode || u->key)
        skip |= FORWARD_CREDENTIALS | WEIR_HTTP_BIT(WEIR_HTTP_IDEMPOTENCY_KEY);
    bool identity = r->metered && u->edits.identity;
    if (identity)
        skip |= WEIR_HTTP_BIT(WEIR_HTTP_ACCEPT_ENCODING);

    struct weir_http_out out = {.buf = r->head, .room = r->head_room};
    weir_http_write_request(&out, from->method, (struct weir_slice){joined, joined_bytes});
    weir_http_write_raw(&out, lines);
    forward_headers(&out, from, skip, key_mode);
    if (identity)
        weir_http_write_raw(&out, WEIR_SLICE("accept-encoding: identity\r\n"));
    if ((key_mode || u->key) && r->key_slot != WEIR_NONE)
        forward_key(&out, weir_idempotency_id(g->idempotency, r->key_slot));
    if (has_body)
        weir_http_write_content_length(&out, body_bytes);
    weir_http_write_end(&out);
    *head = (struct weir_slice){out.buf, out.used};
    return weir_http_out_ok(&out);
}

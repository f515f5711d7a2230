#include "gateway/config_rules.h"
#include "gateway/state.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENANCY_DIGEST_BYTES 32
#define TENANCY_IDLE_NS                                                                            \
    (600 * WEIR_NS_PER_S) /* a pass-through tenant idle for so long may be forgotten */
#define TENANCY_KEY_PREFIX "wk_"
#define TENANCY_KEY_RUN (WEIR_KEY_CHARS - (sizeof TENANCY_KEY_PREFIX - 1))

enum tenancy_origin { ORIGIN_FREE, ORIGIN_BUILTIN, ORIGIN_CONFIG, ORIGIN_KEY, ORIGIN_PASSED };

/* What its first key gives a tenant that the configuration does not name. */
struct tenancy_place {
    uint32_t weight, lane;
    uint32_t scope;  /* in the configuration; WEIR_NONE: its own, unlimited */
    bool is_without; /* the key names a scope that the configuration does not have */
};

struct tenancy_entry {
    char name[WEIR_TENANT_NAME_BYTES];
    enum tenancy_origin origin;
    const struct weir_config_tenant *config; /* ORIGIN_CONFIG */
    struct tenancy_place place;              /* ORIGIN_KEY */
    bool is_placed;                          /* ORIGIN_KEY: by the keys as they were last read */
    uint8_t digest[TENANCY_DIGEST_BYTES];    /* ORIGIN_PASSED */
    uint32_t connections, connections_max;   /* max 0: none */
    uint64_t seen_ns;
    uint32_t older, newer; /* ORIGIN_PASSED: by last use */
    uint32_t lane;
    uint32_t uncounted; /* answers in a row that came to no token */
    bool has_token_budget;
};

/* A digest (of a key, or of a passed credential) and whose it is. */
struct tenancy_digest {
    uint8_t digest[TENANCY_DIGEST_BYTES];
    uint32_t tenant;
    bool used;
};

/* A credential seen of late. Direct-mapped: a newcomer takes the place of another. */
#define TENANCY_RECENT 1024u /* a power of two */
#define TENANCY_RECENT_BYTES 240u
struct tenancy_recent {
    uint32_t tenant;
    uint32_t generation;
    uint16_t bytes; /* 0: free */
    char credential[TENANCY_RECENT_BYTES];
};

struct weir_tenancy {
    const struct weir_config *config;
    struct weir_keys *keys;
    struct weir_gateway *g;
    uint8_t secret[32];
    bool key_mode;
    uint32_t generation; /* of what is remembered: a change makes it all old */
    struct tenancy_recent *recent;
    uint32_t end, max;
    struct tenancy_entry *entries;
    uint32_t oldest, newest;
    uint32_t overflow_scope;
    uint32_t slots; /* of the digest table, a power of two, at most half full */
    uint32_t digests_now;
    struct tenancy_digest *digests;
};

/* ---- the digest table: open addressing; digests are uniform, so their first bytes are the hash
 * ---- */

static uint32_t digest_slot(const struct weir_tenancy *t,
                            const uint8_t digest[TENANCY_DIGEST_BYTES])
{
    uint32_t h;
    memcpy(&h, digest, sizeof h);
    return h & (t->slots - 1);
}

static uint32_t digest_find(const struct weir_tenancy *t,
                            const uint8_t digest[TENANCY_DIGEST_BYTES])
{
    uint32_t found = WEIR_NONE;
    for (uint32_t i = digest_slot(t, digest); t->digests[i].used; i = (i + 1) & (t->slots - 1))
        if (CRYPTO_memcmp(t->digests[i].digest, digest, TENANCY_DIGEST_BYTES) == 0)
            found = t->digests[i].tenant;
    return found;
}

static bool digest_add(struct weir_tenancy *t, const uint8_t digest[TENANCY_DIGEST_BYTES],
                       uint32_t tenant)
{
    if (t->digests_now >= t->slots / 2)
        return false;
    uint32_t i = digest_slot(t, digest);
    while (t->digests[i].used)
        i = (i + 1) & (t->slots - 1);
    memcpy(t->digests[i].digest, digest, TENANCY_DIGEST_BYTES);
    t->digests[i].tenant = tenant;
    t->digests[i].used = true;
    t->digests_now++;
    return true;
}

/* Removes and moves back what probed past it (no tombstones). */
static void digest_remove(struct weir_tenancy *t, const uint8_t digest[TENANCY_DIGEST_BYTES])
{
    uint32_t mask = t->slots - 1, i = digest_slot(t, digest);
    while (t->digests[i].used && memcmp(t->digests[i].digest, digest, TENANCY_DIGEST_BYTES) != 0)
        i = (i + 1) & mask;
    if (!t->digests[i].used)
        return;
    t->digests_now--;
    for (uint32_t j = (i + 1) & mask; t->digests[j].used; j = (j + 1) & mask) {
        uint32_t home = digest_slot(t, t->digests[j].digest);
        if (((j - home) & mask) >= ((j - i) & mask)) {
            t->digests[i] = t->digests[j];
            i = j;
        }
    }
    t->digests[i].used = false;
}

/* ---- entries ---- */

/* The place of a key's tenant. Unknown means no: one whose budget is not there has none to spend
 * from, rather than all of it. A lane that is not there is the default one: it decides nothing but
 * order. */
static struct tenancy_place tenancy_place(const struct weir_config *config,
                                          const struct weir_key *key)
{
    struct tenancy_place place = {
        .weight = key->weight, .lane = config->lane_default, .scope = WEIR_NONE};
    for (uint32_t i = 0; key->lane && i < config->lanes_count; i++)
        if (strcmp(config->lanes[i].name, key->lane) == 0)
            place.lane = i;
    for (uint32_t i = 0; key->scope && i < config->scopes_count; i++)
        if (strcmp(config->scopes[i].name, key->scope) == 0)
            place.scope = i;
    place.is_without = key->scope && place.scope == WEIR_NONE;
    return place;
}

/* The tenant's rules; its scope is the configured one, else an implicit one of its name. */
static void tenancy_tell_flow(struct weir_tenancy *t, uint32_t tenant,
                              const struct weir_config_tenant *c, const struct tenancy_place *place,
                              uint64_t now_ns)
{
    struct weir_tenant_rules rules = weir_config_tenant_rules(t->config, c);
    uint32_t scope = c ? c->scope_index : WEIR_NONE;
    if (!c && place) {
        rules.weight = place->weight;
        rules.lane = place->lane;
        rules.paused = place->is_without;
        scope = place->scope;
    }
    if (scope != WEIR_NONE) {
        rules.scope = weir_gateway_scope(t->g, scope);
        weir_config_scope_rules(&t->config->scopes[scope], &rules);
    } else {
        rules.scope = weir_gateway_tenant_scope(t->g, t->entries[tenant].name);
        if (tenant == WEIR_TENANT_OVERFLOW)
            t->overflow_scope = rules.scope;
        if (rules.scope == WEIR_NONE) /* no room now: its use is recorded with the others' */
            rules.scope = t->overflow_scope;
    }
    t->entries[tenant].lane = rules.lane;
    t->entries[tenant].has_token_budget = scope != WEIR_NONE || rules.tokens.rate_micro_per_s > 0;
    weir_flow_tenant_set(t->g->flow, tenant, &rules, now_ns);
}

static uint32_t tenancy_new(struct weir_tenancy *t, enum tenancy_origin origin, const char *name)
{
    uint32_t tenant = WEIR_NONE;
    if (t->end < t->max)
        tenant = t->end++;
    if (tenant == WEIR_NONE)
        return WEIR_NONE;
    struct tenancy_entry *e = &t->entries[tenant];
    *e = (struct tenancy_entry){.origin = origin,
                                .connections_max = t->config->limits.connections_per_tenant,
                                .older = WEIR_NONE,
                                .newer = WEIR_NONE};
    snprintf(e->name, sizeof e->name, "%s", name);
    return tenant;
}

static uint32_t tenancy_named(const struct weir_tenancy *t, const char *name)
{
    for (uint32_t i = WEIR_TENANT_FIRST; i < t->end; i++)
        if (t->entries[i].origin != ORIGIN_FREE && strcmp(t->entries[i].name, name) == 0)
            return i;
    return WEIR_NONE;
}

/* Puts a key's tenant where its first key says, which may be another than before: keys were revoked
 * and made anew. True when it was put, and the scope is not there. */
static bool tenancy_put(struct weir_tenancy *t, uint32_t tenant, const struct weir_key *key,
                        uint64_t now_ns)
{
    struct tenancy_entry *e = &t->entries[tenant];
    if (e->origin != ORIGIN_KEY || e->is_placed)
        return false;
    struct tenancy_place place = tenancy_place(t->config, key), was = e->place;
    e->is_placed = true;
    e->place = place;
    if (was.weight != place.weight || was.lane != place.lane || was.scope != place.scope ||
        was.is_without != place.is_without)
        tenancy_tell_flow(t, tenant, NULL, &place, now_ns); /* weight 0: never told */
    return place.is_without;
}

/* Enters all keys anew: those of the configuration, then those made at run time. */
static bool tenancy_load_keys(struct weir_tenancy *t, uint64_t now_ns)
{
    if (t->digests_now >
        0) /* an empty table stays untouched: it has room for every tenant allowed */
        memset(t->digests, 0, t->slots * sizeof *t->digests);
    t->digests_now = 0;
    bool all = true;
    for (uint32_t i = 0; i < t->config->tenants_count; i++) {
        const struct weir_config_tenant *c = &t->config->tenants[i];
        for (uint32_t k = 0; k < c->key_sha256_count; k++)
            all = digest_add(t, c->key_sha256[k], WEIR_TENANT_FIRST + i) && all;
    }
    for (uint32_t i = WEIR_TENANT_FIRST; i < t->end; i++)
        t->entries[i].is_placed = false;
    const struct weir_key *without = NULL;
    uint32_t without_count = 0;
    for (uint32_t i = 0; i < weir_keys_count(t->keys); i++) {
        const struct weir_key *key = weir_keys_at(t->keys, i);
        uint32_t tenant = tenancy_named(t, key->tenant);
        if (tenant == WEIR_NONE)
            tenant = tenancy_new(t, ORIGIN_KEY, key->tenant);
        all = tenant != WEIR_NONE && digest_add(t, key->sha256, tenant) && all;
        if (tenant != WEIR_NONE && tenancy_put(t, tenant, key, now_ns)) {
            without = without ? without : key;
            without_count++;
        }
    }
    if (without)
        weir_log_message(t->g->log, WEIR_LOG_WARN,
                         "key %s: its scope '%s' is not in the configuration, so tenant %s has no "
                         "budget and is refused (%" PRIu32 " such tenant%s); revoke the key and "
                         "make it anew, or give the configuration that scope and start again",
                         without->id, without->scope, without->tenant, without_count,
                         without_count == 1 ? "" : "s");
    return all;
}

struct weir_tenancy *weir_tenancy_create(const struct weir_config *config, struct weir_keys *keys,
                                         const uint8_t secret[32], struct weir_gateway *g,
                                         uint64_t now_ns)
{
    struct weir_tenancy *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->config = config;
    t->keys = keys;
    t->g = g;
    t->max = config->limits.tenants + WEIR_TENANT_FIRST;
    t->oldest = t->newest = WEIR_NONE;
    t->generation = 1;
    memcpy(t->secret, secret, sizeof t->secret);
    for (t->slots = 64; t->slots < 4 * t->max;)
        t->slots *= 2;
    t->entries = calloc(t->max, sizeof *t->entries);
    t->digests = calloc(t->slots, sizeof *t->digests);
    t->recent = calloc(TENANCY_RECENT, sizeof *t->recent);
    if (!t->entries || !t->digests || !t->recent) {
        weir_tenancy_destroy(t);
        return NULL;
    }
    t->key_mode = config->tenants_count > 0 || weir_keys_were_made(keys);
    t->entries[tenancy_new(t, ORIGIN_BUILTIN, "anonymous")].connections_max = 0;
    t->entries[tenancy_new(t, ORIGIN_BUILTIN, "overflow")].connections_max = 0;
    tenancy_tell_flow(t, WEIR_TENANT_OVERFLOW, NULL, NULL, now_ns);
    tenancy_tell_flow(t, WEIR_TENANT_ANONYMOUS, NULL, NULL, now_ns);
    for (uint32_t i = 0; i < config->tenants_count; i++) {
        const struct weir_config_tenant *c = &config->tenants[i];
        uint32_t tenant = tenancy_new(t, ORIGIN_CONFIG, c->name);
        if (tenant == WEIR_NONE)
            break; /* the configuration's own check has limits.tenants >= tenants */
        t->entries[tenant].config = c;
        if (c->max_connections)
            t->entries[tenant].connections_max = c->max_connections;
        tenancy_tell_flow(t, tenant, c, NULL, now_ns);
    }
    tenancy_load_keys(t, now_ns);
    return t;
}

void weir_tenancy_destroy(struct weir_tenancy *t)
{
    if (!t)
        return;
    OPENSSL_cleanse(t->secret, sizeof t->secret);
    if (t->recent)
        OPENSSL_cleanse(t->recent, TENANCY_RECENT * sizeof *t->recent);
    free(t->recent);
    free(t->entries);
    free(t->digests);
    free(t);
}

bool weir_tenancy_is_key_mode(const struct weir_tenancy *t)
{
    return t->key_mode;
}

void weir_tenancy_refresh(struct weir_tenancy *t, uint64_t now_ns)
{
    if (!weir_keys_reload_if_changed(t->keys))
        return;
    if (!t->key_mode && weir_keys_were_made(t->keys)) {
        /* The first key ends pass-through: its tenants can no longer be named by a credential. */
        t->key_mode = true;
        for (uint32_t i = WEIR_TENANT_FIRST; i < t->end; i++)
            if (t->entries[i].origin == ORIGIN_PASSED)
                t->entries[i].seen_ns = 0;
    }
    tenancy_load_keys(t, now_ns);
    t->generation++;
}

/* ---- from a credential to a tenant ---- */

static bool tenancy_is_base62(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool weir_tenancy_holds_key(struct weir_slice value)
{
    const size_t prefix = sizeof TENANCY_KEY_PREFIX - 1;
    while (value.bytes >= prefix + TENANCY_KEY_RUN) {
        const char *at = memmem(value.at, value.bytes, TENANCY_KEY_PREFIX, prefix);
        if (!at)
            return false;
        size_t left = value.bytes - (size_t)(at - value.at) - prefix, run = 0;
        while (run < left && run < TENANCY_KEY_RUN &&
               tenancy_is_base62((unsigned char)at[prefix + run]))
            run++;
        if (run == TENANCY_KEY_RUN)
            return true;
        value.bytes -= (size_t)(at + 1 - value.at);
        value.at = at + 1;
    }
    return false;
}

/* The value behind "Bearer ", or the whole value when there is another scheme or none. */
static struct weir_slice tenancy_bearer(struct weir_slice value)
{
    const struct weir_slice scheme = WEIR_SLICE("Bearer ");
    if (value.bytes > scheme.bytes &&
        weir_slice_equal_caseless((struct weir_slice){value.at, scheme.bytes}, scheme)) {
        value.at += scheme.bytes;
        value.bytes -= scheme.bytes;
        while (value.bytes > 0 && *value.at == ' ') {
            value.at++;
            value.bytes--;
        }
    }
    return value;
}

/* The one credential of a request; at == NULL: none. false: two that differ. */
static bool tenancy_credential(const struct weir_http_head *head, struct weir_slice *credential)
{
    *credential = (struct weir_slice){NULL, 0};
    const enum weir_http_name carriers[] = {WEIR_HTTP_AUTHORIZATION, WEIR_HTTP_X_API_KEY};
    for (size_t c = 0; c < WEIR_COUNT(carriers); c++) {
        for (uint32_t i = weir_http_find(head, carriers[c]); i != WEIR_NONE;
             i = weir_http_find_next(head, carriers[c], i)) {
            struct weir_slice value = weir_http_header_value(head, i);
            if (carriers[c] == WEIR_HTTP_AUTHORIZATION)
                value = tenancy_bearer(value);
            if (value.bytes == 0)
                continue;
            if (credential->at && !weir_slice_equal(*credential, value))
                return false;
            *credential = value;
        }
    }
    return true;
}

static void tenancy_unlink(struct weir_tenancy *t, uint32_t tenant)
{
    struct tenancy_entry *e = &t->entries[tenant];
    if (e->older != WEIR_NONE)
        t->entries[e->older].newer = e->newer;
    else if (t->oldest == tenant)
        t->oldest = e->newer;
    if (e->newer != WEIR_NONE)
        t->entries[e->newer].older = e->older;
    else if (t->newest == tenant)
        t->newest = e->older;
    e->older = e->newer = WEIR_NONE;
}

static void tenancy_touch(struct weir_tenancy *t, uint32_t tenant, uint64_t now_ns)
{
    struct tenancy_entry *e = &t->entries[tenant];
    e->seen_ns = now_ns;
    if (t->newest == tenant)
        return;
    tenancy_unlink(t, tenant);
    e->older = t->newest;
    if (t->newest != WEIR_NONE)
        t->entries[t->newest].newer = tenant;
    t->newest = tenant;
    if (t->oldest == WEIR_NONE)
        t->oldest = tenant;
}

/* Forgets the least recently used pass-through tenant if it is idle; its index is given again. */
static uint32_t tenancy_reclaim(struct weir_tenancy *t, uint64_t now_ns)
{
    uint32_t tenant = t->oldest;
    if (tenant == WEIR_NONE)
        return WEIR_NONE;
    struct tenancy_entry *e = &t->entries[tenant];
    if (e->connections > 0 || now_ns - e->seen_ns < TENANCY_IDLE_NS ||
        !weir_flow_tenant_forget(t->g->flow, tenant))
        return WEIR_NONE;
    weir_gateway_tenant_scope_forget(t->g, e->name);
    weir_metrics_tenant_forget(&t->g->metrics, tenant);
    digest_remove(t, e->digest);
    tenancy_unlink(t, tenant);
    t->generation++; /* whoever is remembered under this index must be looked up again */
    return tenant;
}

static uint32_t tenancy_passed(struct weir_tenancy *t, struct weir_slice credential,
                               uint64_t now_ns)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_bytes = 0;
    if (!HMAC(EVP_sha256(), t->secret, sizeof t->secret, (const unsigned char *)credential.at,
              credential.bytes, digest, &digest_bytes))
        return WEIR_TENANT_OVERFLOW;
    uint32_t tenant = digest_find(t, digest);
    if (tenant != WEIR_NONE)
        return tenant;
    char name[11];
    snprintf(name, sizeof name, "%02x%02x%02x%02x%02x", digest[0], digest[1], digest[2], digest[3],
             digest[4]);
    tenant = tenancy_new(t, ORIGIN_PASSED, name);
    if (tenant == WEIR_NONE) {
        tenant = tenancy_reclaim(t, now_ns);
        if (tenant == WEIR_NONE)
            return WEIR_TENANT_OVERFLOW;
        snprintf(t->entries[tenant].name, sizeof t->entries[tenant].name, "%s", name);
    }
    memcpy(t->entries[tenant].digest, digest, TENANCY_DIGEST_BYTES);
    digest_add(t, digest, tenant);
    tenancy_tell_flow(t, tenant, NULL, NULL, now_ns);
    return tenant;
}

static uint32_t tenancy_keyed(const struct weir_tenancy *t, struct weir_slice credential)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_bytes = 0;
    if (!weir_key_is_well_formed(credential.at, credential.bytes) ||
        !EVP_Digest(credential.at, credential.bytes, digest, &digest_bytes, EVP_sha256(), NULL))
        return WEIR_NONE;
    return digest_find(t, digest);
}

/* Where a credential would be remembered; NULL: it is too long to be. The hash is seeded with the
 * secret: who does not know it cannot aim at another's place, and a collision costs a digest,
 * nothing more. */
static struct tenancy_recent *tenancy_recent(struct weir_tenancy *t, struct weir_slice credential)
{
    if (credential.bytes == 0 || credential.bytes > TENANCY_RECENT_BYTES)
        return NULL;
    uint64_t h, k, word;
    memcpy(&h, t->secret, sizeof h);
    memcpy(&k, t->secret + 8, sizeof k);
    for (size_t i = 0; i < credential.bytes; i += sizeof word) {
        size_t n = credential.bytes - i < sizeof word ? credential.bytes - i : sizeof word;
        word = 0;
        memcpy(&word, credential.at + i, n);
        unsigned __int128 m = (unsigned __int128)(h ^ word) * (k | 1);
        h = (uint64_t)m ^ (uint64_t)(m >> 64);
    }
    return &t->recent[(h ^ credential.bytes) & (TENANCY_RECENT - 1)];
}

static bool tenancy_is_recent(const struct weir_tenancy *t, const struct tenancy_recent *r,
                              struct weir_slice credential)
{
    return r && r->bytes == credential.bytes && r->generation == t->generation &&
           CRYPTO_memcmp(r->credential, credential.at, credential.bytes) == 0;
}

enum weir_refusal weir_tenancy_identify(struct weir_tenancy *t, const struct weir_http_head *head,
                                        uint64_t now_ns, uint32_t *tenant)
{
    struct weir_slice credential;
    if (!tenancy_credential(head, &credential))
        return WEIR_REFUSAL_KEYS_DIFFER;
    if (!t->key_mode && weir_http_has(head, WEIR_HTTP_ORIGIN))
        return WEIR_REFUSAL_ORIGIN;
    struct tenancy_recent *recent = tenancy_recent(t, credential);
    if (tenancy_is_recent(t, recent, credential)) {
        *tenant = recent->tenant;
    } else {
        if (t->key_mode)
            *tenant = credential.at ? tenancy_keyed(t, credential) : WEIR_NONE;
        else
            *tenant = credential.at ? tenancy_passed(t, credential, now_ns) : WEIR_TENANT_ANONYMOUS;
        if (*tenant == WEIR_NONE)
            return WEIR_REFUSAL_KEY_UNKNOWN;
        if (recent) {
            recent->tenant = *tenant;
            recent->generation =
                t->generation; /* after the lookup, which may have made a new one */
            recent->bytes = (uint16_t)credential.bytes;
            memcpy(recent->credential, credential.at, credential.bytes);
        }
    }
    if (t->entries[*tenant].origin == ORIGIN_PASSED)
        tenancy_touch(t, *tenant, now_ns);
    return WEIR_REFUSAL_NONE;
}

/* ---- looking in ---- */

bool weir_tenancy_connect(struct weir_tenancy *t, uint32_t tenant)
{
    struct tenancy_entry *e = &t->entries[tenant];
    if (e->connections_max > 0 && e->connections >= e->connections_max)
        return false;
    e->connections++;
    return true;
}

void weir_tenancy_disconnect(struct weir_tenancy *t, uint32_t tenant)
{
    WEIR_INVARIANT(t->entries[tenant].connections > 0);
    t->entries[tenant].connections--;
}

const char *weir_tenancy_name(const struct weir_tenancy *t, uint32_t tenant)
{
    return tenant < t->end && t->entries[tenant].origin != ORIGIN_FREE ? t->entries[tenant].name
                                                                       : NULL;
}

const struct weir_config_tenant *weir_tenancy_config(const struct weir_tenancy *t, uint32_t tenant)
{
    return t->entries[tenant].config;
}

uint32_t weir_tenancy_lane(const struct weir_tenancy *t, uint32_t tenant)
{
    return t->entries[tenant].lane;
}

uint32_t weir_tenancy_end(const struct weir_tenancy *t)
{
    return t->end;
}

uint32_t weir_tenancy_connections(const struct weir_tenancy *t, uint32_t tenant)
{
    return t->entries[tenant].connections;
}

bool weir_tenancy_has_token_budget(const struct weir_tenancy *t, uint32_t tenant)
{
    return t->entries[tenant].has_token_budget;
}

void weir_tenancy_count(struct weir_tenancy *t, uint32_t tenant, uint64_t charged_tok)
{
    struct tenancy_entry *e = &t->entries[tenant];
    e->uncounted = charged_tok > 0 ? 0 : e->uncounted + (e->uncounted < UINT32_MAX);
    if (e->has_token_budget && e->uncounted == WEIR_LIMITER_IDLE_ANSWERS)
        weir_log_message(t->g->log, WEIR_LOG_WARN,
                         "tenant %s: its last %u answers came to no token, so its token limit "
                         "limits nothing. Does the upstream report usage of 0? See outcome and "
                         "upstream of its lines in the access log",
                         e->name, e->uncounted);
}

uint32_t weir_tenancy_limiters_idle(const struct weir_tenancy *t)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->end; i++)
        count += t->entries[i].origin != ORIGIN_FREE && t->entries[i].has_token_budget &&
                 t->entries[i].uncounted >= WEIR_LIMITER_IDLE_ANSWERS;
    return count;
}

#include "support/check.h"

#include "gateway/keys.h"
#include "gateway/keys_file.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each case has a state directory of its own; teardown removes it. */
static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/weir-keys-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    DIR *open_dir = opendir(dir);
    for (struct dirent *entry; open_dir && (entry = readdir(open_dir));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        unlink(path);
    }
    if (open_dir)
        closedir(open_dir);
    return rmdir(dir);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, mode) == 0);
}

static struct weir_keys *open_right(void)
{
    struct weir_keys_error error = {""};
    struct weir_keys *keys = weir_keys_open(dir, &error);
    CHECK_MSG(keys, "%.300s", error.text);
    return keys;
}

static void add_right(struct weir_keys *keys, const char *tenant, char key[WEIR_KEY_CHARS + 1])
{
    struct weir_keys_error error = {""};
    struct weir_key_wish wish = {.tenant = tenant, .weight = 1};
    CHECK_MSG(weir_keys_add(keys, &wish, key, &error), "%.300s", error.text);
}

static void key__form__is_checked_to_the_last_character(void **state)
{
    (void)state;
    struct weir_keys *keys = open_right();
    char key[WEIR_KEY_CHARS + 1];
    add_right(keys, "a", key);
    weir_keys_close(keys);
    CHECK_INT(strlen(key), WEIR_KEY_CHARS);
    CHECK(weir_key_is_well_formed(key, WEIR_KEY_CHARS));
    CHECK(!weir_key_is_well_formed(key, WEIR_KEY_CHARS - 1));
    for (size_t i = 0; i < WEIR_KEY_CHARS; i++) {
        char kept = key[i];
        for (int c = 1; c < 128; c++) {
            key[i] = (char)c;
            CHECK_MSG(weir_key_is_well_formed(key, WEIR_KEY_CHARS) == (c == kept), "at %zu, %d", i,
                      c);
        }
        key[i] = kept;
    }
    for (size_t i = 3; i + 1 < WEIR_KEY_CHARS; i++) {
        char first = key[i], second = key[i + 1];
        key[i] = second;
        key[i + 1] = first;
        CHECK_MSG(weir_key_is_well_formed(key, WEIR_KEY_CHARS) == (first == second), "swap at %zu",
                  i);
        key[i] = first;
        key[i + 1] = second;
    }
    CHECK(!weir_key_is_well_formed("", 0));
    CHECK(!weir_key_is_well_formed("sk-something-of-a-provider-that-has-52-characters-12", 52));
}

static void key__characters__are_evenly_spread(void **state)
{
    (void)state;
    enum { DRAWS = 620000, MEAN = DRAWS / 62 };
    static char drawn[DRAWS + 1];
    unsigned seen[128] = {0};
    weir_random_base62(drawn, DRAWS);
    CHECK_INT(strlen(drawn), DRAWS);
    for (size_t i = 0; i < DRAWS; i++)
        seen[(unsigned char)drawn[i]]++;
    /* The deviation is 100; a byte taken modulo 62 would give the first eight 12,100 each. */
    for (int c = 0; c < 128; c++)
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
            CHECK_MSG(seen[c] > MEAN - 700 && seen[c] < MEAN + 700, "%c %u", c, seen[c]);
}

static void keys__none_made__opens_empty_and_makes_nothing(void **state)
{
    (void)state;
    struct weir_keys *keys = open_right();
    CHECK_INT(weir_keys_count(keys), 0);
    CHECK(!weir_keys_were_made(keys));
    CHECK(!weir_keys_reload_if_changed(keys));
    CHECK(weir_keys_trouble(keys) == NULL);
    weir_keys_close(keys);
    char path[512];
    snprintf(path, sizeof path, "%s/keys.json", dir);
    CHECK(access(path, F_OK) != 0);
}

static void keys__made__survive_and_only_the_digest_is_kept(void **state)
{
    (void)state;
    struct weir_keys *keys = open_right();
    char key[WEIR_KEY_CHARS + 1];
    struct weir_keys_error error = {""};
    struct weir_key_wish wish = {
        .tenant = "alpha", .weight = 7, .lane = "batch", .scope = "org/team"};
    CHECK(weir_keys_add(keys, &wish, key, &error));
    weir_keys_close(keys);

    keys = open_right();
    CHECK_INT(weir_keys_count(keys), 1);
    CHECK(weir_keys_were_made(keys));
    const struct weir_key *kept = weir_keys_at(keys, 0);
    uint8_t digest[EVP_MAX_MD_SIZE];
    CHECK(EVP_Digest(key, WEIR_KEY_CHARS, digest, NULL, EVP_sha256(), NULL));
    CHECK_MEM(kept->sha256, 32, digest, 32);
    CHECK_STR(kept->tenant, "alpha");
    CHECK_STR(kept->lane, "batch");
    CHECK_STR(kept->scope, "org/team");
    CHECK_INT(kept->weight, 7);
    CHECK_INT(strlen(kept->id), WEIR_KEY_ID_CHARS);

    char path[512], text[4096] = "";
    struct stat about;
    snprintf(path, sizeof path, "%s/keys.json", dir);
    CHECK(stat(path, &about) == 0 && (about.st_mode & 0777) == 0600);
    FILE *file = fopen(path, "r");
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    CHECK(!strstr(text, key) && !strstr(text, "wk_"));
    weir_keys_close(keys);
}

static void keys__revoke__by_id_and_by_tenant(void **state)
{
    (void)state;
    struct weir_keys *keys = open_right();
    struct weir_keys_error error = {""};
    char key[WEIR_KEY_CHARS + 1], id[WEIR_KEY_ID_CHARS + 1];
    add_right(keys, "a", key);
    add_right(keys, "b", key);
    add_right(keys, "a", key);
    strcpy(id, weir_keys_at(keys, 2)->id);
    uint32_t revoked = 9;
    CHECK(weir_keys_revoke(keys, "c", &revoked, &error));
    CHECK_INT(revoked, 0);
    CHECK(weir_keys_revoke(keys, id, &revoked, &error));
    CHECK_INT(revoked, 1);
    CHECK_INT(weir_keys_count(keys), 2);
    CHECK_STR(weir_keys_at(keys, 1)->tenant, "b");
    CHECK(weir_keys_revoke(keys, "a", &revoked, &error));
    CHECK_INT(revoked, 1);
    CHECK(weir_keys_revoke(keys, "b", &revoked, &error));
    CHECK_INT(weir_keys_count(keys), 0);
    weir_keys_close(keys);
    keys = open_right();
    CHECK_INT(weir_keys_count(keys), 0);
    CHECK(weir_keys_were_made(
        keys)); /* so the gateway does not fall back to passing credentials on */
    weir_keys_close(keys);
}

static void keys__of_one_tenant__are_alike_but_for_the_key(void **state)
{
    (void)state;
    struct weir_keys *keys = open_right();
    struct weir_keys_error error = {""};
    char key[WEIR_KEY_CHARS + 1];
    const struct weir_key_wish first = {.tenant = "a", .weight = 3, .scope = "class"};
    const struct weir_key_wish plain = {.tenant = "a"}, other = {.tenant = "b"};
    const struct weir_key_wish unlike[] = {{.tenant = "a", .weight = 1},
                                           {.tenant = "a", .scope = "clas"},
                                           {.tenant = "a", .lane = "batch"}};
    CHECK(weir_keys_add(keys, &first, key, &error));
    CHECK(weir_keys_add(keys, &first, key, &error));
    CHECK(weir_keys_add(keys, &plain, key, &error));
    CHECK(weir_keys_add(keys, &other, key, &error));
    for (size_t i = 0; i < WEIR_COUNT(unlike); i++) {
        CHECK_MSG(!weir_keys_add(keys, &unlike[i], key, &error), "row %zu", i);
        CHECK_MSG(strstr(error.text, "weight 3, lane - and scope class"), "%.300s", error.text);
    }
    CHECK_INT(weir_keys_count(keys), 4);
    CHECK_INT(weir_keys_at(keys, 2)->weight, 3);
    CHECK_STR(weir_keys_at(keys, 2)->scope, "class");
    CHECK_INT(weir_keys_at(keys, 3)->weight, 1);
    CHECK(!weir_keys_at(keys, 3)->scope);
    uint32_t revoked;
    CHECK(weir_keys_revoke(keys, "a", &revoked, &error));
    CHECK(weir_keys_add(keys, &unlike[1], key, &error));
    weir_keys_close(keys);
}

static void keys__another_process_changes_them__reload_notices(void **state)
{
    (void)state;
    struct weir_keys *gateway = open_right(), *command = open_right();
    char key[WEIR_KEY_CHARS + 1];
    CHECK(!weir_keys_reload_if_changed(gateway));
    add_right(command, "a", key);
    CHECK(weir_keys_reload_if_changed(gateway));
    CHECK_INT(weir_keys_count(gateway), 1);
    CHECK(!weir_keys_reload_if_changed(gateway));
    add_right(command, "b", key);
    CHECK(weir_keys_reload_if_changed(gateway));
    CHECK_INT(weir_keys_count(gateway), 2);

    /* A damaged file, or none, changes nothing and is told; a good one ends the trouble. */
    write_file("keys.json", "{\"version\": 1, \"keys\": [", 0600);
    CHECK(!weir_keys_reload_if_changed(gateway));
    CHECK_INT(weir_keys_count(gateway), 2);
    CHECK(strstr(weir_keys_trouble(gateway), "damaged"));
    write_file("keys.json", "{\"version\": 1, \"keys\": []}", 0644);
    CHECK(!weir_keys_reload_if_changed(gateway));
    CHECK(strstr(weir_keys_trouble(gateway), "chmod 600"));
    char path[512];
    snprintf(path, sizeof path, "%s/keys.json", dir);
    CHECK(unlink(path) == 0);
    CHECK(!weir_keys_reload_if_changed(gateway));
    CHECK(strstr(weir_keys_trouble(gateway), "vanished"));
    CHECK_INT(weir_keys_count(gateway), 2);
    write_file("keys.json", "{\"version\": 1, \"keys\": []}", 0600);
    CHECK(weir_keys_reload_if_changed(gateway));
    CHECK_INT(weir_keys_count(gateway), 0);
    CHECK(weir_keys_trouble(gateway) == NULL);
    weir_keys_close(gateway);
    weir_keys_close(command);
}

static void keys__many_processes_at_once__lose_none(void **state)
{
    (void)state;
    enum { PROCESSES = 8, KEYS = 5 };
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0)
            continue;
        struct weir_keys_error error = {""};
        struct weir_keys *keys = weir_keys_open(dir, &error);
        struct weir_key_wish wish = {.tenant = "a", .weight = 1};
        char key[WEIR_KEY_CHARS + 1];
        bool done = keys != NULL;
        for (int j = 0; j < KEYS && done; j++)
            done = weir_keys_add(keys, &wish, key, &error);
        _exit(done ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        CHECK(wait(&status) > 0 && status == 0);
    }
    struct weir_keys *keys = open_right();
    CHECK_INT(weir_keys_count(keys), PROCESSES * KEYS);
    weir_keys_close(keys);
}

#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const struct {
    const char *text;
    mode_t mode;
    const char *said;
} bad_stores[] = {
    {"", 0600, "damaged"},
    {"{\"version\": 1, \"keys\": [{\"tena", 0600, "keys.json:1:"},
    {"{\"version\": 1, \"keys\": []}x", 0600, "damaged"},
    {"{\"version\": 2, \"keys\": []}", 0600, "another version"},
    {"{\"keys\": []}", 0600, "\"version\": 1"},
    {"{\"version\": 1, \"keys\": {}}", 0600, "a list of keys"},
    {"[]", 0600, "\"version\": 1"},
    {"{\"version\": 1, \"version\": 1, \"keys\": []}", 0600, "damaged"},
    {"{\"version\": 1, \"keys\": [3]}", 0600, "key 1: it is no object"},
    {"{\"version\": 1, \"keys\": [{\"sha256\": \"" DIGEST "\"}]}", 0600,
     "key 1: its tenant is no name"},
    {"{\"version\": 1, \"keys\": [{\"tenant\": \"a b\", \"sha256\": \"" DIGEST "\"}]}", 0600,
     "its tenant is no name"},
    {"{\"version\": 1, \"keys\": [{\"tenant\": \"a\", \"sha256\": \"" DIGEST "00\"}]}", 0600,
     "sha256"},
    {"{\"version\": 1, \"keys\": [{\"tenant\": \"a\", \"sha256\": \"xx\"}]}", 0600, "sha256"},
    {"{\"version\": 1, \"keys\": [{\"tenant\": \"a\", \"sha256\": \"" DIGEST "\", \"weight\": 0}]}",
     0600, "weight"},
    {"{\"version\": 1, \"keys\": [{\"tenant\": \"a\", \"sha256\": \"" DIGEST
     "\", \"weight\": \"1\"}]}",
     0600, "weight"},
    {"{\"version\": 1, \"keys\": [{\"tenant\": \"a\", \"sha256\": \"" DIGEST "\", \"lane\": 5}]}",
     0600, "lane"},
    {"{\"version\": 1, \"keys\": [{\"tenant\": \"a\", \"sha256\": \"" DIGEST
     "\", \"scope\": \"/\"}]}",
     0600, "scope"},
    {"{\"version\": 1, \"keys\": []}", 0640, "chmod 600"},
    {"{\"version\": 1, \"keys\": []}", 0602, "chmod 600"},
};

static void keys__a_bad_store__is_refused_with_its_name_and_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(bad_stores); i++) {
        struct weir_keys_error error = {""};
        write_file("keys.json", bad_stores[i].text, bad_stores[i].mode);
        struct weir_keys *keys = weir_keys_open(dir, &error);
        CHECK_MSG(!keys, "row %zu", i);
        CHECK_MSG(strstr(error.text, bad_stores[i].said) && strstr(error.text, dir),
                  "row %zu: %.300s", i, error.text);
    }
}

static void keys__every_truncation__is_refused_or_whole(void **state)
{
    (void)state;
    struct weir_keys *keys = open_right();
    char key[WEIR_KEY_CHARS + 1], path[512], text[4096];
    add_right(keys, "a", key);
    add_right(keys, "b", key);
    weir_keys_close(keys);
    snprintf(path, sizeof path, "%s/keys.json", dir);
    FILE *file = fopen(path, "r");
    CHECK(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (size_t cut = 0; cut < bytes; cut++) {
        struct weir_keys_error error = {""};
        text[bytes] = '\0';
        char kept = text[cut];
        text[cut] = '\0';
        write_file("keys.json", text, 0600);
        text[cut] = kept;
        keys = weir_keys_open(dir, &error);
        CHECK_MSG(!keys && *error.text, "cut at %zu of %zu", cut, bytes);
    }
}

static void keys__what_is_no_file_or_not_ours__is_refused(void **state)
{
    (void)state;
    struct weir_keys_error error = {""};
    char path[512];
    snprintf(path, sizeof path, "%s/keys.json", dir);
    CHECK(symlink("/etc/passwd", path) == 0);
    CHECK(!weir_keys_open(dir, &error));
    CHECK(strstr(error.text, "symbolic link"));
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK(!weir_keys_open(dir, &error));
    CHECK(strstr(error.text, "not a plain file"));
    CHECK(unlink(path) == 0);
    if (geteuid() == 0) {
        write_file("keys.json", "{\"version\": 1, \"keys\": []}", 0600);
        CHECK(chown(path, 12345, 12345) == 0);
        CHECK(!weir_keys_open(dir, &error));
        CHECK(strstr(error.text, "another user"));
        CHECK(unlink(path) == 0);
    }
    CHECK(chmod(dir, 0777) == 0);
    CHECK(!weir_keys_open(dir, &error));
    CHECK(strstr(error.text, "chmod 700"));
    CHECK(chmod(dir, 0700) == 0);
}

static void keys__names_that_are_none__make_no_key(void **state)
{
    (void)state;
    struct weir_keys *keys = open_right();
    static const struct weir_key_wish wishes[] = {
        {.tenant = "", .weight = 1},
        {.tenant = "a b", .weight = 1},
        {.tenant = "-a", .weight = 1},
        {.tenant = "anonymous", .weight = 1},
        {.tenant = "overflow", .weight = 1},
        {.tenant = "a", .weight = 1001},
        {.tenant = "a", .weight = 1, .lane = "x y"},
        {.tenant = "a", .weight = 1, .scope = ""},
        {.tenant = "a123456789a123456789a123456789a123456789a123456789a123456789abcd",
         .weight = 1}};
    for (size_t i = 0; i < WEIR_COUNT(wishes); i++) {
        struct weir_keys_error error = {""};
        char key[WEIR_KEY_CHARS + 1];
        CHECK_MSG(!weir_keys_add(keys, &wishes[i], key, &error) && *error.text, "row %zu", i);
    }
    CHECK_INT(weir_keys_count(keys), 0);
    weir_keys_close(keys);
}

static void state__token_and_secret__are_made_once_and_kept(void **state)
{
    (void)state;
    struct weir_keys_error error = {""};
    char token[WEIR_TOKEN_CHARS + 1], again[WEIR_TOKEN_CHARS + 1], path[512];
    uint8_t secret[32], secret_again[32], zero[32] = {0};
    CHECK(weir_state_admin_token(dir, token, &error));
    CHECK(weir_state_admin_token(dir, again, &error));
    CHECK_STR(again, token);
    CHECK_INT(strlen(token), WEIR_TOKEN_CHARS);
    CHECK(weir_state_install_secret(dir, secret, &error));
    CHECK(weir_state_install_secret(dir, secret_again, &error));
    CHECK_MEM(secret, 32, secret_again, 32);
    CHECK(memcmp(secret, zero, 32) != 0);
    static const char *const names[] = {"admin.token", "install.secret"};
    for (size_t i = 0; i < 2; i++) {
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        CHECK(stat(path, &about) == 0 && (about.st_mode & 0777) == 0600);
        write_file(names[i], "short\n", 0600);
    }
    CHECK(!weir_state_admin_token(dir, token, &error) && strstr(error.text, "damaged"));
    CHECK(!weir_state_install_secret(dir, secret, &error) && strstr(error.text, "damaged"));
    write_file("admin.token", "", 0644);
    CHECK(!weir_state_admin_token(dir, token, &error) && strstr(error.text, "chmod 600"));
}

static void state__directory__follows_the_environment(void **state)
{
    (void)state;
    char out[256];
    struct weir_keys_error error;
    setenv("WEIR_STATE", "/a/b", 1);
    CHECK(weir_state_dir(out, sizeof out, &error));
    CHECK_STR(out, "/a/b");
    unsetenv("WEIR_STATE");
    setenv("XDG_STATE_HOME", "/xdg", 1);
    CHECK(weir_state_dir(out, sizeof out, &error));
    CHECK_STR(out, "/xdg/weir");
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "/home/x", 1);
    CHECK(weir_state_dir(out, sizeof out, &error));
    CHECK_STR(out, geteuid() == 0 ? "/var/lib/weir" : "/home/x/.local/state/weir");
    CHECK(!weir_state_dir(out, 4, &error));
}

static void state__missing_directories__are_made_private(void **state)
{
    (void)state;
    struct weir_keys_error error = {""};
    char deep[256], token[WEIR_TOKEN_CHARS + 1], path[512];
    snprintf(deep, sizeof deep, "%s/x/y", dir);
    CHECK_MSG(weir_state_admin_token(deep, token, &error), "%.300s", error.text);
    struct stat about;
    CHECK(stat(deep, &about) == 0 && (about.st_mode & 0777) == 0700);
    snprintf(path, sizeof path, "%s/admin.token", deep);
    CHECK(unlink(path) == 0 && rmdir(deep) == 0);
    snprintf(deep, sizeof deep, "%s/x", dir);
    CHECK(rmdir(deep) == 0);
    write_file("plain", "", 0600);
    snprintf(deep, sizeof deep, "%s/plain/y", dir);
    CHECK(!weir_state_admin_token(deep, token, &error) && strstr(error.text, "Not a directory"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(key__form__is_checked_to_the_last_character),
        CASE(key__characters__are_evenly_spread),
        CASE(keys__none_made__opens_empty_and_makes_nothing),
        CASE(keys__made__survive_and_only_the_digest_is_kept),
        CASE(keys__revoke__by_id_and_by_tenant),
        CASE(keys__of_one_tenant__are_alike_but_for_the_key),
        CASE(keys__another_process_changes_them__reload_notices),
        CASE(keys__many_processes_at_once__lose_none),
        CASE(keys__a_bad_store__is_refused_with_its_name_and_the_reason),
        CASE(keys__every_truncation__is_refused_or_whole),
        CASE(keys__what_is_no_file_or_not_ours__is_refused),
        CASE(keys__names_that_are_none__make_no_key),
        CASE(state__token_and_secret__are_made_once_and_kept),
        CASE(state__directory__follows_the_environment),
        CASE(state__missing_directories__are_made_private),
    };
    return cmocka_run_group_tests_name("gateway/keys", tests, NULL, NULL);
}

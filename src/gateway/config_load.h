/* config_load: what the parts of the loader share: memory, problems, and where each value came
 * from. Internal to the configuration's own files. */
#ifndef WEIR_GATEWAY_CONFIG_LOAD_H
#define WEIR_GATEWAY_CONFIG_LOAD_H

#include "gateway/config.h"
#include "gateway/config_table.h"

/* A place in what the operator wrote. line 0: a flag, or the whole. */
struct weir_place {
    const char *where;
    uint32_t line;
    uint32_t column;
};

struct weir_mark {
    const void *field; /* address of the value in the config */
    struct weir_place place;
};

struct weir_loader {
    struct weir_config *config;
    struct weir_config_problems *problems;
    bool no_secrets;
    bool for_lab;
    const char *const *senders; /* as in struct weir_config_source */
    size_t senders_count;
    struct weir_place whole; /* the file, or "flags" */
    struct weir_mark
        *marks; /* one for each value that was given, in order of address once sorted */
    size_t marks_count;
    size_t marks_room;
    bool marks_sorted;
};

struct weir_config *weir_config_new(void);
/* memory, or the end of the process when it is NULL. */
void *weir_config_must(void *memory);
/* Zeroed memory of the config's own; stops the process when there is none (it is start-up). */
void *weir_config_alloc(struct weir_config *config, size_t count, size_t bytes);
char *weir_config_text(struct weir_config *config, const char *text, size_t bytes);
/* Where the config keeps its credentials; config_secret.c knows what that is. */
struct weir_secrets;
struct weir_secrets **weir_config_secrets(struct weir_config *config);

__attribute__((format(printf, 3, 4))) void
weir_loader_error(struct weir_loader *loader, struct weir_place place, const char *format, ...);
__attribute__((format(printf, 3, 4))) void
weir_loader_warn(struct weir_loader *loader, struct weir_place place, const char *format, ...);
/* The same at the place where the field was given: of the whole when it was not. */
__attribute__((format(printf, 3, 4))) void
weir_loader_error_at(struct weir_loader *loader, const void *field, const char *format, ...);
__attribute__((format(printf, 3, 4))) void
weir_loader_warn_at(struct weir_loader *loader, const void *field, const char *format, ...);
/* Whether one more error would be told, and not only counted: what is dear to find out, and only
 * for its text, is asked for then only. */
bool weir_loader_tells(const struct weir_loader *loader);

/* In the order of the file. */
void weir_loader_sort_problems(struct weir_config_problems *problems);

void weir_loader_mark(struct weir_loader *loader, const void *field, struct weir_place place);
/* Where a value was given; its line and file are those of the whole when it was not. */
struct weir_place weir_loader_place(struct weir_loader *loader, const void *field);
bool weir_loader_given(struct weir_loader *loader, const void *field);
/* Values that were marked between old and old + bytes are now at moved. */
void weir_loader_move_marks(struct weir_loader *loader, const void *old, size_t bytes,
                            const void *moved);

/* The config keeps what was given; the loader forgets it. */
void weir_loader_keep_given(struct weir_loader *loader);
/* Whether the value at that address was given; only of a config that keeps it. */
bool weir_config_is_given(const struct weir_config *config, const void *field);

/* Gives every field of row, and of the tables inside it, its default. */
void weir_loader_presets(struct weir_loader *loader, const struct weir_field_table *table,
                         void *row);

/* Sets a field that is written as one word. label names it in messages: "weight", "--rate".
 * False after a problem was reported. */
bool weir_loader_set(struct weir_loader *loader, const struct weir_field *field, void *row,
                     const char *label, const char *text, struct weir_place place);

/* Says that word is not among known, and which it may have been. what: "key", "lane". */
void weir_loader_unknown(struct weir_loader *loader, struct weir_place place, const char *before,
                         const char *word, const char *after, const char *const *known,
                         size_t known_count);

/* The zone of that name, opened once for the whole configuration and closed with it; NULL: none. */
const struct weir_zone *weir_config_zone(struct weir_config *config, const char *name);

struct weir_names;

/* Parts of the loader, in order. Each reports what it finds. */
void weir_config_read_yaml(struct weir_loader *loader, const char *text, size_t bytes);
/* The flags, and what stands for a file where there is none. */
void weir_config_apply_flags(struct weir_loader *loader, const struct weir_config_source *from);
/* A field from YAML that is no file's: it is what the field's value would be. Problems have that
 * place. */
void weir_config_walk_value(struct weir_loader *loader, const struct weir_field_table *table,
                            const struct weir_field *field, void *row, struct weir_place place,
                            const char *text);
/* One value by its path, see struct weir_config_set. */
void weir_config_apply_set(struct weir_loader *loader, const struct weir_config_set *set);
void weir_config_finish(struct weir_loader *loader); /* derived defaults, names, cycles, secrets */
/* and parts of that: where the ledger is, */
void weir_config_finish_ledger(struct weir_loader *loader);
/* and the recording, */
void weir_config_finish_record(struct weir_loader *loader);
/* the tree of budgets, their windows, and what happens when one is spent, */
void weir_config_finish_scopes(struct weir_loader *loader, const struct weir_names *upstreams,
                               const struct weir_names *scopes);
/* what the lab runs, */
void weir_config_finish_lab(struct weir_loader *loader, const struct weir_names *upstreams,
                            const struct weir_names *tenants);
/* and what takes all of it together: whether a fallback can serve, ids given twice. */
void weir_config_check_budgets(struct weir_loader *loader);

/* What the loader asks of the machine it runs on (config_place.c, config_secret.c, zone.h,
 * weir_state_dir of keys.h; in the lab page web/wasm/host.c). */

/* Says so and ends the process. */
_Noreturn void weir_config_no_memory(void);
/* The text of a file. Owns: the caller frees. NULL: said why there is none. */
char *weir_config_read_file(struct weir_loader *loader, const char *path, size_t *bytes);
/* A path that names the same file from any folder, or NULL after saying why there is none. what:
 * "ledger's", in messages. */
const char *weir_config_absolute(struct weir_loader *loader, struct weir_place place,
                                 const char *what, const char *path);
/* Says what stands in the way of a ledger there. The path has a slash. */
void weir_config_check_ledger(struct weir_loader *loader, struct weir_place place,
                              const char *path);
/* Two paths of one file: the same text, the same inode, or the same name in the same folder. */
bool weir_config_same_file(const char *a, const char *b);
bool weir_config_is_folder(const char *path);
/* Gives the upstream the credential that key_file or key_env names, or says why not. */
void weir_config_read_credential(struct weir_loader *loader, struct weir_config_upstream *upstream);
void weir_config_free_secrets(struct weir_secrets *secrets); /* NULL is fine */

#endif

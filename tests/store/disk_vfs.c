#include "disk_vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 8
#define SECTOR_BYTES 512

enum op_kind { OP_WRITE, OP_TRUNCATE, OP_SYNC };

/* Bytes that grow. */
struct image {
    uint8_t *data;
    size_t bytes, room;
};

/* A write or truncate since the last sync. */
struct pending {
    enum op_kind kind; /* WRITE: data at offset; TRUNCATE: to offset bytes */
    size_t offset, bytes;
    uint8_t *data;
};

/* What is remembered of a file, by its path. */
struct memory {
    char path[256];
    struct image synced;
    struct pending *pending;
    size_t pending_count, pending_max;
};

struct disk_file {
    sqlite3_file base;
    struct memory *memory; /* NULL: not remembered */
    bool counts;           /* the database or its log */
    bool is_database;
    sqlite3_file *real; /* behind this struct */
};

static struct {
    pthread_mutex_t lock;
    sqlite3_vfs vfs, *real;
    sqlite3_io_methods methods;
    uint64_t ops, faults;
    uint64_t break_at, break_count; /* count 0: for ever */
    enum disk_fault fault;
    bool remembers, is_weak;
    uint64_t cut_at;    /* 0: by cut_count */
    uint64_t cut_count; /* operations on the database until then */
    void (*cut)(void *ctx);
    void *cut_ctx;
    struct memory *files[FILES_MAX];
    size_t files_count;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *must(void *memory)
{
    WEIR_INVARIANT(memory != NULL); /* a test's own memory */
    return memory;
}

/* Images. */

static void image_resize(struct image *image, size_t bytes)
{
    if (bytes > image->room) {
        image->room = 2 * bytes;
        image->data = must(realloc(image->data, image->room));
    }
    if (bytes > image->bytes)
        memset(image->data + image->bytes, 0, bytes - image->bytes);
    image->bytes = bytes;
}

static void image_write(struct image *image, size_t offset, const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return;
    if (offset + bytes > image->bytes)
        image_resize(image, offset + bytes);
    memcpy(image->data + offset, data, bytes);
}

static void image_apply(struct image *image, const struct pending *p)
{
    if (p->kind == OP_WRITE)
        image_write(image, p->offset, p->data, p->bytes);
    else
        image_resize(image, p->offset);
}

static void memory_settle(struct memory *m)
{
    for (size_t i = 0; i < m->pending_count; i++) {
        image_apply(&m->synced, &m->pending[i]);
        free(m->pending[i].data);
    }
    m->pending_count = 0;
}

static void memory_add(struct memory *m, enum op_kind kind, size_t offset, const void *data,
                       size_t bytes)
{
    if (m->pending_count == m->pending_max) {
        m->pending_max = 2 * m->pending_max + 64;
        m->pending = must(realloc(m->pending, m->pending_max * sizeof *m->pending));
    }
    struct pending *p = &m->pending[m->pending_count++];
    *p = (struct pending){.kind = kind, .offset = offset, .bytes = bytes};
    if (bytes > 0) {
        p->data = must(malloc(bytes));
        memcpy(p->data, data, bytes);
    }
}

/* The memory of a path; it begins as the file is now, taken as synced. */
static struct memory *memory_of(const char *path)
{
    for (size_t i = 0; i < disk.files_count; i++)
        if (strcmp(disk.files[i]->path, path) == 0)
            return disk.files[i];
    WEIR_INVARIANT(disk.files_count < FILES_MAX);
    struct memory *m = disk.files[disk.files_count++] = must(calloc(1, sizeof *m));
    snprintf(m->path, sizeof m->path, "%s", path);
    FILE *file = fopen(path, "r");
    uint8_t page[4096];
    size_t bytes;
    while (file && (bytes = fread(page, 1, sizeof page, file)) > 0)
        image_write(&m->synced, m->synced.bytes, page, bytes);
    if (file)
        fclose(file);
    return m;
}

static void memory_forget(size_t index)
{
    struct memory *m = disk.files[index];
    memory_settle(m);
    free(m->synced.data);
    free(m->pending);
    free(m);
    disk.files[index] = disk.files[--disk.files_count];
}

/* Operations. */

/* Counts one; cuts the power before it or breaks it when its number has come. SQLITE_OK: do it. */
static int op_begin(enum op_kind kind, struct disk_file *file)
{
    static const int errors[] = {[OP_WRITE] = SQLITE_IOERR_WRITE,
                                 [OP_TRUNCATE] = SQLITE_IOERR_TRUNCATE,
                                 [OP_SYNC] = SQLITE_IOERR_FSYNC};
    if (!file->counts)
        return SQLITE_OK;
    disk.ops++;
    if (disk.cut &&
        (disk.cut_at > 0 ? disk.ops >= disk.cut_at : file->is_database && --disk.cut_count == 0)) {
        void (*cut)(void *ctx) = disk.cut;
        disk.cut = NULL;
        cut(disk.cut_ctx);
    }
    if (disk.break_at == 0 || disk.ops < disk.break_at ||
        (disk.break_count > 0 && disk.ops - disk.break_at >= disk.break_count))
        return SQLITE_OK;
    if (disk.fault == DISK_FAULT_FULL && kind != OP_WRITE)
        return SQLITE_OK;
    disk.faults++;
    return disk.fault == DISK_FAULT_FULL ? SQLITE_FULL : errors[kind];
}

static int disk_write(sqlite3_file *base, const void *data, int bytes, sqlite3_int64 offset)
{
    struct disk_file *file = (struct disk_file *)base;
    pthread_mutex_lock(&disk.lock);
    int code = op_begin(OP_WRITE, file);
    if (code == SQLITE_OK && file->memory)
        memory_add(file->memory, OP_WRITE, (size_t)offset, data, (size_t)bytes);
    pthread_mutex_unlock(&disk.lock);
    return code == SQLITE_OK ? file->real->pMethods->xWrite(file->real, data, bytes, offset) : code;
}

static int disk_truncate(sqlite3_file *base, sqlite3_int64 bytes)
{
    struct disk_file *file = (struct disk_file *)base;
    pthread_mutex_lock(&disk.lock);
    int code = op_begin(OP_TRUNCATE, file);
    if (code == SQLITE_OK && file->memory)
        memory_add(file->memory, OP_TRUNCATE, (size_t)bytes, NULL, 0);
    pthread_mutex_unlock(&disk.lock);
    return code == SQLITE_OK ? file->real->pMethods->xTruncate(file->real, bytes) : code;
}

/* Never a real one: no test here depends on it, and a busy disk takes its time. */
static int disk_sync(sqlite3_file *base, int flags)
{
    (void)flags;
    struct disk_file *file = (struct disk_file *)base;
    pthread_mutex_lock(&disk.lock);
    int code = op_begin(OP_SYNC, file);
    if (code == SQLITE_OK && file->memory)
        memory_settle(file->memory);
    pthread_mutex_unlock(&disk.lock);
    return code;
}

/* The rest is the real file's. */

static sqlite3_file *real_of(sqlite3_file *base)
{
    return ((struct disk_file *)base)->real;
}

static int disk_close(sqlite3_file *base)
{
    return real_of(base)->pMethods->xClose(real_of(base));
}

static int disk_read(sqlite3_file *base, void *data, int bytes, sqlite3_int64 offset)
{
    return real_of(base)->pMethods->xRead(real_of(base), data, bytes, offset);
}

static int disk_size(sqlite3_file *base, sqlite3_int64 *bytes)
{
    return real_of(base)->pMethods->xFileSize(real_of(base), bytes);
}

static int disk_lock(sqlite3_file *base, int level)
{
    return real_of(base)->pMethods->xLock(real_of(base), level);
}

static int disk_unlock(sqlite3_file *base, int level)
{
    return real_of(base)->pMethods->xUnlock(real_of(base), level);
}

static int disk_reserved(sqlite3_file *base, int *answer)
{
    return real_of(base)->pMethods->xCheckReservedLock(real_of(base), answer);
}

static int disk_control(sqlite3_file *base, int op, void *argument)
{
    if (op == SQLITE_FCNTL_PRAGMA && disk.is_weak) {
        char **words = argument;
        if (sqlite3_stricmp(words[1], "synchronous") == 0 && words[2] &&
            sqlite3_stricmp(words[2], "normal") != 0)
            return SQLITE_OK; /* taken as done: it stays as weaken set it */
    }
    return real_of(base)->pMethods->xFileControl(real_of(base), op, argument);
}

static int disk_sector(sqlite3_file *base)
{
    return real_of(base)->pMethods->xSectorSize(real_of(base));
}

static int disk_traits(sqlite3_file *base)
{
    return real_of(base)->pMethods->xDeviceCharacteristics(real_of(base));
}

static int disk_shm_map(sqlite3_file *base, int page, int bytes, int extend, void volatile **map)
{
    return real_of(base)->pMethods->xShmMap(real_of(base), page, bytes, extend, map);
}

static int disk_shm_lock(sqlite3_file *base, int offset, int count, int flags)
{
    return real_of(base)->pMethods->xShmLock(real_of(base), offset, count, flags);
}

static void disk_shm_barrier(sqlite3_file *base)
{
    real_of(base)->pMethods->xShmBarrier(real_of(base));
}

static int disk_shm_unmap(sqlite3_file *base, int remove)
{
    return real_of(base)->pMethods->xShmUnmap(real_of(base), remove);
}

/* The VFS. */

static int disk_open(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *base, int flags,
                     int *flags_out)
{
    (void)vfs;
    struct disk_file *file = (struct disk_file *)base;
    *file = (struct disk_file){.real = (sqlite3_file *)(file + 1)};
    int code = disk.real->xOpen(disk.real, path, file->real, flags, flags_out);
    if (!file->real->pMethods)
        return code;
    file->base.pMethods = &disk.methods;
    file->is_database = flags & SQLITE_OPEN_MAIN_DB;
    file->counts = flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL);
    pthread_mutex_lock(&disk.lock);
    if (code == SQLITE_OK && disk.remembers && file->counts)
        file->memory = memory_of(path);
    pthread_mutex_unlock(&disk.lock);
    return code;
}

static int disk_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    pthread_mutex_lock(&disk.lock);
    for (size_t i = disk.files_count; i-- > 0;)
        if (strcmp(disk.files[i]->path, path) == 0)
            memory_forget(i);
    pthread_mutex_unlock(&disk.lock);
    return disk.real->xDelete(disk.real, path, sync);
}

static int weaken_connection(sqlite3 *db, char **error, const struct sqlite3_api_routines *api)
{
    (void)error, (void)api;
    return disk.is_weak ? sqlite3_exec(db, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL)
                        : SQLITE_OK;
}

static void disk_register(void)
{
    disk.real = sqlite3_vfs_find(NULL);
    WEIR_INVARIANT(disk.real != NULL);
    disk.vfs = *disk.real;
    disk.vfs.pNext = NULL;
    disk.vfs.zName = DISK_VFS_NAME;
    disk.vfs.szOsFile = (int)sizeof(struct disk_file) + disk.real->szOsFile;
    disk.vfs.xOpen = disk_open;
    disk.vfs.xDelete = disk_delete;
    disk.methods = (sqlite3_io_methods){.iVersion = 2, /* no memory maps */
                                        .xClose = disk_close,
                                        .xRead = disk_read,
                                        .xWrite = disk_write,
                                        .xTruncate = disk_truncate,
                                        .xSync = disk_sync,
                                        .xFileSize = disk_size,
                                        .xLock = disk_lock,
                                        .xUnlock = disk_unlock,
                                        .xCheckReservedLock = disk_reserved,
                                        .xFileControl = disk_control,
                                        .xSectorSize = disk_sector,
                                        .xDeviceCharacteristics = disk_traits,
                                        .xShmMap = disk_shm_map,
                                        .xShmLock = disk_shm_lock,
                                        .xShmBarrier = disk_shm_barrier,
                                        .xShmUnmap = disk_shm_unmap};
    WEIR_INVARIANT(sqlite3_vfs_register(&disk.vfs, 0) == SQLITE_OK);
    WEIR_INVARIANT(sqlite3_auto_extension((void (*)(void))weaken_connection) == SQLITE_OK);
}

void disk_reset(void)
{
    if (!disk.real)
        disk_register();
    while (disk.files_count > 0)
        memory_forget(0);
    disk.ops = disk.faults = disk.break_at = 0;
    disk.remembers = disk.is_weak = false;
    disk.cut = NULL;
}

uint64_t disk_ops(void)
{
    pthread_mutex_lock(&disk.lock);
    uint64_t ops = disk.ops;
    pthread_mutex_unlock(&disk.lock);
    return ops;
}

void disk_break(uint64_t at, uint64_t count, enum disk_fault fault)
{
    pthread_mutex_lock(&disk.lock);
    disk.break_at = at;
    disk.break_count = count;
    disk.fault = fault;
    pthread_mutex_unlock(&disk.lock);
}

void disk_mend(void)
{
    disk_break(0, 0, DISK_FAULT_ERROR);
}

uint64_t disk_faults(void)
{
    pthread_mutex_lock(&disk.lock);
    uint64_t faults = disk.faults;
    pthread_mutex_unlock(&disk.lock);
    return faults;
}

void disk_weaken(bool weak)
{
    disk.is_weak = weak;
}

/* Power. */

void disk_remember(void)
{
    disk.remembers = true;
}

static void cut_set(uint64_t at, uint64_t count, void (*cut)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&disk.lock);
    disk.cut_at = at;
    disk.cut_count = count;
    disk.cut = cut;
    disk.cut_ctx = ctx;
    pthread_mutex_unlock(&disk.lock);
}

void disk_cut_at(uint64_t at, void (*cut)(void *ctx), void *ctx)
{
    cut_set(at, 0, cut, ctx);
}

void disk_cut_in_checkpoint(uint64_t count, void (*cut)(void *ctx), void *ctx)
{
    cut_set(0, count, cut, ctx);
}

/* A torn write: each sector of it by itself is there or not. */
static void image_tear(struct image *image, const struct pending *p, struct weir_rng *rng)
{
    for (size_t at = 0; at < p->bytes;) {
        size_t in_sector = SECTOR_BYTES - (p->offset + at) % SECTOR_BYTES;
        size_t bytes = in_sector < p->bytes - at ? in_sector : p->bytes - at;
        if (weir_chance(rng, 1, 2))
            image_write(image, p->offset + at, p->data + at, bytes);
        at += bytes;
    }
}

void disk_leave(const char *folder, struct weir_rng *rng)
{
    for (size_t i = 0; i < disk.files_count; i++) {
        const struct memory *m = disk.files[i];
        struct image left = {0};
        image_write(&left, 0, m->synced.data, m->synced.bytes);
        uint64_t way = weir_rng_below(rng, 4); /* of the file: mixed twice, all kept, all lost */
        for (size_t k = 0; k < m->pending_count; k++) {
            uint64_t fate = way < 2 ? weir_rng_below(rng, 4) : way;
            if (fate <= 1 && way < 2 && m->pending[k].kind == OP_WRITE)
                image_tear(&left, &m->pending[k], rng);
            else if (fate == 2)
                image_apply(&left, &m->pending[k]);
        }
        char path[512];
        const char *name = strrchr(m->path, '/');
        snprintf(path, sizeof path, "%s%s", folder, name ? name : m->path);
        FILE *file = fopen(path, "w");
        WEIR_INVARIANT(file != NULL);
        WEIR_INVARIANT(left.bytes == 0 || fwrite(left.data, left.bytes, 1, file) == 1);
        WEIR_INVARIANT(fclose(file) == 0);
        free(left.data);
    }
}

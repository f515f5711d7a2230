#include "store/gate_vfs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/check.h"

struct gate_file {
    sqlite3_file base;
    sqlite3_file real[]; /* of the VFS below, as large as it says */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_shut, fails_syncs, fails_writes;
static uint64_t waiting, steps, syncs;

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct gate_file *)file)->real;
}

static int gate_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int gate_read(sqlite3_file *file, void *to, int bytes, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), to, bytes, at);
}

static int gate_write(sqlite3_file *file, const void *from, int bytes, sqlite3_int64 at)
{
    pthread_mutex_lock(&lock);
    bool fails = fails_writes;
    pthread_mutex_unlock(&lock);
    return fails ? SQLITE_IOERR_WRITE
                 : real_of(file)->pMethods->xWrite(real_of(file), from, bytes, at);
}

static int gate_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    return real_of(file)->pMethods->xTruncate(real_of(file), bytes);
}

/* The data is in the page cache, where a process that dies leaves it too: no real sync is needed,
 * and the tests are quicker without. */
static int gate_sync(sqlite3_file *file, int flags)
{
    (void)file, (void)flags;
    pthread_mutex_lock(&lock);
    waiting++;
    pthread_cond_broadcast(&changed);
    while (is_shut && steps == 0)
        pthread_cond_wait(&changed, &lock);
    steps -= steps > 0;
    waiting--;
    pthread_cond_broadcast(&changed);
    syncs++;
    bool fails = fails_syncs;
    pthread_mutex_unlock(&lock);
    return fails ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int gate_size(sqlite3_file *file, sqlite3_int64 *bytes)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), bytes);
}

static int gate_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int gate_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int gate_reserved(sqlite3_file *file, int *is_reserved)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), is_reserved);
}

static int gate_control(sqlite3_file *file, int what, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, argument);
}

static int gate_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int gate_traits(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int gate_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **at)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, bytes, extend, at);
}

static int gate_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void gate_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int gate_shm_unmap(sqlite3_file *file, int delete)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), delete);
}

static const sqlite3_io_methods gate_methods = {
    .iVersion = 2,
    .xClose = gate_close,
    .xRead = gate_read,
    .xWrite = gate_write,
    .xTruncate = gate_truncate,
    .xSync = gate_sync,
    .xFileSize = gate_size,
    .xLock = gate_lock,
    .xUnlock = gate_unlock,
    .xCheckReservedLock = gate_reserved,
    .xFileControl = gate_control,
    .xSectorSize = gate_sector,
    .xDeviceCharacteristics = gate_traits,
    .xShmMap = gate_shm_map,
    .xShmLock = gate_shm_lock,
    .xShmBarrier = gate_shm_barrier,
    .xShmUnmap = gate_shm_unmap,
};

static int gate_open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                          int *flags_out)
{
    sqlite3_vfs *real = vfs->pAppData;
    file->pMethods = NULL;
    int result = real->xOpen(real, name, real_of(file), flags, flags_out);
    if (result == SQLITE_OK)
        file->pMethods = &gate_methods;
    return result;
}

void gate_reset(void)
{
    static sqlite3_vfs vfs;
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    if (!vfs.zName) {
        vfs = *real;
        vfs.zName = GATE_VFS_NAME;
        vfs.pAppData = real;
        vfs.szOsFile = (int)sizeof(struct gate_file) + real->szOsFile;
        vfs.xOpen = gate_open_file;
        CHECK_INT(sqlite3_vfs_register(&vfs, 0), SQLITE_OK);
    }
    pthread_mutex_lock(&lock);
    is_shut = fails_syncs = fails_writes = false;
    steps = syncs = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void gate_shut(void)
{
    pthread_mutex_lock(&lock);
    is_shut = true;
    pthread_mutex_unlock(&lock);
}

void gate_wait(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    int result = 0;
    pthread_mutex_lock(&lock);
    while ((waiting == 0 || steps > 0) && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&changed, &lock, &until);
    bool waits = waiting > 0;
    pthread_mutex_unlock(&lock);
    CHECK(waits);
}

void gate_step(void)
{
    pthread_mutex_lock(&lock);
    steps++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void gate_open(void)
{
    pthread_mutex_lock(&lock);
    is_shut = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void gate_fail_syncs(bool fail)
{
    pthread_mutex_lock(&lock);
    fails_syncs = fail;
    pthread_mutex_unlock(&lock);
}

void gate_fail_writes(bool fail)
{
    pthread_mutex_lock(&lock);
    fails_writes = fail;
    pthread_mutex_unlock(&lock);
}

uint64_t gate_syncs(void)
{
    pthread_mutex_lock(&lock);
    uint64_t count = syncs;
    pthread_mutex_unlock(&lock);
    return count;
}

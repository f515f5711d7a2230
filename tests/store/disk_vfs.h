/* disk_vfs: SQLite's view of a disk that fails, over the real one: faults at any write, and what is
 * left on the disk when the power goes.
 *
 * Operations are the writes, truncates and syncs of the database and of its log (not of the shared
 * memory, which nobody expects to last), counted from 1 in their order. Thread: any, under a lock. */
#ifndef WEIR_TESTS_DISK_VFS_H
#define WEIR_TESTS_DISK_VFS_H

#include "core/base.h"
#include "core/rng.h"

#define DISK_VFS_NAME "weir-test-disk"

/* Registers the VFS, once for the process; forgets all files, faults and counts. */
void disk_reset(void);
uint64_t disk_ops(void); /* so far */

enum disk_fault {
    DISK_FAULT_ERROR, /* an I/O error of the kind of operation it meets */
    DISK_FAULT_FULL   /* writes find no room; syncs and truncates go well */
};

/* Operations from the at-th on fail, count of them; count 0: until disk_mend. at 0: none. */
void disk_break(uint64_t at, uint64_t count, enum disk_fault fault);
void disk_mend(void);
uint64_t disk_faults(void); /* operations that failed so far */

/* From now on remembers what each file had at its last sync and what was written since. Files have to
 * be closed. */
void disk_remember(void);
/* Calls cut just before the at-th operation, in the thread that does it, and forgets it then. */
void disk_cut_at(uint64_t at, void (*cut)(void *ctx), void *ctx);
/* The same, but the count-th from now on of those on the database itself: in a checkpoint. */
void disk_cut_in_checkpoint(uint64_t count, void (*cut)(void *ctx), void *ctx);
/* Within cut: writes the files as a power loss now would leave them into a folder, under their own
 * names. Of what a file got since its last sync each operation is kept, lost, or (a write) torn by
 * sectors of 512 bytes. */
void disk_leave(const char *folder, struct weir_rng *rng);

/* Makes every connection from now on use synchronous=NORMAL, whatever it asks for: to see what the
 * right setting is for. */
void disk_weaken(bool weak);

#endif

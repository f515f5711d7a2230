/* gate_vfs: SQLite's view of a disk whose syncs the test lets through or not, one by one, and whose
 * syncs and writes fail while it says so. Over the real disk.
 *
 * Thread: any, under a lock. */
#ifndef WEIR_TESTS_GATE_VFS_H
#define WEIR_TESTS_GATE_VFS_H

#include "core/base.h"

#define GATE_VFS_NAME "weir-test-gate"

/* Registers the VFS, once for the process; opens the gate and mends the disk. */
void gate_reset(void);
/* From now on syncs wait. */
void gate_shut(void);
/* Waits until a sync waits at the gate; fails the test after 20 s. */
void gate_wait(void);
/* Lets the sync through that waits, and no other. */
void gate_step(void);
void gate_open(void);
/* While true they fail with an I/O error. */
void gate_fail_syncs(bool fail);
void gate_fail_writes(bool fail);
uint64_t gate_syncs(void); /* that went through, or failed */

#endif

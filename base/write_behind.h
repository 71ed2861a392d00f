/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that makes writes to files while its caller goes on: the caller fills one buffer while
 * the other is on its way to the disk.
 *
 * Threads:  the functions belong to one thread; the write is made by another, which is inside.
 * Blocking: begin and busy wait for a lock held for moments, wait and destroy for the write.
 * Errors:   those of the write and the sync, from wait; PS_ERR_NO_MEMORY from create.
 * Memory:   from the allocator given; the bytes of a write are borrowed until wait returns.
 */
#ifndef PS_BASE_WRITE_BEHIND_H
#define PS_BASE_WRITE_BEHIND_H

#include "base/alloc.h"
#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_write_behind; /* opaque */

/* Starts the thread under `thread_name`. NULL: there is no thread, and begin makes the write
 * itself, for callers that must do everything in one thread, as the simulator does.
 *
 * files    borrows; outlives the result
 * memory   borrows; outlives the result
 *
 * PS_OK              `*behind` belongs to the caller, who ends it with ps_write_behind_destroy
 * PS_ERR_NO_MEMORY   also when the system refuses a thread
 */
PS_MUST_USE enum ps_status ps_write_behind_create(const struct ps_files *files,
                                                  const char *thread_name,
                                                  const struct ps_allocator *memory,
                                                  struct ps_write_behind **behind,
                                                  struct ps_error *error);

/* Waits for the write at work, whose result is lost unless it was waited for. Accepts NULL. */
void ps_write_behind_destroy(struct ps_write_behind *behind);

/* Bytes, and where in the file they begin. */
struct ps_write_piece {
    uint64_t offset;
    struct ps_bytes bytes;
};

#define PS_WRITE_PIECES_MAX 8

/* Writes `count` pieces to `file` in their order, and behind them syncs the file when `sync` is
 * set. Behind a piece that fails nothing more is done. Until the wait, the bytes stay as they are
 * and nobody else uses `file`; `pieces` themselves are copied. Each begin has its wait: a write
 * that was begun before has been waited for. */
void ps_write_behind_begin(struct ps_write_behind *behind, struct ps_file file,
                           const struct ps_write_piece *pieces, size_t count, bool sync);

/* A write was begun and is not done: waiting for it would block. */
bool ps_write_behind_busy(struct ps_write_behind *behind);

/* Waits for the write that was begun last and returns what became of it; PS_OK when none was begun
 * since the last wait. What a failed write left in the file is undefined, as base/file.h says. */
PS_MUST_USE enum ps_status ps_write_behind_wait(struct ps_write_behind *behind,
                                                struct ps_error *error);

#endif

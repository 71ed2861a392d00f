/* SPDX-License-Identifier: Apache-2.0 */
/* A segment file read from front to back through one buffer.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   those of the file system; PS_ERR_IO also when the file has become shorter.
 * Memory:   a window owns its buffer until ps_journal_window_fini.
 */
#ifndef PS_CHECKPOINT_JOURNAL_WINDOW_H
#define PS_CHECKPOINT_JOURNAL_WINDOW_H

#include "base/alloc.h"
#include "base/file.h"
#include "checkpoint/journal_record.h"

/* Zero but for `memory` and `files`: nothing open. */
struct ps_journal_window {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_files *files;      /* borrowed; outlives this */
    struct ps_file file;
    bool is_open;
    bool ahead_little;   /* the last copy was large: the next one will not come from here either */
    uint64_t file_bytes; /* when it was opened: records end there or before */
    struct ps_journal_life life; /* of the file; zeroed until its first record was read */
    uint8_t *buffer;             /* owned */
    uint64_t begin;              /* of the buffer's bytes in the file */
    size_t filled;
};

PS_MUST_USE enum ps_status ps_journal_window_init(struct ps_journal_window *window,
                                                  const struct ps_files *files,
                                                  const struct ps_allocator *memory,
                                                  struct ps_error *error);
void ps_journal_window_fini(struct ps_journal_window *window);

/* Opens `path` in place of the file before. Its life is not known yet. */
PS_MUST_USE enum ps_status ps_journal_window_open(struct ps_journal_window *window,
                                                  const char *path, struct ps_error *error);

/* Closes the file, if one is open; the buffer stays. */
void ps_journal_window_close(struct ps_journal_window *window);

/* Shows up to `size_max` bytes at `offset`; less only at the file's end. `size_max` is at most
 * PS_JOURNAL_PEEK_BYTES_MAX. The bytes are borrowed until the next call. */
#define PS_JOURNAL_PEEK_BYTES_MAX ((size_t)4096)
PS_MUST_USE enum ps_status ps_journal_window_peek(struct ps_journal_window *window, uint64_t offset,
                                                  size_t size_max, struct ps_bytes *bytes,
                                                  struct ps_error *error);

/* Copies `size` bytes at `offset`, which the file must have, and continues `*crc32c` over them. */
PS_MUST_USE enum ps_status ps_journal_window_copy(struct ps_journal_window *window, uint64_t offset,
                                                  uint8_t *to, size_t size, uint32_t *crc32c,
                                                  struct ps_error *error);

/* Reads the head at `offset`: of a record of the file's life, or of any first record while that is
 * not known. `*head` is borrowed until the next call. */
PS_MUST_USE enum ps_status ps_journal_window_head(struct ps_journal_window *window, uint64_t offset,
                                                  struct ps_journal_head *head,
                                                  enum ps_journal_verdict *verdict,
                                                  struct ps_error *error);

/* Moves `*offset`, where a record ends, over the zeros behind it when it was the last of a flush:
 * to the next block, where a record may begin. Anything but zeros leaves it alone. */
PS_MUST_USE enum ps_status ps_journal_window_pass_zeros(struct ps_journal_window *window,
                                                        uint64_t *offset, struct ps_error *error);

/* Forgets what was read ahead, which a server at work may have written over since. */
void ps_journal_window_forget(struct ps_journal_window *window);

/* Copies the content of the record at `offset`, whose head is `head`. Sets `*bad` when it is not
 * whole, and leaves it alone otherwise. */
PS_MUST_USE enum ps_status ps_journal_window_content(struct ps_journal_window *window,
                                                     uint64_t offset,
                                                     const struct ps_journal_head *head,
                                                     uint8_t *to, const char **bad,
                                                     struct ps_error *error);

#endif

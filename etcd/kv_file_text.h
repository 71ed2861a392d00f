/* SPDX-License-Identifier: Apache-2.0 */
/* A table as text and back: the content of kv_file.c's file.
 *
 * The first line is "pserver-store 1 CHECKSUM", the rest one JSON document; CHECKSUM is FNV-1a-32
 * of the rest in eight hexadecimal digits.
 *
 * Threads:  none inside.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for a text that the writer did not write.
 * Memory:   text in a buffer of the caller's; the table owns its content.
 */
#ifndef PS_ETCD_KV_FILE_TEXT_H
#define PS_ETCD_KV_FILE_TEXT_H

#include "base/buffer.h"
#include "etcd/kv_table.h"

/* Longest file. */
#define PS_KV_FILE_BYTES_MAX ((size_t)64 * 1024 * 1024)

/* Appends the text; the buffer says whether it had room. */
void ps_kv_file_write(const struct ps_kv_table *table, struct ps_buffer *text);

/* Fills `table`, which must be freshly initialised; on failure it holds part of the content. */
PS_MUST_USE enum ps_status ps_kv_file_read(struct ps_bytes text, struct ps_kv_table *table,
                                           struct ps_error *error);

/* The same for the content of the file `path`, which the error names, with what to do: a damaged
 * store is refused by whoever opens it, and an operator may see one line. */
PS_MUST_USE enum ps_status ps_kv_file_read_of(const char *path, struct ps_bytes text,
                                              struct ps_kv_table *table, struct ps_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens: who shows one is whom the file names. The file has no token, only what a token
 * hashes to, so that whoever reads it can let nobody in.
 *
 *     # a comment
 *     trainer-7 sha256:9f86d081884c7d65...  anything behind it is a comment
 *
 * Threads:  constant once read; acquire and release from any thread.
 * Blocking: read waits for the disk.
 * Errors:   PS_ERR_NOT_FOUND and PS_ERR_IO for the file; PS_ERR_BAD_INPUT with "PATH:LINE: ";
 *           PS_ERR_NO_MEMORY.
 * Memory:   counted.
 */
#ifndef PS_SECURITY_TOKEN_FILE_H
#define PS_SECURITY_TOKEN_FILE_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/status.h"

/* Longest token, in bytes. */
#define PS_TOKEN_BYTES_MAX 512

struct ps_tokens;

/* Returns the tokens of a file with one reference for the caller. A name that stands there twice
 * has two tokens, for the time in which one takes the place of the other. */
PS_MUST_USE enum ps_status ps_tokens_read(const char *path, const struct ps_files *files,
                                          const struct ps_allocator *memory,
                                          struct ps_tokens **tokens, struct ps_error *error);

/* Whose token this is; NULL: nobody's. The time that it takes says nothing about the tokens. Lives
 * as long as the tokens. */
const char *ps_tokens_name_of(const struct ps_tokens *tokens, struct ps_bytes token);

size_t ps_tokens_count(const struct ps_tokens *tokens);

/* The same names with the same digests, in the same order? */
bool ps_tokens_equal(const struct ps_tokens *a, const struct ps_tokens *b);

/* One more reference, and one less. NULL is allowed in both. */
struct ps_tokens *ps_tokens_acquire(struct ps_tokens *tokens);
void ps_tokens_release(struct ps_tokens *tokens);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The file of roles: YAML, one list of rules.
 *
 *     rules:
 *       - identity: spiffe://example/job/demo/worker-*
 *         role: trainer
 *         job: demo          # every job, if left out
 *         prefix: encoder/   # every parameter, if left out
 *
 * Threads:  any.
 * Blocking: waits for the disk.
 * Errors:   PS_ERR_NOT_FOUND and PS_ERR_IO for the file; PS_ERR_BAD_INPUT for what is in it, with
 *           the path in front; PS_ERR_NO_MEMORY.
 * Memory:   the roles are counted (roles.h).
 */
#ifndef PS_SECURITY_ROLES_FILE_H
#define PS_SECURITY_ROLES_FILE_H

#include "base/file.h"
#include "security/roles.h"

/* Returns the roles of a file with one reference for the caller. A file without rules is one: it
 * allows nothing. */
PS_MUST_USE enum ps_status ps_roles_read(const char *path, const struct ps_files *files,
                                         const struct ps_allocator *memory, struct ps_roles **roles,
                                         struct ps_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a data folder is. Whoever repairs one at night is root, and its server is not: what root
 * makes there has to be the server's, or the server cannot read what was repaired.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   none; what cannot be given away is said on standard error.
 * Memory:   none.
 */
#ifndef PS_TOOLS_FOLDER_OWNER_H
#define PS_TOOLS_FOLDER_OWNER_H

#include <stdbool.h>
#include <stddef.h>

struct folder_owner {
    bool is_another; /* this process is root's, and the folder is not */
    unsigned user;
    unsigned group;
};

/* Looks before a command begins, since it may exchange the folder itself. A path that is no folder
 * has no owner to give anything to. */
void folder_owner_look(struct folder_owner *owner, const char *path);

/* Gives the owner what is root's at and below `path`, and returns how many files and folders that
 * were. Files of others stay theirs. A file with two names is left alone, and no link is followed:
 * a name that somebody has put there could be that of a file elsewhere. Without another owner, or
 * without anything at `path`, nothing is done. */
size_t folder_owner_give(const struct folder_owner *owner, const char *path);

#endif

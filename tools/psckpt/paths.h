/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and the names of a folder's entries: what all commands do with them alike.
 *
 * Threads:  one.
 * Blocking: for the disk, where a function takes files.
 * Errors:   those of the file system; PS_ERR_NO_MEMORY; PS_ERR_BAD_INPUT for a path too long.
 * Memory:   a list owns its names until name_list_fini.
 */
#ifndef PS_TOOLS_PATHS_H
#define PS_TOOLS_PATHS_H

#include "base/alloc.h"
#include "base/file.h"

struct name_list {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    char **names;                      /* owned, each of them too; sorted */
    size_t count;
    bool refused; /* private */
};

PS_MUST_USE enum ps_status name_list_init(struct name_list *list, const struct ps_files *files,
                                          const char *folder, const struct ps_allocator *memory,
                                          struct ps_error *error);

/* Accepts a zeroed list. */
void name_list_fini(struct name_list *list);

/* Nothing has that name any more: a file that was listed was removed since. A link that leads
 * nowhere is there, and cannot be read. */
bool path_is_gone(const struct ps_files *files, const char *path);

/* Is `path` a folder? What is not there is none. */
bool path_is_folder(const struct ps_files *files, const char *path);

/* Is nothing at all called so? What cannot be looked at is taken for something. */
bool path_is_free(const struct ps_files *files, const char *path);

/* Does the name have something in front of `suffix`, and end in it? */
bool path_ends_with(const char *path, const char *suffix);

/* The last part of a path, without a slash. */
const char *path_name(const char *path);

/* Prints into `path`, of `size` bytes; a path cut short would be another file's, so one that does
 * not fit is PS_ERR_BAD_INPUT. `subject` is the path that the message names. */
PS_MUST_USE enum ps_status path_write(char *path, size_t size, struct ps_error *error,
                                      const char *subject, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* `rows`, of `count` entries of `size` bytes, with room for one more: itself, or a copy when
 * `count` has reached a power of two, and `rows` is released then. NULL when memory is refused;
 * `rows` is untouched then. */
void *array_with_room(const struct ps_allocator *memory, void *rows, size_t count, size_t size);

#endif

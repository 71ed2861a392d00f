/* The names of a folder's entries, sorted.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   those of the file system; PS_ERR_NO_MEMORY.
 * Memory:   a list owns its names until name_list_fini.
 */
#ifndef PS_TOOLS_NAME_LIST_H
#define PS_TOOLS_NAME_LIST_H

#include "base/alloc.h"
#include "base/file.h"

struct name_list {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    char **names;                      /* owned, each of them too */
    size_t count;
    size_t capacity; /* private */
    bool refused;    /* private */
};

PS_MUST_USE enum ps_status name_list_init(struct name_list *list, const struct ps_files *files,
                                          const char *folder, const struct ps_allocator *memory,
                                          struct ps_error *error);

/* Accepts a zeroed list. */
void name_list_fini(struct name_list *list);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Files apart from their names, and tables of names: what memory_files.c builds its disk from.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   from the C library; a refused allocation aborts. Inodes are counted: every name,
 *           handle and pending change holds one reference.
 */
#ifndef PS_TESTS_SUPPORT_MEMORY_NAMES_H
#define PS_TESTS_SUPPORT_MEMORY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The content of a file, and what of it is certain. The first `synced` bytes were on the disk at
 * the last sync; since then some of them may have been written over, and bytes may have been
 * added. */
struct memory_inode {
    uint8_t *content; /* as reads see it */
    size_t size;
    size_t capacity;
    size_t synced;
    uint8_t *before; /* the first `synced` bytes as of the last sync; NULL: as in `content` */
    bool poisoned; /* a sync failed: what it should have saved is lost, whatever later syncs say */
    size_t references;
};

/* Returns an empty inode with one reference, ended by memory_inode_release. */
struct memory_inode *memory_inode_create(void);
void memory_inode_release(struct memory_inode *inode);
/* Writes over what is at `offset` and goes on behind the end; there are no holes. */
void memory_inode_write(struct memory_inode *inode, size_t offset, const uint8_t *data,
                        size_t size);
/* The file ends at `size`, which is certain at once. */
void memory_inode_cut(struct memory_inode *inode, size_t size);
/* All that the file holds now is certain, and nothing in doubt. */
void memory_inode_settle(struct memory_inode *inode);

struct memory_link {
    char *path;
    struct memory_inode *inode;
};

/* Names to files, in the order of their making. Zero is an empty table. */
struct memory_names {
    struct memory_link *links;
    size_t count;
    size_t capacity;
};

/* NULL when there is no such name. Borrowed until the next change. */
struct memory_link *memory_names_find(const struct memory_names *names, const char *path);
void memory_names_remove(struct memory_names *names, const char *path);
/* Gives the inode this name and no other: there are no hard links. */
void memory_names_set(struct memory_names *names, const char *path, struct memory_inode *inode);
void memory_names_fini(struct memory_names *names);

/* `array` with room for one more item; `*capacity` is updated. */
void *memory_grown(void *array, size_t count, size_t *capacity, size_t item_size);
/* A copy that the caller frees; NULL of NULL. */
char *memory_copied(const char *text);

/* The folder of a path: "a/b" is in "a", "b" in ".", "/b" in "/". */
void memory_parent_of(const char *path, char *parent, size_t size);
/* The same folder, whether or not either ends in slashes. */
bool memory_same_folder(const char *a, const char *b);

#endif

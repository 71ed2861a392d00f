/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes and tables of names. */
#include "tests/support/memory_names.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

struct memory_inode *memory_inode_create(void)
{
    struct memory_inode *inode = calloc(1, sizeof *inode);
    PS_ASSERT(inode != NULL);
    inode->references = 1;
    return inode;
}

void memory_inode_release(struct memory_inode *inode)
{
    if (inode == NULL)
        return;
    PS_ASSERT(inode->references > 0);
    if (--inode->references > 0)
        return;
    free(inode->content);
    free(inode->before);
    free(inode);
}

/* The copy of before is made at the first write over synced bytes and kept until the next sync. */
static void keep_before(struct memory_inode *inode)
{
    if (inode->before != NULL)
        return;
    inode->before = malloc(inode->synced);
    PS_ASSERT(inode->before != NULL);
    memcpy(inode->before, inode->content, inode->synced);
}

void memory_inode_write(struct memory_inode *inode, size_t offset, const uint8_t *data, size_t size)
{
    if (size == 0)
        return;
    if (offset < inode->synced)
        keep_before(inode);
    if (offset + size > inode->capacity) {
        inode->capacity = (offset + size) * 2;
        inode->content = realloc(inode->content, inode->capacity);
        PS_ASSERT(inode->content != NULL);
    }
    if (offset > inode->size)
        memset(inode->content + inode->size, 0, offset - inode->size);
    memcpy(inode->content + offset, data, size);
    if (offset + size > inode->size)
        inode->size = offset + size;
}

void memory_inode_cut(struct memory_inode *inode, size_t size)
{
    PS_ASSERT(size <= inode->size);
    inode->size = size;
    inode->synced = inode->synced < size ? inode->synced : size;
}

void memory_inode_settle(struct memory_inode *inode)
{
    free(inode->before);
    inode->before = NULL;
    inode->synced = inode->size;
}

struct memory_link *memory_names_find(const struct memory_names *names, const char *path)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->links[i].path, path) == 0)
            return &names->links[i];
    }
    return NULL;
}

static void remove_at(struct memory_names *names, size_t i)
{
    free(names->links[i].path);
    memory_inode_release(names->links[i].inode);
    names->count--;
    memmove(&names->links[i], &names->links[i + 1], (names->count - i) * sizeof names->links[0]);
}

void memory_names_remove(struct memory_names *names, const char *path)
{
    const struct memory_link *link = memory_names_find(names, path);
    if (link != NULL)
        remove_at(names, (size_t)(link - names->links));
}

void memory_names_set(struct memory_names *names, const char *path, struct memory_inode *inode)
{
    inode->references++;
    memory_names_remove(names, path);
    for (size_t i = 0; i < names->count; i++) {
        if (names->links[i].inode == inode)
            remove_at(names, i--);
    }
    names->links =
        memory_grown(names->links, names->count, &names->capacity, sizeof names->links[0]);
    names->links[names->count++] = (struct memory_link){memory_copied(path), inode};
}

void memory_names_fini(struct memory_names *names)
{
    while (names->count > 0)
        remove_at(names, names->count - 1);
    free(names->links);
    *names = (struct memory_names){0};
}

void *memory_grown(void *array, size_t count, size_t *capacity, size_t item_size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity == 0 ? 16 : *capacity * 2;
    void *larger = realloc(array, *capacity * item_size);
    PS_ASSERT(larger != NULL);
    return larger;
}

char *memory_copied(const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = strdup(text);
    PS_ASSERT(copy != NULL);
    return copy;
}

static size_t length_without_slashes(const char *path, size_t length)
{
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

void memory_parent_of(const char *path, char *parent, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *folder = slash != NULL ? path : ".";
    size_t length = slash != NULL ? (size_t)(slash - path) : 1;
    length = length_without_slashes(folder, length > 0 ? length : 1);
    PS_ASSERT(length < size);
    memcpy(parent, folder, length);
    parent[length] = '\0';
}

bool memory_same_folder(const char *a, const char *b)
{
    size_t a_length = length_without_slashes(a, strlen(a));
    size_t b_length = length_without_slashes(b, strlen(b));
    return a_length == b_length && memcmp(a, b, a_length) == 0;
}

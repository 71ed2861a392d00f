/* SPDX-License-Identifier: Apache-2.0 */
/* A path either fits or is refused, and a folder's names come sorted: what psckpt prints about a
 * folder must not depend on the order in which a file system happens to list it. */
#include "tools/psckpt/paths.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_name(void *context, const char *name);
static int compare_names(const void *a, const void *b);

/* The list is sorted as bytes, whatever the locale: scripts on two machines must see one order. */
enum ps_status name_list_init(struct name_list *list, const struct ps_files *files,
                              const char *folder, const struct ps_allocator *memory,
                              struct ps_error *error)
{
    *list = (struct name_list){.memory = memory};
    enum ps_status status = files->list(files->self, folder, take_name, list, error);
    /* The callback cannot fail, so a refusal is remembered in the list and found here: half a
     * folder taken for all of it would make a damaged shard look whole. */
    if (status == PS_OK && list->refused)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the names in %s", folder);
    if (status != PS_OK) {
        name_list_fini(list);
        return status;
    }
    if (list->count > 0)
        qsort(list->names, list->count, sizeof *list->names, compare_names);
    return PS_OK;
}

/* A list that was never filled has no allocator. */
void name_list_fini(struct name_list *list)
{
    if (list->memory == NULL)
        return;
    for (size_t i = 0; i < list->count; i++)
        ps_release(list->memory, list->names[i]);
    ps_release(list->memory, list->names);
    *list = (struct name_list){0};
}

/* After a refusal the other names are passed over; the list is given up anyway. */
static void take_name(void *context, const char *name)
{
    struct name_list *list = context;
    if (list->refused)
        return;
    char **names = array_with_room(list->memory, list->names, list->count, sizeof *names);
    if (names != NULL)
        list->names = names;
    char *copy = names == NULL ? NULL : ps_copy_text(list->memory, name, strlen(name));
    list->refused = copy == NULL;
    if (copy != NULL)
        list->names[list->count++] = copy;
}

/* strcmp and not strcoll. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void ignore_entry(void *context, const char *name)
{
    (void)context;
    (void)name;
}

/* A name that is looked for in its folder. */
struct looking {
    const char *name;
    bool is_found;
};

static void compare_entry(void *context, const char *name)
{
    struct looking *looking = context;
    looking->is_found |= strcmp(looking->name, name) == 0;
}

/* By its folder's list, since opening says the same of a link that leads nowhere. A folder that
 * cannot be listed proves nothing. */
bool path_is_gone(const struct ps_files *files, const char *path)
{
    char folder[4096];
    struct looking looking = {.name = path_name(path)};
    size_t size = (size_t)(looking.name - path);
    if (size == 0 || size > sizeof folder)
        return false;
    memcpy(folder, path, size - 1);
    folder[size - 1] = '\0';
    return files->list(files->self, folder, compare_entry, &looking, NULL) == PS_OK &&
           !looking.is_found;
}

/* The files interface has no stat: a folder is what can be listed, on a real disk and on the one
 * in memory alike. */
bool path_is_folder(const struct ps_files *files, const char *path)
{
    return files->list(files->self, path, ignore_entry, NULL, NULL) == PS_OK;
}

/* Before something is renamed to a path, "is it free?" has to be answered on the safe side: rename
 * replaces an empty folder without a word. */
bool path_is_free(const struct ps_files *files, const char *path)
{
    return files->list(files->self, path, ignore_entry, NULL, NULL) == PS_ERR_NOT_FOUND;
}

/* A name that is nothing but the ending is a hidden file, not one of ours. */
bool path_ends_with(const char *path, const char *suffix)
{
    size_t size = strlen(path);
    size_t tail = strlen(suffix);
    return size > tail && strcmp(path + size - tail, suffix) == 0;
}

/* A path that ends in a slash has an empty name. */
const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* The buffers have fixed sizes, since paths are printed in many places; with snprintf alone a path
 * that was cut off would be used as it is. */
enum ps_status path_write(char *path, size_t size, struct ps_error *error, const char *subject,
                          const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, size, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= size)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%.100s...: the path is too long", subject);
    return PS_OK;
}

/* Doubling keeps the copying linear in the end. The capacity is not stored anywhere: the count
 * tells it, since an array that grew one by one is full exactly at 0, 1, 2, 4, 8 ... entries. The
 * caller keeps the old rows until the new ones are there, so a refusal loses nothing. */
void *array_with_room(const struct ps_allocator *memory, void *rows, size_t count, size_t size)
{
    if (count > 0 && (count & (count - 1)) != 0)
        return rows;
    void *more = ps_zeroed_array(memory, count == 0 ? 1 : count * 2, size);
    if (more == NULL)
        return NULL;
    if (count > 0)
        memcpy(more, rows, count * size);
    ps_release(memory, rows);
    return more;
}

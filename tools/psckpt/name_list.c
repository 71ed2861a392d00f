/* Collects what a folder holds. */
#include "tools/psckpt/name_list.h"

#include <stdlib.h>
#include <string.h>

static void take_name(void *context, const char *name);
static bool make_room(struct name_list *list);
static int compare_names(const void *a, const void *b);

enum ps_status name_list_init(struct name_list *list, const struct ps_files *files,
                              const char *folder, const struct ps_allocator *memory,
                              struct ps_error *error)
{
    *list = (struct name_list){.memory = memory};
    enum ps_status status = files->list(files->self, folder, take_name, list, error);
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

void name_list_fini(struct name_list *list)
{
    if (list->memory == NULL)
        return;
    for (size_t i = 0; i < list->count; i++)
        ps_release(list->memory, list->names[i]);
    ps_release(list->memory, list->names);
    *list = (struct name_list){0};
}

static void take_name(void *context, const char *name)
{
    struct name_list *list = context;
    if (list->refused || !make_room(list))
        return;
    char *copy = ps_copy_text(list->memory, name, strlen(name));
    list->refused = copy == NULL;
    if (copy != NULL)
        list->names[list->count++] = copy;
}

static bool make_room(struct name_list *list)
{
    if (list->count < list->capacity)
        return true;
    size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
    char **names = ps_zeroed_array(list->memory, capacity, sizeof *names);
    list->refused = names == NULL;
    if (names == NULL)
        return false;
    if (list->count > 0)
        memcpy(names, list->names, list->count * sizeof *names);
    ps_release(list->memory, list->names);
    list->names = names;
    list->capacity = capacity;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

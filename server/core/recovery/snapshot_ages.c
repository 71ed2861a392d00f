/* SPDX-License-Identifier: Apache-2.0 */
/* Within the instant, in which all pushes wait, numbers are copied, some hundred bytes a table;
 * texts are made of them behind it. The sweep holds the cut shared for each of its pieces, so that
 * versions, ages and rows are of one moment. */
#include "server/core/recovery/snapshot_ages.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"
#include "server/core/update/parameter_rows.h"
#include "server/core/update/row_ages_text.h"

#include <stdlib.h>

/* Of one table: what is known of it, and the text that is made of that. The text is as long as any
 * can become, so that making it cannot fail. */
struct one {
    const struct ps_parameter_spec *spec; /* borrowed: the snapshot has a reference */
    struct ps_row_expiry expiry;
    size_t size;
    char text[PS_ROW_AGES_TEXT_BYTES];
};

struct ps_snapshot_ages {
    const struct ps_allocator *memory; /* borrowed */
    uint64_t time;                     /* of the instant; ps_service_row_time */
    size_t capacity;
    size_t count;
    struct one tables[];
};

static int compare_specs(const void *a, const void *b);

/* Most shards have no such table, and none of this. */
enum ps_status ps_snapshot_ages_reserve(struct ps_service *service, struct ps_snapshot_ages **ages,
                                        struct ps_error *error)
{
    size_t capacity = service->table.expiring_count;
    *ages = NULL;
    if (capacity == 0)
        return PS_OK;
    /* Before the instant, in which nothing that can fail is begun for it. */
    struct ps_snapshot_ages *made =
        ps_zeroed(service->memory, sizeof *made + capacity * sizeof made->tables[0]);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot of %zu tables' ages",
                       capacity);
    made->memory = service->memory;
    made->capacity = capacity;
    PS_ASSERT(capacity <= service->table.count);
    *ages = made;
    return PS_OK;
}

/* A table may have been configured since the reservation, which changes no name: then one finds no
 * room, or some room stays empty. What is known of a table that began to expire a moment ago is
 * nothing, or of before it stopped; without it its rows live longer. */
void ps_snapshot_ages_take(struct ps_service *service, struct ps_snapshot_ages *ages)
{
    if (ages == NULL)
        return;
    PS_ASSERT(ages->count == 0);
    ages->time = ps_service_row_time(service);
    struct ps_parameter_entry *entry = ps_parameter_table_first(&service->table);
    for (; entry != NULL && ages->count < ages->capacity; entry = ps_parameter_table_next(entry)) {
        const struct ps_parameter *parameter = ps_parameter_entry_parameter(entry);
        if (!ps_parameter_rows_expire(parameter))
            continue;
        struct one *one = &ages->tables[ages->count++];
        one->spec = parameter->spec;
        one->expiry = *parameter->expiry;
    }
}

/* Sorted by address, which is as good an order to search in as any and says nothing to the file. */
void ps_snapshot_ages_settle(struct ps_snapshot_ages *ages)
{
    if (ages == NULL)
        return;
    PS_ASSERT(ages->count <= ages->capacity);
    for (size_t i = 0; i < ages->count; i++) {
        struct one *one = &ages->tables[i];
        one->size =
            ps_row_ages_text_write(&one->expiry, &one->spec->settings.table, ages->time, one->text);
    }
    if (ages->count > 1)
        qsort(ages->tables, ages->count, sizeof ages->tables[0], compare_specs);
}

static int compare_specs(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t)((const struct one *)a)->spec;
    uintptr_t right = (uintptr_t)((const struct one *)b)->spec;
    PS_ASSERT(left != 0 && right != 0);
    return left < right ? -1 : left > right;
}

struct ps_bytes ps_snapshot_ages_of(const struct ps_snapshot_ages *ages,
                                    const struct ps_parameter_spec *spec)
{
    /* The file then has no word of it, and is what it always was. */
    const struct ps_bytes none = {NULL, 0};
    PS_ASSERT(spec != NULL);
    /* Also where every table that expired was configured not to. */
    if (ages == NULL || ages->count == 0)
        return none;
    size_t low = 0;
    size_t high = ages->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)ages->tables[middle].spec <= (uintptr_t)spec)
            low = middle;
        else
            high = middle;
    }
    /* The last one that is not behind it: itself, if it is there. */
    const struct one *one = &ages->tables[low];
    return one->spec == spec ? (struct ps_bytes){(const uint8_t *)one->text, one->size} : none;
}

void ps_snapshot_ages_release(struct ps_snapshot_ages *ages)
{
    if (ages == NULL)
        return;
    PS_ASSERT(ages->memory != NULL);
    ps_release(ages->memory, ages);
}

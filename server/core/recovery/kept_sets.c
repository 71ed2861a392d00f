/* SPDX-License-Identifier: Apache-2.0 */
/* Read anew before each sweep, and not remembered: which sets stay is decided by whichever server
 * made the newest one whole, and the store is where that is known. */
#include "server/core/recovery/kept_sets.h"

#include "base/assert.h"

#include <string.h>

/* A set without a row of this shard is under way. A row that cannot be read names no file. */
static enum ps_status add(struct ps_registry *registry, const char *name, uint32_t index,
                          const struct ps_allocator *memory, uint64_t deadline_ms,
                          struct ps_kept_sets *kept, struct ps_error *error)
{
    struct ps_kv_entries row;
    struct ps_checkpoint_place place;
    enum ps_status status = ps_registry_set_row(registry, name, index, deadline_ms, &row, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    PS_TRY(status);
    const struct ps_bytes json = {row.entries[0].value, row.entries[0].value_size};
    bool is_read = ps_catalog_pointer_read(json, memory, &place, NULL) == PS_OK;
    bool has_room = !is_read || ps_kept_sets_add(kept, place.uuid);
    PS_ASSERT(has_room);
    ps_kv_entries_release(&row);
    return PS_OK;
}

/* The one under way comes first: should it be whole when the others are read, it is there twice
 * rather than not at all. */
enum ps_status ps_kept_sets_read(struct ps_registry *registry, uint32_t index,
                                 const struct ps_allocator *memory, uint64_t deadline_ms,
                                 struct ps_kept_sets *kept, struct ps_error *error)
{
    struct ps_set wanted;
    struct ps_set_list list;
    PS_ASSERT(registry != NULL && index < PS_SHARDS_MAX);
    /* Filled as far as the store answers; the caller takes all of it or nothing. */
    kept->count = 0;
    PS_TRY(ps_registry_wanted_set(registry, deadline_ms, &wanted, error));
    PS_TRY(ps_registry_whole_sets(registry, deadline_ms, &list, error));
    if (wanted.name[0] != '\0')
        PS_TRY(add(registry, wanted.name, index, memory, deadline_ms, kept, error));
    for (size_t i = 0; i < list.count; i++)
        PS_TRY(add(registry, list.sets[i].name, index, memory, deadline_ms, kept, error));
    return PS_OK;
}

/* The same uuid twice does no harm: the list is looked through, and never counted. */
bool ps_kept_sets_add(struct ps_kept_sets *kept, const char *uuid)
{
    PS_ASSERT(strlen(uuid) < sizeof kept->uuids[0].text);
    if (kept->count == PS_ARRAY_COUNT(kept->uuids))
        return false;
    memcpy(kept->uuids[kept->count++].text, uuid, strlen(uuid) + 1);
    return true;
}

/* By the uuid, as the catalog knows files. */
bool ps_kept_sets_have(const struct ps_kept_sets *kept, const char *uuid)
{
    PS_ASSERT(kept->count <= PS_ARRAY_COUNT(kept->uuids));
    for (size_t i = 0; i < kept->count; i++)
        if (strcmp(kept->uuids[i].text, uuid) == 0)
            return true;
    return false;
}

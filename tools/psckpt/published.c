/* Reads /checkpoints/<i>, and nothing else. */
#include "tools/psckpt/published.h"

#include "base/clock.h"
#include "checkpoint/catalog.h"
#include "etcd/kv.h"

#include <string.h>

enum ps_status published_open(struct published *published, const struct published_options *options,
                              const struct ps_allocator *memory, struct ps_error *error)
{
    const struct ps_clock *clock = ps_clock_real();
    *published = (struct published){.memory = memory};
    if (options->etcd == NULL)
        return PS_OK;
    const struct ps_kv_etcd_options wish = {.endpoints = options->etcd,
                                            .user = options->user,
                                            .password = options->password,
                                            .clock = clock,
                                            .memory = memory};
    PS_TRY(ps_kv_etcd_open(&wish, &published->kv, error));
    published->deadline_ms = ps_deadline_after(clock, options->timeout_ms);
    return PS_OK;
}

void published_close(struct published *published)
{
    if (published->kv != NULL)
        ps_kv_destroy(published->kv);
    published->kv = NULL;
}

enum ps_status published_uuid(struct published *published, const char *job, uint32_t index,
                              char uuid[37], struct ps_error *error)
{
    uuid[0] = '\0';
    if (published->kv == NULL)
        return PS_OK;
    struct ps_registry registry;
    PS_TRY(ps_registry_init(&registry, published->kv, job, error));
    struct ps_kv_entries entries = {0};
    enum ps_status status =
        ps_registry_read_checkpoint(&registry, index, published->deadline_ms, &entries, error);
    if (status == PS_ERR_NOT_FOUND)
        return PS_OK;
    if (status != PS_OK)
        return status;
    struct ps_checkpoint_place place = {.bytes = 0};
    struct ps_bytes json = {entries.entries[0].value, entries.entries[0].value_size};
    status = ps_catalog_pointer_read(json, published->memory, &place, error);
    if (status == PS_OK)
        memcpy(uuid, place.uuid, sizeof place.uuid);
    ps_kv_entries_release(&entries);
    return status;
}

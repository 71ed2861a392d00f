/* Between the core and a device's plugin. */
#include "server/core/device_store.h"

#include "base/assert.h"

static enum ps_status refill(struct ps_resident *resident, uint64_t version,
                             struct ps_error *error);

enum ps_status ps_resident_place(const struct ps_device_store *store,
                                 const struct ps_parameter_spec *spec, struct ps_resident *resident,
                                 struct ps_error *reason)
{
    *resident = (struct ps_resident){0};
    if (store == NULL)
        return PS_OK;
    const struct ps_device_parameter_wish wish = {
        .settings = &spec->settings, .dtype = spec->dtype, .count = spec->count};
    enum ps_status status = store->plugin->supports(&wish, reason);
    if (status == PS_OK)
        status = store->plugin->parameter_create(store->device, &wish, &resident->handle, reason);
    if (status == PS_OK) {
        resident->store = store;
        return PS_OK;
    }
    if (status == PS_ERR_UNAVAILABLE)
        return status;
    PS_LOG(store->log, PS_LOG_WARN, "device", "parameter stays on the cpu",
           PS_FIELD_TEXT("name", (const char *)spec->name.data),
           PS_FIELD_UINT("bytes", ps_parameter_spec_bytes(spec) *
                                      (1 + (uint64_t)ps_rule_states(spec->settings.rule))),
           PS_FIELD_ERROR(reason));
    return PS_OK;
}

void ps_resident_release(struct ps_resident *resident)
{
    ps_blocks_release(resident->shadow);
    if (resident->store != NULL)
        resident->store->plugin->parameter_destroy(resident->handle);
    *resident = (struct ps_resident){0};
}

enum ps_status ps_resident_set(struct ps_resident *resident, uint32_t array, uint64_t offset,
                               struct ps_view content, struct ps_error *error)
{
    return resident->store->plugin->write(resident->handle, array, offset, content, error);
}

enum ps_status ps_resident_push(struct ps_resident *resident, struct ps_gradient gradient,
                                const struct ps_optimizer_step *step, struct ps_error *error)
{
    const struct ps_device_store *store = resident->store;
    const struct ps_device_push push = {.parameter = resident->handle,
                                        .gradient = gradient.content,
                                        .encoding = gradient.encoding,
                                        .step = step};
    return store->plugin->push(store->device, &push, 1, &resident->newest, error);
}

/* While a reader holds the shadow it stays as it is, and there will be another. */
enum ps_status ps_resident_look(struct ps_resident *resident, struct ps_parameter_spec *spec,
                                uint64_t version, struct ps_blocks **values, struct ps_error *error)
{
    struct ps_blocks *shadow = resident->shadow;
    bool is_old = shadow == NULL || resident->shadow_version != version;
    if (is_old && (shadow == NULL || ps_blocks_shared(shadow))) {
        ps_blocks_release(shadow);
        resident->shadow = ps_blocks_create(spec);
        if (resident->shadow == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY,
                           "parameter: %s, no memory to read %zu bytes from the device",
                           (const char *)spec->name.data, ps_parameter_spec_bytes(spec));
    }
    if (is_old)
        PS_TRY(refill(resident, version, error));
    *values = ps_blocks_acquire(resident->shadow);
    return PS_OK;
}

static enum ps_status refill(struct ps_resident *resident, uint64_t version, struct ps_error *error)
{
    const struct ps_device_plugin *plugin = resident->store->plugin;
    struct ps_blocks *shadow = resident->shadow;
    uint64_t offset = 0;
    /* Until it is done, the shadow is of no version. */
    resident->shadow_version = UINT64_MAX;
    for (size_t i = 0; i < shadow->block_count; i++) {
        size_t size = shadow->pieces[i].size;
        PS_TRY(plugin->read(resident->handle, PS_DEVICE_VALUES, offset,
                            ps_blocks_write(shadow, i, version), size, error));
        offset += size;
    }
    resident->shadow_version = version;
    return PS_OK;
}

enum ps_status ps_device_store_wait(const struct ps_device_store *store,
                                    struct ps_device_ticket ticket, struct ps_error *error)
{
    if (ticket.compute == 0 && ticket.copy_out == 0)
        return PS_OK;
    PS_ASSERT(store != NULL);
    return store->plugin->wait(store->device, ticket, error);
}

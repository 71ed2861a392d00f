/* SPDX-License-Identifier: Apache-2.0 */
/* Copies keys and values into the result of a read. A NUL goes behind each (ps_copy_text), so that
 * values which are text can be used as such. */
#include "etcd/kv_entries.h"

enum ps_status ps_kv_entries_make(struct ps_kv_entries *entries, const struct ps_allocator *memory,
                                  size_t capacity, struct ps_error *error)
{
    *entries = (struct ps_kv_entries){.memory = memory};
    /* No keys, no array: entries->entries stays NULL. */
    if (capacity == 0)
        return PS_OK;
    entries->entries = ps_zeroed_array(memory, capacity, sizeof *entries->entries);
    if (entries->entries == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for %zu keys", capacity);
    return PS_OK;
}

enum ps_status ps_kv_entries_add(struct ps_kv_entries *entries, struct ps_bytes key,
                                 struct ps_bytes value, struct ps_kv_entry facts,
                                 struct ps_error *error)
{
    /* Both are made before either is looked at, so there is one place to give back what was
     * made. */
    char *key_copy = ps_copy_text(entries->memory, key.data, key.size);
    char *value_copy = ps_copy_text(entries->memory, value.data, value.size);
    if (key_copy == NULL || value_copy == NULL) {
        ps_release(entries->memory, key_copy);
        ps_release(entries->memory, value_copy);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for a key and its value");
    }
    /* The caller has made room for as many as it adds. */
    facts.key = key_copy;
    facts.value = (uint8_t *)value_copy;
    /* The size is the value's own: bytes behind a NUL in it count. */
    facts.value_size = value.size;
    entries->entries[entries->count++] = facts;
    return PS_OK;
}

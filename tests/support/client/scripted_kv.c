/* SPDX-License-Identifier: Apache-2.0 */
/* The store that holds and fails as told. */
#include "tests/support/client/scripted_kv.h"

#include <check.h>
#include <string.h>

static enum ps_status script_read(struct ps_kv *kv, const char *key, bool prefix,
                                  uint64_t deadline_ms, struct ps_kv_entries *entries,
                                  struct ps_error *error)
{
    struct scripted_kv *script = (struct scripted_kv *)kv;
    const struct ps_allocator *heap = ps_allocator_heap();
    (void)deadline_ms;
    ps_mutex_lock(&script->mutex);
    script->reads++;
    enum ps_status failure = script->failure;
    *entries = (struct ps_kv_entries){.memory = heap, .revision = script->revision};
    if (failure == PS_OK)
        entries->entries = ps_zeroed_array(heap, SCRIPTED_KEYS_MAX, sizeof *entries->entries);
    for (size_t i = 0; failure == PS_OK && i < SCRIPTED_KEYS_MAX; i++) {
        const char *name = script->keys[i];
        if (name == NULL || (prefix ? strncmp(name, key, strlen(key)) : strcmp(name, key)) != 0)
            continue;
        struct ps_kv_entry *entry = &entries->entries[entries->count++];
        entry->key = ps_copy_text(heap, name, strlen(name));
        entry->value_size = strlen(script->values[i]);
        entry->value = (uint8_t *)ps_copy_text(heap, script->values[i], entry->value_size);
        entry->create_revision = script->create_revisions[i];
        entry->modify_revision = script->create_revisions[i];
    }
    ps_mutex_unlock(&script->mutex);
    if (failure != PS_OK)
        return ps_fail(error, failure, "as the script says");
    return PS_OK;
}

static enum ps_status script_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                    uint64_t deadline_ms, bool *done, int64_t *revision,
                                    struct ps_error *error)
{
    (void)kv, (void)transaction, (void)deadline_ms, (void)done, (void)revision;
    return ps_fail(error, PS_ERR_UNSUPPORTED, "a reader does not write");
}

static enum ps_status script_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                   struct ps_kv_lease *lease, struct ps_error *error)
{
    (void)kv, (void)ttl_ms, (void)deadline_ms, (void)lease;
    return ps_fail(error, PS_ERR_UNSUPPORTED, "a reader has no lease");
}

static enum ps_status script_lease(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                   struct ps_error *error)
{
    (void)kv, (void)lease, (void)deadline_ms;
    return ps_fail(error, PS_ERR_UNSUPPORTED, "a reader has no lease");
}

static enum ps_status script_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                        uint64_t deadline_ms, struct ps_error *error)
{
    struct scripted_kv *script = (struct scripted_kv *)kv;
    (void)prefix, (void)deadline_ms;
    ps_mutex_lock(&script->mutex);
    script->heard = revision - 1;
    enum ps_status failure = script->watch_failure;
    ps_mutex_unlock(&script->mutex);
    return failure == PS_OK ? PS_OK : ps_fail(error, failure, "as the script says");
}

static enum ps_status script_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                        struct ps_error *error)
{
    struct scripted_kv *script = (struct scripted_kv *)kv;
    ps_mutex_lock(&script->mutex);
    while (script->revision == script->heard && !script->interrupted &&
           script->watch_failure == PS_OK && ps_time_left_ms(ps_clock_real(), deadline_ms) > 0)
        (void)ps_condition_wait(&script->changed, &script->mutex, 1000);
    *changed = script->revision != script->heard;
    script->heard = script->revision;
    enum ps_status failure = script->watch_failure;
    ps_mutex_unlock(&script->mutex);
    return failure == PS_OK ? PS_OK : ps_fail(error, failure, "as the script says");
}

static void script_interrupt(struct ps_kv *kv)
{
    struct scripted_kv *script = (struct scripted_kv *)kv;
    ps_mutex_lock(&script->mutex);
    script->interrupted = true;
    ps_condition_signal_all(&script->changed);
    ps_mutex_unlock(&script->mutex);
}

static void script_destroy(struct ps_kv *kv)
{
    ((struct scripted_kv *)kv)->destroyed = true;
}

static const struct ps_kv_methods methods = {script_read,       script_commit,    script_grant,
                                             script_lease,      script_lease,     script_watch_open,
                                             script_watch_wait, script_interrupt, script_destroy};

void scripted_kv_init(struct scripted_kv *script)
{
    memset(script, 0, sizeof *script);
    script->kv.methods = &methods;
    script->revision = 1;
    ps_mutex_init(&script->mutex, PS_RANK_LEAF);
    ps_condition_init(&script->changed);
}

void scripted_kv_fini(struct scripted_kv *script)
{
    ck_assert(script->destroyed);
    ps_condition_fini(&script->changed);
    ps_mutex_fini(&script->mutex);
}

static size_t slot_of(const struct scripted_kv *script, const char *key)
{
    size_t free_slot = SCRIPTED_KEYS_MAX;
    for (size_t i = 0; i < SCRIPTED_KEYS_MAX; i++) {
        if (script->keys[i] == NULL)
            free_slot = i;
        else if (strcmp(script->keys[i], key) == 0)
            return i;
    }
    ck_assert_uint_lt(free_slot, SCRIPTED_KEYS_MAX);
    return free_slot;
}

void scripted_kv_put(struct scripted_kv *script, const char *key, const char *value)
{
    ps_mutex_lock(&script->mutex);
    size_t i = slot_of(script, key);
    script->revision++;
    if (script->keys[i] == NULL)
        script->create_revisions[i] = script->revision;
    script->keys[i] = value == NULL ? NULL : key;
    script->values[i] = value;
    ps_condition_signal_all(&script->changed);
    ps_mutex_unlock(&script->mutex);
}

void scripted_kv_fail(struct scripted_kv *script, enum ps_status reads, enum ps_status watches)
{
    ps_mutex_lock(&script->mutex);
    script->failure = reads;
    script->watch_failure = watches;
    ps_condition_signal_all(&script->changed);
    ps_mutex_unlock(&script->mutex);
}

uint32_t scripted_kv_reads(struct scripted_kv *script)
{
    ps_mutex_lock(&script->mutex);
    uint32_t reads = script->reads;
    ps_mutex_unlock(&script->mutex);
    return reads;
}

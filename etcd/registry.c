/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the job's keys, and the number of shards. Every key is made here by ps_registry_key,
 * which puts the job in front, so no function can reach into another job. */
#include "etcd/registry_keys.h"

#include "base/assert.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool job_byte_allowed(char byte);
static enum ps_status put_desired(struct ps_registry *registry, const char *key, uint32_t count,
                                  uint64_t deadline_ms, struct ps_error *error);

enum ps_status ps_registry_init(struct ps_registry *registry, struct ps_kv *kv, const char *job,
                                struct ps_error *error)
{
    PS_ASSERT(kv != NULL);
    size_t size = job == NULL ? 0 : strlen(job);
    if (size > PS_JOB_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a job name of %zu bytes, more than %d", size,
                       PS_JOB_BYTES_MAX);
    /* No slash: a job named "a/ps" would have its keys among those of job "a". */
    for (size_t i = 0; i < size; i++)
        if (!job_byte_allowed(job[i]))
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "job name \"%s\": only letters, digits, '-', '_' and '.'", job);
    /* Borrowed: several registries (one of another job) may share a store. */
    registry->kv = kv;
    registry->job[0] = '\0';
    /* No job, no prefix: the keys of the old system, which had none. */
    if (size > 0)
        (void)snprintf(registry->job, sizeof registry->job, "/%s", job);
    return PS_OK;
}

static bool job_byte_allowed(char byte)
{
    return isalnum((unsigned char)byte) || byte == '-' || byte == '_' || byte == '.';
}

/* Returned by value: keys live on the stack of whoever uses them. The asserts hold for every key of
 * ours, because the job's length is bounded and the rest are names and numbers. */
struct ps_registry_key ps_registry_key(const struct ps_registry *registry, const char *format, ...)
{
    struct ps_registry_key key;
    int prefix = snprintf(key.text, sizeof key.text, "%s", registry->job);
    PS_ASSERT(prefix >= 0 && (size_t)prefix < sizeof key.text);
    size_t room = sizeof key.text - (size_t)prefix;

    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(key.text + prefix, room, format, arguments);
    va_end(arguments);
    PS_ASSERT(wrote > 0 && (size_t)wrote < room);
    return key;
}

/* One key as it is now: revisions, lease, and whether its value is the expected one. The value
 * itself is not copied; nobody who reads back after a lost answer needs more. */
enum ps_status ps_registry_look(struct ps_registry *registry, const char *key,
                                struct ps_bytes expected, uint64_t deadline_ms,
                                struct ps_registry_fact *fact, struct ps_error *error)
{
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, key, false, deadline_ms, &entries, error));
    /* An absent key has revision 0, which no compare takes for a key that is there. */
    *fact = (struct ps_registry_fact){0};
    if (entries.count > 0) {
        const struct ps_kv_entry *entry = &entries.entries[0];
        fact->create_revision = entry->create_revision;
        fact->modify_revision = entry->modify_revision;
        fact->lease = entry->lease;
        fact->value_equal =
            ps_bytes_equal((struct ps_bytes){entry->value, entry->value_size}, expected);
    }
    ps_kv_entries_release(&entries);
    return PS_OK;
}

/* Decimal, without sign and leading zeros, so that one number has one key. At most ten digits: the
 * sum cannot overflow. */
bool ps_registry_number(struct ps_bytes text, uint32_t value_max, uint32_t *value)
{
    /* "007" and "7" would be two keys for one shard. */
    if (text.size == 0 || text.size > 10 || (text.size > 1 && text.data[0] == '0'))
        return false;
    uint64_t sum = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        sum = sum * 10 + (uint64_t)(text.data[i] - '0');
    }
    if (sum > value_max)
        return false;
    *value = (uint32_t)sum;
    return true;
}

/* Once a write was sent without an answer, a later failure to read back leaves it unknown whether
 * it happened: the failure's own status ("unavailable: nothing was done") would be a lie about the
 * write. */
enum ps_status ps_registry_failed(enum ps_status status, bool unknown, struct ps_error *error)
{
    /* BAD_INPUT is about the value that is there, which no write of ours could have caused. */
    if (!unknown || status == PS_OK || status == PS_ERR_TIMEOUT || status == PS_ERR_BAD_INPUT)
        return status;
    return ps_fail(error, PS_ERR_TIMEOUT, "a write was not answered, and reading back failed: %s",
                   ps_status_sentence(status));
}

enum ps_status ps_registry_desired(struct ps_registry *registry, uint32_t shard_count_wish,
                                   uint64_t deadline_ms, uint32_t *shard_count,
                                   struct ps_error *error)
{
    if (shard_count_wish == 0 || shard_count_wish > PS_SHARDS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%" PRIu32 " shards: 1 to %d are possible",
                       shard_count_wish, PS_SHARDS_MAX);
    struct ps_registry_key key = ps_registry_key(registry, "/ps_desired");
    /* Read, and if it is absent write, and read again: whoever wrote first has decided, and
     * everybody returns what is there. The bound on turns is against a store that loses every
     * answer. */
    bool unknown = false;
    /* Each turn is bounded by the deadline as well; most calls need one or two. */
    for (int i = 0; i < PS_REGISTRY_TRIES_MAX; i++) {
        enum ps_status status = ps_registry_read_desired(registry, deadline_ms, shard_count, error);
        if (status != PS_ERR_NOT_FOUND)
            return ps_registry_failed(status, unknown, error);
        status = put_desired(registry, key.text, shard_count_wish, deadline_ms, error);
        if (status != PS_OK && status != PS_ERR_TIMEOUT)
            return ps_registry_failed(status, unknown, error);
        unknown = unknown || status == PS_ERR_TIMEOUT;
    }
    return ps_fail(error, PS_ERR_TIMEOUT, "%s could not be set", key.text);
}

/* Only if absent, and without a lease: the number outlives the server that wrote it, since
 * parameters are placed by it. */
static enum ps_status put_desired(struct ps_registry *registry, const char *key, uint32_t count,
                                  uint64_t deadline_ms, struct ps_error *error)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%" PRIu32, count);
    const struct ps_kv_compare absent = {key, PS_KV_CREATED_AT, 0};
    const struct ps_kv_change put = {PS_KV_PUT, key, ps_bytes_of_text(text), {0}};
    const struct ps_kv_transaction transaction = {&absent, 1, &put, 1};
    /* Whether it was done does not matter here: the next turn reads what holds. */
    bool done = false;
    int64_t revision = 0;
    return ps_kv_commit(registry->kv, &transaction, deadline_ms, &done, &revision, error);
}

/* A number that cannot be read is BAD_INPUT and stops the caller: with another number of shards
 * every parameter would be looked for in the wrong place. */
enum ps_status ps_registry_read_desired(struct ps_registry *registry, uint64_t deadline_ms,
                                        uint32_t *shard_count, struct ps_error *error)
{
    struct ps_registry_key key = ps_registry_key(registry, "/ps_desired");
    struct ps_kv_entries entries;
    PS_TRY(ps_kv_read(registry->kv, key.text, false, deadline_ms, &entries, error));
    enum ps_status status = PS_OK;
    uint32_t count = 0;
    /* NOT_FOUND is a state of a young job and not a failure: callers wait for it with a watch. */
    if (entries.count == 0) {
        status = ps_fail(error, PS_ERR_NOT_FOUND, "%s is not set yet", key.text);
    } else {
        const struct ps_kv_entry *entry = &entries.entries[0];
        struct ps_bytes value = {entry->value, entry->value_size};
        if (!ps_registry_number(value, PS_SHARDS_MAX, &count) || count == 0)
            status = ps_fail(error, PS_ERR_BAD_INPUT, "%s holds no number of shards from 1 to %d",
                             key.text, PS_SHARDS_MAX);
    }
    ps_kv_entries_release(&entries);
    if (status == PS_OK)
        *shard_count = count;
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON requests, one function each (etcd's api reference, v3). Keys and values are base64,
 * 64-bit numbers are strings. A request that does not fit its buffer marks the buffer, which
 * ps_etcd_call asks before it sends. */
#include "etcd/etcd_request.h"

#include "base/base64.h"
#include "base/json_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_base64(struct ps_json_writer *writer, const char *name, struct ps_bytes bytes);
static void write_number(struct ps_json_writer *writer, const char *name, int64_t number);
static void write_range(struct ps_json_writer *writer, const char *key, bool prefix);
static void write_range_end(struct ps_json_writer *writer, const char *prefix);
static void write_compare(struct ps_json_writer *writer, const struct ps_kv_compare *compare);
static void write_change(struct ps_json_writer *writer, const struct ps_kv_change *change);

/* All reads are linearizable, etcd's default ("serializable" is left out): a claim must not be
 * judged by what a member that lags behind remembers. */
void ps_etcd_request_range(struct ps_buffer *body, const char *key, bool prefix)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, body);
    ps_json_begin_object(&writer, NULL);
    write_range(&writer, key, prefix);
    ps_json_end_object(&writer);
}

/* A read like any other, so that an answer proves that this endpoint can still reach a quorum; only
 * the count comes back. */
void ps_etcd_request_heartbeat(struct ps_buffer *body, const char *prefix)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, body);
    ps_json_begin_object(&writer, NULL);
    write_range(&writer, prefix, true);
    ps_json_bool(&writer, "count_only", true);
    ps_json_end_object(&writer);
}

/* Without a "failure" branch: when the compares do not hold nothing happens, and the caller looks
 * for the reason by a read of its own. */
void ps_etcd_request_transaction(struct ps_buffer *body,
                                 const struct ps_kv_transaction *transaction)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, body);
    ps_json_begin_object(&writer, NULL);
    /* An empty list of compares always holds. */
    ps_json_begin_array(&writer, "compare");
    for (size_t i = 0; i < transaction->compare_count; i++)
        write_compare(&writer, &transaction->compares[i]);
    ps_json_end_array(&writer);
    ps_json_begin_array(&writer, "success");
    for (size_t i = 0; i < transaction->change_count; i++)
        write_change(&writer, &transaction->changes[i]);
    ps_json_end_array(&writer);
    ps_json_end_object(&writer);
}

void ps_etcd_request_grant(struct ps_buffer *body, struct ps_kv_lease lease, uint64_t ttl_ms)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, body);
    ps_json_begin_object(&writer, NULL);
    /* etcd counts in seconds. Rounded up: a lease must not end before its holder believes. */
    write_number(&writer, "TTL", (int64_t)((ttl_ms + 999) / 1000));
    write_number(&writer, "ID", lease.id);
    ps_json_end_object(&writer);
}

/* Keeping and revoking a lease have the same body. */
void ps_etcd_request_lease(struct ps_buffer *body, struct ps_kv_lease lease)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, body);
    ps_json_begin_object(&writer, NULL);
    write_number(&writer, "ID", lease.id);
    ps_json_end_object(&writer);
}

/* The password stands in this buffer until its caller wipes it (etcd_call.c). */
void ps_etcd_request_authenticate(struct ps_buffer *body, const char *user, const char *password)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, body);
    ps_json_begin_object(&writer, NULL);
    ps_json_text(&writer, "name", ps_bytes_of_text(user));
    ps_json_text(&writer, "password", ps_bytes_of_text(password));
    ps_json_end_object(&writer);
}

void ps_etcd_request_watch(struct ps_buffer *body, const char *prefix, int64_t revision)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, body);
    ps_json_begin_object(&writer, NULL);
    /* A watch is a stream of requests; this is its only one. */
    ps_json_begin_object(&writer, "create_request");
    write_range(&writer, prefix, true);
    /* Without a revision the watch begins with the next change. */
    if (revision > 0)
        write_number(&writer, "start_revision", revision);
    ps_json_end_object(&writer);
    ps_json_end_object(&writer);
}

/* An absent key has revision 0 in etcd, so "must not exist" is a compare with 0. */
static void write_compare(struct ps_json_writer *writer, const struct ps_kv_compare *compare)
{
    /* Two kinds are all that is needed: "it is still the key that I made" and "nobody has changed
     * it since". */
    bool created = compare->kind == PS_KV_CREATED_AT;
    ps_json_begin_object(writer, NULL);
    write_base64(writer, "key", ps_bytes_of_text(compare->key));
    ps_json_text(writer, "target", ps_bytes_of_text(created ? "CREATE" : "MOD"));
    /* Every compare is an equality: what is demanded is always "as I have seen it". */
    ps_json_text(writer, "result", ps_bytes_of_text("EQUAL"));
    write_number(writer, created ? "create_revision" : "mod_revision", compare->revision);
    ps_json_end_object(writer);
}

/* A deletion names one key; etcd's range deletions are not used, since nothing of ours goes by
 * prefix. */
static void write_change(struct ps_json_writer *writer, const struct ps_kv_change *change)
{
    bool put = change->kind == PS_KV_PUT;
    ps_json_begin_object(writer, NULL);
    ps_json_begin_object(writer, put ? "request_put" : "request_delete_range");
    write_base64(writer, "key", ps_bytes_of_text(change->key));
    if (put)
        write_base64(writer, "value", change->value);
    /* Without a lease the member is left out, and the key stays until it is deleted. */
    if (put && change->lease.id != 0)
        write_number(writer, "lease", change->lease.id);
    ps_json_end_object(writer);
    ps_json_end_object(writer);
}

/* A range without an end is a single key. */
static void write_range(struct ps_json_writer *writer, const char *key, bool prefix)
{
    write_base64(writer, "key", ps_bytes_of_text(key));
    if (prefix)
        write_range_end(writer, key);
}

/* The first key behind all that start with the prefix: its last byte plus one. A byte of 0xff
 * cannot be raised, so it is dropped and the one before is raised. A prefix of nothing but 0xff
 * ends with "\0", which etcd reads as "all keys from here on". */
static void write_range_end(struct ps_json_writer *writer, const char *prefix)
{
    uint8_t end[PS_KV_KEY_BYTES_MAX];
    size_t size = strlen(prefix);
    /* kv.c has bounded the key to the size of the array. */
    memcpy(end, prefix, size);
    while (size > 0 && end[size - 1] == 0xff)
        size--;
    if (size > 0) {
        /* The first byte string behind all those that begin with the prefix. */
        end[size - 1]++;
        write_base64(writer, "range_end", (struct ps_bytes){end, size});
        return;
    }
    const uint8_t everything = 0;
    write_base64(writer, "range_end", (struct ps_bytes){&everything, 1});
}

/* A failed encoding marks the outer buffer: an empty key would be another request. */
static void write_base64(struct ps_json_writer *writer, const char *name, struct ps_bytes bytes)
{
    struct ps_buffer text;
    ps_buffer_init(&text, writer->buffer->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_base64_append(&text, bytes);
    if (text.failed)
        writer->buffer->failed = true;
    else
        ps_json_text(writer, name, (struct ps_bytes){(const uint8_t *)text.text, text.size});
    ps_buffer_fini(&text);
}

/* As text, in which all 64 bits survive any JSON reader on the way. */
static void write_number(struct ps_json_writer *writer, const char *name, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    ps_json_text(writer, name, ps_bytes_of_text(text));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON replies of etcd's gRPC gateway. By the rules of protobuf's JSON mapping, fields that are
 * zero, false or empty are absent, 64-bit numbers are strings, and keys and values are base64.
 *
 * A reply may come from anything that listens at the configured address. Everything is therefore
 * checked, and what does not look like etcd's answer is BAD_INPUT, which kv_etcd.c translates into
 * "unavailable" or "unknown", depending on what was asked. */
#include "etcd/etcd_reply.h"

#include "base/base64.h"
#include "etcd/etcd_reply_error.h"
#include "etcd/kv_entries.h"
#include "json/json_reader.h"

#include <string.h>

static enum ps_status parse(struct ps_bytes reply, struct ps_json **document,
                            struct ps_error *error);
static bool read_int(const struct ps_json *object, const char *name, int64_t *value);
static enum ps_status read_entries(const struct ps_json *document,
                                   const struct ps_allocator *memory, struct ps_kv_entries *entries,
                                   struct ps_error *error);
static enum ps_status read_entry(const struct ps_json *item, struct ps_kv_entries *entries,
                                 struct ps_error *error);
static enum ps_status decode(const struct ps_json *object, const char *name,
                             const struct ps_allocator *memory, struct ps_bytes *bytes,
                             struct ps_error *error);
static enum ps_status read_transaction(const struct ps_json *document, bool *done,
                                       int64_t *revision, struct ps_error *error);
static enum ps_status malformed(const char *what, struct ps_error *error);

/* Filled in a local: on failure the caller's struct stays as it was. */
enum ps_status ps_etcd_reply_range(struct ps_bytes reply, const struct ps_allocator *memory,
                                   struct ps_kv_entries *entries, struct ps_error *error)
{
    struct ps_json *document = NULL;
    PS_TRY(parse(reply, &document, error));
    struct ps_kv_entries result = {.memory = memory};
    enum ps_status status = read_entries(document, memory, &result, error);
    ps_json_destroy(document);
    if (status != PS_OK) {
        ps_kv_entries_release(&result);
        return status;
    }
    *entries = result;
    return PS_OK;
}

/* No "kvs" means no keys: an empty list is absent, too. */
static enum ps_status read_entries(const struct ps_json *document,
                                   const struct ps_allocator *memory, struct ps_kv_entries *entries,
                                   struct ps_error *error)
{
    int64_t revision = 0;
    /* Every answer of etcd has a revision; the watch begins behind it, so a reply without one is
     * refused. */
    if (!read_int(ps_json_member(document, "header"), "revision", &revision))
        return malformed("no revision", error);
    const struct ps_json *items = ps_json_member(document, "kvs");
    if (items != NULL && !ps_json_is_array(items))
        return malformed("kvs", error);
    /* Room for all of them at once; the count is of items that are there, not of a number in the
     * reply. */
    PS_TRY(ps_kv_entries_make(entries, memory, ps_json_count(items), error));
    entries->revision = revision;
    for (const struct ps_json *item = ps_json_first(items); item != NULL; item = ps_json_next(item))
        PS_TRY(read_entry(item, entries, error));
    return PS_OK;
}

/* A key is used as a C string from here on: one with a zero byte, which etcd itself allows, would
 * look like another key. */
static enum ps_status read_entry(const struct ps_json *item, struct ps_kv_entries *entries,
                                 struct ps_error *error)
{
    struct ps_kv_entry facts = {0};
    if (!read_int(item, "create_revision", &facts.create_revision) ||
        !read_int(item, "mod_revision", &facts.modify_revision))
        return malformed("a key without revisions", error);
    /* A key without a lease has no such member. */
    if (ps_json_member(item, "lease") != NULL && !read_int(item, "lease", &facts.lease.id))
        return malformed("lease", error);

    struct ps_bytes key = {NULL, 0};
    struct ps_bytes value = {NULL, 0};
    enum ps_status status = decode(item, "key", entries->memory, &key, error);
    if (status == PS_OK)
        status = decode(item, "value", entries->memory, &value, error);
    if (status == PS_OK && (key.size == 0 || memchr(key.data, '\0', key.size) != NULL))
        status = malformed("a key that is empty or holds a zero byte", error);
    if (status == PS_OK)
        status = ps_kv_entries_add(entries, key, value, facts, error);
    /* ps_kv_entries_add has made copies of its own; these two were base64's. */
    ps_release(entries->memory, (void *)key.data);
    ps_release(entries->memory, (void *)value.data);
    return status;
}

/* Decodes a base64 member; an absent one is empty. The bytes go back to `memory`. One byte more is
 * allocated, so that an empty value still has a pointer to release. */
static enum ps_status decode(const struct ps_json *object, const char *name,
                             const struct ps_allocator *memory, struct ps_bytes *bytes,
                             struct ps_error *error)
{
    const struct ps_json *member = ps_json_member(object, name);
    const char *text = member == NULL ? "" : ps_json_string(member);
    if (text == NULL)
        return malformed(name, error);
    size_t text_size = strlen(text);
    uint8_t *decoded = ps_plain(memory, ps_base64_decoded_max(text_size) + 1);
    if (decoded == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for a %s of %zu bytes", name, text_size);
    size_t size = 0;
    if (!ps_base64_decode(ps_bytes_of_text(text), decoded, &size)) {
        ps_release(memory, decoded);
        return malformed(name, error);
    }
    *bytes = (struct ps_bytes){decoded, size};
    return PS_OK;
}

/* Parsing and reading are apart, so that the document ends at one place whatever is wrong with
 * it. */
enum ps_status ps_etcd_reply_transaction(struct ps_bytes reply, bool *done, int64_t *revision,
                                         struct ps_error *error)
{
    struct ps_json *document = NULL;
    PS_TRY(parse(reply, &document, error));
    enum ps_status status = read_transaction(document, done, revision, error);
    ps_json_destroy(document);
    return status;
}

/* The responses of the single operations are not read: all changes are ours, and their revision is
 * the header's. */
static enum ps_status read_transaction(const struct ps_json *document, bool *done,
                                       int64_t *revision, struct ps_error *error)
{
    int64_t found = 0;
    if (!read_int(ps_json_member(document, "header"), "revision", &found))
        return malformed("no revision", error);
    /* Absent means false: the compares did not hold, which is an answer and not an error. */
    bool succeeded = false;
    const struct ps_json *member = ps_json_member(document, "succeeded");
    if (member != NULL && !ps_json_bool_of(member, &succeeded))
        return malformed("succeeded", error);
    *done = succeeded;
    *revision = found;
    return PS_OK;
}

/* A lease that is gone is answered with TTL 0, which the mapping leaves out: a reply with an ID and
 * without a TTL is the end of the lease, and a reply without an ID is not an answer to this
 * question at all. */
enum ps_status ps_etcd_reply_keep(struct ps_bytes reply, struct ps_error *error)
{
    struct ps_json *document = NULL;
    PS_TRY(parse(reply, &document, error));
    const struct ps_json *result = ps_json_member(document, "result");
    int64_t ttl = 0;
    int64_t id = 0;
    enum ps_status status = PS_OK;
    if (!read_int(result, "ID", &id))
        status = malformed("no lease ID", error);
    else if (!read_int(result, "TTL", &ttl) || ttl <= 0)
        status = ps_fail(error, PS_ERR_LEASE_LOST, "the lease has ended");
    ps_json_destroy(document);
    return status;
}

/* `*token` is written at the very end, so a failed call leaves the former token in place. */
enum ps_status ps_etcd_reply_token(struct ps_bytes reply, const struct ps_allocator *memory,
                                   char **token, struct ps_error *error)
{
    struct ps_json *document = NULL;
    PS_TRY(parse(reply, &document, error));
    const char *text = ps_json_string(ps_json_member(document, "token"));
    enum ps_status status = PS_OK;
    char *copy = NULL;
    /* The token goes into an HTTP header; a line break in it would begin another header. */
    if (text == NULL || text[0] == '\0' || strpbrk(text, "\r\n") != NULL)
        status = malformed("no token", error);
    else if ((copy = ps_copy_text(memory, text, strlen(text))) == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no room for a token");
    ps_json_destroy(document);
    if (status == PS_OK)
        *token = copy;
    return status;
}

/* One line of the endless reply of a watch: that the watch was created, that something changed,
 * that it is over. What changed is not read here: the caller reads the keys themselves, so a line
 * that was lost or joined with another cannot mislead it. */
enum ps_status ps_etcd_reply_watch(struct ps_bytes text, struct ps_etcd_watch_line *line,
                                   struct ps_error *error)
{
    struct ps_json *document = NULL;
    PS_TRY(parse(text, &document, error));
    *line = (struct ps_etcd_watch_line){0};
    const struct ps_json *result = ps_json_member(document, "result");
    enum ps_status status = PS_OK;
    /* Errors within the stream come under HTTP status 200. */
    ps_etcd_error_of(document, 200, &line->error);
    if (line->error.meaning == PS_ETCD_FINE && !ps_json_is_object(result))
        status = malformed("a line of a watch", error);
    /* Absent members leave the zeros of the line. */
    (void)ps_json_bool_of(ps_json_member(result, "created"), &line->created);
    (void)ps_json_bool_of(ps_json_member(result, "canceled"), &line->cancelled);
    (void)read_int(result, "compact_revision", &line->compact_revision);
    /* A line may announce several changes, and a creation comes with none. */
    line->changed = ps_json_count(ps_json_member(result, "events")) > 0;
    /* The reason stands in the result and not in an error: etcd ended the watch, the call itself
     * went well. */
    if (line->cancelled)
        ps_etcd_error_of_text(ps_json_string(ps_json_member(result, "cancel_reason")),
                              &line->error);
    ps_json_destroy(document);
    return status;
}

/* All replies are objects; `{}` is one. */
static enum ps_status parse(struct ps_bytes reply, struct ps_json **document,
                            struct ps_error *error)
{
    PS_TRY(ps_json_parse(ps_etcd_trimmed(reply), PS_ETCD_REPLY_BYTES_MAX, document, error));
    if (ps_json_is_object(*document))
        return PS_OK;
    ps_json_destroy(*document);
    return malformed("no object", error);
}

/* Text or number: ps_json_int_of takes both, as the mapping allows. */
static bool read_int(const struct ps_json *object, const char *name, int64_t *value)
{
    return ps_json_int_of(ps_json_member(object, name), value);
}

/* The one wording for everything that etcd would not say. */
static enum ps_status malformed(const char *what, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_BAD_INPUT, "not a reply of etcd: %s", what);
}

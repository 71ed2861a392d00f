/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the file of kv_file.c: a first line with format and checksum, then one JSON
 * document. Values that are text stay readable for people, who look into this file when something
 * is wrong.
 *
 * The checksum finds bit errors and edits by hand. Behind it the content is checked all the same,
 * since the table asserts what it relies on, and a file is input. */
#include "etcd/kv_file_text.h"

#include "base/base64.h"
#include "base/hash.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "json/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TITLE "pserver-store 1 "
#define TITLE_SIZE (sizeof TITLE - 1)
#define CHECKSUM_SIZE 8
#define FIRST_LINE_SIZE (TITLE_SIZE + CHECKSUM_SIZE + 1)

static void write_document(const struct ps_kv_table *table, struct ps_buffer *document);
static void write_entry(struct ps_json_writer *writer, const struct ps_kv_entry *entry);
static void write_value(struct ps_json_writer *writer, const struct ps_kv_entry *entry);
static enum ps_status check_first_line(struct ps_bytes text, struct ps_error *error);
static enum ps_status read_document(const struct ps_json *document, struct ps_kv_table *table,
                                    struct ps_error *error);
static enum ps_status read_lease(const struct ps_json *item, struct ps_kv_table *table,
                                 struct ps_error *error);
static enum ps_status read_entry(const struct ps_json *item, struct ps_kv_table *table,
                                 struct ps_error *error);
static bool entry_fits(const struct ps_kv_table *table, const char *key,
                       const struct ps_kv_entry *facts);
static enum ps_status read_value(const struct ps_json *item, struct ps_kv_table *table,
                                 const char *key, struct ps_kv_entry facts, struct ps_error *error);
static enum ps_status read_event(const struct ps_json *item, struct ps_kv_table *table,
                                 struct ps_error *error);
static bool read_number(const struct ps_json *object, const char *name, int64_t *value);
static enum ps_status corrupt(const char *what, struct ps_error *error);

/* The same table always gives the same text: a file that differs has changed. */
void ps_kv_file_write(const struct ps_kv_table *table, struct ps_buffer *text)
{
    struct ps_buffer document;
    ps_buffer_init(&document, text->memory, text->size_max);
    write_document(table, &document);
    /* A text file ends with a newline, which editors add if it is missing; it is part of the
     * sum. */
    ps_buffer_append_text(&document, "\n");
    struct ps_bytes bytes = {(const uint8_t *)document.text, document.size};
    /* The document is written first, since the line above it has its checksum. A failure of either
     * marks the text. */
    if (document.failed)
        text->failed = true;
    else
        ps_buffer_append_format(text, TITLE "%08" PRIx32 "\n", ps_hash_fnv1a32(bytes));
    ps_buffer_append(text, bytes);
    ps_buffer_fini(&document);
}

/* History is part of the file: a watch that another process opens "from revision N" must find what
 * happened since, although this process has changed the store and ended. */
static void write_document(const struct ps_kv_table *table, struct ps_buffer *document)
{
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, document);
    ps_json_begin_object(&writer, NULL);
    ps_json_int(&writer, "revision", table->revision);
    ps_json_int(&writer, "compacted_revision", table->compacted_revision);
    /* Kept although that lease may be gone: its id must never be given out again. */
    ps_json_int(&writer, "last_lease", table->last_lease);
    ps_json_begin_array(&writer, "leases");
    for (size_t i = 0; i < table->lease_count; i++) {
        ps_json_begin_object(&writer, NULL);
        ps_json_int(&writer, "id", table->leases[i].id);
        ps_json_uint(&writer, "ttl_ms", table->leases[i].ttl_ms);
        /* On the machine's clock since its start, which all processes of the machine share. */
        ps_json_uint(&writer, "expires_ms", table->leases[i].expires_ms);
        /* Whether the lease ends with its process, or by time alone. */
        ps_json_bool(&writer, "guarded", table->leases[i].guarded);
        ps_json_end_object(&writer);
    }
    ps_json_end_array(&writer);
    ps_json_begin_array(&writer, "keys");
    for (size_t i = 0; i < table->entry_count; i++)
        write_entry(&writer, &table->entries[i]);
    ps_json_end_array(&writer);
    ps_json_begin_array(&writer, "history");
    for (size_t i = 0; i < table->history_count; i++) {
        /* Events are written from the oldest on; the file has no trace of the ring. */
        size_t place = (table->history_first + i) % PS_KV_TABLE_HISTORY_MAX;
        ps_json_begin_object(&writer, NULL);
        ps_json_int(&writer, "revision", table->history[place].revision);
        /* Keys are UTF-8, which file_commit has seen to. */
        ps_json_text(&writer, "key", ps_bytes_of_text(table->history[place].key));
        ps_json_end_object(&writer);
    }
    ps_json_end_array(&writer);
    ps_json_end_object(&writer);
}

static void write_entry(struct ps_json_writer *writer, const struct ps_kv_entry *entry)
{
    ps_json_begin_object(writer, NULL);
    ps_json_text(writer, "key", ps_bytes_of_text(entry->key));
    write_value(writer, entry);
    ps_json_int(writer, "create_revision", entry->create_revision);
    ps_json_int(writer, "modify_revision", entry->modify_revision);
    ps_json_int(writer, "lease", entry->lease.id);
    ps_json_end_object(writer);
}

/* Bytes that are not text (no value of ours, but a store takes any) go as base64 under another
 * name. */
static void write_value(struct ps_json_writer *writer, const struct ps_kv_entry *entry)
{
    struct ps_bytes value = {entry->value, entry->value_size};
    /* A NUL is valid UTF-8, and our own JSON reader refuses it. */
    if (ps_utf8_valid(value) && memchr(value.data, '\0', value.size) == NULL) {
        ps_json_text(writer, "value", value);
        return;
    }
    struct ps_buffer encoded;
    ps_buffer_init(&encoded, writer->buffer->memory, writer->buffer->size_max);
    ps_base64_append(&encoded, value);
    if (encoded.failed)
        writer->buffer->failed = true;
    else
        ps_json_text(writer, "value_base64",
                     (struct ps_bytes){(const uint8_t *)encoded.text, encoded.size});
    ps_buffer_fini(&encoded);
}

/* The table is filled entry by entry; on failure it is incomplete and the caller throws it away. */
enum ps_status ps_kv_file_read(struct ps_bytes text, struct ps_kv_table *table,
                               struct ps_error *error)
{
    PS_TRY(check_first_line(text, error));
    /* Without the newline at the end, which check_first_line has seen. */
    struct ps_bytes rest = {text.data + FIRST_LINE_SIZE, text.size - FIRST_LINE_SIZE - 1};
    struct ps_json *document = NULL;
    /* Behind a right checksum bad JSON means another writer; the details would not help. */
    if (ps_json_parse(rest, PS_KV_FILE_BYTES_MAX, &document, NULL) != PS_OK)
        return corrupt("its JSON", error);
    enum ps_status status = read_document(document, table, error);
    ps_json_destroy(document);
    return status;
}

/* The advice holds for every damage: what a store knows beside leases is in the shards' files, too,
 * but for which of them are sets. */
enum ps_status ps_kv_file_read_of(const char *path, struct ps_bytes text, struct ps_kv_table *table,
                                  struct ps_error *error)
{
    struct ps_error why = {0};
    enum ps_status status = ps_kv_file_read(text, table, &why);
    if (status != PS_ERR_CORRUPT)
        return status == PS_OK ? status : ps_fail(error, status, "%.120s: %.120s", path, why.text);
    return ps_fail(error, status, "%.120s: %.80s; move it away (docs/recover.md)", path, why.text);
}

/* The sizes are compared first, then the title, then the sum. The newline at the end is demanded
 * since a file that was cut by an editor often lacks just that. */
static enum ps_status check_first_line(struct ps_bytes text, struct ps_error *error)
{
    if (text.size < FIRST_LINE_SIZE + 1 || memcmp(text.data, TITLE, TITLE_SIZE) != 0)
        return corrupt("its first line", error);
    struct ps_bytes rest = {text.data + FIRST_LINE_SIZE, text.size - FIRST_LINE_SIZE};
    char expected[CHECKSUM_SIZE + 2];
    /* FNV-1a finds accidents, not forgeries: whoever may write the folder may do anything
     * anyway. */
    (void)snprintf(expected, sizeof expected, "%08" PRIx32 "\n", ps_hash_fnv1a32(rest));
    if (memcmp(text.data + TITLE_SIZE, expected, CHECKSUM_SIZE + 1) != 0)
        return corrupt("its checksum", error);
    if (rest.data[rest.size - 1] != '\n')
        return corrupt("its end", error);
    return PS_OK;
}

/* Numbers first, since keys and leases are compared with them; then leases, which keys refer to;
 * then keys; then history. A missing list is an empty one. */
static enum ps_status read_document(const struct ps_json *document, struct ps_kv_table *table,
                                    struct ps_error *error)
{
    /* Every number has to be there: a file is written by the same version or an older one, and no
     * version has left one of these out. */
    if (!read_number(document, "revision", &table->revision) || table->revision < 1 ||
        !read_number(document, "compacted_revision", &table->compacted_revision) ||
        table->compacted_revision > table->revision ||
        !read_number(document, "last_lease", &table->last_lease))
        return corrupt("its revisions", error);
    const struct ps_json *item = ps_json_first(ps_json_member(document, "leases"));
    for (; item != NULL; item = ps_json_next(item))
        PS_TRY(read_lease(item, table, error));
    item = ps_json_first(ps_json_member(document, "keys"));
    for (; item != NULL; item = ps_json_next(item))
        PS_TRY(read_entry(item, table, error));
    /* From the oldest on: the ring forgets the first ones if there are more than it holds. */
    item = ps_json_first(ps_json_member(document, "history"));
    for (; item != NULL; item = ps_json_next(item))
        PS_TRY(read_event(item, table, error));
    return PS_OK;
}

/* Ids rise in the file as in the table, where they are searched by halves. */
static enum ps_status read_lease(const struct ps_json *item, struct ps_kv_table *table,
                                 struct ps_error *error)
{
    struct ps_kv_table_lease lease = {0};
    /* Ids are positive, so the first one only has to be above 0. */
    int64_t last = table->lease_count == 0 ? 0 : table->leases[table->lease_count - 1].id;
    if (!read_number(item, "id", &lease.id) || lease.id <= last || lease.id > table->last_lease ||
        !ps_json_uint_of(ps_json_member(item, "ttl_ms"), &lease.ttl_ms) ||
        !ps_json_uint_of(ps_json_member(item, "expires_ms"), &lease.expires_ms))
        return corrupt("a lease", error);
    /* A version before this one ended leases by time only and did not write this member. */
    (void)ps_json_bool_of(ps_json_member(item, "guarded"), &lease.guarded);
    return ps_kv_table_restore_lease(table, lease, error);
}

/* Facts are checked before the value is decoded, which may be large. */
static enum ps_status read_entry(const struct ps_json *item, struct ps_kv_table *table,
                                 struct ps_error *error)
{
    struct ps_kv_entry facts = {0};
    const char *key = ps_json_string(ps_json_member(item, "key"));
    if (key == NULL || !read_number(item, "create_revision", &facts.create_revision) ||
        !read_number(item, "modify_revision", &facts.modify_revision) ||
        !read_number(item, "lease", &facts.lease.id) || !entry_fits(table, key, &facts))
        return corrupt("a key", error);
    return read_value(item, table, key, facts, error);
}

/* Checks what the table relies on: keys in order, revisions in their places, leases that exist.
 * Leases are read before keys for this reason. */
static bool entry_fits(const struct ps_kv_table *table, const char *key,
                       const struct ps_kv_entry *facts)
{
    size_t count = table->entry_count;
    if (count > 0 && strcmp(table->entries[count - 1].key, key) >= 0)
        return false;
    /* A key that claims to be newer than the store would win every compare. */
    if (facts->create_revision > facts->modify_revision || facts->modify_revision > table->revision)
        return false;
    return facts->lease.id == 0 || ps_kv_table_find_lease(table, facts->lease) != NULL;
}

/* Exactly one of the two members is written; where both stand, the readable one counts. */
static enum ps_status read_value(const struct ps_json *item, struct ps_kv_table *table,
                                 const char *key, struct ps_kv_entry facts, struct ps_error *error)
{
    const char *text = ps_json_string(ps_json_member(item, "value"));
    if (text != NULL)
        return ps_kv_table_restore_entry(table, ps_bytes_of_text(key), ps_bytes_of_text(text),
                                         facts, error);
    const char *encoded = ps_json_string(ps_json_member(item, "value_base64"));
    if (encoded == NULL)
        return corrupt("a value", error);
    size_t size = 0;
    /* One byte more, since an empty value would ask for none. */
    uint8_t *value = ps_plain(table->memory, ps_base64_decoded_max(strlen(encoded)) + 1);
    if (value == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for the value of %s", key);
    enum ps_status status = PS_OK;
    if (!ps_base64_decode(ps_bytes_of_text(encoded), value, &size))
        status = corrupt("a value", error);
    else
        status = ps_kv_table_restore_entry(table, ps_bytes_of_text(key),
                                           (struct ps_bytes){value, size}, facts, error);
    ps_release(table->memory, value);
    return status;
}

static enum ps_status read_event(const struct ps_json *item, struct ps_kv_table *table,
                                 struct ps_error *error)
{
    int64_t revision = 0;
    const char *key = ps_json_string(ps_json_member(item, "key"));
    /* An event of the future would wake every watch for nothing. */
    if (key == NULL || !read_number(item, "revision", &revision) || revision > table->revision)
        return corrupt("its history", error);
    return ps_kv_table_restore_event(table, ps_bytes_of_text(key), revision, error);
}

/* No number in the file is negative. */
static bool read_number(const struct ps_json *object, const char *name, int64_t *value)
{
    return ps_json_int_of(ps_json_member(object, name), value) && *value >= 0;
}

/* CORRUPT stops a server: a store that cannot be read may hold claims of others. */
static enum ps_status corrupt(const char *what, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_CORRUPT, "not a whole store file: %s", what);
}

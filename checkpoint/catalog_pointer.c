/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of /checkpoints/<i>, which says where a shard's published checkpoint is.
 *
 * The first four members are those of the system that this one replaces, with the names and forms
 * that it used, so that either reads what the other wrote (docs/etcd-keys.md). Everything newer is
 * optional when read. The document is input: any client of etcd can write it. */
#include "checkpoint/catalog.h"

#include "base/assert.h"
#include "base/json_writer.h"
#include "checkpoint/checkpoint_name.h"
#include "json/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Far more than the longest path makes. */
#define POINTER_BYTES_MAX 65536

static void write_digits(struct ps_json_writer *writer, const char *key, uint64_t number);
static enum ps_status read_members(const struct ps_json *document,
                                   struct ps_checkpoint_place *place, struct ps_error *error);
static bool read_text(const struct ps_json *value, char *text, size_t capacity);
static bool read_time(const struct ps_json *value, uint64_t *unix_ns);
static bool read_addition(const struct ps_json *value, uint64_t *number);
static bool read_journal(const struct ps_json *value, enum ps_checkpoint_journal *journal);

void ps_catalog_pointer_write(const struct ps_checkpoint_place *place, struct ps_buffer *json)
{
    PS_ASSERT(place != NULL && json != NULL);
    struct ps_json_writer writer;
    ps_json_writer_init(&writer, json);
    ps_json_begin_object(&writer, NULL);
    ps_json_text(&writer, "uuid", ps_bytes_of_text(place->uuid));
    ps_json_text(&writer, "path", ps_bytes_of_text(place->path));
    /* Numbers and not texts here, as the old system wrote them. */
    ps_json_uint(&writer, "crc32", place->crc32);
    ps_json_uint(&writer, "timestamp", place->unix_ns);
    write_digits(&writer, "position", place->position);
    write_digits(&writer, "epoch", place->epoch);
    write_digits(&writer, "bytes", place->bytes);
    /* What is not known is left out, as an older server would. */
    char history[PS_UUID_BYTES];
    ps_history_write(&place->history, history);
    if (history[0] != '\0')
        ps_json_text(&writer, "history", ps_bytes_of_text(history));
    if (place->journal != PS_CHECKPOINT_JOURNAL_UNSAID)
        ps_json_bool(&writer, "journal", place->journal == PS_CHECKPOINT_JOURNAL_KEPT);
    if (place->reached > 0)
        write_digits(&writer, "reached", place->reached);
    ps_json_end_object(&writer);
}

/* As a string of digits, like etcd's own 64-bit numbers: many JSON readers turn numbers into
 * doubles, which are exact only up to 2^53. */
static void write_digits(struct ps_json_writer *writer, const char *key, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    ps_json_text(writer, key, ps_bytes_of_text(text));
}

enum ps_status ps_catalog_pointer_read(struct ps_bytes json, const struct ps_allocator *memory,
                                       struct ps_checkpoint_place *place, struct ps_error *error)
{
    PS_ASSERT(place != NULL);
    (void)memory;
    struct ps_json *document = NULL;
    /* Bad JSON in the store is damage of stored bytes and not a caller's mistake, hence another
     * status: the remedy for CORRUPT is to stop, for BAD_INPUT it would be to send something
     * else. */
    enum ps_status status = ps_json_parse(json, POINTER_BYTES_MAX, &document, error);
    if (status == PS_ERR_BAD_INPUT)
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint pointer: no JSON");
    if (status != PS_OK)
        return status;
    /* What the document does not say stays 0, which everywhere means "not known". */
    struct ps_checkpoint_place result = {0};
    status = read_members(document, &result, error);
    ps_json_destroy(document);
    if (status == PS_OK)
        *place = result;
    return status;
}

/* One message for each member of the old document, since these are the ones that people wrote by
 * hand or with other tools. */
static enum ps_status read_members(const struct ps_json *document,
                                   struct ps_checkpoint_place *place, struct ps_error *error)
{
    uint64_t crc32 = 0;
    if (!ps_json_is_object(document))
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint pointer: no object");
    if (!read_text(ps_json_member(document, "uuid"), place->uuid, sizeof place->uuid) ||
        !ps_checkpoint_uuid_valid(place->uuid))
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint pointer: uuid is missing or malformed");
    if (!read_text(ps_json_member(document, "path"), place->path, sizeof place->path))
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint pointer: path is missing or too long");
    if (!ps_json_uint_of(ps_json_member(document, "crc32"), &crc32) || crc32 > UINT32_MAX)
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint pointer: crc32 is missing or malformed");
    if (!read_time(ps_json_member(document, "timestamp"), &place->unix_ns))
        return ps_fail(error, PS_ERR_CORRUPT,
                       "checkpoint pointer: timestamp is missing or malformed");
    if (!read_addition(ps_json_member(document, "position"), &place->position) ||
        !read_addition(ps_json_member(document, "epoch"), &place->epoch) ||
        !read_addition(ps_json_member(document, "bytes"), &place->bytes) ||
        !read_addition(ps_json_member(document, "reached"), &place->reached))
        return ps_fail(error, PS_ERR_CORRUPT,
                       "checkpoint pointer: position, epoch, bytes or reached is malformed");
    const struct ps_json *history = ps_json_member(document, "history");
    if (history != NULL && !ps_history_read(ps_json_string(history), &place->history))
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint pointer: history is malformed");
    if (!read_journal(ps_json_member(document, "journal"), &place->journal))
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint pointer: journal is malformed");
    place->crc32 = (uint32_t)crc32;
    return PS_OK;
}

/* A text that does not fit is refused and not cut: half a path is another path. */
static bool read_text(const struct ps_json *value, char *text, size_t capacity)
{
    const char *found = ps_json_string(value);
    size_t size = found != NULL ? strlen(found) : 0;
    if (size == 0 || size >= capacity)
        return false;
    /* The size does not count the NUL; the copy takes it along. */
    memcpy(text, found, size + 1);
    return true;
}

/* Nanoseconds since 1970 pass 2^53, where doubles lose digits. The old system wrote them as a
 * number all the same; some 200 nanoseconds of error are good enough for a time that only people
 * read. */
static bool read_time(const struct ps_json *value, uint64_t *unix_ns)
{
    double real = 0;
    if (ps_json_uint_of(value, unix_ns))
        return true;
    if (!ps_json_real_of(value, &real) || !(real >= 0) || real >= 0x1p63)
        return false;
    *unix_ns = (uint64_t)real;
    return true;
}

/* A member that the old system does not write: 0 when missing. */
static bool read_addition(const struct ps_json *value, uint64_t *number)
{
    *number = 0;
    return value == NULL || ps_json_uint_of(value, number);
}

/* Three answers: kept, none, and not said. The last is what an older server wrote, for which
 * recovery must not conclude anything from a missing journal. */
static bool read_journal(const struct ps_json *value, enum ps_checkpoint_journal *journal)
{
    bool kept = false;
    *journal = PS_CHECKPOINT_JOURNAL_UNSAID;
    if (value == NULL)
        return true;
    if (!ps_json_bool_of(value, &kept))
        return false;
    *journal = kept ? PS_CHECKPOINT_JOURNAL_KEPT : PS_CHECKPOINT_JOURNAL_NONE;
    return true;
}

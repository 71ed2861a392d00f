/* SPDX-License-Identifier: Apache-2.0 */
/* What a push says about itself, judged before anything is done with it. Replay asks the same of a
 * record, so that the words for one mistake are the same wherever it is found. */
#include "server/core/requests/service_state.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/update/parameter_rows.h"

#include <inttypes.h>

/* Bytes that are no whole number of rows are refused here, in the words of this table; what the
 * keys say is looked at with the rows. */
static enum ps_status check_rows(const struct ps_parameter_spec *spec, enum ps_encoding encoding,
                                 uint64_t bytes, struct ps_error *error)
{
    const char *name = (const char *)spec->name.data;
    if (encoding != PS_ENCODING_ROWS)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s is a table: a gradient is of rows (ENCODING_ROWS), not of %s",
                       name, ps_encoding_name(encoding));
    /* Both parts of the content have their size by the width: so the number of rows need not be
     * said, and cannot be said wrongly. */
    size_t each = PS_ROW_KEY_BYTES + ps_parameter_rows_row_bytes(spec);
    PS_ASSERT(each > 0);
    if (bytes % each == 0)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %s, %" PRIu64
                   " bytes are not whole rows: each has %zu, a key and %" PRIu64 " elements of %s",
                   name, bytes, each, spec->count, ps_dtype_name(spec->dtype));
}

/* A client keeps the width that a table had when it was opened. The table may have been dropped and
 * defined anew since, and 8k' + e*k'*w' = 8k + e*k*w has solutions enough. */
enum ps_status ps_service_check_row_width(const struct ps_parameter_spec *spec, uint32_t row_width,
                                          struct ps_error *error)
{
    PS_ASSERT(spec->count > 0);
    if (row_width == 0 || row_width == spec->count || !ps_parameter_spec_is_table(spec))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %s, rows of %" PRIu32 " elements were pushed, and the table has rows of "
                   "%" PRIu64 ": open the table again",
                   (const char *)spec->name.data, row_width, spec->count);
}

/* Each is a hash, some nanoseconds. A push of so many keys and fewer is looked at whole. */
#define KEYS_LOOKED_AT 64

enum ps_status ps_service_check_keys(const struct ps_parameter_spec *spec, struct ps_view keys,
                                     size_t count, struct ps_error *error)
{
    struct ps_view_cursor cursor = {.view = keys};
    size_t looks = count < KEYS_LOOKED_AT ? count : KEYS_LOOKED_AT;
    size_t at = 0; /* the key that the cursor stands before */
    PS_ASSERT(count <= keys.size / PS_ROW_KEY_BYTES);
    if (!ps_parameter_spec_is_table(spec) || spec->shard_count <= 1)
        return PS_OK;
    for (size_t i = 0; i < looks; i++) {
        size_t next = (size_t)((uint64_t)count * i / looks);
        uint64_t key = 0;
        ps_view_skip(&cursor, (next - at) * PS_ROW_KEY_BYTES);
        ps_view_read(&cursor, &key, sizeof key);
        at = next + 1;
        uint32_t shard = ps_parameter_rows_shard(spec, key);
        if (shard != spec->shard)
            return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                           "Name: %s, key %" PRIu64 " is shard %" PRIu32 "'s of %" PRIu32
                           ", and this is shard %" PRIu32 ": nothing was done; a client that "
                           "counts other shards is to be opened again",
                           (const char *)spec->name.data, key, shard, spec->shard_count,
                           spec->shard);
    }
    return PS_OK;
}

/* Texts that clients know from before there were encodings stay as they are; what a type's number
 * means is said behind it. */
enum ps_status ps_service_check_gradient(const struct ps_parameter_spec *spec, enum ps_dtype dtype,
                                         enum ps_encoding encoding, uint64_t bytes,
                                         struct ps_error *error)
{
    PS_ASSERT(spec->count > 0);
    /* The type first: a length in bytes says nothing about elements of another type. */
    const char *name = (const char *)spec->name.data;
    if (dtype != ps_parameter_spec_gradient(spec))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, parameter and gradient element type not match, parameter: %d, "
                       "gradient: %d (%s, %s)",
                       name, (int)spec->dtype, (int)dtype, ps_dtype_name(spec->dtype),
                       dtype < PS_DTYPE_COUNT ? ps_dtype_name(dtype) : "no type");
    if (ps_parameter_spec_is_table(spec))
        return check_rows(spec, encoding, bytes, error);
    if (encoding == PS_ENCODING_ROWS)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s is not a table: a gradient of rows is for tables", name);
    /* What an encoding's length has to be is the encoding's to say. */
    if (encoding != PS_ENCODING_NATIVE) {
        struct ps_error reason;
        enum ps_status status =
            ps_encoding_check(encoding, spec->dtype, spec->count, bytes, &reason);
        return status == PS_OK ? PS_OK
                               : ps_fail(error, status, "Name: %s, %.180s", name, reason.text);
    }
    if (bytes != ps_parameter_spec_bytes(spec))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, parameter and gradient does not have same content len, "
                       "parameter: %zu, gradient: %" PRIu64,
                       name, ps_parameter_spec_bytes(spec), bytes);
    return PS_OK;
}

/* Keys come in any order: no part of a gradient of rows is a range of the table's. */
enum ps_status ps_service_check_push_range(const struct ps_parameter_spec *spec,
                                           struct ps_elements range, struct ps_error *error)
{
    PS_ASSERT(spec->count > 0);
    if (!ps_parameter_spec_is_table(spec) || (range.first == 0 && range.count == 0))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %s is a table: a gradient of it has no range",
                   (const char *)spec->name.data);
}

/* What a pull of a table says about itself, as what a push says. The order is that of a person who
 * finds out: what kind of pull it is, then its keys, then how much comes of them.
 *
 * A table has no elements that stand in a row, so that nothing of a range applies to it. */
static enum ps_status check_keys(const struct ps_parameter_spec *spec,
                                 const struct ps_pull_request *request, struct ps_error *error)
{
    const char *name = (const char *)spec->name.data;
    PS_ASSERT(ps_parameter_spec_is_table(spec));
    if (request->held.present && request->keys.size != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, a delta pull of a table is of all its rows: it has no keys",
                       name);
    if (request->range.first != 0 || request->range.count != 0 || request->version != 0)
        return ps_fail(
            error, PS_ERR_BAD_INPUT,
            "Name: %s is a table: rows are asked for by their keys, not by a range or by "
            "a version",
            name);
    if (!ps_encoding_is_native(request->encoding, spec->dtype))
        return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %s, rows of a table are sent as %s alone",
                       name, ps_dtype_name(spec->dtype));
    size_t key_bytes = PS_ROW_KEY_BYTES;
    if (request->keys.size % key_bytes != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, %zu bytes are not whole keys: each has %zu", name,
                       request->keys.size, key_bytes);
    size_t row_bytes = ps_parameter_rows_row_bytes(spec);
    if (request->keys.size / key_bytes > PS_REPLY_BYTES_MAX / row_bytes)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "Name: %s, %zu rows of %zu bytes take more than one message: ask for fewer",
                       name, request->keys.size / key_bytes, row_bytes);
    return ps_service_check_keys(spec, request->keys, request->keys.size / key_bytes, error);
}

/* Asked with the cut held, as soon as the parameter is known: what cannot be answered does not wait
 * for a version or for other workers. */
enum ps_status ps_service_check_pull(const struct ps_parameter_spec *spec,
                                     const struct ps_pull_request *request, struct ps_error *error)
{
    PS_ASSERT(spec->count > 0);
    if (ps_parameter_spec_is_table(spec))
        return check_keys(spec, request, error);
    /* Both words are of tables alone. A client that sends them elsewhere takes this parameter for
     * another, and must not get elements in the place of rows. */
    if (request->keys.size == 0 && request->encoding != PS_ENCODING_ROWS)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "Name: %s is not a table: it has no keys and no rows",
                   (const char *)spec->name.data);
}

/* A client that asks for more than the server can promise is told so, and not given less in
 * silence. */
enum ps_status ps_service_check_acknowledgement(const struct ps_service *service, enum ps_ack ack,
                                                struct ps_error *error)
{
    /* Whether there is a journal never changes, so a level that is accepted here can be kept until
     * the reply. */
    bool journals = service->queue.journals;
    if (ack == PS_ACK_DEFAULT || ack == PS_ACK_MEMORY || (ack == PS_ACK_LOGGED && journals))
        return PS_OK;
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "this server acknowledges what it has applied in memory (ACK_MEMORY)%s and "
                   "offers no stronger level",
                   journals ? " or has in its journal (ACK_LOGGED)" : "");
}

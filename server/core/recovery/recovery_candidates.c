/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint without these would lose pushes that were acknowledged: the journal before it is
 * swept, and a key would get its row later than it was told, in this life of the server and not in
 * another. So what does not fit refuses the file. */
#include "server/core/recovery/recovery_candidates.h"

#include "base/assert.h"
#include "checkpoint/journal_candidates.h"
#include "server/core/tables/row_load.h"
#include "server/core/update/parameter_rows.h"

#include <inttypes.h>

static enum ps_status load(const struct ps_parameter_table *table, const struct ps_record *record,
                           struct ps_error *reason);
static enum ps_status find(const struct ps_parameter_table *table, const struct ps_record *record,
                           struct ps_parameter **parameter, struct ps_error *reason);

/* Whatever refuses what was once state: file and records do not belong together. Only memory may be
 * there another time. */
enum ps_status ps_recovery_candidates(const struct ps_parameter_table *table,
                                      const struct ps_record *record, struct ps_error *error)
{
    struct ps_error reason = {0};
    PS_ASSERT(record->type == PS_RECORD_CANDIDATES);
    enum ps_status status = load(table, record, &reason);
    if (status == PS_OK)
        return PS_OK;
    return ps_fail(error, status == PS_ERR_NO_MEMORY ? status : PS_ERR_CORRUPT,
                   "checkpoint: ps.candidates: %.200s", reason.text);
}

/* Arrays as they lie in the record, at any address: the table copies what it takes. The room of the
 * shard is not asked, as for rows: what was saved is loaded. */
static enum ps_status load(const struct ps_parameter_table *table, const struct ps_record *record,
                           struct ps_error *reason)
{
    struct ps_parameter *parameter = NULL;
    size_t count = 0;
    /* Everything that can be wrong with the record as a whole comes before the first key: a
     * refusal names the table, and not one of a million keys. */
    PS_TRY(find(table, record, &parameter, reason));
    PS_TRY(ps_candidates_record_read(record->content.pieces[0], &count, reason));
    const uint8_t *content = record->content.pieces[0].data;
    const void *counts = content + PS_CANDIDATES_COUNTS_AT(count);
    const void *versions = content + PS_CANDIDATES_VERSIONS_AT(count);
    PS_ASSERT(parameter->rows != NULL);
    /* Into a table that has its rows: a key that is a row already cannot be counted. */
    enum ps_status status = ps_row_table_load_candidates(
        parameter->rows, (const uint64_t *)(const void *)content, counts, versions, count, reason);
    /* Also after a failure, so that what was taken is given back with the table. */
    ps_parameter_rows_count(parameter);
    return status;
}

/* Counts of another version would be those of other pushes. */
static enum ps_status find(const struct ps_parameter_table *table, const struct ps_record *record,
                           struct ps_parameter **parameter, struct ps_error *reason)
{
    /* A name is as long as it may be, and a text is not. */
    int width = (int)(record->name.size < 80 ? record->name.size : 80);
    struct ps_parameter *found = ps_parameter_table_find(table, record->name);
    if (found == NULL || found->rows == NULL || ps_row_table_candidates(found->rows) == NULL)
        return ps_fail(reason, PS_ERR_CORRUPT, "%.*s is no table that counts keys", width,
                       (const char *)record->name.data);
    if (record->version != found->version)
        return ps_fail(reason, PS_ERR_CORRUPT,
                       "%.*s has version %" PRIu64 ", its candidates are of version %" PRIu64,
                       width, (const char *)record->name.data, found->version, record->version);
    if (record->content.piece_count != 1)
        return ps_fail(reason, PS_ERR_CORRUPT, "a record in %zu pieces",
                       record->content.piece_count);
    *parameter = found;
    return PS_OK;
}

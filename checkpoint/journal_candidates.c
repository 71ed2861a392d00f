/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays, as a table's tensors are, and not a row for each key: a reader takes them as they lie. */
#include "checkpoint/journal_candidates.h"

#include "base/assert.h"

/* More than a server puts into one is fine: a tool may have put tables together. */
enum ps_status ps_candidates_record_read(struct ps_bytes content, size_t *count,
                                         struct ps_error *error)
{
    PS_ASSERT(count != NULL);
    if (content.size == 0 || content.size % PS_CANDIDATE_BYTES != 0)
        return ps_fail(error, PS_ERR_CORRUPT, "candidates of %zu bytes", content.size);
    *count = content.size / PS_CANDIDATE_BYTES;
    return PS_OK;
}

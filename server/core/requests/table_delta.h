/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a delta pull of a table: which keys went and which rows were pushed to since the
 * version that the caller holds, a piece of them (row_since.h) for each answer.
 *
 * Threads:  any, with the cut held.
 * Blocking: as row_since.h says.
 * Errors:   said at the function.
 * Memory:   the content is a copy, which belongs to the caller.
 */
#ifndef PS_SERVER_CORE_TABLE_DELTA_H
#define PS_SERVER_CORE_TABLE_DELTA_H

#include "server/core/requests/service.h"
#include "server/core/update/parameter.h"
#include "server/core/values/encoded_values.h"

/* Content of an answer to a delta pull, at most: what the request says, within what one message may
 * have. Of any parameter. */
uint64_t ps_delta_bytes_max(const struct ps_pull_request *request);

/* Returns the piece of a table that `request` asks for: `*content`, to be ended with
 * ps_encoded_values_release, the version that its answers lead to, and what is in it.
 *
 * PS_ERR_BUSY       not one row fits
 * PS_ERR_CONFLICT   what has begun cannot be gone on with: begin again
 * PS_ERR_BAD_INPUT  it goes on from where nothing is
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status
ps_table_delta_make(struct ps_service *service, const struct ps_pull_request *request,
                    struct ps_parameter *parameter, struct ps_encoded_values **content,
                    uint64_t *version, struct ps_delta *delta, struct ps_error *error);

#endif

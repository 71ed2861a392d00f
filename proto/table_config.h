/* SPDX-License-Identifier: Apache-2.0 */
/* TableConfig of a configuration <-> struct. Private to proto/.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT: more bounds, or a longer name of clocks, than the struct has room
 *           for.
 * Memory:   written into the caller's structs; a written message borrows from `settings`.
 */
#ifndef PS_PROTO_TABLE_CONFIG_H
#define PS_PROTO_TABLE_CONFIG_H

#include "base/status.h"
#include "base/table_settings.h"

/* protobuf-c's, which only the sources of this folder see. */
struct Paddle__TableConfig;

/* `read` NULL, as of most configurations: no table, all zero. The enums were checked against the
 * descriptors before; whether the numbers are a table's is judged later, with rule and type. */
PS_MUST_USE enum ps_status ps_table_config_read(const struct Paddle__TableConfig *read,
                                                struct ps_table_settings *settings,
                                                struct ps_error *error);

/* The message of `settings` in `message`, which borrows from them; NULL where they are no table's.
 * The sender's configuration keeps its bytes: a configuration of before there were tables is the
 * same as ever. */
struct Paddle__TableConfig *ps_table_config_write(const struct ps_table_settings *settings,
                                                  struct Paddle__TableConfig *message);

#endif

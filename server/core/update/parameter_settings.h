/* SPDX-License-Identifier: Apache-2.0 */
/* From a serialized OptimizerConfig to the settings of one parameter's optimizer, with every check
 * that InitParam makes on them.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT with the reason; PS_ERR_NO_MEMORY.
 * Memory:   arguments are borrowed; what decoding needs is given back before return.
 */
#ifndef PS_SERVER_CORE_PARAMETER_SETTINGS_H
#define PS_SERVER_CORE_PARAMETER_SETTINGS_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/status.h"
#include "optimizer/settings.h"
#include "proto/optimizer_config.h"

/* Decodes `config` and checks that it is possible on `dtype`. */
PS_MUST_USE enum ps_status ps_parameter_settings_read(struct ps_bytes config, enum ps_dtype dtype,
                                                      const struct ps_allocator *memory,
                                                      struct ps_optimizer_settings *settings,
                                                      struct ps_error *error);

/* The second half: a decoded configuration. Numbers are taken over as they are; only what has no
 * counterpart in the settings is refused here. */
PS_MUST_USE enum ps_status ps_parameter_settings_from(const struct ps_optimizer_config *config,
                                                      struct ps_optimizer_settings *settings,
                                                      struct ps_error *error);

/* Parses "end:rate,end:rate,...": ends are whole numbers that rise, rates are finite and not
 * negative; at least one and at most PS_SCHEDULE_SEGMENTS_MAX segments, nothing else. */
PS_MUST_USE enum ps_status ps_parameter_settings_segments(const char *text,
                                                          struct ps_learning_rate *learning_rate,
                                                          struct ps_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at a gradient before anything is changed: is what it says about itself possible, is every
 * element finite, what is its norm.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   nothing is allocated; everything is borrowed for the call.
 */
#ifndef PS_SERVER_CORE_GRADIENT_CHECK_H
#define PS_SERVER_CORE_GRADIENT_CHECK_H

#include "optimizer/optimizer.h"
#include "proto/messages.h"
#include "server/core/update/gradient_runs.h"
#include "server/core/values/parameter_spec.h"

/* Of a gradient whose length was checked: are the scales of INT8 finite, do the indices of TOP_K
 * rise within the parameter? All other contents are possible.
 *
 * touched   a flag for each block of the parameter; those that TOP_K names elements of are set, the
 *           others left alone. NULL: not asked
 *
 * PS_ERR_BAD_INPUT    no; the text says where
 */
PS_MUST_USE enum ps_status ps_gradient_check(const struct ps_parameter_spec *spec,
                                             struct ps_gradient gradient, bool *touched,
                                             struct ps_error *error);

/* The same of one range's content, before the others are there. */
PS_MUST_USE enum ps_status ps_gradient_check_range(const struct ps_parameter_spec *spec,
                                                   struct ps_gradient gradient,
                                                   struct ps_elements range,
                                                   struct ps_error *error);

/* Are `count` elements known to be finite without looking at each of them? Scales and elements of
 * two bytes tell; of other contents it says no. */
bool ps_gradient_is_plainly_finite(struct ps_gradient gradient, uint64_t count);

/* Looks at a range of `count` elements ahead of the rest, while it is in the cache. True: if all
 * ranges are like this one, a scan of the whole finds nothing. */
bool ps_gradient_range_is_plain(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                                uint64_t count);

/* Would ps_gradient_scan look at every element? Not where there is nothing to find, and not where a
 * small part of the bytes tells: scales, or the elements that are named. */
bool ps_gradient_scan_is_long(const struct ps_parameter_spec *spec, struct ps_gradient gradient);

/* ps_optimizer_scan over the whole gradient, unless that is known to find nothing. */
void ps_gradient_scan(const struct ps_parameter_spec *spec, struct ps_gradient gradient,
                      struct ps_gradient_scan *scan);

#endif

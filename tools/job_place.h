/* Where a job is to be found: by its etcd, or by its servers' addresses.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT, with what to type.
 * Memory:   nothing is kept.
 */
#ifndef PS_TOOLS_JOB_PLACE_H
#define PS_TOOLS_JOB_PLACE_H

#include "base/status.h"

/* Exactly one of --etcd and --servers says where; NULL: not given. */
PS_MUST_USE enum ps_status ps_job_place_check(const char *etcd, const char *servers,
                                              struct ps_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What etcd's errors mean; the part of etcd_reply.h that its two sources share.
 *
 * Threads:  none inside.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_ETCD_ETCD_REPLY_ERROR_H
#define PS_ETCD_ETCD_REPLY_ERROR_H

#include "etcd/etcd_reply.h"
#include "json/json_reader.h"

/* The text without white space around it. */
struct ps_bytes ps_etcd_trimmed(struct ps_bytes text);

/* Judges a parsed reply; `document` may be NULL for a text that is not JSON. */
void ps_etcd_error_of(const struct ps_json *document, long http_status,
                      struct ps_etcd_error *error);

/* Judges the reason of a cancelled watch; NULL for none. */
void ps_etcd_error_of_text(const char *reason, struct ps_etcd_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the JSON requests of etcd's gateway. 64-bit numbers are strings, keys and values base64.
 *
 * Threads:  none inside.
 * Blocking: never.
 * Errors:   those of the buffer, checked by the caller at the end.
 * Memory:   in the buffer.
 */
#ifndef PS_ETCD_ETCD_REQUEST_H
#define PS_ETCD_ETCD_REQUEST_H

#include "base/buffer.h"
#include "etcd/kv.h"

/* Longest request: all changes of a transaction at their largest would be more, and etcd refuses
 * more than 1.5 MiB anyway. */
#define PS_ETCD_REQUEST_BYTES_MAX ((size_t)4 * 1024 * 1024)

void ps_etcd_request_range(struct ps_buffer *body, const char *key, bool prefix);
/* The cheapest question under a prefix that needs a quorum: is anybody there? */
void ps_etcd_request_heartbeat(struct ps_buffer *body, const char *prefix);
void ps_etcd_request_transaction(struct ps_buffer *body,
                                 const struct ps_kv_transaction *transaction);
/* The id is chosen by us, so that a repeated request makes no second lease. */
void ps_etcd_request_grant(struct ps_buffer *body, struct ps_kv_lease lease, uint64_t ttl_ms);
/* For keepalive and revoke. */
void ps_etcd_request_lease(struct ps_buffer *body, struct ps_kv_lease lease);
void ps_etcd_request_authenticate(struct ps_buffer *body, const char *user, const char *password);
void ps_etcd_request_watch(struct ps_buffer *body, const char *prefix, int64_t revision);

#endif

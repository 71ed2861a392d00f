/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1 as bytes.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for malformed bytes or a service name beyond its bound.
 * Memory:   the caller's.
 */
#ifndef PS_PROTO_HEALTH_CODEC_H
#define PS_PROTO_HEALTH_CODEC_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#define PS_HEALTH_SERVICE_BYTES_MAX 256

#define PS_HEALTH_CHECK_PATH "/grpc.health.v1.Health/Check"
#define PS_HEALTH_LIST_PATH "/grpc.health.v1.Health/List"
#define PS_HEALTH_WATCH_PATH "/grpc.health.v1.Health/Watch"

/* The numbers of HealthCheckResponse.ServingStatus. */
enum ps_health {
    PS_HEALTH_UNKNOWN = 0,
    PS_HEALTH_SERVING = 1,
    PS_HEALTH_NOT_SERVING = 2,
    PS_HEALTH_SERVICE_UNKNOWN = 3
};

/* The service that is asked about, with a NUL; empty: the whole server. */
PS_MUST_USE enum ps_status ps_decode_health(struct ps_view bytes,
                                            char service[PS_HEALTH_SERVICE_BYTES_MAX + 1],
                                            struct ps_error *error);

void ps_encode_health_reply(enum ps_health health, struct ps_buffer *bytes);

/* One entry of HealthListResponse: a service of this name has this health. The name is shorter than
 * 100 bytes. */
void ps_encode_health_entry(const char *service, enum ps_health health, struct ps_buffer *bytes);

#endif

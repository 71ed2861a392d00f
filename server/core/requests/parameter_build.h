/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter before it is in the table: checked, counted and built without any lock. Private to
 * the calls that bring one (init_param.c, define.c) and to the replay of a definition.
 *
 * Threads:  any; the cut is taken where a function says nothing else.
 * Blocking: for locks, and for a device that is asked for memory.
 * Errors:   said at each function.
 * Memory:   the request is borrowed while its wish is used.
 */
#ifndef PS_SERVER_CORE_PARAMETER_BUILD_H
#define PS_SERVER_CORE_PARAMETER_BUILD_H

#include "server/core/requests/service_state.h"

/* What the checks have found out about a request. */
struct ps_wish {
    const struct ps_init_request *request;
    uint64_t count;      /* elements */
    uint64_t bytes;      /* of the host's memory that were reserved */
    uint64_t generation; /* of the shard, when the request came */
    uint32_t shard;      /* of a table: as the shard was known then */
    uint32_t shard_count;
    bool defines; /* the parameter will have a birth (parameter_spec.h) */
    struct ps_optimizer_settings settings;
};

/* Could this parameter be one, whatever the shard holds? PS_ERR_BAD_INPUT, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_wish_check(struct ps_service *service,
                                         const struct ps_init_request *request,
                                         struct ps_wish *wish, struct ps_error *error);

/* Builds it, on a device that has room or on the host; `wish->bytes` are reserved from then on, for
 * the table or to be given back by ps_wish_unreserve. Without the cut.
 *
 * PS_ERR_BUSY       the memory limit would be passed; the text has the numbers
 * PS_ERR_BAD_INPUT  what a checkpoint's header cannot hold
 * PS_ERR_NO_MEMORY, or what a device said
 */
PS_MUST_USE enum ps_status ps_wish_build(struct ps_service *service, struct ps_wish *wish,
                                         struct ps_parameter **parameter, struct ps_error *error);

/* The parameter was not built, or not taken: its bytes are free again. */
void ps_wish_unreserve(struct ps_service *service, uint64_t bytes);

/* Puts a range of a parameter to the others of its request (staging.h). Without the cut. */
PS_MUST_USE enum ps_status ps_service_stage(struct ps_service *service,
                                            const struct ps_init_request *request,
                                            enum ps_method method, struct ps_added *added,
                                            struct ps_error *error);

/* How much of a checkpoint's header the parameter of `spec` takes, where checkpoints are
 * written. */
PS_MUST_USE enum ps_status ps_service_measure_header(const struct ps_service *service,
                                                     struct ps_parameter_spec *spec,
                                                     struct ps_error *error);

/* Is there room in a checkpoint's header for `spec`, in the place of what has its name? With the
 * cut held. PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status ps_service_check_header(const struct ps_service *service,
                                                   const struct ps_parameter_spec *spec,
                                                   struct ps_error *error);

/* Bytes that the parameter of that name counts for; 0: there is none. With the cut held. */
uint64_t ps_service_bytes_of(const struct ps_service *service, struct ps_bytes name);

/* The devices on which a parameter of `spec` may live; NULL: only the host. */
struct ps_device_store *ps_service_device_for(const struct ps_service *service,
                                              const struct ps_parameter_spec *spec);

/* Rises with every loss of the shard, also when the same server wins it back. */
uint64_t ps_service_generation(struct ps_service *service);

#endif

/* Which checkpoint of each shard is published, asked of etcd.
 *
 * Threads:  one.
 * Blocking: until the deadline given at the beginning.
 * Errors:   those of etcd/kv.h; PS_ERR_BAD_INPUT for URLs or a job name.
 * Memory:   owned until published_close.
 */
#ifndef PS_TOOLS_PUBLISHED_H
#define PS_TOOLS_PUBLISHED_H

#include "checkpoint/checkpoint.h"
#include "etcd/registry.h"

struct published {
    struct ps_kv *kv; /* owned; NULL: nobody is asked */
    const struct ps_allocator *memory;
    uint64_t deadline_ms;
};

struct published_options {
    const char *etcd; /* NULL: nobody is asked */
    const char *user;
    const char *password;
    uint64_t timeout_ms;
};

PS_MUST_USE enum ps_status published_open(struct published *published,
                                          const struct published_options *options,
                                          const struct ps_allocator *memory,
                                          struct ps_error *error);

/* Accepts a zeroed struct. */
void published_close(struct published *published);

/* Writes the uuid of the published checkpoint, or "" when there is none or nobody is asked. */
PS_MUST_USE enum ps_status published_uuid(struct published *published, const char *job,
                                          uint32_t index, char uuid[37], struct ps_error *error);

#endif

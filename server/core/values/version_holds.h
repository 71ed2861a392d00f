/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of parameters that are being read in ranges: a reader who got the first range of a
 * version gets the others of the same, whatever is pushed meanwhile.
 *
 * A hold keeps a version's blocks by reference. A hold ends when everything that its readers began
 * was given out, when nobody has asked for PS_VERSION_HOLDS_IDLE_MS (looked at with each range that
 * anybody asks for), or when there are too many: then the one that was not asked for the longest
 * goes. A reader whose version is gone begins again.
 *
 * Threads:  every function is safe from any thread, but for init and fini.
 * Blocking: never.
 * Errors:   none.
 * Memory:   PS_VERSION_HOLDS_MAX holds; of all held versions together at most
 *           PS_VERSION_HOLDS_BYTES_MAX, but one always fits.
 */
#ifndef PS_SERVER_CORE_VERSION_HOLDS_H
#define PS_SERVER_CORE_VERSION_HOLDS_H

#include "base/thread.h"
#include "server/core/values/blocks.h"

#define PS_VERSION_HOLDS_MAX 32
#define PS_VERSION_HOLDS_BYTES_MAX ((uint64_t)4 << 30)
#define PS_VERSION_HOLDS_IDLE_MS 30000

struct ps_version_hold {
    struct ps_blocks *values; /* a reference; NULL: free */
    uint64_t version;
    uint64_t owed; /* bytes that its readers have not asked for yet */
    uint64_t used_ms;
};

struct ps_version_holds {
    struct ps_mutex lock; /* PS_RANK_QUEUE; guards all that follows */
    struct ps_version_hold holds[PS_VERSION_HOLDS_MAX];
    uint64_t bytes;
    size_t count;
};

void ps_version_holds_init(struct ps_version_holds *holds);
void ps_version_holds_fini(struct ps_version_holds *holds);
void ps_version_holds_clear(struct ps_version_holds *holds);

/* A reader begins to read `bytes` of `values`, which are `version` of their parameter. Borrowed; a
 * reference is taken. */
void ps_version_holds_begin(struct ps_version_holds *holds, struct ps_blocks *values,
                            uint64_t version, uint64_t bytes, uint64_t now_ms);

/* Returns a reference to that version of the parameter of `spec`; end it with ps_blocks_release.
 * NULL when that version is not held. */
struct ps_blocks *ps_version_holds_find(struct ps_version_holds *holds,
                                        const struct ps_parameter_spec *spec, uint64_t version,
                                        uint64_t now_ms);

/* `bytes` of a version were given out; a version that is not held is ignored. */
void ps_version_holds_given(struct ps_version_holds *holds, const struct ps_parameter_spec *spec,
                            uint64_t version, uint64_t bytes);

/* For metrics. */
void ps_version_holds_look(struct ps_version_holds *holds, uint64_t *bytes, size_t *count);

#endif

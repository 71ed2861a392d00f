/* SPDX-License-Identifier: Apache-2.0 */
/* Receives of one wish for many keys: what is asked of which server next, and what came of it.
 *
 *     ps_tensor_wishes_init(...);
 *     while (wishes.missing > 0 && wishes.why.status == PS_OK)
 *         one batch: of ranges, while values have begun to come; otherwise of receives, for each
 *         server. Every answer goes to ps_tensor_wishes_take.
 *
 * A value that is longer than a range comes with its first range; the others are asked for by
 * themselves then, under the same id, each once. A range that is not answered is a batch that has
 * failed, and with it the wish.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   each function lists its own.
 * Memory:   one array; keys are borrowed until fini.
 */
#ifndef PS_CLIENT_TENSOR_WISHES_H
#define PS_CLIENT_TENSOR_WISHES_H

#include "base/alloc.h"
#include "client/tensors/tensor_cut.h"

/* One receive. */
struct ps_tensor_wished {
    struct ps_bytes key;
    uint32_t shard;
    bool has_begun;   /* its first range has come */
    uint64_t total;   /* bytes, from then on */
    uint64_t asked;   /* up to here ranges were asked for */
    uint64_t arrived; /* bytes of all ranges that came */
    uint8_t *content; /* where they go; borrowed */
};

/* Who gives memory for a value when its first range comes. `*content` has room for `size` bytes,
 * and stays until fini. PS_ERR_NO_MEMORY, PS_ERR_BAD_INPUT: the caller's memory is too small. */
struct ps_tensor_place {
    enum ps_status (*open)(void *self, size_t i, const struct ps_value_facts *facts, uint64_t size,
                           uint8_t **content, struct ps_error *error);
    void *self;
};

struct ps_tensor_wishes {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_tensor_place place;
    struct ps_tensor_wished *values; /* owned */
    size_t count;
    uint64_t first_id;   /* of the first; the others follow */
    size_t missing;      /* values that are not there yet */
    size_t begun;        /* of these: whose ranges are to be asked for */
    size_t cursor;       /* values before it have nothing for the present batch */
    struct ps_error why; /* of the first receive that failed by itself */
};

/* `keys` are borrowed until fini; each goes to the server of its hash, of `shard_count`.
 * PS_ERR_BAD_INPUT: a key that no server takes. PS_ERR_NO_MEMORY. In any case fini follows. */
PS_MUST_USE enum ps_status
ps_tensor_wishes_init(struct ps_tensor_wishes *wishes, const struct ps_allocator *memory,
                      const struct ps_tensor_place *place, const char *const *keys, size_t count,
                      uint64_t first_id, uint32_t shard_count, struct ps_error *error);
void ps_tensor_wishes_fini(struct ps_tensor_wishes *wishes);

/* The server of a key, of so many. */
uint32_t ps_tensor_shard_of(struct ps_bytes key, uint32_t shard_count);

/* Before the first of a batch, and for each server. */
void ps_tensor_wishes_rewind(struct ps_tensor_wishes *wishes);

/* Fills up to `most` wishes with receives of this server that have nothing yet; 0: no more of
 * them. */
size_t ps_tensor_wishes_next(struct ps_tensor_wishes *wishes, uint32_t shard,
                             struct ps_rendezvous_wish *asked, size_t most);

/* The next range of a value that has begun; false: all were asked for. */
bool ps_tensor_wishes_next_range(struct ps_tensor_wishes *wishes, struct ps_rendezvous_wish *asked,
                                 uint32_t *shard);

/* One answer. `room` is the shared memory of its call, if it had any. An answer to another wish, or
 * one that came before, changes nothing. A receive that failed by itself is noted in `why`.
 *
 * PS_ERR_INTERNAL  the server says of a value what it did not say before
 * and what the place says
 */
PS_MUST_USE enum ps_status ps_tensor_wishes_take(struct ps_tensor_wishes *wishes,
                                                 const struct ps_received_tensor *received,
                                                 struct ps_bytes room, struct ps_error *error);

/* Did this receive get its value? */
bool ps_tensor_wishes_has(const struct ps_tensor_wishes *wishes, size_t i);

#endif

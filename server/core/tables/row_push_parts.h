/* SPDX-License-Identifier: Apache-2.0 */
/* What a push to a table has in hand from one step to the next. Private to this room.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   all arrays are one allocation, which is the push's.
 */
#ifndef PS_SERVER_CORE_ROW_PUSH_PARTS_H
#define PS_SERVER_CORE_ROW_PUSH_PARTS_H

#include "server/core/tables/row_push.h"
#include "server/core/tables/row_stripes.h"

struct ps_row_victim {
    uint64_t hash;
    uint32_t row;
};

struct ps_row_push {
    struct ps_row_table *table;  /* borrowed */
    uint32_t count;              /* keys as they came */
    uint32_t unique;             /* different ones */
    uint32_t made;               /* of those, without a row; known by prepare */
    struct ps_row_push *counted; /* to the candidates, of keys without a row; NULL: none. Owned */
    bool prepared;
    bool grown;    /* an index had to be made larger for it */
    bool is_taken; /* was let in before: the row limit does not refuse it (row_join.h) */
    /* Of each different key, in the order of their hashes. */
    uint64_t *hashes;
    uint64_t *keys;
    uint8_t **rows;    /* set by prepare; of a new row by apply */
    uint32_t *numbers; /* of the row that is to be made, or PS_ROW_NONE where there is one */
    uint32_t *firsts;  /* where its first gradient came */
    uint64_t *seats;   /* NULL: on no device; of apply (row_bodies.c) */
    uint8_t *gradients;
    uint32_t begins[PS_ROW_STRIPES + 1]; /* the keys of a stripe */
    struct ps_row_victim *victims;       /* rows that go, by stripe; owned */
    uint32_t victim_count;
    enum ps_status failed; /* of apply: the device is dead */
    struct ps_error failure;
};

/* A push to `table` with room for so many keys and none in it; NULL when memory is refused. */
struct ps_row_push *ps_row_push_create(struct ps_row_table *table, uint32_t count);

/* Bytes of one key's gradient, which are those of a row's values. */
static inline size_t ps_row_push_row_bytes(const struct ps_row_push *push)
{
    return push->table->shape.arrays[0].size;
}

#endif

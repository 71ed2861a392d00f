/* SPDX-License-Identifier: Apache-2.0 */
/* In which parts a value is sent.
 *
 * Threads:  pure functions.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CLIENT_TENSOR_CUT_H
#define PS_CLIENT_TENSOR_CUT_H

#include "proto/rendezvous_messages.h"

/* Of a part, and of a range: larger ones gain nothing, and a server that copies or sends one keeps
 * its lane for so long. */
#ifndef PS_TENSOR_RANGE_BYTES
#define PS_TENSOR_RANGE_BYTES ((uint64_t)2 * 1024 * 1024)
#endif

/* Bytes of a value, from `offset` on. */
struct ps_tensor_part {
    uint64_t offset, size;
};

/* How many parts a value of so many bytes has; 1: it goes as it is. */
size_t ps_tensor_cut_count(uint64_t size);

/* Part `i` of it. */
struct ps_tensor_part ps_tensor_cut_part(uint64_t size, size_t i);

#endif

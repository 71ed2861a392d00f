/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of programs for the tests of their codec, with every field said.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   static.
 */
#ifndef PS_TEST_PROGRAM_SAMPLES_H
#define PS_TEST_PROGRAM_SAMPLES_H

#include "proto/program_codec.h"

static const uint8_t sample_content[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const uint8_t sample_keys[] = {1,    0,    0,    0,    0,    0,    0,    0,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t sample_lens[] = {2, 0, 0, 0, 0, 1, 0, 0};
static const struct ps_bytes sample_piece = {sample_content, sizeof sample_content};
static const struct ps_program_tensor sample_tensors[] = {
    {.key = 5, .size = 8, .facts = {.dtype = 7, .element_size = 4, .rank = 2, .extents = {2, 1}}},
    {.key = UINT64_MAX, .size = 4, .facts = {.dtype = 1}}};
static const struct ps_program_tensor sample_outputs[] = {{.key = 9, .size = 64}, {.key = 0}};

static inline struct ps_program_payload sample_payload(void)
{
    return (struct ps_program_payload){.tensors = sample_tensors,
                                       .tensor_count = 2,
                                       .outputs = sample_outputs,
                                       .output_count = 2,
                                       .body = {(const uint8_t *)"body", 4},
                                       .lens = {sample_lens, sizeof sample_lens},
                                       .keys = {sample_keys, sizeof sample_keys},
                                       .content = ps_view_of(&sample_piece)};
}

static inline struct ps_program_asked sample_asked(void)
{
    return (struct ps_program_asked){.app = 3,
                                     .worker = 70000,
                                     .customer = 2,
                                     .kind = PS_ASK_BATCH,
                                     .command = -7,
                                     .priority = INT32_MIN,
                                     .timestamp = 12,
                                     .stamps = {.host = 99, .ns = {UINT64_MAX, 2, 0, 4}}};
}

#endif

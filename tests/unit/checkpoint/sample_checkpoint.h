/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of every type with every number of states, filled with random bytes in several
 * pieces, for tests of checkpoint files.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a difference fails the test.
 * Memory:   a sample owns everything in it until sample_fini.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_SAMPLE_CHECKPOINT_H
#define PS_TESTS_UNIT_CHECKPOINT_SAMPLE_CHECKPOINT_H

#include "checkpoint/checkpoint.h"

#include <stddef.h>
#include <stdint.h>

struct sample {
    struct ps_checkpoint_facts facts;
    struct ps_checkpoint_parameter *parameters;
    size_t count;
    uint8_t *bytes; /* one block; everything points into it */
    struct ps_bytes *pieces;
    char (*names)[24];
};

/* `count` parameters; type, number of states and length go round, lengths up to `elements_max`. */
void sample_init(struct sample *sample, size_t count, size_t elements_max, uint64_t seed);
void sample_fini(struct sample *sample);

/* Writes it to "ck" of `files`; the test fails when that fails. */
struct ps_checkpoint_place sample_write(const struct sample *sample, const struct ps_files *files);

/* The file at `path` holds exactly this: facts, parameters, arrays. */
void sample_assert_equal(const struct sample *sample, const struct ps_files *files,
                         const char *path);

/* Reads every array of the file at `path`. PS_OK when all of it could be read; then the test fails
 * unless it is exactly the sample: damage may be noticed or harmless, but never silent. */
enum ps_status sample_read(const struct sample *sample, const struct ps_files *files,
                           const char *path, const struct ps_allocator *memory);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets in the LIBSVM text format: "label index:value index:value ..." per line, indices from
 * 1 and rising.
 *
 * Threads:  a data set may be read from any number of threads once loaded.
 * Blocking: loading and writing wait for the disk.
 * Errors:   PS_ERR_BAD_INPUT names file and line; PS_ERR_NOT_FOUND, PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   a data set owns its rows until ps_dataset_fini.
 */
#ifndef PS_TOOLS_LIBSVM_H
#define PS_TOOLS_LIBSVM_H

#include "base/alloc.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Rows in compressed form: row i has the features [starts[i], starts[i + 1]). */
struct ps_dataset {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    size_t row_count;
    size_t feature_count; /* highest index seen */
    double *labels;       /* owned; as in the file */
    size_t *starts;       /* owned; row_count + 1 entries */
    uint32_t *features;   /* owned; 0-based */
    float *values;        /* owned */
};

/* Accepts a zeroed struct. */
void ps_dataset_fini(struct ps_dataset *dataset);

/* Reads a whole file into a zeroed `dataset`. */
PS_MUST_USE enum ps_status ps_dataset_load(const char *path, const struct ps_allocator *memory,
                                           struct ps_dataset *dataset, struct ps_error *error);

/* Parses one text of `size` bytes, NUL-terminated, as ps_dataset_load does. `name` is for messages.
 */
PS_MUST_USE enum ps_status ps_dataset_parse(const char *name, const char *text, size_t size,
                                            const struct ps_allocator *memory,
                                            struct ps_dataset *dataset, struct ps_error *error);

#endif

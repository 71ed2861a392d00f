/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: YAML, one flat mapping of option names to values.
 *
 *     listen: 0.0.0.0:8000
 *     checkpoint-interval: 30s
 *
 * The home of libcyaml. What may stand in the file follows from the program's option table.
 *
 * Threads:  one, at start.
 * Blocking: reading the file waits for the disk.
 * Errors:   PS_ERR_NOT_FOUND and PS_ERR_IO for the file; PS_ERR_BAD_INPUT for what is in it, with
 *           "FILE:LINE: " in front, the nearest name for an unknown one, and the values half set;
 *           PS_ERR_NO_MEMORY.
 * Memory:   text values point into the file's texts, which live until fini.
 */
#ifndef PS_SERVER_CONFIG_FILE_H
#define PS_SERVER_CONFIG_FILE_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/options.h"

/* Zero-initialised, it is a file that was never read. */
struct ps_config_file {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    char **texts;                      /* owned; one for each option, NULL where none is set */
    size_t text_count;
};

/* Reads `path` and sets the options it names in `values`. A value left empty counts as unset. */
PS_MUST_USE enum ps_status ps_config_file_init(struct ps_config_file *file,
                                               const struct ps_option_set *set, void *values,
                                               const char *path, struct ps_error *error);

/* The same from any file system and with any memory. */
PS_MUST_USE enum ps_status ps_config_file_read(struct ps_config_file *file,
                                               const struct ps_files *files,
                                               const struct ps_allocator *memory,
                                               const struct ps_option_set *set, void *values,
                                               const char *path, struct ps_error *error);

void ps_config_file_fini(struct ps_config_file *file);

#endif

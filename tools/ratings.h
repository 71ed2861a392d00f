/* SPDX-License-Identifier: Apache-2.0 */
/* Ratings, a line each: user, item, rating, and whatever follows (the time, mostly). Columns are
 * apart by a tab or blanks, by "::", a comma or a semicolon, as the MovieLens files and those of
 * other collections have them, and may stand in quotes; a first line that begins with a letter or
 * "#" is a heading. Lines may be empty, and end as those of Windows.
 *
 * Threads:  may be read from any number of threads once loaded.
 * Blocking: loading waits for the disk.
 * Errors:   PS_ERR_BAD_INPUT names file, line, column and what stands there; PS_ERR_NOT_FOUND,
 *           PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   owned until ps_ratings_fini.
 */
#ifndef PS_TOOLS_RATINGS_H
#define PS_TOOLS_RATINGS_H

#include "base/alloc.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Numbers of users and items are below this: the keys of a table hold one bit beside them. */
#define PS_RATING_NUMBER_BITS 63

struct ps_rating {
    uint64_t user, item;
    float value;
};

struct ps_ratings {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    size_t count;
    struct ps_rating *list; /* owned; in the order of the file */
    double mean;            /* of the values */
};

/* Accepts a zeroed struct. */
void ps_ratings_fini(struct ps_ratings *ratings);

/* Reads a whole file into zeroed `ratings`. */
PS_MUST_USE enum ps_status ps_ratings_load(const char *path, const struct ps_allocator *memory,
                                           struct ps_ratings *ratings, struct ps_error *error);

/* Parses one text of `size` bytes, NUL-terminated. `name` is for messages. */
PS_MUST_USE enum ps_status ps_ratings_parse(const char *name, const char *text, size_t size,
                                            const struct ps_allocator *memory,
                                            struct ps_ratings *ratings, struct ps_error *error);

#endif

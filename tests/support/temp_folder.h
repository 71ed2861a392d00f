/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of a test's own that goes away with everything in it.
 *
 * Threads:  one.
 * Blocking: the disk.
 * Errors:   a folder that cannot be made stops the test program.
 * Memory:   in place.
 */
#ifndef PS_TESTS_SUPPORT_TEMP_FOLDER_H
#define PS_TESTS_SUPPORT_TEMP_FOLDER_H

struct temp_folder {
    char path[512];
};

/* Makes an empty folder under TMPDIR, or /tmp. */
void temp_folder_init(struct temp_folder *folder);

/* Removes it and all that is in it. */
void temp_folder_fini(struct temp_folder *folder);

/* Writes "FOLDER/NAME" to `path`, which has room for `capacity` bytes. Returns `path`. */
char *temp_folder_path(const struct temp_folder *folder, const char *name, char *path,
                       unsigned long capacity);

#endif

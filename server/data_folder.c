/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes a file: better to refuse now than to find out at the first checkpoint. Paths go
 * into etcd, where servers in other folders read them. */
#include "server/data_folder.h"

#include "base/assert.h"
#include "base/file.h"
#include "base/random.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* A folder may be there and belong to somebody else, or lie on a disk that is full: only a file
 * that was made shows that files can be made. */
static enum ps_status write_there(const char *path, const char *folder, struct ps_error *reason)
{
    const struct ps_files *files = ps_files_real();
    struct ps_file file;
    PS_TRY(files->make_folder(files->self, folder, reason));
    PS_TRY(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, reason));
    files->close(files->self, file);
    return files->remove(files->self, path, reason);
}

enum ps_status ps_data_folder_check(const char *folder, char *path, size_t path_bytes,
                                    struct ps_error *error)
{
    /* The system's reason is kept apart, so that the message can name the option, too. */
    struct ps_error reason = {0};
    uint64_t number = 0;
    char resolved[PATH_MAX];
    PS_ASSERT(folder != NULL && path_bytes > 0);
    /* A name of its own: two servers that share the folder may test it at the same moment. */
    ps_random_system(&number, sizeof number);
    int length =
        snprintf(path, path_bytes, "%s/.writable-%016llx", folder, (unsigned long long)number);
    if (length < 0 || (size_t)length >= path_bytes)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--data-dir is too long");
    if (write_there(path, folder, &reason) != PS_OK)
        return ps_fail(error, PS_ERR_IO, "--data-dir %s cannot be written: %s", folder,
                       reason.text);
    /* The path that other servers read is one from the root. Where the path cannot be resolved the
     * name stays as it was given: the folder can be written, which was the question. */
    const char *found = realpath(folder, resolved) != NULL ? resolved : folder;
    length = snprintf(path, path_bytes, "%s", found);
    if (length < 0 || (size_t)length >= path_bytes)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--data-dir is too long");
    return PS_OK;
}

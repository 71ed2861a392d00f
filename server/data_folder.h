/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of checkpoints and journal, looked at before anything is served.
 *
 * Threads:  any.
 * Blocking: for the file system.
 * Errors:   as said.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_SERVER_DATA_FOLDER_H
#define PS_SERVER_DATA_FOLDER_H

#include "base/status.h"

#include <stddef.h>

/* Makes the folder if there is none, and writes into `path` where it is, from the root. Where that
 * cannot be found out, `path` is `folder` as it was given.
 *
 * PS_ERR_BAD_INPUT   the name is too long
 * PS_ERR_IO          nothing can be written there; the text has the system's reason
 */
PS_MUST_USE enum ps_status ps_data_folder_check(const char *folder, char *path, size_t path_bytes,
                                                struct ps_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Is a shard's folder of one history (checkpoint/history.h)? What commands ask before they make a
 * state of it, or remove something from it: a server would refuse a mixture, and so do they.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   said at the function.
 * Memory:   none is kept.
 */
#ifndef PS_TOOLS_FOLDER_HISTORIES_H
#define PS_TOOLS_FOLDER_HISTORIES_H

#include "checkpoint/history.h"
#include "tools/psckpt/toolbox.h"

/* `*own` becomes the folder's history, as far as it is known. No store is asked, so that the text
 * does not say which of the files are the wrong ones.
 *
 * PS_ERR_CORRUPT      files of several are there; psckpt verify names them
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status folder_histories_check(const struct toolbox *box, const char *folder,
                                                  struct ps_history *own, struct ps_error *error);

#endif

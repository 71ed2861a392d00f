/* SPDX-License-Identifier: Apache-2.0 */
/* What every part of psckpt works with. Tests put a disk in memory and a refusing heap into it.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   all three are borrowed and outlive whatever was begun with them.
 */
#ifndef PS_TOOLS_TOOLBOX_H
#define PS_TOOLS_TOOLBOX_H

#include "base/alloc.h"
#include "base/file.h"
#include "tools/psckpt/progress.h"

struct toolbox {
    const struct ps_files *files;
    const struct ps_allocator *memory;
    struct progress *progress;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A page of ones that a fork turns into zeros (madvise(2), MADV_WIPEONFORK). */
#include "client/process_mark.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Wiping is asked for before the page is written: there is no moment at which a child would take
 * the mark for its own. */
void ps_process_mark_init(struct ps_process_mark *mark)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    *mark = (struct ps_process_mark){.page = NULL};
    unsigned char *page =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return;
    }
    *page = 1;
    mark->page = page;
    mark->size = size;
}

/* In a child this gives back the child's own page. */
void ps_process_mark_fini(struct ps_process_mark *mark)
{
    if (mark->page != NULL)
        munmap((void *)(uintptr_t)mark->page, mark->size);
    mark->page = NULL;
}

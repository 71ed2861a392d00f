/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this process is the one that made the mark, or a child that was forked since. A thread
 * that a fork did not copy will never come, and a lock that it held is held for ever: whoever has
 * threads has to know.
 *
 * The mark is a page of memory that the kernel wipes in a child: to look at the page costs no
 * system call, and needs neither a handler nor a variable of the whole process.
 *
 * Threads:  any, between init and fini.
 * Blocking: never.
 * Errors:   none: without the page (an old kernel, no memory) nobody is a child.
 * Memory:   one page.
 */
#ifndef PS_CLIENT_PROCESS_MARK_H
#define PS_CLIENT_PROCESS_MARK_H

#include <stdbool.h>
#include <stddef.h>

struct ps_process_mark {
    const volatile unsigned char *page; /* owned; NULL: there is none */
    size_t size;
};

void ps_process_mark_init(struct ps_process_mark *mark);

/* Accepts a zeroed mark; also in a child. */
void ps_process_mark_fini(struct ps_process_mark *mark);

/* Is this a child of the process that made the mark? */
static inline bool ps_process_mark_is_child(const struct ps_process_mark *mark)
{
    return mark->page != NULL && *mark->page == 0;
}

#endif

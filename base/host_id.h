/* SPDX-License-Identifier: Apache-2.0 */
/* Which host this is, as a number: by it two time stamps are known to be of one clock.
 *
 * Threads:  any.
 * Blocking: the first call reads a small file of the kernel.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_HOST_ID_H
#define PS_BASE_HOST_ID_H

#include <stdint.h>

/* The same for all processes since the host was started, containers included, and another one after
 * the next start; not 0. Where the kernel does not say it is a number by the host's name. */
uint64_t ps_host_id(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be ready before the first connection. To be called by name is also what makes the
 * linker take these files, whose other functions only shared libraries refer to.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   one descriptor.
 */
#ifndef PS_SERVER_FRONT_FRONT_HOOKS_H
#define PS_SERVER_FRONT_FRONT_HOOKS_H

/* Keeps a descriptor for the moment in which there is no other. */
void ps_front_hooks_prepare(void);

/* From here on a connection under TLS is known by its session. */
void ps_front_tls_prepare(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A program as a compiler made it with the psclient.h of version 0.1.0, before any struct had
 * grown.
 *
 * Threads:  one.
 * Blocking: as the client's calls.
 * Errors:   the number of the line that failed.
 * Memory:   everything is given back.
 */
#ifndef PS_TESTS_INTEGRATION_CLIENT_FIRST_PROGRAM_H
#define PS_TESTS_INTEGRATION_CLIENT_FIRST_PROGRAM_H

/* Pushes and pulls param_a and param_b at the servers of psclient_rig.h. 0: all was as in 0.1.0. */
int first_program_run(const char *list);

#endif

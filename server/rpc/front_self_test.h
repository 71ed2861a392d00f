/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the front door holds: it stands on which functions the gRPC library calls, and another
 * build of that library may call others.
 *
 * Threads:  one, before connections are accepted, with nobody listening to the door.
 * Blocking: some milliseconds; up to two seconds where the door does not hold.
 * Errors:   false.
 * Memory:   none that stays.
 */
#ifndef PS_SERVER_RPC_FRONT_SELF_TEST_H
#define PS_SERVER_RPC_FRONT_SELF_TEST_H

#include <stdbool.h>

/* An attack on a gRPC server that is made for it and reachable by nobody else: true when the door
 * has ended it, in its own words. The door is open. */
bool ps_front_self_test(void);

#endif

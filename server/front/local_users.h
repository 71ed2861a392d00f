/* SPDX-License-Identifier: Apache-2.0 */
/* Users of this host whose processes may come in by local ways: by the number that the kernel
 * gives.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_SERVER_FRONT_LOCAL_USERS_H
#define PS_SERVER_FRONT_LOCAL_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_LOCAL_USERS_MAX = 16, PS_LOCAL_NAME_MAX = 24 };

struct ps_local_users {
    bool is_restricted; /* false: everybody, as far as files and folders let them */
    size_t count;
    uint32_t users[PS_LOCAL_USERS_MAX];
};

/* "1000,1001", or "none". False for another text. */
bool ps_local_users_parse(struct ps_local_users *users, const char *text);

bool ps_local_users_allow(const struct ps_local_users *users, uint32_t user);

/* Whom rules call who comes that way: "uid:1000" where it can be one user only, else "local". */
void ps_local_users_name(const struct ps_local_users *users, char name[PS_LOCAL_NAME_MAX]);

#endif

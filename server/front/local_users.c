/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC gives every client of a unix socket the same address, so that a call cannot be told from
 * that of another user. Hence a list that lets in, and a name only where the list has one. */
#include "server/front/local_users.h"

#include "base/assert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits alone: strtoul would take a sign, and blanks before it. */
bool ps_local_users_parse(struct ps_local_users *users, const char *text)
{
    users->is_restricted = true;
    users->count = 0;
    if (strcmp(text, "none") == 0)
        return true;
    for (;;) {
        char *end;
        if (text[0] < '0' || text[0] > '9' || users->count == PS_LOCAL_USERS_MAX)
            return false;
        /* Too large a number is said by errno alone. */
        errno = 0;
        unsigned long user = strtoul(text, &end, 10);
        /* The last number is the kernel's "nobody in particular". */
        if (errno != 0 || user >= UINT32_MAX)
            return false;
        users->users[users->count++] = (uint32_t)user;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

/* No exception for root: who may read the server's memory needs no socket, and who forgot to name
 * root hears so. */
bool ps_local_users_allow(const struct ps_local_users *users, uint32_t user)
{
    PS_ASSERT(users->count <= PS_LOCAL_USERS_MAX);
    for (size_t i = 0; i < users->count; i++)
        if (users->users[i] == user)
            return true;
    return !users->is_restricted;
}

/* A rule may speak of one user only where no other can come in; of several it speaks as one. */
void ps_local_users_name(const struct ps_local_users *users, char name[PS_LOCAL_NAME_MAX])
{
    if (users->is_restricted && users->count == 1)
        (void)snprintf(name, PS_LOCAL_NAME_MAX, "uid:%u", users->users[0]);
    else
        (void)snprintf(name, PS_LOCAL_NAME_MAX, "local");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody may do: rules that give a role to identities, for jobs and parameters. What no rule
 * allows is denied.
 *
 *   reader    pulls, asks for status and lists
 *   trainer   the same, and initialises and pushes
 *   admin     the same, and saves checkpoints and ends servers
 *
 * Threads:  constant once made; acquire and release from any thread.
 * Blocking: never.
 * Errors:   none.
 * Memory:   counted.
 */
#ifndef PS_SECURITY_ROLES_H
#define PS_SECURITY_ROLES_H

#include "base/alloc.h"
#include "base/bytes.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Each has the rights of those before it. */
enum ps_role { PS_ROLE_NONE, PS_ROLE_READER, PS_ROLE_TRAINER, PS_ROLE_ADMIN };

/* Patterns: '*' stands for any bytes, also none. */
struct ps_role_rule {
    const char *identity; /* a pattern */
    const char *job;      /* a pattern; "*": every job */
    const char *prefix;   /* of parameters' names; "": all of them, and the job as a whole */
    enum ps_role role;
};

/* Whoever makes one sets all of it, and the count to 1. */
struct ps_roles {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    atomic_uint references;
    char *texts; /* owned; what the rules point into */
    size_t rule_count;
    struct ps_role_rule rules[];
};

/* "reader", "trainer", "admin". PS_ROLE_NONE for another word. */
enum ps_role ps_role_of_text(const char *text);
const char *ps_role_text(enum ps_role role);

/* May the identity do what needs the role with the job as a whole? NULL for roles: there are no
 * rules, and everybody may. */
bool ps_roles_allow_job(const struct ps_roles *roles, const char *identity, enum ps_role needed,
                        const char *job);

/* ... with at least some parameters of the job? */
bool ps_roles_allow_some(const struct ps_roles *roles, const char *identity, enum ps_role needed,
                         const char *job);

/* ... with the parameter of this name? */
bool ps_roles_allow_name(const struct ps_roles *roles, const char *identity, enum ps_role needed,
                         const char *job, struct ps_bytes name);

bool ps_roles_equal(const struct ps_roles *a, const struct ps_roles *b);

/* One more reference, and one less. NULL is allowed in both. */
struct ps_roles *ps_roles_acquire(struct ps_roles *roles);
void ps_roles_release(struct ps_roles *roles);

#endif

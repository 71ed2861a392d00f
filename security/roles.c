/* SPDX-License-Identifier: Apache-2.0 */
/* Pure decisions over a list of rules, without state and without a clock. Rules only ever allow,
 * so that their order does not matter and nobody has to think about which of two wins. To take a
 * right away one takes the rule away.
 *
 * Lists are short, tens of rules, and a call walks them once or twice; whoever has a rule for all
 * parameters is not asked about again for each of them (server/rpc/gate.c). */
#include "security/roles.h"

#include "base/assert.h"
#include "base/attributes.h"

#include <string.h>

/* By number, so that a role that is added without a word shows at once. */
static const char *const role_texts[] = {
    [PS_ROLE_NONE] = "none",
    [PS_ROLE_READER] = "reader",
    [PS_ROLE_TRAINER] = "trainer",
    [PS_ROLE_ADMIN] = "admin",
};

/* Exact: a role in capitals is a mistake, and not a role. */
enum ps_role ps_role_of_text(const char *text)
{
    for (size_t i = PS_ROLE_READER; i < PS_ARRAY_COUNT(role_texts); i++)
        if (strcmp(text, role_texts[i]) == 0)
            return (enum ps_role)i;
    return PS_ROLE_NONE;
}

/* For the log and for the texts of refusals. */
const char *ps_role_text(enum ps_role role)
{
    PS_ASSERT((size_t)role < PS_ARRAY_COUNT(role_texts));
    return role_texts[role];
}

/* The pattern is walked once, and a star that was passed takes one byte more whenever what is
 * behind it does not fit: time grows with the product of both lengths and never beyond, whatever
 * a file says. */
static bool fits(const char *pattern, const char *text)
{
    /* Where the pattern goes on behind the last star, and where the text does that it stands
     * for. */
    const char *star = NULL;
    const char *behind = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            behind = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++behind;
        } else {
            return false;
        }
    }
    /* The text is over: stars stand for nothing as well. */
    return pattern[strspn(pattern, "*")] == '\0';
}

/* But for parameters. */
static bool rule_allows(const struct ps_role_rule *rule, const char *identity, enum ps_role needed,
                        const char *job)
{
    PS_ASSERT(needed > PS_ROLE_NONE);
    /* Roles are ordered: each has the rights of those below. */
    return rule->role >= needed && fits(rule->job, job) && fits(rule->identity, identity);
}

/* A rule with a prefix says nothing about the job as a whole: who may change some parameters must
 * not be able to end the initialisation of all, or the server. */
bool ps_roles_allow_job(const struct ps_roles *roles, const char *identity, enum ps_role needed,
                        const char *job)
{
    if (roles == NULL)
        return true;
    for (size_t i = 0; i < roles->rule_count; i++)
        if (roles->rules[i].prefix[0] == '\0' &&
            rule_allows(&roles->rules[i], identity, needed, job))
            return true;
    return false;
}

/* For calls whose parameters are not known yet: each of them is asked about by name afterwards. */
bool ps_roles_allow_some(const struct ps_roles *roles, const char *identity, enum ps_role needed,
                         const char *job)
{
    if (roles == NULL)
        return true;
    for (size_t i = 0; i < roles->rule_count; i++)
        if (rule_allows(&roles->rules[i], identity, needed, job))
            return true;
    return false;
}

/* The prefix is looked at first: it is the cheapest, and differs the most. */
bool ps_roles_allow_name(const struct ps_roles *roles, const char *identity, enum ps_role needed,
                         const char *job, struct ps_bytes name)
{
    if (roles == NULL)
        return true;
    for (size_t i = 0; i < roles->rule_count; i++) {
        const struct ps_role_rule *rule = &roles->rules[i];
        size_t size = strlen(rule->prefix);
        /* Names are bytes with a size: they may be cut pieces of a message. */
        bool begins = size <= name.size && memcmp(rule->prefix, name.data, size) == 0;
        if (begins && rule_allows(rule, identity, needed, job))
            return true;
    }
    return false;
}

/* For the log, which is told when a file has changed. In the same order: a file in which only
 * the order has changed is taken again, which does no harm. */
bool ps_roles_equal(const struct ps_roles *a, const struct ps_roles *b)
{
    bool equal = a->rule_count == b->rule_count;
    for (size_t i = 0; equal && i < a->rule_count; i++)
        equal = a->rules[i].role == b->rules[i].role &&
                strcmp(a->rules[i].identity, b->rules[i].identity) == 0 &&
                strcmp(a->rules[i].job, b->rules[i].job) == 0 &&
                strcmp(a->rules[i].prefix, b->rules[i].prefix) == 0;
    return equal;
}

/* Whoever acquires holds the lock under which a reference is kept, or has one. */
struct ps_roles *ps_roles_acquire(struct ps_roles *roles)
{
    if (roles != NULL)
        PS_ASSERT(atomic_fetch_add(&roles->references, 1) > 0);
    return roles;
}

/* A call that began under former rules ends under them. */
void ps_roles_release(struct ps_roles *roles)
{
    if (roles == NULL)
        return;
    unsigned before = atomic_fetch_sub(&roles->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    const struct ps_allocator *memory = roles->memory;
    ps_release(memory, roles->texts);
    ps_release(memory, roles);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One question of a call that waits for a set. Everything that is known of a set lies in the store
 * under its name, so that any server can go on with what another one began. */
#include "server/core/ownership/set_question.h"

#include "base/assert.h"

#include <string.h>

/* Whole, under way, or neither. */
static enum ps_status find(struct ps_registry *registry, const struct ps_set_question *question,
                           uint64_t deadline_ms, struct ps_set *set, bool *is_whole,
                           struct ps_error *error)
{
    PS_TRY(ps_registry_whole_set(registry, question->name, deadline_ms, set, error));
    *is_whole = set->revision != 0;
    if (*is_whole)
        return PS_OK;
    PS_TRY(ps_registry_wanted_set(registry, deadline_ms, set, error));
    if (strcmp(set->name, question->name) == 0)
        return PS_OK;
    /* One transaction ends the one state and begins the other. */
    /* Made whole between the two looks, or never asked for. */
    PS_TRY(ps_registry_whole_set(registry, question->name, deadline_ms, set, error));
    *is_whole = set->revision != 0;
    return PS_OK;
}

/* The rows are read behind the state of the set: of one that is whole all of them are there, but
 * for one that has been taken away meanwhile. */
enum ps_status ps_set_question_ask(struct ps_registry *registry, struct ps_set_question *question,
                                   uint64_t unix_ns, uint64_t deadline_ms, struct ps_error *error)
{
    PS_ASSERT(question->rows.count == 0);
    PS_ASSERT(registry != NULL && ps_set_name_check(question->name, NULL) == PS_OK);
    struct ps_set set = {.asked_unix_ns = unix_ns};
    if (question->begins) {
        /* The number of shards is the job's, and not what this server was started with. */
        struct ps_set wish = set;
        memcpy(wish.name, question->name, sizeof wish.name);
        PS_TRY(ps_registry_read_desired(registry, deadline_ms, &wish.shard_count, error));
        PS_TRY(
            ps_registry_want_set(registry, &wish, deadline_ms, &set, &question->is_whole, error));
    } else {
        PS_TRY(find(registry, question, deadline_ms, &set, &question->is_whole, error));
    }
    /* Filled in when everything that can fail for want of the store is known but the rows. */
    question->is_there = set.revision != 0;
    question->shard_count = set.shard_count;
    if (!question->is_there)
        return PS_OK;
    return ps_registry_set_rows(registry, question->name, deadline_ms, &question->rows, error);
}

/* Rows of thousands of shards are megabytes: they go as soon as the answer is encoded. */
void ps_set_question_fini(struct ps_set_question *question)
{
    ps_kv_entries_release(&question->rows);
}

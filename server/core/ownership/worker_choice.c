/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the questions is the rule: who is there already, who is in the way, what is free.
 * Rows are sorted by rank, so that the smallest free rank is found in one pass. */
#include "server/core/ownership/worker_choice.h"

#include "base/assert.h"

#include <string.h>

static const struct ps_worker_row *find_in_the_way(const struct ps_worker_rows *rows,
                                                   const struct ps_worker_wish *wish);
static uint32_t find_free(const struct ps_worker_rows *rows);

/* Of a client that has a place everything else was decided before. */
static const struct ps_worker_row *find_client(const struct ps_worker_rows *rows, uint64_t client)
{
    PS_ASSERT(client != 0);
    for (size_t i = 0; i < rows->row_count; i++)
        if (rows->rows[i].worker.client == client)
            return &rows->rows[i];
    return NULL;
}

/* NULL: nobody has it. */
static const struct ps_worker_row *find_rank(const struct ps_worker_rows *rows, uint32_t rank)
{
    PS_ASSERT(rank < PS_WORKERS_MAX);
    for (size_t i = 0; i < rows->row_count; i++)
        if (rows->rows[i].rank == rank)
            return &rows->rows[i];
    return NULL;
}

/* The rank that the name had last, when nobody is there now. A name may be remembered at several
 * ranks, of groups that were larger: the smallest counts. */
static bool find_former(const struct ps_worker_rows *rows, const char *name, uint32_t *rank)
{
    bool found = false;
    PS_ASSERT(name != NULL && rank != NULL);
    /* Two places may remember one name: it has moved when its rank was taken, and come back
     * since. */
    for (size_t i = 0; name[0] != '\0' && i < rows->name_count; i++) {
        const struct ps_worker_memory *memory = &rows->names[i];
        if (strcmp(memory->name, name) != 0 || find_rank(rows, memory->rank) != NULL)
            continue;
        *rank = found && *rank < memory->rank ? *rank : memory->rank;
        found = true;
    }
    return found;
}

/* A name that is remembered beyond the end of a group which has become smaller counts for nothing:
 * the name then gets a rank like any other. */
struct ps_worker_choice ps_worker_choose(const struct ps_worker_rows *rows,
                                         const struct ps_worker_wish *wish)
{
    PS_ASSERT(rows->group_count >= 1 && wish->client != 0);
    struct ps_worker_choice choice = {.verdict = PS_WORKER_OURS, .size = rows->groups[0].size};
    /* First of all, so that a repeat of a call whose answer was lost is answered alike. */
    choice.row = find_client(rows, wish->client);
    if (choice.row != NULL) {
        choice.rank = choice.row->rank;
        return choice;
    }
    /* A group that everybody has left begins anew. */
    if (rows->row_count == 0)
        choice.size = wish->size;
    /* Said by those who are there. 0 is no wish; a group without end that somebody wants an end
     * to is a mismatch, too. */
    choice.verdict = PS_WORKER_MISMATCH;
    if (wish->size != 0 && wish->size != choice.size)
        return choice;
    choice.verdict = PS_WORKER_HELD;
    choice.row = find_in_the_way(rows, wish);
    if (choice.row != NULL)
        return choice;
    /* Also a group without end has one somewhere, since its rows are read at once. */
    uint32_t end = choice.size != 0 ? choice.size : PS_WORKERS_MAX;
    if (wish->rank != 0)
        choice.rank = wish->rank - 1;
    else if (!find_former(rows, wish->name, &choice.rank) || choice.rank >= end)
        choice.rank = find_free(rows);
    choice.verdict = choice.rank < end ? PS_WORKER_FREE : PS_WORKER_FULL;
    PS_ASSERT(choice.verdict == PS_WORKER_FULL || find_rank(rows, choice.rank) == NULL);
    return choice;
}

/* The rank goes before the name: whoever must have a rank cannot have it while another is there. */
static const struct ps_worker_row *find_in_the_way(const struct ps_worker_rows *rows,
                                                   const struct ps_worker_wish *wish)
{
    PS_ASSERT(wish->rank <= PS_WORKERS_MAX && wish->size <= PS_WORKERS_MAX);
    if (wish->rank != 0) {
        const struct ps_worker_row *row = find_rank(rows, wish->rank - 1);
        if (row != NULL)
            return row;
    }
    /* A worker without a name is in nobody's way by it. */
    for (size_t i = 0; wish->name[0] != '\0' && i < rows->row_count; i++)
        if (strcmp(rows->rows[i].worker.name, wish->name) == 0)
            return &rows->rows[i];
    return NULL;
}

/* The first number that is missing among the sorted ranks. */
static uint32_t find_free(const struct ps_worker_rows *rows)
{
    /* Rows of one rank do not come twice: a key is there once. */
    uint32_t rank = 0;
    PS_ASSERT(rows->row_count <= PS_WORKERS_MAX);
    for (size_t i = 0; i < rows->row_count && rows->rows[i].rank == rank; i++)
        rank++;
    return rank;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows go. The set is a function of the rows alone: the candidates are in a strict order,
 * and the first so many of them are taken, in whatever order they lie.
 *
 * "Oldest" is by the version of the last push, since there is nothing else that a replay knows
 * again: not when a row was read, nor how often. Reading leaves no trace in a table, so that it
 * needs no record and takes no lock for longer than it must.
 */
#include "server/core/tables/row_evict.h"

#include "base/assert.h"

#include <inttypes.h>

/* A group has this many rows at least, so that shares of small tables are no lottery. */
#define SHARE_MIN 1024

/* Of a share so many parts; one goes at once. */
#define PARTS 16

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_EVICTION_ORDER
static const bool places_decide = true;
#else
static const bool places_decide = false;
#endif

struct candidate {
    uint64_t key;
    uint32_t age;
    uint32_t row;
};

struct candidates {
    struct candidate *list;
    uint64_t count;
};

/* What a push needs of one group. */
struct need {
    uint64_t rows;   /* that the group has */
    uint64_t made;   /* that the push makes */
    uint64_t pushed; /* of its rows, those that the push steps */
    uint64_t gone;   /* that must go */
};

static enum ps_status count_needs(struct ps_row_push *push, const struct ps_row_shares *shares,
                                  struct need *needs, struct ps_error *error);
static enum ps_status choose_in_group(struct ps_row_push *push, uint32_t group, uint32_t stripes,
                                      const struct need *need, struct ps_error *error);

/* By rows_max alone, and not by how many rows there are: a loaded table must share alike. */
struct ps_row_shares ps_row_shares(uint64_t rows_max)
{
    struct ps_row_shares shares = {.groups = 1};
    while (shares.groups < PS_ROW_STRIPES && rows_max / (2 * shares.groups) >= SHARE_MIN)
        shares.groups *= 2;
    shares.share = rows_max / shares.groups;
    PS_ASSERT(PS_ROW_STRIPES % shares.groups == 0);
    return shares;
}

/* The limits fall by a sixteenth of a sixteenth from group to group, and begin anew. */
uint64_t ps_row_share_limit(const struct ps_row_shares *shares, uint32_t group)
{
    PS_ASSERT(group < shares->groups);
    return shares->share - shares->share / PARTS * (group % PARTS) / PARTS;
}

/* Below its limit by one part: so a group is gone through once for a sixteenth of its rows. */
uint64_t ps_row_share_target(const struct ps_row_shares *shares, uint32_t group)
{
    uint64_t limit = ps_row_share_limit(shares, group);
    PS_ASSERT(limit >= shares->share / PARTS);
    return limit - shares->share / PARTS;
}

/* Not BUSY: the same push fits only when somebody has raised the limit, or rows have expired, and a
 * trainer that came again and again until then would look like one that hangs. */
static enum ps_status refuse(const struct ps_row_push *push, struct ps_error *error)
{
    PS_ASSERT(push->table->settings.rows_max > 0);
    return ps_fail(error, PS_ERR_TABLE_FULL,
                   "%" PRIu32 " more rows beside %" PRIu64 " would be more than rows_max, %" PRIu64,
                   push->made, ps_row_table_rows(push->table), push->table->settings.rows_max);
}

/* One group after the other, and all of them before anything is done: a push that is refused in its
 * last group has changed nothing. */
enum ps_status ps_row_evict_choose(struct ps_row_push *push, struct ps_error *error)
{
    const struct ps_row_table *table = push->table;
    uint64_t most = table->settings.rows_max;
    PS_ASSERT(push->victim_count == 0);
    if (most == 0 || push->made == 0)
        return PS_OK;
    /* The limit is exact where pushes are refused, and of each group where rows go. */
    if (table->settings.full == PS_TABLE_REFUSE)
        return push->is_taken || ps_row_table_rows(table) + push->made <= most
                   ? PS_OK
                   : refuse(push, error);
    struct ps_row_shares shares = ps_row_shares(most);
    struct need needs[PS_ROW_STRIPES] = {{0}};
    PS_TRY(count_needs(push, &shares, needs, error));
    uint64_t gone = 0;
    for (uint32_t i = 0; i < shares.groups; i++)
        gone += needs[i].gone;
    PS_ASSERT(gone <= ps_row_table_rows(table));
    if (gone == 0)
        return PS_OK;
    /* Sixteen bytes for each row that goes, of all groups together. */
    push->victims = ps_plain(table->memory, gone * sizeof *push->victims);
    if (push->victims == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %" PRIu64 " rows that go", gone);
    for (uint32_t i = 0; i < shares.groups; i++)
        if (needs[i].gone > 0)
            PS_TRY(choose_in_group(push, i, PS_ROW_STRIPES / shares.groups, &needs[i], error));
    PS_ASSERT(push->victim_count == gone);
    return PS_OK;
}

/* A group that stays within its limit loses nothing; another one is brought down to its target, as
 * far as rows that the push does not step go. */
static enum ps_status count_needs(struct ps_row_push *push, const struct ps_row_shares *shares,
                                  struct need *needs, struct ps_error *error)
{
    uint32_t each = PS_ROW_STRIPES / shares->groups;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        struct need *need = &needs[i / each];
        need->rows += push->table->stripes[i].rows;
        for (uint32_t k = push->begins[i]; k < push->begins[i + 1]; k++) {
            need->made += push->numbers[k] == PS_ROW_NONE ? 1 : 0;
            need->pushed += push->numbers[k] == PS_ROW_NONE ? 0 : 1;
        }
    }
    for (uint32_t i = 0; i < shares->groups; i++) {
        struct need *need = &needs[i];
        uint64_t after = need->rows + need->made;
        if (need->made == 0 || after <= ps_row_share_limit(shares, i))
            continue;
        /* Its own rows alone would be too many: nothing that could go would help. */
        if (need->pushed + need->made > ps_row_share_limit(shares, i) && !push->is_taken)
            return refuse(push, error);
        uint64_t wanted = after - ps_row_share_target(shares, i);
        uint64_t others = need->rows - need->pushed;
        need->gone = wanted < others ? wanted : others;
    }
    return PS_OK;
}

/* The older one first; of the same age the smaller key, of which there are no two. */
static bool goes_before(const struct candidate *one, const struct candidate *other)
{
    PS_ASSERT(one != NULL && other != NULL);
    if (one->age != other->age)
        return one->age > other->age;
    if (places_decide)
        return one->row < other->row;
    return one->key < other->key;
}

static void swap(struct candidate *one, struct candidate *other)
{
    PS_ASSERT(one != NULL && other != NULL);
    struct candidate kept = *one;
    *one = *other;
    *other = kept;
}

/* Brings the `first` candidates that go before all others to the begin of the list, by partitions
 * around a pivot. The place of the pivot is drawn by hash, so that no order in which rows may have
 * been pushed makes this slow. */
static void select_first(struct candidate *list, uint64_t count, uint64_t first)
{
    PS_ASSERT(first <= count);
    uint64_t begin = 0;
    uint64_t end = count;
    /* All before `begin` belong to the first ones, all from `end` on do not; between is not known.
     * */
    while (first > begin && first < end && end - begin > 1) {
        swap(&list[begin], &list[begin + ps_row_hash(end ^ begin << 32, count) % (end - begin)]);
        uint64_t middle = begin;
        for (uint64_t i = begin + 1; i < end; i++)
            if (goes_before(&list[i], &list[begin]))
                swap(&list[i], &list[++middle]);
        swap(&list[begin], &list[middle]);
        if (first <= middle)
            end = middle;
        else
            begin = middle + 1;
    }
}

/* The push has its keys in the order of their hashes. */
static bool is_pushed(const struct ps_row_push *push, uint32_t stripe, uint64_t hash)
{
    PS_ASSERT(ps_row_stripe_of(hash) == stripe);
    uint32_t low = push->begins[stripe];
    uint32_t high = push->begins[stripe + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (push->hashes[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < push->begins[stripe + 1] && push->hashes[low] == hash;
}

/* Every row of the stripe but those that the push steps, which are about to be the youngest. */
static void add_candidates(const struct ps_row_push *push, uint32_t number,
                           struct candidates *candidates)
{
    const struct ps_row_table *table = push->table;
    const struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t end = stripe->page_count << table->shape.page_bits;
    for (uint32_t row = 0; row < end; row++) {
        if (!ps_row_is_live(&table->shape, stripe, row))
            continue;
        const uint8_t *at = ps_row_at(&table->shape, stripe, row);
        uint64_t key = ps_row_key(at);
        /* Its version is about to be the newest; it may look like the oldest until then. */
        if (is_pushed(push, number, ps_row_table_hash(table, key)))
            continue;
        candidates->list[candidates->count++] =
            (struct candidate){key, (uint32_t)table->version - ps_row_touched(at), row};
    }
}

/* Sixteen bytes a row while one group is looked at, some hundred kilobytes of a large table. */
static enum ps_status choose_in_group(struct ps_row_push *push, uint32_t group, uint32_t stripes,
                                      const struct need *need, struct ps_error *error)
{
    const struct ps_row_table *table = push->table;
    struct candidates candidates = {0};
    candidates.list = ps_plain(table->memory, need->rows * sizeof *candidates.list);
    if (candidates.list == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to choose of %" PRIu64 " rows",
                       need->rows);
    for (uint32_t i = 0; i < stripes; i++)
        add_candidates(push, group * stripes + i, &candidates);
    PS_ASSERT(candidates.count == need->rows - need->pushed);
    PS_ASSERT(need->gone <= candidates.count);
    select_first(candidates.list, candidates.count, need->gone);
    for (uint64_t i = 0; i < need->gone; i++)
        push->victims[push->victim_count++] = (struct ps_row_victim){
            ps_row_table_hash(table, candidates.list[i].key), candidates.list[i].row};
    ps_release(table->memory, candidates.list);
    return PS_OK;
}

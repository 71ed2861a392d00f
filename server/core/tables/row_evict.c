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

/* Another one: what was taken for a round is asked once more when that ends. */
#ifdef PS_MUTATE_SKIP_TAKEN_ROWS
static const bool the_taken_are_asked = true;
#else
static const bool the_taken_are_asked = false;
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
    uint64_t above;  /* that may go, since the group is above its limit already */
    uint64_t gone;   /* that go */
};

static void count_needs(const struct ps_row_push *push, const struct ps_row_shares *shares,
                        struct need *needs);
static enum ps_status check_own_rows(const struct ps_row_push *push,
                                     const struct ps_row_shares *shares, const struct need *needs,
                                     struct ps_error *error);
static uint64_t share_out(const struct ps_row_push *push, const struct ps_row_shares *shares,
                          struct need *needs);
static uint64_t bring_down(struct need *needs, uint32_t groups, uint64_t made, uint64_t gone);
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

/* By half of the rows: with more than twice as many as there may be, what is above the limits of
 * finer groups is more than any push that is let in can make, so that its rows never come on top.
 * Nearer to the limit they might, where the keys of a push are all of one fine group. */
struct ps_row_shares ps_row_shares_above(uint64_t rows_max, uint64_t rows)
{
    PS_ASSERT(rows_max > 0);
    struct ps_row_shares shares = ps_row_shares(rows / 2 > rows_max ? rows / 2 : rows_max);
    shares.share = rows_max / shares.groups;
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
        return (push->is_taken && !the_taken_are_asked) ||
                       ps_row_table_rows(table) + push->made <= most
                   ? PS_OK
                   : refuse(push, error);
    struct ps_row_shares shares = ps_row_shares(most);
    struct need needs[PS_ROW_STRIPES];
    count_needs(push, &shares, needs);
    PS_TRY(check_own_rows(push, &shares, needs, error));
    const struct ps_row_shares finer = ps_row_shares_above(most, ps_row_table_rows(table));
    if (finer.groups != shares.groups)
        count_needs(push, &finer, needs);
    shares = finer;
    uint64_t gone = share_out(push, &shares, needs);
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

static void count_needs(const struct ps_row_push *push, const struct ps_row_shares *shares,
                        struct need *needs)
{
    uint32_t each = PS_ROW_STRIPES / shares->groups;
    PS_ASSERT(each * shares->groups == PS_ROW_STRIPES);
    memset(needs, 0, shares->groups * sizeof *needs);
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        struct need *need = &needs[i / each];
        need->rows += push->table->stripes[i].rows;
        for (uint32_t k = push->begins[i]; k < push->begins[i + 1]; k++) {
            need->made += push->numbers[k] == PS_ROW_NONE ? 1 : 0;
            need->pushed += push->numbers[k] == PS_ROW_NONE ? 0 : 1;
        }
    }
}

/* Its own rows alone would be too many: nothing that could go would help. */
static enum ps_status check_own_rows(const struct ps_row_push *push,
                                     const struct ps_row_shares *shares, const struct need *needs,
                                     struct ps_error *error)
{
    PS_ASSERT(push->made > 0);
    for (uint32_t i = 0; i < shares->groups && (!push->is_taken || the_taken_are_asked); i++)
        if (needs[i].made > 0 && needs[i].pushed + needs[i].made > ps_row_share_limit(shares, i))
            return refuse(push, error);
    return PS_OK;
}

/* A group that stays within its limit loses nothing; one that the push takes above it is brought
 * down to its target, as far as rows that the push does not step go. What is above it already has
 * time. Returns how many rows go. */
static uint64_t share_out(const struct ps_row_push *push, const struct ps_row_shares *shares,
                          struct need *needs)
{
    uint64_t gone = 0;
    for (uint32_t i = 0; i < shares->groups; i++) {
        struct need *need = &needs[i];
        uint64_t limit = ps_row_share_limit(shares, i);
        uint64_t after = need->rows + need->made;
        if (after <= limit)
            continue;
        uint64_t wanted = after - ps_row_share_target(shares, i);
        PS_ASSERT(need->pushed <= need->rows);
        uint64_t others = need->rows - need->pushed;
        uint64_t most = wanted < others ? wanted : others;
        if (need->rows > limit)
            need->above = most;
        else
            need->gone = most;
        gone += need->gone;
    }
    return bring_down(needs, shares->groups, push->made, gone);
}

/* Of groups above their limits: the one with most to lose, of equal ones the first, so that few are
 * looked at for what goes; and further ones while the table would grow. Where `gone` rows go
 * anyway, returns how many do in all. */
static uint64_t bring_down(struct need *needs, uint32_t groups, uint64_t made, uint64_t gone)
{
    uint64_t left = made + PS_ROW_EVICT_MORE;
    do {
        struct need *most = &needs[0];
        for (uint32_t i = 1; i < groups; i++)
            if (needs[i].above > most->above)
                most = &needs[i];
        if (most->above == 0)
            break;
        PS_ASSERT(most->gone == 0 && left > 0);
        most->gone = most->above < left ? most->above : left;
        most->above = 0;
        left -= most->gone;
        gone += most->gone;
    } while (gone < made);
    return gone;
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

static void add_candidate(const struct ps_row_push *push, uint32_t number, uint32_t row,
                          struct candidates *candidates)
{
    const struct ps_row_table *table = push->table;
    const uint8_t *at = ps_row_at(&table->shape, &table->stripes[number], row);
    uint64_t key = ps_row_key(at);
    /* Its version is about to be the newest; it may look like the oldest until then. */
    if (is_pushed(push, number, ps_row_table_hash(table, key)))
        return;
    candidates->list[candidates->count++] =
        (struct candidate){key, (uint32_t)table->version - ps_row_touched(at), row};
}

/* Every row of the stripe but those that the push steps, which are about to be the youngest. By the
 * words that say which rows there are: a table that has come down has ten times as many places as
 * rows, since pages never go. */
static void add_candidates(const struct ps_row_push *push, uint32_t number,
                           struct candidates *candidates)
{
    const struct ps_row_stripe *stripe = &push->table->stripes[number];
    size_t words = ps_row_words(&push->table->shape, stripe->page_count);
    PS_ASSERT(number < PS_ROW_STRIPES);
    for (size_t i = 0; i < words; i++)
        for (uint64_t live = stripe->live[i]; live != 0; live &= live - 1)
            add_candidate(push, number, (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(live),
                          candidates);
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

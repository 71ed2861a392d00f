/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of keys that have no row yet. Most features of a click log are seen once or
 * twice, and a row of 16 floats with its states would be kept for each of them; a candidate is 16
 * bytes and its place in an index.
 *
 * Whether a key gets its row is decided by the counts alone, which pushes make: a replay, or a
 * table that was loaded with its candidates, decides alike.
 */
#include "server/core/tables/row_admission.h"

#include "base/assert.h"
#include "server/core/tables/row_evict.h"

static void name_counted(struct ps_row_push *push);
static void drop_others(struct ps_row_push *push);

/* Zero stands for the default, so that a configuration need not say it. */
static uint64_t candidates_max(const struct ps_table_settings *settings)
{
    PS_ASSERT(settings->admission > 1);
    return settings->candidates_max > 0 ? settings->candidates_max : PS_TABLE_CANDIDATES;
}

/* Hash and keys are those of the table: a push to it has its keys in the candidates' order. */
enum ps_status ps_row_admission_create(const struct ps_row_table_options *options,
                                       struct ps_row_table **candidates, struct ps_error *error)
{
    *candidates = NULL;
    if (options->settings.admission <= 1)
        return PS_OK;
    const struct ps_row_table_options counts = {
        .memory = options->memory,
        .layout = {.dtype = PS_U32, .width = 1},
        .settings = {.width = 1,
                     .rows_max = candidates_max(&options->settings),
                     .full = PS_TABLE_OLDEST},
        .repeats = PS_ROW_SUM,
        .id = options->id,
        .key_first = options->key_first,
        .key_end = options->key_end};
    PS_ASSERT(counts.settings.rows_max > 0);
    return ps_row_table_create(&counts, candidates, error);
}

/* A lower bound shows with the next pushes, as that of rows does. */
enum ps_status ps_row_admission_configure(struct ps_row_table *table, struct ps_error *error)
{
    if (table->candidates == NULL)
        return PS_OK;
    struct ps_table_settings settings = table->candidates->settings;
    PS_ASSERT(settings.full == PS_TABLE_OLDEST);
    settings.rows_max = candidates_max(&table->settings);
    return ps_row_table_configure(table->candidates, &settings, error);
}

/* A push to the candidates, got ready as any other: what it finds there says which keys become
 * rows. */
enum ps_status ps_row_admission_decide(struct ps_row_push *push, uint64_t *bytes_left,
                                       struct ps_error *error)
{
    struct ps_row_table *candidates = push->table->candidates;
    PS_ASSERT(push->counted == NULL);
    if (candidates == NULL || push->made == 0)
        return PS_OK;
    push->counted = ps_row_push_create(candidates, push->made);
    if (push->counted == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to count %u keys", push->made);
    name_counted(push);
    /* The two tables share what is left. What the candidates take stays theirs, also when the push
     * is refused behind this: it is room, and says nothing of any key. */
    uint64_t before = ps_row_table_bytes(candidates);
    PS_TRY(ps_row_push_prepare(push->counted, *bytes_left, error));
    uint64_t more = ps_row_table_bytes(candidates) - before;
    /* What has no limit has none behind this, either. */
    if (*bytes_left < UINT64_MAX)
        *bytes_left -= more < *bytes_left ? more : *bytes_left;
    drop_others(push);
    return PS_OK;
}

/* Of each group of stripes at most as many as it may have in all, so that their limit never refuses
 * a push. */
static void name_counted(struct ps_row_push *push)
{
    struct ps_row_push *counted = push->counted;
    const struct ps_row_shares shares = ps_row_shares(counted->table->settings.rows_max);
    uint32_t each = PS_ROW_STRIPES / shares.groups;
    uint64_t left = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        /* A group begins with a share of its own. */
        if (i % each == 0)
            left = ps_row_share_limit(&shares, i / each);
        counted->begins[i] = counted->unique;
        for (uint32_t k = push->begins[i]; k < push->begins[i + 1] && left > 0; k++) {
            const uint32_t one = 1;
            if (push->numbers[k] != PS_ROW_NONE)
                continue;
            /* As it would come out of ps_row_push_read, in the order of the hashes and each once:
             * the keys of the push are so already. */
            counted->hashes[counted->unique] = push->hashes[k];
            counted->keys[counted->unique] = push->keys[k];
            memcpy(counted->gradients + counted->unique * sizeof one, &one, sizeof one);
            counted->unique++;
            left--;
        }
    }
    counted->begins[PS_ROW_STRIPES] = counted->unique;
    PS_ASSERT(counted->unique <= push->made);
}

/* How often a candidate was pushed to. It is the only value of its row; version and key are those
 * that every row has. */
static uint32_t count_of(const struct ps_row_table *candidates, const uint8_t *row)
{
    uint32_t count;
    PS_ASSERT(candidates->shape.arrays[0].size == sizeof count);
    memcpy(&count, row + candidates->shape.arrays[0].offset, sizeof count);
    return count;
}

/* Is this the push with which the key becomes a row? Counts rise by one with a push, and a key
 * becomes a row with the count that equals the admission: there is no way past it. Both pushes have
 * their keys in the order of the hashes, so that `*at` only goes forward. */
static bool becomes_row(const struct ps_row_push *push, uint64_t hash, uint32_t *at)
{
    const struct ps_row_push *counted = push->counted;
    while (*at < counted->unique && counted->hashes[*at] < hash)
        (*at)++;
    /* A key that is new among the candidates has a number there, and no row before apply. */
    if (*at == counted->unique || counted->hashes[*at] != hash || counted->rows[*at] == NULL)
        return false;
    /* One that had come so far would have become a row, and be none here. */
    PS_ASSERT(count_of(counted->table, counted->rows[*at]) < push->table->settings.admission);
    return count_of(counted->table, counted->rows[*at]) + 1 == push->table->settings.admission;
}

/* All that the push has of one key moves to an earlier place. */
static void move_key(struct ps_row_push *push, uint32_t to, uint32_t from)
{
    /* Runs that begin with rows have nothing to move. */
    size_t size = ps_row_push_row_bytes(push);
    PS_ASSERT(to <= from);
    if (to == from)
        return;
    push->hashes[to] = push->hashes[from];
    push->keys[to] = push->keys[from];
    push->rows[to] = push->rows[from];
    push->numbers[to] = push->numbers[from];
    push->firsts[to] = push->firsts[from];
    ps_row_copy(push->gradients + to * size, push->gradients + from * size, size);
}

/* Keys without a row close up to those that have one, or are about to: everything behind this sees
 * a push that never had the others. */
static void drop_others(struct ps_row_push *push)
{
    uint32_t kept = 0;
    uint32_t at = 0;
    uint32_t k = 0;
    /* Counted anew, of those that stay. */
    push->made = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        uint32_t end = push->begins[i + 1];
        push->begins[i] = kept;
        /* The end was read before: the next turn of the loop writes over it. */
        for (; k < end; k++) {
            bool is_new = push->numbers[k] == PS_ROW_NONE;
            if (is_new && !becomes_row(push, push->hashes[k], &at))
                continue;
            push->made += is_new ? 1 : 0;
            move_key(push, kept++, k);
        }
    }
    PS_ASSERT(k == push->unique && kept <= k);
    push->begins[PS_ROW_STRIPES] = kept;
    push->unique = kept;
}

/* The rule of the candidates; a step refers to it. */
static const struct ps_optimizer_settings count_settings = {.rule = PS_RULE_ADD};

/* The number of the step counts for nothing. */
static struct ps_optimizer_step count_step(void)
{
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    enum ps_status status = ps_optimizer_prepare(&count_settings, PS_U32, 1, 0, &scan, &step, NULL);
    PS_ASSERT(status == PS_OK);
    return step;
}

/* A key that becomes a row is counted once more and then goes, which is simpler than leaving it
 * out: while the push was got ready it had to be one that stays. */
void ps_row_admission_apply(struct ps_row_push *push, uint64_t version)
{
    const struct ps_row_push *counted = push->counted;
    if (counted == NULL)
        return;
    struct ps_row_table *candidates = counted->table;
    const struct ps_optimizer_step step = count_step();
    uint64_t gone = 0;
    ps_row_push_apply(push->counted, &step, version);
    for (uint32_t i = 0; i < counted->unique; i++) {
        if (count_of(candidates, counted->rows[i]) < push->table->settings.admission)
            continue;
        /* Under the lock, as every removal: a hold of the candidates may be read meanwhile. */
        uint32_t number = ps_row_stripe_of(counted->hashes[i]);
        ps_mutex_lock(ps_row_lock_of(candidates, number));
        ps_row_stripe_remove(candidates, &candidates->stripes[number], counted->hashes[i],
                             counted->numbers[i]);
        ps_mutex_unlock(ps_row_lock_of(candidates, number));
        gone++;
    }
    /* The same keys that decide has left in the push: both have asked the same counts. */
    PS_ASSERT(gone == push->made);
    atomic_fetch_sub(&candidates->rows, gone);
}

/* One stripe of the candidates: what is counted there has no row in the stripe of the table. */
static void check_stripe(const struct ps_row_table *table, uint32_t number)
{
    const struct ps_row_table *candidates = table->candidates;
    const struct ps_row_stripe *stripe = &candidates->stripes[number];
    uint32_t end = stripe->page_count << candidates->shape.page_bits;
    for (uint32_t row = 0; row < end; row++) {
        if (!ps_row_is_live(stripe, row))
            continue;
        const uint8_t *at = ps_row_at(&candidates->shape, stripe, row);
        uint64_t key = ps_row_key(at);
        PS_ASSERT(count_of(candidates, at) > 0);
        PS_ASSERT(count_of(candidates, at) < table->settings.admission);
        PS_ASSERT(ps_row_stripe_find(table, &table->stripes[number], key,
                                     ps_row_table_hash(table, key)) == PS_ROW_NONE);
    }
}

void ps_row_admission_check(struct ps_row_table *table)
{
    if (table->candidates == NULL)
        return;
    /* With another seed the keys of a push would not come in the order of the candidates. */
    PS_ASSERT(table->settings.admission > 1 && table->candidates->seed == table->seed);
    ps_row_table_check(table->candidates);
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++)
        check_stripe(table, i);
}

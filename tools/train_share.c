/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are shared out by a fixed rule and shuffled by a seed, so that the order of each worker's
 * batches repeats from run to run. */
#include "tools/train_share.h"

#include "base/alloc.h"
#include "base/assert.h"

static void fill(struct ps_train_share *share);
static void shuffle(struct ps_train_share *share);

/* Together the shares of all workers are the file: the first ones are a row longer where it does
 * not divide evenly. */
enum ps_status ps_train_share_init(struct ps_train_share *share, uint64_t number, uint64_t count,
                                   size_t row_count, uint64_t seed)
{
    PS_ASSERT(number < count);
    *share = (struct ps_train_share){.number = number, .count = count, .seed = seed};
    share->row_count = row_count / count + (number < row_count % count ? 1 : 0);
    share->rows = ps_zeroed_array(ps_allocator_heap(), share->row_count + 1, sizeof(size_t));
    if (share->rows == NULL)
        return PS_ERR_NO_MEMORY;
    fill(share);
    return PS_OK;
}

/* Every count-th row, so that shares are alike whatever the order of the file. The number goes into
 * the seed: two shares of one length would otherwise be shuffled in the same way. */
static void fill(struct ps_train_share *share)
{
    share->shuffles = 0;
    ps_random_init(&share->random, share->seed + share->number);
    for (size_t i = 0; i < share->row_count; i++)
        share->rows[i] = (size_t)(share->number + i * share->count);
}

void ps_train_share_fini(struct ps_train_share *share)
{
    ps_release(ps_allocator_heap(), share->rows);
    *share = (struct ps_train_share){.rows = NULL};
}

/* The rows are shuffled anew for each epoch; a fixed order would let the last rows of the file pull
 * the model their way at each end. Each shuffle goes on from the one before, so that an epoch in
 * the middle is reached through all before it, and an earlier one from the start: a model that was
 * lost begins anew. */
void ps_train_share_begin(struct ps_train_share *share, uint64_t epoch)
{
    if (share->shuffles > epoch + 1)
        fill(share);
    while (share->shuffles <= epoch)
        shuffle(share);
}

/* Fisher and Yates, from the end: every order is equally likely. */
static void shuffle(struct ps_train_share *share)
{
    share->shuffles++;
    for (size_t i = share->row_count; i > 1; i--) {
        size_t j = (size_t)ps_random_below(&share->random, i);
        size_t row = share->rows[i - 1];
        share->rows[i - 1] = share->rows[j];
        share->rows[j] = row;
    }
}

/* A share that is one row shorter than another may have nothing for the last step of an epoch. */
size_t ps_train_share_batch(const struct ps_train_share *share, uint64_t step, size_t batch,
                            const size_t **rows)
{
    PS_ASSERT(batch > 0);
    size_t first = (size_t)step * batch;
    if (first >= share->row_count)
        return 0;
    *rows = share->rows + first;
    size_t left = share->row_count - first;
    return left < batch ? left : batch;
}

uint64_t ps_train_share_steps(size_t row_count, size_t batch)
{
    return (row_count + batch - 1) / batch;
}

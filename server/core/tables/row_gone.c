/* SPDX-License-Identifier: Apache-2.0 */
/* A ring. The running number of a key, and not the version at which its row went, is what a
 * follower is asked for: a sweep makes no version, and a table at rest would tell the same keys
 * again with each question. */
#include "server/core/tables/row_gone.h"

#include "base/assert.h"

#include <string.h>

/* Within a table that is all zeros. */
void ps_row_gone_init(struct ps_row_gone *gone)
{
    PS_ASSERT(gone->keys == NULL && gone->count == 0);
    ps_mutex_init(&gone->lock, PS_RANK_LEAF);
    atomic_init(&gone->is_followed, false);
}

/* Whoever ends a table is alone with it. */
void ps_row_gone_fini(struct ps_row_gone *gone, const struct ps_allocator *memory)
{
    PS_ASSERT((gone->keys != NULL) == atomic_load(&gone->is_followed));
    ps_release(memory, gone->keys);
    gone->keys = NULL;
    ps_mutex_fini(&gone->lock);
}

/* Two followers may begin at once. The flag comes behind the memory: whoever sees it has a place to
 * write to. */
bool ps_row_gone_begin(struct ps_row_gone *gone, const struct ps_allocator *memory, bool *is_new)
{
    *is_new = false;
    if (atomic_load(&gone->is_followed))
        return true;
    uint64_t *keys = ps_plain(memory, PS_ROW_GONE_MAX * sizeof *keys);
    if (keys == NULL)
        return false;
    ps_mutex_lock(&gone->lock);
    if (gone->keys == NULL) {
        PS_ASSERT(gone->count == 0);
        gone->keys = keys;
        keys = NULL;
        *is_new = true;
        atomic_store(&gone->is_followed, true);
    }
    ps_mutex_unlock(&gone->lock);
    ps_release(memory, keys);
    return true;
}

/* The oldest key is written over: whoever has not been told of it by then gets everything. The flag
 * is looked at first, without the lock, since most tables have no followers. */
void ps_row_gone_note(struct ps_row_gone *gone, uint64_t key)
{
    if (!atomic_load_explicit(&gone->is_followed, memory_order_acquire))
        return;
    ps_mutex_lock(&gone->lock);
    PS_ASSERT(gone->keys != NULL && gone->count < UINT64_MAX - 1);
    gone->keys[gone->count % PS_ROW_GONE_MAX] = key;
    gone->count++;
    ps_mutex_unlock(&gone->lock);
}

/* One more than the count, so that 0 is nobody's mark. */
uint64_t ps_row_gone_mark(struct ps_row_gone *gone)
{
    ps_mutex_lock(&gone->lock);
    uint64_t mark = gone->count + 1;
    ps_mutex_unlock(&gone->lock);
    PS_ASSERT(mark > 0);
    return mark;
}

/* With the lock. A mark is of this list when its keys were noted, and remembered when none of those
 * behind it was written over. */
static bool has(const struct ps_row_gone *gone, uint64_t mark)
{
    PS_ASSERT(gone->keys != NULL || gone->count == 0);
    return mark > 0 && mark - 1 <= gone->count && gone->count - (mark - 1) <= PS_ROW_GONE_MAX;
}

/* For who wants to know how much room to get; more may have gone when it is used. */
bool ps_row_gone_count(struct ps_row_gone *gone, uint64_t mark, uint64_t *count)
{
    ps_mutex_lock(&gone->lock);
    bool is_here = has(gone, mark);
    if (is_here)
        *count = gone->count - (mark - 1);
    ps_mutex_unlock(&gone->lock);
    PS_ASSERT(!is_here || *count <= PS_ROW_GONE_MAX);
    return is_here;
}

/* A key may come twice, when its row came back and went again: taking it out twice does no harm.
 * Copied under the lock, 65,536 keys at most, while a row that goes waits for some ten
 * microseconds. */
bool ps_row_gone_since(struct ps_row_gone *gone, uint64_t *mark, size_t count_max, void *to,
                       size_t *count)
{
    ps_mutex_lock(&gone->lock);
    bool is_here = has(gone, *mark);
    uint64_t first = *mark - 1;
    uint64_t some = is_here ? gone->count - first : 0;
    if (some > count_max)
        some = count_max;
    for (uint64_t i = 0; i < some; i++)
        memcpy((uint8_t *)to + i * sizeof(uint64_t), &gone->keys[(first + i) % PS_ROW_GONE_MAX],
               sizeof(uint64_t));
    ps_mutex_unlock(&gone->lock);
    PS_ASSERT(some <= PS_ROW_GONE_MAX);
    if (!is_here)
        return false;
    *mark += some;
    *count = (size_t)some;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger is void by the same rules that leave out former owners of one history: a later owner
 * began before the place where the stranger stands, or went on from an older epoch than the
 * stranger's (docs/journal-format.md, "Which records count"). Names alone do not decide it: what an
 * epoch went on from its first records say, of which each segment of the epoch has one. */
#include "checkpoint/history_mix.h"

#include "base/assert.h"

static bool is_newer(const struct ps_history_witness *file, const struct ps_history_witness *other);
static bool came_to_nothing(const struct ps_history_witness *files, size_t count, size_t i);
static bool is_before_all(const struct ps_history_witness *files, size_t count, size_t i,
                          const struct ps_history *own);
static bool voids(const struct ps_history_witness *file, const struct ps_history_witness *stranger);
static bool goes_past(const struct ps_history_witness *file,
                      const struct ps_history_witness *stranger);

/* The store is asked first because it is not in the folder: whoever copies files into one does not
 * change what the store says of it. Without it the newest checkpoint is taken, as it would have
 * been before there were histories, and ps_history_judge is the stricter for it. */
struct ps_history ps_history_of_files(const struct ps_history_witness *files, size_t count,
                                      const struct ps_history *told)
{
    const struct ps_history_witness *newest = NULL;
    PS_ASSERT(told != NULL && (files != NULL || count == 0));
    if (ps_history_known(told))
        return *told;
    for (size_t i = 0; i < count; i++)
        if (ps_history_known(&files[i].history) && is_newer(&files[i], newest))
            newest = &files[i];
    return newest != NULL ? newest->history : (struct ps_history){{0}};
}

/* A checkpoint is a state and a segment is none: where there is one, it decides. Of two segments
 * that of the later owner: whoever began the shard last would have it begin again with nothing. */
static bool is_newer(const struct ps_history_witness *file, const struct ps_history_witness *other)
{
    if (other == NULL)
        return true;
    if (file->is_segment != other->is_segment)
        return !file->is_segment;
    if (file->epoch != other->epoch)
        return file->epoch > other->epoch;
    return file->position > other->position;
}

/* In the order of how much is known of a stranger: that it is none, that nothing of its life was
 * ever acknowledged, that a recovery of this history goes past it. What is left is in the way, also
 * where today's recovery would not come to it: a stranger among the checkpoints takes the place of
 * one that the next sweep would have kept. */
enum ps_history_place ps_history_judge(const struct ps_history_witness *files, size_t count,
                                       size_t i, const struct ps_history *own, bool is_told)
{
    PS_ASSERT(i < count && own != NULL);
    if (!ps_history_differ(&files[i].history, own))
        return PS_HISTORY_OWN;
    if (!is_told && came_to_nothing(files, count, i))
        return PS_HISTORY_VOID;
    if (!is_told && !files[i].is_segment)
        return is_before_all(files, count, i, own) ? PS_HISTORY_VOID : PS_HISTORY_MIXED;
    /* By a file that certainly is the folder's: one of a history that is not known may be the
     * stranger's own. */
    for (size_t k = 0; k < count; k++)
        if (ps_history_known(&files[k].history) && !ps_history_differ(&files[k].history, own) &&
            voids(&files[k], &files[i]))
            return PS_HISTORY_VOID;
    return PS_HISTORY_MIXED;
}

/* A life that began with nothing, and of which no checkpoint is there nor may be: a journal alone
 * is no state, and before the first checkpoint nothing was acknowledged as durable. Its owner may
 * have begun after one that wrote its checkpoint late, which nobody published: recovery goes on
 * from that, as if this one had not been. */
static bool came_to_nothing(const struct ps_history_witness *files, size_t count, size_t i)
{
    const struct ps_history_witness *file = &files[i];
    if (!file->is_segment || !file->is_read || file->begin != 0 || file->previous != 0)
        return false;
    for (size_t k = 0; k < count; k++)
        if (!files[k].is_segment && !ps_history_differ(&files[k].history, &file->history))
            return false;
    return true;
}

/* Of an owner from before all that wrote the folder's history, where the store knows of no
 * checkpoint at all. Two owners of a new shard, one after the other, leave this where neither could
 * publish: the first one wrote when it had lost the shard, or while the store was away. */
static bool is_before_all(const struct ps_history_witness *files, size_t count, size_t i,
                          const struct ps_history *own)
{
    for (size_t k = 0; k < count; k++)
        if (ps_history_known(&files[k].history) && !ps_history_differ(&files[k].history, own) &&
            files[k].epoch <= files[i].epoch)
            return false;
    return true;
}

/* Did the owner that wrote `file` begin as if the stranger were not there? Whoever comes later goes
 * on from that owner. */
static bool voids(const struct ps_history_witness *file, const struct ps_history_witness *stranger)
{
    if (file->epoch <= stranger->epoch)
        return false;
    /* It names the epoch that it went on from, and the stranger's is between the two. */
    if (file->is_segment && file->is_read && file->previous != 0 &&
        file->previous < stranger->epoch)
        return true;
    return goes_past(file, stranger);
}

/* The places are of two lives, and are compared all the same: a reader finds its way by these
 * numbers alone, so that they decide whether it would come to the stranger.
 * Of a checkpoint its position is compared, of a segment where records begin. A checkpoint of a
 * later owner that has less than the stranger shows that it went on from something else. */
static bool goes_past(const struct ps_history_witness *file,
                      const struct ps_history_witness *stranger)
{
    uint64_t behind = stranger->is_segment ? stranger->position - 1 : stranger->position;
    if (!file->is_segment)
        return !stranger->is_segment && file->position <= behind;
    if (file->is_read)
        return file->begin <= behind;
    /* By its name it begins with its first record at the latest. */
    return file->position - 1 <= behind;
}

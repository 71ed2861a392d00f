/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to delta pulls of tables. A table has no blocks and no digest of a whole: rows come with
 * their keys, and each piece has a digest of itself. A delta may break off in its middle: then some
 * rows are newer than the version that is held, which begins again from there. */
#include "client/replica/replica_part_rows.h"

#include "base/assert.h"
#include "client/replica/replica_rows.h"
#include "proto/digest.h"

#include <inttypes.h>

static enum ps_status check_answer(const struct ps_replica_part *part,
                                   const struct ps_pull_reply *reply, struct ps_error *error);
static enum ps_status check_piece(const struct ps_replica_part *part,
                                  const struct ps_pull_reply *reply, struct ps_error *error);
static enum ps_status refuse_digest(struct ps_replica_part *part, struct ps_error *error);
static void finish(struct ps_replica_part *part);

/* Of the bytes as they came, piece by piece as the network cut them: before anything is taken. */
static bool is_whole(const struct ps_pull_reply *reply)
{
    struct ps_view_cursor cursor = {.view = reply->content};
    PS_ASSERT(reply->delta.present);
    return ps_digest_next_block(&cursor, reply->content.size) == reply->delta.digest;
}

/* The same steps as of a parameter with blocks, with rows in their place. Judged first. What is
 * refused here has changed nothing; a piece for which memory is refused is asked for again with the
 * next round, and may be put in its place twice. */
enum ps_status ps_replica_part_rows_take(struct ps_replica_part *part,
                                         const struct ps_pull_reply *reply, struct ps_error *error)
{
    const struct ps_delta *delta = &reply->delta;
    struct ps_coming *coming = &part->coming;
    PS_ASSERT(part->rows != NULL);
    PS_TRY(check_answer(part, reply, error));
    PS_TRY(check_piece(part, reply, error));
    /* A piece damaged on its way is found here, and not by its numbers, which may fit. */
    if (!is_whole(reply))
        return refuse_digest(part, error);
    /* The first answer of a version says what it is made on. */
    if (coming->target == 0) {
        part->expected = 0;
        coming->whole = delta->whole != PS_WHOLE_NOT;
        part->counters->copies += part->version == 0;
        part->counters->anchors += part->version != 0 && coming->whole;
    }
    part->counters->answers++;
    part->counters->received += reply->content.size;
    part->expected += reply->content.size;
    PS_TRY(ps_replica_rows_take(part->rows, reply->content, delta->gone, delta->rows, coming->whole,
                                error));
    /* Only behind the piece: one that was not put in its place is asked for again. */
    coming->target = reply->version + 1;
    coming->chain = delta->chain;
    coming->block = delta->next;
    coming->mark = delta->mark;
    if (delta->next == 0)
        finish(part);
    return PS_OK;
}

/* A version is a number that another life of the shard may give to other rows. */
static bool is_same_chain(const struct ps_chain *a, const struct ps_chain *b)
{
    PS_ASSERT(a != NULL && b != NULL);
    return a->epoch == b->epoch && a->life == b->life;
}

/* As of a parameter with blocks: a second answer is of the version of the first, and a delta begins
 * at what is held and does not go back. */
static bool is_foreign(const struct ps_replica_part *part, const struct ps_pull_reply *reply)
{
    const struct ps_coming *coming = &part->coming;
    const struct ps_delta *delta = &reply->delta;
    PS_ASSERT(delta->present);
    /* The chain counts here, too: the shard may have begun another life between two answers. */
    if (coming->target != 0)
        return reply->version + 1 != coming->target ||
               !is_same_chain(&delta->chain, &coming->chain);
    return delta->whole == PS_WHOLE_NOT &&
           (part->version == 0 || reply->version + 1 < part->version ||
            !is_same_chain(&delta->chain, &part->chain));
}

/* A table that was dropped and defined with another width is another table: whoever reads it has
 * room for rows of the former one. */
static enum ps_status check_answer(const struct ps_replica_part *part,
                                   const struct ps_pull_reply *reply, struct ps_error *error)
{
    const struct ps_delta *delta = &reply->delta;
    PS_ASSERT(part->rows != NULL);
    if (!delta->present || !ps_bytes_equal(reply->name, part->name) || delta->chain.life == 0 ||
        delta->mark == 0 || reply->version == UINT64_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the answer is not a delta of this table");
    if (reply->dtype != part->dtype || reply->total != ps_replica_rows_width(part->rows))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "rows of %" PRIu64 " %s elements, asked for %u of %s", reply->total,
                       ps_dtype_name(reply->dtype), ps_replica_rows_width(part->rows),
                       ps_dtype_name(part->dtype));
    /* By version and chain alone: which rows they are shows only when they are read. */
    if (is_foreign(part, reply))
        return ps_fail(error, PS_ERR_BAD_INPUT, "the answer is a change of another version");
    return PS_OK;
}

/* Divided, since the numbers are the server's and a product could wrap. An answer that neither goes
 * on nor tells of a key would have us ask for the same for ever. */
static enum ps_status check_piece(const struct ps_replica_part *part,
                                  const struct ps_pull_reply *reply, struct ps_error *error)
{
    const struct ps_delta *delta = &reply->delta;
    uint64_t size = reply->content.size;
    size_t each = sizeof(uint64_t) + ps_replica_rows_row_bytes(part->rows);
    PS_ASSERT(each > sizeof(uint64_t));
    if (delta->gone > size / sizeof(uint64_t) || delta->rows > size / each ||
        delta->gone * sizeof(uint64_t) + delta->rows * each != size)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the rows of the answer do not fit");
    if (delta->next > 0 && delta->next <= part->coming.block && delta->gone == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the answer does not go on");
    return PS_OK;
}

/* Nothing of the piece was taken, and what is held is right: it is asked for again. A fault that
 * stays is not one of the way. */
static enum ps_status refuse_digest(struct ps_replica_part *part, struct ps_error *error)
{
    PS_ASSERT(part->mismatches < PS_REPLICA_MISMATCHES_MAX);
    part->counters->mismatches++;
    part->mismatches++;
    /* Still stale: the next round asks for the same piece. */
    if (part->mismatches < PS_REPLICA_MISMATCHES_MAX)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT, "the digest of what came is wrong, again and again");
}

/* All of the version has come. A delta lies in its place already, and a full copy takes it now: who
 * reads meanwhile has the version before, whole, until this moment. */
static void finish(struct ps_replica_part *part)
{
    size_t each = sizeof(uint64_t) + ps_replica_rows_row_bytes(part->rows);
    PS_ASSERT(part->coming.target > 0 && part->coming.mark > 0);
    if (part->coming.whole)
        ps_replica_rows_replace(part->rows);
    /* What a full copy would have brought by now, less what came: of a full copy nothing. */
    uint64_t all = ps_replica_rows_count(part->rows) * each;
    part->counters->saved += all > part->expected ? all - part->expected : 0;
    part->version = part->coming.target;
    part->chain = part->coming.chain;
    part->mark = part->coming.mark;
    part->coming = (struct ps_coming){0};
    part->state = PS_PART_FRESH;
    part->mismatches = 0;
}

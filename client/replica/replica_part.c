/* SPDX-License-Identifier: Apache-2.0 */
/* The version that is held, the version that is coming, and when the one becomes the other.
 *
 * The content is the caller's memory, in which a whole version lies at all times. So blocks of a
 * version that is only beginning to come wait beside it, and take_over, which cannot fail, moves
 * all of them when the last has come and the digest over all blocks is right. A part that holds
 * nothing has no version to protect: its blocks go to their place at once, which saves a copy of a
 * whole parameter.
 *
 * Every number of an answer comes from outside. All checks stand before the first change
 * (check_delta, check_runs), and what passes them is used without a further look. */
#include "client/replica/replica_part.h"

#include "base/assert.h"
#include "client/replica/replica_part_rows.h"
#include "client/replica/replica_rows.h"
#include "proto/digest.h"

#include <inttypes.h>
#include <string.h>

/* A server cannot make us keep more numbers than bytes: a digest and two pointers for each
 * block. */
#define BLOCK_BYTES_MIN 4096

/* An answer's runs, block by block. The same walk is done for digests, for waiting blocks and for
 * the take-over, so that the three cannot disagree about what came. */
struct run_reader {
    struct ps_bytes runs;
    uint32_t block;
    uint32_t left;
};

static void begin_version(struct ps_replica_part *part, const struct ps_delta *delta);
static enum ps_status check_delta(const struct ps_replica_part *part,
                                  const struct ps_pull_reply *reply, struct ps_error *error);
static enum ps_status check_runs(const struct ps_replica_part *part,
                                 const struct ps_pull_reply *reply, struct ps_error *error);
static enum ps_status make_lists(struct ps_replica_part *part, uint64_t block_bytes,
                                 struct ps_error *error);
static enum ps_status put_aside(struct ps_replica_part *part, const struct ps_pull_reply *reply,
                                struct ps_error *error);
static void digest_blocks(struct ps_replica_part *part, const struct ps_pull_reply *reply);
static enum ps_status finish_part(struct ps_replica_part *part, const struct ps_pull_reply *reply,
                                  struct ps_error *error);
/* Tells the server which version is held. `present` is always set: without it the pull would be an
 * ordinary one. When a version has begun to come, the same version is asked for from its next block
 * on; of a whole one nothing that is held counts as its base. */
struct ps_held ps_replica_part_held(const struct ps_replica_part *part)
{
    const struct ps_coming *coming = &part->coming;
    if (coming->target == 0)
        return (struct ps_held){
            .present = true, .version = part->version, .chain = part->chain, .mark = part->mark};
    return (struct ps_held){.present = true,
                            .version = coming->whole ? 0 : part->version,
                            .chain = coming->chain,
                            .target = coming->target,
                            .block = coming->block,
                            .mark = coming->mark};
}

/* With the digests goes the version: without them nothing that comes could be checked. */
void ps_replica_part_release(struct ps_replica_part *part)
{
    ps_replica_part_forget(part);
    ps_release(part->memory, part->digests);
    ps_release(part->memory, part->next_digests);
    ps_release(part->memory, part->waiting);
    part->digests = NULL;
    part->next_digests = NULL;
    part->waiting = NULL;
    part->block_count = 0;
    part->block_bytes = 0;
    part->version = 0;
}

/* Judged first, then counted. From begin_version on the part is in a coming version, and each way
 * out either ends that or leaves it at the next block to ask for. */
enum ps_status ps_replica_part_take(struct ps_replica_part *part, const struct ps_pull_reply *reply,
                                    struct ps_error *error)
{
    const struct ps_delta *delta = &reply->delta;
    if (part->rows != NULL)
        return ps_replica_part_rows_take(part, reply, error);
    PS_TRY(check_delta(part, reply, error));
    PS_TRY(check_runs(part, reply, error));
    /* Also for the first answer of all: a part has no lists before. */
    if (part->block_bytes != delta->block_bytes)
        PS_TRY(make_lists(part, delta->block_bytes, error));
    if (part->coming.target == 0)
        begin_version(part, delta);
    part->counters->answers++;
    part->counters->received += reply->content.size;
    part->expected += reply->content.size;
    part->coming.target = reply->version + 1;
    part->coming.chain = delta->chain;
    part->coming.block = delta->next;
    digest_blocks(part, reply);
    if (delta->next > 0)
        return put_aside(part, reply, error);
    return finish_part(part, reply, error);
}

/* An anchor is a full copy although something was held: the chain is another, or the server does
 * not remember what has changed since. */
static void begin_version(struct ps_replica_part *part, const struct ps_delta *delta)
{
    part->expected = 0;
    part->coming.whole = delta->whole != PS_WHOLE_NOT;
    if (part->version == 0)
        part->counters->copies++;
    else if (part->coming.whole)
        part->counters->anchors++;
}

/* A version is a number, and after a crash the same number may be another content: only within one
 * chain may a change be put on what is held. */
static bool is_same_chain(const struct ps_chain *a, const struct ps_chain *b)
{
    return a->epoch == b->epoch && a->life == b->life;
}

/* A change of something else than what is held. The second answer to one version must be of that
 * version; a first one that is no whole copy must start from our chain and block size, and not go
 * back. */
static bool is_foreign(const struct ps_replica_part *part, const struct ps_pull_reply *reply)
{
    const struct ps_delta *delta = &reply->delta;
    const struct ps_coming *coming = &part->coming;
    if (coming->target != 0)
        return reply->version + 1 != coming->target ||
               !is_same_chain(&delta->chain, &coming->chain);
    return delta->whole == PS_WHOLE_NOT &&
           (part->version == 0 || reply->version + 1 < part->version ||
            !is_same_chain(&delta->chain, &part->chain) || delta->block_bytes != part->block_bytes);
}

/* In words for people: these texts reach the trainer's log, and a server that is wrong here has a
 * bug. */
static enum ps_status check_delta(const struct ps_replica_part *part,
                                  const struct ps_pull_reply *reply, struct ps_error *error)
{
    const struct ps_delta *delta = &reply->delta;
    if (!delta->present || !ps_bytes_equal(reply->name, part->name) || delta->chain.life == 0 ||
        reply->version == UINT64_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the answer is not a delta of this parameter");
    size_t element_size = ps_dtype_size(part->dtype);
    if (reply->dtype != part->dtype || reply->total != part->size / element_size)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "holds %" PRIu64 " %s elements, asked for %zu of %s", reply->total,
                       ps_dtype_name(reply->dtype), part->size / element_size,
                       ps_dtype_name(part->dtype));
    /* The upper bound keeps the sums of blocks_in from wrapping around. */
    if (delta->block_bytes < BLOCK_BYTES_MIN || delta->block_bytes > SIZE_MAX / 2)
        return ps_fail(error, PS_ERR_BAD_INPUT, "blocks of %" PRIu64 " bytes", delta->block_bytes);
    if (is_foreign(part, reply) ||
        (part->coming.target != 0 && delta->block_bytes != part->block_bytes))
        return ps_fail(error, PS_ERR_BAD_INPUT, "the answer is a change of another version");
    /* An answer that does not go on would have us ask for the same block for ever. */
    if (delta->next > 0 && delta->next <= part->coming.block)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the answer does not go on");
    return PS_OK;
}

/* The parameter's last block may be shorter. */
static size_t blocks_in(size_t size, uint64_t block_bytes)
{
    return (size + (size_t)block_bytes - 1) / (size_t)block_bytes;
}

/* For another size of blocks nothing that is held can be a base: digests are made block by block. A
 * failure leaves a part that holds nothing, since half of the lists would be of one size of blocks
 * and half of another. */
static enum ps_status make_lists(struct ps_replica_part *part, uint64_t block_bytes,
                                 struct ps_error *error)
{
    size_t count = blocks_in(part->size, block_bytes);
    ps_replica_part_release(part);
    part->digests = ps_zeroed_array(part->memory, count, sizeof *part->digests);
    part->next_digests = ps_zeroed_array(part->memory, count, sizeof *part->next_digests);
    part->waiting = ps_zeroed_array(part->memory, count, sizeof *part->waiting);
    if (part->digests == NULL || part->next_digests == NULL || part->waiting == NULL) {
        ps_replica_part_release(part);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu digests", count);
    }
    part->block_count = count;
    part->block_bytes = block_bytes;
    return PS_OK;
}

static size_t size_of_block(size_t size, uint64_t block_bytes, size_t i)
{
    size_t rest = size - i * (size_t)block_bytes;
    return rest < block_bytes ? rest : (size_t)block_bytes;
}

static size_t block_size(const struct ps_replica_part *part, size_t i)
{
    return size_of_block(part->size, part->block_bytes, i);
}

/* ---- Runs ---- */

static struct run_reader runs_of(const struct ps_pull_reply *reply)
{
    return (struct run_reader){.runs = reply->delta.runs};
}

/* The next block of the answer; false at the end. The runs may lie at any address of the message:
 * hence memcpy. */
static bool next_block(struct run_reader *reader, size_t *block)
{
    uint32_t run[2];
    if (reader->left == 0) {
        if (reader->runs.size < sizeof run)
            return false;
        memcpy(run, reader->runs.data, sizeof run);
        reader->runs.data += sizeof run;
        reader->runs.size -= sizeof run;
        reader->block = run[0];
        reader->left = run[1];
    }
    *block = reader->block++;
    reader->left--;
    return true;
}

/* In order, each once, in the parameter, in what this answer is about, and as long as they say.
 * Nothing is changed before that is clear: the answer's blocks may have another size than ours. */
static enum ps_status check_runs(const struct ps_replica_part *part,
                                 const struct ps_pull_reply *reply, struct ps_error *error)
{
    const struct ps_delta *delta = &reply->delta;
    uint64_t block_count = blocks_in(part->size, delta->block_bytes);
    uint64_t end = delta->next > 0 ? delta->next : block_count;
    uint64_t first = part->coming.block;
    uint64_t bytes = 0;
    bool good = end <= block_count && delta->runs.size % (2 * sizeof(uint32_t)) == 0;
    for (size_t at = 0; good && at < delta->runs.size; at += 2 * sizeof(uint32_t)) {
        uint32_t run[2];
        memcpy(run, delta->runs.data + at, sizeof run);
        /* As a difference, since a sum of two numbers of the server's could wrap around. */
        good = run[0] >= first && run[0] < end && run[1] > 0 && run[1] <= end - run[0];
        for (uint32_t k = 0; good && k < run[1]; k++)
            bytes += size_of_block(part->size, delta->block_bytes, run[0] + k);
        first = (uint64_t)run[0] + run[1];
    }
    if (!good || bytes != reply->content.size)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the blocks of the answer do not fit");
    return PS_OK;
}

/* Of the bytes as they came, before they are copied anywhere: a copy that went wrong later is found
 * by verify. */
static void digest_blocks(struct ps_replica_part *part, const struct ps_pull_reply *reply)
{
    struct run_reader reader = runs_of(reply);
    struct ps_view_cursor cursor = {.view = reply->content};
    size_t block;
    while (next_block(&reader, &block))
        part->next_digests[block] = ps_digest_next_block(&cursor, block_size(part, block));
}

/* ---- Taking over ---- */

/* Until the version is there, or at once where nothing is lost by that. A failure leaves blocks of
 * which no digest says that they came complete; the part fails, and the next round forgets them. */
static enum ps_status put_aside(struct ps_replica_part *part, const struct ps_pull_reply *reply,
                                struct ps_error *error)
{
    struct run_reader reader = runs_of(reply);
    struct ps_view_cursor cursor = {.view = reply->content};
    size_t block;
    while (next_block(&reader, &block)) {
        size_t size = block_size(part, block);
        uint8_t *to = part->content + block * part->block_bytes;
        if (part->version != 0) {
            to = part->waiting[block] = ps_plain(part->memory, size);
            if (to == NULL)
                return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for what is coming");
        }
        ps_view_read(&cursor, to, size);
    }
    return PS_OK;
}

/* Computes the digest of the coming version: from the new digests of blocks that came, and for the
 * others from those of the base, which were right when it was taken. False when a block never came
 * and there is no base for it. 0 stands for "did not come", which no block's digest is. */
static bool digest_coming(const struct ps_replica_part *part, uint64_t *digest)
{
    bool has_base = part->version != 0 && !part->coming.whole;
    *digest = 0;
    for (size_t i = 0; i < part->block_count; i++) {
        uint64_t block = part->next_digests[i];
        if (block == 0 && !has_base)
            return false;
        *digest = ps_digest_chain(*digest, block != 0 ? block : part->digests[i]);
    }
    return true;
}

/* Nothing of this can fail: a reader of the content, which looks between two calls, sees the old
 * version or the new one. Blocks of the last answer come straight from the message, earlier ones
 * from where they waited. */
static void take_over(struct ps_replica_part *part, const struct ps_pull_reply *reply)
{
    struct run_reader reader = runs_of(reply);
    struct ps_view_cursor cursor = {.view = reply->content};
    size_t block;
    while (next_block(&reader, &block))
        ps_view_read(&cursor, part->content + block * part->block_bytes, block_size(part, block));
    for (size_t i = 0; i < part->block_count; i++) {
        if (part->waiting[i] != NULL)
            memcpy(part->content + i * part->block_bytes, part->waiting[i], block_size(part, i));
        if (part->next_digests[i] != 0)
            part->digests[i] = part->next_digests[i];
    }
    part->version = part->coming.target;
    part->chain = part->coming.chain;
    /* `expected` has counted what came of this version: the rest did not have to. */
    part->counters->saved += part->size - part->expected;
    ps_replica_part_forget(part);
}

/* A digest that is wrong condemns both, what came and what is held, since nobody knows which of
 * them is wrong; the next answer is a full copy, from nothing. When that is wrong as well, three
 * times in a row, the fault is not one of the way, and the caller is told. */
static enum ps_status finish_part(struct ps_replica_part *part, const struct ps_pull_reply *reply,
                                  struct ps_error *error)
{
    uint64_t digest;
    if (digest_coming(part, &digest) && digest == reply->delta.digest) {
        take_over(part, reply);
        part->state = PS_PART_FRESH;
        part->mismatches = 0;
        return PS_OK;
    }
    part->counters->mismatches++;
    part->mismatches++;
    ps_replica_part_forget(part);
    part->version = 0;
    part->expected = part->size;
    if (part->mismatches < PS_REPLICA_MISMATCHES_MAX)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT, "the digest of what came is wrong, again and again");
}

/* The version that is held does not change by this. */
void ps_replica_part_forget(struct ps_replica_part *part)
{
    for (size_t i = 0; i < part->block_count; i++) {
        ps_release(part->memory, part->waiting[i]);
        part->waiting[i] = NULL;
        part->next_digests[i] = 0;
    }
    part->coming = (struct ps_coming){0};
    if (part->rows != NULL)
        ps_replica_rows_forget(part->rows);
}

/* Finds memory that somebody has written to between two calls. Digests are those of what was taken,
 * so that this needs no server. */
bool ps_replica_part_verify(struct ps_replica_part *part)
{
    for (size_t i = 0; part->version != 0 && i < part->block_count; i++) {
        const struct ps_bytes block = {part->content + i * part->block_bytes, block_size(part, i)};
        if (ps_digest_block(block) == part->digests[i])
            continue;
        part->version = 0;
        return false;
    }
    return true;
}

void ps_replica_part_check(const struct ps_replica_part *part)
{
    PS_ASSERT(part->version == 0 || part->block_count > 0 || part->rows != NULL);
    PS_ASSERT(part->version == 0 || part->chain.life != 0);
    for (size_t i = 0; i < part->block_count; i++) {
        /* A held version has the digest of every block; blocks of a coming one exist only while it
         * comes, and a block that waits has its digest. */
        PS_ASSERT(part->version == 0 || part->digests[i] != 0);
        PS_ASSERT(part->coming.target != 0 || part->next_digests[i] == 0);
        PS_ASSERT(part->waiting[i] == NULL || part->next_digests[i] != 0);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Looks behind bad bytes for what tells a torn end from damage.
 *
 * A crash tears the last write: its bytes are partly there, and nothing that was acknowledged is
 * lost by cutting them. Damage destroys what was acknowledged and must never be cut. The two look
 * alike at the hole itself, so the bytes behind it decide. Every record says how far the journal
 * was durable when it was written: a good one that vouches for the hole's position proves damage.
 *
 * Good ones that do not vouch for it belong to the same unfinished write, of which the disk may
 * have taken a later part first. In format 1 a sector of the hole was then never written, and is
 * zeros, since those files only ever grow. A file of format 2 may have had records of a former life
 * there, so nothing can be asked of the hole; notes (journal_note.h) speak for the last writes. */
#include "checkpoint/journal_scan.h"

#include "base/assert.h"
#include "checkpoint/journal_record.h"

/* What a disk writes whole or not at all; larger sectors are multiples of this. */
#define SECTOR_BYTES 512u

/* What the bytes so far have shown. */
struct evidence {
    uint64_t zeros_from; /* begin of the run of zeros that ends here; UINT64_MAX: no run */
    uint64_t end;        /* of the last good record behind the hole, or of the bad one itself */
    bool unwritten;      /* a sector before the first good record is all zeros */
    bool followed;       /* a good record stands behind the hole */
    bool proven;         /* one says that the missing record was durable */
};

static enum ps_status look_at(struct ps_journal_window *window, const struct ps_journal_hole *hole,
                              uint64_t *at, struct evidence *evidence, struct ps_error *error);
static void see_head(struct evidence *evidence, const struct ps_journal_hole *hole, uint64_t at,
                     const struct ps_journal_head *head);
static size_t to_next_head(struct ps_bytes bytes);
static void see_word(struct evidence *evidence, const struct ps_journal_hole *hole, uint64_t at,
                     const uint8_t *word);
static struct ps_journal_ending conclude(const struct ps_journal_window *window,
                                         const struct ps_journal_hole *hole,
                                         const struct evidence *evidence);

enum ps_status ps_journal_scan(struct ps_journal_window *window, const struct ps_journal_hole *hole,
                               struct ps_journal_ending *ending, struct ps_error *error)
{
    PS_ASSERT(hole->offset % PS_JOURNAL_ALIGNMENT == 0);
    PS_ASSERT(hole->heads_from >= hole->offset);
    struct evidence evidence = {.zeros_from = UINT64_MAX, .end = hole->heads_from};
    uint64_t at = hole->offset;
    while (!evidence.proven && at < window->file_bytes &&
           window->file_bytes - at >= PS_JOURNAL_ALIGNMENT)
        PS_TRY(look_at(window, hole, &at, &evidence, error));
    *ending = conclude(window, hole, &evidence);
    return PS_OK;
}

/* Records stand at multiples of the alignment, so the scan moves by words of that size, and over a
 * good record in one step: its content must not be searched, a gradient may contain bytes that look
 * like a head. The last record behind the hole may be torn itself and reach beyond the file; its
 * head is evidence enough. The window reads ahead, so peeking at each word costs a read only for
 * each 256 KiB. */
static enum ps_status look_at(struct ps_journal_window *window, const struct ps_journal_hole *hole,
                              uint64_t *at, struct evidence *evidence, struct ps_error *error)
{
    struct ps_bytes bytes;
    struct ps_journal_head head;
    bool known = window->life.format != 0;
    PS_TRY(ps_journal_window_peek(window, *at, PS_JOURNAL_PEEK_BYTES_MAX, &bytes, error));
    bool good = *at >= hole->heads_from &&
                ps_journal_head_read(bytes, known ? &window->life : NULL, &head) != PS_JOURNAL_BAD;
    /* Other epochs and lower positions are content, or the rest of an older file of the same
     * blocks. */
    if (good && head.record.epoch == hole->epoch && head.record.position >= hole->position) {
        see_head(evidence, hole, *at, &head);
        *at = head.record_bytes < window->file_bytes - *at ? *at + head.record_bytes
                                                           : window->file_bytes;
        return PS_OK;
    }
    /* The checksums of such heads cannot be tried without the salt, which the bad first record had;
     * but only a segment of format 2 has them, and its first record was durable. */
    if (!known && ps_journal_head_is_of(bytes, PS_JOURNAL_FORMAT))
        evidence->proven = true;
    if (window->life.format == PS_JOURNAL_FORMAT) {
        *at += to_next_head(bytes);
        return PS_OK;
    }
    see_word(evidence, hole, *at, bytes.data);
    *at += PS_JOURNAL_ALIGNMENT;
    return PS_OK;
}

/* Behind the end of a segment of format 2 mostly lies a whole former one, at each recovery. Its
 * words need one look each. */
static size_t to_next_head(struct ps_bytes bytes)
{
    size_t at = PS_JOURNAL_ALIGNMENT;
    while (at + PS_JOURNAL_ALIGNMENT <= bytes.size && !ps_journal_head_begins(bytes.data + at))
        at += PS_JOURNAL_ALIGNMENT;
    return at;
}

static void see_head(struct evidence *evidence, const struct ps_journal_hole *hole, uint64_t at,
                     const struct ps_journal_head *head)
{
    evidence->followed = true;
    evidence->proven = head->durable >= hole->position;
    /* Of a record that is torn itself this is where its content was to end. */
    evidence->end = at + head->record_bytes;
}

/* Keeps track of the run of zeros that ends here, and looks at the end of each sector whether the
 * run fills it. Only sectors before the first good record count: zeros behind that say nothing
 * about the hole. */
static void see_word(struct evidence *evidence, const struct ps_journal_hole *hole, uint64_t at,
                     const uint8_t *word)
{
    uint8_t bits = 0;
    for (size_t i = 0; i < PS_JOURNAL_ALIGNMENT; i++)
        bits |= word[i];
    if (bits != 0)
        evidence->zeros_from = UINT64_MAX;
    else if (evidence->zeros_from == UINT64_MAX)
        evidence->zeros_from = at;
    uint64_t after = at + PS_JOURNAL_ALIGNMENT;
    if (after % SECTOR_BYTES != 0 || evidence->followed)
        return;
    /* Of the sector that the hole begins in, the part before it belongs to the record before. */
    uint64_t sector = after - SECTOR_BYTES;
    uint64_t from = sector > hole->offset ? sector : hole->offset;
    if (evidence->zeros_from <= from)
        evidence->unwritten = true;
}

/* What a file of format 2 has behind the last record of its life is a former life's, so only what
 * was found counts as cut. A file of format 1 has nothing there but the torn write. */
static struct ps_journal_ending conclude(const struct ps_journal_window *window,
                                         const struct ps_journal_hole *hole,
                                         const struct evidence *evidence)
{
    bool reused = window->life.format == PS_JOURNAL_FORMAT;
    uint64_t end = window->file_bytes;
    PS_ASSERT(evidence->end >= hole->offset && end >= hole->offset);
    if (reused && evidence->end < end)
        end = evidence->end;
    /* Followers without a lost sector: no crash leaves that in a file that only grew, so their
     * predecessor was whole once. */
    bool odd = evidence->followed && !evidence->unwritten && !reused;
    return (struct ps_journal_ending){.damaged = evidence->proven || odd,
                                      .cut = end - hole->offset};
}

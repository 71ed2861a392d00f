/* Looks behind bad bytes for what tells a torn end from damage.
 *
 * A crash tears the last write: its bytes are partly there, and nothing that was acknowledged is
 * lost by cutting them. Damage destroys what was acknowledged and must never be cut. The two look
 * alike at the hole itself, so the bytes behind it decide. Every record says how far the journal
 * was durable when it was written: a good one that vouches for the hole's position proves damage.
 * Good ones that do not vouch for it belong to the same unfinished write, of which the disk may
 * have taken a later part first; then a sector of the hole was never written, and is zeros, since
 * segments only ever grow. */
#include "checkpoint/journal_scan.h"

#include "base/assert.h"
#include "checkpoint/journal_record.h"

/* What a disk writes whole or not at all; larger sectors are multiples of this. */
#define SECTOR_BYTES 512u

/* What the bytes so far have shown. */
struct evidence {
    uint64_t zeros_from; /* begin of the run of zeros that ends here; UINT64_MAX: no run */
    bool unwritten;      /* a sector before the first good record is all zeros */
    bool followed;       /* a good record stands behind the hole */
    bool proven;         /* one says that the missing record was durable */
};

static void see_word(struct evidence *evidence, const struct ps_journal_hole *hole, uint64_t at,
                     const uint8_t *word);
static bool see_head(struct evidence *evidence, const struct ps_journal_hole *hole,
                     struct ps_bytes bytes, uint64_t *record_bytes);

enum ps_status ps_journal_scan(struct ps_journal_window *window, const struct ps_journal_hole *hole,
                               bool *torn, struct ps_error *error)
{
    PS_ASSERT(hole->offset % PS_JOURNAL_ALIGNMENT == 0);
    /* Records stand at multiples of the alignment, so the scan moves by words of that size, and
     * over a good record in one step: its content must not be searched, a gradient may contain
     * bytes that look like a head. */
    struct evidence evidence = {.zeros_from = UINT64_MAX};
    uint64_t at = hole->offset;
    while (!evidence.proven && window->file_bytes - at >= PS_JOURNAL_ALIGNMENT) {
        struct ps_bytes bytes;
        uint64_t record_bytes = 0;
        /* The window reads ahead, so peeking at each word costs a read only for each 256 KiB. */
        PS_TRY(ps_journal_window_peek(window, at, PS_JOURNAL_HEAD_BYTES_MAX, &bytes, error));
        if (at >= hole->heads_from && see_head(&evidence, hole, bytes, &record_bytes)) {
            /* The last record behind the hole is torn itself; its head was evidence enough. */
            if (record_bytes > window->file_bytes - at)
                break;
            at += record_bytes;
            continue;
        }
        see_word(&evidence, hole, at, bytes.data);
        at += PS_JOURNAL_ALIGNMENT;
    }
    *torn = !evidence.proven && (!evidence.followed || evidence.unwritten);
    return PS_OK;
}

/* Counts good records of this epoch at or behind the missing position. Anything else is content, or
 * the rest of an older file of the same blocks. */
static bool see_head(struct evidence *evidence, const struct ps_journal_hole *hole,
                     struct ps_bytes bytes, uint64_t *record_bytes)
{
    struct ps_journal_head head;
    if (ps_journal_head_read(bytes, &head) == PS_JOURNAL_BAD)
        return false;
    if (head.record.epoch != hole->epoch || head.record.position < hole->position)
        return false;
    evidence->followed = true;
    evidence->proven = head.durable >= hole->position;
    *record_bytes = head.record_bytes;
    return true;
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

/* Looks behind bad bytes for what tells a torn end from damage. */
#include "checkpoint/journal_scan.h"

#include "base/assert.h"
#include "checkpoint/journal_record.h"

/* What a disk writes whole or not at all. */
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
    struct evidence evidence = {.zeros_from = UINT64_MAX};
    uint64_t at = hole->offset;
    while (!evidence.proven && window->file_bytes - at >= PS_JOURNAL_ALIGNMENT) {
        struct ps_bytes bytes;
        uint64_t record_bytes = 0;
        PS_TRY(ps_journal_window_peek(window, at, PS_JOURNAL_HEAD_BYTES_MAX, &bytes, error));
        if (at >= hole->heads_from && see_head(&evidence, hole, bytes, &record_bytes)) {
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

/* Good records of this epoch at or behind the missing position; anything else is content. */
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

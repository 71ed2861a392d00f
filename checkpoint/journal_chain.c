/* Walks from the newest epoch down. The first record of each epoch says which one it goes on from;
 * the epochs between the two are void and are taken out of the list. */
#include "checkpoint/journal_chain.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"
#include "checkpoint/journal_record.h"

/* The first record of a segment; it has neither client id nor name. */
#define FIRST_BYTES (PS_JOURNAL_HEAD_BYTES + PS_JOURNAL_SEGMENT_CONTENT_BYTES)

static enum ps_status read_previous(const struct ps_files *files, const char *folder,
                                    struct ps_journal_segment segment, uint64_t *previous,
                                    struct ps_error *error);
static uint64_t previous_in(struct ps_bytes bytes, struct ps_journal_segment segment);
static void take_out(struct ps_journal_segments *segments, uint64_t above, uint64_t below);

enum ps_status ps_journal_chain_keep(struct ps_journal_segments *segments,
                                     const struct ps_files *files, const char *folder,
                                     uint64_t wanted, struct ps_error *error)
{
    PS_ASSERT(segments != NULL && files != NULL && folder != NULL);
    /* Only the first segment of an epoch says what it goes on from, so the others are passed over.
     * The walk ends at the epoch in which reading begins: what lies before it is not read by
     * anybody. */
    size_t i = segments->count;
    while (i > 0) {
        i--;
        struct ps_journal_segment first = segments->entries[i];
        if (!ps_journal_segments_first(segments, i))
            continue;
        if (i == 0 || first.first <= wanted)
            return PS_OK;
        uint64_t previous = 0;
        PS_TRY(read_previous(files, folder, first, &previous, error));
        size_t count = segments->count;
        /* 0 means "from nothing", or that the record cannot be read. Neither may make segments
         * disappear: damage has to be found and reported by the reader, not hidden by shortening
         * its list. */
        if (previous > 0)
            take_out(segments, previous, first.epoch);
        /* The entries taken out all stood before this one, so its index falls by their number. */
        i -= count - segments->count;
    }
    return PS_OK;
}

/* Reads which epoch the one of `segment` goes on from; 0 when the segment does not say. */
static enum ps_status read_previous(const struct ps_files *files, const char *folder,
                                    struct ps_journal_segment segment, uint64_t *previous,
                                    struct ps_error *error)
{
    uint8_t bytes[FIRST_BYTES];
    char path[PS_JOURNAL_PATH_BYTES];
    struct ps_file file;
    size_t got = 0;
    PS_TRY(ps_journal_path_write(folder, segment, path, error));
    enum ps_status status = files->open(files->self, path, PS_FILE_READ, &file, error);
    /* The list was made a moment ago. A segment that has gone since was swept by another process,
     * so the list is of no use; the caller may begin again. */
    if (status == PS_ERR_NOT_FOUND)
        return ps_fail(error, PS_ERR_IO, "journal: %s has gone", path);
    if (status != PS_OK)
        return status;
    status = files->read(files->self, file, 0, bytes, sizeof bytes, &got, error);
    files->close(files->self, file);
    if (status == PS_OK)
        *previous = previous_in((struct ps_bytes){bytes, got}, segment);
    return status;
}

/* Believes the record only if everything about it is right, including that it is where its file's
 * name says: a copied or renamed file must not void the epochs of others. */
static uint64_t previous_in(struct ps_bytes bytes, struct ps_journal_segment segment)
{
    struct ps_journal_head head;
    struct ps_journal_facts facts;
    if (bytes.size < FIRST_BYTES || ps_journal_head_read(bytes, &head) != PS_JOURNAL_GOOD)
        return 0;
    if (head.record.type != PS_RECORD_SEGMENT || head.record.epoch != segment.epoch ||
        head.record.position != segment.first || head.head_bytes != PS_JOURNAL_HEAD_BYTES)
        return 0;
    const uint8_t *content = bytes.data + head.head_bytes;
    const struct ps_bytes summed = {content, PS_JOURNAL_SEGMENT_CONTENT_BYTES};
    if (ps_checksum_crc32c(0, summed) != head.content_crc32c)
        return 0;
    ps_journal_segment_read(content, &facts);
    return facts.previous_epoch;
}

/* Removes the epochs between the two, both excluded, from the list. */
static void take_out(struct ps_journal_segments *segments, uint64_t above, uint64_t below)
{
    size_t kept = 0;
    for (size_t i = 0; i < segments->count; i++) {
        uint64_t epoch = segments->entries[i].epoch;
        if (epoch <= above || epoch >= below)
            segments->entries[kept++] = segments->entries[i];
    }
    segments->count = kept;
}

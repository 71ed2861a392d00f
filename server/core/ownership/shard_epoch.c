/* Epochs that rise even when the store's do not. */
#include "server/core/ownership/shard_epoch.h"

#include "checkpoint/catalog.h"
#include "checkpoint/journal_segments.h"

static enum ps_status highest_checkpoint(const struct ps_files *files, const char *folder,
                                         const struct ps_allocator *memory, uint64_t *epoch,
                                         struct ps_error *error);
static enum ps_status highest_segment(const struct ps_files *files, const char *folder,
                                      const struct ps_allocator *memory, uint64_t *epoch,
                                      struct ps_error *error);

enum ps_status ps_shard_epoch(const struct ps_files *files, const char *folder,
                              uint64_t claim_epoch, const struct ps_allocator *memory,
                              uint64_t *epoch, struct ps_error *error)
{
    uint64_t checkpoint = 0;
    uint64_t segment = 0;
    PS_TRY(highest_checkpoint(files, folder, memory, &checkpoint, error));
    PS_TRY(highest_segment(files, folder, memory, &segment, error));
    uint64_t highest = checkpoint > segment ? checkpoint : segment;
    *epoch = claim_epoch > highest ? claim_epoch : highest + claim_epoch;
    return PS_OK;
}

static enum ps_status highest_checkpoint(const struct ps_files *files, const char *folder,
                                         const struct ps_allocator *memory, uint64_t *epoch,
                                         struct ps_error *error)
{
    struct ps_catalog catalog;
    PS_TRY(ps_catalog_init(&catalog, files, folder, memory, error));
    for (size_t i = 0; i < catalog.count; i++)
        *epoch = catalog.entries[i].epoch > *epoch ? catalog.entries[i].epoch : *epoch;
    ps_catalog_fini(&catalog);
    return PS_OK;
}

static enum ps_status highest_segment(const struct ps_files *files, const char *folder,
                                      const struct ps_allocator *memory, uint64_t *epoch,
                                      struct ps_error *error)
{
    struct ps_journal_segments segments;
    PS_TRY(ps_journal_segments_init(&segments, files, folder, UINT64_MAX, memory, error));
    for (size_t i = 0; i < segments.count; i++)
        *epoch = segments.entries[i].epoch > *epoch ? segments.entries[i].epoch : *epoch;
    ps_journal_segments_fini(&segments);
    return PS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Epochs that rise even when the store's do not. The folder is asked for every epoch that it has
 * seen: whoever comes later must count as later to each file there, or recovery would go back to an
 * older one. */
#include "server/core/ownership/shard_epoch.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"
#include "checkpoint/journal_segments.h"

static enum ps_status highest_checkpoint(const struct ps_files *files, const char *folder,
                                         const struct ps_allocator *memory, uint64_t *epoch,
                                         struct ps_error *error);
static enum ps_status highest_segment(const struct ps_files *files, const char *folder,
                                      const struct ps_allocator *memory, uint64_t *epoch,
                                      struct ps_error *error);

/* The sum and not the maximum plus one: two servers that claim one after the other on a new store,
 * both before anything is written, still get different epochs in the order of their claims. */
enum ps_status ps_shard_epoch(const struct ps_files *files, const char *folder,
                              uint64_t claim_epoch, const struct ps_allocator *memory,
                              uint64_t *epoch, struct ps_error *error)
{
    PS_ASSERT(claim_epoch > 0 && epoch != NULL);
    uint64_t checkpoint = 0;
    uint64_t segment = 0;
    PS_TRY(highest_checkpoint(files, folder, memory, &checkpoint, error));
    PS_TRY(highest_segment(files, folder, memory, &segment, error));
    /* The claim alone is right for as long as the store lives, which is the usual case. */
    uint64_t highest = checkpoint > segment ? checkpoint : segment;
    *epoch = claim_epoch > highest ? claim_epoch : highest + claim_epoch;
    PS_ASSERT(*epoch > highest);
    return PS_OK;
}

/* By the names: a file whose content is damaged has had an owner all the same. */
static enum ps_status highest_checkpoint(const struct ps_files *files, const char *folder,
                                         const struct ps_allocator *memory, uint64_t *epoch,
                                         struct ps_error *error)
{
    PS_ASSERT(*epoch == 0);
    /* A folder that is not there has seen no epoch. */
    struct ps_catalog catalog;
    PS_TRY(ps_catalog_init(&catalog, files, folder, memory, error));
    /* The list is sorted by epoch, but what is asked is a maximum, whatever the order. */
    for (size_t i = 0; i < catalog.count; i++)
        *epoch = catalog.entries[i].epoch > *epoch ? catalog.entries[i].epoch : *epoch;
    ps_catalog_fini(&catalog);
    return PS_OK;
}

/* All epochs, also those above our own claim. */
static enum ps_status highest_segment(const struct ps_files *files, const char *folder,
                                      const struct ps_allocator *memory, uint64_t *epoch,
                                      struct ps_error *error)
{
    PS_ASSERT(*epoch == 0);
    /* A segment may be there without a checkpoint, and a checkpoint without a segment. */
    struct ps_journal_segments segments;
    PS_TRY(ps_journal_segments_init(&segments, files, folder, UINT64_MAX, memory, error));
    for (size_t i = 0; i < segments.count; i++)
        *epoch = segments.entries[i].epoch > *epoch ? segments.entries[i].epoch : *epoch;
    ps_journal_segments_fini(&segments);
    return PS_OK;
}

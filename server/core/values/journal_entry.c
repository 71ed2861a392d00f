/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a record something that lives longer than the request: in one allocation, with
 * what it points to. */
#include "server/core/values/journal_entry.h"

#include "base/assert.h"

#include <string.h>

static void count_kept(struct ps_journal_entry *entry, const struct ps_hold *hold,
                       uint64_t content_bytes);
static uint8_t *copy_bytes(uint8_t *at, struct ps_bytes from, struct ps_bytes *copy);

/* One allocation for the record, its name, the client's id, the head and the content or the list of
 * its pieces. The request may point into a message that is gone when the writer comes, so nothing
 * of it is kept by pointer but what `kept` holds. */
struct ps_journal_entry *ps_journal_entry_make(const struct ps_allocator *memory,
                                               const struct ps_journal_draft *draft, void *kept)
{
    struct ps_view content = draft->content;
    struct ps_request_id id = draft->request;
    size_t id_size = id.present ? id.client_id.size : 0;
    /* The head is a piece in front of the content's; pushes have none. */
    size_t head_count = draft->head.size > 0 ? 1 : 0;
    size_t piece_count = head_count + (kept != NULL ? content.piece_count : 1);
    size_t copied = kept != NULL ? 0 : content.size;
    size_t size = sizeof(struct ps_journal_entry) + piece_count * sizeof(struct ps_bytes) +
                  draft->name.size + id_size + draft->head.size + copied;
    struct ps_journal_entry *entry = ps_plain(memory, size);
    if (entry == NULL)
        return NULL;
    *entry = (struct ps_journal_entry){.memory = memory,
                                       .kept = kept,
                                       .drop = draft->hold.drop,
                                       .count_back = draft->hold.count_back,
                                       .bytes = size};
    count_kept(entry, &draft->hold, content.size);
    entry->record = (struct ps_record){.type = draft->type,
                                       .dtype = draft->dtype,
                                       .encoding = draft->encoding,
                                       .session = id.present ? id.session : 0,
                                       .sequence = id.present ? id.sequence : 0};
    PS_ASSERT(kept == NULL || draft->hold.drop != NULL);
    uint8_t *at = (uint8_t *)(entry->pieces + piece_count);
    at = copy_bytes(at, draft->name, &entry->record.name);
    at = copy_bytes(at, (struct ps_bytes){id.client_id.data, id_size}, &entry->record.client_id);
    if (head_count > 0)
        at = copy_bytes(at, draft->head, &entry->pieces[0]);
    /* Head and content are one content for the journal, which asks for no more than pieces. */
    struct ps_bytes *pieces = entry->pieces + head_count;
    if (kept != NULL) {
        memcpy(pieces, content.pieces, content.piece_count * sizeof *pieces);
    } else {
        ps_view_copy(content, 0, at, content.size);
        pieces[0] = (struct ps_bytes){at, content.size};
        PS_ASSERT(at + content.size == (uint8_t *)entry + size);
    }
    entry->record.content = (struct ps_view){.pieces = entry->pieces,
                                             .piece_count = piece_count,
                                             .size = draft->head.size + content.size};
    return entry;
}

/* Memory is counted where it is: of a content that is held, the whole message that it lies in,
 * which may be far more. Of several records of one message the first counts all of it. When that
 * one is written the others, which stand right behind it, count nothing for as long as their
 * writing takes. */
static void count_kept(struct ps_journal_entry *entry, const struct ps_hold *hold,
                       uint64_t content_bytes)
{
    if (entry->kept == NULL)
        return;
    if (hold->count == NULL) {
        entry->bytes += content_bytes;
        return;
    }
    uint64_t counted = hold->count(entry->kept);
    entry->counts_kept = counted > 0;
    entry->bytes += counted;
}

/* Returns where the next bytes go. */
static uint8_t *copy_bytes(uint8_t *at, struct ps_bytes from, struct ps_bytes *copy)
{
    if (from.size > 0)
        memcpy(at, from.data, from.size);
    *copy = (struct ps_bytes){at, from.size};
    return at + from.size;
}

/* The content that was held goes back to whoever received it, which may be the network's library:
 * so no lock of the queue is held here. */
void ps_journal_entry_release(struct ps_journal_entry *entry)
{
    PS_ASSERT(entry->memory != NULL);
    if (entry->counts_kept)
        entry->count_back(entry->kept);
    if (entry->kept != NULL)
        entry->drop(entry->kept);
    ps_release(entry->memory, entry);
}

void ps_journal_entries_release(struct ps_journal_entry *entry)
{
    while (entry != NULL) {
        struct ps_journal_entry *next = entry->next;
        ps_journal_entry_release(entry);
        entry = next;
    }
}

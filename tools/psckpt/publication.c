/* SPDX-License-Identifier: Apache-2.0 */
/* Everything is planned before anything is changed: no half of a job goes back. A command that goes
 * back works on every shard of a job, and the store has a pointer for each. All changes are
 * planned, with nobody owning any of the shards, then all are said, then all are made; what fails
 * before the first is made changes nothing. */
#include "tools/psckpt/publication.h"

#include "tools/json_document.h"

#include <stdio.h>

/* The old pointers are read where they are, the new ones may go elsewhere: with --out and without
 * etcd the new data folder gets a store of its own, and the old folder stays a working whole. The
 * new data folder's store is made here, before the states are written: a folder that cannot be made
 * fails early. */
enum ps_status publication_open(struct publication *publication, const struct psckpt *tool,
                                const char *folder, const char *out, struct ps_error *error)
{
    struct published_options wish = psckpt_store_wish(tool, folder);
    *publication = (struct publication){.memory = tool->box.memory};
    wish.only_asks = out != NULL;
    PS_TRY(published_open(&publication->from, &wish, tool->box.memory, error));
    if (!published_asks(&publication->from))
        return PS_OK;
    publication->to = &publication->from;
    if (out == NULL || wish.etcd != NULL)
        return PS_OK;
    wish.folder = out;
    wish.makes_store = true;
    wish.only_asks = false;
    publication->to = &publication->elsewhere;
    return published_open(&publication->elsewhere, &wish, tool->box.memory, error);
}

/* The message says both ways out, because which of them is right depends on how the servers are
 * run. */
enum ps_status publication_needs_store(const struct publication *publication, const char *folder,
                                       struct ps_error *error)
{
    if (publication->to != NULL)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "where is it published? --etcd URL is missing, and %.120s is not a --data-dir "
                   "of a server without etcd: it has no folder \"store\"",
                   folder);
}

/* The segments of the old folder are read here: whether the journal behind the old pointer is still
 * there decides whether it can be said how much is given up. Each change is planned against the
 * folder that its state came from; set and folders have the same order. */
enum ps_status publication_plan(struct publication *publication, const struct state_set *set,
                                const struct shard_folders *folders, struct ps_error *error)
{
    publication->count = set->count;
    publication->changes =
        ps_zeroed_array(publication->memory, set->count, sizeof *publication->changes);
    if (publication->changes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu shards", set->count);
    for (size_t i = 0; i < set->count; i++) {
        struct ps_journal_segments journal;
        PS_TRY(ps_journal_segments_init(&journal, ps_files_real(), folders->rows[i].path,
                                        UINT64_MAX, publication->memory, error));
        enum ps_status status =
            pointer_change_plan(&publication->changes[i], &publication->from, publication->to,
                                &set->states[i].facts, folders->rows[i].path, &journal, error);
        ps_journal_segments_fini(&journal);
        PS_TRY(status);
    }
    return PS_OK;
}

/* The new folders have no journal: what the old ones had is in the state. Without a store nothing
 * is published, and the operator is told the command for later; a folder that nobody points to is
 * harmless. Planning was done before writing, so a server that owns a shard was found before the
 * new folder appeared. */
enum ps_status publication_write(struct publication *publication, const struct psckpt *tool,
                                 struct state_set *set, struct ps_error *error)
{
    PS_TRY(state_set_write(set, tool, tool->options.out, error));
    if (publication->to == NULL) {
        (void)fprintf(
            stderr,
            "psckpt: nothing was published; for a job with etcd: psckpt publish %s --etcd "
            "URL\n",
            tool->options.out);
        return PS_OK;
    }
    for (size_t i = 0; i < publication->count; i++) {
        struct ps_checkpoint_place place = set->states[i].place;
        place.journal = PS_CHECKPOINT_JOURNAL_NONE;
        PS_TRY(psckpt_from_root(set->states[i].place.path, place.path, sizeof place.path, error));
        pointer_change_set(&publication->changes[i], &place, place.position);
    }
    return publication_make(publication, tool, false, error);
}

/* Saying comes before making, so that whoever watches can still stop the command. The document is
 * printed after all changes were made: a program that reads it takes it for done. With --output
 * json and without a document the text goes to standard error: standard output has another document
 * of the same command. */
enum ps_status publication_make(const struct publication *publication, const struct psckpt *tool,
                                bool document, struct ps_error *error)
{
    struct json_document page;
    json_document_init(&page);
    ps_json_begin_array(&page.json, NULL);
    for (size_t i = 0; i < publication->count; i++)
        pointer_change_say(&publication->changes[i], document && tool->json ? &page.json : NULL,
                           tool->json ? stderr : stdout);
    ps_json_end_array(&page.json);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < publication->count && status == PS_OK; i++)
        status = pointer_change_make(&publication->changes[i], publication->to, error);
    if (status == PS_OK && document && tool->json)
        json_document_print(&page);
    json_document_fini(&page);
    return status;
}

/* The second store is open only when the new pointers go elsewhere. */
void publication_close(struct publication *publication)
{
    if (publication->memory == NULL)
        return;
    published_close(&publication->from);
    published_close(&publication->elsewhere);
    ps_release(publication->memory, publication->changes);
    *publication = (struct publication){0};
}

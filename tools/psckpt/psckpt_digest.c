/* SPDX-License-Identifier: Apache-2.0 */
/* digest: one hash of the state of all shards, and one per shard. Two digests are equal exactly
 * when a trainer could not tell the two states apart, whatever the number of shards, the files or
 * the moment. So one line answers "did the restore bring back the same state?" on two machines that
 * cannot see each other's disks. */
#include "tools/psckpt/psckpt_commands.h"

#include "tools/json_document.h"
#include "tools/psckpt/state_digest.h"
#include "tools/psckpt/state_set.h"

#include <inttypes.h>
#include <stdio.h>

static enum ps_status digest_set(const struct psckpt *tool, const struct state_set *set,
                                 struct ps_error *error);
static enum ps_status text_of(const struct shard_state *states, size_t count, bool sessions,
                              char text[SHA256_TEXT_BYTES], struct ps_error *error);

/* With --to the digest is that of a position in the past, so that a backup can be compared with a
 * server that went on. Where something was passed over (a damaged newer checkpoint), standard error
 * says so: the digest is then that of an older state. */
enum ps_status psckpt_digest(const struct psckpt *tool, struct ps_error *error)
{
    struct state_set set = {0};
    uint64_t to;
    PS_TRY(state_set_number(tool->options.to, RECOVERY_TO_END, &to, error));
    PS_TRY(state_set_load(&set, tool, tool->arguments[0], to, error));
    enum ps_status status = digest_set(tool, &set, error);
    state_set_fini(&set);
    return status;
}

/* The line of all shards together comes first: a script that takes the first word gets the answer
 * it wants for one shard and for many. With a single shard its own line would repeat the same hash,
 * so it is left out of the text. Position and index stand beside each shard's hash but are not in
 * it: two copies of one state at different positions are equal states. The document is made beside
 * the text and thrown away when it is not wanted. */
static enum ps_status digest_set(const struct psckpt *tool, const struct state_set *set,
                                 struct ps_error *error)
{
    bool sessions = tool->options.sessions;
    char text[SHA256_TEXT_BYTES];
    PS_TRY(text_of(set->states, set->count, sessions, text, error));
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "digest", text);
    ps_json_bool(json, "sessions", sessions);
    ps_json_begin_array(json, "shards");
    if (!tool->json)
        (void)printf("%s\n", text);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < set->count && status == PS_OK; i++) {
        const struct ps_checkpoint_facts *facts = &set->states[i].facts;
        if (set->count > 1)
            status = text_of(&set->states[i], 1, sessions, text, error);
        ps_json_begin_object(json, NULL);
        json_text(json, "job", facts->job);
        ps_json_uint(json, "index", facts->index);
        ps_json_uint(json, "position", facts->position);
        json_text(json, "digest", text);
        ps_json_end_object(json);
        if (!tool->json && status == PS_OK && set->count > 1)
            (void)printf("%s  shard %" PRIu32 " at position %" PRIu64 "\n", text, facts->index,
                         facts->position);
    }
    ps_json_end_array(json);
    ps_json_end_object(json);
    if (tool->json && status == PS_OK)
        json_document_print(&document);
    json_document_fini(&document);
    return status;
}

/* Hexadecimal in lower case, as sha256sum prints it. A failure of memory inside the hash comes out
 * here, never as a wrong digest. */
static enum ps_status text_of(const struct shard_state *states, size_t count, bool sessions,
                              char text[SHA256_TEXT_BYTES], struct ps_error *error)
{
    uint8_t digest[SHA256_BYTES];
    PS_TRY(state_digest(states, count, sessions, digest, error));
    sha256_text(digest, text);
    return PS_OK;
}

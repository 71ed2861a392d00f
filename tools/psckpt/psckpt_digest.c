/* digest: one hash of the state of all shards, and one per shard. */
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

int psckpt_digest(const struct psckpt *tool)
{
    struct state_set set = {0};
    struct ps_error error = {0};
    uint64_t to;
    enum ps_status status = state_set_number(tool->options.to, RECOVERY_TO_END, &to, &error);
    if (status == PS_OK)
        status = state_set_load(&set, tool, tool->arguments[0], to, &error);
    if (status == PS_OK)
        status = digest_set(tool, &set, &error);
    state_set_fini(&set);
    return status == PS_OK ? 0 : psckpt_complain(status, &error);
}

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
    ps_json_text(json, "digest", ps_bytes_of_text(text));
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
        ps_json_text(json, "job", ps_bytes_of_text(facts->job));
        ps_json_uint(json, "index", facts->index);
        ps_json_uint(json, "position", facts->position);
        ps_json_text(json, "digest", ps_bytes_of_text(text));
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

static enum ps_status text_of(const struct shard_state *states, size_t count, bool sessions,
                              char text[SHA256_TEXT_BYTES], struct ps_error *error)
{
    uint8_t digest[SHA256_BYTES];
    PS_TRY(state_digest(states, count, sessions, digest, error));
    sha256_text(digest, text);
    return PS_OK;
}

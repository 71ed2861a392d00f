/* SPDX-License-Identifier: Apache-2.0 */
/* show: the facts of one checkpoint and a row per parameter. Only the header is read, and the
 * sessions, so that a checkpoint of a terabyte shows at once. Nothing here says that the arrays are
 * whole: that is what list and verify are for. */
#include "tools/psckpt/psckpt_commands.h"

#include "server/core/update/parameter_settings.h"
#include "tools/json_document.h"
#include "tools/psckpt/checkpoint_survey.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/session_summary.h"

#include <inttypes.h>
#include <stdio.h>

static enum ps_status read_sessions(const struct psckpt *tool, const char *path,
                                    struct session_summary *sessions, struct ps_error *error);
static void show_table(const struct psckpt *tool, const struct ps_header *header,
                       const struct session_summary *sessions);
static void show_json(const struct psckpt *tool, const struct ps_header *header,
                      const struct session_summary *sessions);
static void show_sessions_table(const struct session_summary *sessions);
static void show_sessions_json(struct ps_json_writer *json, const struct session_summary *sessions,
                               bool each);
static void show_parameter_json(const struct psckpt *tool, struct ps_json_writer *json,
                                const struct ps_checkpoint_parameter *about);

/* A folder is refused with the command that lists its files, since "which of them?" is a question
 * for the operator: the newest is not always the published one. The file may belong to a running
 * server: checkpoints do not change once they have their name. */
enum ps_status psckpt_show(const struct psckpt *tool, struct ps_error *error)
{
    struct checkpoint_survey survey;
    struct session_summary sessions = {0};
    const char *path = tool->arguments[0];
    if (path_is_folder(tool->box.files, path))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "show takes one checkpoint; psckpt list %.180s names them", path);
    PS_TRY(checkpoint_survey_init(&survey, &tool->box, path, false, error));
    if (!survey.has_header)
        return ps_fail(error, PS_ERR_CORRUPT, "%.120s: %.130s", path, survey.why.text);
    enum ps_status status = read_sessions(tool, path, &sessions, error);
    if (status == PS_OK && tool->json)
        show_json(tool, &survey.header, &sessions);
    else if (status == PS_OK)
        show_table(tool, &survey.header, &sessions);
    session_summary_fini(&sessions);
    checkpoint_survey_fini(&survey);
    return status;
}

/* Sessions stand at the end of the file, behind the arrays; the reader knows how to find and check
 * them, which a survey of the header alone does not. The arrays are not read for it. */
static enum ps_status read_sessions(const struct psckpt *tool, const char *path,
                                    struct session_summary *sessions, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(tool->box.files, path, tool->box.memory, &reader, error));
    enum ps_status status =
        session_summary_init(sessions, ps_checkpoint_reader_facts(reader), tool->box.memory, error);
    ps_checkpoint_close(reader);
    return status;
}

/* Requests remembered of all clients. Requests remembered are those whose repeat would be
 * recognised and answered again instead of being applied twice. */
static uint64_t count_requests(const struct session_summary *sessions)
{
    uint64_t count = 0;
    for (size_t i = 0; i < sessions->count; i++)
        count += sessions->rows[i].slot_count;
    return count;
}

/* "sgd", or "?" for a configuration that no InitParam takes. The configuration is the bytes of a
 * message that a client sent. A checkpoint of a newer version may hold one that this program does
 * not understand; everything else about the parameter is still worth showing. "?" is no rule's
 * name, so a script cannot take it for one. */
static const char *rule_of(const struct psckpt *tool, const struct ps_checkpoint_parameter *about)
{
    struct ps_optimizer_settings settings;
    if (ps_parameter_settings_read(about->config, about->dtype, tool->box.memory, &settings,
                                   NULL) != PS_OK)
        return "?";
    return ps_rule_name(settings.rule);
}

/* A range has the shape of its whole parameter in both forms: its own is its number of elements.
 * The name comes last in each row: it may be long and hold spaces, and nothing after it has to line
 * up. The facts stand above as words and values, one on a line; then a table for what there are
 * many of. Without --sessions the clients are only counted. */
static void show_table(const struct psckpt *tool, const struct ps_header *header,
                       const struct session_summary *sessions)
{
    const struct ps_checkpoint_facts *facts = &header->facts;
    (void)printf("uuid      %s\njob       ", facts->uuid);
    (void)psckpt_print_text(ps_bytes_of_text(facts->job));
    (void)printf("\nshard     %" PRIu32 " of %" PRIu32 "\nepoch     %" PRIu64 "\nposition  %" PRIu64
                 "\nunix_ns   %" PRIu64 "\nclients   %zu, %" PRIu64 " requests remembered\n\n",
                 facts->index, facts->shard_count, facts->epoch, facts->position, facts->unix_ns,
                 sessions->count, count_requests(sessions));
    /* Step and version differ where a parameter was set anew: the step is the optimizer's count. */
    (void)printf("%-5s %14s %-14s %-10s %6s %12s %12s  %s\n", "TYPE", "ELEMENTS", "SHAPE", "RULE",
                 "STATES", "VERSION", "STEP", "NAME");
    for (size_t i = 0; i < header->count; i++) {
        const struct ps_checkpoint_parameter *about = &header->parameters[i].about;
        char shape[PS_SHAPE_TEXT_BYTES];
        (void)printf("%-5s %14" PRIu64 " %-14s %-10s %6" PRIu32 " %12" PRIu64 " %12" PRIu64 "  ",
                     ps_dtype_name(about->dtype), about->count,
                     ps_shape_text(&about->shape, about->count, shape), rule_of(tool, about),
                     about->state_count, about->version, about->step);
        (void)psckpt_print_text(about->name);
        (void)puts("");
    }
    if (tool->options.sessions)
        show_sessions_table(sessions);
}

/* One row per client. A client whose highest sequence is far above the number of remembered
 * requests is a busy one, whose older requests were forgotten in the usual way; a repeat of those
 * is refused by the server, not applied twice. Client ids are bytes that clients chose, printed as
 * names are. */
static void show_sessions_table(const struct session_summary *sessions)
{
    (void)printf("\n%20s %20s %10s  %s\n", "SESSION", "HIGHEST_SEQUENCE", "REMEMBERED", "CLIENT");
    for (size_t i = 0; i < sessions->count; i++) {
        const struct session_row *row = &sessions->rows[i];
        (void)printf("%20" PRIu64 " %20" PRIu64 " %10" PRIu32 "  ", row->session, row->sequence,
                     row->slot_count);
        (void)psckpt_print_text((struct ps_bytes){row->id, row->id_size});
        (void)puts("");
    }
}

/* The same facts as the table, in the same order; numbers are numbers, so that 64-bit positions
 * keep all their digits in readers that allow it. Unlike the table this has the index and the count
 * of shards as two numbers. */
static void show_json(const struct psckpt *tool, const struct ps_header *header,
                      const struct session_summary *sessions)
{
    const struct ps_checkpoint_facts *facts = &header->facts;
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "uuid", facts->uuid);
    json_text(json, "job", facts->job);
    ps_json_uint(json, "index", facts->index);
    ps_json_uint(json, "shard_count", facts->shard_count);
    ps_json_uint(json, "epoch", facts->epoch);
    ps_json_uint(json, "position", facts->position);
    ps_json_uint(json, "unix_ns", facts->unix_ns);
    show_sessions_json(json, sessions, tool->options.sessions);
    ps_json_begin_array(json, "parameters");
    for (size_t i = 0; i < header->count; i++)
        show_parameter_json(tool, json, &header->parameters[i].about);
    ps_json_end_array(json);
    ps_json_end_object(json);
    json_document_print(&document);
    json_document_fini(&document);
}

/* The id is the number that InitParam gave the parameter, a hash of its name. Configurations are
 * left out: their bytes mean nothing to a reader without the .proto. */
static void show_parameter_json(const struct psckpt *tool, struct ps_json_writer *json,
                                const struct ps_checkpoint_parameter *about)
{
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", about->name);
    json_text(json, "type", ps_dtype_name(about->dtype));
    ps_json_uint(json, "element_count", about->count);
    ps_shape_json(&about->shape, about->count, json, "shape");
    json_text(json, "rule", rule_of(tool, about));
    ps_json_uint(json, "states", about->state_count);
    ps_json_uint(json, "version", about->version);
    ps_json_uint(json, "step", about->step);
    ps_json_uint(json, "id", about->id);
    ps_json_end_object(json);
}

/* The counts are always there; the list of clients only with --sessions, because a job may have had
 * thousands of them. A client's id that is not UTF-8 is shown with replacement characters; the
 * digest of sessions has its exact bytes. */
static void show_sessions_json(struct ps_json_writer *json, const struct session_summary *sessions,
                               bool each)
{
    ps_json_uint(json, "clients", sessions->count);
    ps_json_uint(json, "requests", count_requests(sessions));
    if (!each)
        return;
    ps_json_begin_array(json, "sessions");
    for (size_t i = 0; i < sessions->count; i++) {
        const struct session_row *row = &sessions->rows[i];
        ps_json_begin_object(json, NULL);
        ps_json_text(json, "client", (struct ps_bytes){row->id, row->id_size});
        ps_json_uint(json, "session", row->session);
        ps_json_uint(json, "highest_sequence", row->sequence);
        ps_json_uint(json, "remembered", row->slot_count);
        ps_json_end_object(json);
    }
    ps_json_end_array(json);
}

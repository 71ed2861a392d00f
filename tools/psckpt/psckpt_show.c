/* show: the facts of one checkpoint and a row per parameter. */
#include "tools/psckpt/psckpt_commands.h"

#include "server/core/update/parameter_settings.h"
#include "tools/json_document.h"
#include "tools/psckpt/checkpoint_survey.h"
#include "tools/psckpt/session_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

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

int psckpt_show(const struct psckpt *tool)
{
    struct checkpoint_survey survey;
    struct ps_error error = {0};
    const char *path = tool->arguments[0];
    if (psckpt_is_folder(tool, path)) {
        (void)fprintf(stderr, "psckpt: show takes one checkpoint; psckpt list %s names them\n",
                      path);
        return EX_USAGE;
    }
    enum ps_status status = checkpoint_survey_init(&survey, tool->files, path, false,
                                                   tool->progress, tool->memory, &error);
    if (status != PS_OK)
        return psckpt_complain(status, &error);
    if (!survey.has_header) {
        (void)fprintf(stderr, "psckpt: %s: %s\n", path, survey.why.text);
        return EX_DATAERR;
    }
    struct session_summary sessions = {0};
    status = read_sessions(tool, path, &sessions, &error);
    if (status == PS_OK && tool->json)
        show_json(tool, &survey.header, &sessions);
    else if (status == PS_OK)
        show_table(tool, &survey.header, &sessions);
    session_summary_fini(&sessions);
    checkpoint_survey_fini(&survey);
    return status == PS_OK ? 0 : psckpt_complain(status, &error);
}

static enum ps_status read_sessions(const struct psckpt *tool, const char *path,
                                    struct session_summary *sessions, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(tool->files, path, tool->memory, &reader, error));
    enum ps_status status =
        session_summary_init(sessions, ps_checkpoint_reader_facts(reader), tool->memory, error);
    ps_checkpoint_close(reader);
    return status;
}

/* Requests remembered of all clients. */
static uint64_t count_requests(const struct session_summary *sessions)
{
    uint64_t count = 0;
    for (size_t i = 0; i < sessions->count; i++)
        count += sessions->rows[i].slot_count;
    return count;
}

/* "sgd", or "?" for a configuration that no InitParam takes. */
static const char *rule_of(const struct psckpt *tool, const struct ps_checkpoint_parameter *about)
{
    struct ps_optimizer_settings settings;
    if (ps_parameter_settings_read(about->config, about->dtype, tool->memory, &settings, NULL) !=
        PS_OK)
        return "?";
    return ps_rule_name(settings.rule);
}

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
    (void)printf("%-5s %14s %-10s %6s %12s %12s  %s\n", "TYPE", "ELEMENTS", "RULE", "STATES",
                 "VERSION", "STEP", "NAME");
    for (size_t i = 0; i < header->count; i++) {
        const struct ps_checkpoint_parameter *about = &header->parameters[i].about;
        (void)printf("%-5s %14" PRIu64 " %-10s %6" PRIu32 " %12" PRIu64 " %12" PRIu64 "  ",
                     ps_dtype_name(about->dtype), about->count, rule_of(tool, about),
                     about->state_count, about->version, about->step);
        (void)psckpt_print_text(about->name);
        (void)puts("");
    }
    if (tool->options.sessions)
        show_sessions_table(sessions);
}

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

static void show_json(const struct psckpt *tool, const struct ps_header *header,
                      const struct session_summary *sessions)
{
    const struct ps_checkpoint_facts *facts = &header->facts;
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "uuid", ps_bytes_of_text(facts->uuid));
    ps_json_text(json, "job", ps_bytes_of_text(facts->job));
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

static void show_parameter_json(const struct psckpt *tool, struct ps_json_writer *json,
                                const struct ps_checkpoint_parameter *about)
{
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", about->name);
    ps_json_text(json, "type", ps_bytes_of_text(ps_dtype_name(about->dtype)));
    ps_json_uint(json, "element_count", about->count);
    ps_json_text(json, "rule", ps_bytes_of_text(rule_of(tool, about)));
    ps_json_uint(json, "states", about->state_count);
    ps_json_uint(json, "version", about->version);
    ps_json_uint(json, "step", about->step);
    ps_json_uint(json, "id", about->id);
    ps_json_end_object(json);
}

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

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
#include "tools/psckpt/show_sections.h"
#include "tools/psckpt/state_sections.h"

#include <inttypes.h>
#include <stdio.h>

static enum ps_status show(const struct psckpt *tool, struct ps_checkpoint_reader *reader,
                           struct ps_error *error);
static void show_table(const struct psckpt *tool, const struct ps_checkpoint_reader *reader,
                       const struct session_summary *sessions);
static void show_json(const struct psckpt *tool, const struct ps_checkpoint_reader *reader,
                      const struct session_summary *sessions,
                      const struct section_summary *sections);
static void show_sessions_table(const struct session_summary *sessions);
static void show_sessions_json(struct ps_json_writer *json, const struct session_summary *sessions,
                               bool each);
static void show_parameters_table(const struct psckpt *tool,
                                  const struct ps_checkpoint_reader *reader);
static const char *own_of(const struct ps_checkpoint_parameter *own, char text[48]);
static uint64_t bytes_of(const struct ps_checkpoint_parameter *about);
static void show_parameter_json(const struct psckpt *tool, struct ps_json_writer *json,
                                const struct ps_checkpoint_reader *reader, size_t i);
static void show_own_json(struct ps_json_writer *json, const struct ps_checkpoint_parameter *own);

/* A folder is refused with the command that lists its files, since "which of them?" is a question
 * for the operator: the newest is not always the published one. The file may belong to a running
 * server: checkpoints do not change once they have their name. */
enum ps_status psckpt_show(const struct psckpt *tool, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    const char *path = tool->arguments[0];
    if (path_is_folder(tool->box.files, path))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "show takes one checkpoint; psckpt list %.180s names them", path);
    enum ps_status status =
        ps_checkpoint_open(tool->box.files, path, tool->box.memory, &reader, error);
    if (status == PS_OK)
        status = show(tool, reader, error);
    ps_checkpoint_close(reader);
    return status;
}

/* Sessions and sections stand at the end of the file, behind the arrays; the reader knows how to
 * find and check them, which a survey of the header alone does not. The arrays are not read for it,
 * but of a table whose rows are in two files the keys. */
static enum ps_status show(const struct psckpt *tool, struct ps_checkpoint_reader *reader,
                           struct ps_error *error)
{
    struct session_summary sessions = {0};
    struct section_summary sections;
    struct shard_state state;
    /* A state without parameters: it only keeps the records, contributions too, until they are
     * shown. */
    shard_state_init(&state, tool->box.memory);
    enum ps_status status = session_summary_init(&sessions, ps_checkpoint_reader_facts(reader),
                                                 tool->box.memory, error);
    if (status == PS_OK)
        status = state_sections_read(&state, reader, error);
    if (status == PS_OK)
        status = section_summary_make(&sections, &state, error);
    if (status == PS_OK && tool->json) {
        show_json(tool, reader, &sessions, &sections);
    } else if (status == PS_OK) {
        show_table(tool, reader, &sessions);
        show_sections_table(&sections);
    }
    shard_state_fini(&state);
    session_summary_fini(&sessions);
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
static void show_table(const struct psckpt *tool, const struct ps_checkpoint_reader *reader,
                       const struct session_summary *sessions)
{
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
    (void)printf("uuid      %s\njob       ", facts->uuid);
    (void)psckpt_print_text(ps_bytes_of_text(facts->job));
    /* Most files were written for no set, and have no such line. */
    if (facts->set[0] != '\0')
        (void)printf("\nset       %s", facts->set);
    if (facts->base[0] != '\0')
        (void)printf("\nbase      %s", facts->base);
    char history[PS_UUID_BYTES];
    ps_history_write(&facts->history, history);
    if (history[0] != '\0')
        (void)printf("\nhistory   %s", history);
    (void)printf("\nshard     %" PRIu32 " of %" PRIu32 "\n", facts->index, facts->shard_count);
    if (facts->placement != 0)
        (void)printf("placement %" PRIu64 "\n", facts->placement);
    (void)printf("epoch     %" PRIu64 "\nposition  %" PRIu64 "\nunix_ns   %" PRIu64
                 "\nclients   %zu, %" PRIu64 " requests remembered\n\n",
                 facts->epoch, facts->position, facts->unix_ns, sessions->count,
                 count_requests(sessions));
    show_parameters_table(tool, reader);
    if (tool->options.sessions)
        show_sessions_table(sessions);
}

/* Step and version differ where a parameter was set anew: the step is the optimizer's count. Only a
 * table has a width. Elements are those of the state; of a file that adds to another a column says
 * what of them it has itself, and the bytes are those of that. */
static void show_parameters_table(const struct psckpt *tool,
                                  const struct ps_checkpoint_reader *reader)
{
    bool adds = ps_checkpoint_reader_facts(reader)->base[0] != '\0';
    (void)printf("%-5s %14s %-14s %5s %-10s %6s %12s %12s %14s  %s%s\n", "TYPE", "ELEMENTS",
                 "SHAPE", "WIDTH", "RULE", "STATES", "VERSION", "STEP", "BYTES",
                 adds ? "HERE                  " : "", "NAME");
    for (size_t i = 0; i < ps_checkpoint_parameter_count(reader); i++) {
        const struct ps_checkpoint_parameter *about = ps_checkpoint_parameter(reader, i);
        const struct ps_checkpoint_parameter *own = ps_checkpoint_parameter_own(reader, i);
        struct ps_shape shape = about->is_table ? ps_array_shape(about, 0) : about->shape;
        char text[PS_SHAPE_TEXT_BYTES];
        char width[12] = "-";
        char here[48];
        /* Its rows and its width, which no client has given as a shape. */
        if (about->is_table)
            (void)snprintf(width, sizeof width, "%" PRIu32, about->width);
        (void)printf("%-5s %14" PRIu64 " %-14s %5s %-10s %6" PRIu32 " %12" PRIu64 " %12" PRIu64
                     " %14" PRIu64 "  ",
                     ps_dtype_name(about->dtype), about->count,
                     ps_shape_text(&shape, about->count, text), width, rule_of(tool, about),
                     about->state_count, about->version, about->step, bytes_of(own));
        /* Of a whole file the column would say the same in every row. */
        if (adds)
            (void)printf("%-21s ", own_of(own, here));
        (void)psckpt_print_text(about->name);
        (void)puts("");
    }
}

/* In a few words, the same for every table: how many rows stand in the file, and how many keys of
 * its base went. */
static const char *own_of(const struct ps_checkpoint_parameter *own, char text[48])
{
    if (own->carry == PS_CARRY_WHOLE)
        return "all";
    if (own->carry == PS_CARRY_AS_BASE)
        return "none";
    (void)snprintf(text, 48, "%" PRIu64 " rows, %zu gone", own->rows,
                   own->removed.size / sizeof(uint64_t));
    return text;
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
static void show_json(const struct psckpt *tool, const struct ps_checkpoint_reader *reader,
                      const struct session_summary *sessions,
                      const struct section_summary *sections)
{
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "uuid", facts->uuid);
    json_text(json, "job", facts->job);
    json_text(json, "set", facts->set);
    if (facts->base[0] != '\0')
        json_text(json, "base", facts->base);
    char history[PS_UUID_BYTES];
    ps_history_write(&facts->history, history);
    if (history[0] != '\0')
        json_text(json, "history", history);
    ps_json_uint(json, "index", facts->index);
    ps_json_uint(json, "shard_count", facts->shard_count);
    if (facts->placement != 0)
        ps_json_uint(json, "placement", facts->placement);
    ps_json_uint(json, "epoch", facts->epoch);
    ps_json_uint(json, "position", facts->position);
    ps_json_uint(json, "unix_ns", facts->unix_ns);
    show_sessions_json(json, sessions, tool->options.sessions);
    ps_json_begin_array(json, "parameters");
    for (size_t i = 0; i < ps_checkpoint_parameter_count(reader); i++)
        show_parameter_json(tool, json, reader, i);
    ps_json_end_array(json);
    show_sections_json(sections, json);
    ps_json_end_object(json);
    json_document_print(&document);
    json_document_fini(&document);
}

/* Of all arrays of a parameter that a file has: what it takes of it. */
static uint64_t bytes_of(const struct ps_checkpoint_parameter *about)
{
    uint64_t bytes = 0;
    for (uint32_t array = 0; array < ps_array_carried(about); array++)
        bytes += ps_array_bytes(about, array);
    return bytes;
}

/* The id is the number that InitParam gave the parameter, a hash of its name. Configurations are
 * left out: their bytes mean nothing to a reader without the .proto. */
static void show_parameter_json(const struct psckpt *tool, struct ps_json_writer *json,
                                const struct ps_checkpoint_reader *reader, size_t i)
{
    const struct ps_checkpoint_parameter *about = ps_checkpoint_parameter(reader, i);
    const struct ps_checkpoint_parameter *own = ps_checkpoint_parameter_own(reader, i);
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", about->name);
    json_text(json, "type", ps_dtype_name(about->dtype));
    ps_json_uint(json, "element_count", about->count);
    struct ps_shape shape = about->is_table ? ps_array_shape(about, 0) : about->shape;
    ps_shape_json(&shape, about->count, json, "shape");
    if (about->is_table) {
        ps_json_uint(json, "rows", about->rows);
        ps_json_uint(json, "width", about->width);
    }
    /* As the file has it: how old the rows of a table were. */
    if (about->ages.size > 0)
        ps_json_text(json, "ages", about->ages);
    ps_json_uint(json, "bytes", bytes_of(own));
    json_text(json, "rule", rule_of(tool, about));
    ps_json_uint(json, "states", about->state_count);
    ps_json_uint(json, "version", about->version);
    ps_json_uint(json, "step", about->step);
    ps_json_uint(json, "id", about->id);
    if (ps_checkpoint_reader_facts(reader)->base[0] != '\0')
        show_own_json(json, own);
    ps_json_end_object(json);
}

/* Of a file that adds to another: which part of the parameter it has itself. */
static void show_own_json(struct ps_json_writer *json, const struct ps_checkpoint_parameter *own)
{
    bool rows = own->carry == PS_CARRY_ROWS;
    json_text(json, "carries",
              rows                             ? "rows"
              : own->carry == PS_CARRY_AS_BASE ? "as-base"
                                               : "whole");
    if (!rows)
        return;
    ps_json_uint(json, "own_rows", own->rows);
    ps_json_uint(json, "removed_rows", own->removed.size / sizeof(uint64_t));
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

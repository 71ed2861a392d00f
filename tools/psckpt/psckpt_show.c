/* show: the facts of one checkpoint and a row per parameter. */
#include "tools/psckpt/psckpt_commands.h"

#include "server/core/parameter_settings.h"
#include "tools/json_document.h"
#include "tools/psckpt/checkpoint_survey.h"

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

static void show_table(const struct psckpt *tool, const struct ps_header *header);
static void show_json(const struct psckpt *tool, const struct ps_header *header);
static void show_parameter_json(const struct psckpt *tool, struct ps_json_writer *json,
                                const struct ps_checkpoint_parameter *about);

int psckpt_show(const struct psckpt *tool)
{
    struct checkpoint_survey survey;
    struct ps_error error = {0};
    const char *path = tool->arguments[0];
    enum ps_status status = checkpoint_survey_init(&survey, tool->files, path, false,
                                                   tool->progress, tool->memory, &error);
    if (status != PS_OK)
        return psckpt_complain(status, &error);
    if (!survey.has_header) {
        (void)fprintf(stderr, "psckpt: %s: %s\n", path, survey.why.text);
        return EX_DATAERR;
    }
    if (tool->json)
        show_json(tool, &survey.header);
    else
        show_table(tool, &survey.header);
    checkpoint_survey_fini(&survey);
    return 0;
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

static void show_table(const struct psckpt *tool, const struct ps_header *header)
{
    const struct ps_checkpoint_facts *facts = &header->facts;
    (void)printf("uuid      %s\njob       ", facts->uuid);
    (void)psckpt_print_text(ps_bytes_of_text(facts->job));
    (void)printf("\nshard     %" PRIu32 " of %" PRIu32 "\nepoch     %" PRIu64 "\nposition  %" PRIu64
                 "\nunix_ns   %" PRIu64 "\n\n",
                 facts->index, facts->shard_count, facts->epoch, facts->position, facts->unix_ns);
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
}

static void show_json(const struct psckpt *tool, const struct ps_header *header)
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

/* list: every shard's checkpoints and journal segments. */
#include "tools/psckpt/psckpt_commands.h"

#include "checkpoint/catalog.h"
#include "tools/json_document.h"
#include "tools/psckpt/checkpoint_survey.h"
#include "tools/psckpt/journal_survey.h"
#include "tools/psckpt/published.h"
#include "tools/psckpt/shard_folders.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* What is printed while folders are gone through. */
struct listing {
    const struct psckpt *tool;
    struct published published;
    struct json_document document;
    int code; /* of a file that could not be read */
};

static enum ps_status list_folder(struct listing *listing, const struct shard_folder *folder,
                                  struct ps_error *error);
static enum ps_status list_checkpoints(struct listing *listing, const struct shard_folder *folder,
                                       struct ps_error *error);
static enum ps_status list_checkpoint(struct listing *listing, const struct shard_folder *folder,
                                      const struct ps_catalog_entry *entry, const char *published,
                                      struct ps_error *error);
static void checkpoint_row(const struct ps_catalog_entry *entry,
                           const struct checkpoint_survey *survey, const char *state,
                           const char *published);
static enum ps_status list_journal(struct listing *listing, const struct shard_folder *folder,
                                   struct ps_error *error);
static void segment_json(struct ps_json_writer *json, const struct segment_survey *row);
static void checkpoint_json(struct ps_json_writer *json, const struct ps_catalog_entry *entry,
                            const struct checkpoint_survey *survey, const char *state,
                            const char *published);

int psckpt_list(const struct psckpt *tool)
{
    struct listing listing = {.tool = tool};
    struct shard_folders folders = {0};
    struct ps_error error = {0};
    const struct published_options wish = {
        .etcd = tool->options.etcd,
        .user = tool->options.etcd_user,
        .password = tool->options.etcd_password,
        .timeout_ms = tool->options.timeout_ms,
    };
    json_document_init(&listing.document);
    ps_json_begin_array(&listing.document.json, NULL);
    enum ps_status status = published_open(&listing.published, &wish, tool->memory, &error);
    if (status == PS_OK)
        status =
            shard_folders_init(&folders, tool->files, tool->arguments[0], tool->memory, &error);
    for (size_t i = 0; i < folders.count && status == PS_OK; i++)
        status = list_folder(&listing, &folders.rows[i], &error);
    if (status == PS_OK) {
        ps_json_end_array(&listing.document.json);
        if (tool->json)
            json_document_print(&listing.document);
    }
    json_document_fini(&listing.document);
    shard_folders_fini(&folders);
    published_close(&listing.published);
    return status == PS_OK ? listing.code : psckpt_complain(status, &error);
}

static enum ps_status list_folder(struct listing *listing, const struct shard_folder *folder,
                                  struct ps_error *error)
{
    struct ps_json_writer *json = &listing->document.json;
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "folder", ps_bytes_of_text(folder->path));
    ps_json_text(json, "job", ps_bytes_of_text(folder->job));
    if (!listing->tool->json) {
        (void)psckpt_print_text(ps_bytes_of_text(folder->path));
        (void)puts("");
    }
    ps_json_begin_array(json, "checkpoints");
    PS_TRY(list_checkpoints(listing, folder, error));
    ps_json_end_array(json);
    ps_json_begin_array(json, "journal");
    PS_TRY(list_journal(listing, folder, error));
    ps_json_end_array(json);
    ps_json_end_object(json);
    return PS_OK;
}

static enum ps_status list_checkpoints(struct listing *listing, const struct shard_folder *folder,
                                       struct ps_error *error)
{
    const struct psckpt *tool = listing->tool;
    char published[37];
    PS_TRY(published_uuid(&listing->published, folder->job, folder->index, published, error));
    struct ps_catalog catalog;
    PS_TRY(ps_catalog_init(&catalog, tool->files, folder->path, tool->memory, error));
    if (!tool->json && catalog.count > 0)
        (void)printf("  %-10s %12s %12s %-20s %14s %8s %-10s %-9s %s\n", "KIND", "EPOCH",
                     "POSITION", "TIME", "BYTES", "PARAMS", "STATE", "PUBLISHED", "NAME");
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < catalog.count && status == PS_OK; i++)
        status = list_checkpoint(listing, folder, &catalog.entries[i],
                                 listing->published.kv == NULL ? NULL : published, error);
    ps_catalog_fini(&catalog);
    return status;
}

static enum ps_status list_checkpoint(struct listing *listing, const struct shard_folder *folder,
                                      const struct ps_catalog_entry *entry, const char *published,
                                      struct ps_error *error)
{
    const struct psckpt *tool = listing->tool;
    char path[SHARD_FOLDER_PATH_BYTES + sizeof entry->name + 1];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, entry->name);
    struct checkpoint_survey survey;
    struct ps_error why = {0};
    enum ps_status status = checkpoint_survey_init(&survey, tool->files, path, true, tool->progress,
                                                   tool->memory, &why);
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "%s", why.text);
    if (status != PS_OK)
        listing->code = psckpt_complain(status, &why);
    const char *state = status != PS_OK           ? "unreadable"
                        : survey.damage_count > 0 ? "damaged"
                                                  : "whole";
    const char *word = published == NULL ? "-" : strcmp(published, entry->uuid) == 0 ? "yes" : "no";
    if (tool->json)
        checkpoint_json(&listing->document.json, entry, &survey, state, word);
    else
        checkpoint_row(entry, &survey, state, word);
    checkpoint_survey_fini(&survey);
    return PS_OK;
}

static void checkpoint_row(const struct ps_catalog_entry *entry,
                           const struct checkpoint_survey *survey, const char *state,
                           const char *published)
{
    char when[32] = "-";
    if (survey->has_header) {
        time_t seconds = (time_t)(survey->header.facts.unix_ns / 1000000000u);
        struct tm parts;
        if (gmtime_r(&seconds, &parts) != NULL)
            (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    (void)printf("  %-10s %12" PRIu64 " %12" PRIu64 " %-20s %14" PRIu64 " %8zu %-10s %-9s %s\n",
                 "checkpoint", entry->epoch, entry->position, when, survey->bytes,
                 survey->has_header ? survey->header.count : 0, state, published, entry->name);
}

static void checkpoint_json(struct ps_json_writer *json, const struct ps_catalog_entry *entry,
                            const struct checkpoint_survey *survey, const char *state,
                            const char *published)
{
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", ps_bytes_of_text(entry->name));
    ps_json_text(json, "uuid", ps_bytes_of_text(entry->uuid));
    ps_json_uint(json, "epoch", entry->epoch);
    ps_json_uint(json, "position", entry->position);
    ps_json_uint(json, "bytes", survey->bytes);
    if (survey->has_header) {
        ps_json_uint(json, "unix_ns", survey->header.facts.unix_ns);
        ps_json_uint(json, "parameters", survey->header.count);
    }
    ps_json_text(json, "state", ps_bytes_of_text(state));
    if (published[0] != '-')
        ps_json_bool(json, "published", published[0] == 'y');
    ps_json_end_object(json);
}

static enum ps_status list_journal(struct listing *listing, const struct shard_folder *folder,
                                   struct ps_error *error)
{
    const struct psckpt *tool = listing->tool;
    struct journal_survey survey;
    PS_TRY(journal_survey_init(&survey, tool->files, folder->path, tool->progress, tool->memory,
                               error));
    if (!tool->json && survey.count > 0)
        (void)printf("  %-10s %12s %12s %12s %14s %12s %-9s %s\n", "KIND", "EPOCH", "FIRST", "LAST",
                     "BYTES", "TORN_BYTES", "STATE", "NAME");
    for (size_t i = 0; i < survey.count; i++) {
        const struct segment_survey *row = &survey.rows[i];
        if (tool->json)
            segment_json(&listing->document.json, row);
        else
            (void)printf("  %-10s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %14" PRIu64
                         " %12" PRIu64 " %-9s %s\n",
                         "journal", row->epoch, row->first, row->last, row->bytes,
                         row->bytes - row->offset, segment_finding_word(row->finding), row->name);
    }
    journal_survey_fini(&survey);
    return PS_OK;
}

static void segment_json(struct ps_json_writer *json, const struct segment_survey *row)
{
    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", ps_bytes_of_text(row->name));
    ps_json_uint(json, "epoch", row->epoch);
    ps_json_uint(json, "first", row->first);
    ps_json_uint(json, "last", row->last);
    ps_json_uint(json, "bytes", row->bytes);
    ps_json_uint(json, "torn_bytes", row->bytes - row->offset);
    ps_json_text(json, "state", ps_bytes_of_text(segment_finding_word(row->finding)));
    ps_json_end_object(json);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* export and import: to and from plain files of other programs. Export gives up what only servers
 * need (versions, optimizer state, sessions) and keeps the values; import begins a job from values,
 * with optimizer state as InitParam would make it. Both go through whole states in memory: a model
 * that fits a machine for training fits one for this. */
#include "tools/psckpt/psckpt_commands.h"

#include "optimizer/optimizer.h"
#include "server/core/update/parameter_settings.h"
#include "tools/optimizer_choice.h"
#include "tools/psckpt/imported_tables.h"
#include "tools/psckpt/joined_state.h"
#include "tools/psckpt/model_set.h"
#include "tools/psckpt/parameter_room.h"
#include "tools/psckpt/plain_tensors.h"
#include "tools/psckpt/spread_state.h"
#include "tools/psckpt/state_sections.h"
#include "tools/psckpt/state_set.h"
#include "tools/psckpt/tensor_file.h"
#include "tools/psckpt/tensor_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The name is ours, since no parameter gives one to all of them. */
#define MERGED "merged"

static enum ps_status export_state(const struct psckpt *tool, struct shard_state *whole,
                                   struct ps_error *error);
static enum ps_status export_files(const struct tensor_target *target, const char *format,
                                   const struct ps_checkpoint_parameter *rows, size_t count,
                                   struct ps_error *error);
static enum ps_status give_optimizer(const struct psckpt *tool, struct shard_state *state,
                                     struct ps_error *error);
static enum ps_status give_rule(const struct psckpt *tool, struct ps_checkpoint_parameter *row,
                                struct ps_bytes config, struct ps_optimizer_settings *settings,
                                size_t *left_out, struct ps_error *error);
static enum ps_status give_states(struct shard_state *state, struct ps_checkpoint_parameter *row,
                                  const struct ps_optimizer_settings *settings,
                                  struct ps_error *error);

/* One shard alone is exported as it is stored, ranges too; a folder of several must be complete. An
 * incomplete set of shards is refused, because a model file with holes in it would be loaded by
 * somebody who does not know. The join is a view, so memory holds the parameters once, not
 * twice. */
enum ps_status psckpt_export(const struct psckpt *tool, struct ps_error *error)
{
    struct state_set set;
    struct shard_state whole;
    size_t uneven = 0;
    if (tool->options.out == NULL || tool->options.out[0] == '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT, "where to? --out DIR is missing");
    if (tool->options.merge && strcmp(tool->options.format, "npy") == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--merge is for --format safetensors: an npy file holds one array");
    /* Of a set its checkpoints alone: what the journals have behind them is not of one asking, and
     * two exports of a set are equal to the byte, whatever was pushed in between. */
    if (tool->options.set != NULL)
        PS_TRY(model_set_load(&set, tool, tool->arguments[0], error));
    else
        PS_TRY(state_set_load(&set, tool, tool->arguments[0], RECOVERY_TO_END, error));
    shard_state_init(&whole, tool->box.memory);
    enum ps_status status = PS_OK;
    if (set.count > 1) {
        status = joined_state_complete(set.states, set.count, error);
        if (status == PS_OK)
            status = joined_state_make(set.states, set.count, &whole, &uneven, error);
        if (status == PS_OK)
            status = parameter_room_take_tables(&whole, error);
        if (status == PS_OK)
            status = export_state(tool, &whole, error);
    } else {
        status = export_state(tool, &set.states[0], error);
    }
    /* Each shard's state is where its journal ends: parameters of several shards are as trainers
     * have seen them one by one, and not at one moment. */
    if (status == PS_OK && set.count > 1 && tool->options.set == NULL)
        (void)fprintf(stderr, "psckpt: each shard as it ends; --set NAME exports one snapshot of "
                              "all (psctl checkpoint --model)\n");
    /* Where a newer checkpoint was passed over, it shows here that the files are older. */
    if (status == PS_OK && !tool->json)
        for (size_t i = 0; i < set.count; i++)
            (void)printf("shard %" PRIu32 ": as of position %" PRIu64 "\n",
                         set.states[i].facts.index, set.states[i].facts.position);
    /* Contributions are to values that are not there yet: the files have the model as of the last
     * round that ended, as a pull would. */
    size_t held = 0;
    for (size_t i = 0; i < set.count; i++)
        held += state_sections_held(&set.states[i].facts);
    if (status == PS_OK && held > 0)
        (void)fprintf(stderr, "psckpt: %zu contributions to open rounds are not in it\n", held);
    /* Values of ranges from different instants are a model that no trainer has seen; usually
     * harmless, but it is said. */
    if (uneven > 0)
        (void)fprintf(stderr, "psckpt: of %zu parameters some ranges are newer than others\n",
                      uneven);
    shard_state_fini(&whole);
    state_set_fini(&set);
    return status;
}

/* The folder may exist and hold other files: exported files have names of their own and never
 * replace one. The number of bytes is that of values alone, which is what a reader of the files
 * will load. --merge makes one file of all parameters, which is what loaders of whole models
 * expect. */
static enum ps_status export_state(const struct psckpt *tool, struct shard_state *whole,
                                   struct ps_error *error)
{
    const struct ps_files *files = tool->box.files;
    const struct tensor_target target = {&tool->box, tool->options.out};
    struct plain_tensors tensors;
    uint64_t total = 0;
    PS_TRY(plain_tensors_make(&tensors, whole, error));
    PS_TRY(files->make_folder(files->self, tool->options.out, error));
    for (size_t i = 0; i < tensors.count; i++)
        total += tensors.rows[i].values.size;
    progress_begin(tool->box.progress, "writing", total);
    if (tool->options.merge)
        PS_TRY(tensor_file_safetensors(&target, MERGED ".safetensors", tensors.rows, tensors.count,
                                       error));
    /* Tensors of one parameter stand side by side, so that they come into one file. */
    for (size_t i = 0; i < tensors.count && !tool->options.merge;) {
        size_t count = plain_tensors_of_one(&tensors, i);
        PS_TRY(export_files(&target, tool->options.format, &tensors.rows[i], count, error));
        i += count;
    }
    progress_end(tool->box.progress);
    if (tool->json)
        (void)printf("{\"parameters\":%zu,\"bytes\":%" PRIu64 "}\n", whole->count, total);
    else
        (void)printf("wrote %zu parameters, %" PRIu64 " bytes\n", whole->count, total);
    return PS_OK;
}

/* One file per parameter is the default, since npy knows nothing else and a single tensor is what
 * one mostly looks for; a table's keys go into its file, or where that holds one array beside it.
 * An existing file of that name fails the command: it may be the export of another day. */
static enum ps_status export_files(const struct tensor_target *target, const char *format,
                                   const struct ps_checkpoint_parameter *rows, size_t count,
                                   struct ps_error *error)
{
    char name[TENSOR_FILE_NAME_BYTES];
    if (strcmp(format, "npy") == 0) {
        for (size_t i = 0; i < count; i++) {
            PS_TRY(tensor_file_name(rows[i].name, ".npy", name, error));
            PS_TRY(tensor_file_npy(target, name, &rows[i], error));
        }
        return PS_OK;
    }
    PS_TRY(tensor_file_name(rows->name, ".safetensors", name, error));
    return tensor_file_safetensors(target, name, rows, count, error);
}

/* The steps are those of the first trainer of a job: values, optimizer, placement. A server that
 * starts with the result as its data folder finds an initialised job at position 0. The job's name
 * is part of the path of the new shards, as servers have it. Nothing is written before all shards
 * could be made. */
enum ps_status psckpt_import(const struct psckpt *tool, struct ps_error *error)
{
    struct shard_state whole;
    struct state_set set = {0};
    uint32_t shard_count = 1;
    PS_TRY(psckpt_check_out(tool, error));
    if (tool->options.to != NULL)
        PS_TRY(state_set_shards(tool->options.to, &shard_count, error));
    shard_state_init(&whole, tool->box.memory);
    enum ps_status status = tensor_reader_read(&whole, &tool->box, tool->arguments[0], error);
    if (status == PS_OK)
        status = imported_tables_join(&whole, error);
    if (status == PS_OK)
        status = give_optimizer(tool, &whole, error);
    if (tool->options.job != NULL)
        whole.facts.job = tool->options.job;
    if (status == PS_OK)
        status = state_set_make(&set, tool->box.memory, shard_count, error);
    if (status == PS_OK)
        status = spread_state(&whole, tool->options.split_bytes, set.states, shard_count, error);
    if (status == PS_OK)
        status = state_set_write(&set, tool, tool->options.out, error);
    state_set_fini(&set);
    shard_state_fini(&whole);
    return status;
}

/* Epoch and position are 0: whatever server loads it comes later. The bytes of the configuration
 * are in a room of the state once, and every row of floats points to them. How many parameters got
 * another one is told once: a model may have hundreds of counters. */
static enum ps_status give_optimizer(const struct psckpt *tool, struct shard_state *state,
                                     struct ps_error *error)
{
    const struct psckpt_options *options = &tool->options;
    struct ps_buffer config;
    ps_buffer_init(&config, tool->box.memory, PS_CONFIG_BYTES_MAX);
    struct ps_bytes copy = {NULL, 0};
    size_t left_out = 0; /* whole numbers, of which the rule knows nothing */
    enum ps_status status =
        ps_optimizer_choice(options->optimizer, options->rate, options->l2, &config, error);
    if (status == PS_OK) {
        copy = shard_state_copy(state, (struct ps_bytes){(const uint8_t *)config.text, config.size},
                                error);
        status = copy.data == NULL ? PS_ERR_NO_MEMORY : PS_OK;
    }
    ps_buffer_fini(&config);
    for (size_t i = 0; i < state->count && status == PS_OK; i++) {
        struct ps_checkpoint_parameter *row = &state->parameters[i];
        struct ps_optimizer_settings settings;
        /* A table's has its width, so that each has one of its own. */
        struct ps_bytes own = copy;
        if (row->is_table)
            status = imported_tables_config(state, row, copy, &own, error);
        if (status == PS_OK)
            status = give_rule(tool, row, own, &settings, &left_out, error);
        if (status == PS_OK)
            status = give_states(state, row, &settings, error);
    }
    if (left_out > 0)
        (void)fprintf(stderr, "psckpt: %zu parameters of whole numbers get sgd, rate 1\n",
                      left_out);
    return status;
}

/* The configuration is read back as a server will do it, so that what no server takes is refused
 * here, by name. Models have counters beside their weights (of batches that a normalisation has
 * seen): whole numbers, which most rules do not take, get what InitParam gives without a
 * configuration. Nobody pushes to them as a rule, so that what they get is mostly of no effect. */
static enum ps_status give_rule(const struct psckpt *tool, struct ps_checkpoint_parameter *row,
                                struct ps_bytes config, struct ps_optimizer_settings *settings,
                                size_t *left_out, struct ps_error *error)
{
    struct ps_error why = {0};
    row->config = config;
    enum ps_status status =
        ps_parameter_settings_read(config, row->dtype, tool->box.memory, settings, &why);
    if (status == PS_OK || status == PS_ERR_NO_MEMORY || ps_dtype_is_float(row->dtype) ||
        row->is_table)
        return status == PS_OK ? PS_OK
                               : ps_fail(error, status, "parameter %.80s: %.150s",
                                         (const char *)row->name.data, why.text);
    row->config = (struct ps_bytes){NULL, 0};
    (*left_out)++;
    return ps_parameter_settings_read(row->config, row->dtype, tool->box.memory, settings, error);
}

/* The number of states and what they begin with are the rule's; import knows no rule by name. Each
 * array of states has a room of its own: a model that is imported is large, and one allocation for
 * all could be refused where many are not. */
static enum ps_status give_states(struct shard_state *state, struct ps_checkpoint_parameter *row,
                                  const struct ps_optimizer_settings *settings,
                                  struct ps_error *error)
{
    row->state_count = ps_rule_states(settings->rule);
    for (uint32_t i = 0; i < row->state_count; i++) {
        uint8_t *bytes = shard_state_room(state, row->values.size, 1, error);
        struct ps_bytes *piece = shard_state_room(state, 1, sizeof *piece, error);
        if (bytes == NULL || piece == NULL)
            return PS_ERR_NO_MEMORY;
        ps_optimizer_fill(row->dtype, ps_optimizer_state_start(settings, i), bytes,
                          (size_t)row->count);
        *piece = (struct ps_bytes){bytes, row->values.size};
        row->states[i] = ps_view_of(piece);
    }
    return PS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter by parameter, newest checkpoint first. For each parameter the checkpoints are tried
 * from the newest to the oldest, first for values and optimizer state together, then, when no file
 * has both whole, for the values alone. Each tensor is judged by its own checksum, so damage
 * elsewhere in a file costs only what it hit. Everything that is not taken from the newest file is
 * reported. */
#include "tools/psckpt/salvage.h"

#include "checkpoint/catalog.h"
#include "checkpoint/journal_segments.h"
#include "optimizer/optimizer.h"
#include "server/core/recovery/recovery_replay.h"
#include "server/core/update/parameter_settings.h"
#include "tools/psckpt/folder_histories.h"
#include "tools/psckpt/parameter_room.h"
#include "tools/psckpt/session_summary.h"
#include "tools/psckpt/state_sections.h"

#include <inttypes.h>
#include <string.h>

/* A checkpoint whose header is whole. The reader was opened in a way that allows damaged arrays:
 * only its header is known to be whole. */
struct source {
    struct ps_checkpoint_reader *reader; /* owned */
    char path[1200];
    bool has_sessions; /* they are whole */
    bool is_used;
};

/* At most SALVAGE_FILES_MAX sources, which is more than servers keep. */
struct salvaging {
    const struct salvage_wish *wish;
    struct salvage *salvage;
    const char *path; /* of the folder or file, for the report */
    struct source sources[SALVAGE_FILES_MAX];
    size_t source_count;
    size_t *files; /* of each parameter that was taken: which source it is of; the state's room */
};

static enum ps_status open_folder(struct salvaging *salvaging, struct ps_error *error);
static enum ps_status open_source(struct salvaging *salvaging, const char *path,
                                  struct ps_error *error);
static void close_sources(struct salvaging *salvaging);
static enum ps_status take_all(struct salvaging *salvaging, struct ps_error *error);
static enum ps_status take(struct salvaging *salvaging, const struct ps_checkpoint_parameter *about,
                           struct ps_error *error);
static enum ps_status try_source(struct salvaging *salvaging, size_t number,
                                 const struct ps_checkpoint_parameter *about,
                                 struct parameter_room *room, bool values_only, bool *taken,
                                 struct ps_error *error);
static enum ps_status fill_fresh(const struct ps_checkpoint_parameter *row,
                                 const struct parameter_room *room,
                                 const struct ps_allocator *memory, struct ps_error *error);
static size_t find(const struct ps_checkpoint_reader *reader,
                   const struct ps_checkpoint_parameter *about);
static enum ps_status set_facts(struct salvaging *salvaging, struct ps_error *error);
static enum ps_status take_sections(struct salvaging *salvaging, size_t oldest,
                                    struct ps_error *error);
static enum ps_status take_section(struct salvaging *salvaging, enum ps_checkpoint_section section,
                                   size_t oldest, struct ps_error *error);
static void say_left_out(const struct salvaging *salvaging, const struct section_choice *choice);
static enum ps_status give_births(struct salvaging *salvaging, size_t oldest,
                                  struct ps_error *error);

/* The steps depend on each other: facts are known when it is known which files were used. On
 * success the caller owns the state; on failure there is nothing to release. */
enum ps_status salvage_load(struct salvage *salvage, const struct salvage_wish *wish,
                            const char *path, struct ps_error *error)
{
    struct salvaging salvaging = {.wish = wish, .salvage = salvage, .path = path};
    *salvage = (struct salvage){0};
    shard_state_init(&salvage->state, wish->box->memory);
    enum ps_status status = open_folder(&salvaging, error);
    if (status == PS_OK)
        status = take_all(&salvaging, error);
    if (status == PS_OK)
        status = set_facts(&salvaging, error);
    if (status == PS_OK)
        status = shard_state_seal(&salvage->state, error);
    close_sources(&salvaging);
    if (status != PS_OK)
        shard_state_fini(&salvage->state);
    return status;
}

/* A path that holds nothing is one file. A path without any checkpoint in it is taken for a file;
 * that it is neither then is found when it is opened. All checkpoints of the folder are opened at
 * once, since each parameter may come from another one. */
static enum ps_status open_folder(struct salvaging *salvaging, struct ps_error *error)
{
    const struct salvage_wish *wish = salvaging->wish;
    struct ps_catalog catalog = {0};
    struct ps_journal_segments segments = {0};
    struct ps_history own;
    enum ps_status status =
        ps_catalog_init(&catalog, wish->box->files, salvaging->path, wish->box->memory, error);
    if (status == PS_ERR_NO_MEMORY)
        return status;
    if (status != PS_OK || catalog.count == 0) {
        ps_catalog_fini(&catalog);
        status = open_source(salvaging, salvaging->path, error);
        if (status == PS_ERR_IO || status == PS_ERR_NOT_FOUND)
            return ps_fail(error, PS_ERR_NOT_FOUND, "%.200s holds no checkpoint", salvaging->path);
        return status;
    }
    /* Parameters of two trainings make no model, whole as they may be. */
    status = folder_histories_check(wish->box, salvaging->path, &own, error);
    if (status == PS_OK)
        status = ps_journal_segments_init(&segments, wish->box->files, salvaging->path, UINT64_MAX,
                                          wish->box->memory, error);
    for (size_t i = 0; i < catalog.count && status == PS_OK; i++) {
        const struct ps_catalog_entry *entry = &catalog.entries[i];
        char path[sizeof salvaging->sources[0].path];
        (void)snprintf(path, sizeof path, "%.1000s/%s", salvaging->path, entry->name);
        /* Files of an epoch that was overtaken hold updates that were never acknowledged, and are
         * no source. */
        if (salvaging->source_count < SALVAGE_FILES_MAX &&
            !ps_recovery_is_superseded(&segments, entry->epoch, entry->position))
            status = open_source(salvaging, path, error);
    }
    if (segments.memory != NULL)
        ps_journal_segments_fini(&segments);
    ps_catalog_fini(&catalog);
    if (status == PS_OK && salvaging->source_count == 0)
        status = ps_fail(error, PS_ERR_CORRUPT, "%.200s: no checkpoint has a whole header",
                         salvaging->path);
    return status;
}

/* Of another shard, or without a whole header: said, and passed over. The first source decides
 * which shard it is about. A file of another shard in the folder was put there by hand; taking a
 * parameter from it would mix two shards. The first source is compared with itself, which keeps the
 * loop without a special case. */
static enum ps_status open_source(struct salvaging *salvaging, const char *path,
                                  struct ps_error *error)
{
    const struct salvage_wish *wish = salvaging->wish;
    struct source *source = &salvaging->sources[salvaging->source_count];
    struct ps_error why = {0};
    enum ps_status status = ps_checkpoint_open_damaged(
        wish->box->files, path, wish->box->memory, &source->reader, &source->has_sessions, &why);
    /* A file that was named by the operator must be usable; one of many in a folder may be passed
     * over. */
    if (status == PS_ERR_CORRUPT && path != salvaging->path) {
        (void)fprintf(wish->report, "%s: left out: %s\n", path, why.text);
        return PS_OK;
    }
    if (status != PS_OK)
        return ps_fail(error, status, "%s", why.text);
    /* What was let pass: a cut, clients that are lost, a base that is not there. The reason is the
     * one that an operator can do something about, as bring the base back. */
    if (why.text[0] != '\0')
        (void)fprintf(wish->report, "%s: in part: %s\n", path, why.text);
    (void)snprintf(source->path, sizeof source->path, "%s", path);
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(source->reader);
    const struct ps_checkpoint_facts *first =
        ps_checkpoint_reader_facts(salvaging->sources[0].reader);
    if (facts->index != first->index || facts->shard_count != first->shard_count) {
        (void)fprintf(wish->report, "%s: left out: it is of another shard\n", path);
        ps_checkpoint_close(source->reader);
        *source = (struct source){0};
        return PS_OK;
    }
    salvaging->source_count++;
    return PS_OK;
}

/* The texts and sessions that the state needs were copied out of the readers before. Slots that
 * were never opened are not counted. */
static void close_sources(struct salvaging *salvaging)
{
    for (size_t i = 0; i < salvaging->source_count; i++)
        ps_checkpoint_close(salvaging->sources[i].reader);
}

/* The newest header says which parameters there were: an older one has names that were dropped
 * since, and what came behind it the journal defines. Of a file whose base is not there its header
 * names those that need the base, too: they are looked for in older files, and are missing when
 * none has them. Not one parameter that is whole is a failure: an empty folder would look like a
 * new job. */
static enum ps_status take_all(struct salvaging *salvaging, struct ps_error *error)
{
    struct salvage *salvage = salvaging->salvage;
    struct shard_state *state = &salvage->state;
    const struct ps_checkpoint_reader *newest = salvaging->sources[0].reader;
    size_t count = ps_checkpoint_named_count(newest);
    state->parameters = shard_state_room(state, count, sizeof *state->parameters, error);
    salvaging->files = shard_state_room(state, count, sizeof *salvaging->files, error);
    if (state->parameters == NULL || salvaging->files == NULL)
        return PS_ERR_NO_MEMORY;
    salvage->parameter_count = count;
    progress_begin(salvaging->wish->box->progress, salvaging->path, 0);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < count && status == PS_OK; i++)
        status = take(salvaging, ps_checkpoint_named(newest, i), error);
    progress_end(salvaging->wish->box->progress);
    salvage->taken_count = state->count;
    if (status == PS_OK && state->count == 0)
        return ps_fail(error, PS_ERR_CORRUPT, "%.200s: not one parameter is whole",
                       salvaging->path);
    return status;
}

/* Two rounds, because an older file that has both values and optimizer state gives a real state of
 * the past, which the journal may bring up to date; values alone are the second best. A tensor that
 * is whole nowhere is left out of the state, so InitParam of a trainer that comes back will find it
 * missing and say so. */
static enum ps_status take(struct salvaging *salvaging, const struct ps_checkpoint_parameter *about,
                           struct ps_error *error)
{
    struct parameter_room room = {0};
    bool taken = false;
    for (size_t i = 0; i < salvaging->source_count && !taken; i++)
        PS_TRY(try_source(salvaging, i, about, &room, false, &taken, error));
    for (size_t i = 0; i < salvaging->source_count && !taken; i++)
        PS_TRY(try_source(salvaging, i, about, &room, true, &taken, error));
    if (!taken)
        (void)fprintf(salvaging->wish->report, "%s: %.*s: left out: it is whole nowhere\n",
                      salvaging->path, (int)about->name.size, (const char *)about->name.data);
    return PS_OK;
}

/* Only damage makes it try the next file. The versions and steps are those of the file that the
 * arrays came from, so that the journal is applied from there on. A refusal of memory or an unknown
 * version is not damage, and ends the salvage. */
static enum ps_status try_source(struct salvaging *salvaging, size_t number,
                                 const struct ps_checkpoint_parameter *about,
                                 struct parameter_room *room, bool values_only, bool *taken,
                                 struct ps_error *error)
{
    struct source *source = &salvaging->sources[number];
    struct ps_error why = {0};
    size_t i = find(source->reader, about);
    if (i == SIZE_MAX)
        return PS_OK;
    /* One room for all files, but of a table, which has another number of rows in each, and of what
     * its own file does not say the length of. */
    if (room->pieces == NULL || about->is_table || about->carry == PS_CARRY_AS_BASE)
        PS_TRY(parameter_room_make(room, &salvaging->salvage->state,
                                   ps_checkpoint_parameter(source->reader, i), error));
    enum ps_status status = parameter_room_read(room, source->reader, i, !values_only, &why);
    if (status == PS_ERR_CORRUPT || status == PS_ERR_IO)
        return PS_OK;
    if (status != PS_OK)
        return ps_fail(error, status, "%s", why.text);
    struct ps_checkpoint_parameter row = *ps_checkpoint_parameter(source->reader, i);
    if (values_only) {
        /* A fresh optimizer state belongs to the first step: rules with bias correction count from
         * there. */
        row.step = 0;
        PS_TRY(fill_fresh(&row, room, salvaging->wish->box->memory, error));
        salvaging->salvage->fresh_count++;
        (void)fprintf(salvaging->wish->report,
                      "%s: %.*s: its optimizer begins anew: no state of it is whole\n",
                      salvaging->path, (int)row.name.size, (const char *)row.name.data);
    }
    if (number > 0)
        (void)fprintf(salvaging->wish->report, "%s: %.*s: taken from %s\n", salvaging->path,
                      (int)row.name.size, (const char *)row.name.data, source->path);
    progress_add(salvaging->wish->box->progress, room->size);
    source->is_used = true;
    salvaging->files[salvaging->salvage->state.count] = number;
    *taken = true;
    return parameter_room_add(room, &salvaging->salvage->state, &row, error);
}

/* As InitParam makes it. Each state gets what its rule begins with, which is not always zero:
 * Adagrad begins with its initial accumulator. */
static enum ps_status fill_fresh(const struct ps_checkpoint_parameter *row,
                                 const struct parameter_room *room,
                                 const struct ps_allocator *memory, struct ps_error *error)
{
    struct ps_optimizer_settings settings;
    PS_TRY(ps_parameter_settings_read(row->config, row->dtype, memory, &settings, error));
    for (uint32_t state = 0; state < row->state_count; state++)
        ps_optimizer_fill(row->dtype, ps_optimizer_state_start(&settings, state),
                          room->arrays[state + 1], (size_t)ps_array_elements(row, state + 1));
    return PS_OK;
}

/* A table has another number of rows at every instant, and is the same table as long as its rows
 * are of one width. What is left to a base has no length in its own file: its birth tells it from
 * another one of its name. */
static bool is_alike(const struct ps_checkpoint_parameter *row,
                     const struct ps_checkpoint_parameter *about)
{
    bool is_as_large = row->is_table
                           ? row->width == about->width
                           : row->count == about->count || about->carry == PS_CARRY_AS_BASE;
    return row->is_table == about->is_table && is_as_large && row->dtype == about->dtype &&
           row->state_count == about->state_count && row->birth == about->birth;
}

/* SIZE_MAX: it is not there, or not of the same kind. A parameter that was created anew with
 * another length or at another position is another one, whatever its name. A linear search for
 * each parameter of each file: there are thousands at most, and reading their arrays takes far
 * longer. */
static size_t find(const struct ps_checkpoint_reader *reader,
                   const struct ps_checkpoint_parameter *about)
{
    for (size_t i = 0; i < ps_checkpoint_parameter_count(reader); i++) {
        const struct ps_checkpoint_parameter *row = ps_checkpoint_parameter(reader, i);
        if (ps_bytes_equal(row->name, about->name))
            return is_alike(row, about) ? i : SIZE_MAX;
    }
    return SIZE_MAX;
}

/* Of the oldest that is used: from there on the journal has what it lacks. The journal is applied
 * from the position of the oldest file used: records that a newer tensor already has are recognised
 * by its version. The newest position is kept beside it: the caller has to know up to where
 * versions were given out. */
static enum ps_status set_facts(struct salvaging *salvaging, struct ps_error *error)
{
    struct salvage *salvage = salvaging->salvage;
    struct shard_state *state = &salvage->state;
    const struct source *oldest = NULL;
    size_t used_count = 0;
    /* Sources come newest first, so the last used one is the oldest. */
    for (size_t i = 0; i < salvaging->source_count; i++) {
        const struct source *source = &salvaging->sources[i];
        uint64_t position = ps_checkpoint_reader_facts(source->reader)->position;
        if (!source->is_used)
            continue;
        oldest = source;
        used_count++;
        salvage->newest = position > salvage->newest ? position : salvage->newest;
    }
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(oldest->reader);
    salvage->is_mixed = used_count > 1;
    state->facts = *facts;
    /* Put together of several files, it is of no set, and adds to none of them. */
    state->facts.set = "";
    state->facts.base = "";
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        state->facts.sections[i] = (struct ps_checkpoint_records){0};
    struct ps_bytes job = shard_state_copy(state, ps_bytes_of_text(facts->job), error);
    if (job.data == NULL)
        return PS_ERR_NO_MEMORY;
    state->facts.job = (const char *)job.data;
    PS_TRY(take_sections(salvaging, (size_t)(oldest - salvaging->sources), error));
    PS_TRY(give_births(salvaging, (size_t)(oldest - salvaging->sources), error));
    /* Without the table nobody can tell a repeated request from a new one. Forgetting everybody
     * makes the server refuse old sessions, so that nothing is applied twice. */
    if (!oldest->has_sessions) {
        (void)fprintf(salvaging->wish->report,
                      "%s: what it remembered of clients is not whole: all begin new sessions\n",
                      salvaging->path);
        return session_summary_forget(state, error);
    }
    state->facts.sessions = shard_state_copy(state, facts->sessions, error);
    return state->facts.sessions.data == NULL ? PS_ERR_NO_MEMORY : PS_OK;
}

/* A version says of most records whether a parameter has them already. Of a change and of a
 * contribution it does not: a newer file may have what came of them at the same version, and to
 * make the change again could be refused, or undo one behind it. A record from before the birth of
 * a parameter is of another one of its name, and is passed over whatever it says. */
static enum ps_status give_births(struct salvaging *salvaging, size_t oldest,
                                  struct ps_error *error)
{
    struct salvage *salvage = salvaging->salvage;
    struct shard_state *state = &salvage->state;
    salvage->births = shard_state_room(state, state->count, sizeof *salvage->births, error);
    if (salvage->births == NULL)
        return PS_ERR_NO_MEMORY;
    for (size_t i = 0; i < state->count; i++) {
        struct ps_checkpoint_parameter *row = &state->parameters[i];
        size_t file = salvaging->files[i];
        if (file == oldest)
            continue;
        uint64_t position = ps_checkpoint_reader_facts(salvaging->sources[file].reader)->position;
        salvage->births[salvage->birth_count++] =
            (struct salvage_birth){row->name, row->birth, position};
        row->birth = position;
        /* As of a later instant than the file's: its rows would seem older than they are. */
        row->ages = (struct ps_bytes){NULL, 0};
    }
    return PS_OK;
}

/* One that was dropped and defined anew by the journal has the birth that it has there. */
void salvage_end(const struct salvage *salvage, struct shard_state *state)
{
    for (size_t i = 0; i < state->count; i++)
        for (size_t k = 0; k < salvage->birth_count; k++) {
            const struct salvage_birth *one = &salvage->births[k];
            struct ps_checkpoint_parameter *row = &state->parameters[i];
            /* Names first: several parameters may be of one file, and have its position. */
            if (ps_bytes_equal(row->name, one->name) && row->birth == one->given)
                row->birth = one->birth;
        }
}

/* Each parameter's of the file that it was taken from, so that what was acknowledged is there also
 * where the journal is not; the clocks of the oldest, from which on the journal has all later ones.
 * Where the journal has them, too, a contribution that is held already is passed over by the
 * replay, and an older one is to a round that is over. A worker whose contribution is lost has been
 * told that it counts, so the round waits for it until it contributes anew or the grace time is
 * over. */
static enum ps_status take_sections(struct salvaging *salvaging, size_t oldest,
                                    struct ps_error *error)
{
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        PS_TRY(take_section(salvaging, i, oldest, error));
    return PS_OK;
}

/* Files that nothing was taken from are asked as well, for what is lost with them. Only damage is
 * let pass, as with the sessions: memory that is refused says nothing about the file. Section by
 * section, since one that is damaged says nothing about the others. */
static enum ps_status take_section(struct salvaging *salvaging, enum ps_checkpoint_section section,
                                   size_t oldest, struct ps_error *error)
{
    static const char *const lost[PS_CHECKPOINT_SECTION_COUNT] = {
        [PS_CHECKPOINT_ROUNDS] = "open rounds are not whole: workers contribute anew",
        [PS_CHECKPOINT_CLOCKS] = "clocks are not whole: they are set anew",
        [PS_CHECKPOINT_CANDIDATES] = "keys without a row are not whole: they are counted anew",
    };
    struct section_choice choice = {.files = salvaging->files};
    /* Of files older than the oldest that is used nothing is wanted, and nothing is lost. */
    for (size_t i = 0; i <= oldest; i++) {
        struct ps_error why = {0};
        choice.file = i;
        choice.clocks = i == oldest;
        enum ps_status status = state_sections_read_chosen(
            &salvaging->salvage->state, salvaging->sources[i].reader, section, &choice, &why);
        bool is_damage = status == PS_ERR_CORRUPT || status == PS_ERR_IO;
        if (status != PS_OK && !is_damage)
            return ps_fail(error, status, "%s", why.text);
        /* A file that gave nothing else is known to be damaged, and its lines stand above. */
        if (is_damage && salvaging->sources[i].is_used &&
            (choice.clocks || section != PS_CHECKPOINT_CLOCKS))
            (void)fprintf(salvaging->wish->report, "%s: %s\n", salvaging->sources[i].path,
                          lost[section]);
    }
    say_left_out(salvaging, &choice);
    return PS_OK;
}

/* Of parameters that are older here than the file that has the records, or whole nowhere. The
 * journal may have the contributions, and then they are put back; that is not known yet, so that
 * the sentence says both. */
static void say_left_out(const struct salvaging *salvaging, const struct section_choice *choice)
{
    if (choice->contributions > 0)
        (void)fprintf(salvaging->wish->report,
                      "%s: %zu contributions to rounds are left out, but for those that the "
                      "journal has: their parameters are of another version here\n",
                      salvaging->path, choice->contributions);
    /* Of a table that is as it was in another file: counts of then would be those of other pushes,
     * and some of the keys may have rows. */
    if (choice->tables > 0)
        (void)fprintf(salvaging->wish->report,
                      "%s: %zu records of keys without a row are left out: their tables are of "
                      "another version here, and count them anew\n",
                      salvaging->path, choice->tables);
}

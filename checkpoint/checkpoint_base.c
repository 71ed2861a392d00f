/* SPDX-License-Identifier: Apache-2.0 */
/* The base of a file that adds to another: found, opened, compared, and merged.
 *
 * A file and its base were written by the same program at two instants, and either may have been
 * damaged, copied or exchanged since. So whatever the file leaves to the base is compared with what
 * the base has, before anybody relies on it: a table of another id under the same name would have
 * rows that look as good as the right ones. */
#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/catalog.h"
#include "checkpoint/checkpoint_reader_state.h"
#include "checkpoint/header_format.h"
#include "checkpoint/header_pass.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES sizeof((struct ps_checkpoint_place *)NULL)->path

/* What is done with the keys of an array, so many at a time; `first` is the row of the first. */
typedef void (*keys_fn)(void *self, uint64_t first, const uint64_t *keys, size_t count);

/* While the rows of a base are gone through: which keys make a row go, and where it is noted. */
struct dropping {
    const struct ps_key_set *changed;
    struct ps_merged_rows *rows;
};

static enum ps_status find_path(const struct ps_checkpoint_reader *reader, const char *path,
                                char base[PATH_BYTES], struct ps_error *error);
static enum ps_status open_base(struct ps_checkpoint_reader *reader, const char *path, bool damaged,
                                struct ps_error *error);
static enum ps_status check_facts(const struct ps_checkpoint_facts *own,
                                  const struct ps_checkpoint_facts *base, struct ps_error *error);
static enum ps_status merge(struct ps_checkpoint_reader *reader, bool damaged,
                            struct ps_error *error);
static enum ps_status merge_parameter(const struct ps_checkpoint_reader *reader, size_t own,
                                      struct ps_merged_parameter *merged, struct ps_error *error);
static bool find_in_base(const struct ps_header *base, const struct ps_checkpoint_parameter *own,
                         size_t *found);
static enum ps_status check_base(const struct ps_checkpoint_parameter *own,
                                 const struct ps_checkpoint_parameter *base,
                                 struct ps_error *error);
static void take_base(struct ps_checkpoint_parameter *about,
                      const struct ps_checkpoint_parameter *base);
static enum ps_status merge_rows(const struct ps_checkpoint_reader *reader,
                                 struct ps_merged_parameter *merged, struct ps_error *error);
static enum ps_status make_sums(const struct ps_checkpoint_reader *reader,
                                struct ps_merged_parameter *merged, struct ps_error *error);
static void release_rows(const struct ps_checkpoint_reader *reader,
                         struct ps_merged_parameter *merged);
static enum ps_status gather_changed(const struct ps_checkpoint_reader *reader,
                                     const struct ps_merged_parameter *merged,
                                     struct ps_key_set *changed, struct ps_error *error);
static enum ps_status drop_changed(const struct ps_checkpoint_reader *reader,
                                   struct ps_merged_parameter *merged,
                                   const struct ps_key_set *changed, struct ps_error *error);
static enum ps_status each_key(const struct ps_checkpoint_reader *reader, size_t i, uint32_t array,
                               keys_fn take, void *self, struct ps_error *error);

/* Everything that can be compared is compared here, once: who reads arrays later relies on it. What
 * fails in the middle is given back when the reader is closed. */
enum ps_status ps_checkpoint_open_base(struct ps_checkpoint_reader *reader, const char *path,
                                       bool damaged, struct ps_error *error)
{
    PS_ASSERT(reader != NULL && path != NULL);
    PS_ASSERT(reader->base == NULL && reader->header.facts.base[0] != '\0');
    enum ps_status status = open_base(reader, path, damaged, error);
    if (status == PS_OK)
        return merge(reader, damaged, error);
    /* Only damage is let pass: of a disk that fails nobody knows what could be had. Of a damaged
     * file the parameters that are its own are wanted all the same; that others lack their base is
     * no news then, and the error goes on to name the file that is missing. */
    if (!damaged || status != PS_ERR_CORRUPT)
        return status;
    return merge(reader, damaged, NULL);
}

/* The base is a reader as any other, without a base of its own. */
void ps_checkpoint_close_base(struct ps_checkpoint_reader *reader)
{
    PS_ASSERT(reader != NULL);
    for (size_t i = 0; i < reader->merged_count; i++)
        release_rows(reader, &reader->merged[i]);
    ps_release(reader->memory, reader->merged);
    ps_checkpoint_close(reader->base);
    reader->base = NULL;
    reader->merged = NULL;
    reader->merged_count = 0;
}

/* Every text of damage begins as the contract says, and `why` does so already. */
enum ps_status ps_checkpoint_fail_base(const struct ps_checkpoint_reader *reader,
                                       enum ps_status status, const struct ps_error *why,
                                       struct ps_error *error)
{
    PS_ASSERT(status != PS_OK);
    return ps_fail(error, status, "%.190s (in its base %s)", why->text, reader->header.facts.base);
}

/* The base's header alone: what it remembers of its clients is of its own instant. */
static enum ps_status open_base(struct ps_checkpoint_reader *reader, const char *path, bool damaged,
                                struct ps_error *error)
{
    char base_path[PATH_BYTES];
    struct ps_error why = {.status = PS_OK};
    struct ps_checkpoint_reader *base = NULL;
    PS_TRY(find_path(reader, path, base_path, error));
    enum ps_status status =
        ps_checkpoint_open_alone(reader->files, base_path, damaged, reader->memory, &base, &why);
    if (status == PS_OK)
        status = check_facts(&reader->header.facts, &base->header.facts, &why);
    if (status == PS_OK) {
        reader->base = base;
        return PS_OK;
    }
    /* The reader has it only when it is the right one. */
    ps_checkpoint_close(base);
    /* Gone since the folder was listed: as if it had not been there. */
    return ps_checkpoint_fail_base(reader, status == PS_ERR_NOT_FOUND ? PS_ERR_CORRUPT : status,
                                   &why, error);
}

/* By its uuid in the folder of the file, as the names say it. */
static enum ps_status find_path(const struct ps_checkpoint_reader *reader, const char *path,
                                char base[PATH_BYTES], struct ps_error *error)
{
    char folder[PATH_BYTES] = ".";
    const char *slash = strrchr(path, '/');
    struct ps_catalog catalog;
    if (slash != NULL && (size_t)(slash - path) >= sizeof folder)
        return ps_fail(error, PS_ERR_IO, "checkpoint: the folder's path is too long");
    /* A path without a folder is one of the folder that the program is in; "/name" has the root. */
    if (slash != NULL)
        (void)snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path),
                       path);
    PS_TRY(ps_catalog_init(&catalog, reader->files, folder, reader->memory, error));
    /* Whether it is whole its header says. */
    const struct ps_catalog_entry *entry = ps_catalog_find(&catalog, reader->header.facts.base);
    enum ps_status status = PS_OK;
    int length = entry != NULL ? snprintf(base, PATH_BYTES, "%s/%s", folder, entry->name) : 0;
    if (entry == NULL)
        status =
            ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "its base %s is not in the folder",
                    reader->header.facts.base);
    else if (length < 0 || (size_t)length >= PATH_BYTES)
        status = ps_fail(error, PS_ERR_IO, "checkpoint: the folder's path is too long");
    ps_catalog_fini(&catalog);
    return status;
}

/* Whose uuid is right and whose shard or job is not was put there by somebody. */
static enum ps_status check_facts(const struct ps_checkpoint_facts *own,
                                  const struct ps_checkpoint_facts *base, struct ps_error *error)
{
    /* The name said which file to open; the file says whether it is that one. */
    if (strcmp(base->uuid, own->base) != 0)
        return ps_header_corrupt(error, "another uuid than its name has");
    /* One step and no more: a row of files would be as weak as the weakest of them. */
    if (base->base[0] != '\0')
        return ps_header_corrupt(error, "the base of a checkpoint is not whole itself");
    if (base->index != own->index || base->shard_count != own->shard_count ||
        strcmp(base->job, own->job) != 0)
        return ps_header_corrupt(error, "of another shard or job");
    /* By its uuid it cannot be, unless somebody has made a file of that name: then everything above
     * may be right as well, and the rows of the two are of two trainings. */
    if (ps_history_differ(&base->history, &own->history))
        return ps_header_corrupt(error, "of another history of the shard");
    /* What was written later cannot be what somebody has relied on before. */
    if (base->epoch > own->epoch || base->position > own->position)
        return ps_header_corrupt(error, "younger than what adds to it");
    return PS_OK;
}

/* In the order of the file's own header, which has an entry for each parameter that there is: one
 * that only the base has went since, and is nobody's any more. */
static enum ps_status merge(struct ps_checkpoint_reader *reader, bool damaged,
                            struct ps_error *error)
{
    reader->merged = ps_zeroed_array(reader->memory, reader->header.count, sizeof *reader->merged);
    if (reader->merged == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for %zu parameters",
                       reader->header.count);
    for (size_t i = 0; i < reader->header.count; i++) {
        struct ps_merged_parameter *merged = &reader->merged[reader->merged_count];
        enum ps_status status = merge_parameter(reader, i, merged, error);
        /* Its place is the next one's: what cannot be had is not listed. */
        if (status == PS_ERR_CORRUPT && damaged) {
            *merged = (struct ps_merged_parameter){0};
            continue;
        }
        if (status != PS_OK)
            return status;
        /* Counted when it is whole, so that closing ends no half of one. */
        reader->merged_count++;
    }
    return PS_OK;
}

/* Versions, steps and configurations are always the file's own, whatever its arrays are: those may
 * have changed without a push. */
static enum ps_status merge_parameter(const struct ps_checkpoint_reader *reader, size_t own,
                                      struct ps_merged_parameter *merged, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *about = &reader->header.parameters[own].about;
    *merged = (struct ps_merged_parameter){.about = *about, .own = own};
    if (about->carry == PS_CARRY_WHOLE)
        return PS_OK;
    /* Only for who saves what can be had. */
    if (reader->base == NULL)
        return ps_header_corrupt(error, "a parameter's base is not there");
    const struct ps_header *base = &reader->base->header;
    if (!find_in_base(base, about, &merged->base))
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "its base %s has no %.80s",
                       reader->header.facts.base, (const char *)about->name.data);
    PS_TRY(check_base(about, &base->parameters[merged->base].about, error));
    /* A table of which the file has rows; anything else left to the base is the base's as it is. */
    if (about->carry == PS_CARRY_ROWS)
        return merge_rows(reader, merged, error);
    take_base(&merged->about, &base->parameters[merged->base].about);
    return PS_OK;
}

/* Parameters stand in the order of ps_header_order, as was compared when the header was read. One
 * that has elements of another size now is not found, which is as wrong as any other change. */
static bool find_in_base(const struct ps_header *base, const struct ps_checkpoint_parameter *own,
                         size_t *found)
{
    size_t low = 0;
    size_t high = base->count;
    /* By halves: a walk for each parameter would be as many steps as there are pairs of them. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ps_checkpoint_parameter *about = &base->parameters[middle].about;
        int order = ps_header_order(own->dtype, own->name, about->dtype, about->name);
        if (order == 0) {
            *found = middle;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

/* The id is the parameter's for as long as it lives: one that went and came again has another. */
static enum ps_status check_base(const struct ps_checkpoint_parameter *own,
                                 const struct ps_checkpoint_parameter *base, struct ps_error *error)
{
    bool same = own->id == base->id && own->dtype == base->dtype &&
                own->state_count == base->state_count && own->is_table == base->is_table &&
                own->width == base->width;
    /* What the file has no tensors of it cannot say in another way than its base. */
    for (uint32_t state = 0; own->carry == PS_CARRY_ROWS && state < own->state_count; state++)
        same = same && own->state_is_one[state] == base->state_is_one[state];
    if (same)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "its base has another %.80s",
                   (const char *)own->name.data);
}

/* Everything that a header learns from tensors. Of a range of a cut parameter the shape of the
 * whole is among it. */
static void take_base(struct ps_checkpoint_parameter *about,
                      const struct ps_checkpoint_parameter *base)
{
    PS_ASSERT(about->carry == PS_CARRY_AS_BASE);
    about->count = base->count;
    about->shape = base->shape;
    about->rows = base->rows;
    memcpy(about->state_is_one, base->state_is_one, sizeof about->state_is_one);
}

/* Keys that changed are needed only while the rows of the base are gone through. */
static enum ps_status merge_rows(const struct ps_checkpoint_reader *reader,
                                 struct ps_merged_parameter *merged, struct ps_error *error)
{
    struct ps_checkpoint_parameter *about = &merged->about;
    const struct ps_checkpoint_parameter *base =
        &reader->base->header.parameters[merged->base].about;
    struct ps_key_set changed = {0};
    /* The base's header was compared with its size, and so were these rows. */
    PS_TRY(ps_merged_rows_init(&merged->rows, base->rows, reader->memory, error));
    enum ps_status status = gather_changed(reader, merged, &changed, error);
    if (status == PS_OK)
        status = make_sums(reader, merged, error);
    if (status == PS_OK)
        status = drop_changed(reader, merged, &changed, error);
    ps_key_set_fini(&changed);
    if (status != PS_OK) {
        release_rows(reader, merged);
        return status;
    }
    /* From here on it is a table like any, whose rows are counted as they will be read. */
    about->removed = (struct ps_view){0};
    about->rows += merged->rows.survivors;
    about->count = about->rows * about->width;
    return PS_OK;
}

/* One for each array that a whole file would have. */
static enum ps_status make_sums(const struct ps_checkpoint_reader *reader,
                                struct ps_merged_parameter *merged, struct ps_error *error)
{
    merged->sums =
        ps_zeroed_array(reader->memory, ps_array_count(&merged->about), sizeof *merged->sums);
    return merged->sums != NULL
               ? PS_OK
               : ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for sums");
}

/* Of a parameter that is whole in one of the files there is nothing of this. */
static void release_rows(const struct ps_checkpoint_reader *reader,
                         struct ps_merged_parameter *merged)
{
    ps_release(reader->memory, merged->sums);
    merged->sums = NULL;
    ps_merged_rows_fini(&merged->rows);
}

/* Where the row stands does not matter: the file's own rows are read as they are. */
static void add_keys(void *self, uint64_t first, const uint64_t *keys, size_t count)
{
    (void)first;
    for (size_t i = 0; i < count; i++)
        ps_key_set_add(self, keys[i]);
}

/* Both sorts: rows that the file has itself, and keys that went. A key that went and came again is
 * of both; its row of the base goes for either reason, and the file's own is there. */
static enum ps_status gather_changed(const struct ps_checkpoint_reader *reader,
                                     const struct ps_merged_parameter *merged,
                                     struct ps_key_set *changed, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *own = &reader->header.parameters[merged->own].about;
    uint64_t removed = own->removed.size / sizeof(uint64_t);
    /* A key may be of both sorts, so there may be fewer. */
    PS_TRY(ps_key_set_init(changed, own->rows + removed, reader->memory, error));
    PS_TRY(each_key(reader, merged->own, ps_array_of_keys(own), add_keys, changed, error));
    /* There is no such array in the file where none went. */
    if (removed == 0)
        return PS_OK;
    return each_key(reader, merged->own, ps_array_count(own), add_keys, changed, error);
}

/* A row of the base that was pushed to since is as much out of date as one that went. */
static void drop_keys(void *self, uint64_t first, const uint64_t *keys, size_t count)
{
    const struct dropping *dropping = self;
    ps_merged_rows_drop_keys(dropping->rows, first, keys, count, dropping->changed);
}

/* The base's keys are read once, from the first to the last, and none of them is kept. */
static enum ps_status drop_changed(const struct ps_checkpoint_reader *reader,
                                   struct ps_merged_parameter *merged,
                                   const struct ps_key_set *changed, struct ps_error *error)
{
    struct dropping dropping = {changed, &merged->rows};
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = each_key(reader->base, merged->base, ps_array_of_keys(&merged->about),
                                     drop_keys, &dropping, &why);
    if (status != PS_OK)
        return ps_checkpoint_fail_base(reader, status, &why, error);
    ps_merged_rows_seal(&merged->rows);
    return PS_OK;
}

/* Verified behind the last one: what was done with keys of a damaged array is given up with it. One
 * part is held at a time, however many keys there are. */
static enum ps_status each_key(const struct ps_checkpoint_reader *reader, size_t i, uint32_t array,
                               keys_fn take, void *self, struct ps_error *error)
{
    const struct ps_header_parameter *parameter = &reader->header.parameters[i];
    uint64_t bytes = ps_array_bytes(&parameter->about, array);
    uint32_t crc32c = 0;
    enum ps_status status = PS_OK;
    uint64_t *keys = ps_plain(reader->memory, PS_CHECKPOINT_PART_BYTES);
    if (keys == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for reading keys");
    for (uint64_t done = 0; done < bytes && status == PS_OK;) {
        struct ps_checkpoint_piece piece = {keys, bytes - done < PS_CHECKPOINT_PART_BYTES
                                                      ? (size_t)(bytes - done)
                                                      : PS_CHECKPOINT_PART_BYTES};
        status = ps_checkpoint_read_piece(reader, parameter->offset[array] + done, piece, &crc32c,
                                          error);
        if (status == PS_OK)
            take(self, done / sizeof *keys, keys, piece.size / sizeof *keys);
        done += piece.size;
    }
    ps_release(reader->memory, keys);
    return status == PS_OK ? ps_checkpoint_check_own(reader, i, array, crc32c, error) : status;
}

/* Newest first, until one is whole. */
#include "server/core/loader.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The pointer as one more candidate beside the folder's. */
struct pointer {
    bool usable; /* there is one, it can be read, and the folder does not list the same file */
    bool broken; /* there is one, and it is no pointer */
    struct ps_checkpoint_place place;
};

/* What failed, for the logs and for the final error. */
struct damage {
    size_t count;
    char names[160]; /* as many as fit */
};

struct search {
    const struct ps_loader *loader;
    struct ps_catalog catalog;
    struct pointer pointer;
    struct damage damage;
    bool *damaged; /* one per entry of the catalog */
};

static enum ps_status begin_search(struct search *search, const struct ps_loader *loader,
                                   struct ps_error *error);
static void end_search(struct search *search);
static void read_pointer(struct search *search);
static enum ps_status try_all(struct search *search, struct ps_loaded *loaded,
                              struct ps_error *error);
static enum ps_status try_pointer(struct search *search, struct ps_loaded *loaded,
                                  struct ps_error *error);
static enum ps_status try_entry(struct search *search, size_t i, struct ps_loaded *loaded,
                                struct ps_error *error);
static enum ps_status try_path(struct search *search, const char *path,
                               struct ps_checkpoint_place *place, struct ps_error *error);
static void note_damage(struct search *search, const char *name, const struct ps_error *reason);
static void put_damaged_aside(const struct search *search);

/* What the next older checkpoint may heal. A lack of memory is none of it: loading older state for
 * that reason would throw updates away. */
static bool is_damage(enum ps_status status)
{
    return status == PS_ERR_CORRUPT || status == PS_ERR_NOT_FOUND || status == PS_ERR_IO;
}

enum ps_status ps_loader_load(const struct ps_loader *loader, struct ps_loaded *loaded,
                              struct ps_error *error)
{
    struct search search = {0};
    enum ps_status status = begin_search(&search, loader, error);
    if (status == PS_OK)
        status = try_all(&search, loaded, error);
    if (status == PS_OK) {
        loaded->damaged_count = search.damage.count;
        loaded->position = loaded->place.position;
        put_damaged_aside(&search);
        /* Ticket 0 satisfies nobody: nobody waits yet. */
        ps_service_saved(loader->service, (struct ps_ticket){0}, &loaded->place);
        PS_LOG(loader->log, PS_LOG_INFO, "loader", "checkpoint loaded",
               PS_FIELD_TEXT("path", loaded->place.path),
               PS_FIELD_UINT("position", loaded->place.position),
               PS_FIELD_UINT("epoch", loaded->place.epoch),
               PS_FIELD_UINT("damaged", loaded->damaged_count));
    }
    end_search(&search);
    return status;
}

static enum ps_status begin_search(struct search *search, const struct ps_loader *loader,
                                   struct ps_error *error)
{
    search->loader = loader;
    PS_TRY(ps_catalog_init(&search->catalog, loader->files, loader->folder, loader->memory, error));
    search->damaged = ps_zeroed_array(loader->memory, search->catalog.count, sizeof(bool));
    if (search->damaged == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look through %zu checkpoints",
                       search->catalog.count);
    read_pointer(search);
    return PS_OK;
}

static void end_search(struct search *search)
{
    ps_release(search->loader->memory, search->damaged);
    if (search->catalog.memory != NULL)
        ps_catalog_fini(&search->catalog);
}

static void read_pointer(struct search *search)
{
    const struct ps_loader *loader = search->loader;
    struct pointer *pointer = &search->pointer;
    if (loader->pointer.size == 0)
        return;
    struct ps_error reason = {0};
    if (ps_catalog_pointer_read(loader->pointer, loader->memory, &pointer->place, &reason) !=
        PS_OK) {
        pointer->broken = true;
        note_damage(search, "the pointer in etcd", &reason);
        return;
    }
    pointer->usable = true;
    for (size_t i = 0; i < search->catalog.count; i++)
        if (strcmp(search->catalog.entries[i].uuid, pointer->place.uuid) == 0)
            pointer->usable = false;
}

static bool pointer_is_newer(const struct pointer *pointer, const struct ps_catalog_entry *entry)
{
    if (pointer->place.epoch != entry->epoch)
        return pointer->place.epoch > entry->epoch;
    return pointer->place.position >= entry->position;
}

static enum ps_status try_all(struct search *search, struct ps_loaded *loaded,
                              struct ps_error *error)
{
    struct pointer *pointer = &search->pointer;
    for (size_t i = 0; i < search->catalog.count; i++) {
        if (pointer->usable && pointer_is_newer(pointer, &search->catalog.entries[i])) {
            enum ps_status status = try_pointer(search, loaded, error);
            if (!is_damage(status))
                return status;
        }
        enum ps_status status = try_entry(search, i, loaded, error);
        if (!is_damage(status))
            return status;
    }
    if (pointer->usable) {
        enum ps_status status = try_pointer(search, loaded, error);
        if (!is_damage(status))
            return status;
    }
    if (search->damage.count == 0)
        return ps_fail(error, PS_ERR_NOT_FOUND, "checkpoint not found in etcd");
    return ps_fail(error, PS_ERR_CORRUPT,
                   "none of the checkpoints of this shard is whole (%zu tried): %s",
                   search->damage.count, search->damage.names);
}

static enum ps_status try_pointer(struct search *search, struct ps_loaded *loaded,
                                  struct ps_error *error)
{
    search->pointer.usable = false;
    loaded->place = search->pointer.place;
    struct ps_error reason = {0};
    enum ps_status status = try_path(search, loaded->place.path, &loaded->place, &reason);
    if (is_damage(status))
        note_damage(search, loaded->place.path, &reason);
    else if (status != PS_OK)
        (void)ps_fail(error, status, "%s", reason.text);
    return status;
}

static enum ps_status try_entry(struct search *search, size_t i, struct ps_loaded *loaded,
                                struct ps_error *error)
{
    const struct ps_catalog_entry *entry = &search->catalog.entries[i];
    bool published = strcmp(search->pointer.place.uuid, entry->uuid) == 0;
    loaded->place = published ? search->pointer.place
                              : (struct ps_checkpoint_place){.epoch = entry->epoch,
                                                             .position = entry->position};
    memcpy(loaded->place.uuid, entry->uuid, sizeof loaded->place.uuid);
    struct ps_error reason = {0};
    int length = snprintf(loaded->place.path, sizeof loaded->place.path, "%s/%s",
                          search->loader->folder, entry->name);
    enum ps_status status = PS_ERR_NOT_FOUND;
    if (length >= 0 && (size_t)length < sizeof loaded->place.path)
        status = try_path(search, loaded->place.path, &loaded->place, &reason);
    else
        (void)ps_fail(&reason, status, "the path is too long");
    if (is_damage(status)) {
        search->damaged[i] = true;
        note_damage(search, entry->name, &reason);
    } else if (status != PS_OK) {
        (void)ps_fail(error, status, "%s", reason.text);
    }
    return status;
}

static enum ps_status try_path(struct search *search, const char *path,
                               struct ps_checkpoint_place *place, struct ps_error *error)
{
    const struct ps_loader *loader = search->loader;
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(loader->files, path, loader->memory, &reader, error));
    enum ps_status status = ps_service_begin_loaded(loader->service, reader, error);
    if (status == PS_OK) {
        const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
        place->position = facts->position;
        place->epoch = facts->epoch;
        place->unix_ns = facts->unix_ns;
    }
    ps_checkpoint_close(reader);
    return status;
}

static void note_damage(struct search *search, const char *name, const struct ps_error *reason)
{
    struct damage *damage = &search->damage;
    size_t used = strlen(damage->names);
    snprintf(damage->names + used, sizeof damage->names - used, "%s%s", used > 0 ? ", " : "", name);
    damage->count++;
    PS_LOG(search->loader->log, PS_LOG_ERROR, "loader", "checkpoint is not usable",
           PS_FIELD_TEXT("name", name), PS_FIELD_ERROR(reason));
}

static void put_damaged_aside(const struct search *search)
{
    const struct ps_loader *loader = search->loader;
    for (size_t i = 0; i < search->catalog.count; i++) {
        if (!search->damaged[i])
            continue;
        char from[1280];
        char to[1300];
        struct ps_error reason = {0};
        snprintf(from, sizeof from, "%.1024s/%s", loader->folder, search->catalog.entries[i].name);
        snprintf(to, sizeof to, "%s.damaged", from);
        enum ps_status status = loader->files->rename(loader->files->self, from, to, &reason);
        if (status != PS_OK && status != PS_ERR_NOT_FOUND)
            PS_LOG(loader->log, PS_LOG_WARN, "loader", "damaged checkpoint stays in its place",
                   PS_FIELD_TEXT("path", from), PS_FIELD_ERROR(&reason));
    }
}

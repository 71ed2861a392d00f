/* SPDX-License-Identifier: Apache-2.0 */
/* By the digest of a name, and not by the name: a client of a thousand parameters would otherwise
 * need the bytes of a thousand names. Of a million names two have one digest of 64 bits once in
 * 37 million cases, and would then be counted as one. */
#include "server/core/sessions/push_counts.h"

#include "base/assert.h"
#include "proto/digest.h"

/* Most named clients push to a handful of parameters. */
#define PLACES_MIN 8

static struct ps_push_count *place_of(const struct ps_push_counts *counts, uint64_t name);
static enum ps_status grow(struct ps_push_counts *counts, struct ps_push_count_room *room,
                           struct ps_error *error);

/* The form is part of the id, so that journal and checkpoint say of each client whether it is
 * counted. A random id of 16 bytes has it once in more than a million: such a client is counted for
 * nothing. The mark alone would be there once in 256, and with it a format that programs of before
 * do not read. */
bool ps_client_is_named(struct ps_bytes client_id)
{
    PS_ASSERT(client_id.size == 0 || client_id.data != NULL);
    if (client_id.size < 4 || client_id.data[0] != '@')
        return false;
    size_t end = client_id.size;
    while (client_id.data[end - 1] >= '0' && client_id.data[end - 1] <= '9')
        end--;
    /* At least one digit, and at least one byte between both marks. */
    return end < client_id.size && end > 2 && client_id.data[end - 1] == '#';
}

/* The same for journals, checkpoints and live pushes: counts of all three are added up. */
uint64_t ps_push_count_key(struct ps_bytes name)
{
    PS_ASSERT(name.size > 0);
    uint64_t key = ps_digest_xxh64(name);
    return key != 0 ? key : 1;
}

/* Before the push is applied: counting it afterwards cannot fail. A place that stays without a push
 * since that was refused is nobody's knowledge, and is not written anywhere. */
enum ps_status ps_push_counts_reserve(struct ps_push_counts *counts, uint64_t name,
                                      struct ps_push_count_room *room, struct ps_error *error)
{
    PS_ASSERT(name != 0);
    struct ps_push_count *place = place_of(counts, name);
    if (place != NULL && place->name == name)
        return PS_OK;
    /* A quarter stays free, so that a search is short and always ends. */
    if (4 * ((uint64_t)counts->used + 1) > 3 * (uint64_t)counts->place_count) {
        PS_TRY(grow(counts, room, error));
        if (4 * ((uint64_t)counts->used + 1) > 3 * (uint64_t)counts->place_count) {
            counts->is_partial = true;
            return PS_OK;
        }
        place = place_of(counts, name);
    }
    PS_ASSERT(place != NULL && place->name == 0);
    /* Without a push so far: it is known to searches for a place, and to nobody else. */
    *place = (struct ps_push_count){.name = name};
    counts->used++;
    return PS_OK;
}

/* Where the name stands or would stand; NULL: there are no places. */
static struct ps_push_count *place_of(const struct ps_push_counts *counts, uint64_t name)
{
    if (counts->place_count == 0)
        return NULL;
    /* A digest is as good as random, so its low bits are the place. */
    uint32_t mask = counts->place_count - 1;
    uint32_t at = (uint32_t)name & mask;
    while (counts->places[at].name != 0 && counts->places[at].name != name)
        at = (at + 1) & mask;
    PS_ASSERT(at < counts->place_count);
    return &counts->places[at];
}

/* PS_OK without more places where all clients together have as many as they may. */
static enum ps_status grow(struct ps_push_counts *counts, struct ps_push_count_room *room,
                           struct ps_error *error)
{
    uint32_t place_count = counts->place_count > 0 ? 2 * counts->place_count : PLACES_MIN;
    PS_ASSERT(room->places >= counts->place_count);
    /* The former places are given back in the same step, and do not count. */
    if (room->places - counts->place_count + place_count > PS_PUSH_COUNT_PLACES_MAX)
        return PS_OK;
    struct ps_push_counts larger = {.place_count = place_count, .is_partial = counts->is_partial};
    /* Names are put in again one by one: with another mask each begins elsewhere. */
    larger.places = ps_zeroed_array(room->memory, place_count, sizeof larger.places[0]);
    if (larger.places == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to count the pushes of a client");
    for (uint32_t i = 0; i < counts->place_count; i++) {
        /* Also of those without a push: one may be under way. */
        if (counts->places[i].name == 0)
            continue;
        *place_of(&larger, counts->places[i].name) = counts->places[i];
        larger.used++;
    }
    ps_push_counts_release(counts, room);
    room->places += place_count;
    *counts = larger;
    return PS_OK;
}

/* Records of a journal come in any order among parameters, and in order for each of them; of pushes
 * that are applied side by side the later one may commit first. */
void ps_push_counts_add(struct ps_push_counts *counts, uint64_t name, uint64_t pushes,
                        uint64_t version)
{
    struct ps_push_count *place = place_of(counts, name);
    PS_ASSERT(name != 0 && pushes > 0);
    /* There was no room when it was reserved, and the counts say so. */
    if (place == NULL || place->name != name)
        return;
    place->pushes += pushes;
    if (version > place->version)
        place->version = version;
}

/* Whoever stands behind the hole, in the same run of taken places, may have been put there because
 * this place was taken: each is put in again, so that every search ends where it did before. */
void ps_push_counts_remove(struct ps_push_counts *counts, uint64_t name)
{
    struct ps_push_count *place = place_of(counts, name);
    if (place == NULL || place->name != name)
        return;
    PS_ASSERT(counts->used > 0);
    uint32_t mask = counts->place_count - 1;
    uint32_t at = (uint32_t)(place - counts->places);
    *place = (struct ps_push_count){0};
    counts->used--;
    for (at = (at + 1) & mask; counts->places[at].name != 0; at = (at + 1) & mask) {
        struct ps_push_count moved = counts->places[at];
        counts->places[at] = (struct ps_push_count){0};
        *place_of(counts, moved.name) = moved;
    }
}

/* A place that was only reserved is not knowledge. */
const struct ps_push_count *ps_push_counts_find(const struct ps_push_counts *counts, uint64_t name)
{
    const struct ps_push_count *place = place_of(counts, name);
    PS_ASSERT(place == NULL || place->name == 0 || place->name == name);
    return place != NULL && place->pushes > 0 ? place : NULL;
}

/* Counted and not kept: it is asked for when a checkpoint is written, or a client comes back. */
uint32_t ps_push_counts_known(const struct ps_push_counts *counts)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < counts->place_count; i++)
        known += counts->places[i].pushes > 0;
    PS_ASSERT(known <= counts->used);
    return known;
}

/* The mark of partial counts goes, too: who releases them has no client any more. */
void ps_push_counts_release(struct ps_push_counts *counts, struct ps_push_count_room *room)
{
    PS_ASSERT(room->places >= counts->place_count);
    room->places -= counts->place_count;
    ps_release(room->memory, counts->places);
    *counts = (struct ps_push_counts){0};
}

/* Each name is found where a search for it ends, and a free place ends every search. */
void ps_push_counts_check(const struct ps_push_counts *counts)
{
    uint32_t used = 0;
    PS_ASSERT((counts->place_count & (counts->place_count - 1)) == 0);
    for (uint32_t i = 0; i < counts->place_count; i++) {
        const struct ps_push_count *count = &counts->places[i];
        used += count->name != 0;
        PS_ASSERT(count->name != 0 || count->pushes == 0);
        PS_ASSERT(count->name == 0 || place_of(counts, count->name) == count);
    }
    PS_ASSERT(used == counts->used);
    PS_ASSERT(used == 0 || used < counts->place_count);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing, with the next place tried when one is taken. The streams of a connection are
 * numbered one after the other, so that the number itself is the best hash, and almost every stream
 * lies in its first place. */
#include "server/front/stream_table.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

enum { CAPACITY_FIRST = 16 };

static bool grow(struct ps_stream_table *table);

/* Nothing is allocated for a connection that has not begun a call: idle ones are many. */
void ps_stream_table_init(struct ps_stream_table *table, const struct ps_allocator *memory)
{
    PS_ASSERT(memory != NULL);
    *table = (struct ps_stream_table){.memory = memory};
}

void ps_stream_table_fini(struct ps_stream_table *table)
{
    ps_release(table->memory, table->places);
    *table = (struct ps_stream_table){.memory = table->memory};
}

/* Clients use odd numbers only: the lowest bit says nothing. */
static uint32_t first_place(const struct ps_stream_table *table, uint32_t id)
{
    return (id >> 1) & (table->capacity - 1);
}

static uint32_t next_place(const struct ps_stream_table *table, uint32_t place)
{
    return (place + 1) & (table->capacity - 1);
}

/* The stream's place, or the empty one where it would be. At least half of the places are empty, so
 * the search ends. */
static uint32_t look_for(const struct ps_stream_table *table, uint32_t id)
{
    uint32_t place = first_place(table, id);
    while (table->places[place].id != 0 && table->places[place].id != id)
        place = next_place(table, place);
    return place;
}

/* Most frames are of a stream that is open, and found at the first look. */
struct ps_stream *ps_stream_table_find(const struct ps_stream_table *table, uint32_t id)
{
    if (table->count == 0 || id == 0)
        return NULL;
    struct ps_stream *stream = &table->places[look_for(table, id)];
    return stream->id == id ? stream : NULL;
}

/* It grows before it is half full: behind that searches get long, and a full table would have no
 * empty place at which one ends. */
struct ps_stream *ps_stream_table_add(struct ps_stream_table *table, uint32_t id)
{
    PS_ASSERT(id != 0);
    if (2 * (table->count + 1) > table->capacity && !grow(table))
        return NULL;
    struct ps_stream *stream = &table->places[look_for(table, id)];
    PS_ASSERT(stream->id == 0);
    *stream = (struct ps_stream){.id = id};
    table->count++;
    return stream;
}

/* The streams behind the removed one move up, so that a search still ends at the first empty place.
 * A mark in the removed place would do as well, but a connection lives for weeks, and marks would
 * fill its table. */
void ps_stream_table_remove(struct ps_stream_table *table, struct ps_stream *stream)
{
    uint32_t hole = (uint32_t)(stream - table->places);
    PS_ASSERT(hole < table->capacity && stream->id != 0);
    for (uint32_t place = next_place(table, hole); table->places[place].id != 0;
         place = next_place(table, place)) {
        uint32_t wanted = first_place(table, table->places[place].id);
        /* How far the stream has been pushed from its first place, against how far the hole is. */
        uint32_t pushed = (place - wanted) & (table->capacity - 1);
        if (pushed < ((place - hole) & (table->capacity - 1)))
            continue;
        table->places[hole] = table->places[place];
        hole = place;
    }
    table->places[hole] = (struct ps_stream){0};
    table->count--;
}

/* Twice the places. The old ones are kept when the memory is refused. */
static bool grow(struct ps_stream_table *table)
{
    struct ps_stream_table larger = *table;
    larger.capacity = table->capacity == 0 ? CAPACITY_FIRST : 2 * table->capacity;
    larger.places = ps_zeroed_array(table->memory, larger.capacity, sizeof *larger.places);
    if (larger.places == NULL)
        return false;
    /* Every stream finds its place anew: which one that is depends on how many there are. */
    for (uint32_t i = 0; i < table->capacity; i++)
        if (table->places[i].id != 0)
            larger.places[look_for(&larger, table->places[i].id)] = table->places[i];
    ps_release(table->memory, table->places);
    *table = larger;
    return true;
}

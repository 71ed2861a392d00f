/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter that was cut has a name like "w#3/8" on each server (engine/placement.h). A process
 * that died in the middle of such a push may leave ranges that have it and ranges that do not: both
 * numbers are kept. */
#include "client/applied_rows.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_MIN 64

static uint32_t cut_name(char *name);
static void join(struct ps_applied_row_part *to, const struct ps_applied_row_part *from);

/* Doubled: most clients have fewer parameters than the first places, and some have many
 * thousands. */
static enum ps_status make_room(struct ps_applied_rows *rows, struct ps_error *error)
{
    if (rows->count < rows->places)
        return PS_OK;
    size_t places = rows->places > 0 ? 2 * rows->places : PLACES_MIN;
    struct ps_applied_row_part *parts = ps_zeroed_array(rows->memory, places, sizeof *parts);
    if (parts == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu parameters", places);
    if (rows->count > 0)
        memcpy(parts, rows->parts, rows->count * sizeof *parts);
    ps_release(rows->memory, rows->parts);
    rows->parts = parts;
    rows->places = places;
    return PS_OK;
}

/* As the server names it, with the suffix of a range: the number of ranges is read when all servers
 * have answered. */
enum ps_status ps_applied_rows_take(void *self, const struct ps_applied_row *row,
                                    struct ps_error *error)
{
    struct ps_applied_rows *rows = self;
    PS_TRY(make_room(rows, error));
    struct ps_applied_row_part *part = &rows->parts[rows->count++];
    *part = (struct ps_applied_row_part){
        .row = {.pushes = row->pushes, .pushes_of_any = row->pushes, .version = row->version},
        .found = 1};
    /* The codec lets no longer name pass; the row was zeroed, and so ends with a NUL. */
    PS_ASSERT(row->name.size < sizeof part->row.name);
    memcpy(part->row.name, row->name.data, row->name.size);
    return PS_OK;
}

/* By the name of the whole parameter, so that its ranges are neighbours. */
static int compare_parts(const void *a, const void *b)
{
    return strcmp(((const struct ps_applied_row_part *)a)->row.name,
                  ((const struct ps_applied_row_part *)b)->row.name);
}

/* Ranges of one parameter come from several servers, in any order. */
void ps_applied_rows_join(struct ps_applied_rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        rows->parts[i].ranges = cut_name(rows->parts[i].row.name);
    if (rows->count > 1)
        qsort(rows->parts, rows->count, sizeof rows->parts[0], compare_parts);
    /* In place: what is kept never overtakes what is read. */
    for (size_t i = 0; i < rows->count; i++) {
        if (kept > 0 && compare_parts(&rows->parts[kept - 1], &rows->parts[i]) == 0)
            join(&rows->parts[kept - 1], &rows->parts[i]);
        else
            rows->parts[kept++] = rows->parts[i];
    }
    rows->count = kept;
    /* A range without a row is one that nothing was pushed to. */
    for (size_t i = 0; i < kept; i++)
        if (rows->parts[i].found < rows->parts[i].ranges) {
            rows->parts[i].row.pushes = 0;
            rows->parts[i].row.version = 0;
        }
}

/* Takes the suffix of a range off; how many ranges there are, or 0. */
static uint32_t cut_name(char *name)
{
    /* From the end, since the name itself may hold both marks. */
    char *slash = strrchr(name, '/');
    char *hash = strrchr(name, '#');
    if (hash == NULL || slash == NULL || hash == name || slash <= hash + 1 || slash[1] == '\0')
        return 0;
    /* Nothing but digits on both sides: whatever else looks like a range is a name. */
    if (strspn(hash + 1, "0123456789") != (size_t)(slash - hash - 1) ||
        slash[1 + strspn(slash + 1, "0123456789")] != '\0')
        return 0;
    /* No parameter is called so: clients refuse such names (engine/placement.h). */
    *hash = '\0';
    return (uint32_t)strtoul(slash + 1, NULL, 10);
}

/* The least of all ranges is what the whole has; the most of any shows a push that was cut
 * short. */
static void join(struct ps_applied_row_part *to, const struct ps_applied_row_part *from)
{
    to->found++;
    if (from->row.pushes < to->row.pushes)
        to->row.pushes = from->row.pushes;
    if (from->row.pushes_of_any > to->row.pushes_of_any)
        to->row.pushes_of_any = from->row.pushes_of_any;
    if (from->row.version < to->row.version)
        to->row.version = from->row.version;
}

/* The allocator stays, so that the rows may be filled again. */
void ps_applied_rows_fini(struct ps_applied_rows *rows)
{
    ps_release(rows->memory, rows->parts);
    *rows = (struct ps_applied_rows){.memory = rows->memory};
}

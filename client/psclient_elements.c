/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: single elements of a vector that a table has in chunks. Which rows they are in is
 * found by sorting, so that every row travels once, whatever the order of the elements. */
#include "client/psclient.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "client/status_map.h"
#include "client/table_state.h"
#include "optimizer/repeats.h"

#include <stdlib.h>
#include <string.h>

/* One of the caller's elements. */
struct element {
    uint64_t element;
    size_t place; /* among the caller's */
};

/* The elements, and the rows that they are in. */
struct chunks {
    struct element *elements; /* owned; sorted, equal ones in the caller's order */
    uint64_t *keys;           /* owned; of the rows, rising */
    uint8_t *rows;            /* owned; zeros at first */
    size_t row_count;
};

/* The place decides between equal ones: qsort keeps no order, and sums of floats depend on it. */
static int compare(const void *a, const void *b)
{
    const struct element *x = a, *y = b;
    if (x->element != y->element)
        return x->element < y->element ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* False: memory was refused. What was had of it is released with the rest. */
static bool find_chunks(const struct psclient_table *table, const uint64_t *elements, size_t count,
                        struct chunks *chunks)
{
    const struct ps_allocator *memory = table->client->memory;
    chunks->elements = ps_zeroed_array(memory, count, sizeof *chunks->elements);
    chunks->keys = ps_zeroed_array(memory, count, sizeof *chunks->keys);
    if (chunks->elements == NULL || chunks->keys == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        chunks->elements[i] = (struct element){elements[i], i};
    qsort(chunks->elements, count, sizeof *chunks->elements, compare);
    /* Sorted, the elements of one chunk are neighbours. */
    for (size_t i = 0; i < count; i++) {
        uint64_t key = chunks->elements[i].element / table->width;
        if (chunks->row_count == 0 || chunks->keys[chunks->row_count - 1] != key)
            chunks->keys[chunks->row_count++] = key;
    }
    /* How many rows there are is known now: elements of one chunk share its row. A row for each
     * element would be as much as a chunk is wide too many. */
    chunks->rows = ps_zeroed_array(memory, chunks->row_count, table->row_bytes);
    return chunks->rows != NULL;
}

/* Zeros are fine: of a call that found no memory, some of these were never had. */
static void release(const struct psclient_table *table, struct chunks *chunks)
{
    ps_release(table->client->memory, chunks->rows);
    ps_release(table->client->memory, chunks->keys);
    ps_release(table->client->memory, chunks->elements);
}

/* Where the i-th element lies, in the order of the chunks. `row` is that of the element before, or
 * 0, and becomes its own. */
static uint8_t *element_at(const struct psclient_table *table, const struct chunks *chunks,
                           size_t i, size_t *row)
{
    uint64_t element = chunks->elements[i].element;
    size_t size = ps_dtype_size(table->dtype);
    /* Both are sorted: the next row is this one's or the one behind. */
    while (chunks->keys[*row] != element / table->width)
        ++*row;
    PS_ASSERT(*row < chunks->row_count);
    return chunks->rows + *row * table->row_bytes + element % table->width * size;
}

/* Whole chunks come, and the elements are picked out of them: a server that was asked for elements
 * would look each of their rows up once more for every element. */
PS_EXPORT int psclient_table_get_elements(struct psclient_table *table, const uint64_t *elements,
                                          size_t count, void *values, uint64_t timeout_ms,
                                          struct psclient_error *error)
{
    size_t size = ps_dtype_size(table->dtype), row = 0;
    struct chunks chunks = {0};
    int result = find_chunks(table, elements, count, &chunks)
                     ? psclient_table_get(table, chunks.keys, chunks.row_count, chunks.rows,
                                          timeout_ms, error)
                     : ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for elements");
    /* In the order of the rows: `row` goes through them once. */
    for (size_t i = 0; result == PSCLIENT_OK && i < count; i++)
        memcpy((uint8_t *)values + chunks.elements[i].place * size,
               element_at(table, &chunks, i, &row), size);
    release(table, &chunks);
    return result;
}

/* Gradients of one element are summed in the caller's order, as those of one key are. The sums are
 * made here, so that each chunk travels once and the rule is applied to it once. */
PS_EXPORT int psclient_table_add_elements(struct psclient_table *table, const uint64_t *elements,
                                          size_t count, const void *gradients, uint64_t timeout_ms,
                                          struct psclient_error *error)
{
    size_t size = ps_dtype_size(table->dtype), row = 0;
    struct chunks chunks = {0};
    /* The rows are zeros: what no gradient is brought for is brought one of 0. */
    if (!find_chunks(table, elements, count, &chunks)) {
        release(table, &chunks);
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for elements");
    }
    for (size_t i = 0; i < count; i++)
        ps_row_repeat(PS_ROW_SUM, table->dtype, 1, element_at(table, &chunks, i, &row),
                      (const uint8_t *)gradients + chunks.elements[i].place * size);
    /* As any addition: cut to servers, numbered, and repeated if it must be. */
    int result =
        psclient_table_add(table, chunks.keys, chunks.row_count, chunks.rows, timeout_ms, error);
    release(table, &chunks);
    return result;
}

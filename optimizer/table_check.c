/* SPDX-License-Identifier: Apache-2.0 */
/* A table that could not do what was asked of it is refused when it is defined: a push never finds
 * out. */
#include "optimizer/table_check.h"

#include "base/assert.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

static enum ps_status check_first_values(const struct ps_table_settings *table, enum ps_dtype dtype,
                                         struct ps_error *error);
static enum ps_status check_rows(const struct ps_table_settings *table, struct ps_error *error);
static enum ps_status check_partition(const struct ps_table_settings *table,
                                      struct ps_error *error);

/* From coarse to fine, as all of the settings' check: first whether the parameter is a table at
 * all, then what a table cannot do, then its numbers, and at the end where its rows are. The first
 * thing that a person would change is so the first that is named. */
enum ps_status ps_table_check(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                              struct ps_error *error)
{
    const struct ps_table_settings *table = &settings->table;
    PS_ASSERT(settings->rule < PS_RULE_COUNT);
    if (settings->adagrad_row_wise && (table->width == 0 || settings->rule != PS_RULE_ADAGRAD))
        return ps_fail(error, PS_ERR_BAD_INPUT, "adagrad.row_wise is for tables with adagrad");
    if (table->width == 0)
        return PS_OK;
    /* A row is updated on the stack of whoever pushes it. */
    if (table->width > PS_TABLE_WIDTH_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.width is %u, 1 to %d are allowed",
                       (unsigned)table->width, PS_TABLE_WIDTH_MAX);
    /* The sum of gradients of one key would have to be checked against rows that are not there
     * yet. */
    if (settings->overflow == PS_OVERFLOW_FAIL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "add.overflow fail is not for tables");
    PS_TRY(check_first_values(table, dtype, error));
    PS_TRY(check_rows(table, error));
    return check_partition(table, error);
}

/* An infinity in a row would make NaN of what is trained, far from whoever wrote the number. */
static bool fits(enum ps_dtype dtype, double number)
{
    return fabs(number) <= (dtype == PS_F32 ? (double)FLT_MAX : DBL_MAX);
}

/* Is every first value a number of the type, those at the ends of what may be drawn included? The
 * sum that stands for a normal number is 6 deviations away from the mean at most. */
static bool first_values_fit(const struct ps_table_settings *table, enum ps_dtype dtype)
{
    double low = table->low;
    double high = table->high;
    PS_ASSERT((unsigned)table->init <= PS_TABLE_NORMAL);
    switch (table->init) {
    case PS_TABLE_ZERO:
        /* The numbers say nothing, and may be what another kind has left. */
        return true;
    case PS_TABLE_CONSTANT:
        return fits(dtype, low);
    case PS_TABLE_UNIFORM:
        /* Drawn as a share of the difference, in the numbers of a double. */
        return fits(dtype, low) && fits(dtype, high) && isfinite(high - low);
    case PS_TABLE_NORMAL:
        return fits(dtype, low - 6 * high) && fits(dtype, low + 6 * high);
    }
    return false;
}

/* A whole number has no fraction to draw. The numbers are checked also where the kind of first
 * values has no use for them: they may be used after a change. */
static enum ps_status check_first_values(const struct ps_table_settings *table, enum ps_dtype dtype,
                                         struct ps_error *error)
{
    if ((unsigned)table->init > PS_TABLE_NORMAL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.init %d is unknown", (int)table->init);
    if (!isfinite(table->low) || !isfinite(table->high))
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.low and table.high must be finite");
    if (!ps_dtype_is_float(dtype) && table->init != PS_TABLE_ZERO)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a table of %s begins with zeros (table.init)",
                       ps_dtype_name(dtype));
    /* Equal ends are allowed: every row begins with the one number then. */
    if (table->init == PS_TABLE_UNIFORM && table->low > table->high)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.low %g is above table.high %g", table->low,
                       table->high);
    if (table->init == PS_TABLE_NORMAL && table->high < 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.high, a deviation, is below 0");
    if (!first_values_fit(table, dtype))
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.low %g and table.high %g: beyond %s",
                       table->low, table->high, ps_dtype_name(dtype));
    return PS_OK;
}

/* What limits the rows, or lets them go. A wish that nothing would act on is refused: whoever wants
 * the oldest rows to go, and names no limit, would wait for that until memory is full. */
static enum ps_status check_rows(const struct ps_table_settings *table, struct ps_error *error)
{
    if ((unsigned)table->full > PS_TABLE_OLDEST)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.full %d is unknown", (int)table->full);
    /* Without an admission no key is ever counted, and whoever has set a bound would wait for it to
     * show. */
    if (table->candidates_max > 0 && table->admission <= 1)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "table.candidates_max wants table.admission above 1");
    if (table->full == PS_TABLE_OLDEST && table->rows_max == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.full oldest wants table.rows_max");
    if ((table->expire_clocks > 0) != (table->clocks[0] != '\0'))
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.expire_clocks and table.clocks go together");
    return PS_OK;
}

/* Bounds that fall are refused; equal ones are a shard without keys. Ranges that overlap or leave
 * keys out would put a row on two shards, or on none, and a reader would not be told. */
static enum ps_status check_partition(const struct ps_table_settings *table, struct ps_error *error)
{
    if ((unsigned)table->partition > PS_TABLE_GIVEN)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.partition %d is unknown",
                       (int)table->partition);
    /* Shards of equal size need an end of the keys; the hash has none. */
    if ((table->partition == PS_TABLE_RANGE) != (table->keys_max > 0))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "table.keys_max and a partition by range go together");
    if (table->partition != PS_TABLE_GIVEN && table->bound_count > 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table.bounds are for given ranges");
    PS_ASSERT(table->bound_count <= PS_TABLE_BOUNDS_MAX);
    for (uint32_t i = 1; i < table->bound_count; i++)
        if (table->bounds[i] < table->bounds[i - 1])
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "table.bounds: %" PRIu64 " comes behind %" PRIu64, table->bounds[i],
                           table->bounds[i - 1]);
    return PS_OK;
}

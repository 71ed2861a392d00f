/* SPDX-License-Identifier: Apache-2.0 */
/* Making ratings with a known best error. As with rows for classifiers (generate.c), seeds make the
 * same file on every machine, and the hidden function has a seed of its own. Few items are rated
 * often and many seldom, as in the public sets: that is what tables by key are for. */
#include "tools/generate_ratings.h"

#include "base/alloc.h"
#include "base/random.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NUMBERS_MAX ((uint64_t)1 << 24)
/* Of the hidden function: as few as can be told apart from noise by some tens of ratings. */
#define HIDDEN_RANK 3
#define HIDDEN_WIDTH (1 + HIDDEN_RANK)
#define MEAN 3.5
#define NOISE_MAX 10

static enum ps_status write_file(const struct ps_generate_ratings_options *options,
                                 const double *hidden, double *best_rmse, struct ps_error *error);
static double write_line(FILE *file, const struct ps_generate_ratings_options *options,
                         const double *hidden, struct ps_random *random);

/* One array for users and items, users first: their numbers are drawn in that order. */
enum ps_status ps_generate_ratings(const struct ps_generate_ratings_options *options,
                                   double *best_rmse, struct ps_error *error)
{
    if (options->users < 1 || options->users > NUMBERS_MAX || options->items < 1 ||
        options->items > NUMBERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--users and --items must be 1 to %llu",
                       (unsigned long long)NUMBERS_MAX);
    if (!(options->noise >= 0) || options->noise > NOISE_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--noise must be 0 to %d stars", NOISE_MAX);
    if (options->rows == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--rows must be at least 1");
    /* At most a gigabyte, by the bounds above. */
    size_t count = (size_t)(options->users + options->items) * HIDDEN_WIDTH;
    double *hidden = ps_zeroed_array(ps_allocator_heap(), count, sizeof *hidden);
    if (hidden == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for so many users and items");
    struct ps_random random;
    ps_random_init(&random, options->model_seed);
    for (size_t i = 0; i < count; i++)
        /* So wide that biases and factors matter about as much as each other. */
        hidden[i] = ps_random_unit(&random) * 1.6 - 0.8;
    enum ps_status status = write_file(options, hidden, best_rmse, error);
    ps_release(ps_allocator_heap(), hidden);
    return status;
}

/* Closing is part of writing: a full disk may show only then. */
static enum ps_status write_file(const struct ps_generate_ratings_options *options,
                                 const double *hidden, double *best_rmse, struct ps_error *error)
{
    FILE *file = fopen(options->path, "we");
    if (file == NULL)
        return ps_fail(error, PS_ERR_IO, "create %s: %s", options->path, strerror(errno));
    /* Another seed than that of the hidden function. */
    struct ps_random random;
    ps_random_init(&random, options->seed);
    double squares = 0;
    for (uint64_t row = 0; row < options->rows; row++)
        squares += write_line(file, options, hidden, &random);
    /* Writing errors of a stream show late, at the latest when it is closed. */
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    if (failed)
        return ps_fail(error, PS_ERR_IO, "write %s: %s", options->path, strerror(errno));
    *best_rmse = sqrt(squares / (double)options->rows);
    return PS_OK;
}

/* The sum of twelve uniform numbers less six has a deviation of one, and is close to normal. */
static double draw_noise(struct ps_random *random)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += ps_random_unit(random);
    return sum;
}

/* Writes one rating; returns the square of its noise. The square of a uniform number favours the
 * first items: a tenth of them has a third of the ratings. Numbers are from 1, as in
 * public sets. */
static double write_line(FILE *file, const struct ps_generate_ratings_options *options,
                         const double *hidden, struct ps_random *random)
{
    /* Every user rates about as much as any other. */
    uint64_t user = ps_random_below(random, options->users);
    double share = ps_random_unit(random);
    uint64_t item = (uint64_t)(share * share * (double)options->items);
    const double *u = hidden + user * HIDDEN_WIDTH;
    const double *v = hidden + (options->users + item) * HIDDEN_WIDTH;
    double rating = MEAN + u[0] + v[0];
    for (int i = 1; i < HIDDEN_WIDTH; i++)
        rating += u[i] * v[i];
    double noise = options->noise * draw_noise(random);
    (void)fprintf(file, "%llu\t%llu\t%.3f\n", (unsigned long long)user + 1,
                  (unsigned long long)item + 1, rating + noise);
    return noise * noise;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Making a data set with a known best accuracy. The test of a trainer needs data whose answer is
 * known: "is the accuracy right?" can only be asked when the best possible one is. Rows are drawn
 * from a seed, so that two machines make the same file, and the hidden function has a seed of its
 * own, so that a training set and its test set may differ in rows and agree in what is to be
 * learnt. */
#include "tools/generate.h"

#include "base/random.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FEATURES_MAX 4096
/* About as many as the sparse public data sets of this format have in a row (a9a: 14). */
#define FEATURES_PER_ROW 12

static bool write_row(FILE *file, const struct ps_generate_options *options, const double *weights,
                      struct ps_random *random);

/* Twice as many features as a row has at most, or most rows would be alike. Noise of one half or
 * more would make the labels say nothing, or the opposite. The share of labels that were not
 * flipped is counted while writing: it is what the hidden function itself reaches, and so the bound
 * for any model. */
enum ps_status ps_generate(const struct ps_generate_options *options, double *best_accuracy,
                           struct ps_error *error)
{
    if (options->features < 2 * FEATURES_PER_ROW || options->features > FEATURES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--features must be %d to %d, not %llu",
                       2 * FEATURES_PER_ROW, FEATURES_MAX, (unsigned long long)options->features);
    if (!(options->noise >= 0) || options->noise >= 0.5)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--noise must be at least 0 and below 0.5");
    if (options->rows == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--rows must be at least 1");

    double weights[FEATURES_MAX];
    struct ps_random random;
    ps_random_init(&random, options->model_seed);
    for (uint64_t f = 0; f < options->features; f++)
        weights[f] = ps_random_unit(&random) * 2 - 1;

    FILE *file = fopen(options->path, "we");
    if (file == NULL)
        return ps_fail(error, PS_ERR_IO, "create %s: %s", options->path, strerror(errno));
    ps_random_init(&random, options->seed);
    uint64_t clean = 0;
    for (uint64_t row = 0; row < options->rows; row++)
        clean += !write_row(file, options, weights, &random);
    /* Writing errors of a stream show late, at the latest when it is closed; a set that is cut off
     * would train all the same. */
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    if (failed)
        return ps_fail(error, PS_ERR_IO, "write %s: %s", options->path, strerror(errno));
    *best_accuracy = (double)clean / (double)options->rows;
    return PS_OK;
}

/* Writes one row; true when its label was flipped. A feature that is drawn twice counts once, as a
 * binary feature does. The format wants indices from 1, in rising order, which is why presence is
 * collected first. */
static bool write_row(FILE *file, const struct ps_generate_options *options, const double *weights,
                      struct ps_random *random)
{
    bool present[FEATURES_MAX] = {false};
    double score = 0;
    for (size_t i = 0; i < FEATURES_PER_ROW; i++) {
        uint64_t feature = ps_random_below(random, options->features);
        score += present[feature] ? 0 : weights[feature];
        present[feature] = true;
    }
    bool flipped = ps_random_unit(random) < options->noise;
    bool positive = (score > 0) != flipped;
    (void)fputs(positive ? "+1" : "-1", file);
    for (uint64_t f = 0; f < options->features; f++) {
        if (present[f])
            (void)fprintf(file, " %llu:1", (unsigned long long)f + 1);
    }
    (void)fputc('\n', file);
    return flipped;
}

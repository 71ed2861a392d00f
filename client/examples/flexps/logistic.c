/* SPDX-License-Identifier: Apache-2.0 */
/* Logistic regression with FlexPS's tables: ./run_flexps.sh HOST:PORT FILE [ITERATIONS] [WORKERS]
 *
 * As FlexPS's own: each worker is a thread with a part of the samples, a sampler that says which
 * keys a batch touches, and a SparseKVClientTable that is told all of them ahead. The number of
 * workers is found as its AutoParallelismTask does with the policy IncreaseBest: from one worker
 * on, ten iterations each, one more while that is faster. Each trial is a task; the weights
 * stay. */
#include <flexps_compat.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 32, SPECULATION = 5, TRIAL = 10, WORKERS_MAX = 64, INIT_MS = 60000 };

static const float alpha = 0.5F;

/* A line of a libsvm file: label, then index:value, indices from 1. */
struct sample {
    float label; /* 0 or 1 */
    size_t first, count;
};

struct data {
    struct sample *samples;
    size_t sample_count, feature_count;
    uint64_t *keys; /* of all samples, one behind the other */
    float *values;
    uint64_t key_max;
};

struct worker {
    pthread_t thread;
    struct psclient *client;
    const struct data *data;
    struct ps_kv_table_options options;
    uint32_t rank;
    size_t iterations;
};

static void check(int status, const struct psclient_error *error)
{
    if (status == PSCLIENT_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void *room(size_t count, size_t size)
{
    void *made = calloc(count > 0 ? count : 1, size);
    if (made == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return made;
}

/* Rooms for as many numbers as the file has colons, and samples as it has lines. */
static struct data load(const char *path)
{
    struct data data = {0};
    size_t lines = 0, colons = 0;
    int c, status;
    float label, value;
    unsigned long long key;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    while ((c = getc(file)) != EOF) {
        lines += c == '\n';
        colons += c == ':';
    }
    rewind(file);
    data.samples = room(lines + 1, sizeof *data.samples);
    data.keys = room(colons, sizeof *data.keys);
    data.values = room(colons, sizeof *data.values);
    while (data.sample_count <= lines && fscanf(file, " %f", &label) == 1) {
        struct sample *sample = &data.samples[data.sample_count++];
        *sample = (struct sample){.label = label > 0 ? 1 : 0, .first = data.feature_count};
        /* The next label ends the row of pairs: a number without a colon is pushed back whole. */
        long back = ftell(file);
        while ((status = fscanf(file, " %llu:%f", &key, &value)) == 2 && key > 0) {
            data.keys[data.feature_count] = key - 1;
            data.values[data.feature_count++] = value;
            sample->count++;
            data.key_max = key > data.key_max ? key : data.key_max;
            back = ftell(file);
        }
        if (status != EOF)
            fseek(file, back, SEEK_SET);
    }
    fclose(file);
    return data;
}

/* ---- FlexPS's BatchDataSampler ---- */

static int compare_keys(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* The samples of a worker's batch: every WORKERS-th of the file, round and round. */
static const struct sample *sample_of(const struct worker *worker, size_t iteration, size_t i)
{
    size_t at = worker->rank + (iteration * BATCH + i) * worker->options.workers;
    return &worker->data->samples[at % worker->data->sample_count];
}

/* prepare_next_batch: the keys of the batch, sorted, each once. */
static struct ps_kv_keys keys_of(const struct worker *worker, size_t iteration)
{
    const struct data *data = worker->data;
    size_t count = 0, unique = 0;
    for (size_t i = 0; i < BATCH; i++)
        count += sample_of(worker, iteration, i)->count;
    uint64_t *keys = room(count, sizeof *keys);
    count = 0;
    for (size_t i = 0; i < BATCH; i++) {
        const struct sample *sample = sample_of(worker, iteration, i);
        memcpy(keys + count, data->keys + sample->first, sample->count * sizeof *keys);
        count += sample->count;
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || keys[i] != keys[unique - 1])
            keys[unique++] = keys[i];
    return (struct ps_kv_keys){keys, unique};
}

/* ---- Training ---- */

static float probability(double sum)
{
    return (float)(1 / (1 + exp(-sum)));
}

/* What is added to the weights of the batch's keys, for one sample of it. */
static void add_sample(const struct data *data, const struct sample *sample,
                       const struct ps_kv_keys *set, const float *weights, float *delta)
{
    double sum = 0;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = sample->first; i < sample->first + sample->count; i++) {
            const uint64_t *found =
                bsearch(&data->keys[i], set->keys, set->count, sizeof *set->keys, compare_keys);
            if (pass == 0)
                sum += (double)weights[found - set->keys] * (double)data->values[i];
            else
                delta[found - set->keys] -=
                    alpha / BATCH * (probability(sum) - sample->label) * data->values[i];
        }
}

static void *work(void *self)
{
    struct worker *worker = self;
    size_t count = worker->iterations + SPECULATION;
    struct ps_kv_keys *sets = room(count, sizeof *sets);
    struct ps_sparse_kv_table *table = NULL;
    struct psclient_error error;
    for (size_t i = 0; i < count; i++)
        sets[i] = keys_of(worker, i);
    check(ps_sparse_kv_table_create(worker->client, &worker->options, worker->rank, sets, count,
                                    &table, &error),
          &error);
    for (size_t iteration = 0; iteration < worker->iterations; iteration++) {
        const struct ps_kv_keys *set = &sets[iteration];
        float *weights = room(set->count, sizeof *weights);
        float *delta = room(set->count, sizeof *delta);
        check(ps_sparse_kv_table_get(table, weights, &error), &error);
        for (size_t i = 0; i < BATCH; i++)
            add_sample(worker->data, sample_of(worker, iteration, i), set, weights, delta);
        check(ps_sparse_kv_table_add(table, delta, &error), &error);
        free(weights);
        free(delta);
    }
    ps_sparse_kv_table_destroy(table);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)sets[i].keys);
    free(sets);
    return NULL;
}

/* engine.Run: a task with so many workers. Returns samples per second. */
static double run(struct psclient *client, const struct data *data,
                  struct ps_kv_table_options *options, uint32_t workers, size_t iterations)
{
    static struct worker all[WORKERS_MAX];
    struct psclient_error error;
    struct timespec begin, end;
    options->workers = workers;
    options->task++;
    check(ps_kv_table_define(client, options, &error), &error);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint32_t rank = 0; rank < workers; rank++) {
        all[rank] = (struct worker){.client = client,
                                    .data = data,
                                    .options = *options,
                                    .rank = rank,
                                    .iterations = iterations};
        if (pthread_create(&all[rank].thread, NULL, work, &all[rank]) != 0)
            exit(1);
    }
    for (uint32_t rank = 0; rank < workers; rank++)
        pthread_join(all[rank].thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    printf("task of %u workers: %.0f samples/s\n", (unsigned)workers,
           (double)(workers * iterations * BATCH) / seconds);
    return (double)(workers * iterations * BATCH) / seconds;
}

static double accuracy(struct psclient *client, const struct data *data, const char *name)
{
    struct psclient_table *table = NULL;
    struct psclient_error error;
    uint64_t *keys = room(data->key_max, sizeof *keys);
    float *weights = room(data->key_max, sizeof *weights);
    size_t right = 0;
    for (uint64_t key = 0; key < data->key_max; key++)
        keys[key] = key;
    check(psclient_table_open(client, name, 30000, &table, &error), &error);
    check(psclient_table_get(table, keys, data->key_max, weights, 30000, &error), &error);
    for (size_t i = 0; i < data->sample_count; i++) {
        const struct sample *sample = &data->samples[i];
        double sum = 0;
        for (size_t f = sample->first; f < sample->first + sample->count; f++)
            sum += (double)weights[data->keys[f]] * (double)data->values[f];
        right += (sum > 0) == (sample->label > 0);
    }
    psclient_table_close(table);
    free(keys);
    free(weights);
    return (double)right / (double)data->sample_count;
}

/* FlexPS's engine has no initialisation apart. A job whose parameters are tables alone, which come
 * later, is initialised with nothing, by whoever is selected. */
static void begin_job(struct psclient *client)
{
    struct psclient_error error;
    int selected = 0;
    check(psclient_begin_init(client, INIT_MS, &selected, &error), &error);
    if (selected != 0)
        check(psclient_finish_init(client, INIT_MS, &error), &error);
}

int main(int argc, char **argv)
{
    const struct psclient_options where = {.servers = argc > 1 ? argv[1] : "127.0.0.1:8000"};
    struct psclient *client = NULL;
    struct psclient_error error;
    struct timespec now;
    if (argc < 3) {
        fprintf(stderr, "logistic HOST:PORT FILE [ITERATIONS] [WORKERS]\n");
        return 2;
    }
    struct data data = load(argv[2]);
    size_t iterations = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
    unsigned long workers_max = argc > 4 ? strtoul(argv[4], NULL, 10) : 4;
    if (data.sample_count == 0 || workers_max < 1 || workers_max > WORKERS_MAX) {
        fprintf(stderr, "no samples, or not 1 to %d workers\n", WORKERS_MAX);
        return 2;
    }
    check(psclient_open(&where, &client, &error), &error);
    /* Tasks of a second run come behind those of the first: each of them takes longer than a
     * microsecond. */
    clock_gettime(CLOCK_REALTIME, &now);
    struct ps_kv_table_options options = {.name = "logistic",
                                          .model = PSCLIENT_SPARSE_SSP,
                                          .speculation = SPECULATION,
                                          .task = (uint64_t)now.tv_sec * 1000000 +
                                                  (uint64_t)now.tv_nsec / 1000};
    begin_job(client);
    uint32_t best = 1;
    double fastest = run(client, &data, &options, 1, TRIAL);
    for (uint32_t workers = 2; workers <= workers_max; workers++) {
        double speed = run(client, &data, &options, workers, TRIAL);
        if (speed < fastest)
            break;
        fastest = speed;
        best = workers;
    }
    run(client, &data, &options, best, iterations);
    printf("accuracy %.4f\n", accuracy(client, &data, options.name));
    psclient_close(client);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the kernels and the ring are, beside what the device's memory and its bus can do in the
 * same run. This program measures and judges nothing.
 *
 * usage: gpu_bench [--size-max BYTES] [--samples N]
 *
 * 77 is returned where there is no device. */
#include "gpu_bench.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_DEVICE 77
#define GIBIBYTE (UINT64_C(1) << 30)
#define LEAST_SIZE (UINT64_C(1) << 16)

/* Behind each array: an odd length looks over the end of a round one. */
#define MORE_BYTES 256

void gpu_bench_fail(const char *text)
{
    (void)fprintf(stderr, "gpu_bench: %s\n", text);
    exit(EXIT_FAILURE);
}

void gpu_bench_must(int code, const char *action)
{
    if (code == 0)
        return;
    (void)fprintf(stderr, "gpu_bench: %s: %s (%d)\n", action, ps_driver_error_name(code), code);
    exit(EXIT_FAILURE);
}

void gpu_bench_finish(const struct gpu_bench *bench)
{
    const struct ps_driver *driver = &bench->driver;
    gpu_bench_must(driver->record(driver->self, bench->event, bench->stream), "recording");
    gpu_bench_must(driver->event_synchronize(driver->self, bench->event), "waiting");
}

void gpu_bench_open(struct gpu_bench *bench)
{
    const struct ps_device_options options = {.memory = ps_allocator_heap()};
    struct ps_driver *driver = &bench->driver;
    void *memory = NULL;
    gpu_bench_must(ps_driver_open(&options, driver), "opening device 0");
    gpu_bench_must(driver->stream_create(driver->self, &bench->stream), "creating a stream");
    gpu_bench_must(driver->event_create(driver->self, &bench->event), "creating an event");
    bench->clock = gpu_clock_open(driver, bench->stream);
    for (size_t i = 0; i < GPU_BENCH_ARRAYS; i++) {
        gpu_bench_must(driver->device_acquire(driver->self, bench->size_max + MORE_BYTES, &memory),
                       "asking for device memory");
        bench->arrays[i] = memory;
    }
    bench->pinned_bytes = bench->size_max / 4;
    gpu_bench_must(driver->host_acquire(driver->self, bench->pinned_bytes, &memory),
                   "asking for pinned memory");
    bench->pinned = memory;
}

void gpu_bench_close(struct gpu_bench *bench)
{
    struct ps_driver *driver = &bench->driver;
    for (size_t i = 0; i < GPU_BENCH_ARRAYS; i++)
        gpu_bench_must(driver->device_release(driver->self, bench->arrays[i]), "giving back");
    gpu_bench_must(driver->host_release(driver->self, bench->pinned), "giving back");
    gpu_clock_close(bench->clock);
    driver->event_destroy(driver->self, bench->event);
    driver->stream_destroy(driver->self, bench->stream);
    driver->close(driver->self);
}

/* Of magnitude 0.5 to 1.5; whole numbers of any bits. */
static void fill_host(enum ps_dtype dtype, bool positive, uint8_t *to, uint64_t bytes)
{
    struct ps_random random;
    ps_random_init(&random, positive ? 17 : 23);
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t bits = ps_random_next(&random);
        double sign = positive || bits % 2 == 0 ? 1 : -1;
        double wide = sign * (0.5 + (double)(bits >> 12) * 0x1p-52);
        float narrow[2] = {(float)wide, (float)(sign * (2 - sign * wide))};
        if (dtype == PS_F32)
            memcpy(to + i, narrow, sizeof narrow);
        else
            memcpy(to + i, dtype == PS_F64 ? (void *)&wide : (void *)&bits, 8);
    }
}

/* The first piece comes from the host, and is then doubled until the array is full. */
static void fill_array(const struct gpu_bench *bench, uint8_t *array)
{
    const struct ps_driver *driver = &bench->driver;
    uint64_t done = LEAST_SIZE;
    gpu_bench_must(
        driver->copy(driver->self, array, bench->pinned, done, PS_DRIVER_TO_DEVICE, bench->stream),
        "copying to the device");
    while (done < bench->size_max) {
        uint64_t part = done < bench->size_max - done ? done : bench->size_max - done;
        gpu_bench_must(driver->copy(driver->self, array + done, array, part, PS_DRIVER_ON_DEVICE,
                                    bench->stream),
                       "copying on the device");
        done += part;
    }
    gpu_bench_must(driver->copy(driver->self, array + done, array, MORE_BYTES, PS_DRIVER_ON_DEVICE,
                                bench->stream),
                   "copying on the device");
    gpu_bench_finish(bench);
}

/* Numbers of ordinary size in the narrow encodings. Four quanta of int8 are a float of ordinary
 * size, too: some of them serve as scales. */
void gpu_bench_fill_encoded(const struct gpu_bench *bench, enum ps_encoding encoding)
{
    struct ps_random random;
    ps_random_init(&random, 29);
    for (uint64_t i = 0; i < LEAST_SIZE; i += 2) {
        uint64_t bits = ps_random_next(&random);
        uint16_t element = (uint16_t)(0x3c3cU + (bits & 0x0303U));
        if (encoding == PS_ENCODING_BFLOAT16)
            element = (uint16_t)(0x3f80U + (bits & 0x807fU));
        if (encoding == PS_ENCODING_FLOAT16)
            element = (uint16_t)(0x3c00U + (bits & 0x83ffU));
        memcpy(bench->pinned + i, &element, sizeof element);
    }
    fill_array(bench, bench->arrays[GPU_BENCH_GRADIENT]);
}

void gpu_bench_fill(const struct gpu_bench *bench, enum ps_dtype dtype)
{
    for (size_t i = 0; i < GPU_BENCH_ARRAYS; i++) {
        bool state = i > 0 && i < GPU_BENCH_GRADIENT;
        fill_host(dtype, state, bench->pinned, LEAST_SIZE);
        fill_array(bench, bench->arrays[i]);
    }
}

void gpu_bench_sample(struct gpu_bench *bench, gpu_bench_fn *run, void *self, uint32_t calls,
                      double *seconds)
{
    uint64_t call = 0;
    for (uint32_t i = 0; i < bench->warm_ups; i++)
        run(bench, self, call++);
    gpu_bench_finish(bench);
    for (uint32_t i = 0; i < bench->samples; i++) {
        gpu_clock_start(bench->clock);
        for (uint32_t j = 0; j < calls; j++)
            run(bench, self, call++);
        seconds[i] = gpu_clock_stop(bench->clock) / calls;
    }
}

void gpu_bench_print_seconds(const double *seconds, uint32_t count)
{
    printf("\"seconds\":[");
    for (uint32_t i = 0; i < count; i++)
        printf("%s%.9g", i > 0 ? "," : "", seconds[i]);
    printf("]}\n");
    (void)fflush(stdout);
}

static void print_device(const struct gpu_bench *bench)
{
    struct ps_device_facts facts = {0};
    gpu_bench_must(bench->driver.facts(bench->driver.self, &facts), "asking what the device is");
    printf("{\"row\":\"device\",\"driver\":\"%s\",\"name\":\"%s\",\"uuid\":\"%s\","
           "\"capability\":\"%u.%u\",\"memory_bytes\":%llu,\"size_max\":%llu}\n",
           ps_driver_name, facts.name, facts.uuid, facts.capability_major, facts.capability_minor,
           (unsigned long long)facts.memory_bytes, (unsigned long long)bench->size_max);
}

static uint64_t number_after(int argc, char **argv, const char *option, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], option) == 0)
            return strtoull(argv[i + 1], NULL, 10);
    return otherwise;
}

int main(int argc, char **argv)
{
    struct gpu_bench bench = {.size_max = number_after(argc, argv, "--size-max", GIBIBYTE),
                              .samples = (uint32_t)number_after(argc, argv, "--samples", 50)};
    uint32_t count = 0;
    const struct gpu_lender lender = gpu_bench_lender();
    int code = ps_driver_count(&count);
    if (code != 0) {
        (void)fprintf(stderr, "no device: %s (%d)\n", ps_driver_error_name(code), code);
        return NO_DEVICE;
    }
    if (bench.size_max < 16 * LEAST_SIZE || bench.size_max % (16 * LEAST_SIZE) != 0)
        gpu_bench_fail("--size-max is a multiple of 1 MiB");
    if (bench.samples == 0 || bench.samples > GPU_BENCH_SAMPLES_MAX)
        gpu_bench_fail("--samples is 1 to 200");
    bench.warm_ups = bench.samples < 10 ? 1 : 10;
    gpu_bench_open(&bench);
    print_device(&bench);
    gpu_bench_copies(&bench);
    gpu_bench_rules(&bench);
    gpu_bench_scan(&bench);
    if (number_after(argc, argv, "--grids", 0) > 0)
        gpu_bench_grids(&bench);
    gpu_bench_small(&bench);
    gpu_bench_close(&bench);
    gpu_bench_ring(bench.size_max, bench.samples);
    gpu_bench_mixed(bench.size_max, bench.samples);
    gpu_bench_shared(&lender, bench.size_max, bench.samples);
    return EXIT_SUCCESS;
}

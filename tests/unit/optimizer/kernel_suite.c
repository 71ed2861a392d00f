/* SPDX-License-Identifier: Apache-2.0 */
/* What the suite's tests share: twins, gradients in all encodings, and the order of the tests. */
#include "kernel_suite.h"
#include "rule_cases.h"

#include "optimizer/encoded.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 0x5a

void kernel_expect(struct kernel_suite *suite, bool right, const char *format, ...)
{
    if (right)
        return;
    suite->expect->failures++;
    if (suite->quiet)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("  %s: ", suite->expect->test);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

/* Zeroed; never NULL, and of no more bytes than asked for. */
static void *host_memory(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes > 0 ? bytes : 1) != 0)
        abort();
    memset(memory, 0, bytes);
    return memory;
}

void *kernel_put(struct kernel_suite *suite, const void *from, size_t bytes, size_t more)
{
    void *memory = suite->machine->acquire(bytes + more);
    if (memory == NULL)
        abort();
    char *guard = host_memory(more);
    memset(guard, GUARD, more);
    suite->machine->write(memory, from, bytes);
    suite->machine->write((char *)memory + bytes, guard, more);
    free(guard);
    return memory;
}

void kernel_twin_open(struct kernel_suite *suite, enum ps_dtype dtype, uint64_t count,
                      uint64_t seed, struct kernel_twin *twin)
{
    size_t size = ps_dtype_size(dtype);
    twin->dtype = dtype;
    twin->count = count;
    for (size_t i = 0; i < KERNEL_ARRAYS; i++) {
        twin->host[i] = host_memory(count * size);
        rule_case_fill(seed + i, dtype, twin->host[i], count);
        twin->device[i] = kernel_put(suite, twin->host[i], count * size, suite->guard * size);
    }
}

/* Is what lies behind the array as it was? */
static bool guard_whole(struct kernel_suite *suite, const char *guard, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (guard[i] != GUARD)
            return false;
    (void)suite;
    return true;
}

bool kernel_twin_equal(struct kernel_suite *suite, const struct kernel_twin *twin)
{
    size_t size = ps_dtype_size(twin->dtype);
    size_t bytes = twin->count * size;
    bool equal = true;
    char *read = host_memory(bytes + suite->guard * size);
    for (size_t i = 0; i < KERNEL_ARRAYS; i++) {
        suite->machine->read(twin->device[i], read, bytes + suite->guard * size);
        equal = equal && rule_case_equal(twin->dtype, twin->host[i], read, twin->count) &&
                guard_whole(suite, read + bytes, suite->guard * size);
    }
    suite->seen += twin->count;
    free(read);
    return equal;
}

void kernel_twin_close(struct kernel_suite *suite, struct kernel_twin *twin)
{
    for (size_t i = 0; i < KERNEL_ARRAYS; i++) {
        suite->machine->release(twin->device[i]);
        free(twin->host[i]);
    }
}

struct ps_cuda_run kernel_twin_run(const struct kernel_twin *twin,
                                   const struct ps_cuda_gradient *gradient)
{
    return (struct ps_cuda_run){.count = twin->count,
                                .values = twin->device[0],
                                .states = {twin->device[1], twin->device[2]},
                                .gradient = *gradient};
}

/* About every third element is named; of five thousand in a row, as it goes, none or one. */
static uint64_t choose_indices(uint64_t count, uint32_t *indices)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        const bool sparse = i / 5000 % 2 == 1;
        if ((i * 2654435761U >> 7) % (sparse ? 4999 : 3) == 0)
            indices[kept++] = (uint32_t)i;
    }
    return kept;
}

static void open_top_k(struct kernel_suite *suite, enum ps_dtype dtype, uint64_t count,
                       uint64_t seed, struct kernel_gradient *gradient)
{
    size_t size = ps_dtype_size(dtype);
    uint32_t *indices = host_memory(count * sizeof *indices);
    float *values = host_memory(count * sizeof *values);
    char *decoded = host_memory(count * size);
    uint64_t kept = choose_indices(count, indices);
    rule_case_fill(seed, PS_F32, values, kept);
    ps_decode_run(PS_ENCODING_FLOAT32, dtype, values, kept, decoded);
    gradient->named = host_memory(count);
    for (uint64_t i = 0; i < kept; i++)
        gradient->named[indices[i]] = 1;
    for (uint64_t i = 0; i < kept; i++)
        memcpy((char *)gradient->elements + indices[i] * size, decoded + i * size, size);
    gradient->device.indices = kernel_put(suite, indices, kept * sizeof *indices, 0);
    gradient->device.elements = kernel_put(suite, values, kept * sizeof *values, 0);
    gradient->device.kept = kept;
    free(decoded);
    free(values);
    free(indices);
}

/* Numbers of the type that the encoding has on the wire; any bits for the narrow ones. */
static void fill_encoded(enum ps_encoding encoding, enum ps_dtype dtype, uint64_t seed, void *array,
                         uint64_t count)
{
    size_t width = ps_encoding_width(encoding, dtype);
    if (encoding == PS_ENCODING_FLOAT32)
        dtype = PS_F32;
    if (encoding == PS_ENCODING_FLOAT64)
        dtype = PS_F64;
    if (width >= 4)
        rule_case_fill(seed, dtype, array, count);
    for (uint64_t i = 0; width < 4 && i < count * width; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        ((uint8_t *)array)[i] = (uint8_t)(seed >> 56);
    }
}

void kernel_gradient_open(struct kernel_suite *suite, enum ps_dtype dtype,
                          enum ps_encoding encoding, uint64_t count, uint64_t seed,
                          struct kernel_gradient *gradient)
{
    memset(gradient, 0, sizeof *gradient);
    gradient->device.encoding = encoding;
    gradient->elements = host_memory(count * ps_dtype_size(dtype));
    if (encoding == PS_ENCODING_TOP_K) {
        open_top_k(suite, dtype, count, seed, gradient);
        return;
    }
    uint64_t groups = encoding == PS_ENCODING_INT8 ? ps_encoding_groups(count) : 0;
    size_t bytes = count * ps_encoding_width(encoding, dtype);
    char *content = host_memory(groups * sizeof(float) + bytes);
    char *elements = content + groups * sizeof(float);
    rule_case_fill(seed + 1, PS_F32, content, groups);
    fill_encoded(encoding, dtype, seed, elements, count);
    if (encoding == PS_ENCODING_NATIVE)
        memcpy(gradient->elements, elements, bytes);
    else
        ps_decode_all(encoding, dtype, content, count, gradient->elements);
    gradient->device.scales = kernel_put(suite, content, groups * sizeof(float), 0);
    gradient->device.elements = kernel_put(suite, elements, bytes, 0);
    free(content);
}

void kernel_gradient_close(struct kernel_suite *suite, struct kernel_gradient *gradient)
{
    suite->machine->release((void *)(uintptr_t)gradient->device.elements);
    suite->machine->release((void *)(uintptr_t)gradient->device.scales);
    suite->machine->release((void *)(uintptr_t)gradient->device.indices);
    free(gradient->elements);
    free(gradient->named);
}

struct ps_cuda_verdict *kernel_verdict_open(struct kernel_suite *suite)
{
    struct ps_cuda_verdict *verdict = suite->machine->acquire(sizeof *verdict);
    kernel_expect(suite, ps_cuda_launch_open(verdict, NULL) == 0, "a verdict is not opened");
    return verdict;
}

void kernel_suite_run(struct kernel_suite *suite)
{
    static const struct {
        const char *name;
        void (*test)(struct kernel_suite *suite);
    } tests[] = {
#define TEST(name) {#name, name}
        TEST(kernels_apply_as_the_cpu_does),
        TEST(kernels_decode_as_the_cpu_does),
        TEST(kernels_scatter_lists_as_the_cpu_does),
        TEST(kernels_apply_a_table_as_the_cpu_does),
        TEST(kernels_fill_as_the_cpu_does),
        TEST(kernels_scan_and_judge_as_the_cpu_does),
        TEST(kernels_sum_more_groups_than_one_fold_takes),
        TEST(kernels_find_the_first_overflow),
        TEST(kernels_change_nothing_against_the_verdict),
        TEST(kernels_update_rows_as_the_cpu_does),
        TEST(kernels_move_bodies),
        TEST(kernels_step_different_rows_as_the_cpu_does),
#undef TEST
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        int before = suite->expect->failures;
        suite->expect->test = tests[i].name;
        tests[i].test(suite);
        if (!suite->quiet)
            printf("%s %s on %s\n", suite->expect->failures == before ? "ok  " : "FAIL",
                   tests[i].name, suite->machine->name);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Three parameters of three kinds. */
#include "shard_fixture.h"

#include "base/buffer.h"
#include "tools/optimizer_choice.h"

#include <check.h>
#include <string.h>

static void fill(struct shard_fixture *fixture, size_t p, const char *name, enum ps_dtype dtype,
                 uint64_t count, const char *optimizer, int base);

void shard_fixture_init(struct shard_fixture *fixture, int base)
{
    *fixture = (struct shard_fixture){
        .facts = {.uuid = "0f47ac10-58cc-4372-a567-0e02b2c3d479",
                  .shard_count = 1,
                  .epoch = 7,
                  .position = 10,
                  .unix_ns = 1700000000000000000u,
                  .job = ""},
    };
    fill(fixture, 0, "a", PS_F32, 4, "sgd", base);
    fill(fixture, 1, "b", PS_F64, 3, "adam", base);
    fill(fixture, 2, "c/d", PS_I32, 2, "sgd", base);
}

static void fill(struct shard_fixture *fixture, size_t p, const char *name, enum ps_dtype dtype,
                 uint64_t count, const char *optimizer, int base)
{
    struct ps_buffer config;
    ps_buffer_init_fixed(&config, (char *)fixture->configs[p], sizeof fixture->configs[p]);
    ck_assert_int_eq(ps_optimizer_choice(optimizer, 1, 0, &config, NULL), PS_OK);
    struct ps_checkpoint_parameter *row = &fixture->parameters[p];
    *row = (struct ps_checkpoint_parameter){
        .name = ps_bytes_of_text(name),
        .dtype = dtype,
        .count = count,
        .config = {fixture->configs[p], config.size},
        .version = 3 + p,
        .step = 3 + p,
        .id = p,
        .state_count = strcmp(optimizer, "adam") == 0 ? 2 : 0,
    };
    for (size_t s = 0; s < 1 + row->state_count; s++) {
        for (size_t i = 0; i < count; i++) {
            int value = base + 100 * (int)p + 10 * (int)s + (int)i;
            uint8_t *at = (uint8_t *)fixture->bytes[p][s] + i * ps_dtype_size(dtype);
            if (dtype == PS_F32)
                memcpy(at, &(float){(float)value}, sizeof(float));
            else if (dtype == PS_F64)
                memcpy(at, &(double){value}, sizeof(double));
            else
                memcpy(at, &(int32_t){value}, sizeof(int32_t));
        }
        fixture->pieces[p][s] = (struct ps_bytes){(uint8_t *)fixture->bytes[p][s],
                                                  (size_t)count * ps_dtype_size(dtype)};
        *(s == 0 ? &row->values : &row->states[s - 1]) = ps_view_of(&fixture->pieces[p][s]);
    }
}

struct ps_checkpoint_place shard_fixture_write(const struct shard_fixture *fixture,
                                               const struct ps_files *files, const char *folder)
{
    struct ps_checkpoint_place place;
    struct ps_error error = {0};
    enum ps_status status =
        ps_checkpoint_write(files, folder, &fixture->facts, fixture->parameters, FIXTURE_PARAMETERS,
                            ps_allocator_heap(), &place, &error);
    ck_assert_msg(status == PS_OK, "%s", error.text);
    return place;
}

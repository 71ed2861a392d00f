/* SPDX-License-Identifier: Apache-2.0 */
/* Builds and reads one header at a time. */
#include "sample_header.h"

#include "checkpoint/header_format.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct sample_header sample;

/* Makes a head with right length, checksum and padding around what follows the checksum. */
void sample_header_make(const char *metadata, const char *tensors)
{
    int size = snprintf((char *)sample.head + 8, sizeof sample.head - 8, "%s00000000\",%s}%s%s}",
                        PS_HEADER_START, metadata, *tensors != '\0' ? "," : "", tensors);
    ck_assert_int_gt(size, 0);
    sample.head_size = 8 + (size_t)size;
    ck_assert_uint_lt(sample.head_size, sizeof sample.head - 64);
    while (sample.head_size % PS_HEADER_ALIGNMENT != 0)
        sample.head[sample.head_size++] = ' ';
    for (size_t i = 0; i < 8; i++)
        sample.head[i] = (uint8_t)((uint64_t)(sample.head_size - 8) >> (8 * i));
    char digits[9];
    struct ps_bytes bytes = {sample.head, sample.head_size};
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, ps_header_checksum(bytes));
    memcpy(sample.head + PS_HEADER_CHECKSUM_AT, digits, 8);
}

enum ps_status sample_header_parse(uint64_t data_bytes)
{
    sample.error.text[0] = '\0';
    return ps_header_init(&sample.header, (struct ps_bytes){sample.head, sample.head_size},
                          sample.head_size + data_bytes, ps_allocator_heap(), &sample.error);
}

void assert_header_corrupt(const char *metadata, const char *tensors, uint64_t data_bytes,
                           const char *reason)
{
    sample_header_make(metadata, tensors);

    enum ps_status status = sample_header_parse(data_bytes);

    ck_assert_msg(status == PS_ERR_CORRUPT, "accepted: %s | %s", metadata, tensors);
    ck_assert_msg(
        strncmp(sample.error.text, PS_CHECKPOINT_CORRUPT, strlen(PS_CHECKPOINT_CORRUPT)) == 0, "%s",
        sample.error.text);
    ck_assert_msg(strstr(sample.error.text, reason) != NULL, "\"%s\" is not \"%s\"",
                  sample.error.text, reason);
}

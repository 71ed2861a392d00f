/* SPDX-License-Identifier: Apache-2.0 */
/* Names of checkpoint files, both ways: "<epoch>-<position>-<uuid><suffix>", or with
 * "-on-<uuid of its base>" before the suffix where the file adds to another; numbers in 16
 * hexadecimal digits, so that the names sort as text in the order of the numbers and `ls` shows the
 * newest last. A name is read strictly: what does not fit exactly is somebody else's file and is
 * left alone. */
#include "checkpoint/checkpoint_name.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_DIGITS PS_CHECKPOINT_NUMBER_DIGITS
#define UUID_CHARACTERS_MAX 36

/* Between the two uuids of a file that adds to another. No number in hexadecimal digits has it. */
#define ON "-on-"

static bool uuid_part_valid(const char *uuid, size_t size);
static const char *find_on(const char *text, size_t size);
static void copy_uuid(const char *text, size_t size, char uuid[37]);

bool ps_checkpoint_uuid_valid(const char *uuid)
{
    PS_ASSERT(uuid != NULL);
    return uuid_part_valid(uuid, strlen(uuid));
}

void ps_checkpoint_name_write(uint64_t epoch, uint64_t position, const char *uuid, const char *base,
                              const char *suffix, char name[PS_CHECKPOINT_NAME_BYTES])
{
    /* A uuid of ours, made from random bits; a slash in it would write outside of the folder. */
    PS_ASSERT(ps_checkpoint_uuid_valid(uuid));
    PS_ASSERT(base[0] == '\0' || ps_checkpoint_uuid_valid(base));
    int length = snprintf(name, PS_CHECKPOINT_NAME_BYTES, "%016" PRIx64 "-%016" PRIx64 "-%s%s%s%s",
                          epoch, position, uuid, base[0] != '\0' ? ON : "", base, suffix);
    PS_ASSERT(length > 0 && length < PS_CHECKPOINT_NAME_BYTES);
}

bool ps_checkpoint_name_read(const char *name, const char *suffix, uint64_t *epoch,
                             uint64_t *position, char uuid[37], char base[37])
{
    PS_ASSERT(name != NULL && suffix != NULL);
    /* A name begins with two numbers, each with its dash. */
    size_t head = 2 * (NUMBER_DIGITS + 1);
    size_t length = strlen(name);
    size_t tail = strlen(suffix);
    if (length < head + tail || strcmp(name + length - tail, suffix) != 0)
        return false;
    const char *uuid_text = name + head;
    size_t uuid_size = length - head - tail;
    /* Of one that adds to another, the rest behind the first "-on-" is the other's uuid. */
    const char *on = find_on(uuid_text, uuid_size);
    const char *base_text = on != NULL ? on + sizeof ON - 1 : NULL;
    size_t base_size = on != NULL ? (size_t)(uuid_text + uuid_size - base_text) : 0;
    uuid_size = on != NULL ? (size_t)(on - uuid_text) : uuid_size;
    if (!uuid_part_valid(uuid_text, uuid_size) ||
        (on != NULL && !uuid_part_valid(base_text, base_size)))
        return false;
    /* Written to the caller only when the whole name is right. */
    uint64_t numbers[2];
    if (!ps_checkpoint_number_read(name, &numbers[0]) || name[NUMBER_DIGITS] != '-' ||
        !ps_checkpoint_number_read(name + NUMBER_DIGITS + 1, &numbers[1]) || name[head - 1] != '-')
        return false;
    *epoch = numbers[0];
    *position = numbers[1];
    copy_uuid(uuid_text, uuid_size, uuid);
    copy_uuid(base_text, base_size, base);
    return true;
}

/* uuid_part_valid has bounded the size to 36. */
static void copy_uuid(const char *text, size_t size, char uuid[37])
{
    PS_ASSERT(size <= UUID_CHARACTERS_MAX);
    if (size > 0)
        memcpy(uuid, text, size);
    uuid[size] = '\0';
}

/* Exactly 16 lower-case digits. strtoull would take signs, spaces, "0x" and upper case, and two
 * names could then be one number. The NUL is tested first because strchr finds it in any string. */
bool ps_checkpoint_number_read(const char *text, uint64_t *number)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    for (size_t i = 0; i < NUMBER_DIGITS; i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        /* The NUL of a short name ends here as well. */
        if (digit == NULL)
            return false;
        /* Sixteen digits of four bits fill the number exactly: no overflow is possible. */
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *number = value;
    return true;
}

/* Looser than RFC 4122, as the old system's names are; strict enough to be a part of a file
 * name. */
static bool uuid_part_valid(const char *uuid, size_t size)
{
    if (size == 0 || size > UUID_CHARACTERS_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        char c = uuid[i];
        bool allowed =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
        if (!allowed)
            return false;
    }
    return find_on(uuid, size) == NULL;
}

/* The text need not end behind `size`. */
static const char *find_on(const char *text, size_t size)
{
    size_t on_size = sizeof ON - 1;
    for (size_t i = 0; i + on_size <= size; i++)
        if (memcmp(text + i, ON, on_size) == 0)
            return text + i;
    return NULL;
}

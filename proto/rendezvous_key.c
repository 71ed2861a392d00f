/* SPDX-License-Identifier: Apache-2.0 */
/* A key that two processes make by themselves is the same text, byte for byte: that is all that a
 * server compares. Its parts are for people, and for programs that look where a value came from.
 *
 * A key is read from left to right, each reader taking its part off the front of what is left. The
 * reference lets one ';' at the end slip through; here that is a sixth part, and refused.
 *
 * Nothing is copied: the parts of a key are places in its text. The two bounds that matter, the
 * length of the whole and the digits of a number, are looked at before anything is computed from
 * what came from outside. */
#include "proto/rendezvous_key.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool take_device(struct ps_bytes *left, struct ps_rendezvous_device *device);
static bool take_part(struct ps_bytes *left, struct ps_bytes *part);
static bool parse_device(struct ps_bytes text, struct ps_rendezvous_device *device);
static bool parse_incarnation(struct ps_bytes text, uint64_t *incarnation);
static bool take_word(struct ps_bytes *left, const char *word);
static bool take_name(struct ps_bytes *left, struct ps_bytes *name);
static bool take_number(struct ps_bytes *left, uint32_t *number);

/* A ';' inside a part would move all parts behind it. */
static bool is_part(const char *text)
{
    return strchr(text, ';') == NULL;
}

/* The incarnation has all of its sixteen digits, so that equal numbers are equal texts: a key is
 * compared as bytes, by servers that do not know its parts. */
enum ps_status ps_rendezvous_key_create(const char *source, uint64_t source_incarnation,
                                        const char *destination, const char *edge, uint64_t frame,
                                        uint64_t iteration, char *text, size_t size,
                                        struct ps_error *error)
{
    PS_ASSERT(text != NULL && size > 0);
    if (!is_part(source) || !is_part(destination) || !is_part(edge) || edge[0] == '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Invalid rendezvous key: a part is empty, or has a ';' in it");
    /* Two bounds: that of the caller's memory, and the one that servers have. */
    int length = snprintf(text, size, "%s;%016" PRIx64 ";%s;%s;%" PRIu64 ":%" PRIu64, source,
                          source_incarnation, destination, edge, frame, iteration);
    if (length < 0 || (size_t)length >= size || length > PS_RENDEZVOUS_KEY_BYTES_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "a rendezvous key has at most %d bytes",
                       PS_RENDEZVOUS_KEY_BYTES_MAX);
    return PS_OK;
}

/* Read into a key aside, so that a text which is none leaves the caller's as it was. */
enum ps_status ps_rendezvous_key_parse(struct ps_bytes text, struct ps_rendezvous_key *key,
                                       struct ps_error *error)
{
    struct ps_rendezvous_key read = {.source_incarnation = 0};
    struct ps_bytes left = text;
    struct ps_bytes incarnation;
    bool is_key = text.size <= PS_RENDEZVOUS_KEY_BYTES_MAX && take_device(&left, &read.source) &&
                  take_part(&left, &incarnation) &&
                  parse_incarnation(incarnation, &read.source_incarnation) &&
                  take_device(&left, &read.destination) && take_part(&left, &read.edge) &&
                  read.edge.size > 0;
    /* What is left behind the fourth part is the fifth: the reference does not look into it
     * either, but a further part would be a mistake of whoever made the key. */
    read.frame = left;
    if (!is_key || left.size == 0 || memchr(left.data, ';', left.size) != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "Invalid rendezvous key: %.*s",
                       text.size < 200 ? (int)text.size : 200, (const char *)text.data);
    *key = read;
    return PS_OK;
}

/* The two devices are read alike. */
static bool take_device(struct ps_bytes *left, struct ps_rendezvous_device *device)
{
    struct ps_bytes part;
    return take_part(left, &part) && parse_device(part, device);
}

/* Up to the next ';', which goes with it; false: there is none any more. */
static bool take_part(struct ps_bytes *left, struct ps_bytes *part)
{
    const uint8_t *end = left->size > 0 ? memchr(left->data, ';', left->size) : NULL;
    if (end == NULL)
        return false;
    *part = (struct ps_bytes){left->data, (size_t)(end - left->data)};
    left->data += part->size + 1;
    left->size -= part->size + 1;
    return true;
}

/* A full name has every part; those of a graph before its placement, which lack some, are refused:
 * two ends that each fill in what is missing could mean two devices. */
static bool parse_device(struct ps_bytes text, struct ps_rendezvous_device *device)
{
    struct ps_bytes left = text;
    device->text = text;
    if (!take_word(&left, "/job:") || !take_name(&left, &device->job) ||
        !take_word(&left, "/replica:") || !take_number(&left, &device->replica) ||
        !take_word(&left, "/task:") || !take_number(&left, &device->task))
        return false;
    /* The form of before has the type where the other one has the word "device". */
    if (!take_word(&left, "/device:") && !take_word(&left, "/"))
        return false;
    /* The form of before ends in "/", the other one in ":". */
    bool is_old = left.data[-1] == '/';
    if (!take_name(&left, &device->type) || !take_word(&left, ":") ||
        !take_number(&left, &device->number))
        return false;
    const char *type = (const char *)device->type.data;
    return left.size == 0 &&
           (!is_old || (device->type.size == 3 &&
                        (strncasecmp(type, "cpu", 3) == 0 || strncasecmp(type, "gpu", 3) == 0)));
}

/* Shorter ones are accepted, as by the reference. */
static bool parse_incarnation(struct ps_bytes text, uint64_t *incarnation)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        /* Capital digits are read, although nobody writes them here. */
        int small = text.data[i] >= 'A' && text.data[i] <= 'F' ? text.data[i] + 32 : text.data[i];
        const char *digit = small != 0 ? strchr(digits, small) : NULL;
        if (digit == NULL)
            return false;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *incarnation = value;
    return text.size >= 1 && text.size <= 16;
}

/* What is not there leaves `left` as it was, so that another form can be tried. */
static bool take_word(struct ps_bytes *left, const char *word)
{
    size_t size = strlen(word);
    if (left->size < size || memcmp(left->data, word, size) != 0)
        return false;
    left->data += size;
    left->size -= size;
    return true;
}

/* Letters, digits, '_' and '-': what a job and a type of device are called. */
static bool take_name(struct ps_bytes *left, struct ps_bytes *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    *name = (struct ps_bytes){left->data, 0};
    while (name->size < left->size && left->data[name->size] != 0 &&
           strchr(letters, left->data[name->size]) != NULL)
        name->size++;
    left->data += name->size;
    left->size -= name->size;
    return name->size > 0;
}

/* Nine digits at most: no job has more devices, and no number overflows. */
static bool take_number(struct ps_bytes *left, uint32_t *number)
{
    size_t count = 0;
    *number = 0;
    while (count < left->size && count < 10 && left->data[count] >= '0' && left->data[count] <= '9')
        *number = *number * 10 + (uint32_t)(left->data[count++] - '0');
    left->data += count;
    left->size -= count;
    /* A number of ten digits may be above 2^32: it was not read to its end, and is refused. */
    return count > 0 && count < 10;
}

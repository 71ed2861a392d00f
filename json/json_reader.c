/* SPDX-License-Identifier: Apache-2.0 */
/* cJSON behind our own names, for text from outside.
 *
 * cJSON is lenient about what bytes a text may hold and would end a text at an escaped NUL, so that
 * two different names could become one. Both are looked at before it sees the text: valid UTF-8, no
 * control characters, no \u0000. It limits the depth of nesting itself (CJSON_NESTING_LIMIT), and
 * size_max limits the work.
 *
 * struct ps_json is never defined: a value is a cJSON item under another name, so that cJSON's type
 * stays in this file and access costs nothing. All readers accept NULL (an absent member) and
 * answer as for a wrong type, so a chain of look-ups needs one check at its end. */
#include "json/json_reader.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <cjson/cJSON.h>

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 2^53: above this, not every whole number has a double of its own, and cJSON keeps numbers as
 * doubles. */
#define EXACT_MAX 9007199254740992.0

static enum ps_status check_bytes(struct ps_bytes text, struct ps_error *error);
static enum ps_status check_rest(struct ps_bytes text, const char *end, struct ps_error *error);

static const cJSON *item_of(const struct ps_json *value)
{
    return (const cJSON *)value;
}

/* The two casts of this file, in one place each. */
static const struct ps_json *value_of(const cJSON *item)
{
    return (const struct ps_json *)item;
}

enum ps_status ps_json_parse(struct ps_bytes text, size_t size_max, struct ps_json **document,
                             struct ps_error *error)
{
    PS_ASSERT(document != NULL);
    /* The bound is the caller's, who knows what such a document is; cJSON takes several times its
     * size. */
    if (text.size > size_max)
        return ps_fail(error, PS_ERR_BAD_INPUT, "JSON of %zu bytes, more than the limit of %zu",
                       text.size, size_max);
    /* An empty text would be reported by cJSON at no place at all. */
    if (text.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "no JSON: empty");
    PS_TRY(check_bytes(text, error));
    const char *start = (const char *)text.data;
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(start, text.size, &end, false);
    if (root == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "no JSON from byte %zu on",
                       end != NULL ? (size_t)(end - start) : 0);
    /* `end` is within the text: cJSON was told the length and does not look for a NUL. */
    enum ps_status status = check_rest(text, end, error);
    if (status != PS_OK) {
        cJSON_Delete(root);
        return status;
    }
    *document = (struct ps_json *)root;
    return PS_OK;
}

/* One pass over the bytes, without a notion of strings: what is forbidden within a string is no
 * valid JSON outside of one either. */
static enum ps_status check_bytes(struct ps_bytes text, struct ps_error *error)
{
    if (!ps_utf8_valid(text))
        return ps_fail(error, PS_ERR_BAD_INPUT, "no JSON: not UTF-8");
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t')
            return ps_fail(error, PS_ERR_BAD_INPUT, "no JSON: control character at byte %zu", i);
        if (byte != '\\')
            continue;
        /* Written out or escaped, a NUL ends a C string; the plain one is a control character and
         * was refused above. */
        if (text.size - i >= 6 && memcmp(text.data + i, "\\u0000", 6) == 0)
            return ps_fail(error, PS_ERR_BAD_INPUT, "JSON text holds a NUL at byte %zu", i);
        i++; /* what is escaped begins no escape of its own */
    }
    return PS_OK;
}

/* cJSON stops behind the first value. A second one behind it means that two documents were joined
 * or that a file was written over by a shorter one. */
static enum ps_status check_rest(struct ps_bytes text, const char *end, struct ps_error *error)
{
    const char *limit = (const char *)text.data + text.size;
    while (end < limit && isspace((unsigned char)*end))
        end++;
    if (end == limit)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "bytes after the JSON document, at byte %zu",
                   (size_t)(end - (const char *)text.data));
}

void ps_json_destroy(struct ps_json *document)
{
    cJSON_Delete((cJSON *)document);
}

const struct ps_json *ps_json_member(const struct ps_json *object, const char *name)
{
    PS_ASSERT(name != NULL);
    /* cJSON would search an array, too. */
    if (!ps_json_is_object(object))
        return NULL;
    return value_of(cJSON_GetObjectItemCaseSensitive(item_of(object), name));
}

size_t ps_json_count(const struct ps_json *array)
{
    return ps_json_is_array(array) ? (size_t)cJSON_GetArraySize(item_of(array)) : 0;
}

/* A walk: arrays are linked lists in cJSON. Whoever reads all elements uses ps_json_first and
 * ps_json_next. */
const struct ps_json *ps_json_at(const struct ps_json *array, size_t i)
{
    if (!ps_json_is_array(array))
        return NULL;
    const cJSON *item = item_of(array)->child;
    while (item != NULL && i-- > 0)
        item = item->next;
    return value_of(item);
}

/* Members of an object and elements of an array are chained alike. */
const struct ps_json *ps_json_first(const struct ps_json *container)
{
    if (!ps_json_is_object(container) && !ps_json_is_array(container))
        return NULL;
    return value_of(item_of(container)->child);
}

const struct ps_json *ps_json_next(const struct ps_json *value)
{
    return value != NULL ? value_of(item_of(value)->next) : NULL;
}

/* An element of an array has no key: NULL. */
const char *ps_json_key(const struct ps_json *value)
{
    return value != NULL ? item_of(value)->string : NULL;
}

/* cJSON's own tests accept NULL. */
bool ps_json_is_object(const struct ps_json *value)
{
    return cJSON_IsObject(item_of(value));
}

bool ps_json_is_array(const struct ps_json *value)
{
    return cJSON_IsArray(item_of(value));
}

const char *ps_json_string(const struct ps_json *value)
{
    return cJSON_IsString(item_of(value)) ? item_of(value)->valuestring : NULL;
}

bool ps_json_bool_of(const struct ps_json *value, bool *result)
{
    PS_ASSERT(result != NULL);
    if (!cJSON_IsBool(item_of(value)))
        return false;
    *result = cJSON_IsTrue(item_of(value));
    return true;
}

/* 1e999 is valid JSON and infinite as a double. */
bool ps_json_real_of(const struct ps_json *value, double *result)
{
    PS_ASSERT(result != NULL);
    if (!cJSON_IsNumber(item_of(value)) || !isfinite(item_of(value)->valuedouble))
        return false;
    *result = item_of(value)->valuedouble;
    return true;
}

/* A JSON number without a fraction that a double holds exactly. 2^53 itself is let through although
 * 2^53 + 1 reads as the same double: no writer of ours writes numbers of that size but as text. */
static bool whole_number(const struct ps_json *value, double *result)
{
    double number = 0;
    if (!ps_json_real_of(value, &number) || fabs(number) > EXACT_MAX)
        return false;
    *result = trunc(number);
    return !(*result < number) && !(*result > number);
}

/* Digits and nothing else; a sign where one is allowed. */
static bool is_digits(const char *text, bool may_be_negative)
{
    if (may_be_negative && text[0] == '-')
        text++;
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Numbers and texts of digits alike: protobuf's JSON mapping writes 64-bit numbers as texts, people
 * and other programs write them as numbers. */
bool ps_json_uint_of(const struct ps_json *value, uint64_t *result)
{
    PS_ASSERT(result != NULL);
    double number = 0;
    if (whole_number(value, &number)) {
        /* -0.0 is not below 0 and reads as 0. */
        if (number < 0)
            return false;
        *result = (uint64_t)number;
        return true;
    }
    const char *text = ps_json_string(value);
    if (text == NULL || !is_digits(text, false))
        return false;
    errno = 0;
    /* Only ERANGE is left to find out: the digits were checked. */
    uint64_t parsed = strtoull(text, NULL, 10);
    if (errno != 0)
        return false;
    *result = parsed;
    return true;
}

/* As ps_json_uint_of. strtoull would take "-1" for the largest number, hence the check of the
 * digits there and a conversion of its own here. */
bool ps_json_int_of(const struct ps_json *value, int64_t *result)
{
    PS_ASSERT(result != NULL);
    double number = 0;
    if (whole_number(value, &number)) {
        *result = (int64_t)number;
        return true;
    }
    const char *text = ps_json_string(value);
    if (text == NULL || !is_digits(text, true))
        return false;
    errno = 0;
    int64_t parsed = strtoll(text, NULL, 10);
    if (errno != 0)
        return false;
    *result = parsed;
    return true;
}

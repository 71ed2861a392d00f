/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON documents from outside: etcd's replies, checkpoint headers. The home of cJSON.
 *
 * Threads:  a document belongs to one thread.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT when the text is not JSON, too large, not UTF-8 or holds an escaped
 *           NUL (no text of ours has one); look-ups give NULL or false for what is not there or of
 *           another kind, and every look-up accepts NULL.
 * Memory:   a document is a tree on the heap, released with ps_json_destroy; texts point into it.
 */
#ifndef PS_JSON_JSON_READER_H
#define PS_JSON_JSON_READER_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A document, or any value inside one. */
struct ps_json;

/* Parses `text` of at most `size_max` bytes. Bytes after the document are an error. */
PS_MUST_USE enum ps_status ps_json_parse(struct ps_bytes text, size_t size_max,
                                         struct ps_json **document, struct ps_error *error);
void ps_json_destroy(struct ps_json *document);

const struct ps_json *ps_json_member(const struct ps_json *object, const char *name);
size_t ps_json_count(const struct ps_json *array);
/* Linear in i; go through a long array with ps_json_first and ps_json_next. */
const struct ps_json *ps_json_at(const struct ps_json *array, size_t i);
/* The members of an object or the elements of an array, in order. */
const struct ps_json *ps_json_first(const struct ps_json *container);
const struct ps_json *ps_json_next(const struct ps_json *value);
/* The key of a member; NULL elsewhere. */
const char *ps_json_key(const struct ps_json *value);

bool ps_json_is_object(const struct ps_json *value);
bool ps_json_is_array(const struct ps_json *value);

/* NUL-terminated; NULL when the value is not a string. */
const char *ps_json_string(const struct ps_json *value);
bool ps_json_bool_of(const struct ps_json *value, bool *result);
bool ps_json_real_of(const struct ps_json *value, double *result);
/* A whole number from a JSON number up to 2^53 or from a string of digits (etcd writes 64-bit
 * numbers as strings). False for anything else. */
bool ps_json_uint_of(const struct ps_json *value, uint64_t *result);
bool ps_json_int_of(const struct ps_json *value, int64_t *result);

#endif

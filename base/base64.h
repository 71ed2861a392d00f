/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text (RFC 4648, section 4: with padding, without line breaks).
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   false for text that no encoder writes.
 * Memory:   the caller's.
 */
#ifndef PS_BASE_BASE64_H
#define PS_BASE_BASE64_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters that `size` bytes take. */
size_t ps_base64_encoded_size(size_t size);

/* Appends the text of `bytes`. */
void ps_base64_append(struct ps_buffer *buffer, struct ps_bytes bytes);

/* Bytes that `size` characters give at most. */
size_t ps_base64_decoded_max(size_t size);

/* Writes the bytes of `text` to `destination`, which has room for ps_base64_decoded_max of them,
 * and their number to `*size`. False, with `*size` unchanged, when the length is not a multiple of
 * four, a character is foreign, or bits that the padding leaves over are not zero. */
PS_MUST_USE bool ps_base64_decode(struct ps_bytes text, uint8_t *destination, size_t *size);

#endif

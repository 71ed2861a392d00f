/* SPDX-License-Identifier: Apache-2.0 */
/* Tells UTF-8 (RFC 3629) from other bytes, and makes texts fit.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_UTF8_H
#define PS_BASE_UTF8_H

#include "base/bytes.h"

/* The length, 1 to 4, of the character that `bytes` begins with; 0 when it begins with none:
 * empty, cut, overlong, a surrogate or beyond U+10FFFF. */
size_t ps_utf8_first(struct ps_bytes bytes);

/* Every byte belongs to a character. True when empty. */
bool ps_utf8_valid(struct ps_bytes bytes);

/* The longest size, at most `size_max`, at which `bytes` can be cut without splitting a
 * character of valid UTF-8. */
size_t ps_utf8_cut(struct ps_bytes bytes, size_t size_max);

/* Copies the text `from` to `to`, which has room for `size` bytes with the NUL, 16 at least. Of one
 * that does not fit the middle is left out, at three quarters of the room for its end: a text for
 * people begins with a name, which may be as long as it likes, and says behind it what is wrong.
 * No character of valid UTF-8 is split. */
void ps_utf8_shorten(char *to, size_t size, const char *from);

#endif

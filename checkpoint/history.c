/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen bytes, in segments as they are and everywhere else as a uuid, whose digits stand in the
 * same order. A uuid and not a counter, because nobody is asked before one is drawn: a server
 * without a store begins a shard as one with a store does, and two machines that never hear of each
 * other must not draw the same. */
#include "checkpoint/history.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

static int digit_of(char letter);

/* No life is drawn as zero: a uuid has a version. */
bool ps_history_known(const struct ps_history *history)
{
    static const struct ps_history none;
    PS_ASSERT(history != NULL);
    return memcmp(history, &none, sizeof none) != 0;
}

/* A test build without it must fail the test of mixed folders (see PS_MUTATE). */
bool ps_history_differ(const struct ps_history *a, const struct ps_history *b)
{
#ifdef PS_MUTATE_SKIP_HISTORY_COMPARE
    return (void)a, (void)b, false;
#else
    return ps_history_known(a) && ps_history_known(b) && memcmp(a, b, sizeof *a) != 0;
#endif
}

/* The time in it is for people: it says when the shard began. Nothing sorts by it. */
void ps_history_draw(struct ps_random *random, uint64_t unix_ns, struct ps_history *history)
{
    char uuid[PS_UUID_BYTES];
    ps_uuid_make(random, unix_ns, uuid);
    bool is_read = ps_history_read(uuid, history);
    PS_ASSERT(is_read && ps_history_known(history));
}

/* The groups of a uuid are 4, 2, 2, 2 and 6 bytes. */
void ps_history_write(const struct ps_history *history, char text[PS_UUID_BYTES])
{
    size_t at = 0;
    text[0] = '\0';
    if (!ps_history_known(history))
        return;
    for (size_t i = 0; i < PS_HISTORY_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[at++] = '-';
        at += (size_t)snprintf(text + at, PS_UUID_BYTES - at, "%02x", history->bytes[i]);
    }
    PS_ASSERT(at == PS_UUID_BYTES - 1);
}

/* One form and no other, so that equal texts are equal numbers: lower case, all dashes. */
bool ps_history_read(const char *text, struct ps_history *history)
{
    struct ps_history read = {{0}};
    *history = read;
    if (text == NULL || strlen(text) != PS_UUID_BYTES - 1)
        return false;
    for (size_t i = 0; i < PS_HISTORY_BYTES; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
            return false;
        int high = digit_of(text[0]);
        int low = digit_of(text[1]);
        if (high < 0 || low < 0)
            return false;
        read.bytes[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    *history = read;
    return ps_history_known(&read);
}

/* -1 for anything else, the end of the text among it, so that nothing behind it is read. */
static int digit_of(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *digit = letter != '\0' ? strchr(digits, letter) : NULL;
    return digit != NULL ? (int)(digit - digits) : -1;
}

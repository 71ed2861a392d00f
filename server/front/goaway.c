/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that only breaks leaves its owner to guess. gRPC shows the text of a GOAWAY in the
 * status of the calls that it ends, so that whoever reads the log of a trainer finds the option
 * that its operator has to turn. */
#include "server/front/goaway.h"

#include "base/assert.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum {
    HEADER_BYTES = 9,
    FIXED_BYTES = 8,
    TEXT_BYTES_MAX = 200,
    GOAWAY = 7,
    ENHANCE_YOUR_CALM = 11
};

/* The highest stream that was looked at is not said: all calls of the connection end with it. */
static size_t make_frame(uint8_t *frame, const char *text)
{
    /* One byte of the length is enough for all that is said. */
    size_t text_bytes = strlen(text);
    if (text_bytes > TEXT_BYTES_MAX)
        text_bytes = TEXT_BYTES_MAX;
    memset(frame, 0, HEADER_BYTES + FIXED_BYTES);
    frame[2] = (uint8_t)(FIXED_BYTES + text_bytes);
    frame[3] = GOAWAY;
    /* 2^31 - 1: a client that believed that later calls were not looked at would send them again
     * at once. */
    memset(frame + HEADER_BYTES, 0xff, 4);
    frame[HEADER_BYTES] = 0x7f;
    frame[HEADER_BYTES + 7] = ENHANCE_YOUR_CALM;
    memcpy(frame + HEADER_BYTES + FIXED_BYTES, text, text_bytes);
    return HEADER_BYTES + FIXED_BYTES + text_bytes;
}

/* The descriptor is not closed here: gRPC sees the end, and closes it. */
void ps_goaway(int descriptor, bool says_why, const char *text)
{
    PS_ASSERT(descriptor >= 0 && text != NULL);
    uint8_t frame[HEADER_BYTES + FIXED_BYTES + TEXT_BYTES_MAX];
    if (says_why) {
        size_t size = make_frame(frame, text);
        (void)!send(descriptor, frame, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    (void)shutdown(descriptor, SHUT_RDWR);
}

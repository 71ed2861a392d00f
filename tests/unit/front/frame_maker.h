/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of HTTP/2 as bytes, for tests.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place, bounded.
 */
#ifndef PS_TESTS_UNIT_FRONT_FRAME_MAKER_H
#define PS_TESTS_UNIT_FRONT_FRAME_MAKER_H

#include <stdint.h>
#include <string.h>

enum { FRAMES_BYTES_MAX = 1 << 20 };

enum {
    DATA = 0,
    HEADERS = 1,
    PRIORITY = 2,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    CONTINUATION = 9,
    END_STREAM = 1,
    ACK = 1,
    END_HEADERS = 4
};

struct frames {
    uint8_t bytes[FRAMES_BYTES_MAX];
    size_t size;
};

static inline void frames_add(struct frames *frames, uint8_t type, uint8_t flags, uint32_t stream,
                              uint32_t size)
{
    const uint8_t header[9] = {(uint8_t)(size >> 16),
                               (uint8_t)(size >> 8),
                               (uint8_t)size,
                               type,
                               flags,
                               (uint8_t)(stream >> 24),
                               (uint8_t)(stream >> 16),
                               (uint8_t)(stream >> 8),
                               (uint8_t)stream};
    memcpy(frames->bytes + frames->size, header, sizeof header);
    memset(frames->bytes + frames->size + sizeof header, 0x01, size);
    frames->size += sizeof header + size;
}

static inline void frames_begin(struct frames *frames)
{
    frames->size = 24;
    memcpy(frames->bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
}

#endif

/* Versions of parameters that are being read in ranges: a reader who got the first range of a
 * version gets the others of the same, whatever is pushed meanwhile.
 *
 * A pin holds a version's blocks by reference. It ends when everything that its readers began was
 * given out, when nobody has asked for PS_PINS_IDLE_MS (looked at with each range that anybody
 * asks for), or when there are too many: then the one that was not asked for the longest goes. A
 * reader whose version is gone begins again.
 *
 * Threads:  every function is safe from any thread, but for init and fini.
 * Blocking: never.
 * Errors:   none.
 * Memory:   PS_PINS_MAX pins; of all pinned versions together at most PS_PINS_BYTES_MAX, but one
 *           always fits.
 */
#ifndef PS_SERVER_CORE_PINS_H
#define PS_SERVER_CORE_PINS_H

#include "base/thread.h"
#include "server/core/values/blocks.h"

#define PS_PINS_MAX 32
#define PS_PINS_BYTES_MAX ((uint64_t)4 << 30)
#define PS_PINS_IDLE_MS 30000

struct ps_pin {
    struct ps_blocks *values; /* a reference; NULL: free */
    uint64_t version;
    uint64_t owed; /* bytes that its readers have not asked for yet */
    uint64_t used_ms;
};

struct ps_pins {
    struct ps_mutex lock; /* PS_RANK_QUEUE; guards all that follows */
    struct ps_pin pins[PS_PINS_MAX];
    uint64_t bytes;
    size_t count;
};

void ps_pins_init(struct ps_pins *pins);
void ps_pins_fini(struct ps_pins *pins);
void ps_pins_clear(struct ps_pins *pins);

/* A reader begins to read `bytes` of `values`, which are `version` of their parameter. Borrowed; a
 * reference is taken. */
void ps_pins_begin(struct ps_pins *pins, struct ps_blocks *values, uint64_t version, uint64_t bytes,
                   uint64_t now_ms);

/* Returns a reference to that version of the parameter of `spec`; end it with ps_blocks_release.
 * NULL when it is not pinned. */
struct ps_blocks *ps_pins_find(struct ps_pins *pins, const struct ps_parameter_spec *spec,
                               uint64_t version, uint64_t now_ms);

/* `bytes` of a version were given out; a version that is not pinned is ignored. */
void ps_pins_gave(struct ps_pins *pins, const struct ps_parameter_spec *spec, uint64_t version,
                  uint64_t bytes);

/* For metrics. */
void ps_pins_look(struct ps_pins *pins, uint64_t *bytes, size_t *count);

#endif

/* A few pins, searched one by one. What a pin held is released outside of the lock. */
#include "server/core/values/pins.h"

#include "base/assert.h"

/* What pins that end give back. */
struct leaving {
    struct ps_blocks *values[PS_PINS_MAX + 1];
    size_t count;
};

void ps_pins_init(struct ps_pins *pins)
{
    *pins = (struct ps_pins){0};
    ps_mutex_init(&pins->lock, PS_RANK_QUEUE);
}

void ps_pins_fini(struct ps_pins *pins)
{
    ps_pins_clear(pins);
    ps_mutex_fini(&pins->lock);
}

static void end_pin(struct ps_pins *pins, struct ps_pin *pin, struct leaving *leaving)
{
    PS_ASSERT(pins->count > 0 && pins->bytes >= pin->values->size);
    pins->count--;
    pins->bytes -= pin->values->size;
    leaving->values[leaving->count++] = pin->values;
    *pin = (struct ps_pin){0};
}

static void let_go(struct leaving *leaving)
{
    for (size_t i = 0; i < leaving->count; i++)
        ps_blocks_release(leaving->values[i]);
}

void ps_pins_clear(struct ps_pins *pins)
{
    struct leaving leaving = {.count = 0};
    ps_mutex_lock(&pins->lock);
    for (size_t i = 0; i < PS_PINS_MAX; i++)
        if (pins->pins[i].values != NULL)
            end_pin(pins, &pins->pins[i], &leaving);
    ps_mutex_unlock(&pins->lock);
    let_go(&leaving);
}

static struct ps_pin *find_pin(struct ps_pins *pins, const struct ps_parameter_spec *spec,
                               uint64_t version)
{
    for (size_t i = 0; i < PS_PINS_MAX; i++) {
        struct ps_pin *pin = &pins->pins[i];
        if (pin->values != NULL && pin->values->spec == spec && pin->version == version)
            return pin;
    }
    return NULL;
}

static void end_idle(struct ps_pins *pins, uint64_t now_ms, struct leaving *leaving)
{
    for (size_t i = 0; i < PS_PINS_MAX; i++) {
        struct ps_pin *pin = &pins->pins[i];
        if (pin->values != NULL && now_ms >= pin->used_ms + PS_PINS_IDLE_MS)
            end_pin(pins, pin, leaving);
    }
}

/* Ends the idlest until a pin and `bytes` have room; returns the free one. */
static struct ps_pin *make_room(struct ps_pins *pins, uint64_t bytes, struct leaving *leaving)
{
    for (;;) {
        struct ps_pin *idlest = NULL;
        struct ps_pin *empty = NULL;
        for (size_t i = 0; i < PS_PINS_MAX; i++) {
            struct ps_pin *pin = &pins->pins[i];
            if (pin->values == NULL)
                empty = pin;
            else if (idlest == NULL || pin->used_ms < idlest->used_ms)
                idlest = pin;
        }
        bool fits = idlest == NULL ||
                    (pins->bytes <= PS_PINS_BYTES_MAX && bytes <= PS_PINS_BYTES_MAX - pins->bytes);
        if (empty != NULL && fits)
            return empty;
        end_pin(pins, idlest, leaving);
    }
}

void ps_pins_begin(struct ps_pins *pins, struct ps_blocks *values, uint64_t version, uint64_t bytes,
                   uint64_t now_ms)
{
    struct leaving leaving = {.count = 0};
    ps_mutex_lock(&pins->lock);
    end_idle(pins, now_ms, &leaving);
    struct ps_pin *pin = find_pin(pins, values->spec, version);
    if (pin == NULL) {
        pin = make_room(pins, values->size, &leaving);
        *pin = (struct ps_pin){.values = ps_blocks_acquire(values), .version = version};
        pins->bytes += values->size;
        pins->count++;
    }
    pin->owed += bytes;
    pin->used_ms = now_ms;
    ps_mutex_unlock(&pins->lock);
    let_go(&leaving);
}

struct ps_blocks *ps_pins_find(struct ps_pins *pins, const struct ps_parameter_spec *spec,
                               uint64_t version, uint64_t now_ms)
{
    struct leaving leaving = {.count = 0};
    struct ps_blocks *values = NULL;
    ps_mutex_lock(&pins->lock);
    struct ps_pin *pin = find_pin(pins, spec, version);
    if (pin != NULL) {
        pin->used_ms = now_ms;
        values = ps_blocks_acquire(pin->values);
    }
    end_idle(pins, now_ms, &leaving);
    ps_mutex_unlock(&pins->lock);
    let_go(&leaving);
    return values;
}

void ps_pins_gave(struct ps_pins *pins, const struct ps_parameter_spec *spec, uint64_t version,
                  uint64_t bytes)
{
    struct leaving leaving = {.count = 0};
    ps_mutex_lock(&pins->lock);
    struct ps_pin *pin = find_pin(pins, spec, version);
    if (pin != NULL) {
        pin->owed -= bytes < pin->owed ? bytes : pin->owed;
        if (pin->owed == 0)
            end_pin(pins, pin, &leaving);
    }
    ps_mutex_unlock(&pins->lock);
    let_go(&leaving);
}

void ps_pins_look(struct ps_pins *pins, uint64_t *bytes, size_t *count)
{
    ps_mutex_lock(&pins->lock);
    *bytes = pins->bytes;
    *count = pins->count;
    ps_mutex_unlock(&pins->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The device runtime from the inside: four streams, a ring of slots, tickets. What a driver does
 * is in driver.h; what users see is in optimizer/device.h.
 *
 *   copy_in    a gradient from a slot's host half to its device half
 *   look       a gradient that nobody has looked at, and the verdict about it
 *   compute    updates, snapshots, loads: whatever touches a parameter, in the order of the calls
 *   copy_out   reads
 *
 * What must wait for what, beyond the order of each stream:
 *
 *   W1  the host fills a slot      after the copy out of its host half     (slot->copied)
 *   W2  copy_in fills a slot       after the update that read its device half (slot->done)
 *   W3  an update reads a slot     after the copy into it                  (slot->copied)
 *   W4  a read begins              after the updates queued before it      (compute's timeline)
 *   W5  an update writes           after reads of the same elements begun before (copy_out's)
 *   W6  a gradient is looked at    after the copy into its slot            (slot->copied)
 *   W7  the host reads a verdict   after it was copied to the host         (slot->judged)
 *
 * Slots that hold a gradient which was looked at wait for whoever pushes it, who may wait for the
 * parameter's lock, whose holder may wait for a slot: so some are never given for that purpose.
 *
 * Threads:  any; `lock` guards the order in which work is queued.
 * Blocking: ps_slot_take waits for the device.
 * Errors:   numbers of the driver end in ps_device_check_code, the funnel.
 * Memory:   a device owns its slots, streams and events.
 */
#ifndef PS_OPTIMIZER_DEVICE_RUNTIME_H
#define PS_OPTIMIZER_DEVICE_RUNTIME_H

#include "base/clock.h"
#include "base/thread.h"
#include "optimizer/device.h"
#include "optimizer/device/budget.h"
#include "optimizer/device/device_wait.h"
#include "optimizer/device/driver.h"
#include "optimizer/device/driver_calls.h"
#include "optimizer/device/fault.h"
#include "optimizer/device/gradient_parts.h"

#define PS_SLOTS_MAX 64
#define PS_SLOT_BYTES (4u << 20)
#define PS_SLOT_BYTES_MIN (64u << 10)

/* Room for a verdict; the sums that it is made from come behind it, on the device. */
#define PS_VERDICT_BYTES 256
_Static_assert(sizeof(struct ps_cuda_verdict) <= PS_VERDICT_BYTES, "a verdict has room");

/* Records that are told apart; older tickets wait for a newer record of the same stream, which is
 * as good since a stream runs in order. */
#define PS_TIMELINE_EVENTS 256

/* The tests' switch: leaves out one of W1 to W7, so that one can see them notice; 8 lets updates
 * ask a verdict that nobody keeps for them, 9 wait for the first part of a read alone;
 * 10 gives memory out again while somebody reads it. 0 in every build that is used. */
#ifndef PS_DEVICE_MISSING_WAIT
#define PS_DEVICE_MISSING_WAIT 0
#endif

struct ps_timeline {
    uint64_t newest; /* ticket given out last */
    struct ps_driver_stream *stream;
    struct ps_driver_event *events[PS_TIMELINE_EVENTS];
};

/* Each half has `slot_bytes` for gradients, and behind them room for the table of a launch, or for
 * a verdict and what it is made from. */
struct ps_slot {
    uint8_t *host;
    uint8_t *device;
    struct ps_driver_event *copied; /* the host half may be written again */
    struct ps_driver_event *done;   /* the device half may be */
    struct ps_driver_event *judged; /* the verdict's copy behind the host half may be read */
};

/* So many slots that are given out in the order of asking; guarded by the device's lock. */
struct ps_slot_room {
    size_t free;
    uint64_t turn; /* whose it is to take some */
    uint64_t turn_newest;
};

struct ps_ring {
    uint8_t *host;
    uint8_t *device;
    size_t slot_bytes;
    size_t entries_max;  /* of a table */
    size_t behind_bytes; /* entries and their chunks, or a verdict and its sums */
    size_t slot_count;
    size_t judged_slots_max; /* that one gradient may take at once, to be looked at */
    struct ps_slot slots[PS_SLOTS_MAX];
    /* Slots that nobody fills, the longest unused first; guarded by the device's lock. */
    struct ps_slot *idle[PS_SLOTS_MAX];
    size_t idle_first;
    struct ps_slot_room room;        /* of all slots */
    struct ps_slot_room judged_room; /* of those that gradients to be looked at may take */
    struct ps_condition returned;
};

/* Pieces of the device's memory that nobody has, the longest unused first; guarded by the device's
 * lock. */
#define PS_KEPT_MAX 256
struct ps_kept_piece {
    uint8_t *memory;
    uint64_t size;
    uint64_t read; /* copy_out's ticket: reads of it may be on their way until then */
};
struct ps_kept_memory {
    struct ps_kept_piece pieces[PS_KEPT_MAX];
    size_t count;
    uint64_t bytes;
};

/* Memory of others that the device copies from; guarded by the device's lock. */
#define PS_REGISTERED_MAX 256
struct ps_registered {
    uint8_t *memory[PS_REGISTERED_MAX];
    size_t size[PS_REGISTERED_MAX];
    size_t count;
};

/* Memory of other processes on this device; guarded by the device's lock. */
#define PS_IMPORTED_MAX 1024
struct ps_imported {
    uint8_t *memory[PS_IMPORTED_MAX];
    uint64_t size[PS_IMPORTED_MAX];
    size_t count;
};

struct ps_device {
    const struct ps_allocator *memory;
    struct ps_driver driver;
    struct ps_driver_calls calls;
    struct ps_registered registered;
    struct ps_imported imported;
    struct ps_fault fault;
    struct ps_watch watch;
    struct ps_budget budget;
    struct ps_kept_memory kept;
    struct ps_device_facts facts;
    struct ps_mutex lock; /* PS_RANK_QUEUE */
    struct ps_driver_stream *copy_in;
    struct ps_driver_stream *look;
    struct ps_timeline compute;
    struct ps_timeline copy_out;
    struct ps_ring ring;
    struct ps_condition moved; /* what was lent to a snapshot came to the host, or failed to */
    uint64_t pack_newest;      /* guarded by the lock */
    _Atomic uint64_t pinned_bytes;
    _Atomic uint64_t parameter_count;
    _Atomic uint64_t snapshot_count;
    _Atomic uint64_t streamed_count;
    _Atomic uint64_t push_count;
    _Atomic uint64_t launch_count;
    _Atomic uint64_t wait_count;
    _Atomic uint64_t direct_bytes;
    _Atomic uint64_t in_place_bytes;
    _Atomic uint64_t bytes_in;
    _Atomic uint64_t bytes_out;
};

#define PS_DEVICE_ARRAYS_MAX (1 + PS_STATES_MAX)

/* A part of a read that was begun: bytes [begin, end) of an array, whichever. */
struct ps_device_reading {
    uint64_t begin;
    uint64_t end;
    uint64_t ticket; /* copy_out's */
};

/* Into so many parts a read is cut at most: updates of one go on while others are yet to come. */
#define PS_READINGS_MAX 128

struct ps_device_parameter {
    struct ps_device *device;
    enum ps_dtype dtype;
    uint64_t count;
    uint32_t array_count;
    uint64_t array_bytes; /* of each, padding included */
    uint8_t *arrays;      /* one after another */
    uint64_t pack;        /* that the newest update is in */
    /* Those that nothing queued on the compute stream waits for yet, the oldest first. */
    struct ps_device_reading readings[PS_READINGS_MAX];
    size_t reading_count;
    struct ps_device_snapshot *lent; /* that have no other copy of it yet, the newest first; guarded
                                        by the device's lock */
};

/* ---- runtime.c ---- */

/* The funnel: 0 is PS_OK. Anything else is the device's end, and the text says what was done. */
PS_MUST_USE enum ps_status ps_device_check_code(struct ps_device *device, int code,
                                                const char *action, struct ps_error *error);

/* The same for a call that asked for memory: a refusal is PS_ERR_NO_MEMORY and no more. */
PS_MUST_USE enum ps_status ps_device_check_memory(struct ps_device *device, int code,
                                                  const char *action, uint64_t bytes,
                                                  struct ps_error *error);

/* To be called first by whatever speaks to the driver: this thread is the device's, and the device
 * lives. */
PS_MUST_USE enum ps_status ps_device_enter(struct ps_device *device, struct ps_error *error);

/* Records where the stream is now: the ticket is done when it has come past. Under the lock. */
PS_MUST_USE enum ps_status ps_timeline_mark(struct ps_device *device, struct ps_timeline *timeline,
                                            uint64_t *ticket, struct ps_error *error);

/* Lets `stream` wait for a ticket. Under the lock. */
PS_MUST_USE enum ps_status ps_timeline_await(struct ps_device *device, struct ps_timeline *timeline,
                                             uint64_t ticket, struct ps_driver_stream *stream,
                                             struct ps_error *error);

/* ---- device_wait.c ---- */

/* Returns when the device has come past the event, or is dead; the watch is told of who sleeps. */
PS_MUST_USE enum ps_status ps_device_await_event(struct ps_device *device,
                                                 struct ps_driver_event *event, const char *action,
                                                 struct ps_error *error);

/* ---- device_memory.c ---- */

/* Memory that the budget has room for, with undefined content; `purpose` is for the text of a
 * refusal. The compute stream is the first to use it. PS_ERR_BUSY: the budget; PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_device_acquire_memory(struct ps_device *device, uint64_t size,
                                                    const char *purpose, uint8_t **memory,
                                                    struct ps_error *error);

/* Everything that uses it has been queued, on the compute stream or copy_out. */
void ps_device_release_memory(struct ps_device *device, uint8_t *memory, uint64_t size);

/* What was given back goes to the driver. */
void ps_device_free_kept(struct ps_device *device);

/* ---- ring.c ---- */

/* Asks the driver for the ring. What was given is given back by ps_ring_close, also after a
 * failure. */
PS_MUST_USE enum ps_status ps_ring_open(struct ps_device *device, uint64_t pinned_bytes,
                                        struct ps_error *error);
void ps_ring_close(struct ps_device *device);

/* A slot whose host half may be written. Waits for one; the caller holds none. */
PS_MUST_USE enum ps_status ps_slot_take(struct ps_device *device, struct ps_slot **slot,
                                        struct ps_error *error);

/* The same for `count` slots at once, for a gradient to be looked at; each is to be waited for
 * before it is written. Whoever holds such slots may wait for the device, for locks, and for a slot
 * of ps_slot_take; whoever holds one of those, for the device alone. */
void ps_slots_take_judged(struct ps_device *device, struct ps_slot **slots, size_t count);
void ps_slots_return_judged(struct ps_device *device, struct ps_slot **slots, size_t count);

/* Returns when the host half may be written (W1). */
PS_MUST_USE enum ps_status ps_slot_await(struct ps_device *device, struct ps_slot *slot,
                                         struct ps_error *error);

/* Queues the copy of a gradient of `size` bytes, and of what is behind it, to the device half
 * (W2). `from` is the host half, or registered memory that stays as it is until slot->copied. Under
 * the lock. */
PS_MUST_USE enum ps_status ps_slot_send(struct ps_device *device, struct ps_slot *slot,
                                        const uint8_t *from, size_t size, size_t behind,
                                        struct ps_error *error);

/* The slot is filled and queued, or was not needed. NULL is allowed. */
void ps_slot_return(struct ps_device *device, struct ps_slot *slot);

/* ---- device_host.c ---- */

PS_MUST_USE enum ps_status ps_device_host_register(struct ps_device *device, void *memory,
                                                   size_t size, struct ps_error *error);
void ps_device_host_unregister(struct ps_device *device, void *memory);

/* The part's bytes, where the device can copy them from; NULL: they go through a slot's host half.
 * Small ones do, and those of encodings that have two kinds of data. */
const uint8_t *ps_device_direct(struct ps_device *device, const struct ps_gradient_source *source,
                                const struct ps_gradient_part *part);

/* ---- device_import.c ---- */

PS_MUST_USE enum ps_status ps_device_import(struct ps_device *device,
                                            const struct ps_device_share *share, uint8_t **memory,
                                            struct ps_error *error);
void ps_device_unimport(struct ps_device *device, uint8_t *memory);
PS_MUST_USE enum ps_status ps_device_copy_out(struct ps_device_parameter *parameter, uint32_t array,
                                              uint64_t offset, uint8_t *to, uint64_t size,
                                              struct ps_device_ticket *ticket,
                                              struct ps_error *error);

/* Where a native gradient lies that is in imported memory, whole and in one piece; NULL: it is in
 * the host's. */
const uint8_t *ps_device_in_place(struct ps_device *device,
                                  const struct ps_gradient_source *source);

/* Queues its update, with one launch. */
PS_MUST_USE enum ps_status ps_device_push_in_place(struct ps_device_parameter *parameter,
                                                   const struct ps_gradient_source *source,
                                                   const uint8_t *place,
                                                   const struct ps_optimizer_step *step,
                                                   struct ps_error *error);

/* ---- device_push.c ---- */

/* What the kernels are told about a part whose gradient lies at `place` on the device. */
struct ps_cuda_run ps_device_run(const struct ps_device_parameter *parameter,
                                 const struct ps_gradient_source *source,
                                 const struct ps_gradient_part *part, const uint8_t *place);

/* ---- device_read.c ---- */

/* Lets what comes next in the compute stream wait for reads of these elements that were begun (W5).
 * Takes the lock, if there are any. */
PS_MUST_USE enum ps_status ps_device_await_readers(struct ps_device_parameter *parameter,
                                                   uint64_t first, uint64_t count,
                                                   struct ps_error *error);

/* ---- device_transfer.c ---- */

/* From any memory of the host to the device's, by way of slots, on the compute stream. */
PS_MUST_USE enum ps_status ps_device_load(struct ps_device *device, uint8_t *to,
                                          struct ps_view content, struct ps_error *error);

/* The other way, after the compute stream's work queued so far; waits for it. */
PS_MUST_USE enum ps_status ps_device_fetch(struct ps_device *device, void *to, const uint8_t *from,
                                           size_t size, struct ps_error *error);

/* ---- The rest of the table in plugin.c ---- */

PS_MUST_USE enum ps_status ps_device_open(const struct ps_device_options *options,
                                          struct ps_device **device, struct ps_error *error);
void ps_device_close(struct ps_device *device);
PS_MUST_USE enum ps_status ps_device_wait(struct ps_device *device, struct ps_device_ticket ticket,
                                          struct ps_error *error);

PS_MUST_USE enum ps_status ps_device_supports(const struct ps_device_parameter_wish *wish,
                                              struct ps_error *error);
uint64_t ps_device_parameter_bytes(const struct ps_device_parameter_wish *wish);
PS_MUST_USE enum ps_status ps_device_parameter_create(struct ps_device *device,
                                                      const struct ps_device_parameter_wish *wish,
                                                      struct ps_device_parameter **parameter,
                                                      struct ps_error *error);
void ps_device_parameter_destroy(struct ps_device_parameter *parameter);
uint8_t *ps_device_parameter_array(const struct ps_device_parameter *parameter, uint32_t array);

PS_MUST_USE enum ps_status ps_device_push_all(struct ps_device *device,
                                              const struct ps_device_push *pushes, size_t count,
                                              struct ps_device_ticket *ticket,
                                              struct ps_error *error);

bool ps_device_judges(struct ps_device_parameter *parameter, struct ps_view gradient,
                      enum ps_encoding encoding);
PS_MUST_USE enum ps_status ps_device_judge(struct ps_device_parameter *parameter,
                                           const struct ps_optimizer_settings *settings,
                                           struct ps_view gradient, enum ps_encoding encoding,
                                           struct ps_device_judged **judged,
                                           struct ps_gradient_scan *scan, struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_push_judged(struct ps_device_judged *judged,
                                                 const struct ps_optimizer_step *step,
                                                 struct ps_device_ticket *ticket,
                                                 struct ps_error *error);
void ps_device_judged_release(struct ps_device_judged *judged);

PS_MUST_USE enum ps_status ps_device_read_begin(struct ps_device_parameter *parameter,
                                                uint32_t array, uint64_t offset,
                                                const struct ps_bytes *pieces, size_t piece_count,
                                                struct ps_device_ticket *ticket,
                                                struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_read(struct ps_device_parameter *parameter, uint32_t array,
                                          uint64_t offset, void *destination, size_t size,
                                          struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_write(struct ps_device_parameter *parameter, uint32_t array,
                                           uint64_t offset, struct ps_view content,
                                           struct ps_error *error);

PS_MUST_USE enum ps_status ps_device_snapshot_reserve(struct ps_device_parameter *parameter,
                                                      struct ps_device_snapshot **snapshot,
                                                      struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_snapshot_take(struct ps_device_parameter *parameter,
                                                   struct ps_device_snapshot *snapshot,
                                                   struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_snapshot_read(struct ps_device_snapshot *snapshot,
                                                   uint32_t array, uint64_t offset,
                                                   void *destination, size_t size,
                                                   struct ps_error *error);
void ps_device_snapshot_release(struct ps_device_snapshot *snapshot);
PS_MUST_USE enum ps_status ps_device_make_way(struct ps_device_parameter *parameter,
                                              struct ps_error *error);

PS_MUST_USE enum ps_status ps_device_rows_support(const struct ps_device_rows_wish *wish,
                                                  struct ps_device_body *body,
                                                  struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_rows_create(struct ps_device *device,
                                                 const struct ps_device_rows_wish *wish,
                                                 uint64_t count, struct ps_device_rows **rows,
                                                 struct ps_error *error);
void ps_device_rows_destroy(struct ps_device_rows *rows);
PS_MUST_USE enum ps_status ps_device_rows_grow(struct ps_device_rows *rows, uint64_t count,
                                               struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_rows_write(struct ps_device_rows *rows,
                                                const uint64_t *numbers, size_t count,
                                                const void *bodies, struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_rows_push(struct ps_device_rows *rows, const uint64_t *numbers,
                                               size_t count, const void *gradients,
                                               const struct ps_optimizer_step *step,
                                               struct ps_device_ticket *ticket,
                                               struct ps_error *error);
size_t ps_device_rows_read_max(const struct ps_device_rows *rows, size_t size);
PS_MUST_USE enum ps_status ps_device_rows_read_begin(struct ps_device_rows *rows,
                                                     const uint64_t *numbers, size_t count,
                                                     size_t offset, size_t size,
                                                     struct ps_device_rows_reading *reading,
                                                     struct ps_error *error);
PS_MUST_USE enum ps_status ps_device_rows_read_end(struct ps_device_rows_reading *reading,
                                                   const uint8_t **pieces, struct ps_error *error);
void ps_device_rows_read_release(struct ps_device_rows_reading *reading);

/* The parameter ends: makes way, or where the device is dead takes its arrays back all the same. */
void ps_device_stop_lending(struct ps_device_parameter *parameter);

/* Patterns written and read back, and one update compared with the CPU's bits. */
PS_MUST_USE enum ps_status ps_device_probe(struct ps_device *device, struct ps_error *error);

#endif

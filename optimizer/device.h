/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin interface of a device: parameters whose values and states live in its memory, and the
 * pushes, reads and snapshots of them. A plugin is a shared library with one exported symbol,
 * PS_DEVICE_ENTRY, which gives a constant table of functions; nothing of CUDA is seen here.
 *
 * Work is put in and waited for apart: push and read_begin return a ticket as soon as everything
 * is queued on the device, in the order of the calls for one parameter; wait says whether it was
 * done. Nothing that depends on the work may be acknowledged before.
 *
 * Memory is counted before the device is asked for any: what passes the budget is refused with
 * PS_ERR_BUSY and the numbers, and the device notices nothing.
 *
 * A device dies once. After the first error that is not a refused allocation every function that
 * can fail gives PS_ERR_UNAVAILABLE with the first error's text, `died` has been called, and no
 * wait succeeds any more. The process is to end; the device's memory must not be read. One that
 * hangs dies, too, after `wait_ms`: who waits for it then does not return, close included.
 *
 * Threads:  any, for everything that has a device; calls for one parameter or one snapshot come
 *           one after another (the parameter's lock), but for judges, judge and make_way, which
 *           need no lock. open and close by one thread.
 * Blocking: wait, read, write, snapshot_read, judge, make_way, rows_read_end, close and whatever
 *           finds the ring full, or a push that nobody made way for, wait for the device; what
 *           gives it memory back may. The rest does not.
 * Errors:   PS_ERR_BUSY the budget; PS_ERR_NO_MEMORY the device or the host refused memory that the
 *           budget had room for; PS_ERR_UNSUPPORTED; PS_ERR_UNAVAILABLE the device is dead. After
 *           any of them nothing has changed, but for a device that is dead.
 * Memory:   handles are opaque and end by the function named beside them.
 */
#ifndef PS_OPTIMIZER_DEVICE_H
#define PS_OPTIMIZER_DEVICE_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/encoding.h"
#include "base/status.h"
#include "optimizer/device_sharing.h"
#include "optimizer/optimizer.h"

/* Rises with every change of this header that an older or newer other side would stumble over. */
#define PS_DEVICE_ABI 8

/* The exported symbol, a ps_device_entry_fn. */
#define PS_DEVICE_ENTRY "ps_device_entry"

struct ps_device;
struct ps_device_parameter;
struct ps_device_snapshot;
struct ps_device_judged; /* a gradient that the device has looked at */
struct ps_device_rows;   /* rows of a table */

/* Work that was queued; 0 is done already. */
struct ps_device_ticket {
    uint64_t compute;
    uint64_t copy_out;
};

struct ps_device_options {
    uint32_t ordinal;                  /* which of the visible devices */
    uint64_t memory_bytes;             /* the budget; 0: what is free less max(1 GiB, 5 %) */
    uint64_t pinned_bytes;             /* of the ring for gradients; 0: 64 MiB */
    uint64_t wait_ms;                  /* what does not answer for so long is dead; 0: 30 s */
    const struct ps_allocator *memory; /* borrowed; outlives the device; safe from any thread */
    /* Called once, by the thread that met the error, or by one that watches for waits without an
     * end; must not block and must not call back. May be NULL. `text` is borrowed for the call. */
    void (*died)(void *self, const char *text);
    void *self;
};

/* What a device is; the same for as long as it is open. */
struct ps_device_facts {
    char name[64];
    char uuid[PS_DEVICE_UUID_BYTES]; /* "GPU-..." */
    uint32_t capability_major;
    uint32_t capability_minor;
    uint64_t memory_bytes;  /* of the device */
    uint64_t context_bytes; /* taken by opening it, the ring included */
    uint64_t budget_bytes;
};

struct ps_device_stats {
    uint64_t budget_bytes;
    uint64_t used_bytes;
    uint64_t used_bytes_max; /* ever */
    uint64_t pinned_bytes;   /* host memory for the ring and host_acquire */
    uint64_t parameter_count;
    uint64_t snapshot_count; /* alive */
    uint64_t streamed_count; /* snapshots that found no room on the device */
    uint64_t push_count;     /* parameters pushed to */
    uint64_t launch_count;   /* update kernels */
    uint64_t kernel_count;   /* all kernels, those that look at gradients included */
    uint64_t copy_count;     /* over the bus and on the device */
    uint64_t order_count;    /* one stream was told to wait for another */
    uint64_t wait_count;     /* a thread waited for the device */
    uint64_t direct_bytes;   /* of gradients, that were copied from registered memory */
    uint64_t in_place_bytes; /* of gradients, that the kernels read from imported memory */
    uint64_t bytes_in;       /* gradients and loads */
    uint64_t bytes_out;      /* reads */
};

/* One parameter's part of a push. All is borrowed for the call. The gradient was checked
 * (ps_encoding_check and what it names) and scanned. */
struct ps_device_push {
    struct ps_device_parameter *parameter;
    struct ps_view gradient; /* of the size that encoding, type and count ask for */
    enum ps_encoding encoding;
    const struct ps_optimizer_step *step; /* prepared, not to be skipped */
};

struct ps_device_parameter_wish {
    const struct ps_optimizer_settings *settings; /* borrowed for the call */
    enum ps_dtype dtype;
    uint64_t count;
};

/* Of gradients that are read where they lie. */
#define PS_IN_PLACE_ALIGNMENT 16u

/* Array 0 are the values, 1 and on the states. */
#define PS_DEVICE_VALUES 0u

/* Rows of a table are known by numbers, and each has a body: its values, then its states, each
 * array beginning at a multiple of 16 bytes. */
struct ps_device_rows_wish {
    const struct ps_optimizer_settings *settings; /* borrowed for the call */
    enum ps_dtype dtype;
    uint32_t width; /* elements of a row's values, and of each state (row-wise Adagrad: 1) */
};

struct ps_device_body {
    uint32_t array_count; /* 1 + states */
    size_t offsets[PS_ARRAYS_MAX];
    size_t sizes[PS_ARRAYS_MAX];
    size_t stride; /* bytes of a body */
};

/* Pieces of bodies on their way to the host. */
struct ps_device_rows_reading {
    struct ps_device *device;
    void *slot;
    size_t offset;
    size_t size;
};

struct ps_device_plugin {
    uint32_t abi;
    const char *name; /* "cuda" or "emu" */

    /* How many devices are visible. PS_ERR_UNAVAILABLE: no driver, or one that does not work; the
     * text has the driver's number. */
    PS_MUST_USE enum ps_status (*count)(uint32_t *count, struct ps_error *error);

    /* Opens a device and proves that it computes: patterns are written and read back, and a kernel
     * is compared with the CPU. End it with close.
     *
     * PS_ERR_NOT_FOUND    there is no such device
     * PS_ERR_UNSUPPORTED  it is older than what the kernels were built for
     * PS_ERR_INTERNAL     it computes something else than the CPU
     */
    PS_MUST_USE enum ps_status (*open)(const struct ps_device_options *options,
                                       struct ps_device **device, struct ps_error *error);

    /* Takes `device`. Every parameter and snapshot has ended before. NULL is allowed. */
    void (*close)(struct ps_device *device);

    void (*facts)(struct ps_device *device, struct ps_device_facts *facts);
    void (*stats)(struct ps_device *device, struct ps_device_stats *stats);

    /* True once the device is dead; `error` (may be NULL) gets the first error. */
    bool (*dead)(struct ps_device *device, struct ps_error *error);

    /* Can such a parameter live on a device? PS_ERR_UNSUPPORTED says why not. */
    PS_MUST_USE enum ps_status (*supports)(const struct ps_device_parameter_wish *wish,
                                           struct ps_error *error);

    /* Device bytes that such a parameter takes. */
    uint64_t (*parameter_bytes)(const struct ps_device_parameter_wish *wish);

    /* A parameter with undefined values and states at their start. End it with
     * parameter_destroy. */
    PS_MUST_USE enum ps_status (*parameter_create)(struct ps_device *device,
                                                   const struct ps_device_parameter_wish *wish,
                                                   struct ps_device_parameter **parameter,
                                                   struct ps_error *error);
    void (*parameter_destroy)(struct ps_device_parameter *parameter);

    /* Applies one gradient to each of the parameters, in this order. Small ones go to the device in
     * one copy and one launch. On a failure before anything was queued nothing has changed; later
     * the device is dead. */
    PS_MUST_USE enum ps_status (*push)(struct ps_device *device,
                                       const struct ps_device_push *pushes, size_t count,
                                       struct ps_device_ticket *ticket, struct ps_error *error);

    /* May such a gradient come here without anybody having looked at it? The device has to hold all
     * of it before it changes anything: false for one that takes more than half of the ring. */
    bool (*judges)(struct ps_device_parameter *parameter, struct ps_view gradient,
                   enum ps_encoding encoding);

    /* Brings a gradient that nobody has looked at, of those that `judges` allows, to the device,
     * which looks for what ps_optimizer_scan looks for. Nothing changes: several threads may do so
     * for one parameter. Returns when the verdict is known. End it with judged_release, soon: it
     * takes room in the ring.
     *
     * settings   borrowed, until judged_release
     * gradient   borrowed; was checked (ps_encoding_check and what it names)
     * scan       gets what was found, for ps_optimizer_prepare
     */
    PS_MUST_USE enum ps_status (*judge)(struct ps_device_parameter *parameter,
                                        const struct ps_optimizer_settings *settings,
                                        struct ps_view gradient, enum ps_encoding encoding,
                                        struct ps_device_judged **judged,
                                        struct ps_gradient_scan *scan, struct ps_error *error);

    /* Applies such a gradient, once; waits for nothing. The step was prepared from `scan`, factor
     * of clip_norm included, and is not to be skipped. */
    PS_MUST_USE enum ps_status (*push_judged)(struct ps_device_judged *judged,
                                              const struct ps_optimizer_step *step,
                                              struct ps_device_ticket *ticket,
                                              struct ps_error *error);
    void (*judged_release)(struct ps_device_judged *judged); /* NULL is allowed */

    /* Returns when the work is done. */
    PS_MUST_USE enum ps_status (*wait)(struct ps_device *device, struct ps_device_ticket ticket,
                                       struct ps_error *error);

    /* Queues the copy of an array's bytes from `offset` on into `pieces`, which lie in memory of
     * host_acquire and are filled when the ticket is done. Pushes that come later do not wait for
     * it on the host. */
    PS_MUST_USE enum ps_status (*read_begin)(struct ps_device_parameter *parameter, uint32_t array,
                                             uint64_t offset, const struct ps_bytes *pieces,
                                             size_t piece_count, struct ps_device_ticket *ticket,
                                             struct ps_error *error);

    /* Copies `size` bytes of an array, from `offset` on, into any memory of the host. */
    PS_MUST_USE enum ps_status (*read)(struct ps_device_parameter *parameter, uint32_t array,
                                       uint64_t offset, void *destination, size_t size,
                                       struct ps_error *error);

    /* The other way: `content` becomes the array's bytes from `offset` on. */
    PS_MUST_USE enum ps_status (*write)(struct ps_device_parameter *parameter, uint32_t array,
                                        uint64_t offset, struct ps_view content,
                                        struct ps_error *error);

    /* Memory for a copy of values and states: on the device where the budget has room, otherwise
     * on the host. Asking a device for memory may take long; to be done while nobody waits. End it
     * with snapshot_release, taken or not, before the device is closed; the parameter may end
     * before it. */
    PS_MUST_USE enum ps_status (*snapshot_reserve)(struct ps_device_parameter *parameter,
                                                   struct ps_device_snapshot **snapshot,
                                                   struct ps_error *error);

    /* Fills a snapshot that was reserved for this parameter, once, with everything as it is after
     * what was pushed so far. Asks nobody for memory and waits for nothing: a copy on the device is
     * queued, one on the host is made later, by whoever reads it or makes way for a push first. */
    PS_MUST_USE enum ps_status (*snapshot_take)(struct ps_device_parameter *parameter,
                                                struct ps_device_snapshot *snapshot,
                                                struct ps_error *error);
    PS_MUST_USE enum ps_status (*snapshot_read)(struct ps_device_snapshot *snapshot, uint32_t array,
                                                uint64_t offset, void *destination, size_t size,
                                                struct ps_error *error);
    void (*snapshot_release)(struct ps_device_snapshot *snapshot);

    /* Returns when no snapshot needs the parameter as it is now, that is when each whose copy is to
     * be on the host has it. A push does this by itself; whoever pushes under a lock does it before
     * that, and sees to it that no snapshot is taken in between. */
    PS_MUST_USE enum ps_status (*make_way)(struct ps_device_parameter *parameter,
                                           struct ps_error *error);

    /* Can rows like these live on a device? PS_ERR_UNSUPPORTED says why not; else `body` (may be
     * NULL) is how a row lies in a buffer of the functions below. */
    PS_MUST_USE enum ps_status (*rows_support)(const struct ps_device_rows_wish *wish,
                                               struct ps_device_body *body, struct ps_error *error);

    /* Room for rows 0 to before `count`, of undefined content. End it with rows_destroy. For one
     * table calls come one after another, but for rows_read_end. */
    PS_MUST_USE enum ps_status (*rows_create)(struct ps_device *device,
                                              const struct ps_device_rows_wish *wish,
                                              uint64_t count, struct ps_device_rows **rows,
                                              struct ps_error *error);
    void (*rows_destroy)(struct ps_device_rows *rows); /* NULL is allowed */

    /* Room for `count` rows, more than before; those that there are keep their bodies. While it
     * goes on the device has both rooms. */
    PS_MUST_USE enum ps_status (*rows_grow)(struct ps_device_rows *rows, uint64_t count,
                                            struct ps_error *error);

    /* Queues whole bodies, one behind the other, for different rows. All is borrowed for the
     * call, here and below; numbers are below the rows' count. */
    PS_MUST_USE enum ps_status (*rows_write)(struct ps_device_rows *rows, const uint64_t *numbers,
                                             size_t count, const void *bodies,
                                             struct ps_error *error);

    /* Queues one step of the rule for different rows: each has a gradient of `width` elements, one
     * behind the other in the order of `numbers`, finite or looked at before. */
    PS_MUST_USE enum ps_status (*rows_push)(struct ps_device_rows *rows, const uint64_t *numbers,
                                            size_t count, const void *gradients,
                                            const struct ps_optimizer_step *step,
                                            struct ps_device_ticket *ticket,
                                            struct ps_error *error);

    /* So many pieces of `size` bytes go into one reading. */
    size_t (*rows_read_max)(const struct ps_device_rows *rows, size_t size);

    /* Queues the copy of `size` bytes from `offset` on (multiples of 4) of each body, as it is
     * behind what was queued so far. A reading that has begun is ended by rows_read_end, soon and
     * by the same thread, which holds no other: it has a slot of the ring. */
    PS_MUST_USE enum ps_status (*rows_read_begin)(struct ps_device_rows *rows,
                                                  const uint64_t *numbers, size_t count,
                                                  size_t offset, size_t size,
                                                  struct ps_device_rows_reading *reading,
                                                  struct ps_error *error);

    /* Waits for the pieces, which are then at `*pieces`, one behind the other, until
     * rows_read_release. */
    PS_MUST_USE enum ps_status (*rows_read_end)(struct ps_device_rows_reading *reading,
                                                const uint8_t **pieces, struct ps_error *error);
    void (*rows_read_release)(struct ps_device_rows_reading *reading); /* accepts a zeroed one */

    /* Host memory that the device reads and writes by itself; NULL when it is refused. Slow: for
     * few and large pieces. Given back with host_release, before close. */
    void *(*host_acquire)(struct ps_device *device, size_t size);
    void (*host_release)(struct ps_device *device, void *memory, size_t size);

    /* Memory that somebody else has, of whole pages: from now on the device copies gradients of
     * the native type from where they lie in it, and not by way of the ring's pinned half. All its
     * pages are pinned by that, and exist from then on: slow. As always a gradient is borrowed for
     * the call. PS_ERR_NO_MEMORY, PS_ERR_BUSY: it is copied as all memory is, which is no fault. */
    PS_MUST_USE enum ps_status (*host_register)(struct ps_device *device, void *memory, size_t size,
                                                struct ps_error *error);

    /* Before the memory goes, and after the last push from it. */
    void (*host_unregister)(struct ps_device *device, void *memory);

    /* Memory of another process on this device: `*memory` is its address here, which the host must
     * not read or write. Gradients in it (native, aligned to PS_IN_PLACE_ALIGNMENT, in one piece)
     * go to judge and push like all others; they are neither moved nor copied: the kernels read
     * them where they lie, and so until the push's ticket is done.
     *
     * PS_ERR_UNSUPPORTED  of another device
     * PS_ERR_BAD_INPUT    nobody's, or smaller than its name says
     * PS_ERR_BUSY         too much is imported already
     */
    PS_MUST_USE enum ps_status (*import)(struct ps_device *device,
                                         const struct ps_device_share *share, uint8_t **memory,
                                         struct ps_error *error);

    /* After the last call that was given any of it; returns when the device uses it no more. */
    void (*unimport)(struct ps_device *device, uint8_t *memory);

    /* Copies imported bytes into any memory of the host, or back, and waits for them. */
    PS_MUST_USE enum ps_status (*import_read)(struct ps_device *device, void *to,
                                              const uint8_t *from, size_t size,
                                              struct ps_error *error);
    PS_MUST_USE enum ps_status (*import_write)(struct ps_device *device, uint8_t *to,
                                               struct ps_view content, struct ps_error *error);

    /* Queues a copy of `size` bytes of an array, from `offset` on, to imported memory: on the
     * device, behind what was queued for the parameter, and before what comes next. */
    PS_MUST_USE enum ps_status (*copy_out)(struct ps_device_parameter *parameter, uint32_t array,
                                           uint64_t offset, uint8_t *to, uint64_t size,
                                           struct ps_device_ticket *ticket, struct ps_error *error);

    /* For the other side: processes whose memory is imported. Needs no open device. */
    struct ps_device_sharing sharing;
};

/* NULL when the plugin is of another ABI. */
typedef const struct ps_device_plugin *ps_device_entry_fn(uint32_t abi);

#endif

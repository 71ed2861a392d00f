/* SPDX-License-Identifier: Apache-2.0 */
/* Every fixed maximum of the system in one place, tied together by assertions at compile time.
 *
 * Threads:  constants.
 * Blocking: none.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_BOUNDS_H
#define PS_BASE_BOUNDS_H

/* Longest parameter name, in bytes. Names are UTF-8 without NUL. */
#define PS_NAME_BYTES_MAX 512

/* Longest name of the clocks by which workers' reads are timed: it may come with every pull. */
#define PS_CLOCKS_NAME_BYTES_MAX 64

/* Elements of one row of a table; shards of a table whose bounds are given, less one. */
#define PS_TABLE_WIDTH_MAX 4096
#define PS_TABLE_BOUNDS_MAX 63

/* Keys that a table counts until they get a row, where its settings do not say how many: 30 MiB. */
#define PS_TABLE_CANDIDATES ((uint64_t)1 << 20)

/* Most workers of a parameter that is trained in rounds, and of clocks. */
#define PS_ROUND_WORKERS_MAX 1024
#define PS_CLOCK_WORKERS_MAX 4096

/* A bit for each of those. */
#define PS_CLOCK_RANKS_BYTES (PS_CLOCK_WORKERS_MAX / 8)

/* Most clocks of one shard, each with a name: what all of them take is bounded by this. */
#define PS_CLOCKS_MAX 64

/* How many iterations ahead a worker of sparse clocks may say what it is going to read, and how
 * many keys all workers of a shard may have announced at the same time. */
#define PS_CLOCK_SPECULATION_MAX 64
#define PS_CLOCK_ANNOUNCED_KEYS_MAX ((size_t)4 << 20)

/* Longest time for which a round waits for workers that are missing: a day. */
#define PS_ROUND_GRACE_MS_MAX ((uint64_t)24 * 60 * 60 * 1000)

/* Most dimensions of a parameter's shape. */
#define PS_SHAPE_RANK_MAX 16

/* Longest serialized OptimizerConfig. */
#define PS_CONFIG_BYTES_MAX 65536

/* Most state arrays that a rule keeps beside the values (Adam: 2). */
#define PS_STATES_MAX 2

/* Most arrays of a parameter: its values, and those. */
#define PS_ARRAYS_MAX (1 + PS_STATES_MAX)

/* Elements over which one partial sum runs (the shape of clip_norm's sum). */
#define PS_SUM_ELEMENTS 4096

/* Bytes of one copy-on-write block: small enough that copying one stays in the L2 cache, large
 * enough that its header and its slice cost nothing. A multiple of 4,096 elements of 8 bytes, so
 * that sums of a fixed shape (optimizer/) never cross a block. Only the simulator, which clips
 * nothing, is built with smaller ones. */
#ifndef PS_BLOCK_BYTES
#define PS_BLOCK_BYTES (256 * 1024)
#ifndef __cplusplus
_Static_assert(PS_BLOCK_BYTES % (PS_SUM_ELEMENTS * 8) == 0, "a partial sum never crosses a block");
#endif
#endif

/* Largest message that a server takes unless told otherwise (--message-bytes). */
#define PS_MESSAGE_BYTES_DEFAULT (64 * 1024 * 1024)

/* A server that is told to take less than this refuses content that the clients of this repository
 * send as one message, before they know better: what is not cut in ranges, and what is around
 * it. */
#define PS_MESSAGE_BYTES_SENT (3 * 1024 * 1024)

/* Most items of one bundle: gradients and names together. */
#define PS_BUNDLE_ITEMS_MAX 4096

/* Most pushes of one bundle that have numbers: a client must not have more between its oldest and
 * its newest that is unanswered (docs/wire.md). */
#define PS_BUNDLE_NUMBERED_MAX 192

/* Most parameters that are looked up ahead at once. */
#define PS_EXPECTED_NAMES_MAX 16

/* Most content of one answer to a delta pull, and what it is unless told otherwise: with its head
 * it fits gRPC's default limit of 4 MiB. Digests of so much are made in one go. */
#define PS_DELTA_BYTES_MAX (64 * PS_BLOCK_BYTES)
#define PS_DELTA_BYTES_DEFAULT (15 * PS_BLOCK_BYTES)

/* Most shards of one job. */
#define PS_SHARDS_MAX 4096

/* Longest name of a set of checkpoints (etcd/registry_sets.h). */
#define PS_SET_NAME_BYTES_MAX 64

/* Larger parameters are cut over all shards unless a client is told otherwise; servers say the same
 * to who asks. */
#define PS_SPLIT_BYTES_DEFAULT ((uint64_t)16 << 20)

/* Most lanes (threads that serve calls) of one server. */
#define PS_LANES_MAX 64

/* Threads at one update: more find the memory's bandwidth used up. */
#define PS_UPDATE_THREADS_MAX 8

/* Longest client id of a request. */
#define PS_CLIENT_ID_BYTES_MAX 64

/* Longest address, "host:port". */
#define PS_ADDRESS_BYTES_MAX 280

#ifndef __cplusplus
_Static_assert(PS_NAME_BYTES_MAX + PS_CONFIG_BYTES_MAX < PS_MESSAGE_BYTES_DEFAULT,
               "an InitParam header fits in a message");
#endif

#endif

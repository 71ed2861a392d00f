/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that takes memory from clients and notices when they go; a table that calls look in.
 *
 * A client is in one of two states: it has connected and has said nothing (and is dropped if it
 * stays so), or its memory is mapped and it has nothing more to say: whatever comes from it then is
 * its end.
 *
 * Only the thread accepts, hears and drops. Calls on lanes and helpers look a number up and hold
 * the mapping; so the lock guards one thing, which mappings the table names, and what a mapping
 * holds is kept by its count of references. The client's socket ends with the last reference, not
 * with its place in the table: its closing tells the client that no call uses the memory any
 * more. */
#include "server/rpc/shared_memory.h"

#include "base/assert.h"
#include "base/local_socket.h"
#include "base/random.h"
#include "base/thread.h"
#include "proto/shared_range.h"
#include "server/rpc/shared_counts.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    HELLO_MS_MAX = 2000, /* for a client that has connected to say what it wants */
    LOOK_MS = 500        /* how often that is looked at, while there is one */
};

struct client {
    int socket; /* PS_NO_DESCRIPTOR: the place is free */
    int32_t process;
    uint64_t since_ms;
    struct ps_shared_mapping *mapping; /* a reference; guarded by the lock; NULL: none yet */
};

struct ps_shared_memory {
    struct ps_shared_memory_options options;
    struct ps_shared_mapping_wish wish; /* of every mapping */
    char name[PS_LOCAL_NAME_BYTES_MAX + 1];
    int listener;
    int wake; /* an event: the thread is to end */
    struct ps_thread thread;
    struct ps_mutex lock; /* guards the mappings of the clients */
    struct client clients[PS_SHARED_CLIENTS_MAX];
    atomic_uint_fast64_t bytes; /* mapped */
    atomic_uint device_pieces;  /* that are imported */
    bool told_refusal;          /* the thread's: further ones are logged for debugging only */
    struct ps_shared_counts counts;
};

static enum ps_status open_sockets(struct ps_shared_memory *shared, struct ps_error *error);
static void run(void *argument);
static nfds_t gather(struct ps_shared_memory *shared, struct pollfd *polled,
                     struct client **clients, bool *silent);
static void accept_all(struct ps_shared_memory *shared);
static enum ps_status admit(struct ps_shared_memory *shared, int socket, struct ps_error *error);
static void hear(struct ps_shared_memory *shared, struct client *client);
static enum ps_status take(struct ps_shared_memory *shared, struct client *client,
                           struct ps_bytes message, int descriptor, struct ps_error *error);
static struct ps_shared_mapping *map(struct ps_shared_memory *shared, uint64_t size, int descriptor,
                                     struct ps_error *error);
static struct ps_shared_mapping *import(struct ps_shared_memory *shared,
                                        const struct client *client,
                                        const struct ps_device_share *share,
                                        struct ps_error *error);
static void count_clients(struct ps_shared_memory *shared);
static void drop(struct ps_shared_memory *shared, struct client *client);
static void refuse(struct ps_shared_memory *shared, const struct ps_error *why);
static void release_mapping(struct ps_shared_mapping *mapping);

/* All descriptors are marked as "none" before the first step that can fail: 0 is a descriptor, too,
 * and destroy would close it. */
enum ps_status ps_shared_memory_create(const struct ps_shared_memory_options *options,
                                       struct ps_shared_memory **out, struct ps_error *error)
{
    struct ps_shared_memory *shared = ps_zeroed(options->memory, sizeof *shared);
    if (shared == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "shared memory: no memory for the table");
    shared->options = *options;
    shared->wish = (struct ps_shared_mapping_wish){.memory = options->memory,
                                                   .owner = shared,
                                                   .pins = options->pins,
                                                   .devices = options->devices};
    shared->listener = shared->wake = PS_NO_DESCRIPTOR;
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX; i++)
        shared->clients[i].socket = PS_NO_DESCRIPTOR;
    ps_mutex_init(&shared->lock, PS_RANK_LEAF);
    atomic_init(&shared->bytes, 0);
    atomic_init(&shared->device_pieces, 0);
    ps_shared_counts_register(options->metrics, &shared->counts);
    /* The thread comes last: it polls both sockets from its first turn on. */
    enum ps_status status = open_sockets(shared, error);
    if (status == PS_OK)
        status = ps_thread_start(&shared->thread, "shared memory", run, shared, error);
    if (status != PS_OK) {
        ps_shared_memory_destroy(shared);
        return status;
    }
    *out = shared;
    return PS_OK;
}

/* The name says nothing, and nobody can guess it: a client is told it over gRPC, so that only those
 * who may use the server find the socket. The kernel is asked for their user all the same
 * (admit). */
static enum ps_status open_sockets(struct ps_shared_memory *shared, struct ps_error *error)
{
    uint64_t number[2];
    ps_random_system(number, sizeof number);
    (void)snprintf(shared->name, sizeof shared->name, "pserver-%016" PRIx64 "%016" PRIx64,
                   number[0], number[1]);
    PS_TRY(ps_local_socket_listen(ps_bytes_of_text(shared->name), &shared->listener, error));
    shared->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (shared->wake < 0)
        return ps_fail(error, PS_ERR_IO, "shared memory: no event");
    return PS_OK;
}

/* The thread ends before the clients are dropped, because it alone changes them. */
void ps_shared_memory_destroy(struct ps_shared_memory *shared)
{
    if (shared == NULL)
        return;
    if (shared->thread.started) {
        const uint64_t one = 1;
        ssize_t put = write(shared->wake, &one, sizeof one);
        PS_ASSERT(put == (ssize_t)sizeof one);
        ps_thread_join(&shared->thread);
    }
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX; i++)
        drop(shared, &shared->clients[i]);
    /* Otherwise a call still holds a mapping, and would look at `owner` after its end. */
    PS_ASSERT(atomic_load(&shared->bytes) == 0 && atomic_load(&shared->device_pieces) == 0);
    if (shared->listener != PS_NO_DESCRIPTOR)
        (void)close(shared->listener);
    if (shared->wake != PS_NO_DESCRIPTOR)
        (void)close(shared->wake);
    ps_mutex_fini(&shared->lock);
    ps_release(shared->options.memory, shared);
}

/* Constant since creation: whoever offers it takes no lock. */
const char *ps_shared_memory_name(const struct ps_shared_memory *shared)
{
    return shared->name;
}

/* ---- The thread ---- */

static bool is_silent(const struct client *client)
{
    return client->socket != PS_NO_DESCRIPTOR && client->mapping == NULL;
}

/* A client that connects and says nothing holds one of PS_SHARED_CLIENTS_MAX places. It is heard
 * once more: on a busy machine the time may have passed between its hello and this thread. */
static void drop_silent(struct ps_shared_memory *shared)
{
    uint64_t now_ms = ps_now_ms(shared->options.clock);
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX; i++) {
        struct client *client = &shared->clients[i];
        bool is_late = now_ms - client->since_ms > HELLO_MS_MAX;
        if (is_late && is_silent(client))
            hear(shared, client);
        if (is_late && is_silent(client))
            drop(shared, client);
    }
}

/* Everything waits in one poll: the wake-up at the end, new clients, and the clients' sockets. Time
 * matters only while a client has connected and said nothing. */
static void run(void *argument)
{
    struct ps_shared_memory *shared = argument;
    for (;;) {
        struct pollfd polled[2 + PS_SHARED_CLIENTS_MAX];
        bool silent = false;
        struct client *clients[PS_SHARED_CLIENTS_MAX];
        nfds_t count = gather(shared, polled, clients, &silent);
        (void)poll(polled, count, silent ? LOOK_MS : -1);
        if (polled[0].revents != 0)
            return;
        if (polled[1].revents != 0)
            accept_all(shared);
        /* A client that was admitted in this round is asked in the next. */
        for (nfds_t i = 2; i < count; i++)
            if (polled[i].revents != 0)
                hear(shared, clients[i - 2]);
        drop_silent(shared);
    }
}

/* Those that are there and no others: poll refuses more places than the process may have
 * descriptors, and a refusal comes back at once, again and again. `clients[k]` is behind place
 * 2 + k. */
static nfds_t gather(struct ps_shared_memory *shared, struct pollfd *polled,
                     struct client **clients, bool *silent)
{
    nfds_t count = 2;
    polled[0] = (struct pollfd){.fd = shared->wake, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = shared->listener, .events = POLLIN};
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX; i++) {
        struct client *client = &shared->clients[i];
        /* A free place has no descriptor, and takes none of the poll. */
        if (client->socket == PS_NO_DESCRIPTOR)
            continue;
        clients[count - 2] = client;
        polled[count++] = (struct pollfd){.fd = client->socket, .events = POLLIN};
        *silent = *silent || is_silent(client);
    }
    return count;
}

/* Until there are none: the descriptor that is refused is closed at once, so that a process that
 * comes again and again cannot use them up. */
static void accept_all(struct ps_shared_memory *shared)
{
    int socket;
    while (ps_local_socket_accept(shared->listener, &socket, NULL) == PS_OK) {
        struct ps_error why = {0};
        if (admit(shared, socket, &why) == PS_OK)
            continue;
        refuse(shared, &why);
        /* The client sees its connection end, and sends its content in messages. */
        (void)close(socket);
    }
}

/* The kernel says who the peer is (SO_PEERCRED); nothing that a client says about itself is
 * believed. Another user of the machine must not be able to hand memory to a server that may write
 * to it, or fill the table. */
static enum ps_status admit(struct ps_shared_memory *shared, int socket, struct ps_error *error)
{
    struct ps_local_peer who;
    PS_TRY(ps_local_socket_peer(socket, &who, error));
    if (who.user != geteuid() && who.user != 0)
        return ps_fail(error, PS_ERR_DENIED, "process %" PRId32 " is of user %" PRIu32 ", not %u",
                       who.process, who.user, geteuid());
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX; i++) {
        struct client *client = &shared->clients[i];
        if (client->socket != PS_NO_DESCRIPTOR)
            continue;
        client->socket = socket;
        client->process = who.process;
        /* From here on its silence is counted (drop_silent). */
        client->since_ms = ps_now_ms(shared->options.clock);
        return PS_OK;
    }
    return ps_fail(error, PS_ERR_BUSY, "%d clients share memory already", PS_SHARED_CLIENTS_MAX);
}

/* Reads one message and whatever descriptor came with it. The descriptor is closed in any case: a
 * mapping outlives it, and a client that sends many would otherwise use up the server's. */
static void hear(struct ps_shared_memory *shared, struct client *client)
{
    uint8_t bytes[PS_DEVICE_HELLO_BYTES]; /* the longer of the two */
    size_t size = 0;
    int descriptor = PS_NO_DESCRIPTOR;
    struct ps_error why = {0};
    enum ps_status status =
        ps_local_socket_receive(client->socket, bytes, sizeof bytes, &size, &descriptor, &why);
    if (status == PS_ERR_NOT_READY)
        return;
    bool was_welcome = client->mapping != NULL;
    if (status == PS_OK)
        status = take(shared, client, (struct ps_bytes){bytes, size}, descriptor, &why);
    if (descriptor != PS_NO_DESCRIPTOR)
        (void)close(descriptor);
    if (status == PS_OK)
        return;
    /* A client that leaves is not refused, and neither is one that has been taken before. */
    if (!was_welcome && status != PS_ERR_UNAVAILABLE)
        refuse(shared, &why);
    drop(shared, client);
}

/* A second hello on one connection is refused: a connection stands for one memory, and its end for
 * the end of that. */
static enum ps_status take(struct ps_shared_memory *shared, struct client *client,
                           struct ps_bytes message, int descriptor, struct ps_error *error)
{
    uint64_t bytes = 0;
    struct ps_device_share share;
    uint8_t answer[PS_SHARED_WELCOME_BYTES];
    bool has_file = descriptor != PS_NO_DESCRIPTOR;
    bool on_device = !has_file && ps_device_hello_read(message, &share);
    if (client->mapping != NULL ||
        !(on_device || (has_file && ps_shared_hello_read(message, &bytes))))
        return ps_fail(error, PS_ERR_BAD_INPUT, "process %" PRId32 " sent no hello with memory",
                       client->process);
    struct ps_shared_mapping *mapping =
        on_device ? import(shared, client, &share, error) : map(shared, bytes, descriptor, error);
    if (mapping == NULL)
        /* For the client all reasons are one: its connection ends, and content goes in messages. */
        return PS_ERR_BAD_INPUT;

    /* Known before the client is told, so that its first call finds it. */
    mapping->socket = client->socket;
    ps_mutex_lock(&shared->lock);
    client->mapping = mapping;
    ps_mutex_unlock(&shared->lock);
    count_clients(shared);
    ps_shared_welcome_write(mapping->number, answer);
    PS_LOG(shared->options.log, PS_LOG_INFO, "shared memory", "a client on this host shares memory",
           PS_FIELD_INT("process", client->process), PS_FIELD_UINT("bytes", mapping->segment.size),
           PS_FIELD_TEXT("where", on_device ? "device" : "host"));
    return ps_local_socket_send(client->socket, (struct ps_bytes){answer, sizeof answer},
                                PS_NO_DESCRIPTOR, error);
}

/* NULL: refused, or no memory for it. The limit is on what clients may map, since the pages are
 * theirs and count against them; the check is not atomic with the addition, and need not be: only
 * this thread adds. */
static struct ps_shared_mapping *map(struct ps_shared_memory *shared, uint64_t size, int descriptor,
                                     struct ps_error *error)
{
    uint64_t mapped = atomic_load(&shared->bytes);
    if (size > shared->options.bytes_max || mapped > shared->options.bytes_max - size) {
        (void)ps_fail(error, PS_ERR_BUSY,
                      "%" PRIu64 " bytes more than the %" PRIu64 " that are shared would pass the "
                      "limit of %" PRIu64,
                      size, mapped, shared->options.bytes_max);
        return NULL;
    }
    struct ps_shared_mapping *mapping =
        ps_shared_mapping_open(&shared->wish, size, descriptor, error);
    if (mapping == NULL)
        return NULL;
    atomic_fetch_add(&shared->bytes, size);
    ps_gauge_add(shared->counts.mapped_bytes, (double)size);
    return mapping;
}

/* The number of pieces is what bounds a client here: a piece is no larger than its device, and
 * takes nothing of the host. */
static struct ps_shared_mapping *import(struct ps_shared_memory *shared,
                                        const struct client *client,
                                        const struct ps_device_share *share, struct ps_error *error)
{
    uint32_t count = 0;
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX; i++) {
        const struct client *other = &shared->clients[i];
        count += other->mapping != NULL && other->mapping->on_device &&
                 other->process == client->process;
    }
    enum ps_status status = PS_OK;
    /* In the order of what the client could do about it. */
    if (shared->options.devices.import == NULL)
        status = ps_fail(error, PS_ERR_UNSUPPORTED, "memory of a device, and there is none here");
    else if (count >= PS_SHARED_DEVICE_PIECES_MAX)
        status =
            ps_fail(error, PS_ERR_BUSY,
                    "process %" PRId32 " shares %" PRIu32 " pieces of a device's memory already",
                    client->process, count);
    if (status != PS_OK)
        return NULL;
    struct ps_shared_mapping *mapping = ps_shared_mapping_import(&shared->wish, share, error);
    if (mapping == NULL)
        return NULL;
    atomic_fetch_add(&shared->device_pieces, 1);
    ps_gauge_add(shared->counts.device_bytes, (double)share->bytes);
    return mapping;
}

/* A process is one client, however many memories it shares; one that the kernel does not name here
 * (of another container, say) counts for each. The thread's. */
static void count_clients(struct ps_shared_memory *shared)
{
    uint32_t clients = 0, segments = 0;
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX; i++) {
        const struct client *client = &shared->clients[i];
        bool is_first = client->mapping != NULL;
        segments += client->mapping != NULL;
        for (size_t k = 0; k < i && is_first && client->process > 0; k++)
            is_first =
                shared->clients[k].mapping == NULL || shared->clients[k].process != client->process;
        clients += is_first;
    }
    ps_gauge_set(shared->counts.client_count, clients);
    ps_gauge_set(shared->counts.segment_count, segments);
}

/* Calls that hold the memory keep it until they end, and with it the socket: a client that sees it
 * closed knows that nobody reads or writes its memory. */
static void drop(struct ps_shared_memory *shared, struct client *client)
{
    if (client->socket == PS_NO_DESCRIPTOR)
        return;
    ps_mutex_lock(&shared->lock);
    struct ps_shared_mapping *mapping = client->mapping;
    client->mapping = NULL;
    ps_mutex_unlock(&shared->lock);
    if (mapping != NULL) {
        count_clients(shared);
        PS_LOG(shared->options.log, PS_LOG_INFO, "shared memory", "a client's memory is given back",
               PS_FIELD_INT("process", client->process));
        release_mapping(mapping);
    } else {
        (void)close(client->socket);
    }
    client->socket = PS_NO_DESCRIPTOR;
}

/* Anybody on the machine can come again and again: only the first is told at once. */
static void refuse(struct ps_shared_memory *shared, const struct ps_error *why)
{
    ps_counter_add(shared->counts.refused, 1);
    PS_LOG(shared->options.log, shared->told_refusal ? PS_LOG_DEBUG : PS_LOG_WARN, "shared memory",
           "refused", PS_FIELD_ERROR(why));
    shared->told_refusal = true;
}

/* ---- Calls ---- */

/* Looks through all places: there are few clients, a lookup is rare beside the megabyte that it is
 * for, and no second structure can disagree with the table. */
enum ps_status ps_shared_memory_find(struct ps_shared_memory *shared,
                                     const struct ps_shared_range *range,
                                     struct ps_shared_hold *hold, struct ps_error *error)
{
    struct ps_shared_mapping *found = NULL;
    *hold = (struct ps_shared_hold){0};
    ps_mutex_lock(&shared->lock);
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX && found == NULL; i++) {
        struct ps_shared_mapping *mapping = shared->clients[i].mapping;
        if (mapping != NULL && mapping->number == range->segment)
            found = mapping;
    }
    /* Counted while the lock is held: after it, the thread may drop the client, and with it the
     * table's reference. */
    if (found != NULL)
        atomic_fetch_add(&found->references, 1);
    ps_mutex_unlock(&shared->lock);
    if (found == NULL)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "the shared memory is not known any more");

    if (!ps_shared_mapping_has(found, range, error)) {
        release_mapping(found);
        return PS_ERR_BAD_INPUT;
    }
    *hold = (struct ps_shared_hold){.bytes = found->segment.bytes + range->offset,
                                    .size = (size_t)range->size,
                                    .mapping = found};
    return PS_OK;
}

void ps_shared_memory_release(struct ps_shared_hold *hold)
{
    if (hold->mapping != NULL)
        release_mapping(hold->mapping);
    *hold = (struct ps_shared_hold){0};
}

/* In this order: the bytes are unmapped, and then the socket is closed, since the client reads its
 * closing as "the memory is yours again". The owner's sum falls last, because a server that ends
 * asserts on it and then frees the owner. */
static void release_mapping(struct ps_shared_mapping *mapping)
{
    unsigned before = atomic_fetch_sub(&mapping->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    struct ps_shared_memory *owner = mapping->owner;
    /* Read before the mapping ends, which zeroes it. */
    uint64_t size = mapping->segment.size;
    bool on_device = mapping->on_device;
    ps_shared_mapping_end(mapping);
    if (mapping->socket != PS_NO_DESCRIPTOR)
        (void)close(mapping->socket);
    ps_release(mapping->memory, mapping);
    ps_gauge_add(on_device ? owner->counts.device_bytes : owner->counts.mapped_bytes,
                 -(double)size);
    if (on_device)
        atomic_fetch_sub(&owner->device_pieces, 1);
    else
        atomic_fetch_sub(&owner->bytes, size);
}

/* Lets the way of every call skip the search for ranges in its message. */
bool ps_shared_memory_is_used(const struct ps_shared_memory *shared)
{
    return atomic_load(&shared->bytes) > 0 || atomic_load(&shared->device_pieces) > 0;
}

/* Counts each content once, when it has gone its way: a range that was refused is in the message
 * and counts there. */
void ps_shared_memory_count(struct ps_shared_memory *shared, bool is_push, uint64_t bytes,
                            bool copied)
{
    ps_counter_add(is_push ? shared->counts.push_bytes : shared->counts.pull_bytes, bytes);
    if (copied)
        ps_counter_add(shared->counts.copied_bytes, bytes);
}

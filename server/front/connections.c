/* SPDX-License-Identifier: Apache-2.0 */
/* Every connection is in a list, for whoever looks for the largest or the oldest, and in a table by
 * its descriptor, for the way of its bytes, which takes the lock of that connection and no other.
 *
 * What a connection adds to the sums over all of them is taken out again when it is condemned, not
 * when gRPC gets around to closing it: otherwise the next frame of an innocent peer would find the
 * sum still too large, and condemn another.
 *
 * With front_hooks.c this is the one place with state of the whole process: accept4 and recvmsg
 * have no argument that could carry it. */
#include "server/front/connection_parts.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "server/front/front_hooks.h"
#include "server/front/goaway.h"

#include <pthread.h>
#include <string.h>

/* A connection that held so much, or so many calls, leaves holes in the heap that are worth giving
 * back. */
#define MUCH_BYTES ((uint64_t)16 * 1024 * 1024)
#define MANY_CALLS 128

/* TOLD_MAX: of one turn; what stands still beyond it goes with the next. */
enum { TURN_MS = 1000, TOLD_MAX = 32, GIVE_BACK_MS = 3000 };

/* Half of it is never touched, and costs no memory: descriptors are given out from below. */
static _Atomic(struct ps_connection *) table[PS_FRONT_DESCRIPTORS_MAX];
static struct ps_front door = {.http_listener = -1, .limits = {.streams_max = 1}};
static pthread_once_t door_once = PTHREAD_ONCE_INIT;

static void relieve(struct ps_front *front);

static void make_locks(void)
{
    ps_mutex_init(&door.lock, PS_RANK_QUEUE);
    ps_mutex_init(&door.listener_lock, PS_RANK_QUEUE);
}

/* The locks are made by whoever comes first: a connection may be accepted before main has opened
 * anything, and there is no other moment that is sure to be early enough. */
struct ps_front *ps_front_door(void)
{
    (void)pthread_once(&door_once, make_locks);
    return &door;
}

/* Connections that are there already keep the limits with which they came: a limit that is lowered
 * under a client at work would end it for nothing that it did. */
void ps_front_open(const struct ps_front_options *options)
{
    struct ps_front *front = ps_front_door();
    PS_ASSERT(options->open_calls_max > 0 && options->unfinished_bytes_max > 0);
    ps_front_hooks_prepare();
    ps_front_tls_prepare();
    ps_mutex_lock(&front->lock);
    front->connections_max = options->connections_max;
    front->limits = options->connection;
    front->local_users = options->local_users;
    ps_mutex_unlock(&front->lock);
    ps_mutex_lock(&front->listener_lock);
    front->refused = options->refused;
    front->self = options->self;
    ps_mutex_unlock(&front->listener_lock);
    atomic_store(&front->open_calls_max, options->open_calls_max);
    atomic_store(&front->unfinished_bytes_max, options->unfinished_bytes_max);
    atomic_store(&front->open, true);
}

/* A server that was opened later in the same process keeps the door: it would be unguarded. */
void ps_front_close(const void *self)
{
    struct ps_front *front = ps_front_door();
    ps_mutex_lock(&front->listener_lock);
    if (front->self == self) {
        front->refused = NULL;
        front->self = NULL;
        atomic_store(&front->open, false);
    }
    ps_mutex_unlock(&front->listener_lock);
}

/* A lock of its own, so that the listener cannot go while it is told: whoever closes the door waits
 * here for the last word. */
void ps_front_tell(struct ps_front *front, enum ps_front_reason reason,
                   const struct ps_peer_host *host)
{
    char text[PS_PEER_HOST_TEXT_MAX] = "";
    if (host != NULL)
        ps_peer_host_text(host, text);
    ps_mutex_lock(&front->listener_lock);
    if (front->refused != NULL)
        front->refused(front->self, reason, text);
    ps_mutex_unlock(&front->listener_lock);
}

/* In front of the list: admission looks for the oldest, and finds it the last. */
struct ps_connection *ps_connection_enlist(struct ps_front *front, int descriptor,
                                           enum ps_connection_kind kind)
{
    struct ps_connection *connection = ps_zeroed(ps_allocator_heap(), sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->descriptor = descriptor;
    connection->kind = kind;
    connection->since_ms = ps_now_ms(ps_clock_real());
    ps_mutex_init(&connection->lock, PS_RANK_LEAF);
    ps_frame_inspector_init(&connection->inspector, &front->limits, ps_allocator_heap());
    /* No byte of the descriptor has been read, so nobody looks at it before this is done. */
    connection->next = front->first;
    if (front->first != NULL)
        front->first->previous = connection;
    front->first = connection;
    atomic_fetch_add(&front->counts[kind], 1);
    if (descriptor >= 0)
        atomic_store(&table[descriptor], connection);
    return connection;
}

/* Takes the connection out of the count, and what it holds out of the sums over all. */
static void release_sums(struct ps_front *front, struct ps_connection *connection)
{
    struct ps_frame_inspector *inspector = &connection->inspector;
    uint32_t before = atomic_fetch_sub(&front->counts[connection->kind], 1);
    PS_ASSERT(before > 0);
    atomic_fetch_sub(&front->open_calls, inspector->streams.count);
    atomic_fetch_sub(&front->unfinished_bytes, inspector->unfinished_bytes);
    if (connection->held_much)
        atomic_store(&front->much_has_gone, true);
    inspector->unfinished_bytes = 0;
    ps_frame_inspector_fini(inspector);
}

/* Under the connection's lock: nothing may be counted between the last look and the end. */
static void end_connection(struct ps_front *front, struct ps_connection *connection,
                           enum ps_front_reason reason)
{
    if (atomic_exchange(&connection->ended, true))
        return;
    bool whole_frames = ps_frame_inspector_between_frames(&connection->inspector);
    release_sums(front, connection);
    /* Of a connection under TLS only its own functions know the way to the peer. */
    if (connection->descriptor >= 0)
        ps_goaway(connection->descriptor, whole_frames && connection->kind != PS_CONNECTION_HTTP,
                  ps_front_reason_text(reason));
}

/* For who has chosen a connection from outside, under the list's lock: the order of the two locks
 * is always that one. */
void ps_connection_condemn(struct ps_front *front, struct ps_connection *connection,
                           enum ps_front_reason reason)
{
    ps_mutex_lock(&connection->lock);
    end_connection(front, connection, reason);
    ps_mutex_unlock(&connection->lock);
}

/* Without a lock: whoever asks is in a system call on the descriptor, and closes it later if at
 * all. */
struct ps_connection *ps_connections_find(int descriptor)
{
    if (descriptor < 0 || descriptor >= PS_FRONT_DESCRIPTORS_MAX)
        return NULL;
    struct ps_connection *connection =
        atomic_load_explicit(&table[descriptor], memory_order_acquire);
    return connection != NULL && connection->kind != PS_CONNECTION_HTTP ? connection : NULL;
}

/* The sums over all follow what one connection's inspector counts, once for all frames of a
 * read. */
static void add_sums(struct ps_front *front, const struct ps_frame_inspector *inspector,
                     uint32_t calls_before, uint64_t bytes_before)
{
    if (inspector->streams.count != calls_before)
        atomic_fetch_add(&front->open_calls, inspector->streams.count - calls_before);
    if (inspector->unfinished_bytes != bytes_before)
        atomic_fetch_add(&front->unfinished_bytes, inspector->unfinished_bytes - bytes_before);
}

/* Under the connection's lock. */
static enum ps_front_reason inspect_in(struct ps_front *front, struct ps_connection *connection,
                                       const struct iovec *pieces, size_t count, size_t size)
{
    struct ps_frame_inspector *inspector = &connection->inspector;
    uint32_t calls_before = inspector->streams.count;
    uint64_t bytes_before = inspector->unfinished_bytes;
    uint64_t now_ms = ps_now_ms(ps_clock_real());
    enum ps_front_reason reason = PS_FRONT_FINE;
    /* The pieces are as long as gRPC has room; `size` says how much of that was filled. */
    for (size_t i = 0; i < count && size > 0 && reason == PS_FRONT_FINE; i++) {
        size_t part = size < pieces[i].iov_len ? size : pieces[i].iov_len;
        reason = ps_frame_inspector_in(inspector, pieces[i].iov_base, part, now_ms);
        size -= part;
    }
    add_sums(front, inspector, calls_before, bytes_before);
    /* Remembered here: gRPC resets the calls of a peer that has gone before it closes the
     * connection. */
    if (inspector->unfinished_bytes >= MUCH_BYTES || inspector->streams.count >= MANY_CALLS)
        connection->held_much = true;
    /* Behind a foreign preface is TLS, of which the frames are seen elsewhere. */
    if (inspector->highest > 0 || inspector->foreign)
        atomic_store_explicit(&connection->used, true, memory_order_relaxed);
    return reason;
}

/* Two loads for each read of any connection, which is why the sums are atomics and not behind the
 * list's lock. */
static bool sums_fit(struct ps_front *front)
{
    return atomic_load(&front->open_calls) <= atomic_load(&front->open_calls_max) &&
           atomic_load(&front->unfinished_bytes) <= atomic_load(&front->unfinished_bytes_max);
}

/* Behind a cipher nobody knows the host, which is that of the connection outside. */
static void note_offender(struct ps_front *front, const struct ps_connection *connection)
{
    if (connection->descriptor < 0)
        return;
    ps_mutex_lock(&front->lock);
    ps_offenders_note(&front->offenders, &connection->host, ps_now_ms(ps_clock_real()));
    ps_mutex_unlock(&front->lock);
}

/* The frames are looked at after gRPC's buffers have them and before gRPC has: what is refused here
 * was read from the socket, and goes nowhere. */
bool ps_connection_received(struct ps_connection *connection, const struct iovec *pieces,
                            size_t count, size_t size)
{
    struct ps_front *front = ps_front_door();
    enum ps_front_reason reason = PS_FRONT_FINE;
    ps_mutex_lock(&connection->lock);
    if (!atomic_load(&connection->ended)) {
        reason = inspect_in(front, connection, pieces, count, size);
        if (reason != PS_FRONT_FINE)
            end_connection(front, connection, reason);
    }
    ps_mutex_unlock(&connection->lock);
    if (reason != PS_FRONT_FINE) {
        note_offender(front, connection);
        ps_front_tell(front, reason, connection->descriptor >= 0 ? &connection->host : NULL);
    } else if (!sums_fit(front))
        relieve(front);
    return !atomic_load(&connection->ended);
}

/* Only what was really written counts: gRPC may hand over more than the socket takes. Nothing is
 * refused on this way, because an answer is no one's excess. */
void ps_connection_sent(struct ps_connection *connection, const struct iovec *pieces, size_t count,
                        size_t size)
{
    struct ps_front *front = ps_front_door();
    ps_mutex_lock(&connection->lock);
    struct ps_frame_inspector *inspector = &connection->inspector;
    uint32_t calls_before = inspector->streams.count;
    uint64_t bytes_before = inspector->unfinished_bytes;
    for (size_t i = 0; i < count && size > 0 && !atomic_load(&connection->ended); i++) {
        size_t part = size < pieces[i].iov_len ? size : pieces[i].iov_len;
        ps_frame_inspector_out(inspector, pieces[i].iov_base, part);
        size -= part;
    }
    add_sums(front, inspector, calls_before, bytes_before);
    ps_mutex_unlock(&connection->lock);
}

bool ps_connection_has_ended(const struct ps_connection *connection)
{
    return atomic_load(&connection->ended);
}

/* What a connection has of the sum that is too large. */
static uint64_t share_of(struct ps_connection *connection, enum ps_front_reason reason)
{
    ps_mutex_lock(&connection->lock);
    uint64_t share = reason == PS_FRONT_STREAMS_ALL ? connection->inspector.streams.count
                                                    : connection->inspector.unfinished_bytes;
    ps_mutex_unlock(&connection->lock);
    return share;
}

/* A sum over all connections is too large: the connection that has the most of it goes, whoever
 * came last. If the last one went, a peer that fills the sum to its edge and rests there would
 * close all others. */
static void relieve(struct ps_front *front)
{
    enum ps_front_reason reason =
        atomic_load(&front->open_calls) > atomic_load(&front->open_calls_max)
            ? PS_FRONT_STREAMS_ALL
            : PS_FRONT_UNFINISHED_ALL;
    struct ps_connection *largest = NULL;
    struct ps_peer_host host = {{0}};
    uint64_t most = 0;
    ps_mutex_lock(&front->lock);
    for (struct ps_connection *at = front->first; at != NULL; at = at->next) {
        uint64_t share = share_of(at, reason);
        if (share > most) {
            most = share;
            largest = at;
        }
    }
    /* Another thread may have made room meanwhile. */
    bool chosen = largest != NULL && !sums_fit(front);
    if (chosen) {
        host = largest->host;
        ps_connection_condemn(front, largest, reason);
    }
    ps_mutex_unlock(&front->lock);
    if (chosen)
        ps_front_tell(front, reason, &host);
}

/* Out of the list and of the sums; nobody else can reach the connection afterwards. */
void ps_connection_forget(struct ps_connection *connection)
{
    struct ps_front *front = ps_front_door();
    ps_mutex_lock(&front->lock);
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        front->first = connection->next;
    ps_mutex_unlock(&front->lock);
    /* gRPC closes when nobody reads or writes; the lock makes what they counted visible. */
    ps_mutex_lock(&connection->lock);
    if (!atomic_load(&connection->ended))
        release_sums(front, connection);
    ps_mutex_unlock(&connection->lock);
    ps_mutex_fini(&connection->lock);
    ps_release(ps_allocator_heap(), connection);
}

/* Before the descriptor is closed: afterwards its number may belong to a file, which a look at the
 * table would then take for a connection. */
void ps_connections_leave(int descriptor)
{
    if (descriptor < 0 || descriptor >= PS_FRONT_DESCRIPTORS_MAX ||
        atomic_load_explicit(&table[descriptor], memory_order_relaxed) == NULL)
        return;
    struct ps_connection *connection = atomic_exchange(&table[descriptor], NULL);
    if (connection != NULL)
        ps_connection_forget(connection);
}

/* Beside the connection of the descriptor, which counts as a connection and whose bytes are cipher:
 * this one counts calls and bytes, and is no connection of its own. */
struct ps_connection *ps_connection_of_tls(void)
{
    struct ps_front *front = ps_front_door();
    struct ps_connection *connection = NULL;
    ps_mutex_lock(&front->lock);
    if (atomic_load(&front->open))
        connection = ps_connection_enlist(front, -1, PS_CONNECTION_TLS);
    ps_mutex_unlock(&front->lock);
    return connection;
}

void ps_connections_dropped(void)
{
    atomic_fetch_add(&door.dropped, 1);
}

/* Under the list's lock, so that no connection is closed while it is looked at. The listener is
 * told afterwards, since it has locks of its own. */
static size_t end_stalled(struct ps_front *front, struct ps_peer_host told[TOLD_MAX])
{
    size_t count = 0;
    for (struct ps_connection *at = front->first; at != NULL && count < TOLD_MAX; at = at->next) {
        ps_mutex_lock(&at->lock);
        bool stalled = !atomic_load(&at->ended) &&
                       ps_frame_inspector_second(&at->inspector) == PS_FRONT_STALLED;
        if (stalled) {
            told[count++] = at->host;
            end_connection(front, at, PS_FRONT_STALLED);
        }
        ps_mutex_unlock(&at->lock);
    }
    return count;
}

/* Not at once: gRPC frees what a connection held some time after its descriptor is closed. */
static void give_back(struct ps_front *front, uint64_t now_ms)
{
    if (front->give_back_ms != 0 && now_ms >= front->give_back_ms) {
        front->give_back_ms = 0;
        ps_allocator_give_back();
    }
    if (front->give_back_ms == 0 && atomic_exchange(&front->much_has_gone, false))
        front->give_back_ms = now_ms + GIVE_BACK_MS;
}

/* The time between two turns may be longer than a second, but never shorter by much: seconds in
 * which this process did not run are not held against its peers. */
void ps_front_turn(void)
{
    struct ps_front *front = ps_front_door();
    struct ps_peer_host told[TOLD_MAX];
    size_t count = 0;
    uint64_t now_ms = ps_now_ms(ps_clock_real());
    ps_mutex_lock(&front->lock);
    bool due = now_ms - front->turned_ms >= TURN_MS / 2;
    if (due) {
        front->turned_ms = now_ms;
        count = end_stalled(front, told);
    }
    ps_mutex_unlock(&front->lock);
    for (size_t i = 0; i < count; i++)
        ps_front_tell(front, PS_FRONT_STALLED, &told[i]);
    if (due)
        give_back(front, now_ms);
}

/* Each figure by itself is right; together they are a sample. */
struct ps_front_counts ps_front_count(void)
{
    const struct ps_front *front = ps_front_door();
    return (struct ps_front_counts){
        .tcp = atomic_load(&front->counts[PS_CONNECTION_TCP]),
        .local = atomic_load(&front->counts[PS_CONNECTION_UNIX]),
        .http = atomic_load(&front->counts[PS_CONNECTION_HTTP]),
        .open_calls = atomic_load(&front->open_calls),
        .unfinished_bytes = atomic_load(&front->unfinished_bytes),
        .dropped = atomic_load(&front->dropped),
    };
}

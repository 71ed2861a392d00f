/* SPDX-License-Identifier: Apache-2.0 */
/* Asking, offering, and the segment that comes of it. The states and the rule of reuse are in the
 * header; here is how they are kept.
 *
 * What is atomic may be looked at without the lock on the way of every call, and changes only under
 * it, but for `losses`: they may be counted where other locks are held, and the next who hears an
 * answer acts upon them. A look that is out of date costs one message with its content inside.
 *
 * A segment lives by references: one of the link, one of each slot. So a call whose memory is in
 * use keeps the mapping, whatever becomes of the link meanwhile. */
#include "client/local/shared_link.h"

#include "base/assert.h"
#include "base/local_socket.h"
#include "base/shared_segment.h"
#include "base/thread.h"
#include "client/local/slot_map.h"
#include "proto/shared_range.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(PS_SHARED_SEGMENT_BYTES == PS_SLOT_UNITS_MAX * PS_SLOT_UNIT_BYTES,
               "the map covers the segment");

enum state { ASKING, OFFERED, OPENING, OPEN, OFF };

/* Contents that go in messages before a link that is OFF asks once more, at first and at most. */
enum { AGAIN_FIRST = 64, AGAIN_MOST = 16384 };

struct ps_client_segment {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_shared_segment segment;
    int socket;           /* its end ends the segment on the server */
    uint64_t number;      /* by which the server knows it; constant from OPEN on */
    atomic_bool left;     /* the server may use a slot whose call is over */
    struct ps_mutex lock; /* PS_RANK_LEAF; guards the two below */
    struct ps_slot_map slots;
    uint32_t references; /* the link's, and one per slot */
};

struct ps_shared_link {
    const struct ps_allocator *memory;      /* borrowed */
    atomic_int state;                       /* enum state; written under the lock */
    atomic_uint losses;                     /* of the connection */
    atomic_uint losses_known;               /* to `state`; fewer than losses: ASKING is next */
    atomic_uint_fast64_t content_bytes_max; /* of the server that was asked last; 0: not known */
    atomic_uint refused;                    /* contents since it is OFF */
    atomic_uint again;                      /* of them, until it asks once more; under the lock */
    struct ps_mutex lock;                   /* PS_RANK_QUEUE */
    char name[PS_LOCAL_NAME_BYTES_MAX + 1];
    struct ps_client_segment *segment; /* a reference; OPENING and OPEN */
};

static bool is_lost(struct ps_shared_link *link);
static void begin_anew(struct ps_shared_link *link, unsigned losses);
static void move_on(struct ps_shared_link *link);
static void open_segment(struct ps_shared_link *link);
static void look_for_welcome(struct ps_shared_link *link);
static bool has_gone(const struct ps_client_segment *segment);
static void leave_segment(struct ps_shared_link *link, enum state state);
static enum ps_status create_segment(const struct ps_allocator *memory, struct ps_bytes name,
                                     struct ps_client_segment **segment);
static bool take_slot(struct ps_client_segment *segment, size_t size, struct ps_shared_slot *slot);
static void drop_reference(struct ps_client_segment *segment);

struct ps_shared_link *ps_shared_link_create(const struct ps_allocator *memory)
{
    struct ps_shared_link *link = ps_zeroed(memory, sizeof *link);
    if (link == NULL)
        return NULL;
    link->memory = memory;
    atomic_init(&link->state, ASKING);
    atomic_init(&link->losses, 0);
    atomic_init(&link->losses_known, 0);
    atomic_init(&link->content_bytes_max, 0);
    atomic_init(&link->refused, 0);
    atomic_init(&link->again, AGAIN_FIRST);
    ps_mutex_init(&link->lock, PS_RANK_QUEUE);
    return link;
}

/* Slots may outlive the link: they have their own references. */
void ps_shared_link_destroy(struct ps_shared_link *link)
{
    if (link == NULL)
        return;
    leave_segment(link, OFF);
    ps_mutex_fini(&link->lock);
    ps_release(link->memory, link);
}

/* After a lost connection the question goes out again, since another server may answer now, under
 * the same address but with another socket. Questions between two losses have one number. */
uint32_t ps_shared_link_asks(struct ps_shared_link *link)
{
    if (link == NULL)
        return 0;
    unsigned losses = atomic_load(&link->losses);
    bool asks = atomic_load(&link->state) == ASKING || atomic_load(&link->losses_known) != losses;
    return asks ? losses + 1 : 0;
}

/* Counted only, since this may be called with locks held. */
void ps_shared_link_lost(struct ps_shared_link *link)
{
    if (link != NULL)
        atomic_fetch_add(&link->losses, 1);
}

static bool is_lost(struct ps_shared_link *link)
{
    return atomic_load(&link->losses_known) != atomic_load(&link->losses);
}

/* 0 for what is not a number, and for one that would not fit: the server is then treated as one
 * that did not say. */
static uint64_t number_of(struct ps_bytes text)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || number > UINT64_MAX / 10 - 9)
            return 0;
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    return number;
}

/* Of several calls that asked at once the first answer counts: the state has changed when the
 * others come. The answer of a server that was killed behind it may be heard after its loss:
 * believed, its name would be nobody's, and the next server would not be asked for its own. */
void ps_shared_link_answered(struct ps_shared_link *link, uint32_t question, struct ps_bytes name,
                             struct ps_bytes content_bytes_max)
{
    if (question == 0)
        return;
    ps_mutex_lock(&link->lock);
    bool is_current = ps_shared_link_asks(link) == question;
    if (is_current)
        begin_anew(link, question - 1);
    if (is_current && atomic_load(&link->state) == ASKING) {
        bool usable = name.size > 0 && name.size <= PS_LOCAL_NAME_BYTES_MAX;
        link->name[0] = '\0';
        if (usable)
            (void)snprintf(link->name, sizeof link->name, "%.*s", (int)name.size,
                           (const char *)name.data);
        atomic_store(&link->content_bytes_max, number_of(content_bytes_max));
        atomic_store(&link->state, usable ? OFFERED : OFF);
    }
    ps_mutex_unlock(&link->lock);
}

uint64_t ps_shared_link_content_bytes_max(struct ps_shared_link *link)
{
    if (link == NULL || is_lost(link))
        return 0; /* there may be another server now */
    return atomic_load(&link->content_bytes_max);
}

/* Also where memory of the host was refused: the name is the server's all the same. */
bool ps_shared_link_name(struct ps_shared_link *link, char name[PS_LOCAL_NAME_BYTES_MAX + 1],
                         uint32_t *generation)
{
    ps_mutex_lock(&link->lock);
    bool is_known = atomic_load(&link->state) != ASKING && !is_lost(link) && link->name[0] != '\0';
    if (is_known)
        memcpy(name, link->name, sizeof link->name);
    *generation = atomic_load(&link->losses_known);
    ps_mutex_unlock(&link->lock);
    return is_known;
}

bool ps_shared_link_works(struct ps_shared_link *link)
{
    return link != NULL && atomic_load(&link->state) == OPEN;
}

/* A server that is killed and comes back within a moment may do so unnoticed: the connection is
 * there when somebody looks. Then what is known is of the one before, for ever, if nobody asked
 * again; of a server that is elsewhere, or wants no memory, the question costs some bytes in few
 * calls. */
static void ask_again(struct ps_shared_link *link)
{
    if (atomic_fetch_add(&link->refused, 1) + 1 < atomic_load(&link->again))
        return;
    ps_mutex_lock(&link->lock);
    if (atomic_load(&link->state) == OFF) {
        unsigned again = atomic_load(&link->again);
        atomic_store(&link->again, again < AGAIN_MOST ? 2 * again : AGAIN_MOST);
        atomic_store(&link->refused, 0);
        atomic_store(&link->state, ASKING);
    }
    ps_mutex_unlock(&link->lock);
}

/* Small content is refused before anything is locked, and so is everything while the server is not
 * known: most calls of a client end here. */
bool ps_shared_link_take(struct ps_shared_link *link, size_t size, struct ps_shared_slot *slot)
{
    *slot = (struct ps_shared_slot){0};
    if (link == NULL || size < PS_SHARED_BYTES_MIN || size > PS_SHARED_SEGMENT_BYTES)
        return false;
    int state = atomic_load(&link->state);
    if (state == OFF)
        ask_again(link);
    if (state == ASKING || state == OFF || is_lost(link))
        return false;
    ps_mutex_lock(&link->lock);
    move_on(link);
    bool taken = atomic_load(&link->state) == OPEN && take_slot(link->segment, size, slot);
    ps_mutex_unlock(&link->lock);
    return taken;
}

/* What is known is of the server behind the losses that are counted. One that is counted meanwhile
 * stays unknown, and is acted upon by the next answer. */
static void begin_anew(struct ps_shared_link *link, unsigned losses)
{
    if (atomic_exchange(&link->losses_known, losses) == losses)
        return;
    leave_segment(link, ASKING);
    atomic_store(&link->refused, 0);
    atomic_store(&link->again, AGAIN_FIRST);
}

/* As far as it goes without waiting. From state to state in the order of the ifs: a server that
 * hung up ends the link (OFF), a segment that was left is followed by a new offer to the same
 * server. */
static void move_on(struct ps_shared_link *link)
{
    if (atomic_load(&link->state) == OPEN && has_gone(link->segment))
        leave_segment(link, OFF);
    if (atomic_load(&link->state) == OPEN && atomic_load(&link->segment->left))
        leave_segment(link, OFFERED);
    if (atomic_load(&link->state) == OFFERED)
        open_segment(link);
    if (atomic_load(&link->state) == OPENING)
        look_for_welcome(link);
}

/* A server elsewhere is known by this: nobody listens under its name here, since abstract names
 * exist in one network namespace only. OFF then lasts until the connection is lost. */
static void open_segment(struct ps_shared_link *link)
{
    struct ps_bytes name = ps_bytes_of_text(link->name);
    PS_ASSERT(link->segment == NULL);
    if (create_segment(link->memory, name, &link->segment) == PS_OK)
        atomic_store(&link->state, OPENING);
    else
        atomic_store(&link->state, OFF);
}

/* Asked on the way of a later call, never waited for: until the server has mapped the memory,
 * content goes in messages. A message of another kind, or the socket's end, is a refusal. */
static void look_for_welcome(struct ps_shared_link *link)
{
    uint8_t bytes[PS_SHARED_WELCOME_BYTES];
    size_t size = 0;
    int passed = PS_NO_DESCRIPTOR;
    struct ps_client_segment *segment = link->segment;
    PS_ASSERT(segment != NULL);
    enum ps_status status =
        ps_local_socket_receive(segment->socket, bytes, sizeof bytes, &size, &passed, NULL);
    if (status == PS_ERR_NOT_READY)
        return;
    /* A welcome carries no descriptor; one that comes all the same must not stay open. */
    if (passed != PS_NO_DESCRIPTOR)
        (void)close(passed);
    struct ps_bytes message = {bytes, size};
    if (status == PS_OK && ps_shared_welcome_read(message, &segment->number))
        atomic_store(&link->state, OPEN);
    else
        leave_segment(link, OFF);
}

/* Nothing comes from the server after its welcome, but its end. Without this look a client would
 * write into memory that no server reads, and wait for its calls to fail. */
static bool has_gone(const struct ps_client_segment *segment)
{
    uint8_t byte;
    size_t size;
    int passed = PS_NO_DESCRIPTOR;
    enum ps_status status =
        ps_local_socket_receive(segment->socket, &byte, sizeof byte, &size, &passed, NULL);
    if (passed != PS_NO_DESCRIPTOR)
        (void)close(passed);
    return status != PS_ERR_NOT_READY;
}

/* The slots that are out keep the segment; the link has none until the next offer. */
static void leave_segment(struct ps_shared_link *link, enum state state)
{
    if (link->segment != NULL)
        drop_reference(link->segment);
    link->segment = NULL;
    atomic_store(&link->state, state);
}

/* ---- Segments ---- */

/* The name of the socket came over the network, and is free for anybody once the server that had it
 * is gone: the kernel says who listens now, before memory that the listener may write to is handed
 * over. A server of another user is none of ours, unless the administrator runs it.
 * The administrator's own trainer may use the server of any user, as it may read all memory. */
bool ps_shared_link_trusts(int socket)
{
    struct ps_local_peer who;
    return ps_local_socket_peer(socket, &who, NULL) == PS_OK &&
           (who.user == geteuid() || who.user == 0 || geteuid() == 0);
}

/* The connection comes first: it is the cheapest test for a server on this host, and the memory is
 * made only when it succeeds. The hello carries the descriptor in the same message, so that the
 * server never sees a promise without memory. */
static enum ps_status create_segment(const struct ps_allocator *memory, struct ps_bytes name,
                                     struct ps_client_segment **out)
{
    int socket, descriptor;
    uint8_t hello[PS_SHARED_HELLO_BYTES];
    struct ps_shared_segment mapped;
    PS_TRY(ps_local_socket_connect(name, &socket, NULL));
    if (!ps_shared_link_trusts(socket)) {
        (void)close(socket);
        return PS_ERR_DENIED;
    }
    enum ps_status status =
        ps_shared_segment_create(PS_SHARED_SEGMENT_BYTES, &mapped, &descriptor, NULL);
    if (status != PS_OK) {
        (void)close(socket);
        return status;
    }
    ps_shared_hello_write(PS_SHARED_SEGMENT_BYTES, hello);
    status = ps_local_socket_send(socket, (struct ps_bytes){hello, sizeof hello}, descriptor, NULL);
    (void)close(descriptor);
    struct ps_client_segment *segment = NULL;
    if (status == PS_OK)
        segment = ps_zeroed(memory, sizeof *segment);
    if (segment == NULL) {
        ps_shared_segment_close(&mapped);
        (void)close(socket);
        return status != PS_OK ? status : PS_ERR_NO_MEMORY;
    }
    /* From here on the segment owns socket and mapping, and nothing can fail. */
    segment->memory = memory;
    segment->segment = mapped;
    segment->socket = socket;
    segment->references = 1;
    atomic_init(&segment->left, false);
    ps_mutex_init(&segment->lock, PS_RANK_LEAF);
    ps_slot_map_init(&segment->slots, PS_SLOT_UNITS_MAX);
    *out = segment;
    return PS_OK;
}

/* The reference is counted under the same lock as the bits, so that a segment never ends while a
 * slot of it is out. */
static bool take_slot(struct ps_client_segment *segment, size_t size, struct ps_shared_slot *slot)
{
    size_t offset;
    ps_mutex_lock(&segment->lock);
    bool taken = ps_slot_map_take(&segment->slots, size, &offset);
    PS_ASSERT(!taken || offset + size <= PS_SHARED_SEGMENT_BYTES);
    if (taken)
        segment->references++;
    ps_mutex_unlock(&segment->lock);
    if (taken)
        *slot = (struct ps_shared_slot){
            .range = {.segment = segment->number, .offset = offset, .size = size},
            .bytes = segment->segment.bytes + offset,
            .segment = segment};
    return taken;
}

/* After the server's own answer nobody uses the bytes, and they go to the next call. After any
 * other end, a deadline for example, the server may still read them for the journal or write a pull
 * into them: the bits stay set, and the whole segment is left for another. To wait for the server
 * instead would mean to keep the caller's call open past its deadline. */
void ps_shared_slot_release(struct ps_shared_slot *slot, bool answered)
{
    struct ps_client_segment *segment = slot->segment;
    if (segment == NULL)
        return;
    if (answered) {
        ps_mutex_lock(&segment->lock);
        ps_slot_map_release(&segment->slots, slot->range.size, slot->range.offset);
        ps_mutex_unlock(&segment->lock);
    } else {
        atomic_store(&segment->left, true);
    }
    drop_reference(segment);
    *slot = (struct ps_shared_slot){0};
}

/* The last one ends the mapping before the socket: the server takes the socket's end for the end of
 * the client's use. */
static void drop_reference(struct ps_client_segment *segment)
{
    ps_mutex_lock(&segment->lock);
    PS_ASSERT(segment->references > 0);
    bool last = --segment->references == 0;
    ps_mutex_unlock(&segment->lock);
    if (!last)
        return;
    ps_shared_segment_close(&segment->segment);
    (void)close(segment->socket);
    ps_mutex_fini(&segment->lock);
    ps_release(segment->memory, segment);
}

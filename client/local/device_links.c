/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a device's memory that a server has opened. An entry is in one of three states: it is
 * used; or it was left, which means that our half of its socket is shut and the server's is not
 * yet: then the server may still read the memory, and the entry keeps its place until it does not;
 * or it is free.
 *
 * The device reads a caller's own memory, so that nobody can put a segment by and take another, as
 * shared_link.c does: what can be done is to know when the server has finished. */
#include "client/local/device_links.h"

#include "base/assert.h"
#include "base/local_socket.h"
#include "base/thread.h"
#include "proto/shared_range.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Contents that go another way before a server that has refused a piece is asked again. */
enum { AGAIN_AFTER = 64 };

enum piece_state { FREE, USED, LEFT };

struct ps_device_piece {
    struct ps_device_links *links;
    enum piece_state state;
    struct ps_device_share share;
    int socket;
    uint64_t number; /* by which the server knows it */
    uint32_t slots;  /* that are out */
    uint64_t used;   /* when, in turns */
};

struct ps_device_links {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_shared_link *link;       /* borrowed; not asked once `ended` */
    struct ps_mutex lock;              /* PS_RANK_LEAF; guards all that follows */
    uint32_t generation;               /* of the server that the pieces are with */
    uint32_t refused;                  /* contents that are still to go another way */
    uint64_t turn;
    uint32_t slots; /* of all pieces */
    bool ended;
    struct ps_device_piece pieces[PS_DEVICE_PIECES_MAX];
};

static bool is_known(struct ps_device_links *links, char name[PS_LOCAL_NAME_BYTES_MAX + 1]);
static struct ps_device_piece *find(struct ps_device_links *links,
                                    const struct ps_device_share *share);
static struct ps_device_piece *open_piece(struct ps_device_links *links, const char *name,
                                          const struct ps_device_share *share);
static struct ps_device_piece *free_place(struct ps_device_links *links);
static bool offer(struct ps_device_piece *piece, const char *name);
static void leave(struct ps_device_piece *piece);
static bool is_over(struct ps_device_piece *piece);
static void give_back(struct ps_device_links *links);

struct ps_device_links *ps_device_links_create(const struct ps_allocator *memory,
                                               struct ps_shared_link *link)
{
    struct ps_device_links *links = ps_zeroed(memory, sizeof *links);
    if (links == NULL)
        return NULL;
    PS_ASSERT(link != NULL);
    links->memory = memory;
    links->link = link;
    ps_mutex_init(&links->lock, PS_RANK_LEAF);
    for (size_t i = 0; i < PS_DEVICE_PIECES_MAX; i++) {
        links->pieces[i].links = links;
        links->pieces[i].socket = PS_NO_DESCRIPTOR;
    }
    return links;
}

/* Whoever still has a slot gives the memory back. */
void ps_device_links_destroy(struct ps_device_links *links)
{
    if (links == NULL)
        return;
    ps_mutex_lock(&links->lock);
    /* Shut rather than closed: a slot that is out may belong to a call that the server still
     * answers, and the end of the memory is told by the server's end of the socket. */
    for (size_t i = 0; i < PS_DEVICE_PIECES_MAX; i++)
        leave(&links->pieces[i]);
    links->ended = true;
    bool is_last = links->slots == 0;
    ps_mutex_unlock(&links->lock);
    if (is_last)
        give_back(links);
}

/* Sockets that servers have not closed yet are closed with the rest: by then no call of this
 * connection is left that could be told. */
static void give_back(struct ps_device_links *links)
{
    PS_ASSERT(links->slots == 0);
    for (size_t i = 0; i < PS_DEVICE_PIECES_MAX; i++)
        if (links->pieces[i].socket != PS_NO_DESCRIPTOR)
            (void)close(links->pieces[i].socket);
    ps_mutex_fini(&links->lock);
    ps_release(links->memory, links);
}

/* ---- A content ---- */

/* The questions come in the order of their price: is there a server on this host, is the content
 * where its place says, has the server opened the piece before. Only the last may have to ask the
 * server. */
bool ps_device_links_take(struct ps_device_links *links, const struct ps_device_place *place,
                          const uint8_t *address, size_t size, struct ps_device_slot *slot)
{
    char name[PS_LOCAL_NAME_BYTES_MAX + 1];
    *slot = (struct ps_device_slot){0};
    if (links == NULL || !is_known(links, name))
        return false;
    /* Both are the caller's: a content that leaves its piece would be refused by the server. */
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)place->base);
    if ((uintptr_t)address < (uintptr_t)place->base || offset > place->share.bytes ||
        size > place->share.bytes - offset)
        return false;
    ps_mutex_lock(&links->lock);
    struct ps_device_piece *piece = find(links, &place->share);
    /* A server that has refused one is not asked for each content: a connection that is made and
     * dropped again costs as much as the message that goes instead. */
    if (piece == NULL && links->refused > 0)
        links->refused--;
    else if (piece == NULL)
        piece = open_piece(links, name, &place->share);
    if (piece != NULL) {
        piece->slots++;
        links->slots++;
        /* In turns and not by a clock: only the order of uses matters. */
        piece->used = ++links->turn;
        *slot = (struct ps_device_slot){.range = {piece->number, offset, size}, .piece = piece};
    }
    ps_mutex_unlock(&links->lock);
    return piece != NULL;
}

/* A server that has taken the place of another knows none of the pieces. */
static bool is_known(struct ps_device_links *links, char name[PS_LOCAL_NAME_BYTES_MAX + 1])
{
    uint32_t generation = 0;
    if (!ps_shared_link_name(links->link, name, &generation))
        return false;
    ps_mutex_lock(&links->lock);
    if (links->generation != generation) {
        for (size_t i = 0; i < PS_DEVICE_PIECES_MAX; i++)
            leave(&links->pieces[i]);
        links->generation = generation;
        links->refused = 0;
    }
    ps_mutex_unlock(&links->lock);
    return true;
}

/* One whose server has hung up is left: the next content opens it anew. */
static struct ps_device_piece *find(struct ps_device_links *links,
                                    const struct ps_device_share *share)
{
    for (size_t i = 0; i < PS_DEVICE_PIECES_MAX; i++) {
        struct ps_device_piece *piece = &links->pieces[i];
        if (piece->state != USED || memcmp(&piece->share, share, sizeof *share) != 0)
            continue;
        if (!is_over(piece))
            return piece;
        leave(piece);
    }
    return NULL;
}

/* Of several that come at once the others find it open: the lock is held while the server opens the
 * piece. */
static struct ps_device_piece *open_piece(struct ps_device_links *links, const char *name,
                                          const struct ps_device_share *share)
{
    struct ps_device_piece *piece = free_place(links);
    if (piece == NULL)
        return NULL;
    PS_ASSERT(piece->state == FREE && piece->slots == 0);
    piece->share = *share;
    if (!offer(piece, name)) {
        /* A server without this device, or one that has gone, or that has no place left. */
        links->refused = AGAIN_AFTER;
        return NULL;
    }
    piece->state = USED;
    return piece;
}

/* The one that was not used for longest makes way; its server may need a moment to let go of it. */
static struct ps_device_piece *free_place(struct ps_device_links *links)
{
    struct ps_device_piece *oldest = NULL;
    for (size_t i = 0; i < PS_DEVICE_PIECES_MAX; i++) {
        struct ps_device_piece *piece = &links->pieces[i];
        if (piece->state == LEFT && piece->slots == 0)
            (void)is_over(piece);
        if (piece->state == FREE && piece->slots == 0)
            return piece;
        if (piece->state == USED && piece->slots == 0 &&
            (oldest == NULL || piece->used < oldest->used))
            oldest = piece;
    }
    if (oldest != NULL)
        leave(oldest);
    return oldest != NULL && oldest->state == FREE ? oldest : NULL;
}

/* Waited for, unlike a host's memory: a content that went the other way meanwhile would cross the
 * bus twice. A server opens a piece within a millisecond or so. */
static bool offer(struct ps_device_piece *piece, const char *name)
{
    uint8_t hello[PS_DEVICE_HELLO_BYTES], welcome[PS_SHARED_WELCOME_BYTES];
    size_t size = 0;
    int passed = PS_NO_DESCRIPTOR;
    if (ps_local_socket_connect(ps_bytes_of_text(name), &piece->socket, NULL) != PS_OK) {
        piece->socket = PS_NO_DESCRIPTOR;
        return false;
    }
    ps_device_hello_write(&piece->share, hello);
    /* The name came over the network, and is free for anybody once the server that had it is gone:
     * a handle is told only to whom the kernel says is ours. */
    enum ps_status status = PS_ERR_DENIED;
    if (ps_shared_link_trusts(piece->socket))
        status = ps_local_socket_send(piece->socket, (struct ps_bytes){hello, sizeof hello},
                                      PS_NO_DESCRIPTOR, NULL);
    struct pollfd answer = {.fd = piece->socket, .events = POLLIN};
    if (status == PS_OK)
        status = poll(&answer, 1, PS_DEVICE_WELCOME_MS) > 0 ? PS_OK : PS_ERR_TIMEOUT;
    if (status == PS_OK)
        status =
            ps_local_socket_receive(piece->socket, welcome, sizeof welcome, &size, &passed, NULL);
    if (passed != PS_NO_DESCRIPTOR)
        (void)close(passed);
    if (status == PS_OK && ps_shared_welcome_read((struct ps_bytes){welcome, size}, &piece->number))
        return true;
    (void)close(piece->socket);
    piece->socket = PS_NO_DESCRIPTOR;
    return false;
}

/* ---- The end of a piece ---- */

/* Our half is shut: the server drops the piece, and closes its own when nothing uses it. */
static void leave(struct ps_device_piece *piece)
{
    if (piece->state != USED)
        return;
    piece->state = LEFT;
    (void)shutdown(piece->socket, SHUT_WR);
    (void)is_over(piece);
}

/* Has the server hung up? Of a piece that was left nothing more is to be known then. */
static bool is_over(struct ps_device_piece *piece)
{
    uint8_t byte;
    size_t size = 0;
    int passed = PS_NO_DESCRIPTOR;
    PS_ASSERT(piece->state != FREE && piece->socket != PS_NO_DESCRIPTOR);
    enum ps_status status =
        ps_local_socket_receive(piece->socket, &byte, sizeof byte, &size, &passed, NULL);
    if (passed != PS_NO_DESCRIPTOR)
        (void)close(passed);
    if (status == PS_ERR_NOT_READY)
        return false;
    if (piece->state == LEFT) {
        (void)close(piece->socket);
        piece->socket = PS_NO_DESCRIPTOR;
        piece->state = FREE;
    }
    return true;
}

/* Without the server's answer nobody knows whether it reads on: the piece is left, as a whole,
 * since the server lets go of pieces and not of ranges. The next content opens it anew, while the
 * old opening ends. */
void ps_device_slot_release(struct ps_device_slot *slot, bool answered)
{
    struct ps_device_piece *piece = slot->piece;
    if (piece == NULL)
        return;
    struct ps_device_links *links = piece->links;
    ps_mutex_lock(&links->lock);
    PS_ASSERT(piece->slots > 0 && links->slots > 0);
    piece->slots--;
    links->slots--;
    if (!answered)
        leave(piece);
    bool is_last = links->ended && links->slots == 0;
    ps_mutex_unlock(&links->lock);
    if (is_last)
        give_back(links);
    *slot = (struct ps_device_slot){0};
}

/* Asked again and again by whoever waits: a server may need until the end of an update, or until it
 * is continued by whoever has stopped it. */
bool ps_device_links_let_go(struct ps_device_links *links, const struct ps_device_share *share)
{
    bool all = true;
    if (links == NULL)
        return true;
    ps_mutex_lock(&links->lock);
    for (size_t i = 0; i < PS_DEVICE_PIECES_MAX; i++) {
        struct ps_device_piece *piece = &links->pieces[i];
        if (share != NULL && piece->state == USED &&
            memcmp(&piece->share, share, sizeof *share) == 0)
            leave(piece);
        all = all && (piece->state != LEFT || is_over(piece));
    }
    ps_mutex_unlock(&links->lock);
    return all;
}

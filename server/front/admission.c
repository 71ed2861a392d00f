/* SPDX-License-Identifier: Apache-2.0 */
/* Who is let in. Descriptors are what connections use up: some stay in reserve for the journal and
 * for checkpoints, which must go on when strangers have taken all others.
 *
 * The bounds are three. The number of a descriptor says how near the process is to its limit,
 * whoever has the others. An operator may say how many connections there may be. And of many hosts
 * none may have more than a quarter, so that one that is broken, or hostile, leaves room for the
 * rest; but a machine full of workers must always fit, and the machine itself is no stranger.
 *
 * Where there is no room for one more, a connection that has said nothing goes first: else whoever
 * opens connections and waits keeps all others out for as long as it likes. */
#include "server/front/connection_parts.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/local_socket.h"

#include <sys/resource.h>

enum {
    RESERVE_MIN = 16,
    RESERVE_MAX = 64,
    HOST_MIN = 64,      /* a machine full of workers */
    SILENT_MS = 2000,   /* a client that has just connected is about to speak */
    HOST_CLASSES = 1024 /* hosts are told apart by a hash where they are many */
};

/* Why the newcomer does not get in, or FINE; and whom it displaces. */
struct decision {
    enum ps_front_reason reason;
    struct ps_connection *displaced; /* NULL: nobody */
};

static struct decision decide(const struct ps_front *front, int descriptor,
                              enum ps_connection_kind kind, const struct ps_peer_host *host);

/* Told by whoever owns the listener: an address alone does not say what is spoken there. */
void ps_front_claim_http(int listener, uint32_t connections_max)
{
    PS_ASSERT(listener >= 0 && connections_max > 0);
    struct ps_front *front = ps_front_door();
    ps_mutex_lock(&front->lock);
    front->http_listener = listener;
    front->http_max = connections_max;
    ps_mutex_unlock(&front->lock);
}

/* The number of the listener may soon belong to another: its connections must not be taken for
 * HTTP's. */
void ps_front_release_http(int listener)
{
    struct ps_front *front = ps_front_door();
    ps_mutex_lock(&front->lock);
    if (front->http_listener == listener)
        front->http_listener = -1;
    ps_mutex_unlock(&front->lock);
}

void ps_front_adopt(int descriptor)
{
    struct ps_front *front = ps_front_door();
    /* A pair of sockets has no address: the connection counts as a local one. */
    PS_ASSERT(descriptor >= 0 && descriptor < PS_FRONT_DESCRIPTORS_MAX);
    ps_mutex_lock(&front->lock);
    (void)ps_connection_enlist(front, descriptor, PS_CONNECTION_UNIX);
    ps_mutex_unlock(&front->lock);
}

/* Descriptors are given out from the lowest free one. So the number of a new one says how many are
 * taken at least, whoever has them. */
static int descriptors_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > PS_FRONT_DESCRIPTORS_MAX)
        return PS_FRONT_DESCRIPTORS_MAX;
    int all = (int)limit.rlim_cur;
    int reserve = all / 8;
    if (reserve < RESERVE_MIN)
        reserve = RESERVE_MIN;
    if (reserve > RESERVE_MAX)
        reserve = RESERVE_MAX;
    return all - reserve;
}

/* As the kernel says who connected, at the time of connecting; whose process that is the process
 * itself is not asked. Who cannot be found out is nobody who was named. */
static bool is_welcome(const struct ps_front *front, int descriptor)
{
    struct ps_local_peer who;
    if (!front->local_users.is_restricted)
        return true;
    return ps_local_socket_peer(descriptor, &who, NULL) == PS_OK &&
           ps_local_users_allow(&front->local_users, who.user);
}

/* The workers of a job share their host with whoever misbehaves there: they are let in, but for the
 * moments in which that comes again and again, and have fewer calls to reset at once. */
static void know_host(struct ps_connection *connection, const struct ps_peer_host *host,
                      enum ps_trust trust)
{
    connection->host = *host;
    if (trust != PS_TRUST_FULL)
        ps_frame_inspector_distrust(&connection->inspector, connection->since_ms);
}

/* One lock for the decision and what follows from it: of two newcomers that see the last place
 * free, one would be too many. The listener is told when the lock is free again, since it has locks
 * of its own, and a line of the log takes longer than an accept may. */
bool ps_connections_admit(int descriptor, int listener, const struct sockaddr_storage *peer)
{
    struct ps_front *front = ps_front_door();
    struct decision decision = {PS_FRONT_FINE, NULL};
    struct ps_peer_host host = ps_peer_host_of(peer), displaced = host;
    ps_mutex_lock(&front->lock);
    bool http = listener == front->http_listener;
    enum ps_connection_kind kind = http                         ? PS_CONNECTION_HTTP
                                   : peer->ss_family == AF_UNIX ? PS_CONNECTION_UNIX
                                                                : PS_CONNECTION_TCP;
    enum ps_front_reason displaced_why = http ? PS_FRONT_DISPLACED_HTTP : PS_FRONT_DISPLACED;
    bool looks = http || atomic_load(&front->open);
    enum ps_trust trust = ps_offenders_trust(&front->offenders, &host, ps_now_ms(ps_clock_real()));
    if (looks)
        decision = decide(front, descriptor, kind, &host);
    /* Before anything is read of it, which is where its costs begin. */
    if (looks && !http && trust == PS_TRUST_NONE)
        decision = (struct decision){PS_FRONT_OFFENDER, NULL};
    if (looks && kind == PS_CONNECTION_UNIX && !is_welcome(front, descriptor))
        decision = (struct decision){PS_FRONT_LOCAL_USER, NULL};
    if (decision.displaced != NULL) {
        displaced = decision.displaced->host;
        ps_connection_condemn(front, decision.displaced, displaced_why);
    }
    if (looks && decision.reason == PS_FRONT_FINE) {
        struct ps_connection *created = ps_connection_enlist(front, descriptor, kind);
        if (created == NULL)
            decision.reason = PS_FRONT_MEMORY;
        else
            know_host(created, &host, trust);
    }
    ps_mutex_unlock(&front->lock);
    if (decision.displaced != NULL)
        ps_front_tell(front, displaced_why, &displaced);
    if (decision.reason == PS_FRONT_DESCRIPTORS)
        ps_connections_dropped();
    if (decision.reason != PS_FRONT_FINE)
        ps_front_tell(front, decision.reason, &host);
    return decision.reason == PS_FRONT_FINE;
}

/* FNV-1a: short, and good enough to tell hosts apart that do not try to look alike. Hosts that fall
 * into one class are counted together; a host that finds such a one gains nothing but company in
 * being displaced. */
static uint32_t class_of(const struct ps_peer_host *host)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof host->address; i++)
        hash = (hash ^ host->address[i]) * 16777619u;
    return hash % HOST_CLASSES;
}

/* One that has begun a call may be in the middle of anything. HTTP has pages, each of which is soon
 * over. */
static bool may_go(const struct ps_connection *connection, enum ps_connection_kind kind,
                   uint64_t now_ms)
{
    if (connection->kind != kind || atomic_load(&connection->ended))
        return false;
    return kind == PS_CONNECTION_HTTP ||
           (!atomic_load(&connection->used) && now_ms - connection->since_ms >= SILENT_MS);
}

/* The oldest of the host that has the most of those that may go, so that a flood from one host does
 * not displace the only connection of another. NULL when none may. `only`: of this host; or
 * NULL. */
static struct ps_connection *find_silent(const struct ps_front *front, enum ps_connection_kind kind,
                                         const struct ps_peer_host *only)
{
    uint32_t counts[HOST_CLASSES] = {0};
    struct ps_connection *found = NULL;
    uint32_t most = 0;
    uint64_t now_ms = ps_now_ms(ps_clock_real());
    /* The newest stands first, so the last one of a host that is met is its oldest. */
    for (struct ps_connection *at = front->first; at != NULL; at = at->next) {
        if (!may_go(at, kind, now_ms) || (only != NULL && !ps_peer_host_equal(&at->host, only)))
            continue;
        uint32_t count = ++counts[class_of(&at->host)];
        if (count >= most) {
            most = count;
            found = at;
        }
    }
    return found;
}

/* Counted when it is asked for: a table of hosts would have to be kept right for each connection
 * that comes or goes, and the question comes only when the door is a quarter full. */
static uint32_t count_of_host(const struct ps_front *front, const struct ps_peer_host *host)
{
    uint32_t count = 0;
    for (const struct ps_connection *at = front->first; at != NULL; at = at->next)
        count += at->kind == PS_CONNECTION_TCP && !atomic_load(&at->ended) &&
                 ps_peer_host_equal(&at->host, host);
    return count;
}

/* Of strangers each host has a share; the machine itself, with all its workers, has none. */
static bool host_has_room(const struct ps_front *front, uint32_t connections_max,
                          const struct ps_peer_host *host)
{
    uint32_t share = connections_max / 4 > HOST_MIN ? connections_max / 4 : HOST_MIN;
    /* Where all together have not so many, none of them has: the list need not be looked through.
     * */
    return atomic_load(&front->counts[PS_CONNECTION_TCP]) < share || ps_peer_host_is_local(host) ||
           count_of_host(front, host) < share;
}

/* The order is that of how bad it is. Without a descriptor also HTTP has to wait; a connection that
 * is displaced then makes room for the next one. */
static struct decision decide(const struct ps_front *front, int descriptor,
                              enum ps_connection_kind kind, const struct ps_peer_host *host)
{
    /* Asked each time: prlimit may change the limit of a process that runs. */
    int most = descriptors_max();
    bool http = kind == PS_CONNECTION_HTTP;
    uint32_t grpc_count = atomic_load(&front->counts[PS_CONNECTION_TCP]) +
                          atomic_load(&front->counts[PS_CONNECTION_UNIX]);
    uint32_t connections_max =
        front->connections_max != 0 ? front->connections_max : (uint32_t)(most > 0 ? most : 1);
    if (descriptor >= most)
        return (struct decision){PS_FRONT_DESCRIPTORS, find_silent(front, PS_CONNECTION_TCP, NULL)};
    /* HTTP has a bound of its own, so that neither side can shut the other out. */
    if (http && atomic_load(&front->counts[kind]) >= front->http_max)
        return (struct decision){PS_FRONT_FINE, find_silent(front, kind, NULL)};
    if (http)
        return (struct decision){PS_FRONT_FINE, NULL};
    /* A host beyond its share displaces its own, never those of others. */
    if (!host_has_room(front, connections_max, host)) {
        struct ps_connection *silent = find_silent(front, kind, host);
        return (struct decision){silent != NULL ? PS_FRONT_FINE : PS_FRONT_HOST, silent};
    }
    if (grpc_count >= connections_max) {
        struct ps_connection *silent = find_silent(front, kind, NULL);
        return (struct decision){silent != NULL ? PS_FRONT_FINE : PS_FRONT_CONNECTIONS, silent};
    }
    return (struct decision){PS_FRONT_FINE, NULL};
}

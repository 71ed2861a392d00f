/* SPDX-License-Identifier: Apache-2.0 */
/* A table of meetings, each with an array of its members. What a member said last is kept after the
 * round is over: a repeat whose first reply was lost is let go by its token, while a member of
 * another run of the job, which uses the same name and round again, has another token and waits. */
#include "server/core/requests/meetings.h"

#include "base/assert.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

/* So many missing members are named. */
enum { NAMED_MAX = 8 };

struct member {
    uint64_t token; /* of its last arrival, in this gathering or the one before */
    uint32_t calls; /* of it that wait in the present gathering */
};

struct ps_meeting {
    struct ps_meeting *next_in_chain;
    struct ps_meeting *next, *prev; /* among the idle ones, for utlist */
    uint64_t round;
    uint64_t gathering; /* rises with every one that ends */
    uint32_t of;
    uint32_t arrived; /* members of the present gathering */
    uint32_t places;  /* calls that wait, or have yet to look */
    bool has_ended;   /* a gathering with this `of` has, in ... */
    uint64_t ended_round;
    struct member *members; /* owned; `of` of them */
    size_t name_size;
    char name[];
};

static enum ps_status check_arrival(const struct ps_arrival *arrival, struct ps_error *error);
static enum ps_status arrive(struct ps_meetings *meetings, const struct ps_arrival *arrival,
                             struct ps_meeting_place *place, bool *all_are_there,
                             struct ps_error *error);
static enum ps_status find_or_make(struct ps_meetings *meetings, const struct ps_arrival *arrival,
                                   struct ps_meeting **meeting, struct ps_error *error);
static bool is_repeat(const struct ps_meeting *meeting, const struct ps_arrival *arrival);
static enum ps_status gather(struct ps_meetings *meetings, struct ps_meeting *meeting,
                             const struct ps_arrival *arrival, struct ps_error *error);
static void end_gathering(struct ps_meeting *meeting);
static void forget(struct ps_meetings *meetings, struct ps_meeting *meeting);

/* A lock of its own: arrivals never wait for a push or a snapshot. */
void ps_meetings_init(struct ps_meetings *meetings, const struct ps_allocator *memory)
{
    *meetings = (struct ps_meetings){.memory = memory};
    ps_mutex_init(&meetings->lock, PS_RANK_QUEUE);
}

/* No call has a place any more, so that every meeting is idle. */
void ps_meetings_fini(struct ps_meetings *meetings)
{
    while (meetings->idle != NULL)
        forget(meetings, meetings->idle);
    PS_ASSERT(meetings->count == 0 && meetings->members == 0);
    ps_mutex_fini(&meetings->lock);
}

/* What can be said without looking at others is said without the lock. */
enum ps_status ps_meetings_arrive(struct ps_meetings *meetings, const struct ps_arrival *arrival,
                                  struct ps_meeting_place *place, bool *all_are_there,
                                  struct ps_error *error)
{
    PS_ASSERT(place->meeting == NULL);
    *all_are_there = false;
    PS_TRY(check_arrival(arrival, error));
    ps_mutex_lock(&meetings->lock);
    enum ps_status status = arrive(meetings, arrival, place, all_are_there, error);
    ps_mutex_unlock(&meetings->lock);
    PS_ASSERT((status == PS_ERR_NOT_READY) == (place->meeting != NULL));
    return status;
}

/* Each mistake has a text of its own: a job that counts its members from 1 is to see it at once. */
static enum ps_status check_arrival(const struct ps_arrival *arrival, struct ps_error *error)
{
    if (arrival->name.size == 0 || arrival->name.size > PS_MEETING_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "barrier: a name has 1 to %d bytes",
                       PS_MEETING_NAME_BYTES_MAX);
    if (arrival->of == 0 || arrival->of > PS_MEETING_MEMBERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "barrier: of 1 to %d members, not %" PRIu32,
                       PS_MEETING_MEMBERS_MAX, arrival->of);
    if (arrival->member >= arrival->of)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "barrier: members of %" PRIu32 " are 0 to %" PRIu32 ", not %" PRIu32,
                       arrival->of, arrival->of - 1, arrival->member);
    return PS_OK;
}

/* With the lock. The member is counted once, however many calls of it wait; each call has a
 * place. */
static enum ps_status arrive(struct ps_meetings *meetings, const struct ps_arrival *arrival,
                             struct ps_meeting_place *place, bool *all_are_there,
                             struct ps_error *error)
{
    struct ps_meeting *meeting;
    PS_TRY(find_or_make(meetings, arrival, &meeting, error));
    if (is_repeat(meeting, arrival))
        return PS_OK;
    PS_TRY(gather(meetings, meeting, arrival, error));
    struct member *member = &meeting->members[arrival->member];
    meeting->arrived += member->calls == 0 ? 1 : 0;
    member->token = arrival->token;
    PS_ASSERT(meeting->arrived <= meeting->of);
    if (meeting->arrived == meeting->of) {
        end_gathering(meeting);
        *all_are_there = true;
        return PS_OK;
    }
    member->calls++;
    if (meeting->places++ == 0)
        DL_DELETE(meetings->idle, meeting);
    *place = (struct ps_meeting_place){meeting, meeting->gathering, arrival->member};
    return ps_fail(error, PS_ERR_NOT_READY, "members are missing");
}

/* Few meetings, short chains: a table that grows would be more than it saves. */
static struct ps_meeting **chain_of(struct ps_meetings *meetings, struct ps_bytes name)
{
    return &meetings->chains[ps_hash_fnv1a32(name) % PS_MEETING_CHAINS];
}

/* NULL: nobody has come to a meeting of this name, or it was forgotten. */
static struct ps_meeting *find(struct ps_meetings *meetings, struct ps_bytes name)
{
    struct ps_meeting *meeting = *chain_of(meetings, name);
    while (meeting != NULL &&
           (meeting->name_size != name.size || memcmp(meeting->name, name.data, name.size) != 0))
        meeting = meeting->next_in_chain;
    return meeting;
}

/* A new meeting is idle and has no members yet: what is refused later leaves it so. */
static enum ps_status find_or_make(struct ps_meetings *meetings, const struct ps_arrival *arrival,
                                   struct ps_meeting **out, struct ps_error *error)
{
    *out = find(meetings, arrival->name);
    if (*out != NULL)
        return PS_OK;
    if (meetings->count == PS_MEETINGS_MAX && meetings->idle == NULL)
        return ps_fail(error, PS_ERR_BUSY, "barrier: members wait at %d others, and no more may",
                       PS_MEETINGS_MAX);
    /* Where nobody waits, nothing is lost but the answer to a late repeat. */
    if (meetings->count == PS_MEETINGS_MAX)
        forget(meetings, meetings->idle);
    struct ps_meeting *meeting = ps_zeroed(meetings->memory, sizeof *meeting + arrival->name.size);
    if (meeting == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a barrier");
    meeting->name_size = arrival->name.size;
    memcpy(meeting->name, arrival->name.data, arrival->name.size);
    struct ps_meeting **chain = chain_of(meetings, arrival->name);
    PS_ASSERT(meeting->of == 0 && meeting->places == 0);
    meeting->next_in_chain = *chain;
    *chain = meeting;
    DL_APPEND(meetings->idle, meeting);
    meetings->count++;
    *out = meeting;
    return PS_OK;
}

/* Of the round that ended last: a member that has arrived for the next cannot come for the one
 * before. */
static bool is_repeat(const struct ps_meeting *meeting, const struct ps_arrival *arrival)
{
    PS_ASSERT(!meeting->has_ended || meeting->members != NULL);
    return meeting->has_ended && meeting->ended_round == arrival->round &&
           meeting->of == arrival->of && meeting->members[arrival->member].calls == 0 &&
           meeting->members[arrival->member].token == arrival->token;
}

/* Room for the members of a first gathering, or of one with another number of them. Forgetting idle
 * meetings makes room, as it does for names. */
static enum ps_status resize(struct ps_meetings *meetings, struct ps_meeting *meeting, uint32_t of,
                             struct ps_error *error)
{
    PS_ASSERT(meeting->places == 0);
    PS_ASSERT(meetings->members >= meeting->of && of != meeting->of);
    while (meetings->members - meeting->of + of > PS_MEETING_MEMBERS_TOTAL) {
        struct ps_meeting *oldest = meetings->idle == meeting ? meeting->next : meetings->idle;
        if (oldest == NULL)
            return ps_fail(error, PS_ERR_BUSY, "barrier: all together have %d members at most",
                           PS_MEETING_MEMBERS_TOTAL);
        forget(meetings, oldest);
    }
    struct member *members = ps_zeroed_array(meetings->memory, of, sizeof *members);
    if (members == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the members of a barrier");
    /* What members of another number said before means nothing for these. */
    ps_release(meetings->memory, meeting->members);
    meetings->members = meetings->members - meeting->of + of;
    meeting->members = members;
    meeting->of = of;
    meeting->has_ended = false;
    return PS_OK;
}

/* The first member of a gathering says its round and how many they are; the others agree. Calls of
 * the gathering before that have yet to look keep the array of members as it is. */
static enum ps_status gather(struct ps_meetings *meetings, struct ps_meeting *meeting,
                             const struct ps_arrival *arrival, struct ps_error *error)
{
    PS_ASSERT(meeting->arrived <= meeting->places);
    if (meeting->arrived == 0) {
        if (meeting->of != arrival->of && meeting->places > 0)
            return ps_fail(error, PS_ERR_BUSY, "barrier: the round before is just ending");
        if (meeting->of != arrival->of)
            PS_TRY(resize(meetings, meeting, arrival->of, error));
        meeting->round = arrival->round;
        return PS_OK;
    }
    if (meeting->of != arrival->of)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "barrier: others wait for %" PRIu32 " members, this one for %" PRIu32,
                       meeting->of, arrival->of);
    if (meeting->round != arrival->round)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "barrier: others wait in round %" PRIu64 ", this one in %" PRIu64,
                       meeting->round, arrival->round);
    return PS_OK;
}

/* Whoever waits finds a later gathering when it looks. */
static void end_gathering(struct ps_meeting *meeting)
{
    PS_ASSERT(meeting->of > 0 && meeting->arrived == meeting->of);
    for (uint32_t i = 0; i < meeting->of; i++)
        meeting->members[i].calls = 0;
    meeting->arrived = 0;
    meeting->gathering++;
    meeting->has_ended = true;
    meeting->ended_round = meeting->round;
}

/* The numbers of those who are not there, as far as the text has room: an operator begins with the
 * first of them, and a list of thousands would hide the number that matters. */
static void name_missing(const struct ps_meeting *meeting, char *text, size_t size)
{
    PS_ASSERT(meeting->arrived < meeting->of && size > 0);
    size_t used = 0;
    uint32_t named = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < meeting->of && named <= NAMED_MAX; i++) {
        if (meeting->members[i].calls > 0)
            continue;
        int more = named == NAMED_MAX ? snprintf(text + used, size - used, " ...")
                                      : snprintf(text + used, size - used, " %" PRIu32, i);
        used += more > 0 && (size_t)more < size - used ? (size_t)more : 0;
        named++;
    }
}

/* Asked again after each change of its topic, mostly to hear that all are there: the text, for
 * which every member is looked at, is made only for who wants it. */
enum ps_status ps_meetings_look(struct ps_meetings *meetings, const struct ps_meeting_place *place,
                                struct ps_error *error)
{
    char missing[NAMED_MAX * 12];
    /* The place keeps the meeting: it is not forgotten, and its name stays. */
    const struct ps_meeting *meeting = place->meeting;
    PS_ASSERT(meeting != NULL);
    ps_mutex_lock(&meetings->lock);
    PS_ASSERT(meeting->places > 0 && place->gathering <= meeting->gathering);
    enum ps_status status = PS_OK;
    if (place->gathering == meeting->gathering) {
        if (error != NULL)
            name_missing(meeting, missing, sizeof missing);
        status =
            ps_fail(error, PS_ERR_NOT_READY,
                    "barrier %.*s, round %" PRIu64 ": %" PRIu32 " of %" PRIu32
                    " members are there; missing:%s",
                    meeting->name_size < 64 ? (int)meeting->name_size : 64, meeting->name,
                    meeting->round, meeting->arrived, meeting->of, error != NULL ? missing : "");
    }
    ps_mutex_unlock(&meetings->lock);
    return status;
}

/* Of a gathering that is over only the place is given back. The others of a present one go on
 * waiting: they hear from their own deadlines that this member has gone. */
void ps_meetings_leave(struct ps_meetings *meetings, struct ps_meeting_place *place)
{
    struct ps_meeting *meeting = place->meeting;
    if (meeting == NULL)
        return;
    ps_mutex_lock(&meetings->lock);
    PS_ASSERT(meeting->places > 0);
    /* Of one that is over the counts were cleared when it ended. */
    if (place->gathering == meeting->gathering) {
        struct member *member = &meeting->members[place->member];
        PS_ASSERT(member->calls > 0 && meeting->arrived > 0);
        if (--member->calls == 0)
            meeting->arrived--;
    }
    /* Behind those that were left before: the order in which idle meetings are forgotten. */
    if (--meeting->places == 0)
        DL_APPEND(meetings->idle, meeting);
    ps_mutex_unlock(&meetings->lock);
    *place = (struct ps_meeting_place){0};
}

/* An idle meeting: its last round is forgotten with it, so that a late repeat waits. */
static void forget(struct ps_meetings *meetings, struct ps_meeting *meeting)
{
    struct ps_meeting **link =
        chain_of(meetings, (struct ps_bytes){(const uint8_t *)meeting->name, meeting->name_size});
    PS_ASSERT(meeting->places == 0 && meetings->count > 0);
    while (*link != meeting)
        link = &(*link)->next_in_chain;
    *link = meeting->next_in_chain;
    DL_DELETE(meetings->idle, meeting);
    meetings->count--;
    meetings->members -= meeting->of;
    ps_release(meetings->memory, meeting->members);
    ps_release(meetings->memory, meeting);
}

/* Calls that have yet to look at a gathering that is over have places, and are in no member's
 * count. */
static void check_meeting(const struct ps_meeting *meeting)
{
    uint32_t arrived = 0;
    uint32_t calls = 0;
    for (uint32_t i = 0; i < meeting->of; i++) {
        arrived += meeting->members[i].calls > 0 ? 1 : 0;
        calls += meeting->members[i].calls;
    }
    PS_ASSERT(arrived == meeting->arrived && calls <= meeting->places);
    PS_ASSERT(meeting->of == 0 || arrived < meeting->of);
}

/* Every meeting is in one chain, and in the list of idle ones exactly when nobody has a place. */
void ps_meetings_check(struct ps_meetings *meetings)
{
    uint32_t count = 0;
    uint32_t idle = 0;
    uint32_t members = 0;
    const struct ps_meeting *meeting;
    ps_mutex_lock(&meetings->lock);
    for (size_t i = 0; i < PS_MEETING_CHAINS; i++) {
        for (meeting = meetings->chains[i]; meeting != NULL; meeting = meeting->next_in_chain) {
            check_meeting(meeting);
            count++;
            members += meeting->of;
            idle += meeting->places == 0 ? 1 : 0;
        }
    }
    DL_FOREACH(meetings->idle, meeting)
    {
        PS_ASSERT(idle > 0 && meeting->places == 0);
        idle--;
    }
    PS_ASSERT(idle == 0 && count == meetings->count && members == meetings->members);
    PS_ASSERT(count <= PS_MEETINGS_MAX && members <= PS_MEETING_MEMBERS_TOTAL);
    ps_mutex_unlock(&meetings->lock);
}

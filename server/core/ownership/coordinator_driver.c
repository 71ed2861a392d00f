/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's turns: what was answered, told or seen is fed to it, one question to the store
 * per turn (coordinator_effects.c) and everything else at once. The driver decides nothing: it adds
 * the time, keeps what other threads told until the owner's thread looks, and does what the
 * coordinator wants in the order in which it wants it. */
#include "server/core/ownership/coordinator_driver.h"

#include "base/assert.h"
#include "server/core/ownership/coordinator_effects.h"

#include <stdio.h>
#include <string.h>

static bool take_mail(struct ps_coordinator_driver *driver, struct ps_event *event);
static bool take_news(struct ps_coordinator_driver *driver, struct ps_event *event);
static void feed(struct ps_coordinator_driver *driver, const struct ps_event *event);

/* ---- Beginning and end ---- */

/* What can be wrong with the options is refused here, so that the coordinator may assert it. */
enum ps_status ps_coordinator_driver_create(const struct ps_coordinator_driver_options *options,
                                            struct ps_coordinator_driver **out,
                                            struct ps_error *error)
{
    PS_ASSERT(options->registry != NULL && options->service != NULL);
    PS_ASSERT(options->hooks.load != NULL && options->hooks.save != NULL);
    if (strlen(options->address) >= PS_ADDRESS_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the address is longer than %d bytes",
                       PS_ADDRESS_BYTES_MAX - 1);
    if (options->coordinator.ttl_ms < PS_LEASE_TTL_MS_MIN)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a lease lasts %d ms at least",
                       PS_LEASE_TTL_MS_MIN);

    struct ps_coordinator_driver *driver = ps_zeroed(options->memory, sizeof *driver);
    if (driver == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the coordinator");
    ps_coordinator_init(&driver->coordinator, &options->coordinator);
    /* Copied, so that the options may be gone; what the hooks point to may not. */
    driver->hooks = options->hooks;
    driver->shard_count_wish = options->shard_count_wish;
    snprintf(driver->address, sizeof driver->address, "%s", options->address);
    driver->registry = options->registry;
    driver->service = options->service;
    driver->memory = options->memory;
    driver->clock = options->clock;
    driver->log = options->log;
    /* The rank of a queue: told from inside of hooks and listeners, which may hold a lock of their
     * own. */
    ps_mutex_init(&driver->mutex, PS_RANK_QUEUE);
    ps_condition_init(&driver->told);
    *out = driver;
    return PS_OK;
}

/* After the run has ended, or before it began: no hook is called any more, and nobody tells
 * anything. */
void ps_coordinator_driver_destroy(struct ps_coordinator_driver *driver)
{
    if (driver == NULL)
        return;
    ps_condition_fini(&driver->told);
    ps_mutex_fini(&driver->mutex);
    ps_release(driver->memory, driver);
}

/* The last error has words of its own; when it belongs to another status, the table's sentence is
 * better than a wrong reason. */
bool ps_coordinator_driver_ended(const struct ps_coordinator_driver *driver, struct ps_error *why)
{
    PS_ASSERT(driver != NULL);
    enum ps_status outcome = driver->coordinator.outcome;
    if (driver->coordinator.state != PS_COORDINATOR_ENDED)
        return false;
    if (why == NULL)
        return true;
    *why = (struct ps_error){.status = outcome};
    /* The words of the failure that ended the run, if no other was logged since. */
    if (outcome != PS_OK && driver->last_error.status == outcome)
        *why = driver->last_error;
    else if (outcome != PS_OK)
        ps_fail(why, outcome, "%s", ps_status_sentence(outcome));
    return true;
}

/* For probes and checkers, which look and change nothing. */
const struct ps_coordinator *
ps_coordinator_driver_coordinator(const struct ps_coordinator_driver *driver)
{
    PS_ASSERT(driver != NULL);
    return &driver->coordinator;
}

/* ---- Turns ---- */

/* An answer is fed before what was told, since the coordinator takes nothing else for what it
 * asked. A turn ends with the first question that is put: the caller gets the thread back between
 * two of them, and sees whether it is to stop. */
uint64_t ps_coordinator_driver_turn(struct ps_coordinator_driver *driver)
{
    PS_ASSERT(driver->clock != NULL);
    /* A run that has ended has nothing more to do, whatever is told. */
    struct ps_event event = {.type = PS_EVENT_TICK};
    if (driver->coordinator.state == PS_COORDINATOR_ENDED)
        return PS_DEADLINE_NEVER;

    /* The flag goes first: feeding the answer may put the next question. */
    if (driver->answered) {
        driver->answered = false;
        feed(driver, &driver->answer);
    }
    while (!driver->answered && take_mail(driver, &event))
        feed(driver, &event);
    /* Without any event, time itself may have made something due. */
    if (!driver->answered && driver->coordinator.state != PS_COORDINATOR_ENDED)
        feed(driver, &(struct ps_event){.type = PS_EVENT_TICK});
    ps_coordinator_effects_note_proof(driver);
    bool sweeps_on = ps_service_sweep(driver->service);
    /* An answer that is there already is fed at the next turn, and that is now. So is more of what
     * is swept in pieces; what was told meanwhile comes in between. */
    return driver->answered || sweeps_on ? ps_now_ms(driver->clock) : driver->wake_ms;
}

/* Two ways to wait: for the condition, when only other threads can bring news; in the store's
 * watch, when servers that come and go are news as well. The second is interrupted by
 * ps_kv_interrupt, which whoever tells something calls. */
void ps_coordinator_driver_wait(struct ps_coordinator_driver *driver, uint64_t until_ms)
{
    bool told;
    if (driver->coordinator.state == PS_COORDINATOR_ENDED)
        return;
    ps_mutex_lock(&driver->mutex);
    /* Only the flags are looked at under it; every wait of the store happens without. */
    const struct ps_coordinator_mail *mail = &driver->mail;
    /* Asked under the mutex that guards it: what is told after this signals the condition. */
    told = mail->stop || mail->broken || mail->checkpoint_wanted || mail->drained || mail->loaded ||
           mail->saved;
    if (!told && !driver->coordinator.watching) {
        uint64_t timeout_ms = until_ms == PS_DEADLINE_NEVER
                                  ? PS_DEADLINE_NEVER
                                  : ps_time_left_ms(driver->clock, until_ms);
        if (timeout_ms > 0)
            ps_condition_wait(&driver->told, &driver->mutex, timeout_ms);
    }
    ps_mutex_unlock(&driver->mutex);
    /* What was told is fed at once; a wait without a watch is over. */
    if (told || !driver->coordinator.watching)
        return;

    struct ps_error error = {0};
    /* Without the mutex: the watch waits in the network. */
    bool changed = false;
    /* Several changes are one: the spare reads who is there anew. */
    if (ps_kv_watch_wait(driver->registry->kv, until_ms, &changed, &error) == PS_OK)
        driver->members_changed = driver->members_changed || changed;
    else
        driver->watch_broken = true;
}

/* Takes one letter. False when there is none. The order is that of urgency: a broken state before
 * everything, since each other event could lead to a save of it; a wanted checkpoint last. */
static bool take_mail(struct ps_coordinator_driver *driver, struct ps_event *event)
{
    /* Flags rather than a list: told twice is told once, and telling needs no memory. */
    struct ps_coordinator_mail *mail = &driver->mail;
    struct ps_error error = {0};
    bool taken = true;

    /* What take_news finds is written over this. */
    *event = (struct ps_event){.type = PS_EVENT_TICK};
    ps_mutex_lock(&driver->mutex);
    if (mail->broken) {
        mail->broken = false;
        event->type = PS_EVENT_BROKEN;
        /* Kept now, since the coordinator knows the status only. */
        error = driver->last_error = mail->broken_error;
    } else if (mail->stop) {
        mail->stop = false;
        event->type = PS_EVENT_STOP;
    } else if (mail->loaded) {
        mail->loaded = false;
        event->type = PS_EVENT_LOADED;
        error = mail->load_error;
    } else if (mail->saved) {
        mail->saved = false;
        event->type = PS_EVENT_SAVED;
        error = mail->save_error;
    } else if (mail->drained) {
        mail->drained = false;
        event->type = PS_EVENT_DRAINED;
    } else if (mail->checkpoint_wanted) {
        mail->checkpoint_wanted = false;
        event->type = PS_EVENT_CHECKPOINT_WANTED;
    } else {
        taken = false;
    }
    ps_mutex_unlock(&driver->mutex);

    /* What follows needs no lock, and logging under it would hold up whoever tells. */
    event->status = error.status;
    /* Logged by the owner's thread, which alone knows what was logged last. */
    if (event->type == PS_EVENT_LOADED)
        ps_coordinator_effects_note(driver, PS_ACTION_LOAD, &error);
    if (event->type == PS_EVENT_SAVED)
        ps_coordinator_effects_note(driver, PS_ACTION_SAVE, &error);
    return taken || take_news(driver, event);
}

/* What the watch said. A watch that broke is told before a change: the coordinator opens another
 * one and reads anew. */
static bool take_news(struct ps_coordinator_driver *driver, struct ps_event *event)
{
    PS_ASSERT(event->type == PS_EVENT_TICK);
    if (driver->watch_broken) {
        driver->watch_broken = false;
        event->type = PS_EVENT_WATCH_BROKEN;
        return true;
    }
    if (driver->members_changed) {
        driver->members_changed = false;
        event->type = PS_EVENT_MEMBERS_CHANGED;
        return true;
    }
    return false;
}

/* The time is taken here and nowhere else, after the answer came in. Whether anything is new is
 * asked with each event, since pushes tell the coordinator nothing. */
static void feed(struct ps_coordinator_driver *driver, const struct ps_event *event)
{
    struct ps_actions actions;
    /* A copy with the time; the caller's event may be the answer, which the next question
     * overwrites. */
    struct ps_event dated = *event;
    enum ps_coordinator_state before = driver->coordinator.state;

    dated.now_ms = ps_now_ms(driver->clock);
    dated.nothing_new = ps_service_has_nothing_new(driver->service, NULL, NULL);
    ps_coordinator_step(&driver->coordinator, &dated, &actions);
    ps_coordinator_effects_note_state(driver, before);
    driver->wake_ms = actions.wake_ms;
    PS_ASSERT(actions.count <= PS_ACTIONS_MAX);
    for (size_t i = 0; i < actions.count; i++)
        ps_coordinator_effects_run(driver, &actions.list[i]);
}

/* ---- From any thread ---- */

/* Telling never waits for the owner: it sets a flag. */
static void begin_telling(struct ps_coordinator_driver *driver)
{
    PS_ASSERT(driver != NULL);
    ps_mutex_lock(&driver->mutex);
}

/* Both, since the teller does not know in which of the two the owner waits. */
static void end_telling(struct ps_coordinator_driver *driver)
{
    ps_condition_signal_all(&driver->told);
    ps_mutex_unlock(&driver->mutex);
    /* Outside of the mutex, since the store has a lock of its own. */
    ps_kv_interrupt(driver->registry->kv);
}

/* The status counts; the words may be missing. */
static struct ps_error error_of(enum ps_status status, const struct ps_error *why)
{
    PS_ASSERT(status < PS_STATUS_COUNT);
    struct ps_error error = {0};
    if (why != NULL)
        error = *why;
    error.status = status;
    return error;
}

void ps_coordinator_driver_tell_stop(struct ps_coordinator_driver *driver)
{
    begin_telling(driver);
    driver->mail.stop = true;
    end_telling(driver);
}

void ps_coordinator_driver_tell_broken(struct ps_coordinator_driver *driver,
                                       const struct ps_error *why)
{
    PS_ASSERT(why->status != PS_OK);
    begin_telling(driver);
    driver->mail.broken = true;
    driver->mail.broken_error = *why;
    end_telling(driver);
}

void ps_coordinator_driver_tell_loaded(struct ps_coordinator_driver *driver, enum ps_status status,
                                       const struct ps_error *why)
{
    begin_telling(driver);
    /* One load is at work at a time, and tells its end once. */
    PS_ASSERT(!driver->mail.loaded);
    driver->mail.loaded = true;
    driver->mail.load_error = error_of(status, why);
    end_telling(driver);
}

void ps_coordinator_driver_tell_saved(struct ps_coordinator_driver *driver, enum ps_status status,
                                      const struct ps_error *why)
{
    begin_telling(driver);
    PS_ASSERT(!driver->mail.saved);
    driver->mail.saved = true;
    driver->mail.save_error = error_of(status, why);
    end_telling(driver);
}

void ps_coordinator_driver_tell_drained(struct ps_coordinator_driver *driver)
{
    begin_telling(driver);
    driver->mail.drained = true;
    end_telling(driver);
}

void ps_coordinator_driver_tell_checkpoint_wanted(struct ps_coordinator_driver *driver)
{
    begin_telling(driver);
    driver->mail.checkpoint_wanted = true;
    end_telling(driver);
}

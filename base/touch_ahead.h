/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that somebody will write soon, touched by another thread before that: the first touch of a
 * large page clears it, which takes 0.1 ms, and in a virtual machine that has to ask its host for
 * the page some milliseconds. Whoever must not wait says which memory comes next, and goes on.
 *
 *     ps_touch_ahead_want(&ahead, next, bytes);          ... who will write it
 *     while (ps_touch_ahead_turn(&ahead)) {}             ... the other thread, when woken
 *     ps_touch_ahead_forget(&ahead, next, bytes);        ... before it is given back
 *
 * All of it is a wish: what was not touched in time is touched by whoever writes it. What lies in
 * the memory does not change, also where somebody writes it meanwhile.
 *
 * Threads:  any; turn is called by one at a time.
 * Blocking: want and turn for a lock held for moments, turn for the kernel; forget until the turn
 *           that touches that memory is over, some milliseconds at most.
 * Errors:   none.
 * Memory:   in place. What is wanted is borrowed until it was touched, or is forgotten.
 */
#ifndef PS_BASE_TOUCH_AHEAD_H
#define PS_BASE_TOUCH_AHEAD_H

#include "base/thread.h"

#include <stddef.h>
#include <stdint.h>

/* Wishes that wait. One more takes the place of the oldest. */
#define PS_TOUCH_AHEAD_MAX 16

struct ps_touch_wish {
    uint8_t *begin;
    size_t bytes;
};

struct ps_touch_ahead {
    void (*wake)(void *self); /* the thread that calls turn; NULL: it looks by itself */
    void *self;               /* borrowed; outlives this */
    struct ps_mutex mutex;    /* PS_RANK_LEAF; guards what follows */
    struct ps_condition idle;
    struct ps_touch_wish wishes[PS_TOUCH_AHEAD_MAX]; /* the oldest first */
    uint32_t count;
    struct ps_touch_wish touched; /* by the turn at work; of 0 bytes: there is none */
};

void ps_touch_ahead_init(struct ps_touch_ahead *ahead, void (*wake)(void *self), void *self);
void ps_touch_ahead_fini(struct ps_touch_ahead *ahead);

/* Whole pages of the system within these bytes are wanted. `ahead` NULL: nobody touches any. */
void ps_touch_ahead_want(struct ps_touch_ahead *ahead, void *begin, size_t bytes);

/* The memory is given back to the system from here on. `ahead` NULL is allowed. */
void ps_touch_ahead_forget(struct ps_touch_ahead *ahead, void *begin, size_t bytes);

/* Is any of it wanted, and not touched yet? For whoever begins to write it and wants to know
 * whether to ask earlier next time. `ahead` NULL: no. */
bool ps_touch_ahead_is_due(struct ps_touch_ahead *ahead, const void *begin, size_t bytes);

/* Touches a part of the oldest wish. False: there was none. */
bool ps_touch_ahead_turn(struct ps_touch_ahead *ahead);

#endif

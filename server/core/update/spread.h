/* SPDX-License-Identifier: Apache-2.0 */
/* Large work on one parameter, spread over a crew by parts of elements. Who does which part makes
 * no difference to the bits: parts share nothing, and sums over them have a fixed shape.
 *
 *     static void work(void *argument)
 *     {
 *         struct my_work *work = argument;
 *         struct ps_elements part;
 *         while (ps_spread_next(&work->spread, &part))
 *             ... elements part.first to part.first + part.count of the parameter
 *     }
 *     ps_spread_init(&work.spread, spec, elements_of_a_part);
 *     ps_spread_run(spec, work, &work);
 *
 * Threads:  init and run by the thread that has the work; next by all who do it.
 * Blocking: run, until the work is done.
 * Errors:   none.
 * Memory:   in place; everything is borrowed for the call.
 */
#ifndef PS_SERVER_CORE_SPREAD_H
#define PS_SERVER_CORE_SPREAD_H

#include "proto/messages.h"
#include "server/core/values/parameter_spec.h"

/* Below this a second thread finds too little left when it has woken up. */
#define PS_SPREAD_BYTES_MIN ((size_t)4 * 1024 * 1024)

struct ps_spread {
    _Atomic uint64_t next; /* first element that nobody has taken */
    uint64_t count;        /* elements of the parameter */
    uint64_t part;         /* elements of each part but the last */
};

void ps_spread_init(struct ps_spread *spread, const struct ps_parameter_spec *spec, uint64_t part);

/* Takes the next part: one thread is given parts in rising order. False: there is none. */
bool ps_spread_next(struct ps_spread *spread, struct ps_elements *part);

/* Are there others, and is the parameter large enough for them? */
bool ps_spread_pays(const struct ps_parameter_spec *spec);

/* Does the work: by the spec's crew if that pays, else alone. */
void ps_spread_run(const struct ps_parameter_spec *spec, void (*work)(void *argument),
                   void *argument);

#endif

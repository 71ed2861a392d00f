/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to an operator's calls, copied into the structs of the public header. The engine knows
 * nothing of that header: it hands each answer to a taker.
 *
 * Threads:  each taker with the engine, one at a time.
 * Blocking: never.
 * Errors:   none: text that is too long for its field is cut.
 * Memory:   a taker borrows where it writes to until its batch is ended.
 */
#ifndef PS_CLIENT_ANSWERS_H
#define PS_CLIENT_ANSWERS_H

#include "client/engine/engine.h"
#include "client/psclient.h"
#include "proto/fields.h"

/* Rows for the answer to PS_METHOD_LIST. */
struct ps_list_rows {
    struct psclient_param_info *rows;
    size_t row_size; /* as the caller's compiler has it: caller_structs.h */
    size_t count_max;
    size_t count;                    /* filled in */
    bool more;                       /* filled in */
    struct psclient_config *configs; /* one for each row; NULL: they were not asked for */
};

/* The answer to a change of one parameter, or of one range. */
struct ps_changed {
    uint64_t version;
    uint64_t position;
    uint64_t step;
    bool duplicate;
    struct psclient_config *config; /* where to put it; NULL: nowhere */
};

struct ps_answer_taker ps_answer_server(struct psclient_server_status *to);
struct ps_answer_taker ps_answer_list(struct ps_list_rows *to);
struct ps_answer_taker ps_answer_changed(struct ps_changed *to);
struct ps_answer_taker ps_answer_saved(struct psclient_saved *to);
struct ps_answer_taker ps_answer_fields(struct ps_fields *to); /* of a flat message */

#endif

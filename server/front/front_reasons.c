/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the table of reasons: whatever turns a peer away is counted under a kind that all
 * refusals of a server share (base/refusal.h), and says in the same words why. */
#include "server/front/front_reasons.h"

#include "base/assert.h"

/* Without a designated row the text would be NULL: the test of every reason would crash. */
static const struct {
    enum ps_refusal refusal;
    const char *text;
} words[PS_FRONT_REASON_COUNT] = {
#define ROW(name, refusal_, text_) [PS_FRONT_##name] = {PS_REFUSED_##refusal_, text_},
    PS_FRONT_REASON_TABLE(ROW)
#undef ROW
};

/* Several reasons may be one kind for the metrics: what an operator has to turn is the same. */
enum ps_refusal ps_front_reason_refusal(enum ps_front_reason reason)
{
    PS_ASSERT(reason > PS_FRONT_FINE && reason < PS_FRONT_REASON_COUNT);
    return words[reason].refusal;
}

/* Said to peers: names options and bounds, and nothing that a server holds. */
const char *ps_front_reason_text(enum ps_front_reason reason)
{
    PS_ASSERT(reason > PS_FRONT_FINE && reason < PS_FRONT_REASON_COUNT);
    return words[reason].text;
}

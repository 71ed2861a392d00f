/* A thread and not a timer of a lane: files may lie on a disk that stands still, and no call is to
 * wait for that. */
#include "server/access_reload.h"

#include "base/assert.h"

/* Soon enough for who rotates certificates, and five small files a second cost nothing. */
#define LOOK_MS 1000

static uint64_t look(void *self)
{
    struct ps_access_reload *reload = self;
    PS_ASSERT(reload->access != NULL);
    ps_access_look(reload->access);
    return ps_deadline_after(ps_clock_real(), LOOK_MS);
}

enum ps_status ps_access_reload_init(struct ps_access_reload *reload, struct ps_access *access,
                                     struct ps_error *error)
{
    PS_ASSERT(access != NULL);
    reload->access = access;
    if (!ps_access_has_files(access))
        return PS_OK;
    PS_TRY(ps_errand_thread_init(&reload->errand, "access", ps_clock_real(), look, reload, error));
    ps_errand_thread_wake(&reload->errand);
    return PS_OK;
}

void ps_access_reload_fini(struct ps_access_reload *reload)
{
    ps_errand_thread_fini(&reload->errand);
}

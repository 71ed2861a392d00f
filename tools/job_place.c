/* One place, not two and not none. */
#include "tools/job_place.h"

#include <stddef.h>

/* Silently preferring one of the two would train against another job than the one that was meant,
 * above all when one comes from an environment that somebody set long ago. */
enum ps_status ps_job_place_check(const char *etcd, const char *servers, struct ps_error *error)
{
    if (etcd == NULL && servers == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "where are the servers? --etcd URL asks etcd, --servers HOST:PORT,... names "
                       "them (in the environment: PSERVER_ETCD, PSERVER_SERVERS)");
    if (etcd != NULL && servers != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--etcd %.60s and --servers %.60s: give one of them, they may be two jobs "
                       "(PSERVER_ETCD and PSERVER_SERVERS count, too)",
                       etcd, servers);
    return PS_OK;
}

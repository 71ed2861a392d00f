/* SPDX-License-Identifier: Apache-2.0 */
/* One place, not two and not none. */
#include "tools/job_place.h"

/* Silently preferring one of the two would train against another job than the one that was meant,
 * above all when one comes from an environment that somebody set long ago. */
enum ps_status ps_job_place_check(const struct ps_job_place *place, struct ps_error *error)
{
    if (place->etcd == NULL && place->servers == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "where are the servers? --etcd URL asks etcd, --servers HOST:PORT,... names "
                       "them (in the environment: PSERVER_ETCD, PSERVER_SERVERS)");
    if (place->etcd != NULL && place->servers != NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--etcd %.60s and --servers %.60s: give one of them, they may be two jobs "
                       "(PSERVER_ETCD and PSERVER_SERVERS count, too)",
                       place->etcd, place->servers);
    return PS_OK;
}

/* One line for each field, so that a program cannot pass on one of them and forget another. What is
 * NULL here the client may still find in its own environment. */
void ps_job_place_tell(const struct ps_job_place *place, struct psclient_options *client)
{
    client->etcd = place->etcd;
    client->servers = place->servers;
    client->job = place->job;
    /* The client copies all of these, so that options may go before it. */
    client->etcd_user = place->etcd_access.user;
    client->etcd_password = place->etcd_access.password;
    client->etcd_password_file = place->etcd_access.password_file;
    client->etcd_insecure_password = place->etcd_access.insecure_password;
    client->etcd_ca = place->etcd_access.ca;
    client->etcd_cert = place->etcd_access.certificate;
    client->etcd_key = place->etcd_access.key;
    client->tls_ca = place->tls_ca;
    client->tls_cert = place->tls_cert;
    client->tls_key = place->tls_key;
    client->token_file = place->token_file;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The rig as a process of its own, for clients in other languages. It says "port N", then obeys
 * lines of standard input and answers each with "done N", N being the pushes applied so far:
 *
 *     fence      the lease has run out        prove      it is proved again
 *     drain MS   as on SIGTERM, calls in flight have MS milliseconds
 *     save       a checkpoint of what is there is said to be saved
 *     write      the journal's records are said to be on disk
 *     sweep      a turn of the coordinator
 *
 * With the argument "journals" it keeps a journal that nobody writes but that order.
 *
 * The end of its input ends it. */
#include "rig.h"
#include "server/core/recovery/snapshot.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void save(struct rig *rig)
{
    struct ps_snapshot snapshot = {0};
    const struct ps_checkpoint_place place = {.epoch = 7};
    if (ps_snapshot_take(rig->service, &snapshot, NULL) != PS_OK)
        return;
    ps_service_saved(rig->service, snapshot.ticket, &place);
    ps_snapshot_release(&snapshot);
}

static void write_journal(struct rig *rig)
{
    struct ps_record records[16];
    while (ps_service_journal_take(rig->service, records, 16) > 0)
        ps_service_journal_written(rig->service, UINT64_MAX, PS_OK, NULL);
}

static void obey(struct rig *rig, const char *line)
{
    const struct ps_clock *clock = ps_clock_real();
    if (strncmp(line, "fence", 5) == 0)
        ps_service_prove(rig->service, ps_now_ms(clock));
    else if (strncmp(line, "prove", 5) == 0)
        ps_service_prove(rig->service, PS_DEADLINE_NEVER);
    else if (strncmp(line, "save", 4) == 0)
        save(rig);
    else if (strncmp(line, "write", 5) == 0)
        write_journal(rig);
    else if (strncmp(line, "sweep", 5) == 0)
        ps_service_sweep(rig->service);
    else if (strncmp(line, "drain ", 6) == 0) {
        ps_service_drain(rig->service);
        ps_rpc_server_drain(rig->server, ps_deadline_after(clock, strtoull(line + 6, NULL, 10)));
    }
    ps_rpc_server_wake(rig->server, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}

static void print_done(struct rig *rig)
{
    struct ps_status_reply status;
    char uuid[37];
    ps_service_status(rig->service, &status, uuid);
    printf("done %llu\n", (unsigned long long)status.push_count);
}

int main(int argc, char **argv)
{
    bool journals = argc > 1 && strcmp(argv[1], "journals") == 0;
    char line[100];
    struct rig rig;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    rig_start(&rig,
              &(struct rig_options){.lane_count = 2, .saves = journals, .journals = journals});
    printf("port %u\n", ps_rpc_server_port(rig.server));
    while (fgets(line, sizeof line, stdin) != NULL) {
        obey(&rig, line);
        print_done(&rig);
    }
    rig_stop(&rig);
    return EXIT_SUCCESS;
}

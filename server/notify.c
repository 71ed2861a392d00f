/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of "NAME=value" lines to the socket that the service manager names (sd_notify(3)).
 * Written by hand, since it is a hundred lines and the library would be the only reason to link
 * systemd's. */
#include "server/notify.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/utf8.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_BYTES_MAX 255

static enum ps_status set_address(struct ps_notify *notify, const char *socket,
                                  struct ps_error *error);
static uint64_t watchdog_interval_ms(const char *watchdog_us, const char *watchdog_pid);
static bool send_text(const struct ps_notify *notify, const char *text);

/* Without a manager every message is sent to nobody, and that is success. */
enum ps_status ps_notify_init(struct ps_notify *notify, const char *socket_name,
                              const char *watchdog_us, const char *watchdog_pid,
                              struct ps_error *error)
{
    PS_ASSERT(notify != NULL);
    *notify = (struct ps_notify){.descriptor = -1};
    if (socket_name == NULL || socket_name[0] == '\0')
        return PS_OK;
    PS_TRY(set_address(notify, socket_name, error));
    /* Not connected: a manager that was started anew binds the same name again. */
    notify->descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->descriptor < 0)
        return ps_fail(error, PS_ERR_IO, "socket for NOTIFY_SOCKET: %s", strerror(errno));
    notify->watchdog_ms = watchdog_interval_ms(watchdog_us, watchdog_pid);
    return PS_OK;
}

/* A name that begins with @ is in the kernel's abstract space: its first byte is NUL and it has no
 * end but its length. */
static enum ps_status set_address(struct ps_notify *notify, const char *socket_name,
                                  struct ps_error *error)
{
    PS_ASSERT(notify->descriptor < 0);
    struct sockaddr_un *address = &notify->address;
    size_t size = strlen(socket_name);
    if ((socket_name[0] != '/' && socket_name[0] != '@') || size < 2)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "NOTIFY_SOCKET=%.100s is neither a path nor an @name", socket_name);
    if (size >= sizeof address->sun_path)
        return ps_fail(error, PS_ERR_BAD_INPUT, "NOTIFY_SOCKET=%.100s... is too long", socket_name);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, socket_name, size + 1);
    bool is_abstract = socket_name[0] == '@';
    if (is_abstract)
        address->sun_path[0] = '\0';
    /* An abstract name is as long as the address says; a path ends with its NUL. */
    size_t used = offsetof(struct sockaddr_un, sun_path) + size + (is_abstract ? 0 : 1);
    notify->address_size = (socklen_t)used;
    return PS_OK;
}

/* The manager's limit, halved, as its manual advises. WATCHDOG_PID names another process when the
 * variable was inherited by a child that nobody watches. */
static uint64_t watchdog_interval_ms(const char *watchdog_us, const char *watchdog_pid)
{
    if (watchdog_us == NULL)
        return 0;
    /* The variable is for the process that the manager started. */
    if (watchdog_pid != NULL && strtoll(watchdog_pid, NULL, 10) != getpid())
        return 0;
    char *end = NULL;
    uint64_t limit_us = strtoull(watchdog_us, &end, 10);
    if (*end != '\0' || limit_us == 0)
        return 0;
    /* From microseconds to milliseconds, and half of that. The result is never 0, which would mean
     * that no sign of life is wanted. */
    return limit_us >= 2000 ? limit_us / 2000 : 1;
}

void ps_notify_fini(struct ps_notify *notify)
{
    if (notify == NULL)
        return;
    if (notify->descriptor >= 0)
        (void)close(notify->descriptor);
    notify->descriptor = -1;
}

bool ps_notify_ready(const struct ps_notify *notify)
{
    return send_text(notify, "READY=1");
}

bool ps_notify_stopping(const struct ps_notify *notify)
{
    return send_text(notify, "STOPPING=1");
}

bool ps_notify_watchdog(const struct ps_notify *notify)
{
    return send_text(notify, "WATCHDOG=1");
}

/* One line, cut between characters: the manager shows it as it is. */
bool ps_notify_status(const struct ps_notify *notify, const char *text)
{
    PS_ASSERT(text != NULL);
    char message[sizeof "STATUS=" + STATUS_BYTES_MAX];
    size_t size = ps_utf8_cut(ps_bytes_of_text(text), STATUS_BYTES_MAX);
    (void)snprintf(message, sizeof message, "STATUS=%.*s", (int)size, text);
    for (char *letter = message; *letter != '\0'; letter++)
        *letter = *letter == '\n' ? ' ' : *letter;
    return send_text(notify, message);
}

/* Never waits: a manager that does not read must not stop the coordinator's thread, which keeps the
 * lease. False only for what may be sent later; a socket that is gone is not a reason to try again.
 * */
static bool send_text(const struct ps_notify *notify, const char *text)
{
    PS_ASSERT(notify != NULL);
    if (notify->descriptor < 0)
        return true;
    ssize_t sent = sendto(notify->descriptor, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *)&notify->address, notify->address_size);
    /* A full queue empties; every other error stays what it is, and nothing is gained by sending
     * again. */
    return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

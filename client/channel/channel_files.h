/* SPDX-License-Identifier: Apache-2.0 */
/* The files by which a client shows who it is and knows who a server is, read when a connection is
 * made, and looked at again while it lives.
 *
 * Threads:  any; a reading belongs to one thread at a time.
 * Blocking: for the disk.
 * Errors:   PS_ERR_BAD_INPUT with the file's name and what is wrong with it, PS_ERR_NO_MEMORY.
 * Memory:   a reading owns its texts.
 */
#ifndef PS_CLIENT_CHANNEL_FILES_H
#define PS_CLIENT_CHANNEL_FILES_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <sys/stat.h>

/* What there may be. The first three are PEM. */
enum ps_channel_file { PS_FILE_CA, PS_FILE_CERTIFICATE, PS_FILE_KEY, PS_FILE_TOKEN, PS_FILE_KINDS };

/* Paths, borrowed; NULL: none. Without a CA there is no TLS. */
struct ps_channel_files {
    const char *paths[PS_FILE_KINDS];
    const char *server_name; /* in the place of the host in servers' certificates; NULL: the host */
};

/* By these a file is known to be another one than before. */
struct ps_file_stamp {
    ino_t inode;
    off_t size;
    struct timespec modified;
};

struct ps_channel_stamps {
    struct ps_file_stamp stamps[PS_FILE_KINDS];
};

struct ps_channel_secrets {
    char *texts[PS_FILE_KINDS]; /* owned; NULL: none */
};

/* Copies of all texts, in `*copy`, which on any result is ended with ps_channel_files_release. */
PS_MUST_USE enum ps_status ps_channel_files_copy(const struct ps_channel_files *files,
                                                 const struct ps_allocator *memory,
                                                 struct ps_channel_files *copy,
                                                 struct ps_error *error);
/* Takes what a copy has made. */
void ps_channel_files_release(struct ps_channel_files *copy, const struct ps_allocator *memory);

/* What does not depend on the files' content. */
PS_MUST_USE enum ps_status ps_channel_files_check(const struct ps_channel_files *files,
                                                  struct ps_error *error);

/* Reads them all. End `secrets` with ps_channel_secrets_release on any result. */
PS_MUST_USE enum ps_status ps_channel_files_read(const struct ps_channel_files *files,
                                                 const struct ps_allocator *memory,
                                                 struct ps_channel_secrets *secrets,
                                                 struct ps_error *error);
/* Wipes them. Accepts a zeroed struct. */
void ps_channel_secrets_release(struct ps_channel_secrets *secrets,
                                const struct ps_allocator *memory);

/* How the files are now. A file that is missing has a stamp of zeros. */
void ps_channel_files_look(const struct ps_channel_files *files, struct ps_channel_stamps *stamps);
bool ps_channel_stamps_equal(const struct ps_channel_stamps *a, const struct ps_channel_stamps *b);

/* Is the address one of this host, so that nobody sees what goes there in the clear? */
bool ps_address_is_local(const char *address);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memory files (memfd_create(2), fcntl(2) F_ADD_SEALS).
 *
 * Memory that another process can resize is a trap: a page that is cut off under a reader raises
 * SIGBUS there. A memfd with its size sealed cannot be resized by anybody, so each side maps it
 * once and relies on all of it. A file in /dev/shm offers no such promise and stays behind when its
 * maker is killed. */
#include "base/shared_segment.h"

#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE_BYTES 4096

/* The size can neither shrink nor grow. Writing is not sealed: both processes write. */
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static enum ps_status make_sealed(int descriptor, size_t size, struct ps_error *error);
static enum ps_status check(int descriptor, uint64_t size, struct ps_error *error);
static enum ps_status map(int descriptor, size_t size, struct ps_shared_segment *segment,
                          struct ps_error *error);

enum ps_status ps_shared_segment_create(size_t size, struct ps_shared_segment *segment,
                                        int *descriptor, struct ps_error *error)
{
    PS_ASSERT(size > 0 && size % PAGE_BYTES == 0);
    /* The name is for /proc only; two segments of the same name are two files. */
    int made = memfd_create("pserver", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return ps_fail(error, errno == ENOSYS ? PS_ERR_UNSUPPORTED : PS_ERR_NO_MEMORY,
                       "shared memory: %s", strerror(errno));
    enum ps_status status = make_sealed(made, size, error);
    if (status == PS_OK)
        status = map(made, size, segment, error);
    /* The mapping is the last step, so there is never one to undo. */
    if (status != PS_OK) {
        (void)close(made);
        return status;
    }
    *descriptor = made;
    return PS_OK;
}

/* F_SEAL_SEAL as well: nobody may add a seal later, such as one against writing. ftruncate takes no
 * memory yet; pages come at the first touch. */
static enum ps_status make_sealed(int descriptor, size_t size, struct ps_error *error)
{
    if (ftruncate(descriptor, (off_t)size) == 0 &&
        fcntl(descriptor, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) == 0)
        return PS_OK;
    return ps_fail(error, PS_ERR_NO_MEMORY, "shared memory of %zu bytes: %s", size,
                   strerror(errno));
}

enum ps_status ps_shared_segment_open(int descriptor, uint64_t size,
                                      struct ps_shared_segment *segment, struct ps_error *error)
{
    PS_TRY(check(descriptor, size, error));
    return map(descriptor, (size_t)size, segment, error);
}

/* Judges a descriptor from another process. The seals come first: only then does the size, which is
 * read after them, stay what it is. Memory of large pages (hugetlbfs) is refused, because its pages
 * may be missing when they are touched, which is a bus error too. The size must be the one that the
 * message stated: offsets into the segment are checked against it later. */
static enum ps_status check(int descriptor, uint64_t size, struct ps_error *error)
{
    struct statfs system;
    struct stat facts;
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || fstatfs(descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "shared memory: the descriptor is of something "
                       "else");
    if ((seals & SIZE_SEALS) != SIZE_SEALS)
        return ps_fail(error, PS_ERR_BAD_INPUT, "shared memory: its size is not sealed");
    if (fstat(descriptor, &facts) != 0 || size == 0 || size > SIZE_MAX / 2 ||
        (uint64_t)facts.st_size != size)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "shared memory: it has another size than the %llu bytes that were said",
                       (unsigned long long)size);
    return PS_OK;
}

/* The mapping outlives the descriptor, which both sides close at once, so that a server with many
 * clients does not hold one descriptor for each. */
static enum ps_status map(int descriptor, size_t size, struct ps_shared_segment *segment,
                          struct ps_error *error)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED)
        return ps_fail(error, errno == ENOMEM ? PS_ERR_NO_MEMORY : PS_ERR_BAD_INPUT,
                       "shared memory of %zu bytes: %s", size, strerror(errno));
    *segment = (struct ps_shared_segment){.bytes = bytes, .size = size};
    return PS_OK;
}

/* The pages themselves live until the other process has ended its mapping, too. */
void ps_shared_segment_close(struct ps_shared_segment *segment)
{
    if (segment->bytes != NULL)
        (void)munmap(segment->bytes, segment->size);
    *segment = (struct ps_shared_segment){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One checkpoint file: the state of one shard at one instant, readable as safetensors by every
 * framework. docs/checkpoint-format.md is the format's description.
 *
 * Values stand under their parameter's name; each optimizer state array stands beside them as
 * "ps.state/<k>/<name>", and the keys and the clock of a table as "ps.keys/<name>" and
 * "ps.clock/<name>" (names with these prefixes, and with "ps.removed/", are refused at InitParam).
 * Everything else is in the header's __metadata__: format version, shard index and count, epoch,
 * position, job, time, and per parameter its configuration, version, step and the checksum of every
 * array.
 *
 * Threads:  pure but for the file system. Several may read arrays of one reader at once, where the
 *           files and the allocator allow it (the real ones do).
 * Blocking: file calls wait for the disk.
 * Errors:   PS_ERR_CORRUPT names what fails its checksum ("checkpoint file checksum validation
 *           failed: ..."), PS_ERR_IO what the disk refused, PS_ERR_NOT_FOUND no such file.
 * Memory:   said at each function.
 */
#ifndef PS_CHECKPOINT_CHECKPOINT_H
#define PS_CHECKPOINT_CHECKPOINT_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/shape.h"
#include "base/status.h"
#include "base/write_behind.h"
#include "checkpoint/history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a checkpoint keeps besides parameters and sessions: the state of rounds, of clocks and of
 * keys that have no row yet, as records of the journal (journal_held.h, journal_round.h;
 * journal_clocks.h; journal_candidates.h) that build it again when they are applied to the
 * parameters of the file. A section that has no records is not in the
 * file; with one, the file is of a format that older programs refuse by name. */
enum ps_checkpoint_section {
    PS_CHECKPOINT_ROUNDS,     /* tensor "ps.rounds", of types HELD and ROUND */
    PS_CHECKPOINT_CLOCKS,     /* tensor "ps.clocks", of types CLOCKS and CLOCK */
    PS_CHECKPOINT_CANDIDATES, /* tensor "ps.candidates", of type CANDIDATES */
    PS_CHECKPOINT_SECTION_COUNT
};

struct ps_record;

/* The records of a section as they go into the file. */
struct ps_checkpoint_records {
    size_t count;
    /* Sets `*record` to record `i`, borrowed until the next call. Asked for all of them in order,
     * twice, and gives the same each time. Has no client; position and epoch are the writer's. */
    void (*give)(void *self, size_t i, struct ps_record *record);
    void *self;
};

/* What a checkpoint says about itself. Texts are borrowed by the writer; a reader's belong to the
 * reader. */
struct ps_checkpoint_facts {
    char uuid[37];
    uint32_t index; /* of the shard */
    uint32_t shard_count;
    uint64_t placement;        /* of the job: docs/placement.md; 0: not said */
    uint64_t epoch;            /* fencing token of the server that wrote it */
    uint64_t position;         /* pushes applied in the life of the shard, all included here */
    uint64_t unix_ns;          /* when the instant was taken */
    struct ps_history history; /* of the shard; not known of files of older programs */
    const char *job;           /* "" for none */
    const char *set;  /* of the whole model, that it was written for; "" or NULL for none */
    const char *base; /* uuid of the whole checkpoint that this one adds to; "" or NULL: this
                                 one is whole */
    struct ps_bytes sessions; /* what server/core remembers of its clients' requests, opaque here;
                                 kept as the tensor "ps.sessions" of type U8. Empty: none */
    /* For the writer; of a reader they are empty, and are read with ps_checkpoint_next_record. */
    struct ps_checkpoint_records sections[PS_CHECKPOINT_SECTION_COUNT];
};

/* Where arrays are read that do not lie in the host's memory. */
struct ps_checkpoint_source {
    /* Copies bytes of an array (0: the values, then the states, then of a table its keys and its
     * clock). Asked for each once, from its beginning to its end.
     *
     * Of a table of some megabytes it is asked for some rows of each array, in the order of the
     * arrays, then for the rows behind them; but where the values have 8-byte elements for the
     * clock last, by itself. Of a smaller one it is asked for one array after another, those of
     * 8-byte elements first: keys, for instance, before values of 4-byte elements. */
    enum ps_status (*read)(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                           struct ps_error *error);
    void *self;
};

/* Arrays of one parameter at most: the values (0), the states (1 and on), and behind the states of
 * a table its keys (U64, one for a row) and its clock (U32: the low bits of the version at which
 * the row was pushed last), rows in one order in all of them. Where a function counts states from
 * -1, the values, keys and clock are behind the last state: state_count and state_count + 1. */
#define PS_CHECKPOINT_ARRAYS_MAX (1 + PS_STATES_MAX + 2)

/* What a file has of a parameter. In a whole checkpoint all of each; in one with a base what became
 * of the base since. */
enum ps_checkpoint_carry {
    PS_CARRY_WHOLE,   /* all of it; the base may have no such parameter, or another of its name */
    PS_CARRY_AS_BASE, /* none of its arrays: they are the base's, to the bit */
    PS_CARRY_ROWS     /* of a table: the rows that were pushed to since, and keys that went */
};

/* Most bytes of what is said of the ages of a table's rows. */
#define PS_CHECKPOINT_AGES_MAX 1600u

/* One parameter as it goes into the file. Everything is borrowed for the call. */
struct ps_checkpoint_parameter {
    struct ps_bytes name;
    enum ps_dtype dtype;
    uint64_t count;          /* elements */
    struct ps_shape shape;   /* of a range of a cut parameter: of the whole */
    struct ps_bytes config;  /* serialized OptimizerConfig */
    struct ps_bytes defined; /* the one that the parameter came with; as `config`, if it is that */
    struct ps_bytes ages;    /* of a table whose rows expire: how old they were at the instant, as a
                                * text that is opaque here; up to PS_CHECKPOINT_AGES_MAX. Empty: not
                                * said */
    uint64_t birth;          /* position of its definition; 0: of InitParam, or not known */
    uint64_t version;        /* pushes applied */
    uint64_t step;           /* t of the optimizer; differs from version when a push
                                              was skipped */
    uint64_t id;             /* of the parameter in its shard (random counter) */
    uint32_t state_count;
    bool is_table;                    /* of `rows` rows of `width` elements, and of `count`
                                       * elements in all, which may be none. A table has no shape */
    bool state_is_one[PS_STATES_MAX]; /* of a table: the state has one element for a row; false
                                       * where the width is 1, since no file says it there */
    uint32_t width;
    uint64_t rows;
    struct ps_view values;
    struct ps_view states[PS_STATES_MAX];
    struct ps_view keys; /* of a table, as its clock */
    struct ps_view clock;
    enum ps_checkpoint_carry carry; /* for the writer; a reader gives the whole of each parameter,
                                     * and says here what its own file had of it */
    struct ps_view removed;         /* PS_CARRY_ROWS: keys (U64) of rows of the base that went; one
                                     * that came again stands among the keys as well */
    struct ps_checkpoint_source source; /* for the writer, in the place of the views; read is NULL
                                           where they are used */
};

/* Was there a journal behind a checkpoint? The pointer says so, to whom the files are lost. */
enum ps_checkpoint_journal {
    PS_CHECKPOINT_JOURNAL_UNSAID,
    PS_CHECKPOINT_JOURNAL_NONE,
    PS_CHECKPOINT_JOURNAL_KEPT
};

/* Where a finished checkpoint is. */
struct ps_checkpoint_place {
    char uuid[37];
    char path[1024];
    uint32_t crc32; /* IEEE CRC-32 of the whole file, as the old system's metadata has it */
    uint64_t bytes;
    uint64_t position;
    uint64_t epoch;
    uint64_t unix_ns;
    struct ps_history history;          /* of the shard; not known: nobody has said it */
    enum ps_checkpoint_journal journal; /* of its epoch; as the pointer says */
    uint64_t reached; /* position that was given up when an operator published it; else 0 */
};

/* Writes a checkpoint into `folder` (made when missing): temporary file, write, fsync, rename,
 * fsync of the folder. The name is "<epoch>-<position>-<uuid>.safetensors", both numbers in 16
 * hexadecimal digits, so that names sort by age; with "-on-<uuid of the base>" behind the uuid when
 * the facts name one. Whether the base is there, and has what the parameters leave to it, the
 * caller knows: it is not looked at.
 *
 * files, folder, facts, parameters, memory   borrowed
 *
 * PS_OK               `*place` says where; the file is durable
 * PS_ERR_BAD_INPUT    a name that a file cannot hold ("", "__metadata__", "ps.state/...",
 *                     "ps.keys/...", "ps.clock/...", "ps.removed/...", "ps.sessions",
 *                     "ps.rounds", "ps.clocks", "ps.candidates", no UTF-8, a NUL in it, too
 *                     long), a configuration beyond PS_CONFIG_BYTES_MAX, a path beyond the bounds
 *                     of `place`; the disk was not touched
 * otherwise           what the disk or a source gave: no file of that name exists; when even
 *                     removing failed, a temporary file may be left, or after a failed sync of the
 *                     folder the whole file (ps_catalog_sweep collects either)
 *
 * The same name twice, a view whose size is not count times the element's, or a parameter that is
 * not whole where the facts name no base, aborts. Of PS_CARRY_AS_BASE nothing is read: `count`,
 * shape, rows, views and source do not matter, and no watcher is told. The writer
 * needs about 9 MiB, 60 bytes per parameter, for each table of more than 4 MiB that a source gives
 * 10 KiB, and the header twice. Arrays are read once, in the order of the file but for the rows of
 * such tables, which are read once for all arrays; they are written past the system's cache where
 * that can be.
 */
PS_MUST_USE enum ps_status ps_checkpoint_write(
    const struct ps_files *files, const char *folder, const struct ps_checkpoint_facts *facts,
    const struct ps_checkpoint_parameter *parameters, size_t parameter_count,
    const struct ps_allocator *memory, struct ps_checkpoint_place *place, struct ps_error *error);

/* Told how far the writer is, so that what it has read need not be held any longer. */
struct ps_checkpoint_watcher {
    /* The first `bytes` of an array (0: the values, then the states) of parameters[parameter] will
     * not be read again; at the end of the array they are all. Every other thing of that parameter
     * is needed until the call returns. */
    void (*written)(void *self, size_t parameter, uint32_t array, uint64_t bytes);
    void *self;
};

/* How a server writes one. Zeroed: as ps_checkpoint_write does. */
struct ps_checkpoint_setup {
    const struct ps_checkpoint_watcher *watcher; /* borrowed; NULL: nobody is told */
    struct ps_write_behind *behind; /* borrowed; NULL: the caller writes while nothing is copied */
    bool over_spare; /* over a spare of the epoch, where there is one (checkpoint_spare.h) and the
                      * file is whole. For the epoch's owner only */
};

PS_MUST_USE enum ps_status
ps_checkpoint_write_as(const struct ps_files *files, const char *folder,
                       const struct ps_checkpoint_facts *facts,
                       const struct ps_checkpoint_parameter *parameters, size_t parameter_count,
                       const struct ps_checkpoint_setup *setup, const struct ps_allocator *memory,
                       struct ps_checkpoint_place *place, struct ps_error *error);

/* A checkpoint file opened for reading: its header has been read and verified. */
struct ps_checkpoint_reader;

/* Opens `path` and verifies the header. Returns the reader in `*reader`; close it with
 * ps_checkpoint_close().
 *
 * Of a file that adds to another, that other one, its base, is opened as well, by its uuid in the
 * folder of `path`, and the reader is one of both: it gives the parameters of the file, each whole,
 * wherever its bytes are. Rows of a table that are in the base come first, in the base's order.
 * Which they are is found here, so that the keys of such a table are read and verified in both
 * files; until the reader is closed it keeps about a bit for each of the base's rows.
 *
 * PS_ERR_CORRUPT      also: the base is not in the folder, or is damaged, or is of another shard or
 *                     job, or has not what the file relies on. The text says that it is the base
 */
PS_MUST_USE enum ps_status ps_checkpoint_open(const struct ps_files *files, const char *path,
                                              const struct ps_allocator *memory,
                                              struct ps_checkpoint_reader **reader,
                                              struct ps_error *error);

/* The same for a file whose arrays may be damaged, and are to be saved one by one: when ps.sessions
 * is not whole, the facts have none and `*sessions_are_whole` is false. The header must be. Of a
 * file that adds to another, parameters that need a base which is not there, or is damaged so that
 * they cannot be merged, are left out. */
PS_MUST_USE enum ps_status
ps_checkpoint_open_damaged(const struct ps_files *files, const char *path,
                           const struct ps_allocator *memory, struct ps_checkpoint_reader **reader,
                           bool *sessions_are_whole, struct ps_error *error);

void ps_checkpoint_close(struct ps_checkpoint_reader *reader);

const struct ps_checkpoint_facts *
ps_checkpoint_reader_facts(const struct ps_checkpoint_reader *reader);

size_t ps_checkpoint_parameter_count(const struct ps_checkpoint_reader *reader);

/* Parameter `i` without its arrays: the views are empty. Parameters stand in the order of the
 * file, not in the one they were given to the writer. Borrowed from the reader. */
const struct ps_checkpoint_parameter *
ps_checkpoint_parameter(const struct ps_checkpoint_reader *reader, size_t i);

/* What the file itself has of parameter `i`: the same of a whole checkpoint and of PS_CARRY_WHOLE;
 * nothing but metadata of PS_CARRY_AS_BASE; of PS_CARRY_ROWS its own rows, and in the size of
 * `removed` how many keys went (eight bytes each). Borrowed from the reader. */
const struct ps_checkpoint_parameter *
ps_checkpoint_parameter_own(const struct ps_checkpoint_reader *reader, size_t i);

/* The parameters that the file names, in its order: those of above, and where a base is not there
 * or is damaged (ps_checkpoint_open_damaged) the ones that need it as well, of which only what the
 * file itself says is known. So whoever saves what is left knows what there was. Borrowed from the
 * reader. */
size_t ps_checkpoint_named_count(const struct ps_checkpoint_reader *reader);
const struct ps_checkpoint_parameter *ps_checkpoint_named(const struct ps_checkpoint_reader *reader,
                                                          size_t i);

/* Reads array `state` of parameter `i` (-1: the values; of a table also its keys and its clock)
 * piece by piece into `pieces` (writable buffers that together hold exactly the array: anything
 * else aborts) and verifies its checksum.
 *
 * PS_ERR_CORRUPT      the bytes do not match; the buffers hold garbage
 */
struct ps_checkpoint_piece {
    void *data;
    size_t size;
};
PS_MUST_USE enum ps_status ps_checkpoint_read_array(struct ps_checkpoint_reader *reader, size_t i,
                                                    int32_t state,
                                                    const struct ps_checkpoint_piece *pieces,
                                                    size_t piece_count, struct ps_error *error);

/* The same for a part of the array, from `offset` on: nothing is verified, `*crc32c` becomes the
 * part's checksum. A part that goes beyond the array aborts. */
PS_MUST_USE enum ps_status ps_checkpoint_read_part(struct ps_checkpoint_reader *reader, size_t i,
                                                   int32_t state, uint64_t offset,
                                                   const struct ps_checkpoint_piece *pieces,
                                                   size_t piece_count, uint32_t *crc32c,
                                                   struct ps_error *error);

/* Nobody needs `bytes` of the array from `offset` on any more: the system may let go of its copy.
 * For who reads a checkpoint once, into as much memory as the file is large. */
void ps_checkpoint_forget_part(const struct ps_checkpoint_reader *reader, size_t i, int32_t state,
                               uint64_t offset, uint64_t bytes);

/* Is `crc32c`, joined from those of all parts, the checksum of the array? PS_ERR_CORRUPT. Of a
 * table whose rows are in two files no file has that sum: it is made of what was read, when each
 * part was read once and the sums that the two files have are right. Otherwise this reads the array
 * in both once more. */
PS_MUST_USE enum ps_status ps_checkpoint_check_array(const struct ps_checkpoint_reader *reader,
                                                     size_t i, int32_t state, uint32_t crc32c,
                                                     struct ps_error *error);

/* Bytes of a section; 0: the file has none of it. */
uint64_t ps_checkpoint_section_bytes(const struct ps_checkpoint_reader *reader,
                                     enum ps_checkpoint_section section);

/* Where a walk through the records of a section is. Zeroed: at its beginning. */
struct ps_checkpoint_walk {
    uint64_t offset;
    uint32_t crc32c;
};

struct ps_journal_row;

/* Reads the next record of a section, verified, into `*row`; release it with
 * ps_journal_row_release(). Its position and epoch are those of the checkpoint. Behind the last
 * `*more` is false, `*row` not set, and the checksum of the whole section was right. Who has
 * applied records before then relies on each one's own.
 *
 * PS_ERR_CORRUPT      damage, or a record that does not belong there
 * PS_ERR_UNSUPPORTED  a record that a later version has written
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_checkpoint_next_record(struct ps_checkpoint_reader *reader,
                                                     enum ps_checkpoint_section section,
                                                     struct ps_checkpoint_walk *walk,
                                                     struct ps_journal_row *row, bool *more,
                                                     struct ps_error *error);

/* Verifies the whole file: header, every array, sessions and sections, and then the same of its
 * base, with memory of a few MiB at most, and of the base's rows about a bit each. */
PS_MUST_USE enum ps_status ps_checkpoint_verify(const struct ps_files *files, const char *path,
                                                const struct ps_allocator *memory,
                                                struct ps_error *error);

#endif

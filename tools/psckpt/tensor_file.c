/* SPDX-License-Identifier: Apache-2.0 */
/* Head, then the arrays straight from where they lie; a temporary name until all is synced. A file
 * comes into being under a temporary name and gets its own name only when all bytes are on the
 * disk: a crash leaves no half of a model for somebody to load. safetensors is what most libraries
 * read; npy is for numpy alone, one array to a file. */
#include "tools/psckpt/tensor_file.h"

#include "checkpoint/array_layout.h"
#include "checkpoint/header_format.h"
#include "tools/json_document.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* File systems allow 255 bytes; the ending, the temporary ending and the digits of the hash need
 * some. */
#define NAME_CHARACTERS_MAX 200

static enum ps_status write_whole(const struct tensor_target *target, const char *name,
                                  const struct ps_buffer *head,
                                  const struct ps_checkpoint_parameter *const *rows, size_t count,
                                  struct ps_error *error);
static enum ps_status write_content(const struct tensor_target *target, struct ps_file file,
                                    const struct ps_buffer *head,
                                    const struct ps_checkpoint_parameter *const *rows, size_t count,
                                    struct ps_error *error);
static void write_head(struct ps_buffer *head, const struct ps_checkpoint_parameter *const *rows,
                       size_t count);
static int compare_rows(const void *a, const void *b);

/* The order of arrays is that of checkpoints, elements of 8 bytes before those of 4 and then by
 * name: so each array is aligned without gaps, and two exports of one state are equal files. Rows
 * are sorted by pointers, since the state that owns them is not to be changed. */
enum ps_status tensor_file_safetensors(const struct tensor_target *target, const char *name,
                                       const struct ps_checkpoint_parameter *rows, size_t count,
                                       struct ps_error *error)
{
    const struct ps_checkpoint_parameter **sorted =
        ps_zeroed_array(target->box->memory, count, sizeof *sorted);
    if (sorted == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to sort %zu parameters", count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &rows[i];
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, compare_rows);
    struct ps_buffer head;
    ps_buffer_init(&head, target->box->memory, PS_HEADER_BYTES_MAX);
    write_head(&head, sorted, count);
    enum ps_status status = ps_buffer_status(&head, error);
    if (status == PS_OK)
        status = write_whole(target, name, &head, sorted, count, error);
    ps_buffer_fini(&head);
    ps_release(target->box->memory, sorted);
    return status;
}

/* The order is that of checkpoint headers, asked of the same function. */
static int compare_rows(const void *a, const void *b)
{
    const struct ps_checkpoint_parameter *left = *(const struct ps_checkpoint_parameter *const *)a;
    const struct ps_checkpoint_parameter *right = *(const struct ps_checkpoint_parameter *const *)b;
    return ps_header_order(left->dtype, left->name, right->dtype, right->name);
}

/* The length comes first and is known last. The header's length comes first and is known last:
 * eight bytes are kept free and filled in at the end. Spaces pad the header to the alignment of the
 * arrays, as the format allows, so that a reader may map the file and use the values in place. */
static void write_head(struct ps_buffer *head, const struct ps_checkpoint_parameter *const *rows,
                       size_t count)
{
    struct ps_json_writer json;
    uint64_t offset = 0;
    ps_buffer_append(head, (struct ps_bytes){(const uint8_t *)"\0\0\0\0\0\0\0", 8});
    ps_json_writer_init(&json, head);
    ps_json_begin_object(&json, NULL);
    ps_json_begin_object(&json, "__metadata__");
    /* Loaders of PyTorch look for this member and warn without it. */
    json_text(&json, "format", "pt");
    ps_json_end_object(&json);
    for (size_t i = 0; i < count; i++) {
        /* A table's keys have a name of their own, longer than the table's. */
        char name[PS_ARRAY_NAME_BYTES];
        memcpy(name, rows[i]->name.data, rows[i]->name.size);
        name[rows[i]->name.size] = '\0';
        ps_json_begin_object(&json, name);
        json_text(&json, "dtype", ps_dtype_label(rows[i]->dtype));
        struct ps_shape shape = ps_shape_of_tensor(&rows[i]->shape, rows[i]->count);
        ps_shape_json(&shape, rows[i]->count, &json, "shape");
        ps_json_begin_array(&json, "data_offsets");
        ps_json_uint(&json, NULL, offset);
        offset += rows[i]->values.size;
        ps_json_uint(&json, NULL, offset);
        ps_json_end_array(&json);
        ps_json_end_object(&json);
    }
    ps_json_end_object(&json);
    while (head->size % PS_HEADER_ALIGNMENT != 0 && !head->failed)
        ps_buffer_append_text(head, " ");
    for (size_t i = 0; i < 8 && !head->failed; i++)
        head->text[i] = (char)(uint8_t)((uint64_t)(head->size - 8) >> 8 * i);
}

/* Python's tuple without its brackets. Of one length a comma follows the length: a number in
 * brackets is a number to Python. */
static const char *tuple_of(const struct ps_checkpoint_parameter *row,
                            char text[PS_SHAPE_TEXT_BYTES])
{
    struct ps_shape shape = ps_shape_of_tensor(&row->shape, row->count);
    if (!shape.is_given) {
        (void)snprintf(text, PS_SHAPE_TEXT_BYTES, "%" PRIu64 ",", row->count);
        return text;
    }
    (void)ps_shape_text(&shape, row->count, text);
    text[strlen(text) - 1] = '\0';
    return text + 1;
}

/* Format 1.0 of numpy: magic, version, a 16-bit length, and a Python dictionary padded so that the
 * data begin at a multiple of 64. The type codes say little-endian, which all machines that servers
 * run on are. C order: the last dimension's elements lie side by side. */
enum ps_status tensor_file_npy(const struct tensor_target *target, const char *name,
                               const struct ps_checkpoint_parameter *row, struct ps_error *error)
{
    /* NumPy says the same as our names with bytes in the place of bits: "<i4" is our i32. */
    char kind = ps_dtype_name(row->dtype)[0];
    char lengths[PS_SHAPE_TEXT_BYTES];
    char dictionary[128 + sizeof lengths];
    int length = snprintf(dictionary, sizeof dictionary,
                          "{'descr': '<%c%zu', 'fortran_order': False, 'shape': (%s), }", kind,
                          ps_dtype_size(row->dtype), tuple_of(row, lengths));
    /* Ten bytes stand before the dictionary; spaces and a newline fill up to a multiple of 64. */
    size_t filled = (10 + (size_t)length + 1 + 63) / 64 * 64 - 10;
    struct ps_buffer head;
    ps_buffer_init(&head, target->box->memory, 4096);
    ps_buffer_append(&head, (struct ps_bytes){(const uint8_t *)"\x93NUMPY\x01\x00", 8});
    /* Little-endian. */
    const uint8_t size[2] = {(uint8_t)filled, (uint8_t)(filled >> 8)};
    ps_buffer_append(&head, (struct ps_bytes){size, sizeof size});
    ps_buffer_append_format(&head, "%-*s\n", (int)filled - 1, dictionary);
    enum ps_status status = ps_buffer_status(&head, error);
    if (status == PS_OK)
        status = write_whole(target, name, &head, &row, 1, error);
    ps_buffer_fini(&head);
    return status;
}

/* An existing file is never replaced: the operator may have exported there before, from another
 * state. A failure removes the temporary file, so that a second try does not stumble over it. The
 * open for reading is the question whether it exists: the files interface has no other. CREATE_NEW
 * on the temporary name keeps two exports from writing one file. Head and arrays are one stream of
 * writes; the caller has made the head in memory. */
static enum ps_status write_whole(const struct tensor_target *target, const char *name,
                                  const struct ps_buffer *head,
                                  const struct ps_checkpoint_parameter *const *rows, size_t count,
                                  struct ps_error *error)
{
    const struct ps_files *files = target->box->files;
    char path[2048];
    char temporary[2060];
    struct ps_file file;
    PS_TRY(path_write(path, sizeof path, error, target->folder, "%s/%s", target->folder, name));
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", path);
    if (files->open(files->self, path, PS_FILE_READ, &file, NULL) == PS_OK) {
        files->close(files->self, file);
        return ps_fail(error, PS_ERR_EXISTS, "%.200s exists already", path);
    }
    PS_TRY(files->open(files->self, temporary, PS_FILE_CREATE_NEW, &file, error));
    enum ps_status status = write_content(target, file, head, rows, count, error);
    files->close(files->self, file);
    if (status == PS_OK)
        status = files->rename(files->self, temporary, path, error);
    if (status == PS_OK)
        status = files->sync_folder(files->self, target->folder, error);
    else
        (void)files->remove(files->self, temporary, NULL);
    return status;
}

/* Values are written straight from the blocks or file pieces that hold them; the only copy is the
 * kernel's. Synced before the rename: a name must never point to bytes that are not on the disk. */
static enum ps_status write_content(const struct tensor_target *target, struct ps_file file,
                                    const struct ps_buffer *head,
                                    const struct ps_checkpoint_parameter *const *rows, size_t count,
                                    struct ps_error *error)
{
    const struct ps_files *files = target->box->files;
    struct ps_bytes text = {(const uint8_t *)head->text, head->size};
    PS_TRY(files->write(files->self, file, text, error));
    for (size_t i = 0; i < count; i++) {
        PS_TRY(files->write_view(files->self, file, rows[i]->values, error));
        progress_add(target->box->progress, rows[i]->values.size);
    }
    return files->sync(files->self, file, error);
}

/* A dot at the beginning would hide the file, and ".." would leave the folder. Characters that no
 * shell and no file system treats in a special way. */
static bool is_safe(uint8_t byte, size_t at)
{
    bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    bool digit = byte >= '0' && byte <= '9';
    return letter || digit || byte == '_' || byte == '-' || (byte == '.' && at > 0);
}

/* Parameter names may hold slashes and anything else, file names may not. The escape is reversible
 * for names of usual length; a longer one is cut and gets digits of its hash, so that two long
 * names with the same beginning do not meet in one file. Three characters is what one escaped byte
 * takes, so the loop stops before it could overflow. */
enum ps_status tensor_file_name(struct ps_bytes parameter, const char *ending,
                                char name[TENSOR_FILE_NAME_BYTES], struct ps_error *error)
{
    size_t size = 0;
    size_t i = 0;
    for (; i < parameter.size && size + 3 <= NAME_CHARACTERS_MAX; i++) {
        if (is_safe(parameter.data[i], i))
            name[size++] = (char)parameter.data[i];
        else
            size += (size_t)snprintf(name + size, 4, "%%%02X", parameter.data[i]);
    }
    if (i < parameter.size) {
        struct sha256 hash;
        uint8_t digest[SHA256_BYTES];
        char text[SHA256_TEXT_BYTES];
        sha256_init(&hash);
        sha256_add(&hash, parameter);
        PS_TRY(sha256_end(&hash, digest, error));
        sha256_text(digest, text);
        size += (size_t)snprintf(name + size, 18, "~%.16s", text);
    }
    (void)snprintf(name + size, TENSOR_FILE_NAME_BYTES - size, "%s", ending);
    return PS_OK;
}

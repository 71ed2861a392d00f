/* SPDX-License-Identifier: Apache-2.0 */
/* Looks names up in the embedded FileDescriptorSet (google/protobuf/descriptor.proto), by walking
 * its bytes with our own wire reader. The set is some ten KiB and asked rarely, so no index is
 * built; it is written by the build from the very .proto files that the codecs are made of and
 * cannot be out of date. It is trusted: what is wrong with it asserts. */
#include "proto/descriptors.h"

#include "base/assert.h"
#include "proto/wire.h"

#include <string.h>

/* Defined in a source that the build writes from protoc's descriptor set. */
extern const uint8_t ps_descriptor_set_data[];
extern const size_t ps_descriptor_set_size;

/* The scopes of a name, by what can have named children. Enums and methods are leaves: the names of
 * their values and arguments are not asked for. */
enum kind { KIND_FILE, KIND_MESSAGE, KIND_SERVICE, KIND_LEAF };

static bool defines(struct ps_bytes file, struct ps_bytes symbol);
static bool strip_package(struct ps_bytes file, struct ps_bytes *symbol);
static struct ps_bytes take_component(struct ps_bytes *path);
static bool find_child(enum kind *kind, struct ps_bytes *parent, struct ps_bytes name);
static bool child_kind(enum kind parent, uint32_t field, enum kind *child);
static struct ps_bytes bytes_field(struct ps_bytes message, uint32_t number);
static struct ps_bytes range_bytes(const struct ps_wire_range *range);

struct ps_bytes ps_descriptor_set(void)
{
    return (struct ps_bytes){ps_descriptor_set_data, ps_descriptor_set_size};
}

/* The next file of the set; false after the last. */
static bool next_file(struct ps_wire_reader *reader, struct ps_bytes *file)
{
    struct ps_wire_field field;
    while (ps_wire_next(reader, &field)) {
        if (field.number != 1)
            continue;
        *file = range_bytes(&field.bytes);
        return true;
    }
    /* The set is our own build's; bytes that are not a set would be a broken build. */
    PS_ASSERT(reader->status == PS_OK);
    return false;
}

/* The name is the path by which the file was given to protoc ("pserver/v1/admin.proto"). */
bool ps_descriptor_of_file(struct ps_bytes name, struct ps_bytes *file)
{
    struct ps_bytes set = ps_descriptor_set();
    struct ps_wire_reader reader;
    struct ps_bytes candidate;
    ps_wire_reader_init(&reader, ps_view_of(&set), NULL);
    while (next_file(&reader, &candidate)) {
        /* Names are compared exactly: "admin.proto" is not "pserver/v1/admin.proto". */
        if (!ps_bytes_equal(bytes_field(candidate, 1), name))
            continue;
        *file = candidate;
        return true;
    }
    return false;
}

/* The answer to a symbol is the whole file that defines it, as the protocol says. */
bool ps_descriptor_of_symbol(struct ps_bytes symbol, struct ps_bytes *file)
{
    struct ps_bytes set = ps_descriptor_set();
    struct ps_wire_reader reader;
    struct ps_bytes candidate;
    ps_wire_reader_init(&reader, ps_view_of(&set), NULL);
    while (next_file(&reader, &candidate)) {
        if (!defines(candidate, symbol))
            continue;
        *file = candidate;
        return true;
    }
    return false;
}

/* Goes down from the file, one component of the name at a time: "pserver.v1.Admin.GetStatus" is the
 * package, then a service, then a method. A trailing dot would be an empty last component, which no
 * child has as its name, but an absent name field would match it. */
static bool defines(struct ps_bytes file, struct ps_bytes symbol)
{
    /* A package by itself is not a symbol that a file defines. */
    if (!strip_package(file, &symbol) || symbol.size == 0 || symbol.data[symbol.size - 1] == '.')
        return false;
    /* The file itself is the first scope; each step makes the child that was found the next one. */
    enum kind kind = KIND_FILE;
    struct ps_bytes scope = file;
    /* As deep as the name has components, and never deeper than the descriptor. */
    while (symbol.size > 0) {
        if (!find_child(&kind, &scope, take_component(&symbol)))
            return false;
    }
    return true;
}

/* The package must end at a dot: "pserver.v10.X" does not lie in "pserver.v1". */
static bool strip_package(struct ps_bytes file, struct ps_bytes *symbol)
{
    struct ps_bytes package = bytes_field(file, 2);
    if (symbol->size <= package.size || symbol->data[package.size] != '.' ||
        memcmp(symbol->data, package.data, package.size) != 0)
        return false;
    symbol->data += package.size + 1;
    symbol->size -= package.size + 1;
    return true;
}

/* Takes the name up to the next dot, and the dot. */
static struct ps_bytes take_component(struct ps_bytes *path)
{
    /* Without a dot the rest is the last component. */
    const uint8_t *dot = memchr(path->data, '.', path->size);
    size_t size = dot != NULL ? (size_t)(dot - path->data) : path->size;
    struct ps_bytes component = {path->data, size};
    /* With its dot, so that a name of two dots in a row has an empty component, which nothing is
     * called. */
    size_t consumed = dot != NULL ? size + 1 : size;
    path->data += consumed;
    path->size -= consumed;
    return component;
}

/* On success `parent` and its kind become the child and the child's kind. */
static bool find_child(enum kind *kind, struct ps_bytes *parent, struct ps_bytes name)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(parent), NULL);
    while (ps_wire_next(&reader, &field)) {
        enum kind found;
        if (!child_kind(*kind, field.number, &found))
            continue;
        struct ps_bytes child = range_bytes(&field.bytes);
        if (!ps_bytes_equal(bytes_field(child, 1), name))
            continue;
        *kind = found;
        *parent = child;
        return true;
    }
    return false;
}

/* Which fields of descriptor.proto hold named children, and of which kind: of a file its messages
 * (4), enums (5) and services (6), of a message its messages (3) and enums (4), of a service its
 * methods (2). */
static bool child_kind(enum kind parent, uint32_t field, enum kind *child)
{
    static const struct {
        enum kind parent;
        uint32_t field;
        enum kind child;
    } table[] = {
        {KIND_FILE, 4, KIND_MESSAGE},    {KIND_FILE, 5, KIND_LEAF},    {KIND_FILE, 6, KIND_SERVICE},
        {KIND_MESSAGE, 3, KIND_MESSAGE}, {KIND_MESSAGE, 4, KIND_LEAF}, {KIND_SERVICE, 2, KIND_LEAF},
    };
    for (size_t i = 0; i < PS_ARRAY_COUNT(table); i++) {
        if (table[i].parent != parent || table[i].field != field)
            continue;
        *child = table[i].child;
        return true;
    }
    return false;
}

/* Field 1 is the name in every descriptor; 2 is the package of a file. */
static struct ps_bytes bytes_field(struct ps_bytes message, uint32_t number)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(&message), NULL);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == number && field.type == PS_WIRE_BYTES)
            return range_bytes(&field.bytes);
    }
    return (struct ps_bytes){NULL, 0};
}

/* The set is in one piece. */
static struct ps_bytes range_bytes(const struct ps_wire_range *range)
{
    struct ps_bytes bytes;
    bool in_one = ps_wire_range_in_one(range, &bytes);
    PS_ASSERT(in_one);
    return bytes;
}

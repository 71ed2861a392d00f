/* SPDX-License-Identifier: Apache-2.0 */
/* Values by key, added to or assigned, as ps-lite's default handler does, but for values of any
 * length. The mailbox calls a handler on one thread at a time, so there is no lock.
 *
 * A push and pull of one key is one walk over its elements: the sum is written to the store and to
 * the answer while it is in the processor. */
#include "server/program/program_parts.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <string.h>

struct value {
    uint64_t key;
    uint8_t *bytes; /* NULL: the place is free */
    uint64_t size;
};

struct ps_value_store {
    enum pserver_ready_made which;
    enum pserver_element element;
    struct value *places; /* owned; open addressing */
    size_t capacity;      /* a power of two; 0: none yet */
    size_t count;
};

/* One part of a request: a key with what was pushed under it, or what is wanted. */
struct part {
    uint64_t key;
    struct ps_view_cursor pushed; /* of a push */
    uint64_t size;
    struct pserver_tensor tensor; /* its facts, for the answer */
};

/* In bytes. */
static size_t element_size(enum pserver_element element)
{
    return element == PSERVER_FLOAT64 || element == PSERVER_INT64 ? 8 : 4;
}

/* Memory for values comes with the first of them. */
struct ps_value_store *ps_value_store_create(enum pserver_ready_made which,
                                             enum pserver_element element)
{
    struct ps_value_store *store = ps_zeroed(ps_allocator_heap(), sizeof *store);
    if (store == NULL)
        return NULL;
    store->which = which;
    store->element = element;
    return store;
}

void ps_value_store_destroy(struct ps_value_store *store)
{
    if (store == NULL)
        return;
    for (size_t i = 0; i < store->capacity; i++)
        ps_release(ps_allocator_heap(), store->places[i].bytes);
    ps_release(ps_allocator_heap(), store->places);
    ps_release(ps_allocator_heap(), store);
}

/* ---- The table ---- */

/* Keys of a client may be dense or random: mixed, both spread (the finaliser of splitmix64, Steele
 * and others, 2014). */
static size_t place_of(const struct ps_value_store *store, uint64_t key)
{
    uint64_t mixed = key;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    size_t place = (size_t)(mixed ^ (mixed >> 31)) & (store->capacity - 1);
    while (store->places[place].bytes != NULL && store->places[place].key != key)
        place = (place + 1) & (store->capacity - 1);
    return place;
}

/* NULL: nobody has pushed it. */
static struct value *find(const struct ps_value_store *store, uint64_t key)
{
    if (store->capacity == 0)
        return NULL;
    struct value *value = &store->places[place_of(store, key)];
    return value->bytes != NULL ? value : NULL;
}

/* Twice as large, and filled anew: on average that moves each value twice. */
static bool grow(struct ps_value_store *store)
{
    struct ps_value_store larger = *store;
    larger.capacity = store->capacity > 0 ? 2 * store->capacity : 64;
    larger.places = ps_zeroed_array(ps_allocator_heap(), larger.capacity, sizeof *larger.places);
    if (larger.places == NULL)
        return false;
    for (size_t i = 0; i < store->capacity; i++) {
        if (store->places[i].bytes != NULL)
            larger.places[place_of(&larger, store->places[i].key)] = store->places[i];
    }
    ps_release(ps_allocator_heap(), store->places);
    *store = larger;
    return true;
}

/* NULL: no memory. */
static struct value *find_or_add(struct ps_value_store *store, uint64_t key, uint64_t size)
{
    struct value *value = find(store, key);
    if (value != NULL)
        return value;
    if (2 * (store->count + 1) > store->capacity && !grow(store))
        return NULL;
    value = &store->places[place_of(store, key)];
    value->bytes = ps_zeroed(ps_allocator_heap(), size > 0 ? (size_t)size : 1);
    if (value->bytes == NULL)
        return NULL;
    value->key = key;
    value->size = size;
    store->count++;
    return value;
}

/* ---- Arithmetic ---- */

/* `pushed` and `out` may have any address, and `out` may be NULL. Integers wrap. Numbers are read
 * and written by memcpy, which is a load and a store to the compiler, of whatever alignment: so the
 * loop is one that it vectorises. */
#define ADD(name, type, sum)                                                   \
    static void name(uint8_t *restrict values, const uint8_t *restrict pushed, \
                     uint8_t *restrict out, size_t count)                      \
    {                                                                          \
        type *to = (type *)(void *)values;                                     \
        for (size_t i = 0; i < count; i++) {                                   \
            type from;                                                         \
            memcpy(&from, pushed + i * sizeof from, sizeof from);              \
            to[i] = (type)((sum)to[i] + (sum)from);                            \
            if (out != NULL)                                                   \
                memcpy(out + i * sizeof from, &to[i], sizeof from);            \
        }                                                                      \
    }
ADD(add_float32, float, float)
ADD(add_float64, double, double)
ADD(add_int32, int32_t, uint32_t)
ADD(add_int64, int64_t, uint64_t)
#undef ADD

/* Whole elements in one piece. An assignment is a copy, and its answer what was pushed. */
static void apply_run(const struct ps_value_store *store, uint8_t *values, const uint8_t *pushed,
                      uint8_t *out, size_t size)
{
    static void (*const adds[])(uint8_t *, const uint8_t *, uint8_t *,
                                size_t) = {[PSERVER_FLOAT32] = add_float32,
                                           [PSERVER_FLOAT64] = add_float64,
                                           [PSERVER_INT32] = add_int32,
                                           [PSERVER_INT64] = add_int64};
    if (store->which == PSERVER_ADD) {
        adds[store->element](values, pushed, out, size / element_size(store->element));
        return;
    }
    memcpy(values, pushed, size);
    if (out != NULL)
        memcpy(out, pushed, size);
}

/* Read where the network has put it: a copy to one place would cost as much as the sum does. An
 * element that lies in two pieces is put together aside. */
static void apply(const struct ps_value_store *store, struct value *value,
                  struct ps_view_cursor pushed, uint8_t *out)
{
    size_t element = element_size(store->element);
    size_t size = (size_t)value->size;
    size_t at = 0;
    while (at < size) {
        struct ps_view_cursor before = pushed;
        uint8_t aside[sizeof(uint64_t)];
        struct ps_bytes run = ps_view_next(&pushed, size - at);
        size_t whole = run.size / element * element;
        const uint8_t *from = run.data;
        /* What is left of the piece is the beginning of the next element. */
        if (whole < run.size) {
            pushed = before;
            ps_view_skip(&pushed, whole);
        }
        if (whole == 0) {
            ps_view_read(&pushed, aside, element);
            from = aside;
            whole = element;
        }
        apply_run(store, value->bytes + at, from, out != NULL ? out + at : NULL, whole);
        at += whole;
    }
}

/* ---- Requests ---- */

/* A request in parts. By keys there is one tensor, cut by the lengths or evenly; by tensors each
 * has its own key. */
struct work {
    struct ps_value_store *store;
    struct pserver_request *request;
    struct pserver_question question;
    bool pushes, pulls;
    struct part *parts;
    size_t count;
    uint64_t answer_size;
};

/* Lengths of the request as a whole are compared with what was sent, so that no part leaves it. */
static const char *cut_keys(struct work *work)
{
    const struct pserver_question *question = &work->question;
    size_t element = element_size(work->store->element);
    struct pserver_tensor all = {.size = 0};
    uint64_t at = 0;
    if (question->tensor_count > 1 || (work->pushes && question->tensor_count == 0))
        return "keys have their values in one tensor";
    struct ps_view_cursor content = {.piece = 0};
    if (work->pushes) {
        ps_handled_request_describe(work->request, 0, &all);
        content = ps_handled_request_content(work->request, 0);
    }
    if (question->lens != NULL && question->len_count != question->key_count)
        return "there is a length for each key, or none";
    if (question->lens == NULL && all.size % (question->key_count * element) != 0)
        return "the values do not divide evenly among the keys";
    for (size_t i = 0; i < question->key_count; i++) {
        uint64_t size = question->lens != NULL ? (uint64_t)question->lens[i] * element
                                               : all.size / question->key_count;
        if (work->pushes && size > all.size - at)
            return "the lengths are of more than was sent";
        work->parts[i] = (struct part){.key = question->keys[i], .pushed = content, .size = size};
        if (work->pushes)
            ps_view_skip(&content, (size_t)size);
        at += size;
    }
    return !work->pushes || at == all.size ? NULL : "the lengths are of less than was sent";
}

/* A pull names what it wants in place of what it brings. */
static const char *cut_tensors(struct work *work)
{
    size_t element = element_size(work->store->element);
    for (size_t i = 0; i < work->count; i++) {
        struct part *part = &work->parts[i];
        if (work->pushes) {
            ps_handled_request_describe(work->request, i, &part->tensor);
            part->pushed = ps_handled_request_content(work->request, i);
        } else {
            pserver_request_output(work->request, i, &part->tensor);
        }
        part->key = part->tensor.key;
        part->size = part->tensor.size;
        if (part->size % element != 0)
            return "a tensor is not a whole number of elements";
    }
    return NULL;
}

/* Everything is looked at before anything changes: a request is carried out whole or not at all. */
static const char *check(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        struct part *part = &work->parts[i];
        struct value *value = work->pushes ? find_or_add(work->store, part->key, part->size)
                                           : find(work->store, part->key);
        if (work->pushes && value == NULL)
            return "no memory";
        /* Of a key that nobody has pushed there are zeros, as many as are wanted. */
        if (value != NULL && part->size == 0)
            part->size = value->size;
        if (value != NULL && part->size != value->size)
            return "a value has the length of its first push";
        work->answer_size += work->pulls ? part->size : 0;
    }
    return NULL;
}

/* In order, so that a key that comes twice counts twice. */
static void carry_out(struct work *work, uint8_t *room)
{
    for (size_t i = 0; i < work->count; i++) {
        struct part *part = &work->parts[i];
        struct value *value = find(work->store, part->key);
        if (work->pushes)
            apply(work->store, value, part->pushed, room);
        else if (value != NULL)
            memcpy(room, value->bytes, (size_t)part->size);
        else
            memset(room, 0, (size_t)part->size);
        part->tensor.data = room;
        part->tensor.size = part->size;
        part->tensor.key = part->key;
        if (room != NULL)
            room += part->size;
    }
}

/* One tensor for keys, with their lengths where they were sent so; a tensor for each otherwise. */
static void answer(struct work *work, const uint8_t *room, struct pserver_tensor *tensors,
                   uint32_t *lens)
{
    struct pserver_answer said = {.tensor_count = 0};
    size_t element = element_size(work->store->element);
    if (work->pulls && work->question.keys != NULL) {
        tensors[0] = (struct pserver_tensor){.element_size = (uint32_t)element,
                                             .rank = 1,
                                             .shape = {work->answer_size / element},
                                             .data = room,
                                             .size = work->answer_size};
        for (size_t i = 0; i < work->count; i++)
            lens[i] = (uint32_t)(work->parts[i].size / element);
        said = (struct pserver_answer){
            .tensors = tensors, .tensor_count = 1, .lens = lens, .len_count = work->count};
    } else if (work->pulls) {
        for (size_t i = 0; i < work->count; i++)
            tensors[i] = work->parts[i].tensor;
        said = (struct pserver_answer){.tensors = tensors, .tensor_count = work->count};
    }
    (void)pserver_respond(work->request, &said);
}

/* Memory for the answer comes before anything changes. */
static void serve(struct work *work)
{
    const char *why = work->question.keys != NULL ? cut_keys(work) : cut_tensors(work);
    uint8_t *room = NULL;
    if (why == NULL)
        why = check(work);
    struct pserver_tensor *tensors =
        ps_zeroed_array(ps_allocator_heap(), work->count + 1, sizeof *tensors);
    uint32_t *lens = ps_zeroed_array(ps_allocator_heap(), work->count + 1, sizeof *lens);
    if (why == NULL && work->pulls)
        room = pserver_request_room(work->request, work->answer_size);
    if (why == NULL && (tensors == NULL || lens == NULL || (work->pulls && room == NULL)))
        why = "no memory";
    if (why == NULL) {
        carry_out(work, room);
        answer(work, room, tensors, lens);
    } else {
        (void)pserver_refuse(work->request,
                             strcmp(why, "no memory") == 0 ? PSERVER_EXHAUSTED : PSERVER_INVALID,
                             why);
    }
    ps_release(ps_allocator_heap(), lens);
    ps_release(ps_allocator_heap(), tensors);
}

/* A batch pushes its tensors and pulls those that it wants: of the same keys. */
void ps_value_store_handle(void *store, struct pserver_request *request)
{
    struct work work = {.store = store, .request = request};
    pserver_request_question(request, &work.question);
    const struct pserver_question *question = &work.question;
    work.pushes = question->kind == PSERVER_PUSH || question->kind == PSERVER_PUSH_PULL ||
                  (question->kind == PSERVER_BATCH && question->tensor_count > 0);
    work.pulls = question->kind == PSERVER_PULL || question->kind == PSERVER_PUSH_PULL ||
                 (question->kind == PSERVER_BATCH && question->output_count > 0);
    work.count = question->keys != NULL ? question->key_count
                 : work.pushes          ? question->tensor_count
                                        : question->output_count;
    work.parts = ps_zeroed_array(ps_allocator_heap(), work.count + 1, sizeof *work.parts);
    if (work.parts != NULL)
        serve(&work);
    else
        (void)pserver_refuse(request, PSERVER_EXHAUSTED, "no memory");
    ps_release(ps_allocator_heap(), work.parts);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pages out of slabs. The first slabs are small and from the heap, since most tables of a job may
 * be small; then each is a large page of the processor: a look-up goes to a random page of a large
 * table, and would need an address translation from memory for each with small ones.
 *
 * Nothing is given back to the system before the table ends. What a sweep or a hold has freed is
 * used by the rows and the copies to come, and giving large pages back to have them again would
 * cost the pushes a millisecond each time.
 */
#include "server/core/tables/row_pages.h"

#include "base/assert.h"
#include "base/slab.h"

#define SLAB_BYTES_FIRST ((size_t)64 * 1024)
#define LINE_BYTES ((size_t)64)
/* What is had ahead is less than a hundredth of a table. */
#define TABLE_BYTES_FOR_EACH_AHEAD ((uint64_t)256 * 1024 * 1024)

struct ps_row_slab {
    struct ps_row_slab *next;
    void *memory; /* as it was got; the pages begin at the next multiple of LINE_BYTES */
    size_t bytes;
    bool of_heap;
};

/* What a page that begins a slab leaves to be done without the lock. */
struct begun {
    const struct ps_row_slab *slab; /* NULL: no slab was begun */
    const struct ps_row_slab *next[PS_ROW_SLABS_AHEAD_MAX];
    uint32_t next_count; /* of slabs that were had for later */
};

static bool begin_slab(struct ps_row_pages *pages, struct begun *begun);
static void have_next(struct ps_row_pages *pages, struct begun *begun);
static struct ps_row_slab *make_slab(struct ps_row_pages *pages);
static void free_slab(struct ps_row_pages *pages, struct ps_row_slab *slab);
static struct ps_row_page *cut_page(struct ps_row_pages *pages, struct begun *begun);
static void touch_next(struct ps_row_pages *pages, const struct begun *begun);
static void look_ahead(struct ps_row_pages *pages, const struct begun *begun);

/* A page is smaller than a slab, with room: the widest row has 4,096 elements of 8 bytes and two
 * states of as many. */
void ps_row_pages_init(struct ps_row_pages *pages, const struct ps_allocator *memory,
                       size_t page_bytes, struct ps_touch_ahead *ahead)
{
    PS_ASSERT(page_bytes % sizeof(struct ps_row_page) == 0);
    PS_ASSERT(page_bytes >= sizeof(struct ps_row_page) && page_bytes < PS_SLAB_BYTES);
    *pages = (struct ps_row_pages){.memory = memory,
                                   .ahead = ahead,
                                   .page_bytes = page_bytes,
                                   .bytes_limit = UINT64_MAX,
                                   .next_wanted = 1,
                                   .slab_bytes = SLAB_BYTES_FIRST};
    ps_mutex_init(&pages->lock, PS_RANK_LEAF);
}

static void free_slabs(struct ps_row_pages *pages, struct ps_row_slab **slabs)
{
    while (*slabs != NULL) {
        struct ps_row_slab *slab = *slabs;
        *slabs = slab->next;
        free_slab(pages, slab);
    }
}

/* The pages themselves are not looked at: whoever still had one was a bug of ours. */
void ps_row_pages_fini(struct ps_row_pages *pages)
{
    PS_ASSERT(pages->memory != NULL);
    free_slabs(pages, &pages->slabs);
    free_slabs(pages, &pages->next);
    ps_mutex_fini(&pages->lock);
}

/* One thread at a time makes a table larger, so that nothing comes between the question and the
 * sum; a saver that gets pages ready may, and then the limit is passed by a slab. */
bool ps_row_pages_count(struct ps_row_pages *pages, uint64_t bytes)
{
    PS_ASSERT(bytes <= UINT64_MAX / 2);
    uint64_t limit = atomic_load(&pages->bytes_limit);
    if (bytes > limit || atomic_load(&pages->bytes) > limit - bytes)
        return false;
    atomic_fetch_add(&pages->bytes, bytes);
    return true;
}

void ps_row_pages_count_back(struct ps_row_pages *pages, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub(&pages->bytes, bytes);
    PS_ASSERT(before >= bytes);
}

/* Free pages first, the last given back before the others: it is the likeliest to be in the cache.
 * */
struct ps_row_page *ps_row_pages_take(struct ps_row_pages *pages)
{
    struct begun begun = {.slab = NULL};
    ps_mutex_lock(&pages->lock);
    struct ps_row_page *page = pages->free;
    if (page != NULL) {
        PS_ASSERT(pages->free_count > 0);
        pages->free = page->next;
        pages->free_count--;
    } else {
        page = cut_page(pages, &begun);
    }
    ps_mutex_unlock(&pages->lock);
    if (begun.slab != NULL)
        look_ahead(pages, &begun);
    touch_next(pages, &begun);
    return page;
}

/* Without the lock, since whoever touches is woken. A slab stays where it is as long as the pages
 * do, whatever has been cut from it meanwhile. */
static void touch_next(struct ps_row_pages *pages, const struct begun *begun)
{
    for (uint32_t i = 0; i < begun->next_count; i++)
        ps_touch_ahead_want(pages->ahead, begun->next[i]->memory, begun->next[i]->bytes);
}

/* A push that begins a slab which nobody has touched yet waits for the kernel in the middle of its
 * rows. Where that happens, memory is slow to come or processors are few, and the next slabs are
 * asked for earlier. */
static void look_ahead(struct ps_row_pages *pages, const struct begun *begun)
{
    if (!ps_touch_ahead_is_due(pages->ahead, begun->slab->memory, begun->slab->bytes))
        return;
    ps_mutex_lock(&pages->lock);
    uint64_t more = pages->next_wanted + 1;
    if (more <= PS_ROW_SLABS_AHEAD_MAX &&
        atomic_load(&pages->bytes) >= more * TABLE_BYTES_FOR_EACH_AHEAD)
        pages->next_wanted++;
    ps_mutex_unlock(&pages->lock);
}

/* The next page of the newest slab; what is left of one that is too short for it is lost, unless
 * the next slab lies behind it: less than a page of 2 MiB. */
static struct ps_row_page *cut_page(struct ps_row_pages *pages, struct begun *begun)
{
    if (pages->uncut_bytes < pages->page_bytes && !begin_slab(pages, begun))
        return NULL;
    PS_ASSERT(pages->uncut_bytes >= pages->page_bytes);
    struct ps_row_page *page = (struct ps_row_page *)(void *)pages->uncut;
    pages->uncut += pages->page_bytes;
    pages->uncut_bytes -= pages->page_bytes;
    return page;
}

/* The first of the slabs that were had before, or one that is had now. */
static bool begin_slab(struct ps_row_pages *pages, struct begun *begun)
{
    struct ps_row_slab *slab = pages->next;
    if (slab != NULL) {
        pages->next = slab->next;
        pages->next_count--;
    } else {
        slab = make_slab(pages);
    }
    if (slab == NULL)
        return false;
    uintptr_t at = (uintptr_t)slab->memory + LINE_BYTES - 1;
    uint8_t *begin = (uint8_t *)(at / LINE_BYTES * LINE_BYTES);
    /* Slabs come one behind the other, mostly (base/slab.h): a page may then begin in one and end
     * in the next, and nothing is lost. */
    bool goes_on = pages->uncut != NULL && pages->uncut + pages->uncut_bytes == begin;
    pages->uncut = goes_on ? pages->uncut : begin;
    pages->uncut_bytes = (goes_on ? pages->uncut_bytes : 0) + slab->bytes;
    slab->next = pages->slabs;
    pages->slabs = slab;
    begun->slab = slab;
    if (pages->ahead != NULL && !slab->of_heap)
        have_next(pages, begun);
    return true;
}

/* Behind a slab of large pages the next ones are had at once, where somebody touches them
 * meanwhile: a push that comes to them would else wait for the kernel to clear them. */
static void have_next(struct ps_row_pages *pages, struct begun *begun)
{
    struct ps_row_slab **last = &pages->next;
    while (*last != NULL)
        last = &(*last)->next;
    while (pages->next_count < pages->next_wanted) {
        *last = make_slab(pages);
        if (*last == NULL)
            return;
        begun->next[begun->next_count++] = *last;
        pages->next_count++;
        last = &(*last)->next;
    }
}

/* A slab of the heap is twice as large as the one before, until large pages are worth it: a table
 * of ten rows has 64 KiB, and one of a million wastes no more than a fiftieth. NULL when memory is
 * refused. */
static struct ps_row_slab *make_slab(struct ps_row_pages *pages)
{
    size_t bytes = pages->slab_bytes;
    while (bytes < pages->page_bytes)
        bytes *= 2;
    bool of_heap = bytes < PS_SLAB_BYTES;
    PS_ASSERT(bytes <= PS_SLAB_BYTES);
    struct ps_row_slab *slab = ps_zeroed(pages->memory, sizeof *slab);
    if (slab == NULL)
        return NULL;
    /* Counted before it is had, so that a limit is kept also while the kernel is asked. */
    *slab = (struct ps_row_slab){.bytes = bytes, .of_heap = of_heap};
    if (ps_row_pages_count(pages, bytes)) {
        slab->memory = of_heap ? ps_plain(pages->memory, bytes + LINE_BYTES) : ps_slab_take();
        if (slab->memory != NULL) {
            pages->slab_bytes = of_heap ? 2 * bytes : bytes;
            return slab;
        }
        ps_row_pages_count_back(pages, bytes);
    }
    ps_release(pages->memory, slab);
    return NULL;
}

/* Back to where it is from. */
static void free_slab(struct ps_row_pages *pages, struct ps_row_slab *slab)
{
    PS_ASSERT(slab->memory != NULL && slab->bytes > 0);
    if (slab->of_heap) {
        ps_release(pages->memory, slab->memory);
    } else {
        ps_touch_ahead_forget(pages->ahead, slab->memory, slab->bytes);
        ps_slab_give(slab->memory);
    }
    ps_row_pages_count_back(pages, slab->bytes);
    ps_release(pages->memory, slab);
}

/* Under the lock. */
static void give(struct ps_row_pages *pages, struct ps_row_page *page)
{
    PS_ASSERT(page != NULL);
    page->next = pages->free;
    pages->free = page;
    pages->free_count++;
}

/* A hold that ends gives all of its pages at once, some ten thousand of a large table. */
void ps_row_pages_give(struct ps_row_pages *pages, struct ps_row_page *list)
{
    ps_mutex_lock(&pages->lock);
    while (list != NULL) {
        struct ps_row_page *next = list->next;
        give(pages, list);
        list = next;
    }
    ps_mutex_unlock(&pages->lock);
}

/* Written outside the lock: the fault of a large page takes a tenth of a millisecond, for which a
 * push that wants a page would wait. Whoever touches ahead is not too slow here: nobody waits. */
void ps_row_pages_expect(struct ps_row_pages *pages, uint64_t count)
{
    for (;;) {
        ps_mutex_lock(&pages->lock);
        struct begun begun = {.slab = NULL};
        struct ps_row_page *page = pages->free_count < count ? cut_page(pages, &begun) : NULL;
        ps_mutex_unlock(&pages->lock);
        touch_next(pages, &begun);
        if (page == NULL)
            return;
        /* One byte of each line: the page is then in memory, and in its cache for the copy. */
        for (size_t at = 0; at < pages->page_bytes; at += LINE_BYTES)
            ((volatile uint8_t *)page)[at] = 0;
        page->next = NULL;
        ps_row_pages_give(pages, page);
    }
}

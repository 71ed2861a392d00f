/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table in place, whose chains are indices. A key is hashed by a function that everybody
 * knows, so a peer may choose keys of one chain: it is then as long as the table, which is a few
 * microseconds under the lock, and reached by large calls only. */
#include "server/rpc/budgets.h"

#include "base/assert.h"
#include "base/hash.h"

#include <string.h>

/* Entries that one search looks at: the search goes on from there the next time. */
enum { SEARCH_ENTRIES = 32, OTHERS = PS_BUDGET_ENTRIES };

static const struct ps_bucket_size pace_sizes[PS_PACE_COUNT] = {
#define ROW(name, at_once, a_minute) [name] = {at_once, a_minute},
    PS_PACE_TABLE(ROW)
#undef ROW
};

static uint32_t entry_of(struct ps_budgets *budgets, struct ps_bytes key, uint64_t now_ms);
static uint32_t give_away(struct ps_budgets *budgets, uint64_t now_ms);
static bool is_at_rest(const struct ps_budget_entry *entry, uint64_t now_ms);
static void unlink_entry(struct ps_budgets *budgets, uint32_t index);
static void begin_entry(struct ps_budget_entry *entry, struct ps_bytes key);

void ps_budgets_init(struct ps_budgets *budgets)
{
    /* Chains of zeros are empty: links are indices and one. */
    memset(budgets, 0, sizeof *budgets);
    ps_mutex_init(&budgets->lock, PS_RANK_LEAF);
    begin_entry(&budgets->entries[OTHERS], (struct ps_bytes){NULL, 0});
}

void ps_budgets_fini(struct ps_budgets *budgets)
{
    ps_mutex_fini(&budgets->lock);
}

/* ---- Sums ---- */

/* A caller that had nothing may have gone beyond by itself, and answers are counted without a
 * question: then `max - before` would wrap around, and `before` is compared first. */
static bool fits(uint64_t before, uint64_t amount, uint64_t max)
{
    return max == 0 || before == 0 || (before <= max && amount <= max - before);
}

/* The one place in which a sum rises: whoever was let in by `fits` has it counted in the same
 * moment, so that two callers of one entry cannot pass the bound together. */
static bool add(struct ps_budget_entry *entry, enum ps_sum sum, uint64_t amount, uint64_t max,
                uint64_t *before)
{
    uint64_t counted = entry->sums[sum];
    if (before != NULL)
        *before = counted;
    if (!fits(counted, amount, max))
        return false;
    entry->sums[sum] = counted + amount;
    return true;
}

/* The key is looked up once, when the caller comes; from then on the index says it. */
bool ps_budgets_enter(struct ps_budgets *budgets, struct ps_bytes key, enum ps_sum sum,
                      uint64_t amount, uint64_t max, uint64_t now_ms, uint32_t *entry,
                      uint64_t *before)
{
    PS_ASSERT(sum < PS_SUM_COUNT);
    /* One lock for all callers: the look-up is some ten nanoseconds, and only large calls and new
     * clients come here. */
    ps_mutex_lock(&budgets->lock);
    uint32_t index = entry_of(budgets, key, now_ms);
    bool has_entered = add(&budgets->entries[index], sum, amount, max, before);
    ps_mutex_unlock(&budgets->lock);
    /* Somebody who was refused has nothing to leave. */
    if (has_entered)
        *entry = index;
    return has_entered;
}

/* The entry is its caller's for as long as something is counted in it. */
bool ps_budgets_more(struct ps_budgets *budgets, uint32_t entry, enum ps_sum sum, uint64_t amount,
                     uint64_t max, uint64_t *before)
{
    PS_ASSERT(entry <= OTHERS && sum < PS_SUM_COUNT);
    ps_mutex_lock(&budgets->lock);
    bool has_entered = add(&budgets->entries[entry], sum, amount, max, before);
    ps_mutex_unlock(&budgets->lock);
    return has_entered;
}

/* A sum below what is taken from it means that two calls were mixed up: from then on the bound
 * would be wrong for the rest of the process. */
void ps_budgets_leave(struct ps_budgets *budgets, uint32_t entry, enum ps_sum sum, uint64_t amount)
{
    PS_ASSERT(entry <= OTHERS && sum < PS_SUM_COUNT);
    ps_mutex_lock(&budgets->lock);
    PS_ASSERT(budgets->entries[entry].sums[sum] >= amount);
    budgets->entries[entry].sums[sum] -= amount;
    ps_mutex_unlock(&budgets->lock);
}

/* ---- Paces ---- */

/* A pace is not given back: what was let in at this moment was let in. */
bool ps_budgets_take(struct ps_budgets *budgets, struct ps_bytes key, enum ps_pace pace,
                     uint64_t now_ms, uint32_t *wait_ms)
{
    PS_ASSERT(pace < PS_PACE_COUNT);
    ps_mutex_lock(&budgets->lock);
    struct ps_bucket *bucket = &budgets->entries[entry_of(budgets, key, now_ms)].paces[pace];
    *wait_ms = ps_bucket_wait_ms(bucket, &pace_sizes[pace], now_ms);
    bool is_left = ps_bucket_take(bucket, &pace_sizes[pace], now_ms);
    ps_mutex_unlock(&budgets->lock);
    PS_ASSERT(is_left == (*wait_ms == 0));
    return is_left;
}

/* ---- Entries; with the lock held ---- */

/* Both who looks and who unlinks come to a chain this way. The table has as many chains as entries,
 * so that a chain has one entry on average when the table is full. */
static uint32_t *chain_of(struct ps_budgets *budgets, struct ps_bytes key)
{
    return &budgets->chains[ps_hash_fnv1a32(key) % PS_BUDGET_ENTRIES];
}

static struct ps_bytes key_of(const struct ps_budget_entry *entry)
{
    return (struct ps_bytes){(const uint8_t *)entry->key, entry->key_size};
}

/* The entry of that key, which it is given if it has none; the shared one if there is none left. */
static uint32_t entry_of(struct ps_budgets *budgets, struct ps_bytes key, uint64_t now_ms)
{
    PS_ASSERT(key.size <= PS_CALLER_KEY_BYTES_MAX);
    uint32_t *chain = chain_of(budgets, key);
    for (uint32_t link = *chain; link != 0; link = budgets->entries[link - 1].next)
        if (ps_bytes_equal(key_of(&budgets->entries[link - 1]), key))
            return link - 1;
    /* Entries that never had a key come first, and then those at rest; when every entry counts
     * something, all callers to come share the last. */
    uint32_t index =
        budgets->used < PS_BUDGET_ENTRIES ? budgets->used++ : give_away(budgets, now_ms);
    if (index == OTHERS)
        return OTHERS;
    struct ps_budget_entry *entry = &budgets->entries[index];
    begin_entry(entry, key);
    entry->next = *chain;
    *chain = index + 1;
    return index;
}

/* A new caller has had nothing yet, so all its paces are full. */
static void begin_entry(struct ps_budget_entry *entry, struct ps_bytes key)
{
    *entry = (struct ps_budget_entry){.key_size = key.size};
    if (key.size > 0)
        memcpy(entry->key, key.data, key.size);
}

/* An entry whose caller would find it as it was if it came back: it may be another's. */
static uint32_t give_away(struct ps_budgets *budgets, uint64_t now_ms)
{
    /* A few at a time: a full table must not make each new caller walk through all of it. */
    for (int i = 0; i < SEARCH_ENTRIES; i++) {
        uint32_t index = budgets->hand;
        budgets->hand = (budgets->hand + 1) % PS_BUDGET_ENTRIES;
        if (!is_at_rest(&budgets->entries[index], now_ms))
            continue;
        unlink_entry(budgets, index);
        return index;
    }
    return OTHERS;
}

/* Nothing is counted and every pace is full again: a new entry would be the same. */
static bool is_at_rest(const struct ps_budget_entry *entry, uint64_t now_ms)
{
    for (int sum = 0; sum < PS_SUM_COUNT; sum++)
        if (entry->sums[sum] != 0)
            return false;
    for (int pace = 0; pace < PS_PACE_COUNT; pace++)
        if (!ps_bucket_is_full(&entry->paces[pace], &pace_sizes[pace], now_ms))
            return false;
    return true;
}

/* Chains are short and singly linked: the one before is found by walking. */
static void unlink_entry(struct ps_budgets *budgets, uint32_t index)
{
    uint32_t *link = chain_of(budgets, key_of(&budgets->entries[index]));
    while (*link != index + 1) {
        PS_ASSERT(*link != 0);
        link = &budgets->entries[*link - 1].next;
    }
    *link = budgets->entries[index].next;
}

/* ---- Looking ---- */

/* By a walk, since nobody asks but whoever shows the metrics. */
uint32_t ps_budgets_count(struct ps_budgets *budgets, enum ps_sum sum, uint64_t *largest)
{
    uint32_t count = 0;
    *largest = 0;
    ps_mutex_lock(&budgets->lock);
    for (uint32_t i = 0; i <= OTHERS; i++) {
        uint64_t counted = budgets->entries[i].sums[sum];
        count += counted > 0;
        *largest = counted > *largest ? counted : *largest;
    }
    ps_mutex_unlock(&budgets->lock);
    return count;
}

/* Every entry with a key is in the chain of its hash, once. */
void ps_budgets_check(struct ps_budgets *budgets)
{
    uint32_t chained = 0;
    ps_mutex_lock(&budgets->lock);
    for (uint32_t i = 0; i < PS_BUDGET_ENTRIES; i++) {
        for (uint32_t link = budgets->chains[i]; link != 0;
             link = budgets->entries[link - 1].next) {
            PS_ASSERT(link <= budgets->used);
            PS_ASSERT(chain_of(budgets, key_of(&budgets->entries[link - 1])) ==
                      &budgets->chains[i]);
            chained++;
        }
    }
    PS_ASSERT(chained == budgets->used);
    for (uint32_t i = 0; i <= OTHERS; i++)
        for (int pace = 0; pace < PS_PACE_COUNT; pace++)
            PS_ASSERT(budgets->entries[i].paces[pace].missing <=
                      (uint64_t)pace_sizes[pace].at_once * PS_BUCKET_WHOLE);
    ps_mutex_unlock(&budgets->lock);
}

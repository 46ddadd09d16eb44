/* hazards.c - dependencies between parts from the memory that they touch.
 *
 * Memory is a list of segments in order of address. A segment knows the part that wrote it last and the parts that have read it
 * since. A part that reads a segment waits for its writer; a part that writes one waits for its writer and its readers. Where a
 * range ends inside a segment, the segment is cut in two. Lists of readers only grow at their head, so that both halves of a
 * segment can go on from one list. */
#include "runtime/hazards_internal.h"

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum { NOBODY = -1, WINDOW = 1024, WORDS = WINDOW / 64 };

typedef struct segment {
    uintptr_t begin, end;
    int32_t writer;
    int32_t readers; /* head of a list in `reader` */
} segment;

typedef struct reader {
    int32_t part, next;
} reader;

/* The part itself and all that it waits for, directly or not, as far as they are among the last WINDOW parts: bit d stands for
 * the part d places before it. */
typedef struct past {
    uint64_t word[WORDS];
} past;

struct sg_hazards {
    segment *segment;
    int32_t n_segments, segment_capacity;
    reader *reader;
    int32_t n_readers, reader_capacity;
    int32_t *on; /* of the part being described; may repeat */
    int32_t n_on, on_capacity;
    past *past; /* a ring: part p at p % WINDOW */
    int32_t part;
};

sg_hazards *sg_hazards_new(void)
{
    sg_hazards *h = sg_calloc(1, sizeof *h);
    if (h && !(h->past = sg_calloc(WINDOW, sizeof *h->past))) {
        sg_free(h);
        h = NULL;
    }
    return h;
}

void sg_hazards_free(sg_hazards *h)
{
    if (!h)
        return;
    sg_free(h->segment);
    sg_free(h->reader);
    sg_free(h->on);
    sg_free(h->past);
    sg_free(h);
}

/* `array` with room for one more element, or NULL. */
static void *with_room(void *array, int32_t n, int32_t *capacity, size_t element)
{
    if (n < *capacity)
        return array;
    int32_t wider = *capacity ? 2 * *capacity : 64;
    void *moved = sg_realloc(array, (size_t)wider * element);
    *capacity = moved ? wider : *capacity;
    return moved;
}

/* ---- segments */

/* The first segment that ends behind `at`. */
static int32_t find(const sg_hazards *h, uintptr_t at)
{
    int32_t low = 0, high = h->n_segments;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (h->segment[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool insert(sg_hazards *h, int32_t place, segment s)
{
    segment *wider = with_room(h->segment, h->n_segments, &h->segment_capacity, sizeof *wider);
    if (!wider)
        return false;
    h->segment = wider;
    memmove(wider + place + 1, wider + place, (size_t)(h->n_segments++ - place) * sizeof *wider);
    wider[place] = s;
    return true;
}

/* No segment reaches over `at`. */
static bool cut(sg_hazards *h, uintptr_t at)
{
    int32_t k = find(h, at);
    if (k == h->n_segments || h->segment[k].begin >= at)
        return true;
    segment front = h->segment[k];
    front.end = at;
    if (!insert(h, k, front))
        return false;
    h->segment[k + 1].begin = at;
    return true;
}

/* Segments cover [begin, end) exactly; *first is the first of them. */
static bool cover(sg_hazards *h, uintptr_t begin, uintptr_t end, int32_t *first)
{
    if (!cut(h, begin) || !cut(h, end))
        return false;
    *first = find(h, begin);
    for (int32_t k = *first; begin < end; k++) {
        uintptr_t next = k < h->n_segments && h->segment[k].begin < end ? h->segment[k].begin : end;
        if (next > begin && !insert(h, k, (segment){begin, next, NOBODY, NOBODY}))
            return false;
        begin = h->segment[k].end;
    }
    return true;
}

/* ---- touching */

static bool wait_for(sg_hazards *h, int32_t part)
{
    if (part == NOBODY || part == h->part)
        return true;
    int32_t *wider = with_room(h->on, h->n_on, &h->on_capacity, sizeof *wider);
    if (!wider)
        return false;
    h->on = wider;
    wider[h->n_on++] = part;
    return true;
}

static bool add_reader(sg_hazards *h, segment *s)
{
    if (s->readers != NOBODY && h->reader[s->readers].part == h->part)
        return true;
    reader *wider = with_room(h->reader, h->n_readers, &h->reader_capacity, sizeof *wider);
    if (!wider)
        return false;
    h->reader = wider;
    wider[h->n_readers] = (reader){h->part, s->readers};
    s->readers = h->n_readers++;
    return true;
}

static bool wait_for_readers(sg_hazards *h, const segment *s)
{
    for (int32_t r = s->readers; r != NOBODY; r = h->reader[r].next)
        if (!wait_for(h, h->reader[r].part))
            return false;
    return true;
}

static bool touch(sg_hazards *h, const void *at, size_t bytes, bool write)
{
    uintptr_t begin = (uintptr_t)at, end = begin + bytes;
    int32_t k = 0;
    if (bytes == 0)
        return true;
    if (!cover(h, begin, end, &k))
        return false;
    for (; k < h->n_segments && h->segment[k].begin < end; k++) {
        segment *s = &h->segment[k];
        if (!wait_for(h, s->writer) || (write && !wait_for_readers(h, s)) || (!write && !add_reader(h, s)))
            return false;
        if (write) {
            s->writer = h->part;
            s->readers = NOBODY;
        }
    }
    return true;
}

bool sg_hazards_read(sg_hazards *h, const void *at, size_t bytes) { return touch(h, at, bytes, false); }

bool sg_hazards_write(sg_hazards *h, const void *at, size_t bytes) { return touch(h, at, bytes, true); }

/* ---- what others wait for already */

static bool waits(const past *p, int32_t distance)
{
    return distance < WINDOW && p->word[distance / 64] >> distance % 64 & 1;
}

/* `own` receives the past of a part that stands `distance` places before. */
static void join(past *own, const past *other, int32_t distance)
{
    int32_t words = distance / 64, bits = distance % 64;
    for (int32_t w = WORDS - 1; w >= words; w--) {
        uint64_t low = other->word[w - words] << bits;
        uint64_t carried = bits && w > words ? other->word[w - words - 1] >> (64 - bits) : 0;
        own->word[w] |= low | carried;
    }
}

static int later_first(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x < y) - (x > y);
}

void sg_hazards_elsewhere(sg_hazards *h) { h->n_segments = h->n_readers = 0; }

/* From the latest on: whoever is waited for by another of the list stands before it. Parts further back than the window are
 * kept, which costs an edge and no order. */
void sg_hazards_end(sg_hazards *h, const int32_t **on, int32_t *n)
{
    past own = {{1}};
    int32_t kept = 0;
    if (h->n_on > 1)
        qsort(h->on, (size_t)h->n_on, sizeof *h->on, later_first);
    for (int32_t i = 0; i < h->n_on; i++) {
        int32_t part = h->on[i], distance = h->part - part;
        if ((i > 0 && part == h->on[i - 1]) || waits(&own, distance))
            continue;
        h->on[kept++] = part;
        if (distance < WINDOW)
            join(&own, &h->past[part % WINDOW], distance);
    }
    h->past[h->part++ % WINDOW] = own;
    *on = h->on;
    *n = kept;
    h->n_on = 0;
}

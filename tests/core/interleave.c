#include "core/interleave.h"

#include <stdio.h>
#include <string.h>

struct walk {
    const struct interleave *in;
    const struct interleave_deed (*lists)[INTERLEAVE_DEEDS + 1];
    unsigned char *saved; /* a copy of the world for every depth */
    uint8_t at[INTERLEAVE_LISTS];
    uint64_t orders, steps;
    char path[400];
    size_t path_length;
};

static void walk_on(struct walk *w, uint32_t depth)
{
    const struct interleave *in = w->in;
    bool is_end = true;
    unsigned char *saved = w->saved + depth * in->bytes;
    memcpy(saved, in->world, in->bytes);
    size_t path_length = w->path_length;
    for (uint32_t list = 0; list < INTERLEAVE_LISTS; list++) {
        const struct interleave_deed *deed = &w->lists[list][w->at[list]];
        if (deed->what == 0 || !in->is_possible(in->user, deed))
            continue;
        is_end = false;
        w->path_length += (size_t)snprintf(w->path + path_length, sizeof w->path - path_length,
                                           "%c%u ", deed->what, deed->who);
        w->at[list]++;
        w->steps++;
        in->act(in->user, deed);
        walk_on(w, depth + 1);
        memcpy(in->world, saved, in->bytes);
        w->at[list]--;
        w->path_length = path_length;
        w->path[path_length] = 0;
    }
    if (!is_end)
        return;
    w->orders++;
    in->finish(in->user);
}

void interleave_walk(struct tape *t, const struct interleave *in, const interleave_lists lists)
{
    struct walk *w = tape_alloc(t, sizeof *w);
    w->in = in;
    w->lists = lists;
    w->saved = tape_alloc(t, in->bytes * (INTERLEAVE_LISTS * INTERLEAVE_DEEDS + 1));
    t->note = w->path;
    walk_on(w, 0);
    t->note = NULL;
    printf("# %s: %llu interleavings, %llu steps\n", in->title, (unsigned long long)w->orders,
           (unsigned long long)w->steps);
}

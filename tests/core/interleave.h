/* interleave: every order in which the deeds of a few lists can come.
 *
 * Each list goes on in its own order; which list is next is tried in every way, by recursion with
 * copied state: whatever a deed changes lies in one block of memory, which is put back before the
 * next way is tried. A list whose next deed is not possible yet (nothing to take, nothing out) waits
 * for the others. At the end of each order the walk is told to finish: to use up what is left. */
#ifndef WEIR_TESTS_INTERLEAVE_H
#define WEIR_TESTS_INTERLEAVE_H

#include "support/tape.h"

#define INTERLEAVE_LISTS 6u
#define INTERLEAVE_DEEDS 7u

/* A letter and a digit, as they are printed: what is done, and to whom. */
struct interleave_deed {
    char what; /* 0: the list's end */
    uint8_t who;
    uint8_t work;
};

typedef struct interleave_deed interleave_lists[INTERLEAVE_LISTS][INTERLEAVE_DEEDS + 1];

struct interleave {
    const char *title; /* of what is tried, printed with how many orders there were */
    void *user;
    void *world; /* all that deeds change, bytes long */
    size_t bytes;
    bool (*is_possible)(void *user, const struct interleave_deed *deed);
    void (*act)(void *user, const struct interleave_deed *deed); /* does and checks it */
    void (*finish)(void *user);
};

/* A failed check names the order that led there, as in "a0 t0 a1". */
void interleave_walk(struct tape *t, const struct interleave *in, const interleave_lists lists);

#endif

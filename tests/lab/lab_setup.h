/* lab_setup: a property of the model over setups drawn at random.
 *
 * Whatever is drawn, every invariant of the flow and of the ledger holds after every event,
 * everything that is counted adds up, no gap passes its bound, and a second run in pieces is the
 * same. */
#ifndef WEIR_TESTS_LAB_SETUP_H
#define WEIR_TESTS_LAB_SETUP_H

#include "support/tape.h"

tape_property lab_setup_any;

#endif

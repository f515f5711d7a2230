/* backend_property: the backend that skips ahead against its twin that makes every step. On any
 * rules, troubles, joins and cancels, every event, count and token must be the same at every
 * moment. */
#ifndef WEIR_TESTS_BACKEND_PROPERTY_H
#define WEIR_TESTS_BACKEND_PROPERTY_H

#include "support/tape.h"

tape_property backend_property;

#endif

/* pages: the files of the lab page that lie in the program. */
#ifndef WEIR_CLI_PAGES_H
#define WEIR_CLI_PAGES_H

#include "gateway/pages.h"

/* Written by tools/pack_pages.mjs, or pages_none.c: none. */
extern const struct weir_pages cli_pages;

#endif

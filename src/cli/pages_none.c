#include "cli/pages.h"

const struct weir_pages cli_pages = {NULL, 0};

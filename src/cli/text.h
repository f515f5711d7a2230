/* text: amounts and times as the tables of `weir ledger` show them. Thread: any. */
#ifndef WEIR_CLI_TEXT_H
#define WEIR_CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define CLI_AMOUNT_BYTES 32 /* the longest: -9,223,372,036,854,775,808 */

/* 1234567 as "1,234,567". Returns out. */
const char *cli_amount(int64_t amount, char out[static CLI_AMOUNT_BYTES]);

#endif

#include "cli/text.h"

#include <stdio.h>

const char *cli_amount(int64_t amount, char out[static CLI_AMOUNT_BYTES])
{
    char digits[CLI_AMOUNT_BYTES];
    uint64_t size = amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount;
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)size);
    char *to = out;
    if (amount < 0)
        *to++ = '-';
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

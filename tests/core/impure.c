/* What the core must not be: it asks the clock. tools/core_symbols.sh has to refuse it. */
#include <string.h>
#include <time.h>

long impure(char *to, const char *from, size_t bytes);

long impure(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return (long)time(NULL);
}

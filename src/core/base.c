#include "core/base.h"

weir_panic_fn *weir_panic_hook;

_Noreturn void weir_panic(const char *expression, const char *file, int line)
{
    if (weir_panic_hook)
        weir_panic_hook(expression, file, line);
    __builtin_trap();
}

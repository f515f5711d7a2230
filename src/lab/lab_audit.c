#include "lab/lab_private.h"

/* On its own: the lab page's module goes without audits, which are a tenth of it. */

void lab_audit(struct weir_lab *lab)
{
    if (!lab->s->is_audited)
        return;
    weir_flow_audit(lab->flow);
    WEIR_INVARIANT(weir_ledger_audit(lab->ledger) == NULL);
}

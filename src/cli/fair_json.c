#include "cli/fair.h"

#include "cli/text.h"

static double units(uint64_t millionths)
{
    return (double)millionths / 1e6;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static json_t *edge_json(const struct weir_fair_edge *edge)
{
    return json_pack("{s:I, s:f}", "dispatches", (json_int_t)edge->dispatches, "at_s",
                     seconds(edge->at_ns));
}

static json_t *name_json(const struct fair_setup *setup, uint32_t tenant)
{
    return tenant == WEIR_NONE ? json_null() : json_string(setup->tenants[tenant].name);
}

static json_t *gap_json(const struct fair_setup *setup, const struct fair_outcome *o,
                        enum weir_fair_count count)
{
    const struct weir_fair_gap *gap = &o->result.gaps[count];
    return json_pack("{s:s, s:s, s:f, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:I}", "counted",
                     weir_fair_count_name(count), "unit",
                     count == WEIR_FAIR_REQUESTS ? "requests" : "work", "gap", units(gap->gap),
                     "bound", gap->is_bounded ? json_real(units(gap->bound)) : json_null(),
                     "published", gap->published ? json_real(units(gap->published)) : json_null(),
                     "broken", gap->is_broken, "ahead", name_json(setup, gap->ahead), "behind",
                     name_json(setup, gap->behind), "from", edge_json(&gap->from), "to",
                     edge_json(&gap->to), "seed", (json_int_t)o->gap_seeds[count]);
}

static json_t *off_json(const struct weir_fair_off *off)
{
    return json_pack("{s:f, s:f, s:I}", "served", off->served_uwork / 1e6, "ideal",
                     off->ideal_uwork / 1e6, "dispatches", (json_int_t)off->dispatches);
}

static json_t *facts_json(const struct weir_fair_facts *f)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "largest_work_per_weight",
                     units(f->work_max_uwork), "largest_work", units(f->item_max_uwork),
                     "largest_quantum", units(f->quantum_max_uwork), "largest_error_per_weight",
                     units(f->error_max_uwork), "largest_input_tok", (json_int_t)f->input_max_tok,
                     "largest_request_tok", (json_int_t)f->request_max_tok, "returns",
                     (json_int_t)f->returns);
}

static json_t *items_json(const struct fair_setup *setup, const struct fair_outcome *o)
{
    json_t *items = json_array();
    for (size_t i = 0; i < o->log.count; i++) {
        const struct fair_step *step = &o->log.steps[i];
        const struct weir_fair_item *item = &o->plan->items[step->item];
        size_t at = i * setup->tenants_count;
        json_t *served = json_array(), *ideal = json_array();
        for (uint32_t k = 0; k < setup->tenants_count; k++) {
            json_array_append_new(served, json_real(o->log.served[at + k]));
            json_array_append_new(ideal, json_real(o->log.ideal[at + k]));
        }
        json_array_append_new(
            items,
            json_pack("{s:I, s:f, s:s, s:f, s:f, s:o, s:o}", "dispatch",
                      (json_int_t)step->dispatches, "at_s", seconds(step->at_ns), "tenant",
                      setup->tenants[item->tenant].name, "work",
                      units(weir_fair_work_uwork(item->input_tok, item->output_tok)), "estimate",
                      units(item->estimate_uwork), "served", served, "ideal", ideal));
    }
    return items;
}

static json_t *outcome_json(const struct fair_report *r, const struct fair_outcome *o)
{
    json_t *gaps = json_array(), *tenants = json_array();
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
        json_array_append_new(gaps, gap_json(r->setup, o, (enum weir_fair_count)c));
    json_t *all = json_pack(
        "{s:s, s:b, s:b, s:b, s:I, s:I, s:o}", "policy", weir_fair_policy_name(o->policy),
        "bounded", o->result.is_bounded, "broken", o->result.is_broken, "counterexample",
        fair_is_counterexample(r->setup, o->policy), "broken_seeds", (json_int_t)o->broken_seeds,
        "contended_dispatches", (json_int_t)o->result.contended, "gaps", gaps);
    for (uint32_t i = 0; i < r->setup->tenants_count; i++) {
        const struct weir_fair_tenant *t = &o->result.tenants[i];
        json_array_append_new(tenants, json_pack("{s:s, s:I, s:f, s:o, s:o}", "name",
                                                 r->setup->tenants[i].name, "requests",
                                                 (json_int_t)t->items, "work", units(t->work_uwork),
                                                 "farthest_behind", off_json(&t->behind),
                                                 "farthest_ahead", off_json(&t->ahead)));
    }
    if (r->setup->seeds > 1) { /* of one run only */
        json_decref(tenants);
        return all;
    }
    json_object_set_new(all, "facts", facts_json(&o->result.facts));
    json_object_set_new(all, "end_s", json_real(seconds(o->result.end_ns)));
    json_object_set_new(all, "tenants", tenants);
    if (r->wants_items)
        json_object_set_new(all, "items", items_json(r->setup, o));
    return all;
}

bool fair_show_json(const struct fair_report *r)
{
    const struct fair_setup *s = r->setup;
    json_t *tenants = json_array(), *policies = json_array();
    for (uint32_t i = 0; i < s->tenants_count; i++)
        json_array_append_new(tenants, json_pack("{s:s, s:I, s:I}", "name", s->tenants[i].name,
                                                 "weight", (json_int_t)s->tenants[i].weight,
                                                 "backlog", (json_int_t)s->tenants[i].backlog));
    for (uint32_t i = 0; i < r->count; i++)
        json_array_append_new(policies, outcome_json(r, &r->outcomes[i]));
    return cli_print_json(json_pack("{s:o, s:I, s:I, s:I, s:s?, s:s?, s:s?, s:s, s:s, s:b, s:o}",
                                    "tenants", tenants, "permits", (json_int_t)s->permits, "seed",
                                    (json_int_t)s->seed, "seeds", (json_int_t)r->runs, "cost",
                                    s->cost_text, "input", s->input_text, "output", s->output_text,
                                    "arrivals", s->arrivals_text, "estimates", s->estimates_text,
                                    "broken", fair_is_broken(r), "policies", policies));
}

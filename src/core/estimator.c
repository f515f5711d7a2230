#include "core/estimator.h"

#include <string.h>

#include "core/num.h"

/* Ratios are in 65,536ths. */
#define RATIO_ONE UINT32_C(65536)
#define RATIO_NEW (RATIO_ONE * 6 / 5)
#define RATIO_MIN (RATIO_ONE / 4)
#define RATIO_MAX (RATIO_ONE * 8)
/* Text below this many base tokens teaches more about framing than about the text. */
#define LEARN_MIN_MTOK 32000
#define PAIR_WAYS 4
/* Averages of output are kept in sixteenths of a token, so that rounding does not hold them still.
 */
#define OUTPUT_UNIT 16

#define FRAME_MESSAGE_TOK                                                                          \
    4 /* the provider's published rule: 4 a message and 3 for the answer's start */
#define FRAME_REQUEST_TOK 3
#define FRAME_TOOL_TOK 16
#define IMAGE_BASE_TOK                                                                             \
    170 /* a sized image: this, and a token for each 750 px, up to the maximum                     \
         */
#define IMAGE_PX_PER_TOK 750
#define IMAGE_MAX_TOK 3200

const uint32_t weir_coverage_percent[WEIR_COVERAGE_BINS - 1] = {25,  50,  75,  90,  100, 110, 125,
                                                                150, 200, 300, 400, 800, 1600};

/* One remembered pair; tenant_1 is the tenant + 1, so that zero memory is an empty table. */
struct estimator_pair {
    uint32_t tenant_1;
    uint32_t generation;
    uint32_t model;
    uint32_t used; /* of the table's clock */
    uint32_t ratio;
    uint32_t inputs; /* samples of the ratio, up to its maximum */
    uint32_t output_16;
    uint32_t outputs;
};

struct estimator_model {
    struct weir_model_rules rules;
    uint32_t ratio; /* 0: none yet */
    struct weir_coverage coverage;
};

struct weir_estimator {
    struct weir_estimator_rules rules;
    uint32_t sets; /* a power of two */
    uint32_t clock;
    struct estimator_model *models;
    struct estimator_pair *pairs;
};

static uint32_t estimator_sets(const struct weir_estimator_rules *rules)
{
    uint32_t sets = 1;
    while (sets < UINT32_C(1) << 28 && (uint64_t)sets * PAIR_WAYS < rules->pairs_max)
        sets *= 2;
    return sets;
}

static size_t estimator_align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

size_t weir_estimator_bytes(const struct weir_estimator_rules *rules)
{
    return estimator_align(sizeof(struct weir_estimator)) +
           estimator_align(sizeof(struct estimator_model) * rules->models_max) +
           sizeof(struct estimator_pair) * PAIR_WAYS * estimator_sets(rules);
}

struct weir_estimator *weir_estimator_init(void *mem, size_t bytes,
                                           const struct weir_estimator_rules *rules)
{
    WEIR_INVARIANT(bytes >= weir_estimator_bytes(rules));
    WEIR_INVARIANT(rules->quantile_permille >= 500);
    WEIR_INVARIANT(rules->quantile_permille <= 999);
    struct weir_estimator *e = mem;
    unsigned char *at = mem;
    e->rules = *rules;
    e->sets = estimator_sets(rules);
    e->clock = 0;
    at += estimator_align(sizeof *e);
    e->models = (struct estimator_model *)(void *)at;
    at += estimator_align(sizeof(struct estimator_model) * rules->models_max);
    e->pairs = (struct estimator_pair *)(void *)at;
    return e;
}

void weir_estimator_model_set(struct weir_estimator *e, uint32_t model,
                              const struct weir_model_rules *rules)
{
    WEIR_INVARIANT(model < e->rules.models_max);
    e->models[model].rules = *rules;
}

static struct estimator_pair *estimator_set_of(const struct weir_estimator *e,
                                               struct weir_estimator_pair pair)
{
    uint64_t mix = ((uint64_t)pair.tenant << 32 | pair.model) * UINT64_C(0x9E3779B97F4A7C15);
    mix = (mix ^ mix >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    return &e->pairs[(size_t)((mix >> 32) & (e->sets - 1)) * PAIR_WAYS];
}

static struct estimator_pair *estimator_find(const struct weir_estimator *e,
                                             struct weir_estimator_pair pair)
{
    struct estimator_pair *set = estimator_set_of(e, pair);
    for (uint32_t way = 0; way < PAIR_WAYS; way++)
        if (set[way].tenant_1 == pair.tenant + 1 && set[way].model == pair.model &&
            set[way].generation == pair.generation)
            return &set[way];
    return NULL;
}

/* The pair's place, made by turning out the least recently used of its set if need be. */
static struct estimator_pair *estimator_place(struct weir_estimator *e,
                                              struct weir_estimator_pair pair)
{
    struct estimator_pair *place = estimator_find(e, pair);
    if (place)
        return place;
    struct estimator_pair *set = estimator_set_of(e, pair);
    place = &set[0];
    for (uint32_t way = 0; way < PAIR_WAYS && place->tenant_1 != 0; way++)
        if (set[way].tenant_1 == 0 || e->clock - set[way].used > e->clock - place->used)
            place = &set[way];
    uint32_t ratio = e->models[pair.model].ratio;
    *place = (struct estimator_pair){.tenant_1 = pair.tenant + 1,
                                     .generation = pair.generation,
                                     .model = pair.model,
                                     .ratio = ratio ? ratio : RATIO_NEW};
    return place;
}

/* Thousandths of a token, by class. From measured texts: English 1.2 tokens a word with its
 * punctuation, long runs of letters 8 bytes a token, digits 2, punctuation 1.5, base64 and hex 1.4;
 * other scripts between the newer and the older tokenizers, nearer to the dearer one. The learned
 * ratio does the rest. */
static uint64_t estimate_text_mtok(const struct weir_text_classes *t)
{
    uint64_t mtok = (uint64_t)t->words * 600 + (uint64_t)t->letters * 130;
    mtok += (uint64_t)t->digits * 500 + (uint64_t)t->punct * 700 + (uint64_t)t->space * 80;
    mtok += (uint64_t)t->mixed * 715;
    mtok += (uint64_t)t->cyrillic * 400 + (uint64_t)t->greek * 800 + (uint64_t)t->other2 * 700;
    mtok += (uint64_t)t->cjk * 950 + (uint64_t)t->other3 * 1200 + (uint64_t)t->wide4 * 2500;
    return mtok;
}

static uint64_t estimate_media_tok(const struct weir_text_classes *t,
                                   const struct weir_model_rules *rules)
{
    uint64_t unsized_images = t->images > t->images_sized ? t->images - t->images_sized : 0;
    uint64_t sized_tok =
        weir_min_u64((uint64_t)t->images_sized * IMAGE_BASE_TOK + t->image_px / IMAGE_PX_PER_TOK,
                     (uint64_t)t->images_sized * IMAGE_MAX_TOK);
    uint64_t others = (uint64_t)t->files + t->audios;
    uint64_t each_max =
        WEIR_TOK_MAX >> 34; /* counts have 32 bits: no product can pass the maximum */
    return sized_tok + unsized_images * weir_min_u64(rules->image_tok, each_max) +
           others * weir_min_u64(rules->file_tok, each_max);
}

static uint64_t estimate_cap(uint64_t tok)
{
    return weir_min_u64(tok, (uint64_t)WEIR_TOK_MAX / 4);
}

static uint64_t estimate_input_text(const struct weir_estimator *e,
                                    const struct estimator_pair *known, uint32_t model,
                                    const struct weir_estimate_want *want, uint64_t text_mtok)
{
    /* Tokenizers end at bytes: none makes more tokens than there are, and for single digits with
     * blanks between, or for rare scripts, they make as many. */
    uint64_t bytes = estimate_cap(want->text.text_bytes);
    if (want->strict)
        return bytes;
    uint32_t ratio = known ? known->ratio : e->models[model].ratio;
    if (ratio == 0)
        ratio = RATIO_NEW;
    /* 14 classes of 32 bits at up to 2,500: below 2^48; times a ratio below 2^20 it would wrap. */
    uint64_t tok = ((text_mtok + 999) / 1000 * ratio + RATIO_ONE - 1) / RATIO_ONE;
    return weir_min_u64(weir_max_u64(tok, (bytes + 7) / 8), bytes);
}

void weir_estimator_estimate(const struct weir_estimator *e, struct weir_estimator_pair pair,
                             const struct weir_estimate_want *want, struct weir_estimate *estimate)
{
    WEIR_INVARIANT(pair.model < e->rules.models_max);
    const struct weir_text_classes *t = &want->text;
    const struct weir_model_rules *rules = &e->models[pair.model].rules;
    const struct estimator_pair *known = estimator_find(e, pair);
    uint64_t choices = want->choices ? want->choices : 1;

    estimate->text_mtok = estimate_text_mtok(t);
    estimate->fixed_tok = estimate_cap(want->extra_input_tok) + estimate_media_tok(t, rules) +
                          (uint64_t)t->messages * FRAME_MESSAGE_TOK + FRAME_REQUEST_TOK +
                          (uint64_t)t->tools * FRAME_TOOL_TOK + t->token_ids;
    estimate->input_tok = estimate_cap(
        estimate->fixed_tok + estimate_input_text(e, known, pair.model, want, estimate->text_mtok));
    estimate->can_learn = t->images == 0 && t->files == 0 && t->audios == 0 &&
                          want->extra_input_tok == 0 && estimate->text_mtok >= LEARN_MIN_MTOK;
    estimate->output_tok = 0;
    estimate->predicted_tok = 0;
    if (want->no_output)
        return;
    uint64_t limit_tok =
        estimate_cap(want->output_limit_tok ? want->output_limit_tok : rules->output_default_tok);
    estimate->output_tok = limit_tok > estimate_cap(UINT64_MAX) / choices ? estimate_cap(UINT64_MAX)
                                                                          : limit_tok * choices;
    if (known && known->outputs)
        estimate->predicted_tok =
            weir_min_u64(estimate->output_tok, known->output_16 / OUTPUT_UNIT * choices);
}

/* Stochastic approximation of a quantile: up by its share of a step, down by the rest, so that it
 * comes to rest where the chosen share of samples lies below. The step is a sixteenth of the value.
 */
static void quantile_step(uint32_t *quantile, uint64_t sample, uint32_t permille)
{
    uint32_t step = *quantile / 16;
    uint32_t up = step * permille / 1000, down = step - up;
    *quantile = sample > *quantile ? *quantile + up : *quantile - (down ? down : 1);
    if (*quantile < RATIO_MIN)
        *quantile = RATIO_MIN;
    if (*quantile > RATIO_MAX)
        *quantile = RATIO_MAX;
}

static void estimator_learn_input(struct weir_estimator *e, struct estimator_pair *place,
                                  const struct weir_estimate *estimate, uint64_t actual_tok)
{
    struct weir_coverage *coverage = &e->models[place->model].coverage;
    coverage->samples++;
    coverage->under += estimate->input_tok < actual_tok;
    uint64_t percent = estimate_cap(estimate->input_tok) * 100 / (actual_tok ? actual_tok : 1);
    uint32_t bin = 0;
    while (bin < WEIR_COVERAGE_BINS - 1 && percent >= weir_coverage_percent[bin])
        bin++;
    coverage->bins[bin]++;
    if (!estimate->can_learn)
        return;
    uint64_t text_tok = actual_tok > estimate->fixed_tok ? actual_tok - estimate->fixed_tok : 0;
    /* Rounded up: a ratio a hair too small would under-estimate the same text for ever. */
    uint64_t sample =
        (estimate_cap(text_tok) / 1000 >= UINT64_MAX / RATIO_ONE / 1000000)
            ? RATIO_MAX
            : (text_tok * 1000 * RATIO_ONE + estimate->text_mtok - 1) / estimate->text_mtok;
    uint32_t permille = e->rules.quantile_permille;
    quantile_step(&place->ratio, sample, permille);
    uint32_t *model_ratio = &e->models[place->model].ratio;
    if (*model_ratio == 0)
        *model_ratio = RATIO_NEW;
    quantile_step(model_ratio, sample, permille);
    place->inputs += place->inputs < UINT32_MAX;
}

static void estimator_learn_output(struct estimator_pair *place, uint64_t output_tok,
                                   uint32_t choices)
{
    uint64_t each_16 = output_tok / (choices ? choices : 1);
    each_16 = weir_min_u64(each_16, UINT32_MAX / OUTPUT_UNIT) * OUTPUT_UNIT;
    place->output_16 = place->outputs == 0
                           ? (uint32_t)each_16
                           : (uint32_t)(((uint64_t)place->output_16 * 4 + each_16 + 2) / 5);
    place->outputs += place->outputs < UINT32_MAX;
}

void weir_estimator_learn(struct weir_estimator *e, struct weir_estimator_pair pair,
                          const struct weir_estimate *estimate,
                          const struct weir_estimate_actual *actual)
{
    WEIR_INVARIANT(pair.model < e->rules.models_max);
    struct estimator_pair *place = estimator_place(e, pair);
    place->used = ++e->clock;
    if (actual->input_tok >= 0)
        estimator_learn_input(e, place, estimate, (uint64_t)actual->input_tok);
    if (actual->output_tok >= 0)
        estimator_learn_output(place, (uint64_t)actual->output_tok, actual->choices);
}

void weir_estimator_coverage(const struct weir_estimator *e, uint32_t model,
                             struct weir_coverage *coverage)
{
    WEIR_INVARIANT(model < e->rules.models_max);
    *coverage = e->models[model].coverage;
}

uint32_t weir_coverage_percent_at(const struct weir_coverage *coverage, uint32_t permille)
{
    WEIR_INVARIANT(permille <= 1000);
    uint64_t below = 0, want = weir_muldiv_ceil(coverage->samples, permille, 1000);
    if (coverage->samples == 0)
        return 0;
    for (uint32_t bin = 0; bin < WEIR_COVERAGE_BINS - 1; bin++) {
        below += coverage->bins[bin];
        if (below >= want)
            return weir_coverage_percent[bin];
    }
    return UINT32_MAX;
}

uint64_t weir_estimate_output_tok(uint64_t output_bytes)
{
    return output_bytes / 3 + (output_bytes % 3 != 0);
}

#include "measure/playback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "measure/prompt.h"

/* A tenant's shared front has a seed that no request's number reaches. */
#define PLAYBACK_SHARED_SEED (UINT64_C(1) << 63)

/* A request under way: its body, and which one it is. */
struct playback_flight {
    struct weir_playback *playback;
    size_t index;
    char body[];
};

struct weir_playback {
    struct weir_loop *loop;
    struct weir_load *load;
    struct weir_playback_rules rules;
    const struct weir_playback_item *items;
    struct weir_playback_result *results;
    size_t count, next; /* items before next were begun */
    void (*over)(void *ctx);
    void *ctx;
    uint64_t start_ns;    /* 0: not started */
    struct weir_io alarm; /* a timerfd: the intended time of the next one */
    struct weir_timer over_timer;
    bool is_capped; /* the next one is due and was not let in */
    uint32_t failures_in_a_row;
    struct weir_playback_view view;
    char codes[WEIR_PLAYBACK_CODES_MAX][WEIR_LOAD_CODE_BYTES];
    uint32_t codes_count;
};

enum weir_playback_kind weir_playback_kind(const struct weir_playback_result *result)
{
    if (result->state != WEIR_PLAYBACK_ENDED || result->end == WEIR_LOAD_CANCELLED)
        return WEIR_PLAYBACK_OPEN;
    if (result->end == WEIR_LOAD_OK)
        return WEIR_PLAYBACK_OK;
    /* A gateway's 400, 401 and 404 say that the request is wrong, and will be the next time too. */
    bool is_gateways = result->from_gateway && result->status != 400 && result->status != 401 &&
                       result->status != 404;
    return result->end == WEIR_LOAD_429 || is_gateways ? WEIR_PLAYBACK_REFUSED
                                                       : WEIR_PLAYBACK_FAILED;
}

/* ---- the end ---- */

static void playback_over(struct weir_timer *timer)
{
    struct weir_playback *r =
        (struct weir_playback *)((char *)timer - offsetof(struct weir_playback, over_timer));
    r->over(r->ctx);
}

static void playback_finish(struct weir_playback *r, enum weir_playback_stop why)
{
    if (r->view.stop != WEIR_PLAYBACK_GOES_ON)
        return;
    r->view.stop = why;
    r->view.now_ns = weir_loop_clock_ns() - r->start_ns;
    if (r->is_capped) /* those that are due and will not be sent any more */
        for (size_t i = r->next; i < r->count && r->items[i].arrival_ns <= r->view.now_ns; i++)
            r->view.held++;
    weir_load_stop(r->load);
    weir_timer_set(r->loop, &r->over_timer, 0);
}

void weir_playback_stop(struct weir_playback *playback)
{
    if (playback->start_ns != 0)
        playback_finish(playback, WEIR_PLAYBACK_STOPPED);
}

/* ---- sending ---- */

static struct playback_flight *playback_flight_make(struct weir_playback *r, size_t index,
                                                    size_t *body_bytes)
{
    const struct weir_playback_item *item = &r->items[index];
    const struct weir_prompt_wish wish = {
        .api = r->rules.load.endpoint->api,
        .model = r->rules.models[item->model],
        .prompt_tok = (uint32_t)weir_min_u64(item->prompt_tok, WEIR_PROMPT_TOK_MAX),
        .output_tok = item->output_tok,
        .is_stream = item->is_stream,
        .has_modern_limit = r->rules.has_modern_limit,
        .seed = r->rules.seed + index,
        .shared_seed = (r->rules.seed + item->tenant) | PLAYBACK_SHARED_SEED,
        .shared_tok = item->shared_tok};
    struct playback_flight *flight = malloc(sizeof *flight + weir_prompt_bytes(&wish));
    if (!flight)
        return NULL;
    flight->playback = r;
    flight->index = index;
    *body_bytes = weir_prompt_write(&wish, flight->body);
    return flight;
}

/* false: not now; it is tried again when one ends. */
static bool playback_begin(struct weir_playback *r, size_t index)
{
    const struct weir_playback_item *item = &r->items[index];
    struct weir_playback_result *result = &r->results[index];
    size_t body_bytes;
    if (r->view.in_flight >= r->rules.load.in_flight_max)
        return false;
    struct playback_flight *flight = playback_flight_make(r, index, &body_bytes);
    if (!flight)
        return false;
    const struct weir_load_ask ask = {.body = flight->body,
                                      .body_bytes = body_bytes,
                                      .key_index = item->key,
                                      .intended_ns =
                                          weir_add_sat_u64(r->start_ns, item->arrival_ns),
                                      .user = flight};
    if (!weir_load_begin(r->load, &ask)) {
        free(flight);
        return false;
    }
    *result = (struct weir_playback_result){.state = WEIR_PLAYBACK_IN_FLIGHT,
                                            .begun_ns = weir_loop_clock_ns() - r->start_ns,
                                            .is_held = r->is_capped};
    r->view.begun++;
    r->view.in_flight++;
    r->view.held += r->is_capped;
    if (!r->is_capped && result->begun_ns - item->arrival_ns > r->view.lag_max_ns)
        r->view.lag_max_ns = result->begun_ns - item->arrival_ns;
    return true;
}

static void playback_alarm_set(struct weir_playback *r)
{
    uint64_t due_ns = weir_add_sat_u64(r->start_ns, r->items[r->next].arrival_ns);
    const struct itimerspec when = {.it_value = {.tv_sec = (time_t)(due_ns / WEIR_NS_PER_S),
                                                 .tv_nsec = (long)(due_ns % WEIR_NS_PER_S)}};
    if (timerfd_settime(r->alarm.fd, TFD_TIMER_ABSTIME, &when, NULL) != 0)
        playback_finish(r, WEIR_PLAYBACK_FAULT);
}

/* Begins everything that is due. */
static void playback_send(struct weir_playback *r)
{
    uint64_t now_ns = weir_loop_clock_ns() - r->start_ns;
    while (r->next < r->count) {
        if (r->items[r->next].arrival_ns > now_ns) {
            /* sending took time meanwhile: what became due is sent now, and not one alarm later */
            now_ns = weir_loop_clock_ns() - r->start_ns;
            if (r->items[r->next].arrival_ns > now_ns)
                break;
        }
        if (!playback_begin(r, r->next)) {
            r->is_capped = true; /* an end sends on */
            if (r->view.in_flight == 0)
                playback_finish(r, WEIR_PLAYBACK_FAULT);
            return;
        }
        r->next++;
        if (r->is_capped && (r->next == r->count || r->items[r->next].arrival_ns > now_ns))
            r->is_capped = false;
    }
    if (r->next < r->count)
        playback_alarm_set(r);
    else if (r->view.in_flight == 0)
        playback_finish(r, WEIR_PLAYBACK_DONE);
}

static void playback_alarm(struct weir_io *io, uint32_t events)
{
    struct weir_playback *r =
        (struct weir_playback *)((char *)io - offsetof(struct weir_playback, alarm));
    (void)events; /* setting it again forgets the expiry: nothing has to be read */
    if (r->view.stop == WEIR_PLAYBACK_GOES_ON && !r->is_capped)
        playback_send(r);
}

/* ---- what came of it ---- */

static uint8_t playback_code_index(struct weir_playback *r, const char *code)
{
    for (uint32_t i = 0; i < r->codes_count; i++)
        if (strcmp(r->codes[i], code) == 0)
            return (uint8_t)i;
    if (r->codes_count == WEIR_PLAYBACK_CODES_MAX)
        return WEIR_PLAYBACK_CODES_MAX - 1;
    snprintf(r->codes[r->codes_count], sizeof r->codes[0], "%s",
             r->codes_count == WEIR_PLAYBACK_CODES_MAX - 1 ? "other" : code);
    return (uint8_t)r->codes_count++;
}

static uint64_t playback_since(const struct weir_playback *r, uint64_t at_ns)
{
    return at_ns ? at_ns - r->start_ns : 0;
}

static uint32_t playback_tok(uint64_t tok)
{
    return (uint32_t)weir_min_u64(tok, UINT32_MAX);
}

static void playback_count(struct weir_playback *r, const struct weir_playback_result *result)
{
    r->view.ended++;
    switch (weir_playback_kind(result)) {
    case WEIR_PLAYBACK_OPEN:
        return;
    case WEIR_PLAYBACK_OK:
        r->view.ok++;
        r->failures_in_a_row = 0;
        return;
    case WEIR_PLAYBACK_REFUSED:
        r->view.refused++;
        r->failures_in_a_row = 0;
        return;
    case WEIR_PLAYBACK_FAILED:
        r->view.failed++;
        r->view.last_failure = (enum weir_load_end)result->end;
        r->failures_in_a_row++;
        return;
    }
}

static void playback_ended(void *ctx, void *user, const struct weir_load_record *record)
{
    struct weir_playback *r = ctx;
    struct playback_flight *flight = user;
    struct weir_playback_result *result = &r->results[flight->index];
    result->state = WEIR_PLAYBACK_ENDED;
    result->sent_ns = playback_since(r, record->sent_ns);
    result->head_ns = playback_since(r, record->head_ns);
    result->first_token_ns = playback_since(r, record->first_token_ns);
    result->end_ns = playback_since(r, record->end_ns);
    result->hint_ns = record->hint.has_wait ? record->hint.wait_ns : 0;
    result->is_usage_known = record->usage_known;
    result->input_tok = playback_tok(record->input_tok);
    result->cached_tok = playback_tok(record->cached_tok);
    result->output_tok = playback_tok(record->output_tok);
    result->status = record->status;
    result->end = (uint8_t)record->end;
    result->from_gateway = record->from_gateway;
    result->code = playback_code_index(r, record->code);
    r->view.in_flight--;
    free(flight);
    playback_count(r, result);
    if (r->view.stop != WEIR_PLAYBACK_GOES_ON)
        return;
    if (r->rules.failures_max > 0 && r->failures_in_a_row >= r->rules.failures_max)
        playback_finish(r, WEIR_PLAYBACK_HOPELESS);
    else if (r->is_capped)
        playback_send(r);
    else if (r->next == r->count && r->view.in_flight == 0)
        playback_finish(r, WEIR_PLAYBACK_DONE);
}

/* ---- life ---- */

struct weir_playback *weir_playback_create(struct weir_loop *loop,
                                           const struct weir_playback_rules *rules,
                                           const struct weir_playback_item *items,
                                           struct weir_playback_result *results, size_t count,
                                           void (*over)(void *ctx), void *ctx, char *error_text,
                                           size_t error_bytes)
{
    WEIR_INVARIANT(count > 0);
    struct weir_playback *r = malloc(sizeof *r);
    snprintf(error_text, error_bytes, "out of memory");
    if (!r)
        return NULL;
    *r = (struct weir_playback){.loop = loop,
                                .rules = *rules,
                                .items = items,
                                .results = results,
                                .count = count,
                                .over = over,
                                .ctx = ctx,
                                .alarm = {.fd = -1, .ready = playback_alarm},
                                .over_timer = {.fire = playback_over},
                                .codes_count = 1};
    memset(results, 0, count * sizeof *results);
    r->load = weir_load_create(loop, &rules->load, playback_ended, r, error_text, error_bytes);
    if (r->load) {
        r->alarm.fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
        if (r->alarm.fd >= 0 && weir_loop_add(loop, &r->alarm) == 0)
            return r;
        snprintf(error_text, error_bytes, "no timer: %s", strerror(errno));
    }
    if (r->alarm.fd >= 0)
        close(r->alarm.fd);
    weir_load_destroy(r->load);
    free(r);
    return NULL;
}

void weir_playback_destroy(struct weir_playback *playback)
{
    if (!playback)
        return;
    WEIR_INVARIANT(playback->view.in_flight == 0);
    weir_timer_cancel(playback->loop, &playback->over_timer);
    weir_loop_close(playback->loop, &playback->alarm);
    weir_load_destroy(playback->load);
    free(playback);
}

void weir_playback_start(struct weir_playback *playback)
{
    playback->start_ns = weir_loop_clock_ns();
    playback_alarm_set(playback); /* also for what is due at once: it is sent from the loop */
}

void weir_playback_view(const struct weir_playback *playback, struct weir_playback_view *view)
{
    struct weir_load_view load;
    weir_load_view(playback->load, &load);
    *view = playback->view;
    if (view->stop == WEIR_PLAYBACK_GOES_ON && playback->start_ns != 0)
        view->now_ns = weir_loop_clock_ns() - playback->start_ns;
    view->in_flight_peak = load.in_flight_peak;
    view->turn_max_ns = load.turn_max_ns;
    view->connects = load.connects;
}

const char *weir_playback_code(const struct weir_playback *playback, uint32_t code)
{
    return playback->codes[code];
}

uint32_t weir_playback_codes_count(const struct weir_playback *playback)
{
    return playback->codes_count;
}

const struct weir_load *weir_playback_load(const struct weir_playback *playback)
{
    return playback->load;
}

#include "mock/mock.h"

#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

struct serve {
    struct weir_loop *loop;
    struct weir_io signal_io;
};

static void serve_on_signal(struct weir_io *io, uint32_t events)
{
    (void)events;
    struct serve *s = (struct serve *)((char *)io - offsetof(struct serve, signal_io));
    weir_loop_stop(s->loop);
}

static bool serve_open(struct serve *s)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    *s = (struct serve){.loop = weir_loop_create(),
                        .signal_io = {.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC),
                                      .ready = serve_on_signal}};
    return s->loop && s->signal_io.fd >= 0 && weir_loop_add(s->loop, &s->signal_io) == 0;
}

static void serve_close(struct serve *s)
{
    if (s->loop && s->signal_io.fd >= 0)
        weir_loop_close(s->loop, &s->signal_io);
    weir_loop_destroy(s->loop);
}

int weir_mock_serve(const struct weir_mock_config *config)
{
    struct serve s;
    char error_text[512] = "out of memory or descriptors";
    struct weir_mock *m = NULL;
    int status = 2;
    if (serve_open(&s))
        m = weir_mock_open(s.loop, config, error_text, sizeof error_text);
    if (m) {
        if (config->ready)
            config->ready(weir_mock_port(m));
        status = weir_loop_run(s.loop) == 0 ? 0 : 3;
    } else {
        fprintf(stderr, "weir mock: %s\n", error_text);
    }
    weir_mock_close(m);
    serve_close(&s);
    return status;
}

#!/usr/bin/env python3
"""Kill, stall and cut, at every phase, on both sides.

After each: nothing is left in the gateway (by its own count), the upstream's socket is closed within a
second once the client went, the charge is by the rules, and no sanitizer has spoken. The rules of charge:
nothing sent is nothing charged; the provider's usage where it was told; nothing for an upstream's 4xx and
5xx; else never zero."""
import json
import random
import threading
import time

import scripts
from rig import (CHAT, GONE_S, LONG, MESSAGES, Client, Deaf, Gateway, Upstream, ask, body_of, check,
                 check_equal, claim, closed_port, head_of, request_of, run, until)

STALL_S = 0.5
CONFIG = '''
limits: {{client_stall: 500ms, head_time: 5s, drain_queue: 1s, drain_streams: 1s}}
upstreams:
- {{name: main, url: 'http://127.0.0.1:{main}/v1', models: [m], max_in_flight: 500, {calm}}}
- {{name: one, url: 'http://127.0.0.1:{main}/v1', models: [one], max_in_flight: 1, {calm}}}
- {{name: drained, url: 'http://127.0.0.1:{main}/v1', models: [drained], on_client_gone: drain, {calm}}}
- {{name: short, url: 'http://127.0.0.1:{main}/v1', models: [short], {calm},
   timeouts: {{first_byte: 200ms, first_byte_whole: 200ms, idle: 200ms}}}}
- {{name: total, url: 'http://127.0.0.1:{main}/v1', models: [total], {calm}, timeouts: {{total: 300ms}}}}
- {{name: loose, url: 'http://127.0.0.1:{main}/v1', models: [loose], {calm}}}
- {{name: refused, url: 'http://127.0.0.1:{refused}/v1', models: [refused], {calm}}}
- {{name: deaf, url: 'http://127.0.0.1:{deaf}/v1', models: [deaf], {calm}, timeouts: {{connect: 30s}}}}
- {{name: deaf-short, url: 'http://127.0.0.1:{deaf}/v1', models: [deaf-short], {calm},
   timeouts: {{connect: 200ms}}}}
- {{name: slam-fin, url: 'http://127.0.0.1:{slam_fin}/v1', models: [slam-fin], {calm}}}
- {{name: slam-rst, url: 'http://127.0.0.1:{slam_rst}/v1', models: [slam-rst], {calm}}}
- {{name: mute, url: 'http://127.0.0.1:{mute}/v1', models: [mute], {calm}, timeouts: {{write: 30s}}}}
- {{name: mute-short, url: 'http://127.0.0.1:{mute}/v1', models: [mute-short], {calm},
   timeouts: {{write: 200ms}}}}
'''
CALM = 'breaker: {failures: 0, failure_percent: 0}'  # the breaker has tests of its own
BIG = 31 * 1024 * 1024


class World:
    """One gateway and its upstreams, for all tests here."""

    def __init__(self):
        self.main = Upstream(scripts.serve)
        self.slam_fin = Upstream(lambda link: link.close('fin'))
        self.slam_rst = Upstream(lambda link: link.close('rst'))
        self.released = threading.Event()
        self.mute = Upstream(self._mute, receive_bytes=4096)
        self.deaf = Deaf()
        self.refused = closed_port()
        self.gateway = Gateway(CONFIG.format(
            main=self.main.port, slam_fin=self.slam_fin.port, slam_rst=self.slam_rst.port,
            mute=self.mute.port, deaf=self.deaf.port, refused=self.refused.getsockname()[1], calm=CALM))
        self.lines_before = 0

    def _mute(self, link):
        """Reads nothing of the request until its writer has given up."""
        self.released.wait(30)
        link.wait_closed()

    def begin(self):
        self.gateway.check_idle()
        self.lines_before = len(self.gateway.log_lines())
        self.main.forget()
        self.mute.forget()
        self.released.clear()

    def client(self, data, **more):
        client = Client(self.gateway.address, **more)
        client.send(data)
        return client

    def ask(self, data):
        return ask(self.gateway, data)

    def link(self):
        """The one upstream connection that the test at hand has caused."""
        return until('a request at the upstream', lambda: self.main.requests())[-1].link

    def check_closed(self, link, since_s):
        until('the upstream call is closed', lambda: link.closed_s)
        took_s = link.closed_s - since_s
        check(took_s < GONE_S, 'the upstream was closed only after %.3f s' % took_s)

    def end(self, tokens=None, estimated=None, outcome=None, reason=None, status=None):
        """All is zero, and the access log's line is as told. tokens: a count, or a test of it."""
        self.gateway.check_idle()
        check(not self.main.failures, ''.join(self.main.failures))
        line = self.gateway.next_line(self.lines_before)
        charged = line['charged_tokens']
        fine = tokens(charged) if callable(tokens) else tokens is None or charged == tokens
        check(fine, 'charged %d: %r' % (charged, line))
        for key, want in (('estimated', estimated), ('outcome', outcome), ('reason', reason),
                          ('status', status)):
            check(want is None or line[key] == want, '%s is not %r: %r' % (key, want, line))
        return line


def more_than_zero(tokens):
    return tokens > 0


GONE_WAYS = ('fin', 'rst', 'half')


def each_gone(name):
    """A claim for each way in which a client leaves, and each API where that may matter."""
    def mark(function):
        for how in GONE_WAYS:
            claim('client gone (%s) %s' % (how, name))(
                lambda world, how=how: function(world, how))
        return function
    return mark


# ---- the client leaves ----

@each_gone('at every byte of its request: nothing is sent, nothing is left')
def gone_at_every_byte(world, how):
    world.begin()
    request = request_of('whole')
    for end in range(1, len(request), 1 if LONG else 3):
        client = world.client(request[:end])
        client.close(how)
        if how == 'half':
            client.read_to_end()
            client.close()
    world.gateway.check_idle()
    until('all client connections are closed', lambda: world.gateway.is_at(connections=0))
    check_equal(len(world.main.requests()), 0, 'requests at the upstream')


@each_gone('while a 31 MiB body is half way')
def gone_in_body(world, how):
    world.begin()
    body = body_of(pad=BIG)
    client = world.client(head_of(len(body), script='whole') + body[:BIG // 2])
    client.close(how)
    until('the connection is closed', lambda: world.gateway.is_at(connections=0))
    world.gateway.check_idle()
    check_equal(len(world.main.requests()), 0, 'requests at the upstream')


@each_gone('while queued')
def gone_queued(world, how):
    world.begin()
    first = world.client(request_of('hold', model='one'))
    world.link()
    second = world.client(request_of('whole', model='one'))
    world.gateway.wait_at(waiting=1)
    second.close(how)
    world.gateway.wait_at(waiting=0, in_flight=1)
    line = world.gateway.next_line(world.lines_before)
    check_equal((line['charged_tokens'], line['outcome'], line['attempts']), (0, 'client_gone', 0),
                'the line of who left the queue')
    check_equal(len(world.main.requests()), 1, 'requests at the upstream')
    world.lines_before += 1
    first.close()
    world.end(more_than_zero, True, 'client_gone')


@each_gone('while the upstream is being connected to')
def gone_connecting(world, how):
    world.begin()
    client = world.client(request_of(model='deaf'))
    world.gateway.wait_at(in_flight=1)
    client.close(how)
    world.gateway.wait_at(GONE_S, in_flight=0)
    world.end(0, False, 'client_gone')


@each_gone('while 31 MiB are being written to an upstream that does not read')
def gone_writing(world, how):
    world.begin()
    client = world.client(request_of(model='mute', pad=BIG))
    until('bytes are on the way', lambda: world.mute.links and world.gateway.is_at(in_flight=1))
    client.close(how)
    world.gateway.wait_at(GONE_S, in_flight=0)
    world.released.set()
    link = world.mute.links[-1]
    until('the upstream sees the end', lambda: link.closed_s)
    check(link.received_bytes < BIG, 'the whole body went out after the client was gone')
    world.end(more_than_zero if link.received_bytes else 0, outcome='client_gone')


def gone_at_script(world, how, script, path, mark, stream, model='m', tokens=more_than_zero):
    world.begin()
    client = world.client(request_of(script, path=path, stream=stream, model=model))
    link = world.link()
    if mark:
        client.read_until(mark)
    left_s = time.monotonic()
    client.close(how)
    world.check_closed(link, left_s)
    return world.end(tokens, outcome='client_gone')


@each_gone('before the first byte')
def gone_before_head(world, how):
    for path in (CHAT, MESSAGES):
        for stream in (False, True):
            line = gone_at_script(world, how, 'hold', path, None, stream)
            check_equal(line['estimated'], True, 'estimated')


@each_gone('in the middle of a stream')
def gone_mid_stream(world, how):
    for path in (CHAT, MESSAGES):
        line = gone_at_script(world, how, 'stream:4', path, b'two ', True)
        check(line['charged_tokens'] >= 2 and line['estimated'], repr(line))


@each_gone('in the middle of a whole answer')
def gone_mid_whole(world, how):
    gone_at_script(world, how, 'half_body', CHAT, b'choices', False)


@each_gone('between the last event and the end of the body: charged exactly')
def gone_at_last(world, how):
    gone_at_script(world, how, 'stream:7', CHAT, b'[DONE]', True, tokens=scripts.CHARGE)
    gone_at_script(world, how, 'stream:9', MESSAGES, b'message_stop"}', True, tokens=scripts.CHARGE)


@each_gone('with a drain configured: the upstream is read on, and the charge is exact')
def gone_drained(world, how):
    world.begin()
    scripts.RELEASE.clear()
    client = world.client(request_of('gated:2', stream=True, model='drained'))
    client.read_until(b'two ')
    client.close(how)
    until('the gateway has seen it', lambda: world.gateway.is_at(connections=0))
    scripts.RELEASE.set()
    world.end(scripts.CHARGE, False, 'client_gone')


@claim('client that stops reading: gone after its time, and the upstream call with it')
def stalled(world):
    world.begin()
    started_s = time.monotonic()
    client = world.client(request_of('endless', stream=True), receive_bytes=4096)
    link = world.link()
    until('the upstream call is closed', lambda: link.closed_s)
    check(link.closed_s - started_s > STALL_S * 0.9, 'closed too early')
    world.end(more_than_zero, True, 'client_gone')
    client.close()


@claim('client that reads slowly is served, and the upstream is held back')
def slow_reader(world):
    world.begin()
    client = world.client(request_of('endless', stream=True), receive_bytes=4096)
    link = world.link()
    held_mib = (world.gateway.rss_bytes()) >> 20
    taken = 0
    while taken < (4 << 20):  # a few KiB at a time: it is never stalled
        data = client.sock.recv(65536)
        check(data, 'the stream ended')
        taken += len(data)
    check(link.closed_s is None, 'the upstream call was closed')
    grown_mib = (world.gateway.rss_bytes() >> 20) - held_mib
    check(grown_mib < 32, 'memory grew by %d MiB' % grown_mib)
    client.close()
    world.end(more_than_zero, True, 'client_gone')


# ---- the upstream fails ----

def check_error_event(path, body):
    """The body ends in an error event of the dialect."""
    last = body.rstrip().split(b'\n\n')[-1].split(b'\n')
    data = json.loads(last[-1][len(b'data: '):])
    if path == MESSAGES:
        check_equal(last[0], b'event: error', 'the name of the last event')
        check_equal((data['type'], sorted(data['error'])[:2]), ('error', ['message', 'type']), 'its data')
    else:
        check(data['error']['message'] and data['error']['code'], 'no error in %r' % data)


def check_refused(answer, path, status, code):
    check_equal((answer.status, answer.is_clean), (status, True), 'the refusal')
    check_equal(answer.headers.get('weir-source'), 'gateway', 'weir-source')
    if path == MESSAGES:
        check_equal(answer.json()['type'], 'error', 'the type of the body')
    else:
        check_equal(answer.code(), code, 'the code')


def refuses(world, script, model, status, code, tokens, estimated, stream=False, pad=0):
    for path in (CHAT, MESSAGES):
        world.begin()
        answer = world.ask(request_of(script, path=path, model=model, stream=stream, pad=pad))
        check_refused(answer, path, status, code)
        world.end(tokens, estimated, 'refused', code, status)


@claim('upstream refuses the connection: 502, nothing charged')
def upstream_refuses(world):
    refuses(world, None, 'refused', 502, 'upstream_unavailable', 0, False)


@claim('upstream cannot be connected to in time: 504, nothing charged')
def upstream_deaf(world):
    refuses(world, None, 'deaf-short', 504, 'upstream_timeout', 0, False)


@claim('upstream accepts and closes: 502, charged if a byte was sent')
def upstream_slams(world):
    for model in ('slam-fin', 'slam-rst'):
        for _ in range(10):
            world.begin()
            answer = world.ask(request_of(model=model))
            check_refused(answer, CHAT, 502, 'upstream_unavailable')
            line = world.end(outcome='refused')
            check((line['charged_tokens'] > 0) == line['estimated'], repr(line))


@claim('upstream resets while the body is being written: 502, charged')
def upstream_resets_unread(world):
    refuses(world, 'reset_unread', 'm', 502, 'upstream_unavailable', more_than_zero, True, pad=BIG)


@claim('upstream takes nothing of the body: 502 after the write time, charged')
def upstream_mute(world):
    refuses(world, None, 'mute-short', 502, 'upstream_unavailable', more_than_zero, True, pad=BIG)
    world.released.set()


@claim('upstream closes or resets once it has read the request: 502, charged')
def upstream_closes_read(world):
    for how in ('fin', 'rst'):
        refuses(world, 'close_read:' + how, 'm', 502, 'upstream_unavailable', more_than_zero, True)


@claim('upstream does not begin its answer: 504 after the first-byte time, charged')
def upstream_stalls_head(world):
    for stream in (False, True):
        refuses(world, 'hold', 'short', 504, 'upstream_timeout', more_than_zero, True, stream)
        refuses(world, 'hold', 'total', 504, 'upstream_timeout', more_than_zero, True, stream)


@claim('upstream falls silent in a stream: an error event and an unclean end, after the idle time')
def upstream_stalls_stream(world):
    for path in (CHAT, MESSAGES):
        for script, model in (('stream:3', 'short'), ('stream:3', 'total'), ('trickle', 'total')):
            world.begin()
            answer = world.ask(request_of(script, path=path, model=model, stream=True))
            check_equal((answer.status, answer.is_clean), (200, False), 'the answer')
            check_error_event(path, answer.body)
            world.check_closed(world.link(), time.monotonic())
            world.end(more_than_zero, None, 'cut', 'upstream_timeout', 200)


@claim('upstream falls silent in a whole answer: an unclean end')
def upstream_stalls_whole(world):
    for model in ('short', 'total'):
        world.begin()
        answer = world.ask(request_of('half_body', model=model))
        check_equal((answer.status, answer.is_clean), (200, False), 'the answer')
        world.end(more_than_zero, True, 'cut', 'upstream_timeout')


@claim('upstream ends a stream tidily but without its last word: an error event and an unclean end')
def upstream_no_done(world):
    for path in (CHAT, MESSAGES):
        world.begin()
        answer = world.ask(request_of('no_done', path=path, stream=True))
        check_equal((answer.status, answer.is_clean), (200, False), 'the answer')
        check_error_event(path, answer.body)
        world.end(more_than_zero, outcome='cut')


@claim('upstream cut at every byte of its answer: never a tidy end, never charged zero')
def upstream_cut_everywhere(world):
    before = len(world.gateway.log_lines())
    count = 0
    for path, kind in ((CHAT, 'whole'), (CHAT, 'stream'), (MESSAGES, 'whole'), (MESSAGES, 'stream')):
        make = scripts.stream_answer if kind == 'stream' else scripts.whole_answer
        full = make(path)
        head_bytes = full.index(b'\r\n\r\n') + 4
        world.main.forget()
        for end in range(0, len(full) + 1, 1 if LONG else 5 if kind == 'stream' else 2):
            for how in ('fin', 'rst'):
                script = 'cut:%s:%d:%s' % (kind, end, how)
                answer = world.ask(request_of(script, path=path, stream=kind == 'stream'))
                count += 1
                text = '%s %s: %d %r %r' % (path, script, answer.status, answer.is_clean, answer.body)
                if end < head_bytes:
                    check(answer.status == 502 and answer.is_clean, text)
                else:
                    check(answer.status == 200 and answer.is_clean == (end == len(full)), text)
                    if kind == 'stream' and end < len(full):
                        check(b'error' in answer.body, text)
    world.gateway.check_idle()
    lines = until('%d lines' % count, lambda: [lines for lines in [world.gateway.log_lines()[before:]]
                                               if len(lines) == count])[0]
    zero = [line for line in lines if line['charged_tokens'] == 0]
    check(not zero, 'charged zero: %r' % zero[:3])
    check(not world.main.failures, ''.join(world.main.failures))
    return '%d cuts' % count


@claim('upstream sends what is not an answer: 502, its connection is closed, charged')
def upstream_bad_answers(world):
    for name in scripts.BAD_ANSWERS:
        world.begin()
        model = 'short' if name == 'only-interim' else 'm'
        answer = world.ask(request_of('bad:' + name, model=model))
        status = 504 if model == 'short' else 502
        check(answer.status == status and answer.is_clean, '%s: %d %r' % (name, answer.status, answer.body))
        world.check_closed(world.link(), time.monotonic())
        world.end(more_than_zero, True, 'refused')


@claim('upstream sends bad chunks: an error event and an unclean end')
def upstream_bad_chunks(world):
    for name in scripts.BAD_CHUNKS:
        world.begin()
        answer = world.ask(request_of('bad:' + name, stream=True))
        check_equal((answer.status, answer.is_clean), (200, False), name)
        check_error_event(CHAT, answer.body)
        world.end(more_than_zero, True, 'cut')


@claim('upstream answers 4xx or 5xx: passed on, charged zero and flagged')
def upstream_errors(world):
    for status in (400, 401, 404, 413, 500, 503, 529):
        world.begin()
        answer = world.ask(request_of('status:%d' % status))
        check_equal((answer.status, answer.is_clean), (status, True), 'the answer')
        check('weir-source' not in answer.headers, 'an upstream answer that says it is ours')
        world.end(0, True, 'answered')


@claim('upstream answers before it has the body: passed on at once, and the connection is not used again')
def upstream_early(world):
    world.begin()
    answer = world.ask(request_of('early', pad=BIG))
    check_equal((answer.status, answer.is_clean), (413, True), 'the answer')
    world.check_closed(world.link(), time.monotonic())
    world.end(0, True, 'answered')


@claim('upstream speaks oddly but rightly: interim heads, HTTP/1.0, byte by byte')
def upstream_odd(world):
    for script, stream in (('interim', False), ('http10', False), ('bytewise', True)):
        world.begin()
        answer = world.ask(request_of(script, stream=stream))
        check_equal((answer.status, answer.is_clean), (200, True), script)
        want = scripts.whole_body(CHAT)
        if stream:
            check(answer.body.endswith(b'data: [DONE]\n\n') and 'foür'.encode() not in answer.body,
                  repr(answer.body))
        else:
            check_equal(answer.body, want, script)
        world.end(scripts.CHARGE, False, 'answered')


@claim('upstream closes each connection behind its answer: it is taken out of the pool at once')
def upstream_closes_idle(world):
    world.begin()
    client = Client(world.gateway.address)

    def is_evicted():
        return not any(u['connections_idle'] for u in world.gateway.admin('/v1/upstreams')['upstreams']
                       if u['name'] == 'loose')
    for number in range(100):
        client.send(request_of('close_after', model='loose'))
        answer = client.read_answer()
        check(answer.status == 200, 'request %d: %d %r' % (number, answer.status, answer.body))
        until('the dead connection is gone', is_evicted, GONE_S)
    client.close()
    world.gateway.check_idle()
    check_equal(len(world.main.requests()), 100, 'requests at the upstream')


@claim('an answer nobody asked for is given to nobody')
def upstream_surplus(world):
    world.begin()
    client = Client(world.gateway.address)
    for number in range(50):
        client.send(request_of('surplus' if number % 2 == 0 else 'whole'))
        answer = client.read_answer()
        check(answer.status in (200, 502) and b'POISON' not in answer.body,
              'request %d: %d %r' % (number, answer.status, answer.body))
        check(number % 2 == 0 or answer.status == 200, 'request %d: %d' % (number, answer.status))
    client.close()
    world.gateway.check_idle()


# ---- all of it at once ----

# script, stream, model, how the client behaves, and what may be charged
STEPS = (
    [('whole', False, 'm', 'read', 'exact'), ('stream', True, 'm', 'read', 'exact'),
     ('bytewise', True, 'm', 'read', 'exact'), ('close_after', False, 'loose', 'read', 'any'),
     ('hold', False, 'short', 'read', 'some'), ('hold', True, 'm', 'leave', 'some'),
     ('stream:3', True, 'short', 'read', 'some'), ('stream:3', True, 'm', 'leave', 'some'),
     ('half_body', False, 'm', 'leave', 'some'), ('no_done', True, 'm', 'read', 'some'),
     ('trickle', True, 'total', 'read', 'some'), ('endless', True, 'm', 'leave', 'some'),
     ('endless', True, 'm', 'stall', 'some'), ('status:500', False, 'm', 'read', 'none'),
     ('status:429', False, 'refused', 'read', 'none'), ('close_read:fin', False, 'm', 'read', 'some'),
     ('close_read:rst', True, 'm', 'read', 'some'), ('whole', False, 'deaf-short', 'read', 'none'),
     ('whole', False, 'deaf', 'leave', 'none'), ('whole', False, 'slam-rst', 'read', 'any'),
     ('whole', False, 'slam-fin', 'read', 'any'), ('whole', False, 'one', 'leave', 'any'),
     ('whole', False, 'one', 'read', 'exact'), ('stream:7', True, 'm', 'leave', 'any'),
     ('surplus', False, 'm', 'read', 'any'), ('stream', True, 'drained', 'leave', 'any')] +
    [('cut:stream:%d:%s' % (end, how), True, 'm', 'read', 'some')
     for end in (0, 50, 120, 300, 700) for how in ('fin', 'rst')] +
    [('bad:' + name, True, 'm', 'read', 'some') for name in ('garbage', 'size', 'nul', 'overflow')])


def mixture_client(world, rng, number, step):
    """Plays one step; `number` is in the body's length, so that the access log can tell it."""
    script, stream, model, act, _ = step
    path = rng.choice((CHAT, MESSAGES))
    body = body_of(model=model, stream=stream, path=path)
    want = 4000 + number
    body = body_of(model=model, stream=stream, path=path, pad=want - len(body))
    client = Client(world.gateway.address, receive_bytes=4096 if act == 'stall' else None)
    client.send(head_of(len(body), path, script) + body)
    if act == 'read':
        client.read_answer()
        client.close()
    elif act == 'stall':
        while client.sock.recv(1, 2):  # MSG_PEEK: nothing is taken
            if world.stalled_gone(want):
                break
        client.close()
    else:
        delay = rng.random() * 0.05
        client.sock.settimeout(delay + 0.001)
        try:
            client.sock.recv(1)
        except OSError:
            pass
        client.close(rng.choice(('fin', 'rst')))


@claim('all of it at random, from many clients at once: nothing is left and each charge is right')
def mixture(world):
    seed = random.randrange(1 << 32)
    total, threads_count = (6000, 48) if LONG else (900, 24)
    steps = random.Random(seed)
    chosen = [steps.choice(STEPS) for _ in range(total)]
    before = len(world.gateway.log_lines())
    world.main.forget()
    failures = []
    lock = threading.Lock()
    todo = list(enumerate(chosen))

    def stalled_gone(want):
        return any(line['body_bytes'] == want for line in world.gateway.log_lines()[before:])
    world.stalled_gone = lambda want: (time.sleep(0.05), stalled_gone(want))[1]

    def play():
        while True:
            with lock:
                if not todo:
                    return
                number, step = todo.pop()
            try:
                mixture_client(world, random.Random(seed + number), number, step)
            except Exception as error:
                failures.append('%d %r: %r' % (number, step, error))
    threads = [threading.Thread(target=play) for _ in range(threads_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failures, 'seed %d: %s' % (seed, failures[:5]))
    world.gateway.check_idle()
    check(not world.main.failures, ''.join(world.main.failures))
    lines = {}
    for line in world.gateway.log_lines()[before:]:
        check(line['body_bytes'] not in lines, 'two lines for one request')
        lines[line['body_bytes']] = line
    seen = {int(r.headers['content-length']): r for r in world.main.requests()}
    wrong = []
    for number, step in enumerate(chosen):
        line = lines.pop(4000 + number, None)
        act, rule = step[3], step[4]
        if line is None:
            if act == 'leave':
                continue  # it left before its body had arrived
            wrong.append('%d %r: no line' % (number, step))
            continue
        charged = line['charged_tokens']
        left_queue = act == 'leave' and line['attempts'] == 0
        fine = (rule == 'any' or left_queue and charged == 0 or
                rule == 'exact' and charged == scripts.CHARGE or
                rule == 'some' and (charged > 0 or act == 'leave' and line['first_byte_ms'] < 0) or
                rule == 'none' and charged == 0)
        if not fine:
            wrong.append('%d %r: charged %d: %r' % (number, step, charged, line))
    check(not lines, 'lines of nobody: %r' % list(lines.values())[:3])
    check(not wrong, 'seed %d: %s' % (seed, '\n'.join(wrong[:8])))
    return 'seed %d, %d requests, %d seen by the upstream' % (seed, total, len(seen))


@claim('at the end the gateway drains with status 0, and nothing leaked')
def ends(world):
    world.gateway.close()


run(World, lambda world: world.gateway.kill())

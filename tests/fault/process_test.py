#!/usr/bin/env python3
"""The process itself: out of file descriptors, killed while busy, told to stop under load."""
import re
import shutil
import signal
import socket
import tempfile

import scripts
from rig import LATE_S, Client, Gateway, Upstream, ask, check, check_equal, claim, request_of, run, until

CONFIG = '''
limits: {drain_queue: 500ms, drain_streams: 3s}
upstreams:
- {name: main, url: 'http://127.0.0.1:%d/v1', models: [m], max_in_flight: %d,
   breaker: {failures: 0, failure_percent: 0}}
'''


@claim('out of file descriptors: said in the log, survived, and over when some are free again')
def descriptors():
    upstream = Upstream(scripts.serve)
    gateway = Gateway(CONFIG % (upstream.port, 64), nofile=64)
    crowd = []

    def said():  # but what it says of the limit at its start
        return [line for line in gateway.err().splitlines()
                if re.search(r'weir: warning: .*descriptor', line) and 'are allowed' not in line]
    try:
        for _ in range(200):
            sock = socket.socket()
            sock.settimeout(LATE_S)
            sock.connect(gateway.address)
            crowd.append(sock)
            sock.sendall(request_of('whole'))
        until('the log tells of it', said)
        lines = said()
        check(len(lines) < 60, '%d lines of it: %r' % (len(lines), lines[:5]))
        for sock in crowd:
            sock.close()
        crowd = []

        def serves():
            try:
                return ask(gateway, request_of('whole')).status == 200
            except OSError:
                return False
        until('it serves again', serves)
        gateway.check_idle()
        for _ in range(50):
            check_equal(ask(gateway, request_of('whole')).status, 200, 'an answer afterwards')
        gateway.check_idle()
        gateway.close()
        return lines[0]
    finally:
        gateway.kill()


def busy(gateway, count, script='stream:2'):
    """So many clients in the middle of an answer."""
    clients = []
    for _ in range(count):
        client = Client(gateway.address)
        client.send(request_of(script, stream=True))
        clients.append(client)
    for client in clients:
        client.read_until(b'one ')
    return clients


@claim('killed by SIGKILL while busy: it starts again on the same state, and the keys are those of before')
def killed():
    upstream = Upstream(scripts.serve)
    folder = tempfile.mkdtemp(prefix='weir-fault.')
    try:
        tokens = set()
        for _ in range(5):
            gateway = Gateway(CONFIG % (upstream.port, 64), folder=folder)
            tokens.add(gateway.token)
            clients = busy(gateway, 20)
            gateway.child.send_signal(signal.SIGKILL)
            gateway.child.wait()
            for client in clients:
                client.read_to_end()
                client.close()
        gateway = Gateway(CONFIG % (upstream.port, 64), folder=folder)
        tokens.add(gateway.token)
        check_equal(len(tokens), 1, 'admin tokens')
        check_equal(ask(gateway, request_of('whole')).status, 200, 'an answer')
        gateway.check_idle()
        gateway.close()
    finally:
        gateway.kill()
        shutil.rmtree(folder, ignore_errors=True)


@claim('SIGTERM under load: new ones 503 or not connected, running ones finish, status 0')
def drained():
    upstream = Upstream(scripts.serve)
    gateway = Gateway(CONFIG % (upstream.port, 20))
    try:
        scripts.RELEASE.clear()
        running = busy(gateway, 20, 'gated:2')
        queued = []
        for _ in range(5):
            client = Client(gateway.address)
            client.send(request_of('whole'))
            queued.append(client)
        gateway.wait_at(waiting=5, in_flight=20)
        kept = Client(gateway.address)
        kept.send(b'GET /v1')  # a request begun before the drain
        until('it is accepted', lambda: gateway.is_at(connections=26))
        gateway.child.send_signal(signal.SIGTERM)
        kept.send(b'/models HTTP/1.1\r\nHost: a\r\n\r\n')
        until('it drains', lambda: 'draining' in gateway.err())
        for client in queued:  # no permit came free in drain_queue
            answer = client.read_answer()
            check_equal((answer.status, answer.code()), (503, 'draining'), 'who waited')
            client.close()
        scripts.RELEASE.set()
        for client in running:
            rest = client.read_to_end()
            check(rest.endswith(b'data: [DONE]\n\n\r\n0\r\n\r\n'), 'a stream was cut: %r' % rest[-80:])
            client.close()
        kept.close()
        gateway.ends(0)
        refused = socket.socket()
        check(refused.connect_ex(gateway.address) != 0, 'somebody still listens')
    finally:
        gateway.kill()


@claim('SIGTERM with streams that do not end: cut after drain_streams, with an error event, status 0')
def drained_late():
    upstream = Upstream(scripts.serve)
    gateway = Gateway(CONFIG.replace('3s', '300ms') % (upstream.port, 20))
    try:
        running = busy(gateway, 10)
        gateway.child.send_signal(signal.SIGTERM)
        for client in running:
            rest = client.read_to_end()
            check(b'error' in rest and not rest.endswith(b'0\r\n\r\n'), 'no error event: %r' % rest[-200:])
            client.close()
        gateway.ends(0)
    finally:
        gateway.kill()


@claim('a second signal stops at once, with status 130')
def second_signal():
    upstream = Upstream(scripts.serve)
    gateway = Gateway(CONFIG % (upstream.port, 20))
    try:
        running = busy(gateway, 10)
        gateway.child.send_signal(signal.SIGTERM)
        until('it drains', lambda: 'draining' in gateway.err())
        gateway.close(130)
        for client in running:
            client.read_to_end()
            client.close()
    finally:
        gateway.kill()


run()

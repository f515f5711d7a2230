#!/usr/bin/env python3
"""200,000 mixed requests (whole answers, streams, refusals, aborts, bad input; 1,000,000 with
WEIR_TEST_LONG=1) leave the gateway's memory flat to 5 %, and nothing else behind.

The release build before `weir mock`, which also breaks its answers when asked to; one thread drives many connections by epoll."""
import random
import select
import socket
import struct
import time

from rig import LONG, RELEASE, WEIR, Gateway, Mock, body_of, check, claim, head_of, run, until

# Bounded tables are full by then: the ledger remembers the last 65,536 holds that ended.
MARK = 100000
TOTAL = 1000000 if LONG else 200000
CONNECTIONS = 96
CONFIG = '''
limits: {waiters: 60, waiters_per_tenant: 40, tenants: 2000, body: 64KiB, inspect: 1MiB}
upstreams:
- {name: main, url: 'http://127.0.0.1:%d/v1', models: [m], max_in_flight: 24,
   breaker: {failures: 0, failure_percent: 0}}
'''


def kinds(tenant):
    """What is asked for: how often, the bytes, and how the client acts."""
    def request(body, path='/v1/chat/completions', **headers):
        return head_of(len(body), path, **headers).replace(b'client-credential', b'tenant-%d' % tenant) + body
    messages = '/v1/messages'
    gone = request(body_of(stream=True))
    return [
        (30, request(body_of(pad=300)), 'read'),
        (12, request(body_of(stream=True)), 'read'),
        (8, request(body_of(path=messages), messages), 'read'),
        (6, request(body_of(path=messages, stream=True), messages), 'read'),
        (4, request(body_of(pad=8000)), 'read'),
        (4, request(body_of(model='none')), 'read'),                     # 404
        (4, request(body_of()[:-1]), 'read'),                            # 400
        (3, request(body_of(), mock_fault='status=503'), 'read'),
        (3, request(body_of(stream=True), mock_fault='cut=2'), 'read'),
        (3, request(body_of(), mock_fault='reset=head'), 'read'),
        (2, request(body_of(), Content_Encoding='br'), 'read'),          # 415
        (2, head_of(1 << 20), 'read'),                                   # 413
        (2, b'GET / HTTP/1.1\r\nA : b\r\n\r\n', 'read'),                 # 400
        (3, request(body_of(), mock_fault='stall=head'), 'leave'),
        (3, request(body_of(stream=True), mock_fault='stall=body'), 'leave'),
        (3, gone, 'leave'),
        (3, gone[:len(gone) // 2], 'leave'),
        (3, request(body_of(pad=8000)), 'leave'),
    ]


class Driver:
    def __init__(self, address, seed):
        self.address, self.random = address, random.Random(seed)
        self.poll = select.epoll()
        self.open = {}
        self.done = 0
        self.statuses = {}
        self.tables = []
        for tenant in range(40):
            table = kinds(tenant)
            self.tables.append(([row[0] for row in table], table))

    def begin(self, sock=None):
        weights, table = self.random.choice(self.tables)
        _, data, act = self.random.choices(table, weights)[0]
        if sock is None:
            sock = socket.socket()
            sock.setblocking(True)
            sock.connect(self.address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.poll.register(sock, select.EPOLLIN)
        try:
            sock.send(data)
        except OSError:  # it was closed while idle
            self.poll.unregister(sock)
            sock.close()
            return self.begin()
        self.open[sock.fileno()] = [sock, b'', act, time.monotonic()]
        return None

    def leave(self, fd, by_reset):
        sock = self.open.pop(fd)[0]
        self.poll.unregister(sock)
        if by_reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        sock.close()

    def finished(self, fd, closed):
        sock, data, _, _ = self.open[fd]
        self.done += 1
        status = data[9:12]
        check(b'gateway_full' not in data, 'a table was full: %r' % data)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if closed:
            self.leave(fd, False)
            self.begin()
        else:
            del self.open[fd]
            self.begin(sock)

    def is_whole(self, data):
        head_end = data.find(b'\r\n\r\n')
        if head_end < 0:
            return False
        at = data.find(b'ontent-length: ', 0, head_end)
        if at >= 0:
            return len(data) >= head_end + 4 + int(data[at + 15:data.index(b'\r\n', at)])
        return data.endswith(b'0\r\n\r\n')

    def run_to(self, total):
        while len(self.open) < CONNECTIONS:
            self.begin()
        swept_s = time.monotonic()
        while self.done < total:
            for fd, _ in self.poll.poll(0.02):
                entry = self.open.get(fd)
                if entry is None:
                    continue
                if entry[2] == 'leave':
                    continue
                try:
                    data = entry[0].recv(65536)
                except OSError:
                    data = b''
                entry[1] += data
                if not data:
                    self.finished(fd, True)
                elif self.is_whole(entry[1]):
                    self.finished(fd, b'onnection: close' in entry[1])
            now_s = time.monotonic()
            if now_s - swept_s > 0.005:  # those that leave do so at some moment of their request
                swept_s = now_s
                for fd in [fd for fd, e in self.open.items() if e[2] == 'leave']:
                    if self.random.random() < 0.5:
                        self.leave(fd, self.random.random() < 0.5)
                        self.done += 1
                        self.begin()
                check(all(now_s - e[3] < 30 for e in self.open.values()), 'a request is never answered')

    def end(self):
        for fd in list(self.open):
            self.leave(fd, False)


@claim('%d mixed requests: memory at the end is at most 5 %% above that at %d' % (TOTAL, MARK))
def churn():
    seed = random.randrange(1 << 32)
    mock = Mock('--replicas', '64', '--step', '100us', '--step-sequence', '1us', '--output', '3')
    gateway = Gateway(CONFIG % mock.port, binary=RELEASE or WEIR, access=False)
    try:
        started_s = time.monotonic()
        driver = Driver(gateway.address, seed)
        driver.run_to(MARK)
        at_mark = gateway.rss_bytes()
        descriptors = gateway.descriptors()
        driver.run_to(TOTAL)
        at_end = gateway.rss_bytes()
        driver.end()
        took_s = time.monotonic() - started_s
        gateway.check_idle()
        until('no connection is left', lambda: gateway.is_at(connections=0))
        left = gateway.descriptors()
        check(left <= descriptors, '%d descriptors are left, %d were open at work' % (left, descriptors))
        if RELEASE:
            check(at_end <= at_mark * 1.05, 'memory grew from %d to %d KiB (seed %d)' % (
                at_mark >> 10, at_end >> 10, seed))
        for status in (b'200', b'400', b'404', b'413', b'415', b'502', b'503'):
            check(driver.statuses.get(status, 0) > 0, 'never seen: %r in %r' % (status, driver.statuses))
        gateway.close()
        return '%d KiB at %d, %d KiB at %d; %d requests/s; %r' % (
            at_mark >> 10, MARK, at_end >> 10, driver.done, driver.done / took_s, driver.statuses)
    finally:
        gateway.kill()
        mock.close()


run()

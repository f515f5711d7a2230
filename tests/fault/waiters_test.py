#!/usr/bin/env python3
"""15,000 real connections that wait for one permit: none is refused, each costs less than 2 KB beside its
head and body, those that hang up leave at once, the rest are answered, and all ends at zero.

The clients are processes of their own, because one process may not have so many descriptors."""
import multiprocessing
import resource
import select
import socket
import struct

from rig import LATE_S, RELEASE, WEIR, Gateway, Skip, Upstream, check, check_equal, claim, request_of, run, until
import scripts

CLIENTS, PROCESSES = 15000, 5
# What the kernel keeps of a socket is not the process's; head and body are about 1.3 KB here.
BYTES_EACH = 2048
CONFIG = '''
limits: {waiters: 15100, waiters_per_tenant: 15100, max_wait: 600s, connections: 19000, waiting_bytes: 256MiB}
upstreams:
- {name: main, url: 'http://127.0.0.1:%d/v1', max_in_flight: 1, timeouts: {first_byte_whole: 600s}}
'''


def clients(address, count, pipe):
    """Opens `count` connections with a request each; then does as it is told."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    request = request_of('whole', pad=1000)
    socks = []
    for _ in range(count):
        sock = socket.create_connection(address, LATE_S)
        sock.sendall(request)
        socks.append(sock)
    pipe.send('sent')
    while True:
        order, argument = pipe.recv()
        if order == 'leave':  # half of them by FIN, half by RST
            for number, sock in enumerate(socks[:argument]):
                if number % 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                sock.close()
            socks = socks[argument:]
            pipe.send('left')
        elif order == 'read':
            statuses = {}
            poll = select.epoll()
            by_fd = {sock.fileno(): sock for sock in socks}
            for fd in by_fd:
                poll.register(fd, select.EPOLLIN)
            while by_fd:
                for fd, _ in poll.poll(120):
                    data = by_fd.pop(fd).recv(65536)
                    poll.unregister(fd)
                    status = data[9:12].decode() or 'closed'
                    statuses[status] = statuses.get(status, 0) + 1
            pipe.send(statuses)
        else:
            return


@claim('15,000 connections wait; each costs less than 2 KB; those that leave, leave; the rest are served')
def waiters():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < CLIENTS + 500:
        raise Skip('only %d file descriptors are allowed' % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    upstream = Upstream(serve_gated)
    gateway = Gateway(CONFIG % upstream.port, binary=RELEASE or WEIR, access=False)
    team = []
    try:
        first = socket.create_connection(gateway.address)
        first.sendall(request_of('whole'))
        gateway.wait_at(in_flight=1)
        before_bytes = gateway.rss_bytes()
        context = multiprocessing.get_context('fork')
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            member = context.Process(target=clients,
                                     args=(gateway.address, CLIENTS // PROCESSES, theirs), daemon=True)
            member.start()
            team.append((member, ours))
        for _, pipe in team:
            check(pipe.poll(120), 'a client process does not connect')
            check_equal(pipe.recv(), 'sent', 'a client process')
        gateway.wait_at(60, waiting=CLIENTS, in_flight=1)
        status = gateway.status()
        each_bytes = (gateway.rss_bytes() - before_bytes - status['waiting_bytes']) / CLIENTS
        check_equal(status['refusals'], {}, 'refusals')
        if RELEASE:
            check(each_bytes < BYTES_EACH, '%d bytes for each waiting request' % each_bytes)

        leaving = CLIENTS // PROCESSES // 3
        for _, pipe in team:
            pipe.send(('leave', leaving))
        for _, pipe in team:
            check_equal(pipe.recv(), 'left', 'a client process')
        staying = CLIENTS - leaving * PROCESSES
        gateway.wait_at(60, waiting=staying, in_flight=1, connections=staying + 1)

        scripts.RELEASE.set()
        for _, pipe in team:
            pipe.send(('read', None))
        seen = {}
        for _, pipe in team:
            check(pipe.poll(120), 'a client process reads for ever')
            for key, count in pipe.recv().items():
                seen[key] = seen.get(key, 0) + count
        check_equal(seen, {'200': staying}, 'answers')
        for _, pipe in team:
            pipe.send(('end', None))
        first.close()
        gateway.check_idle(60)
        until('no connection is left', lambda: gateway.is_at(connections=0))
        check_equal(len(upstream.requests()), staying + 1, 'requests at the upstream')
        gateway.close()
        return '%d bytes for each waiting request beside head and body%s' % (
            each_bytes, '' if RELEASE else ' (not the release build: not judged)')
    finally:
        gateway.kill()
        for member, _ in team:
            member.kill()


def serve_gated(link):
    """Answers once it may."""
    while True:
        request = link.read_head()
        if request is None or not link.read_body(request):
            return
        scripts.RELEASE.wait(300)
        if not link.send(scripts.whole_answer(request.target)):
            return


run()

"""rig: what the fault tests share: a real gateway process, an upstream that can do anything to a
socket, and clients that see every byte. Everything is on loopback; only the standard library.

A test is a function marked with @claim('name'). run() runs them in order and prints TAP. Nothing
sleeps to let time pass: a test waits for what it wants to see (until), and fails when it does not
come in time.

WEIR_BIN is the gateway under test (built with ASan and UBSan), WEIR_RELEASE the release build.
"""
import errno
import fnmatch
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = os.environ.get('WEIR_TEST_LONG') == '1'
GONE_S = 1.0   # an upstream call is over this long after its client went
LATE_S = 20.0  # longer than anything here takes, on a busy machine
SANITIZER = re.compile(r'(?:ERROR|WARNING): \w*Sanitizer|runtime error:|should be impossible')


def find_binary(variable, folders):
    """The path of a built weir, or None."""
    places = [os.environ.get(variable)] + [os.path.join(ROOT, f, 'src/cli/weir') for f in folders]
    return next((p for p in places if p and os.path.exists(p)), None)


WEIR = find_binary('WEIR_BIN', ['build-test', 'build'])
RELEASE = find_binary('WEIR_RELEASE', ['build'])


def until(what, ask, seconds=LATE_S):
    """Asks until the answer is truthy and returns it; fails with `what` when time is up."""
    end = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError('in %g s it did not happen: %s' % (
                seconds, what() if callable(what) else what))
        time.sleep(0.003)


def check(condition, text):
    """Like assert, but never compiled out."""
    if not condition:
        raise AssertionError(text)


def check_equal(got, want, what):
    check(got == want, '%s: got %r, want %r' % (what, got, want))


# ---- processes ----

class Process:
    """A weir command. Its standard output and error go to files in `folder`."""

    def __init__(self, binary, args, folder, ready, nofile=None, name='weir'):
        env = dict(os.environ, WEIR_STATE=os.path.join(folder, 'state'), TZ='UTC')
        env.setdefault('ASAN_OPTIONS', 'detect_leaks=1:strict_string_checks=1')
        env.setdefault('UBSAN_OPTIONS', 'halt_on_error=1:print_stacktrace=1')
        self.out_path = os.path.join(folder, name + '.out')
        self.err_path = os.path.join(folder, name + '.err')

        def limit():
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
        with open(self.out_path, 'ab') as out, open(self.err_path, 'ab') as err:
            start = out.tell()
            self.child = subprocess.Popen([binary] + args, env=env, stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=err, preexec_fn=limit)

        def told():
            with open(self.out_path, encoding='utf-8') as file:
                file.seek(start)
                match = re.search(ready, file.read(), re.DOTALL)
            check(match or self.child.poll() is None, 'it did not start: ' + self.err()[-2000:])
            return match
        self.ready = until(lambda: 'it starts: ' + self.err()[-2000:], told)

    def err(self):
        with open(self.err_path, encoding='utf-8', errors='replace') as file:
            return file.read()

    def rss_bytes(self):
        with open('/proc/%d/statm' % self.child.pid, encoding='ascii') as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def descriptors(self):
        return len(os.listdir('/proc/%d/fd' % self.child.pid))

    def check_healthy(self):
        said = self.err()
        check(not SANITIZER.search(said), 'a sanitizer or an invariant spoke:\n' + said[-6000:])
        check(self.child.poll() is None, 'the process died: status %r\n%s' % (
            self.child.poll(), said[-3000:]))

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()

    def stop(self, status=0):
        """SIGTERM; it drains and ends with `status`, and no sanitizer has spoken."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        self.ends(status)

    def ends(self, status):
        """It ends by itself, or by a signal sent before, with `status`."""
        try:
            got = self.child.wait(LATE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError('it did not stop:\n' + self.err()[-2000:]) from None
        said = self.err()
        check(got == status and not SANITIZER.search(said),
              'stopped with status %d, not %d:\n%s' % (got, status, said[-6000:]))


class Gateway(Process):
    """`weir serve` with the YAML given (without listen, admin and log)."""

    def __init__(self, yaml, binary=None, folder=None, nofile=None, access=True):
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix='weir-fault.')
        os.makedirs(os.path.join(self.folder, 'state'), exist_ok=True)
        self.access_path = os.path.join(self.folder, 'access.log')
        self.log, self.log_read_bytes, self.log_lock = [], 0, threading.Lock()
        config = os.path.join(self.folder, 'weir.yaml')
        with open(config, 'w', encoding='utf-8') as file:
            file.write("listen: '127.0.0.1:0'\nadmin: '127.0.0.1:0'\nlog: {access: %s}\n%s\n" % (
                self.access_path if access else 'off', yaml))
        super().__init__(binary or WEIR, ['serve', '-c', config], self.folder,
                         r'serves http://[^:]+:(\d+).*?admin: +http://[^:]+:(\d+).*stop:', nofile,
                         'serve')
        self.port, self.admin_port = (int(group) for group in self.ready.groups())
        self.address = ('127.0.0.1', self.port)
        with open(os.path.join(self.folder, 'state', 'admin.token'), encoding='ascii') as file:
            self.token = file.read().strip()

    def admin(self, page):
        link = http.client.HTTPConnection('127.0.0.1', self.admin_port, timeout=LATE_S)
        try:
            link.request('GET', page, headers={'authorization': 'Bearer ' + self.token})
            answer = link.getresponse()
            text = answer.read()
            check_equal(answer.status, 200, page)
            return json.loads(text) if text[:1] == b'{' else text.decode()
        finally:
            link.close()

    def status(self):
        return self.admin('/v1/status')

    def is_at(self, **wanted):
        """Truthy when /v1/status shows these values."""
        status = self.status()
        return all(status[key] == value for key, value in wanted.items())

    def wait_at(self, seconds=LATE_S, **wanted):
        until(lambda: '%r, not %r' % (wanted, {k: self.status()[k] for k in wanted}),
              lambda: self.is_at(**wanted), seconds)

    def check_idle(self, seconds=LATE_S):
        """Nothing is left: no request, waiter, permit, hold, byte; and the process is well."""
        self.check_healthy()
        seen = {}

        def idle():
            status = self.status()
            seen.clear()
            seen.update({key: status[key] for key in
                         ('requests', 'waiting', 'in_flight', 'holds', 'waiting_bytes')})
            seen['ledger.held'] = status['ledger']['held']
            seen['upstreams busy'] = sum(u['in_flight'] + u['connections_busy']
                                         for u in self.admin('/v1/upstreams')['upstreams'])
            return not any(seen.values())
        until(lambda: 'all is zero: %r' % seen, idle, seconds)
        self.check_healthy()

    def log_lines(self):
        """The access log so far; what was read before is not read again."""
        with self.log_lock:
            try:
                with open(self.access_path, 'rb') as file:
                    file.seek(self.log_read_bytes)
                    text = file.read()
            except FileNotFoundError:
                text = b''
            end = text.rfind(b'\n') + 1
            self.log_read_bytes += end
            self.log += [json.loads(line) for line in text[:end].splitlines()]
            return list(self.log)

    def next_line(self, before):
        """The one line that was added to the access log since it had `before` lines."""
        lines = until('a line in the access log', lambda: self.log_lines()[before:])
        check_equal(len(lines), 1, 'lines in the access log')
        return lines[0]

    def close(self, status=0):
        try:
            self.stop(status)
        finally:
            if self.own_folder:
                shutil.rmtree(self.folder, ignore_errors=True)


class Mock(Process):
    """`weir mock` with these flags."""

    def __init__(self, *flags, binary=None):
        self.folder = tempfile.mkdtemp(prefix='weir-fault.')
        super().__init__(binary or RELEASE or WEIR, ['mock', '--listen', '127.0.0.1:0', *flags],
                         self.folder, r'port (\d+)', name='mock')
        self.port = int(self.ready.group(1))

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- bodies and requests ----

CHAT, MESSAGES = '/v1/chat/completions', '/v1/messages'


def body_of(model='m', stream=False, pad=0, path=CHAT, **more):
    """A request body of either API with `pad` more bytes of text."""
    fields = {'model': model, 'stream': stream,
              'messages': [{'role': 'user', 'content': 'Say something.' + 'x' * pad}]}
    if path == MESSAGES:
        fields['max_tokens'] = 50
    fields.update(more)
    return json.dumps(fields).encode()


def head_of(body_bytes, path=CHAT, script=None, method='POST', **more):
    lines = ['%s %s HTTP/1.1' % (method, path), 'Host: gateway', 'Content-Type: application/json',
             'Authorization: Bearer client-credential']
    if path == MESSAGES:
        lines.append('anthropic-version: 2023-06-01')
    if body_bytes is not None:
        lines.append('Content-Length: %d' % body_bytes)
    if script:
        lines.append('x-script: ' + script)
    lines += ['%s: %s' % (name.replace('_', '-'), value) for name, value in more.items()]
    return ('\r\n'.join(lines) + '\r\n\r\n').encode()


def request_of(script=None, path=CHAT, headers=None, **body):
    text = body_of(path=path, **body)
    return head_of(len(text), path, script, **(headers or {})) + text


class Answer:
    """What a client saw. is_clean: it ended as its framing says."""

    def __init__(self):
        self.status, self.headers, self.body = 0, {}, b''
        self.is_clean, self.is_closed, self.is_reset = False, False, False

    def json(self):
        return json.loads(self.body)

    def code(self):
        """Our refusal's code, or None. Anthropic's shape has it in no field of its own."""
        error = self.json()['error']
        return error.get('code') or error.get('type')


class Client:
    """A raw connection to the gateway."""

    def __init__(self, address, receive_bytes=None):
        self.sock = socket.socket()
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.settimeout(LATE_S)
        self.sock.connect(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b''
        self.eof = self.reset = False

    def send(self, data):
        """Sends all, or as much as the peer takes before it closes: then False."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def fill(self):
        """Reads once; False at the end."""
        try:
            data = self.sock.recv(262144)
        except ConnectionResetError:
            self.reset, data = True, b''
        if not data:
            self.eof = True
        self.rest += data
        return bool(data)

    def read_until(self, mark):
        """Everything up to and with the mark; fails when it does not come."""
        while mark not in self.rest:
            check(self.fill(), 'closed before %r; got %r' % (mark, self.rest[-300:]))
        end = self.rest.index(mark) + len(mark)
        got, self.rest = self.rest[:end], self.rest[end:]
        return got

    def read_to_end(self):
        while self.fill():
            pass
        return self.rest

    def _read_chunked(self, answer):
        while True:
            while b'\r\n' not in self.rest:
                if not self.fill():
                    return
            line, _, after = self.rest.partition(b'\r\n')
            size = int(line.split(b';')[0], 16)
            while len(after) < size + 2:
                if not self.fill():
                    answer.body += after[:size]
                    return
                after = self.rest.partition(b'\r\n')[2]
            answer.body += after[:size]
            check_equal(after[size:size + 2], b'\r\n', 'the end of a chunk')
            self.rest = after[size + 2:]
            if size == 0:
                answer.is_clean = True
                return

    def read_answer(self, has_body=True):
        """The next answer, whole or as far as it came; interim ones are skipped."""
        answer = Answer()
        while True:
            while b'\r\n\r\n' not in self.rest:
                if not self.fill():
                    answer.is_closed, answer.is_reset = True, self.reset
                    return answer
            head, _, self.rest = self.rest.partition(b'\r\n\r\n')
            lines = head.decode('latin-1').split('\r\n')
            answer.status = int(lines[0].split(' ')[1])
            if answer.status >= 200:
                break
        for line in lines[1:]:
            name, _, value = line.partition(':')
            answer.headers[name.lower()] = value.strip()
        if answer.headers.get('transfer-encoding') == 'chunked':
            self._read_chunked(answer)
        elif has_body:
            want = int(answer.headers.get('content-length', -1))
            while want < 0 or len(self.rest) < want:
                if not self.fill():
                    break
            answer.is_clean = len(self.rest) >= want if want >= 0 else not self.reset
            answer.body, self.rest = self.rest[:max(want, 0)], self.rest[max(want, 0):]
        else:
            answer.is_clean = True
        answer.is_closed, answer.is_reset = self.eof, self.reset
        return answer

    def close(self, how='fin'):
        """Leaves: by FIN, by RST, or only half (a client that will not send any more)."""
        if how == 'half':
            self.sock.shutdown(socket.SHUT_WR)
            return
        if how == 'rst':
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.sock.close()


def ask(gateway, data):
    """One request on a connection of its own."""
    client = Client(gateway.address)
    try:
        client.send(data)
        return client.read_answer()
    finally:
        client.close()


# ---- an upstream that can do anything ----

class Received:
    """A request as the upstream saw it."""

    def __init__(self, link, head):
        self.link, self.head, self.body = link, head, b''
        lines = head.decode('latin-1').split('\r\n')
        self.target = lines[0].split(' ')[1]
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(':')
            self.headers[name.lower()] = value.strip()
        self.script = self.headers.get('x-script', 'whole')


class Link:
    """A connection from the gateway. closed_s: when its end was seen (time.monotonic)."""

    def __init__(self, sock):
        self.sock = sock
        self.rest = b''
        self.received_bytes = 0
        self.closed_s = None
        self.requests = []

    def recv(self):
        try:
            data = self.sock.recv(262144)
        except (ConnectionResetError, TimeoutError):
            data = b''
        if not data and self.closed_s is None:
            self.closed_s = time.monotonic()
        self.received_bytes += len(data)
        return data

    def read_head(self):
        while b'\r\n\r\n' not in self.rest:
            data = self.recv()
            if not data:
                return None
            self.rest += data
        head, _, self.rest = self.rest.partition(b'\r\n\r\n')
        request = Received(self, head)
        self.requests.append(request)
        return request

    def read_body(self, request):
        want = int(request.headers.get('content-length', 0))
        while len(self.rest) < want:
            data = self.recv()
            if not data:
                return False
            self.rest += data
        request.body, self.rest = self.rest[:want], self.rest[want:]
        return True

    def send(self, data):
        try:
            self.sock.sendall(data)
            return True
        except OSError:
            if self.closed_s is None:
                self.closed_s = time.monotonic()
            return False

    def wait_closed(self):
        """Reads and forgets until the gateway closes."""
        while self.recv():
            pass

    def close(self, how='fin'):
        if how == 'rst':
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.sock.close()


class Upstream:
    """Listens and runs `serve(link)` for each connection in a thread of its own.

    The default reads requests and does what the header x-script of each says; see scripts.py."""

    def __init__(self, serve, receive_bytes=None, backlog=1024):
        self.serve = serve
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.bind(('127.0.0.1', 0))
        self.sock.listen(backlog)
        self.port = self.sock.getsockname()[1]
        self.links = []
        self.failures = []
        self.closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.sock.accept()
            except OSError as error:
                if self.closing or error.errno not in (errno.EMFILE, errno.ECONNABORTED):
                    return
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(60)
            link = Link(sock)
            self.links.append(link)
            threading.Thread(target=self._run, args=(link,), daemon=True).start()

    def _run(self, link):
        try:
            self.serve(link)
        except OSError:
            pass
        except Exception:
            self.failures.append(traceback.format_exc())
        finally:
            if link.closed_s is None:
                link.closed_s = time.monotonic()
            try:
                link.sock.close()
            except OSError:
                pass

    def requests(self):
        return [request for link in self.links for request in link.requests]

    def received_bytes(self):
        return sum(link.received_bytes for link in self.links)

    def forget(self):
        self.links = [link for link in self.links if link.closed_s is None]
        for link in self.links:
            link.requests = []

    def close(self):
        self.closing = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


class Deaf:
    """A port whose listener never accepts and whose backlog is full: connects hang."""

    def __init__(self):
        self.sock = socket.socket()
        self.sock.bind(('127.0.0.1', 0))
        self.sock.listen(0)
        self.port = self.sock.getsockname()[1]
        self.fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(('127.0.0.1', self.port))
            self.fillers.append(filler)

        def is_full():
            probe = socket.socket()
            probe.settimeout(0.1)
            try:
                probe.connect(('127.0.0.1', self.port))
                self.fillers.append(probe)
                return False
            except TimeoutError:
                probe.close()
                return True
        until('the backlog is full', is_full)

    def close(self):
        for sock in self.fillers + [self.sock]:
            sock.close()


def closed_port():
    """A port on which nobody listens, kept bound so that nobody else takes it."""
    sock = socket.socket()
    sock.bind(('127.0.0.1', 0))
    return sock


# ---- running ----

CLAIMS = []


def claim(name):
    def mark(function):
        CLAIMS.append((name, function))
        return function
    return mark


class Skip(Exception):
    """What a test needs is not there."""


def run(setup=None, teardown=None):
    """Runs the claims (those that match the command line's patterns) and exits."""
    patterns = sys.argv[1:] or ['*']
    chosen = [c for c in CLAIMS if any(fnmatch.fnmatch(c[0], p) for p in patterns)]
    failed = 0
    world = None
    print('TAP version 13', flush=True)
    print('1..%d' % len(chosen), flush=True)
    if setup:
        world = setup()
    for number, (name, function) in enumerate(chosen, 1):
        started = time.monotonic()
        try:
            note = function(world) if setup else function()
            verdict, reason = 'ok', note
        except Skip as skip:
            verdict, reason, name = 'ok', None, '%s # SKIP %s' % (name, skip)
        except Exception:
            verdict, reason = 'not ok', traceback.format_exc()
            failed += 1
        print('%s %d - %s' % (verdict, number, name), flush=True)
        for line in (reason or '').splitlines():
            print('# ' + line, flush=True)
        print('# %.1f s' % (time.monotonic() - started), flush=True)
    if teardown:
        try:
            teardown(world)
        except Exception:
            print('Bail out! at the end: ' + ' | '.join(traceback.format_exc().splitlines()[-40:]),
                  flush=True)
            failed += 1
    os._exit(1 if failed else 0)

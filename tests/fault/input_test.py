#!/usr/bin/env python3
"""Bad input of every kind, to the gateway: each gets the refusal that is documented, in the dialect of the
path that was called, and nothing of it reaches the upstream."""
import gzip
import json
import os
import subprocess
import tempfile
import time
import zlib

import scripts
from rig import (CHAT, MESSAGES, WEIR, Client, Gateway, Upstream, body_of, check, check_equal, claim, head_of,
                 request_of, run, until)

LIMITS = 'limits: {head_time: 700ms, body_rate: 1KiB, body_grace: 700ms, keep_alive: 60s}'
CONFIG = LIMITS + '''
upstreams:
- {name: main, url: 'http://127.0.0.1:%d/v1', models: [m]}
'''


class World:
    def __init__(self):
        self.upstream = Upstream(scripts.serve)
        self.open = Gateway(CONFIG % self.upstream.port)
        self.folder = tempfile.mkdtemp(prefix='weir-fault.')
        made = subprocess.run([WEIR, 'key', 'new', 'alpha'], check=True, capture_output=True, text=True,
                              env=dict(os.environ, WEIR_STATE=os.path.join(self.folder, 'state')))
        self.key = next(word for word in made.stdout.split() if word.startswith('wk_'))
        self.keyed = Gateway(CONFIG % self.upstream.port, folder=self.folder)

    def refuse(self, data, status, code=None, path=CHAT, gateway=None, what='', is_http=True):
        """The answer to `data` is that refusal; the upstream hears nothing."""
        gateway = gateway or self.open
        seen = self.upstream.received_bytes()
        client = Client(gateway.address)
        client.send(data)
        answer = client.read_answer()
        what = '%s: %d %r' % (what or data[:80], answer.status, answer.body[:300])
        check(answer.status == status and answer.is_clean, 'not %d for %s' % (status, what))
        check_equal(answer.headers.get('weir-source'), 'gateway', what)
        body = answer.json()
        if path == MESSAGES:
            check(body['type'] == 'error' and body['error']['message'] and 'code' not in body['error'], what)
        else:
            check_equal(body['error']['code'], code, what)
        client.close()
        check_equal(self.upstream.received_bytes(), seen, 'bytes at the upstream for ' + what)
        return answer

    def refuse_body(self, body, status=400, code='malformed', what='', **headers):
        for path in (CHAT, MESSAGES):
            self.refuse(head_of(len(body), path, **headers) + body, status, code, path, what=what)


def chat(text):
    """The body's bytes with text in place of its last brace."""
    return body_of()[:-1] + text


@claim('malformed bodies: 400')
def malformed(world):
    good = body_of(max_tokens=50)
    cases = [b'', b' ', b'{', good[:-1], good + b'x', good + good, b'[' + good + b']', b'null', b'"m"', b'7',
             good.replace(b':', b'', 1), good.replace(b'"model"', b'model', 1),
             good.replace(b'"m"', b'17', 1), good.replace(b'"m"', b'""', 1), good.replace(b'false', b'"no"'),
             chat(b',}'), chat(b',"a":01}'), chat(b',"a":+1}'), chat(b',"a":.5}'), chat(b',"a":NaN}'),
             chat(b',"a":"\n"}'), chat(b',"a":"\\x"}'), chat(b',"a":\'b\'}'), chat(b'/*c*/}'),
             chat(b',"max_tokens":-1}'), chat(b',"max_tokens":1.5}'), chat(b',"max_tokens":"9"}'),
             chat(b',"max_tokens":1e400}'), chat(b',"max_tokens":18446744073709551616}'),
             b'\xef\xbb\xbf\xef\xbb\xbf' + good, json.dumps(json.loads(good)).encode('utf-16')]
    for body in cases:
        world.refuse_body(body)
    return '%d bodies' % len(cases)


@claim('keys that policy depends on, given twice: 400, also when escaped or in another order')
def duplicates(world):
    for text in (b',"model":"m"}', b',"stream":true}', b',"max_tokens":1,"max_tokens":9}',
                 b',"max_tokens":1,"max\\u005ftokens":9}', b',"mod\\u0065l":"x"}'):
        world.refuse_body(chat(text), what='duplicate ' + text.decode())


@claim('NUL bytes, invalid UTF-8 and surrogates where they count: 400')
def bytes_of_evil(world):
    for text in (b',"a":"\x00"}', b',"a":"\xff"}', b',"a":"\xc0\xaf"}', b',"a":"\xed\xa0\x80"}',
                 b',"a":"\xf4\x90\x80\x80"}', b',"a":"\xe2\x82"}', b',"\xff":1}', b'\x00}'):
        world.refuse_body(chat(text), what='bytes %r' % text)
    world.refuse_body(body_of().replace(b'"m"', b'"\\ud800"', 1), what='surrogate in the model')


@claim('deep nesting: 400')
def nesting(world):
    for depth in (1000, 1000000):
        for left, right in ((b'[', b']'), (b'{"a":', b'}')):
            world.refuse_body(chat(b',"a":' + left * depth + b'1' + right * depth + b'}'), what='deep')
            world.refuse_body(left * depth, what='deep and open')


@claim('100 MB of body: 413 before it is read, and the connection is closed in order')
def big_body(world):
    for path in (CHAT, MESSAGES):
        world.refuse(head_of(100 << 20, path), 413, 'body_too_large', path)
        world.refuse(head_of(100 << 20, path, Expect='100-continue'), 413, 'body_too_large', path)
    held_mib = world.open.rss_bytes() >> 20
    client = Client(world.open.address)
    client.send(head_of(100 << 20))
    block, sent = b'x' * 65536, 0
    while sent < 100 << 20 and client.send(block):  # a client that does not listen while it sends
        sent += len(block)
    # What still comes is dropped for a while, so that no reset destroys the answer; nothing of it is kept.
    check((world.open.rss_bytes() >> 20) - held_mib < 40, 'the body was kept')
    client.close()
    # Chunked: its length is known only when it is too long.
    client = Client(world.open.address)
    client.send(head_of(None, Transfer_Encoding='chunked'))
    sent = 0
    while sent < 100 << 20 and client.send(b'10000\r\n' + block + b'\r\n'):
        sent += len(block)
    check((world.open.rss_bytes() >> 20) - held_mib < 80, 'more than one body was kept')
    client.close()
    check_equal(len(world.upstream.requests()), 0, 'requests at the upstream')


@claim('1 MB of head: 431; one long line, many lines, a long target')
def big_head(world):
    for path in (CHAT, MESSAGES):
        world.refuse(head_of(0, path, x_filler='y' * (1 << 20)), 431, 'head_too_large', path)
        many = {'x-%d' % number: 'y' * 100 for number in range(10000)}
        world.refuse(head_of(0, path, **many), 431, 'head_too_large', path)
    world.refuse(head_of(0, CHAT + '?' + 'y' * (1 << 20)), 431, 'head_too_large')


def message(lines, body=b'', path=CHAT, eol=b'\r\n'):
    return eol.join([b'POST %s HTTP/1.1' % path.encode(), *lines]) + eol + eol + body


def bad_messages(path):
    """The nineteen, and some more: name, bytes."""
    body = body_of(path=path)
    chunked = b'%x\r\n%s\r\n0\r\n\r\n' % (len(body), body)
    host, length, coded = b'Host: a', b'Content-Length: %d' % len(body), b'Transfer-Encoding: chunked'

    def of(*lines, body=body):
        return message(list(lines), body, path)
    return [
        ('CL and TE', of(host, length, coded, body=chunked)),
        ('TE and CL', of(host, coded, length, body=chunked)),
        ('two lengths', of(host, length, b'Content-Length: %d' % (len(body) + 1))),
        ('plus in length', of(host, b'Content-Length: +%d' % len(body))),
        ('list of lengths', of(host, b'Content-Length: %d, %d' % (len(body), len(body)))),
        ('TE of another kind', of(host, b'Transfer-Encoding: gzip', body=chunked)),
        ('TE twice chunked', of(host, b'Transfer-Encoding: chunked, chunked', body=chunked)),
        ('TE with a tail', of(host, b'Transfer-Encoding: chunked;q=1', body=chunked)),
        ('TE in 1.0', of(host, coded, body=chunked).replace(b'HTTP/1.1', b'HTTP/1.0', 1)),
        ('space before colon', of(host, b'Content-Length : %d' % len(body))),
        ('folded line', of(host, length, b'A: b\r\n c')),
        ('bare LF', message([host, length], body, path, b'\n')),
        ('bare CR', of(host, length, b'A: b\rX: c')),
        ('NUL in a value', of(host, length, b'A: b\x00c')),
        ('no Host', of(length)),
        ('two Hosts', of(host, host, length)),
        ('0x chunk size', of(host, coded, body=b'0x' + chunked)),
        ('overflowing chunk size', of(host, coded, body=b'1' + b'0' * 16 + b'\r\n' + body)),
        ('LF in a chunk extension', of(host, coded, body=b'%x;a\nb\r\n%s\r\n0\r\n\r\n' % (len(body), body))),
        ('LF after a chunk', of(host, coded, body=b'%x\r\n%s\n0\r\n\r\n' % (len(body), body))),
        ('chunk size no number', of(host, coded, body=b'zz\r\n')),
        ('negative chunk size', of(host, coded, body=b'-5\r\nhello\r\n0\r\n\r\n')),
        ('chunk longer than said', of(host, coded, body=b'2\r\n%s\r\n0\r\n\r\n' % body)),
        ('length among trailers', of(host, coded, body=chunked[:-2] + b'Content-Length: 5\r\n\r\n')),
        ('name with a space', of(host, length, b'A b: c')),
        ('no name', of(host, length, b': c')),
        ('no colon', of(host, length, b'Abc')),
        ('DEL in a value', of(host, length, b'A: b\x7f')),
        ('space in the target', of(host, length).replace(b' HTTP', b' x HTTP', 1)),
        ('control in the target', of(host, length).replace(b' HTTP', b'\x01 HTTP', 1)),
        ('version 2.0', of(host, length).replace(b'HTTP/1.1', b'HTTP/2.0', 1)),
        ('version in lower case', of(host, length).replace(b'HTTP/1.1', b'http/1.1', 1)),
    ]


@claim('the nineteen bad messages, and more like them: 400, closed, and not even a part is forwarded')
def nineteen(world):
    count = 0
    for path in (CHAT, MESSAGES):
        for name, data in bad_messages(path):
            seen = world.upstream.received_bytes()
            client = Client(world.open.address)
            client.send(data + request_of('whole'))  # what follows may not be taken for a request
            answer = client.read_answer()
            check(answer.status in (400, 505) or (name.startswith('TE of') and answer.status in (400, 501)),
                  '%s: %d %r' % (name, answer.status, answer.body))
            check(answer.is_clean and answer.headers.get('weir-source') == 'gateway', name)
            check_equal('type' in answer.json(), path == MESSAGES, 'the dialect for ' + name)
            client.read_to_end()
            check_equal(client.rest, b'', 'what follows after ' + name)
            client.close()
            check_equal(world.upstream.received_bytes(), seen, 'bytes at the upstream for ' + name)
            count += 1
    return '%d messages' % count


@claim('header injection: what a value carries stays one value, or is refused')
def injection(world):
    for evil in (b'a\nX-Evil: 1', b'a\r X-Evil: 1', b'a\rX-Evil: 1', b'a\x00X-Evil: 1'):
        body = body_of()
        world.refuse(message([b'Host: a', b'Content-Length: %d' % len(body), b'X-A: ' + evil], body),
                     400, 'malformed')
    # Nor do escapes in the body become line ends in any head.
    body = body_of(model='x\r\nX-Evil: 1')
    answer = world.refuse(head_of(len(body)) + body, 400, 'malformed')
    check('x-evil' not in answer.headers, 'a header was injected')


@claim('names listed in Connection, hop-by-hop fields and a second framing do not go upstream')
def hop_by_hop(world):
    world.upstream.forget()
    client = Client(world.open.address)
    client.send(request_of('whole', headers={'Connection': 'keep-alive, X-Secret', 'X-Secret': '1',
                                             'Keep-Alive': '5', 'Proxy-Authorization': 'x', 'TE': 'trailers',
                                             'Proxy-Connection': 'x'}))
    check_equal(client.read_answer().status, 200, 'the answer')
    client.close()
    got = world.upstream.requests()[-1].headers
    for name in ('x-secret', 'keep-alive', 'proxy-authorization', 'te', 'proxy-connection',
                 'transfer-encoding'):
        check(name not in got, '%s went upstream' % name)
    until('idle', lambda: world.open.is_at(requests=0))


@claim('unknown content encodings: 415')
def encodings(world):
    for coding in ('br', 'compress', 'gzip, gzip', 'x'):
        world.refuse_body(body_of(), 415, 'encoding_unknown', Content_Encoding=coding)


@claim('compressed bombs: 413; broken compression: 400')
def bombs(world):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b''.join([squeeze.compress(b' ' * (1 << 20)) for _ in range(256)]) + squeeze.flush()
    held_mib = world.open.rss_bytes() >> 20
    world.refuse_body(bomb, 413, 'body_too_large', 'gzip bomb', Content_Encoding='gzip')
    # A zstd frame of run-length blocks: 3 bytes and a byte become 128 KiB each.
    block = (3).to_bytes(1, 'little')  # last 1, type 1 (RLE), size in the upper bits
    run_of = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, 'little') + b' '
    end = (0 << 3 | 1).to_bytes(3, 'little')
    zstd = b'\x28\xb5\x2f\xfd' + b'\x00' + bytes([0x50]) + run_of * 4096 + end
    world.refuse_body(zstd, 413, 'body_too_large', 'zstd bomb', Content_Encoding='zstd')
    check(block and (world.open.rss_bytes() >> 20) - held_mib < 200, 'a bomb was unpacked')
    packed = gzip.compress(body_of())
    for broken in (packed[:-5], packed[:20], packed + b'x', b'no gzip', packed[:30] + b'!' + packed[31:]):
        world.refuse_body(broken, 400, 'malformed', 'broken gzip', Content_Encoding='gzip')
    world.refuse_body(b'no zstd', 400, 'malformed', 'broken zstd', Content_Encoding='zstd')


@claim('unknown models and paths outside: 404')
def unknown(world):
    for path in (CHAT, MESSAGES):
        body = body_of(model='none', path=path)
        world.refuse(head_of(len(body), path) + body, 404, 'model_unknown', path)


@claim('wrong keys, none, malformed ones, and keys in the URL are refused; no key goes upstream')
def keys(world):
    body = body_of()

    def head(*lines, target=CHAT):
        return ('\r\n'.join(['POST %s HTTP/1.1' % target, 'Host: a', 'Content-Length: %d' % len(body),
                             *lines]) + '\r\n\r\n').encode() + body
    other = 'wk_' + 'A' * 49
    wrong = ['Authorization: Bearer ' + other, 'x-api-key: ' + other, 'Authorization: Basic ' + world.key,
             'Authorization: Bearer ' + world.key[:-1], 'Authorization: Bearer ' + world.key + 'x',
             'Authorization: Bearer sk-something', 'X-Other: ' + world.key,
             'Authorization: Bearer ' + world.key.swapcase()]
    for line in wrong:
        world.refuse(head(line), 401, 'key_unknown', gateway=world.keyed, what=line)
    world.refuse(head(), 401, 'key_unknown', gateway=world.keyed)
    good = 'Authorization: Bearer ' + world.key
    for line in ('x-api-key: ' + other, 'x-api-key: sk-something'):
        world.refuse(head(good, line), 400, 'keys_differ', gateway=world.keyed, what='two keys')
    world.refuse(head('Authorization: Bearer one', 'x-api-key: two'), 400, 'keys_differ')
    world.refuse(head(good, target=CHAT + '?key=' + world.key), 400, 'malformed', gateway=world.keyed)
    said = world.keyed.err() + json.dumps(world.keyed.log_lines())
    check(world.key not in said, 'the key is in a log')


@claim('a head that comes too slowly: 408; a body that does: 408')
def slow(world):
    for path in (CHAT, MESSAGES):
        full = request_of(path=path)
        for end in (20 + len(path), full.index(b'\r\n\r\n') + 10):
            seen = world.upstream.received_bytes()
            client = Client(world.open.address)
            client.send(full[:end - 8])
            started_s = time.monotonic()
            client.sock.settimeout(0.1)
            for at in range(end - 8, end):  # a byte now and then does not help
                try:
                    client.send(full[at:at + 1])
                    if not client.fill() or client.rest:
                        break
                except TimeoutError:
                    continue
            client.sock.settimeout(20)
            answer = client.read_answer()
            check_equal((answer.status, answer.is_clean), (408, True), 'slow at %d' % end)
            check(time.monotonic() - started_s > 0.5, 'refused too early')
            client.close()
            check_equal(world.upstream.received_bytes(), seen, 'bytes at the upstream')


@claim('garbage behind a good request: the good one is answered, the garbage refused, nothing more')
def pipelined(world):
    for garbage in (b'\x00\x01\x02\r\n\r\n', b'GET / HTTP/1.1\r\nA : b\r\n\r\n', b'\xff' * 200000):
        world.upstream.forget()
        client = Client(world.open.address)
        client.send(request_of('whole') + garbage)
        first = client.read_answer()
        check_equal((first.status, first.body), (200, scripts.whole_body(CHAT)), 'the good one')
        second = client.read_answer()
        check(second.status in (400, 431) and second.is_clean, 'the garbage: %d' % second.status)
        client.read_to_end()
        client.close()
        check_equal(len(world.upstream.requests()), 1, 'requests at the upstream')


@claim('upgrades and CONNECT are refused')
def upgrades(world):
    world.refuse(request_of(headers={'Connection': 'upgrade', 'Upgrade': 'websocket'}), 501,
                 'upgrade_not_supported')
    seen = world.upstream.received_bytes()
    client = Client(world.open.address)
    client.send(b'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n')
    check(client.read_answer().status >= 400, 'CONNECT was accepted')
    client.close()
    check_equal(world.upstream.received_bytes(), seen, 'bytes at the upstream')


@claim('after all of it, both gateways are idle, serve, and drain with status 0')
def ends(world):
    for gateway, key in ((world.open, 'anybody'), (world.keyed, world.key)):
        gateway.check_idle()
        client = Client(gateway.address)
        client.send(request_of('whole').replace(b'client-credential', key.encode()))
        check_equal(client.read_answer().status, 200, 'a good request')
        client.close()
        gateway.check_idle()
        gateway.close()
    check(not any(world.key in str(request.headers) for request in world.upstream.requests()),
          'the key went upstream')


def teardown(world):
    world.open.kill()
    world.keyed.kill()


run(World, teardown)

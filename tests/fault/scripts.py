"""scripts: what the tests' upstream does with a request, by its header `x-script: name[:argument...]`.

Each answer that is complete tells a usage of 7 tokens in and 5 out. The answers here are ours; they have
the shape of the two APIs."""
import json
import threading

USAGE_IN, USAGE_OUT = 7, 5
CHARGE = USAGE_IN + USAGE_OUT


def chunk(data):
    return b'%x\r\n%s\r\n' % (len(data), data)


def _event(fields, name=None):
    text = 'event: %s\n' % name if name else ''
    return (text + 'data: ' + json.dumps(fields) + '\n\n').encode()


def _openai_events():
    def delta(choice):
        return _event({'id': 'c1', 'object': 'chat.completion.chunk', 'model': 'm',
                       'choices': [choice], 'usage': None})
    events = [delta({'index': 0, 'delta': {'role': 'assistant', 'content': word}, 'finish_reason': None})
              for word in ('one ', 'two ', 'three ', 'fo\u00fcr ')]
    events.append(delta({'index': 0, 'delta': {}, 'finish_reason': 'stop'}))
    events.append(_event({'id': 'c1', 'object': 'chat.completion.chunk', 'model': 'm', 'choices': [],
                          'usage': {'prompt_tokens': USAGE_IN, 'completion_tokens': USAGE_OUT,
                                    'total_tokens': CHARGE}}))
    events.append(b'data: [DONE]\n\n')
    return events


def _anthropic_events():
    def event(kind, **fields):
        return _event(dict(type=kind, **fields), kind)
    events = [event('message_start', message={'id': 'm1', 'type': 'message', 'role': 'assistant',
                                              'content': [], 'model': 'm',
                                              'usage': {'input_tokens': USAGE_IN, 'output_tokens': 1}}),
              event('content_block_start', index=0, content_block={'type': 'text', 'text': ''})]
    events += [event('content_block_delta', index=0, delta={'type': 'text_delta', 'text': word})
               for word in ('one ', 'two ', 'three ', 'fo\u00fcr ')]
    events += [event('content_block_stop', index=0),
               event('message_delta', delta={'stop_reason': 'end_turn'},
                     usage={'output_tokens': USAGE_OUT}),
               event('message_stop')]
    return events


def events_of(target):
    return _anthropic_events() if target.endswith('/messages') else _openai_events()


def whole_body(target):
    if target.endswith('/messages'):
        fields = {'id': 'm1', 'type': 'message', 'role': 'assistant', 'model': 'm',
                  'content': [{'type': 'text', 'text': 'one two'}], 'stop_reason': 'end_turn',
                  'usage': {'input_tokens': USAGE_IN, 'output_tokens': USAGE_OUT}}
    else:
        fields = {'id': 'c1', 'object': 'chat.completion', 'model': 'm',
                  'choices': [{'index': 0, 'message': {'role': 'assistant', 'content': 'one two'},
                               'finish_reason': 'stop'}],
                  'usage': {'prompt_tokens': USAGE_IN, 'completion_tokens': USAGE_OUT,
                            'total_tokens': CHARGE}}
    return json.dumps(fields).encode()


STREAM_HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'


def error_body(target):
    error = {'type': 'upstream_trouble', 'message': 'this is what the upstream says'}
    if target.endswith('/messages'):
        return json.dumps({'type': 'error', 'error': error}).encode()
    return json.dumps({'error': dict(error, param=None, code=None)}).encode()


def whole_answer(target, status=b'200 OK'):
    body = whole_body(target) if status.startswith(b'2') else error_body(target)
    return (b'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' %
            (status, len(body)) + body)


def stream_answer(target):
    return STREAM_HEAD + b''.join(chunk(e) for e in events_of(target)) + b'0\r\n\r\n'


# Each script: (link, request, arguments) -> True to go on with the next request of the connection.

def whole(link, request, args):
    return link.send(whole_answer(request.target))


def stream(link, request, args):
    """stream[:N]: the whole stream; with N the first N events, then silence until the gateway closes."""
    events = events_of(request.target)
    count = int(args[0]) if args else len(events)
    link.send(STREAM_HEAD)
    for event in events[:count]:
        link.send(chunk(event))
    if args:
        link.wait_closed()
        return False
    return link.send(b'0\r\n\r\n')


RELEASE = threading.Event()  # set by a test that has seen what it waited for


def gated(link, request, args):
    """gated:N: the whole stream, but after N events it waits for RELEASE."""
    events = events_of(request.target)
    link.send(STREAM_HEAD + b''.join(chunk(e) for e in events[:int(args[0])]))
    RELEASE.wait(60)
    return link.send(b''.join(chunk(e) for e in events[int(args[0]):]) + b'0\r\n\r\n')


def hold(link, request, args):
    """Never answers."""
    link.wait_closed()


def close_read(link, request, args):
    """close_read:fin|rst: closes once the request is read."""
    link.close(args[0])


def cut(link, request, args):
    """cut:whole|stream:N:fin|rst: the first N bytes of that answer, then closes."""
    answer = (stream_answer if args[0] == 'stream' else whole_answer)(request.target)
    link.send(answer[:int(args[1])])
    link.close(args[2])


def half_body(link, request, args):
    """Half of a whole answer's body, then silence until the gateway closes."""
    link.send(whole_answer(request.target)[:-40])
    link.wait_closed()


def no_done(link, request, args):
    """A stream that ends tidily as HTTP, without its API's last word."""
    last = 1 if not request.target.endswith('/messages') else 2
    link.send(STREAM_HEAD + b''.join(chunk(e) for e in events_of(request.target)[:-1 - last]) +
              b'0\r\n\r\n')
    return True


def endless(link, request, args):
    """Events without end."""
    link.send(STREAM_HEAD)
    event = chunk(events_of(request.target)[3] * 200)
    while link.send(event):
        pass


def trickle(link, request, args):
    """One event, then a comment now and then: never idle, never done."""
    link.send(STREAM_HEAD + chunk(events_of(request.target)[0]))
    link.sock.settimeout(0.05)
    while link.send(chunk(b': still here\n\n')):
        try:
            if not link.sock.recv(1):
                break
        except TimeoutError:
            continue
        except OSError:
            break


def bytewise(link, request, args):
    for byte in stream_answer(request.target):
        if not link.send(bytes([byte])):
            return False
    return True


def status(link, request, args):
    """status:N: an error answer."""
    return link.send(whole_answer(request.target, args[0].encode() + b' Sorry'))


def interim(link, request, args):
    return link.send(b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n' * 3 +
                     whole_answer(request.target))


def http10(link, request, args):
    """HTTP/1.0: the body ends with the connection."""
    link.send(b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n' + whole_body(request.target))


def close_after(link, request, args):
    """A good answer on a connection that is closed right behind it, without a word."""
    link.send(whole_answer(request.target))


def surplus(link, request, args):
    """A good answer and, behind it, one that nobody asked for."""
    link.send(whole_answer(request.target) + whole_answer(request.target).replace(b'one two', b'POISON!'))
    return True


BAD_ANSWERS = {
    'garbage': b'\x00\x01\x02 this is not HTTP\r\n\r\n',
    'tls': b'\x15\x03\x01\x00\x02\x02\x28',
    'huge-head': b'HTTP/1.1 200 OK\r\n' + b'X-Filler: ' + b'y' * (300 * 1024) + b'\r\n\r\n',
    'many-headers': b'HTTP/1.1 200 OK\r\n' + b'a: b\r\n' * 5000 + b'\r\n',
    'cl-and-te': b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'two-lengths': b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!',
    'bare-lf': b'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
    'folded': b'HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n',
    'nul': b'HTTP/1.1 200 OK\r\nA: b\x00c\r\nContent-Length: 0\r\n\r\n',
    'status-line': b'HTTP/1.1 2OO OK\r\nContent-Length: 0\r\n\r\n',
    'switching': b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
    'only-interim': b'HTTP/1.1 100 Continue\r\n\r\n' * 50,
}
BAD_CHUNKS = {
    'size': STREAM_HEAD + b'zz\r\n',
    'overflow': STREAM_HEAD + b'fffffffffffffffff\r\n',
    'hex-prefix': STREAM_HEAD + b'0x5\r\nhello\r\n',
    'no-crlf': STREAM_HEAD + b'2\r\nabXX',
    'negative': STREAM_HEAD + b'-1\r\n',
}


def bad(link, request, args):
    """bad:NAME: an answer that must not be passed on as one."""
    link.send({**BAD_ANSWERS, **BAD_CHUNKS}[args[0]])
    link.wait_closed()


def early(link, request, args):
    """Answers from the head alone and closes when the gateway does."""
    link.send(whole_answer(request.target, b'413 Too Much').replace(
        b'\r\nContent-Type', b'\r\nConnection: close\r\nContent-Type', 1))
    link.wait_closed()


def reset_unread(link, request, args):
    """Resets while the request's body is still on its way."""
    link.close('rst')


UNREAD = {early, reset_unread}  # these do not want the body


def serve(link):
    """The upstream's side of a connection."""
    while True:
        request = link.read_head()
        if request is None:
            return
        name, *args = request.script.split(':')
        script = globals()[name]
        if script not in UNREAD and not link.read_body(request):
            return
        if not script(link, request, args):
            return

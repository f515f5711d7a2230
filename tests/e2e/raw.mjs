// raw: a client connection on which every byte is the test's own, for what no HTTP library sends.
import net from 'node:net';
import { parseHead, within } from './support.mjs';

export class RawConnection {
  // Resolves when connected.
  static async open(port) {
    const connection = new RawConnection();
    connection.socket = net.connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    connection.bytes = Buffer.alloc(0);
    connection.watchers = [];
    await new Promise((resolve, reject) => {
      connection.socket.once('connect', resolve);
      connection.socket.once('error', reject);
    });
    connection.socket.on('data', (chunk) => {
      connection.bytes = Buffer.concat([connection.bytes, chunk]);
      connection.check();
    });
    const over = (how) => () => {
      connection.closed ??= how;
      connection.check();
    };
    connection.socket.on('end', over('end'));
    connection.socket.on('error', over('reset'));
    connection.socket.on('close', over('close'));
    return connection;
  }

  check() {
    this.watchers = this.watchers.filter((watcher) => !watcher());
  }

  watch(what, look, ms = 15_000) {
    const seen = new Promise((resolve, reject) => {
      this.watchers.push(() => {
        const value = look();
        if (value) resolve(value);
        else if (this.closed) reject(new Error(`closed (${this.closed}) before: ${what}; got ${this.bytes}`));
        return value || this.closed;
      });
      this.check();
    });
    return within(ms, what, seen);
  }

  write(data) {
    if (this.socket.writable) this.socket.write(data);
  }

  // Takes the next response off the connection: { status, headers, body, start }.
  // noBody: the answer to HEAD. 1xx answers are returned too.
  async response({ noBody = false } = {}) {
    const at = await this.watch('a response head', () => {
      const end = this.bytes.indexOf('\r\n\r\n');
      return end >= 0 && end + 4;
    });
    const head = parseHead(this.bytes.subarray(0, at).toString('latin1'));
    this.bytes = this.bytes.subarray(at);
    let body = Buffer.alloc(0);
    if (noBody || head.status < 200 || head.status === 204 || head.status === 304) {
      // nothing follows
    } else if (head.headers['transfer-encoding']) {
      body = await this.chunked();
    } else if (head.headers['content-length'] !== undefined) {
      body = await this.take(Number(head.headers['content-length']));
    } else {
      await this.untilClosed();
      body = this.bytes;
      this.bytes = Buffer.alloc(0);
    }
    return { ...head, body, text: body.toString('utf8') };
  }

  async take(count) {
    await this.watch(`${count} bytes`, () => this.bytes.length >= count);
    const taken = this.bytes.subarray(0, count);
    this.bytes = this.bytes.subarray(count);
    return taken;
  }

  async line() {
    const at = await this.watch('a line', () => {
      const end = this.bytes.indexOf('\r\n');
      return end >= 0 && end + 2;
    });
    return (await this.take(at)).toString('latin1').slice(0, -2);
  }

  async chunked() {
    const parts = [];
    for (;;) {
      const size = parseInt(await this.line(), 16);
      if (size === 0) break;
      parts.push(await this.take(size));
      await this.take(2);
    }
    this.trailers = [];
    for (let line = await this.line(); line !== ''; line = await this.line()) this.trailers.push(line);
    return Buffer.concat(parts);
  }

  // Resolves with how the other side closed: 'end' (in order) or 'reset'.
  untilClosed(ms = 15_000) {
    return within(
      ms,
      'closed by the other side',
      new Promise((resolve) => {
        this.watchers.push(() => {
          if (this.closed) resolve(this.closed);
          return this.closed;
        });
        this.check();
      }),
    );
  }

  close() {
    this.socket.destroy();
  }

  reset() {
    this.socket.resetAndDestroy();
  }
}

// A request's bytes. headers: an array of [name, value] or lines as they shall stand.
export function rawRequest(method, target, headers = [], body = '') {
  const lines = headers.map((header) => (Array.isArray(header) ? `${header[0]}: ${header[1]}` : header));
  const length = body.length > 0 ? [`content-length: ${Buffer.byteLength(body)}`] : [];
  return `${[`${method} ${target} HTTP/1.1`, 'host: gateway.test', ...lines, ...length].join('\r\n')}\r\n\r\n${body}`;
}

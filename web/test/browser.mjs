// What every browser has and Debian's Node.js 18 has not (20 has): File, and raw deflate in (De)CompressionStream.
import * as buffer from 'node:buffer';
import { Duplex } from 'node:stream';
import { createDeflateRaw, createInflateRaw } from 'node:zlib';

globalThis.File ??= buffer.File;

function takesRaw(Stream) {
  try {
    return Boolean(new Stream('deflate-raw'));
  } catch {
    return false;
  }
}

function withRaw(Stream, create) {
  // What a constructor returns in place of `this`: a pair of streams.
  return function (format) {
    return format === 'deflate-raw' ? Duplex.toWeb(create()) : new Stream(format);
  };
}

if (!takesRaw(CompressionStream)) globalThis.CompressionStream = withRaw(CompressionStream, createDeflateRaw);
if (!takesRaw(DecompressionStream)) globalThis.DecompressionStream = withRaw(DecompressionStream, createInflateRaw);

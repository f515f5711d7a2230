// Streams of bytes, with an end that is known before.

/** All of a stream; null: there is more than max, and the rest is not read. */
export async function readAll(stream: ReadableStream<Uint8Array>, max: number): Promise<Uint8Array<ArrayBuffer> | null> {
  const reader = stream.getReader();
  const parts: BlobPart[] = [];
  let size = 0;
  for (let got = await reader.read(); !got.done; got = await reader.read()) {
    size += got.value.length;
    if (size > max) {
      void reader.cancel();
      return null;
    }
    parts.push(got.value as Uint8Array<ArrayBuffer>);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { deserialize, serialize } from 'node:v8'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

import { OsmosisError } from '@osmosis/core'

const cipher = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16
const nameBytes = 8
/** Compressing fewer bytes takes more time than it saves. */
const shortest = 1024
// Takes a third of the time of gzip for the same size.
const fast = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }
/** First byte of the content of a blob. */
const size = { asItIs: 0, packed: 1 } as const
/** First byte of a blob. */
const form = { plain: 0, sealed: 1 } as const

/**
 * Compresses values for Redis, and encrypts them with the keys of the operator, so that a reader of that
 * Redis sees neither prompts nor the keys of policies and callbacks.
 */
export class QueueKeys {
  /** By name: the first one encrypts, all of them decrypt. */
  readonly #keys: ReadonlyMap<string, Buffer>

  /** @param keys - 32 bytes each; without keys values are stored in plain text */
  constructor(keys: readonly Buffer[] = []) {
    this.#keys = new Map(keys.map((key) => [nameOf(key), key]))
  }

  /**
   * The keys of a file: one per line, 32 bytes in base64. The first one is in use; the others are older
   * ones that may still be needed.
   *
   * @throws OsmosisError with code `invalid_config`
   */
  static parse(text: string): QueueKeys {
    const lines = text.split('\n').map((line) => line.trim())
    const keys = lines.filter(Boolean).map((line) => Buffer.from(line, 'base64'))
    if (keys.length > 0 && keys.every(({ length }) => length === keyBytes)) {
      return new QueueKeys(keys)
    }
    throw new OsmosisError(
      'invalid_config',
      'A file of queue keys must have one key per line, 32 random bytes in base64. Create one with `openssl rand -base64 32`.',
    )
  }

  /** Whether stored values are encrypted. */
  get encrypts(): boolean {
    return this.#keys.size > 0
  }

  /** The first bytes of blobs that can be opened: of each other blob it is certain that it cannot. */
  get heads(): readonly Buffer[] {
    if (!this.encrypts) return [Buffer.of(form.plain)]
    const names = [...this.#keys.keys()]
    return names.map((name) => Buffer.concat([Buffer.of(form.sealed), Buffer.from(name, 'hex')]))
  }

  /**
   * @param value - any value that `structuredClone` can copy
   * @param place - where it is stored; it can only be opened with the same place
   */
  seal(value: unknown, place: string): Buffer {
    const packed = pack(value)
    const [first] = this.#keys
    if (first === undefined) return Buffer.concat([Buffer.of(form.plain), packed])
    const [name, key] = first
    const nonce = randomBytes(nonceBytes)
    const sealing = createCipheriv(cipher, key, nonce).setAAD(Buffer.from(place))
    const head = [Buffer.of(form.sealed), Buffer.from(name, 'hex'), nonce]
    return Buffer.concat([...head, sealing.update(packed), sealing.final(), sealing.getAuthTag()])
  }

  /** @throws OsmosisError with code `invalid_config` when the blob was not sealed with these keys and this place */
  open(blob: Buffer, place: string): unknown {
    // A queue with keys does not trust values that were written without.
    if (!this.encrypts && blob[0] === form.plain) return unpack(blob.subarray(1))
    const nonceAt = 1 + nameBytes
    const key = this.#keys.get(blob.subarray(1, nonceAt).toString('hex'))
    if (blob[0] !== form.sealed || key === undefined) throw cannotOpen(place)
    const textAt = nonceAt + nonceBytes
    const opening = createDecipheriv(cipher, key, blob.subarray(nonceAt, textAt))
    opening.setAAD(Buffer.from(place)).setAuthTag(blob.subarray(-tagBytes))
    let packed: Buffer
    try {
      packed = Buffer.concat([opening.update(blob.subarray(textAt, -tagBytes)), opening.final()])
    } catch (cause) {
      throw cannotOpen(place, cause)
    }
    return unpack(packed)
  }
}

function pack(value: unknown): Buffer {
  const bytes = serialize(value)
  return bytes.length < shortest
    ? Buffer.concat([Buffer.of(size.asItIs), bytes])
    : Buffer.concat([Buffer.of(size.packed), zstdCompressSync(bytes, fast)])
}

function unpack(bytes: Buffer): unknown {
  const rest = bytes.subarray(1)
  return deserialize(bytes[0] === size.packed ? zstdDecompressSync(rest) : rest)
}

function nameOf(key: Buffer): string {
  return createHash('sha256')
    .update(key)
    .digest('hex')
    .slice(0, 2 * nameBytes)
}

function cannotOpen(place: string, cause?: unknown): OsmosisError {
  return new OsmosisError(
    'invalid_config',
    `${place} cannot be read with the queue keys of this process. Servers and workers of a queue need the same file of keys.`,
    { cause },
  )
}

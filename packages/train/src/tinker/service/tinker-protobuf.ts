import type { ForwardBackward } from './tinker-data.ts'

/**
 * The protobuf form of samples and `forward_backward`, with the field numbers of the official SDK (0.25 to 0.38). Lists of
 * numbers are bytes in it, little-endian: tokens as int32, logprobs as float32.
 */
export const protobufType = 'application/x-protobuf'

const dtypes = { float32: 1, int64: 2 } as const
const bfloat16 = 4

/** A `forward_backward` request. */
export function encodeForwardBackward(request: ForwardBackward): Buffer {
  const { data, loss_fn: loss, loss_fn_config: config = {} } = request.forward_backward_input
  return Buffer.concat([
    text(1, request.model_id),
    varintField(2, request.seq_id),
    ...data.map(({ model_input: input, loss_fn_inputs: inputs }) =>
      nested(3, [
        ...input.chunks.map(({ tokens }) => nested(1, [nested(1, [bytes(1, int32s(tokens))])])),
        ...Object.entries(inputs).map(([name, { data: values, dtype, shape }]) =>
          mapEntry(
            2,
            name,
            nested(2, [
              bytes(1, dtype === 'int64' ? int64s(values) : float32s(values)),
              varintField(3, dtypes[dtype]),
              bytes(4, Buffer.concat(shape.map(varint))),
            ]),
          ),
        ),
      ]),
    ),
    text(4, loss),
    ...Object.entries(config).map(([name, value]) => mapEntry(5, name, double(2, value))),
  ])
}

/** The result of a sample, in its JSON form. */
export function decodeSample(message: Buffer): unknown {
  return {
    sequences: repeated(message, 1).map((sequence) => ({
      tokens: numbers(field(sequence, 2), 4, (all, at) => all.readInt32LE(at)),
      logprobs: numbers(field(sequence, 3), 4, (all, at) => all.readFloatLE(at)),
    })),
  }
}

/** The result of a `forward_backward`, in its JSON form, without metrics. */
export function decodeForwardBackward(message: Buffer): unknown {
  const logprobs = repeated(message, 2).flatMap((record) =>
    repeated(record, 2)
      .filter((entry) => field(entry, 1).toString() === 'logprobs')
      .flatMap((entry) => batched(field(entry, 2))),
  )
  return { loss_fn_outputs: logprobs.map((data) => ({ logprobs: { data } })) }
}

/** The tensors of a batch, which are concatenated, with the byte at which each begins and the last one ends. */
function batched(tensor: Buffer): number[][] {
  const [dtype = 0] = varintsOf(tensor, 3)
  const values = field(tensor, 1)
  const ends = numbers(field(tensor, 2), 8, (all, at) => Number(all.readBigInt64LE(at)))
  return ends.slice(1).map((end, at) => {
    const own = values.subarray(ends[at], end)
    return dtype === bfloat16
      ? numbers(own, 2, (all, place) => upperHalf(all.readUInt16LE(place)))
      : numbers(own, 4, (all, place) => all.readFloatLE(place))
  })
}

/** A bfloat16 is the upper half of a float32. */
function upperHalf(bits: number): number {
  const whole = Buffer.alloc(4)
  whole.writeUInt16LE(bits, 2)
  return whole.readFloatLE()
}

function numbers(data: Buffer, size: number, read: (data: Buffer, at: number) => number): number[] {
  return Array.from({ length: Math.floor(data.length / size) }, (_, at) => read(data, at * size))
}

function int32s(values: readonly number[]): Buffer {
  const data = Buffer.alloc(values.length * 4)
  for (const [at, value] of values.entries()) data.writeInt32LE(value, at * 4)
  return data
}

function int64s(values: readonly number[]): Buffer {
  const data = Buffer.alloc(values.length * 8)
  for (const [at, value] of values.entries()) data.writeBigInt64LE(BigInt(value), at * 8)
  return data
}

function float32s(values: readonly number[]): Buffer {
  const data = Buffer.alloc(values.length * 4)
  for (const [at, value] of values.entries()) data.writeFloatLE(value, at * 4)
  return data
}

// Fields begin with their number and the kind of what follows: 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes.

function varint(value: number): Buffer {
  const data: number[] = []
  let rest = value
  while (rest > 127) {
    data.push((rest % 128) + 128)
    rest = Math.floor(rest / 128)
  }
  return Buffer.from([...data, rest])
}

function varintField(number: number, value: number): Buffer {
  return Buffer.concat([varint(number * 8), varint(value)])
}

function double(number: number, value: number): Buffer {
  const data = Buffer.alloc(8)
  data.writeDoubleLE(value)
  return Buffer.concat([varint(number * 8 + 1), data])
}

function bytes(number: number, data: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + 2), varint(data.length), data])
}

function text(number: number, value: string): Buffer {
  return bytes(number, Buffer.from(value))
}

function nested(number: number, fields: readonly Buffer[]): Buffer {
  return bytes(number, Buffer.concat(fields))
}

function mapEntry(number: number, key: string, value: Buffer): Buffer {
  return nested(number, [text(1, key), value])
}

interface Field {
  readonly number: number
  /** Bytes, or the value of a varint. */
  readonly value: Buffer | number
}

/** @throws RangeError for a message that is cut off or malformed */
function* fieldsOf(data: Buffer): Generator<Field> {
  let at = 0
  const next = (): number => {
    let [value, scale] = [0, 1]
    for (;;) {
      const byte = data.readUInt8(at)
      at += 1
      value += (byte % 128) * scale
      if (byte < 128) return value
      scale *= 128
    }
  }
  while (at < data.length) {
    const tag = next()
    const kind = tag % 8
    const number = Math.floor(tag / 8)
    if (kind === 0) {
      yield { number, value: next() }
      continue
    }
    const length = kind === 1 ? 8 : kind === 5 ? 4 : kind === 2 ? next() : NaN
    if (!(at + length <= data.length)) throw new RangeError('The protobuf message is malformed.')
    yield { number, value: data.subarray(at, at + length) }
    at += length
  }
}

function repeated(data: Buffer, number: number): Buffer[] {
  return Array.from(fieldsOf(data)).flatMap((one) =>
    one.number === number && typeof one.value !== 'number' ? [one.value] : [],
  )
}

function varintsOf(data: Buffer, number: number): number[] {
  return Array.from(fieldsOf(data)).flatMap((one) =>
    one.number === number && typeof one.value === 'number' ? [one.value] : [],
  )
}

/** Empty where the field is missing. */
function field(data: Buffer, number: number): Buffer {
  return repeated(data, number).at(-1) ?? Buffer.alloc(0)
}

/**
 * JSON text as Python's `json.dumps` writes it: with `", "` and `": "`, and all characters
 * beyond ASCII escaped. Numbers without a fraction are written as integers.
 *
 * @throws TypeError for values without a JSON form (functions, symbols, maps, sets, bytes) and for
 * cycles
 */
export function pythonJson(value: unknown): string {
  return write(value, [])
}

/** A number as Python prints it: `1e-05`, `1e+16`, `-0.0`; NaN and infinities as `names` says. */
export function pythonNumber(
  value: number,
  names: Readonly<{ nan: string; infinity: string }>,
): string {
  if (Number.isNaN(value)) return names.nan
  if (!Number.isFinite(value)) return `${value < 0 ? '-' : ''}${names.infinity}`
  if (Object.is(value, -0)) return '-0.0'
  // Python and JavaScript use exponents for different magnitudes. In this range JavaScript uses none.
  const exponent = Number(value.toExponential().split('e')[1])
  if (exponent >= -4 && exponent < 16) return String(value)
  const [digits = '', power = ''] = value.toExponential().split('e')
  return `${digits}e${power[0]}${power.slice(1).padStart(2, '0')}`
}

const jsonNames = { nan: 'NaN', infinity: 'Infinity' }

function write(value: unknown, path: readonly object[]): string {
  switch (typeof value) {
    case 'string':
      return asciiString(value)
    case 'number':
      return pythonNumber(value, jsonNames)
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'undefined':
      return 'null'
    case 'object':
      return value === null ? 'null' : writeObject(value, path)
    case 'function':
    case 'symbol':
      throw new TypeError(`a ${typeof value} has no JSON form`)
  }
}

function writeObject(value: object, path: readonly object[]): string {
  if (path.includes(value)) throw new TypeError('a value that contains itself has no JSON form')
  const below = [...path, value]
  if (Array.isArray(value)) return `[${value.map((item) => write(item, below)).join(', ')}]`
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') return write(toJSON.call(value), below)
  if (value instanceof Map || value instanceof Set || ArrayBuffer.isView(value)) {
    throw new TypeError(`a ${value.constructor.name} has no JSON form; convert it first`)
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  const parts = entries.map(([key, item]) => `${asciiString(key)}: ${write(item, below)}`)
  return `{${parts.join(', ')}}`
}

function asciiString(text: string): string {
  return JSON.stringify(text).replaceAll(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

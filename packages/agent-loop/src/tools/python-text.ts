/**
 * JSON text with the spaces and escapes of Python's `json.dumps`: `", "` and `": "`, and all characters beyond ASCII
 * escaped. Numbers are JavaScript's, which cannot tell 3.0 from 3 anyway.
 *
 * @throws TypeError for values without a JSON form (functions, symbols, maps, sets, bytes) and for
 * cycles
 */
export function pythonJson(value: unknown): string {
  return write(value, [])
}

function write(value: unknown, path: readonly object[]): string {
  switch (typeof value) {
    case 'string':
      return asciiString(value)
    case 'number':
      return JSON.stringify(value)
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

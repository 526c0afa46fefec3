import type { RealExchange } from './real-exchange.ts'

/** What an answer is made of, without its values: the kinds of an object, or of the chunks of a stream, equal ones once. */
export function shapeOfAnswer({ status, contentType, body }: RealExchange): object {
  const [type = ''] = contentType.split(';')
  if (type === 'application/json') return { status, type, shape: shapeOf(JSON.parse(body)) }
  if (type !== 'text/event-stream') return { status, type, shape: 'text' }
  const events = body.split('\n\n').filter((event) => event !== '')
  const chunks = events.map((event) =>
    event === 'data: [DONE]' ? event : shapeOf(JSON.parse(event.replace(/^data: /, ''))),
  )
  const shape = chunks.filter((chunk, at) => !isEqual(chunk, chunks[at - 1]))
  return { status, type, shape }
}

function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) {
    const kinds = value.map(shapeOf)
    return kinds.filter((kind, at) => kinds.findIndex((other) => isEqual(kind, other)) === at)
  }
  if (typeof value !== 'object') return typeof value
  if (value === null) return null
  const fields = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(fields.map(([name, field]) => [name, shapeOf(field)]))
}

function isEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

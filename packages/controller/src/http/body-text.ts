// JavaScript's numbers are not JSON's: `1.0` comes back as `1`, and large integers as others. What is
// passed on is therefore the text as it came, as long as nobody has put another body in its place.
const texts = new WeakMap<object, string>()

/** Remembers the text that a JSON body was read from. */
export function keepText(body: object, text: string): void {
  texts.set(body, text)
}

/**
 * The JSON text of a request body with another `model`. Nothing else changes in the text of a body that
 * came over the wire.
 */
export function textWithModel(body: Readonly<Record<string, unknown>>, model: string): string {
  const text = texts.get(body)
  const places = text === undefined ? [] : modelPlaces(text)
  if (text === undefined || places.length === 0) return JSON.stringify({ ...body, model })
  let replaced = ''
  let from = 0
  for (const [start, end] of places) {
    replaced += text.slice(from, start) + JSON.stringify(model)
    from = end
  }
  return replaced + text.slice(from)
}

/** Where the values of `model` in the outermost object are; the text is known to be JSON. */
function modelPlaces(text: string): [start: number, end: number][] {
  const places: [number, number][] = []
  const structure = /["{}[\],:]/g
  let depth = 0
  let start: number | undefined
  let latest = ''
  for (let found = structure.exec(text); found !== null; found = structure.exec(text)) {
    const { 0: sign, index } = found
    if (sign === '"') {
      structure.lastIndex = endOfString(text, index)
      if (depth === 1 && start === undefined) latest = text.slice(index, structure.lastIndex)
      continue
    }
    if (depth === 1 && start !== undefined && (sign === ',' || sign === '}')) {
      places.push([start, index])
      start = undefined
    }
    // A key may be written with escapes.
    if (depth === 1 && sign === ':' && JSON.parse(latest) === 'model') start = index + 1
    if (sign === '{' || sign === '[') depth += 1
    if (sign === '}' || sign === ']') depth -= 1
  }
  return places
}

/** Behind the quote that ends the string which begins at `start`. Texts are too long for a pattern. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  for (;;) {
    let backslashes = 0
    while (text[end - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return end + 1
    end = text.indexOf('"', end + 1)
  }
}

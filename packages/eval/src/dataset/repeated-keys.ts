interface OpenValue {
  /** The keys of an object so far; undefined for an array. */
  readonly keys: Set<string> | undefined
  key: string
  isKeyNext: boolean
}

/**
 * The first key that an object of a JSON text has twice, below the keys of the objects around it: `metadata.level`.
 * Undefined when each key is there once. The parser of JavaScript would keep the last value without a word.
 *
 * @param json - text that was parsed before
 */
export function repeatedKey(json: string): string | undefined {
  const open: OpenValue[] = []
  for (let at = 0; at < json.length; at += 1) {
    const here = open.at(-1)
    switch (json.charAt(at)) {
      case '{':
        open.push({ keys: new Set(), key: '', isKeyNext: true })
        break
      case '[':
        open.push({ keys: undefined, key: '', isKeyNext: false })
        break
      case '}':
      case ']':
        open.pop()
        break
      case ',':
        if (here?.keys) here.isKeyNext = true
        break
      case '"': {
        const end = endOfText(json, at)
        if (here?.keys && here.isKeyNext) {
          here.key = JSON.parse(json.slice(at, end + 1)) as string
          here.isKeyNext = false
          if (here.keys.has(here.key)) return pathOf(open)
          here.keys.add(here.key)
        }
        at = end
        break
      }
      default:
    }
  }
  return undefined
}

function pathOf(open: readonly OpenValue[]): string {
  return open.flatMap(({ keys, key }) => (keys ? [key] : [])).join('.')
}

/** The index of the closing quote of the text that opens at `start`. */
function endOfText(json: string, start: number): number {
  let end = start
  let backslashes: number
  do {
    end = json.indexOf('"', end + 1)
    backslashes = 0
    while (json[end - 1 - backslashes] === '\\') backslashes += 1
  } while (backslashes % 2 === 1)
  return end
}

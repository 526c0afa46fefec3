/** What the runner of GitHub Actions skips in front of a command, and what is invisible there. */
const lead = String.raw`(?:\x1b\[[\d;]*m|[^\p{L}\p{N}\p{P}\p{S}])*`
const startsCommand = new RegExp(`^(${lead}:)(?=:)`, 'u')
const mayStartCommand = new RegExp(`^${lead}:?$`, 'u')
const startsJson = new RegExp(`^${lead}["{[]`, 'u')

const nothing = '\u200B'

/**
 * Breaks up what the runner of GitHub Actions would take for its commands, because the text of a model may have them:
 * `::error::` at the start of a line, and `##[error]` anywhere. JSON stays the same data. The text may come in pieces.
 */
class CommandBreaker {
  /** The unfinished line, as far as it decides about what follows. */
  #line = ''

  text(piece: string): string {
    const shown = this.#line.length
    const lines = (this.#line + piece).split(/(?<=[\r\n])/)
    const last = lines.at(-1) ?? ''
    this.#line = /[\r\n]$/.test(last) ? '' : beginning(last)
    return lines.map(brokenLine).join('').slice(shown)
  }
}

function brokenLine(line: string): string {
  if (startsJson.test(line)) return line.replaceAll('##[', String.raw`##\u005b`)
  return line.replace(startsCommand, `$1${nothing}`).replaceAll('##[', `##${nothing}[`)
}

function beginning(line: string): string {
  if (mayStartCommand.test(line)) return line
  return (startsJson.test(line) ? '"' : '.') + (/#{1,2}$/.exec(line)?.[0] ?? '')
}

type Write = (chunk: unknown, ...rest: unknown[]) => boolean

/** Of guarded streams, the `write` that guards nothing. */
const originals = new WeakMap<object, Write>()

function writer(stream: NodeJS.WritableStream): Write {
  const breaker = new CommandBreaker()
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const write = stream.write.bind(stream) as Write
  if (!originals.has(stream)) originals.set(stream, write)
  return (chunk, ...rest) => {
    const text = chunk instanceof Uint8Array ? decoder.decode(chunk, { stream: true }) : chunk
    return write(typeof text === 'string' ? breaker.text(text) : text, ...rest)
  }
}

const known = new WeakMap<object, NodeJS.WritableStream>()

/** The stream; where the runner of GitHub Actions reads it, one that breaks up commands in what is written to it. */
export function withoutCommands<S extends NodeJS.WritableStream>(
  stream: S,
  env: NodeJS.ProcessEnv,
): S {
  if (!env['GITHUB_ACTIONS']) return stream
  const before = known.get(stream)
  if (before !== undefined) return before as S
  const guarded = withWrite(stream, writer(stream))
  // Where `breakUpCommands` has replaced it already, the first one counts.
  const original = originals.get(stream)
  if (original !== undefined) originals.set(guarded, original)
  known.set(stream, guarded)
  return guarded
}

/** The stream as it was, for what may be a command: nothing that a model wrote, unless the runner executes none. */
export function withCommands<S extends NodeJS.WritableStream>(guarded: S): S {
  const original = originals.get(guarded)
  return original === undefined ? guarded : withWrite(guarded, original)
}

function withWrite<S extends NodeJS.WritableStream>(stream: S, write: Write): S {
  return new Proxy(stream, {
    get(target, key): unknown {
      if (key === 'write') return write
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** Does the same to all that this process prints, also by code of the user. */
export function breakUpCommands(env: NodeJS.ProcessEnv): void {
  if (!env['GITHUB_ACTIONS']) return
  for (const stream of [process.stdout, process.stderr]) stream.write = writer(stream)
}

/**
 * What a token is. `word`: letters with their marks. `joined`: one letter of a script that writes words without spaces
 * between them, which may stand beside a number. `numeral`: one that is none of the digits 0 to 9, as Ⅳ.
 */
export type Kind =
  | 'digits'
  | 'word'
  | 'joined'
  | 'numeral'
  | 'underscore'
  | 'space'
  | 'currency'
  | 'symbol'
  | 'end'

const joined = String.raw`(?=[\p{L}\p{M}])[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}]`
/** Korean has spaces, but its numerals stand at the beginning of words: each syllable is a token. */
const syllable = String.raw`(?=\p{L})\p{sc=Hang}`
const kinds: readonly (readonly [Kind, string])[] = [
  ['joined', joined],
  ['word', syllable],
  ['word', String.raw`(?:(?!${joined}|${syllable})[\p{L}\p{M}])+`],
  ['space', String.raw`\s+`],
  ['digits', String.raw`\d+`],
  ['numeral', String.raw`\p{N}`],
  ['currency', String.raw`\p{Sc}`],
  ['underscore', '_'],
  ['symbol', '.'],
]

interface Lexer {
  readonly token: RegExp
  /** The first character of a token tells its kind; the half of a character does not. */
  readonly kindOf: (text: string) => Kind
}

function makeLexer(): Lexer {
  const token = new RegExp(kinds.map(([, expression]) => expression).join('|'), 'gsu')
  const beginnings = kinds.map(
    ([kind, expression]) => [kind, new RegExp(`^(?:${expression})`, 'su')] as const,
  )
  const known = new Map<number, Kind>()
  const kindOf = (text: string): Kind => {
    const code = text.charCodeAt(0)
    const kind = known.get(code) ?? beginnings.find(([, form]) => form.test(text))?.[0] ?? 'symbol'
    if (code < 0xd800) known.set(code, kind)
    return kind
  }
  return { token, kindOf }
}

/** Made with the first text: most programs that load this module read none, and expressions of Unicode take milliseconds. */
let lexer: Lexer | undefined

/** A text in tokens. Before its first and behind its last one are tokens of the kind `end`. */
export class Tokens {
  readonly length: number
  readonly decimalComma: boolean
  readonly #text: string
  readonly #texts: readonly string[]
  readonly #kinds: Kind[] = []
  /** Where each begins in the text. */
  readonly #offsets: number[] = []
  readonly #closings = new Map<number, number>()

  constructor(text: string, decimalComma: boolean) {
    this.decimalComma = decimalComma
    this.#text = text
    lexer ??= makeLexer()
    const { token, kindOf } = lexer
    this.#texts = text.match(token) ?? []
    this.length = this.#texts.length
    const braces: number[] = []
    const brackets: number[] = []
    let offset = 0
    for (let at = 0; at < this.length; at++) {
      const said = this.text(at)
      this.#kinds.push(kindOf(said))
      this.#offsets.push(offset)
      offset += said.length
      if (said === '{') braces.push(at)
      else if (said === '(') brackets.push(at)
      else if (said === '}') this.#close(braces, at)
      else if (said === ')') this.#close(brackets, at)
    }
  }

  #close(open: number[], at: number): void {
    const opening = open.pop()
    if (opening !== undefined) this.#closings.set(opening, at)
  }

  kind(at: number): Kind {
    return this.#kinds[at] ?? 'end'
  }

  text(at: number): string {
    return this.#texts[at] ?? ''
  }

  between(from: number, to: number): string {
    return this.#text.slice(this.#offsets[from] ?? this.#text.length, this.#offsets[to])
  }

  /** Where the bracket closes that opens here, if it does. */
  closing(at: number): number | undefined {
    return this.#closings.get(at)
  }
}

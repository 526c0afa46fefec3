import { reference } from './reference.ts'

export interface TextOptions {
  /** Whether capital and small letters are the same. Default: false. */
  readonly ignoreCase?: boolean
}

export interface ContainsOptions extends TextOptions {
  /** Whether only whole words count, so that 14 does not contain 4. Default: false. */
  readonly words?: boolean
}

/**
 * 1 when the answer is the label, else 0. White space around both, how Unicode composes a letter, and whether a minus is `−` (U+2212)
 * or `-`, do not count.
 *
 * @throws OsmosisError with code `invalid_dataset` without a label
 */
export function exact(answer: string, label: string | null, options: TextOptions = {}): 0 | 1 {
  const expected = comparable(reference('exact', label), options)
  return comparable(answer, options) === expected ? 1 : 0
}

/**
 * 1 when the label stands anywhere in the answer, compared as {@link exact} does, else 0. An answer that lists every possible label gets 1 too.
 *
 * @throws OsmosisError with code `invalid_dataset` without a label
 */
export function contains(
  answer: string,
  label: string | null,
  options: ContainsOptions = {},
): 0 | 1 {
  const expected = comparable(reference('contains', label), options)
  const text = comparable(answer, options)
  for (let at = text.indexOf(expected); at !== -1; at = text.indexOf(expected, at + 1)) {
    const end = at + expected.length
    const isWhole =
      !isInWord(text.slice(0, at), expected) && !isInWord(expected, text.slice(end, end + 2))
    if (!options.words || isWhole) return 1
  }
  return 0
}

/**
 * 1 when the expression matches the answer anywhere, else 0. An empty answer gets 0.
 *
 * @throws TypeError when `pattern` is not a regular expression
 */
export function matches(answer: string, pattern: RegExp): 0 | 1 {
  if (!(pattern instanceof RegExp)) {
    throw new TypeError(
      `matches needs a regular expression such as /^yes/i, got ${JSON.stringify(pattern)}`,
    )
  }
  // Unlike `test`, `search` starts at 0 again for an expression with the flag g.
  return answer.trim() !== '' && answer.search(pattern) !== -1 ? 1 : 0
}

function comparable(text: string, { ignoreCase = false }: TextOptions): string {
  const composed = text.trim().normalize('NFC').replaceAll('\u2212', '-')
  return ignoreCase ? composed.toLowerCase() : composed
}

/** Whether a word, or a number such as 4.5, continues from one text into the other. */
function isInWord(before: string, after: string): boolean {
  return (
    (/[\p{L}\p{N}\p{M}_]$/u.test(before.slice(-2)) && /^[\p{L}\p{N}\p{M}_]/u.test(after)) ||
    (/\p{N}$/u.test(before) && /^[.,]\p{N}/u.test(after)) ||
    (/\p{N}[.,]$/u.test(before.slice(-3)) && /^\p{N}/u.test(after))
  )
}

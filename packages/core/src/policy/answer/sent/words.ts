/** A list of words and of phrases of at most three words, as {@link says} compares them. */
export function phrases(list: string): ReadonlySet<string> {
  return new Set(list.split(', '))
}

/** `rateLimitExceeded`, `RATE_LIMIT-EXCEEDED` and `rate limit exceeded` have the words `rate limit exceeded`. */
export function wordsOf(text: string): readonly string[] {
  return text.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g)?.map((word) => word.toLowerCase()) ?? []
}

/** Whether a text has one of these phrases. Words are compared as words: `default` is no fault. */
export function says(text: string, known: ReadonlySet<string>): boolean {
  const words = wordsOf(text)
  return words.some((word, at) => {
    if (known.has(word)) return true
    if (at === words.length - 1) return false
    const two = `${word} ${words[at + 1]}`
    return known.has(two) || known.has(`${two} ${words[at + 2]}`)
  })
}

import { Redaction } from './redaction.ts'

/** A shorter secret is a word or a number, which stands in much that is no secret. Characters. */
const shortest = 8

/** The secrets of a command, and what must stay as it is although it may hold the value of one. */
export class HiddenSecrets {
  readonly #values = new Set<string>()
  readonly #data: unknown[] = []
  #redaction = new Redaction([])

  /** Takes the secrets out of a text, or of data. */
  get redaction(): Redaction {
    return this.#redaction
  }

  /** Data that is never changed, such as the rows of a dataset. To be known before the secrets are. */
  protect(rows: readonly unknown[]): void {
    for (const row of rows) this.#data.push(row)
  }

  /**
   * Hides values from now on. Returns those that cannot be hidden without changing what is no secret: for
   * each a sentence that says so.
   *
   * @param secrets - by the name that a person knows them by; empty ones are ignored
   */
  add(secrets: Readonly<Record<string, string | undefined>>): string[] {
    const given = Object.entries(secrets).flatMap(([name, value]): [string, string][] =>
      value === undefined || value === '' || this.#values.has(value) ? [] : [[name, value]],
    )
    const long = given.filter(([, value]) => value.length >= shortest)
    const inData = this.#inData(long.map(([, value]) => value))
    for (const [, value] of long) if (!inData.has(value)) this.#values.add(value)
    this.#redaction = new Redaction(this.#values)
    return given.flatMap(([name, value]) => {
      if (value.length < shortest)
        return [shownSentence(name, `is shorter than ${shortest} characters`)]
      return inData.has(value) ? [shownSentence(name, 'occurs in the dataset')] : []
    })
  }

  #inData(values: readonly string[]): Set<string> {
    const found = new Set<string>()
    if (values.length === 0) return found
    const spelled = values.map((value) => [value, JSON.stringify(value).slice(1, -1)] as const)
    for (const row of this.#data) {
      const text = JSON.stringify(row) ?? ''
      for (const [value, spelling] of spelled) if (text.includes(spelling)) found.add(value)
    }
    return found
  }
}

function shownSentence(name: string, why: string): string {
  return `${name} is not redacted in what is printed and stored, because its value ${why}.`
}

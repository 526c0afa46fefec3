import { Transform } from 'node:stream'

import { SecretValues, shortestSecret } from '@osmosis/protocol/http'

/** The secrets of a command, and data that must not change although it may contain a secret. */
export class HiddenSecrets {
  readonly #values = new Set<string>()
  readonly #data: unknown[] = []
  #redaction = new Redaction([])

  /** Removes the secrets from text and data. */
  get redaction(): Redaction {
    return this.#redaction
  }

  /** Protects data from changes, such as the rows of a dataset. Call it before `add`. */
  protect(rows: readonly unknown[]): void {
    for (const row of rows) this.#data.push(row)
  }

  /**
   * Hides values from now on. Returns a warning for each value that cannot be hidden without changing other
   * text.
   *
   * @param secrets - by their names, for warnings; empty ones are ignored
   */
  add(secrets: Readonly<Record<string, string | undefined>>): string[] {
    const given = Object.entries(secrets).flatMap(([name, value]): [string, string][] =>
      value === undefined || value === '' || this.#values.has(value) ? [] : [[name, value]],
    )
    const long = given.filter(([, value]) => value.length >= shortestSecret)
    const inData = this.#inData(long.map(([, value]) => value))
    for (const [, value] of long) if (!inData.has(value)) this.#values.add(value)
    this.#redaction = new Redaction(this.#values)
    return given.flatMap(([name, value]) => {
      if (value.length < shortestSecret)
        return [shownSentence(name, `is shorter than ${shortestSecret} characters`)]
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

/** Keys whose values are identifiers and not text: roles, ids, names, kinds. */
const structural =
  /^(?:role|type|kind|source|status|object|model|version|path|timestamp|finish_reason|finishReason)$|(?:^|_)(?:id|name|type|version)$|(?:Id|Name|Type|Version)$/
/** Arguments of a tool call: their keys are chosen by the tool, so all strings are text. */
const toolInputs = new Set(['arguments', 'args', 'input'])

/** Removes secret values from everything that is printed, logged or written. */
export class Redaction {
  readonly #secrets = new SecretValues()
  readonly #isEmpty: boolean

  /** @param values - the secrets; those that are too short are ignored */
  constructor(values: Iterable<string>) {
    const all = [...values]
    this.#secrets.add(...all)
    this.#isEmpty = all.length === 0
  }

  /** `text` without the secrets. */
  text(text: string): string {
    return this.#secrets.redact(text)
  }

  /**
   * A copy of plain data without the secrets in its strings. Keys, numbers and the values of keys such as
   * `role` and `id` are unchanged.
   */
  data<T>(value: T): T {
    return this.#isEmpty ? value : (this.#clean(value, true) as T)
  }

  /** A stream that removes the secrets from text, also those that arrive in pieces. */
  stream(): Transform {
    let held = ''
    return new Transform({
      decodeStrings: false,
      encoding: 'utf8',
      transform: (chunk: string, _encoding, done) => {
        const text = held + chunk
        const end = this.#secrets.settledLength(text)
        held = text.slice(end)
        done(null, this.text(text.slice(0, end)))
      },
      flush: (done) => done(null, this.text(held)),
    })
  }

  #clean(value: unknown, hasForm: boolean): unknown {
    if (typeof value === 'string') return this.text(value)
    if (Array.isArray(value)) return value.map((item) => this.#clean(item, hasForm))
    if (typeof value !== 'object' || value === null) return value
    // Dates and other class instances contain no text.
    if (Object.getPrototypeOf(value) !== Object.prototype) return value
    const fields = Object.entries(value).map(([key, item]: [string, unknown]) => {
      const isForm = hasForm && typeof item === 'string' && structural.test(key)
      const isInput = toolInputs.has(key) && !Array.isArray(item)
      return [key, isForm ? item : this.#clean(item, hasForm && !isInput)]
    })
    return Object.fromEntries(fields) as unknown
  }
}

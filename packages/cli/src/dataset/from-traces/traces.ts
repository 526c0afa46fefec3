/** A message of a conversation, as text. */
export interface SpokenTurn {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly text: string
}

/** What somebody or something said about an answer. */
export interface Feedback {
  readonly name: string
  readonly value: string | number | boolean
}

/** What a record of an export says about a trace. */
export interface TracePart {
  readonly trace: string
  /** When it began and ended, in any unit that the whole trace shares. */
  readonly start?: number
  readonly end?: number
  /** The messages of the first call of the agent. */
  readonly turns?: readonly SpokenTurn[]
  readonly answer?: string | undefined
  readonly tools?: readonly string[]
  readonly feedback?: readonly Feedback[]
  /** The answer that it should have given. */
  readonly reference?: string | undefined
  /** The name of a row that is known already. */
  readonly row?: string
  /** Of that row. */
  readonly metadata?: Readonly<Record<string, unknown>> | null
}

/** A trace, put together from all of its records. */
export class Trace {
  readonly id: string
  readonly source: string
  turns: readonly SpokenTurn[] = []
  answer: string | undefined
  reference: string | undefined
  row: string | undefined
  metadata: Readonly<Record<string, unknown>> = {}
  readonly tools = new Set<string>()
  readonly feedback: Feedback[] = []
  #asked = Infinity
  #answered = -Infinity

  constructor(id: string, source: string) {
    this.id = id
    this.source = source
  }

  /** Adds a record. The question is that of the earliest, the answer that of the latest. */
  add(part: TracePart): void {
    const { start = 0, end = start, turns = [], answer } = part
    if (turns.some(({ role }) => role === 'user') && start < this.#asked) {
      this.#asked = start
      this.turns = turns
    }
    if (answer !== undefined && answer !== '' && end >= this.#answered) {
      this.#answered = end
      this.answer = answer
    }
    this.reference ??= part.reference
    this.row ??= part.row
    for (const tool of part.tools ?? []) this.tools.add(tool)
    this.feedback.push(...(part.feedback ?? []))
    this.metadata = { ...this.metadata, ...part.metadata }
  }
}

const praise = /^(?:pass(?:ed)?|good|great|correct|positive|yes|true|thumbs[ _-]?up|helpful|👍)$/i

/**
 * The reference answer of a trace: a correction, else its own answer where all feedback says that it is good.
 * Undefined without feedback.
 *
 * @param goodScore - the least number that is good; undefined: numbers say nothing
 */
export function referenceOf(trace: Trace, goodScore: number | undefined): string | undefined {
  if (trace.reference !== undefined) return trace.reference
  const verdicts = trace.feedback.flatMap(({ value }) => {
    if (typeof value === 'boolean') return [value]
    if (typeof value === 'string') return [praise.test(value.trim())]
    return goodScore === undefined ? [] : [value >= goodScore]
  })
  return verdicts.length > 0 && verdicts.every(Boolean) ? trace.answer : undefined
}

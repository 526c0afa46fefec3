import type { SpooledPlace, SpooledValues } from './spooled-values.ts'

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
  readonly row?: string | undefined
  /** Of that row. */
  readonly metadata?: Readonly<Record<string, unknown>> | null | undefined
}

/** A trace, put together from all of its records. Its texts are elsewhere: there may be more than fit into memory. */
export class Trace {
  readonly source: string
  #asked = Infinity
  #answered = -Infinity
  #turns: SpooledPlace | undefined
  #answer: SpooledPlace | undefined
  /** What few traces have. */
  #more: Pick<TracePart, 'row' | 'reference' | 'metadata' | 'tools' | 'feedback'> = nothingMore

  constructor(source: string) {
    this.source = source
  }

  get row(): string | undefined {
    return this.#more.row
  }

  get reference(): string | undefined {
    return this.#more.reference
  }

  get metadata(): Readonly<Record<string, unknown>> {
    return this.#more.metadata ?? {}
  }

  get tools(): readonly string[] {
    return [...new Set(this.#more.tools)].toSorted()
  }

  get feedback(): readonly Feedback[] {
    return this.#more.feedback ?? []
  }

  turns(values: SpooledValues): readonly SpokenTurn[] {
    return this.#turns === undefined ? [] : (values.get(this.#turns) as readonly SpokenTurn[])
  }

  answer(values: SpooledValues): string | undefined {
    return this.#answer === undefined ? undefined : (values.get(this.#answer) as string)
  }

  /** Adds a record. The question is that of the earliest, the answer that of the latest. */
  add(part: TracePart, values: SpooledValues): void {
    const { start = 0, end = start, turns = [], answer, tools = [], feedback = [] } = part
    if (turns.some(({ role }) => role === 'user') && start < this.#asked) {
      this.#asked = start
      this.#turns = values.put(turns)
    }
    if (answer !== undefined && answer !== '' && end >= this.#answered) {
      this.#answered = end
      this.#answer = values.put(answer)
    }
    const { row, reference, metadata } = part
    if (!row && !reference && !metadata && tools.length + feedback.length === 0) return
    const more = this.#more
    this.#more = {
      row: more.row ?? row,
      reference: more.reference ?? reference,
      metadata: { ...more.metadata, ...metadata },
      tools: [...new Set([...(more.tools ?? []), ...tools])],
      feedback: [...(more.feedback ?? []), ...feedback],
    }
  }
}

const nothingMore = {}

const praise = /^(?:pass(?:ed)?|good|great|correct|positive|yes|true|thumbs[ _-]?up|helpful|👍)$/i

/**
 * The reference answer of a trace: a correction, else its own answer where all feedback says that it is good.
 * Undefined without feedback.
 *
 * @param goodScore - the least number that is good; undefined: numbers say nothing
 */
export function referenceOf(
  trace: Trace,
  goodScore: number | undefined,
  values: SpooledValues,
): string | undefined {
  const { reference } = trace
  if (reference !== undefined) return reference
  const verdicts = trace.feedback.flatMap(({ value }) => {
    if (typeof value === 'boolean') return [value]
    if (typeof value === 'string') return [praise.test(value.trim())]
    return goodScore === undefined ? [] : [value >= goodScore]
  })
  return verdicts.length > 0 && verdicts.every(Boolean) ? trace.answer(values) : undefined
}

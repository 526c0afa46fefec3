import { callsOf, isFields, resultsOf } from './message-blocks.ts'

/** A tool call of the policy, in one form for all frameworks. */
export interface SampleToolCall {
  /** Its id; null where the framework gives none. */
  readonly id: string | null
  readonly name: string
  /**
   * Its arguments: the JSON value that the policy wrote, or the text where that is no JSON. An integer beyond 2^53 is text, as in
   * rows of datasets.
   */
  readonly arguments: unknown
  /** What the tool answered, as text; null when the conversation has no result of the call. */
  readonly result: string | null
}

/**
 * The tool calls in a sample of any framework, in the order in which the policy made them: for graders that check what an
 * agent did. Where the history was rewritten, it has those that the last model call saw.
 */
export function toolCalls(sample: {
  readonly messages: readonly unknown[]
  readonly trajectoryMessages?: readonly unknown[] | null
}): SampleToolCall[] {
  const calls: { -readonly [K in keyof SampleToolCall]: SampleToolCall[K] }[] = []
  for (const message of sample.trajectoryMessages ?? sample.messages) {
    if (!isFields(message)) continue
    for (const { id, name, given } of callsOf(message)) {
      calls.push({ id, name, arguments: valueOf(given), result: null })
    }
    for (const { id, name, text } of resultsOf(message)) {
      const waiting = calls.filter(({ result }) => result === null)
      // Gemini's results may have no id: they follow in the order of the calls, under the names of their tools.
      const call = waiting.find((one) => (id === null ? one.name === name : one.id === id))
      if (call !== undefined) call.result = text
    }
  }
  return calls
}

function valueOf(given: unknown): unknown {
  if (typeof given !== 'string') return given ?? {}
  try {
    return JSON.parse(given, withEachDigit)
  } catch {
    return given
  }
}

/** A rounded id would be that of something else. */
function withEachDigit(
  _key: string,
  value: unknown,
  { source = '' }: { source?: string } = {},
): unknown {
  const isRounded = typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER
  return isRounded && /^-?\d+$/.test(source) ? source : value
}

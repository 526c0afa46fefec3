// A policy without a model: it reads the conversation, calls the multiply tool once and then says
// the result, wrong at a set rate. It replaces a real policy where none is available.
import { createHash } from 'node:crypto'

import { scriptedPolicy, type PolicyModel, type ScriptedCall } from '@osmosis/controller'

/** Settings of {@link arithmeticPolicy}. */
export interface ArithmeticPolicyOptions {
  /** The share of final answers that are wrong, 0 to 1. */
  errorRate: number
  /** Selects which answers are wrong. */
  seed: number
}

export function arithmeticPolicy({ errorRate, seed }: ArithmeticPolicyOptions): PolicyModel {
  const answers = new Map<string, number>()

  /** Which answers are wrong depends on the question and on how often it was answered before. */
  function errs(question: string): boolean {
    const attempt = answers.get(question) ?? 0
    answers.set(question, attempt + 1)
    const digest = createHash('sha256').update(`${seed}/${attempt}/${question}`).digest()
    return digest.readUInt32BE() / 2 ** 32 < errorRate
  }

  return scriptedPolicy((call) => {
    const question = lastText(call, 'user')
    const result = lastToolResult(call)
    if (result === undefined) {
      const [a, b] = [...question.matchAll(/= (-?\d+(?:\.\d+)?)/g)].map(([, number]) => number)
      if (a === undefined || b === undefined) throw new Error(`No two numbers in: ${question}`)
      return {
        content: 'I multiply the two.',
        // Not the form of JSON.stringify, because models write arguments in any form.
        toolCalls: [{ name: 'multiply', arguments: `{"a": ${a}, "b": ${b}}` }],
      }
    }
    const said = errs(question) ? result * 10 + 1 : result
    return `The product is below.\n#### ${said}`
  })
}

export const policy: PolicyModel = arithmeticPolicy({ errorRate: 0.2, seed: 25 })

function lastText({ messages }: ScriptedCall, role: string): string {
  const content = messages.findLast((message) => message.role === role)?.content
  if (typeof content === 'string') return content
  return content?.map(({ text }) => text ?? '').join('') ?? ''
}

/** The number the tool returned; undefined before it was called. */
function lastToolResult(call: ScriptedCall): number | undefined {
  if (call.messages.at(-1)?.role !== 'tool') return undefined
  return Number(lastText(call, 'tool'))
}

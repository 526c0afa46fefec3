import { defineWorkflowConfig, type GraderContext, Grader, type RolloutSample } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { ContractTool } from '@osmosis/testing'

import {
  type Failure,
  floods,
  llamaCpp,
  offeredTools,
  type PolicyTurn,
  type ServerDialect,
  writeAnswer,
  type WrittenAnswer,
} from '../kit/any-server/index.ts'
import { execute, startPolicyEndpoint } from '../kit/index.ts'
import type { RunAgent } from './agents-under-test.ts'

/** What became of a conversation of an agent with a policy. */
export interface Outcome {
  readonly isRewarded: boolean
  /** Why it failed; undefined when it did not. */
  readonly failure: string | undefined
  /** Of the failure. */
  readonly category: string | undefined
  readonly sample: RolloutSample | undefined
  /** What tools ran, with their inputs. */
  readonly ran: readonly (readonly [name: string, input: unknown])[]
  /** The messages of each request. */
  readonly requests: readonly ChatMessage[][]
}

/** More than any answer that is drawn. Bytes. */
const maxAnswerBytes = 100_000
const flooded = 2 * maxAnswerBytes

const workflowConfig = defineWorkflowConfig({
  name: 'any-server',
  policyLimits: { maxAnswerBytes },
})

/** Runs conversations of agents with one server, whose answers are written by each in its own way. */
export async function startConversations() {
  let answers: readonly (WrittenAnswer | BrokenAnswer)[] = []
  let answered = 0
  const endpoint = await startPolicyEndpoint((response) => {
    const answer = answers[answered] ?? writeAnswer(farewell, llamaCpp, answered)
    answered += 1
    response.writeHead(200, { 'content-type': answer.contentType })
    for (const part of answer.parts) if (part !== '') response.write(part)
    if ('isReset' in answer && answer.isReset) setImmediate(() => response.destroy())
    else response.end()
  })

  return async function converse(
    agent: RunAgent,
    turns: readonly PolicyTurn[],
    dialect: ServerDialect,
    failure?: Failure,
  ): Promise<Outcome> {
    const written = turns.map((turn, number) => writeAnswer(turn, dialect, number))
    const last = written.pop()
    if (last === undefined) throw new Error('a conversation needs a turn')
    answers = [...written, failure === undefined ? last : broken(last, failure, dialect)]
    answered = 0
    const first = endpoint.requests.length
    const ran: [string, unknown][] = []
    const tools = offeredTools.map((name): ContractTool => ({
      name,
      description: name,
      parameters: { type: 'object', properties: {}, additionalProperties: true },
      execute(input) {
        ran.push([name, structuredClone(input)])
        return `result ${ran.length}`
      },
    }))
    const { workflow, grading } = await execute(
      endpoint,
      async () => agent({ name: 'main', prompt: 'go', tools }),
      { label: 'label', grader: RewardEverything, workflowConfig },
    )
    const sample = grading?.samples.get('main')
    const failed = workflow.failure ?? grading?.failure
    const requests = endpoint.requests.slice(first).map(({ body }) => [...body.messages])
    return {
      isRewarded: grading?.status === 'success' && sample?.reward === 1,
      failure: failed?.message,
      category: failed?.category,
      sample,
      ran,
      requests,
    }
  }
}

class RewardEverything extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

type BrokenAnswer = Pick<WrittenAnswer, 'contentType' | 'parts'> & { readonly isReset: boolean }

function broken(
  { contentType, parts, completeFrom }: WrittenAnswer,
  { flood, at, report, isReset }: Failure,
  { form, lineEnd, finish }: ServerDialect,
): BrokenAnswer {
  if (flood !== undefined) {
    if (form === 'json')
      return { contentType, parts: [' '.repeat(flooded), ...parts], isReset: false }
    const begun = Math.floor(at * completeFrom)
    const endless = Array.from({ length: flooded / 1000 }, (_, n) => floods[flood](n))
    // Without a bound the answer would be whole.
    const parted = [...parts.slice(0, begun), ...endless, ...parts.slice(begun)]
    return { contentType, parts: parted, isReset: false }
  }
  if (report !== undefined) {
    if (form === 'json') return { contentType, parts: [JSON.stringify(report)], isReset: false }
    const end = lineEnd + lineEnd
    const before = parts.slice(0, Math.floor(at * completeFrom))
    const events = [`data: ${JSON.stringify(report)}${end}`, `data: [DONE]${end}`]
    return { contentType, parts: [...before, ...events], isReset: false }
  }
  const body = Buffer.from(parts.slice(0, completeFrom).join(''))
  const [first = '', second = ''] = parts
  // An answer that begins with its finish reason and says nothing more is an empty one, and whole.
  const emptyFrom = first.length - 2 * lineEnd.length
  const emptyTo = first.length + second.length + 'data: {'.length
  const clearCut = (cut: number): number =>
    form !== 'json' && finish === 'first' && cut >= emptyFrom && cut <= emptyTo
      ? emptyFrom - 1
      : cut
  // Behind the last brace the answer would be whole.
  const needed = body.length - (form === 'json' ? 1 : 2 * lineEnd.length + 1)
  const half = body.subarray(0, clearCut(Math.floor(at * needed)))
  return { contentType, parts: [half as unknown as string], isReset }
}

const farewell: PolicyTurn = { text: 'done', thinking: '', refusal: '', calls: [], isCut: false }

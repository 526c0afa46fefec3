import { readdirSync } from 'node:fs'
import path from 'node:path'

import {
  Grader,
  type AgentWorkflowClass,
  type GraderContext,
  type RolloutSample,
} from '@osmosis/core'
import { LocalBackend, runToEnd } from '@osmosis/server'
import { startPolicyServer, type ReceivedRequest } from '@osmosis/testing'

/** What the policy writes; no program would write it like this. */
const written = '{"a": 12.0,  "b":34}'

const row = {
  rolloutId: 'guide',
  initialMessages: [{ role: 'user', content: 'What is 12 times 34?' }],
  label: '408',
  metadata: null,
  apiKey: 'key',
  agentTimeoutSeconds: 120,
  graderTimeoutSeconds: 10,
  grade: true,
}

/**
 * Runs the program of a guide for one row. Fails unless it repeats what the policy said word for word, answers, and
 * leaves no work folder below `temporary`. `textBesideCalls: false` is for programs that do not send such text back.
 */
export async function askOnce(
  program: string,
  temporary: string,
  { textBesideCalls = true } = {},
): Promise<void> {
  process.env['TMPDIR'] = temporary
  const { CalculatorWorkflow: workflow } = (await import(program)) as {
    CalculatorWorkflow: AgentWorkflowClass
  }
  await using server = await startPolicyServer((request) => answer(request, textBesideCalls))
  const samples: RolloutSample[] = []
  class KeepSample extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      samples.push(ctx.sample)
      ctx.setReward(1)
    }
  }
  const end = await runToEnd(new LocalBackend({ workflow, grader: KeepSample }), {
    ...row,
    chatCompletionsUrl: server.url,
  })
  const [sample] = samples
  const said = JSON.stringify(server.requests.map(({ body }) => body['messages']))
  const rewritten = sample?.calls.some(({ extendsPrevious }) => !extendsPrevious)
  const isWhole = said.includes(JSON.stringify(written)) && rewritten === false
  if (end.kind !== 'rewarded' || !isWhole || !said.includes('"role":"tool"')) {
    throw new Error(
      `Expected the words of the policy and a result, got ${JSON.stringify(end)}: ${said}`,
    )
  }
  const left = readdirSync(temporary).filter((name) => name.startsWith('osmosis-work-'))
  if (left.length > 0) throw new Error(`${path.join(temporary, left[0] ?? '')} is left.`)
}

/**
 * Runs the program of a guide against a policy that calls the tool again and again. Fails unless the rollout is graded
 * at the program's own limit of turns.
 */
export async function reachLimitOfTurns(program: string): Promise<void> {
  const { CalculatorWorkflow: workflow } = (await import(program)) as {
    CalculatorWorkflow: AgentWorkflowClass
  }
  let calls = 0
  await using server = await startPolicyServer(({ body }) => {
    const tools = (body['tools'] ?? []) as { function: { name: string } }[]
    const name = tools.find((tool) => tool.function.name.endsWith('multiply'))?.function.name
    return { toolCalls: [{ id: `call.${(calls += 1)}`, name: name ?? '', arguments: written }] }
  })
  const samples: RolloutSample[] = []
  class KeepSample extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      samples.push(ctx.sample)
      ctx.setReward(0)
    }
  }
  const end = await runToEnd(new LocalBackend({ workflow, grader: KeepSample }), {
    ...row,
    chatCompletionsUrl: server.url,
  })
  const reached = samples[0]?.extraFields['limit_reached']
  if (end.kind === 'rewarded' && reached === 'max_turns') return
  throw new Error(`Expected a graded limit, got ${JSON.stringify({ end, reached, calls })}`)
}

function answer({ body }: ReceivedRequest, textBesideCalls: boolean): object | string {
  const messages = body['messages'] as { role: string }[]
  const tools = (body['tools'] ?? []) as { function: { name: string } }[]
  const names = tools.map((tool) => tool.function.name)
  const multiply = names.find((one) => one.endsWith('multiply'))
  if (multiply !== undefined && !messages.some(({ role }) => role === 'tool')) {
    return {
      ...(textBesideCalls ? { reasoning: 'I multiply. ', content: 'A moment. ' } : {}),
      toolCalls: [{ id: 'call.1', name: multiply, arguments: written }],
    }
  }
  // Some agents end with a tool of their own.
  if (!names.includes('final_answer')) return 'It is 408.'
  return {
    toolCalls: [{ id: 'call.2', name: 'final_answer', arguments: '{"response":"It is 408."}' }],
  }
}

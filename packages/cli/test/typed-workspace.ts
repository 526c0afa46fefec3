import path from 'node:path'

import { workIn } from './in-process.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

// Of the core: the command itself needs none.
const zod = path.resolve(import.meta.dirname, '../../core/node_modules/zod/index.js')

const workflow = `
import { AgentWorkflow, defineWorkflowConfig, Grader, requireRolloutContext } from '@osmosis/core'
import { z } from ${JSON.stringify(zod)}

export const config = defineWorkflowConfig({
  name: 'typed',
  metadata: z.object({ city: z.string(), days: z.number().default(2) }),
})

export class Typed extends AgentWorkflow<typeof config> {
  async run(ctx: { metadata: { days: number } }) {
    const messages = [{ role: 'user', content: String(ctx.metadata.days) }]
    const { choices } = await requireRolloutContext('Typed').policy('sample').complete({ messages })
    return [...messages, choices[0].message]
  }
}

export class Days extends Grader<unknown, typeof config> {
  async grade(ctx: { metadata: { days: number }; setReward(reward: number): void }) {
    ctx.setReward(ctx.metadata.days)
  }
}
`

const sums = `
import { AgentWorkflow, defineGraderConfig, Grader, lastAssistantText, requireRolloutContext } from '@osmosis/core'
import { numeric, numericLabel } from '@osmosis/core/scores'

export const graderConfig = defineGraderConfig({ name: 'sums', label: numericLabel() })

export class Sums extends AgentWorkflow {
  async run(ctx) {
    const { choices } = await requireRolloutContext('Sums').policy('sample').complete({ messages: ctx.prompt })
    return [...ctx.prompt, choices[0].message]
  }
}

export class Exact extends Grader {
  async grade(ctx) {
    ctx.setReward(numeric(lastAssistantText(ctx.sample), ctx.label))
  }
}
`

const labels = ['4', '3 or 4', '3,5', null, '1/2 km', '2024-01-05', '12:30', '\\boxed{2}']
  .map((label) =>
    JSON.stringify({ user_prompt: 'How much?', ground_truth: label, metadata: { a: 1 } }),
  )
  .join('\n')

const training = `
[experiment]
rollout = "sums"
entrypoint = "main.ts"
model_path = "token-model"
dataset = "labels"

[training]
max_prompt_length = 48
max_response_length = 16

[secrets]
required = []
`

const good = '{"metadata":{"city":"Rome"}}\n'
const bad = `${good}\n{"metadata":{"days":1}}\n${good}{"metadata":{"city":1,"days":"x"}}\n`

/** A workspace whose workflow declares the shape of its rows, for the commands of this test. */
export function inTypedWorkspace(): string {
  const root = temporaryWorkspace({
    'rollouts/typed/main.ts': workflow,
    'data/bad.jsonl': bad,
    'data/valid.jsonl': good.repeat(4),
    'rollouts/sums/main.ts': sums,
    'data/labels.jsonl': labels,
    'sums.toml': training,
  })
  workIn(root)
  return root
}

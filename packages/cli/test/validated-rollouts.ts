import { run, workIn } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

/** A workspace of one rollout; its workflow does `body` with `rollout`, `messages` and `say()`. */
export function workspaceOf(
  body: string,
  files: Readonly<Record<string, string>> = {},
  grade = 'for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)',
): void {
  const main = `import { AgentWorkflow, defineWorkflowConfig, Grader, requireRolloutContext, toRolloutSample } from '@osmosis/core'
export const config = defineWorkflowConfig({ name: 'one' })
export class One extends AgentWorkflow {
  async run(ctx) {
    const rollout = requireRolloutContext('One')
    let messages = [...ctx.prompt]
    const sample = (id) => rollout.registerSampleSource(id, { getSample: () => toRolloutSample({ id, messages }) })
    const say = async (id) => {
      const { choices } = await rollout.policy(id).complete({ messages })
      messages.push(choices[0].message)
    }
    ${body}
  }
}
export class Judge extends Grader {
  async grade(ctx) { ${grade} }
}
`
  const root = temporaryWorkspace({
    'package.json': '{ "type": "module" }',
    'rollouts/one/main.js': main,
    'configs/eval/one.toml': evalConfig('one').replace('main.ts', 'main.js'),
    ...files,
  })
  workIn(root)
}

export interface Report {
  readonly code: number | null
  readonly findings: readonly string[]
}

/** Validates, and parses the findings: \`level check: message\`. */
export async function validate(...args: readonly string[]): Promise<Report> {
  const { code, stdout, stderr } = await run(['validate', ...args, '--json'])
  if (stdout === '') throw new Error(stderr)
  const { rollouts } = JSON.parse(stdout) as {
    rollouts: { findings: { level: string; check: string; message: string }[] }[]
  }
  const all = rollouts.flatMap(({ findings }) => findings)
  return { code, findings: all.map(({ level, check, message }) => `${level} ${check}: ${message}`) }
}

/** What each trainer says of a rollout that all of them take. */
export const takenByAll = [
  'ok this machine: can train it: osmosis train local',
  'ok Osmosis: can train it: osmosis serve',
  'ok Agent Lightning: can train it: osmosis worker --agent-lightning',
  'ok POST /run: can train it: osmosis serve --run',
]

/** What is found of a rollout that is ready, before its reward. */
export const good = [
  'ok config: configs/eval/one.toml',
  'ok entrypoint: exports a workflow',
  'ok model calls: 1 reached the policy',
  "ok sample: main: 1 model call, answered by validate's own policy; 1 answer is trained",
]

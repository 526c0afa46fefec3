import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { osmosis } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

const paths = JSON.stringify({ compilerOptions: { paths: { '@lib/*': ['./lib/*'] } } })
const scored = `import { score } from '@lib/score'
export const scorer = () => score
`
/** A decorator of the older kind gets the name of the method, a new one gets a context. */
const decorated = (kind: string): string => `const seen: string[] = []
function mark(_: unknown, name: unknown) { seen.push(typeof name) }
class Marked { @mark run() {} }
export const scorer = () => (seen[0] === '${kind}' ? 1 : 0)
`

const files = {
  'package.json': '{ "type": "module" }',
  // What the working folder has is for other modules.
  'tsconfig.json': JSON.stringify({ compilerOptions: { paths: { '@lib/*': ['./wrong/*'] } } }),
  'wrong/score.ts': 'export const score = 0',
  'rows.jsonl': '{ "user_prompt": "hi", "ground_truth": "hi" }\n',
  'near/tsconfig.json': paths,
  'near/lib/score.ts': 'export const score = 1',
  'near/src/main.ts': `import { score } from '@lib/score'
import { AgentWorkflow, Grader, requireRolloutContext } from '@osmosis/core'
export class Agent extends AgentWorkflow {
  async run(ctx: any) {
    await requireRolloutContext('Agent').registerPolicySample('main').complete({ messages: ctx.prompt })
  }
}
export class Judge extends Grader {
  async grade(ctx: any) { ctx.setReward(ctx.sample.messages.at(-1).content === 'said 7' ? score : 0) }
}
`,
  'policy/tsconfig.json': paths,
  'policy/lib/score.ts': 'export const score = 7',
  'policy/policy.ts': `import { score } from '@lib/score'
import { scriptedPolicy } from '@osmosis/controller'
export const policy = scriptedPolicy(() => 'said ' + score)
`,
  'extended/tsconfig.json': '{ "extends": "../near/tsconfig.json" }',
  'extended/paths.ts': scored,
  'older/tsconfig.json': '{ "compilerOptions": { "experimentalDecorators": true } }',
  'older/decorators.ts': decorated('string'),
  'newer/tsconfig.json': '{}',
  'newer/decorators.ts': decorated('object'),
  'common/tsconfig.json': paths,
  'common/lib/score.ts': 'export const score = 1',
  'common/package.json': '{ "type": "commonjs" }',
  'common/paths.cts': scored,
}
const scorers = [
  'extended/paths.ts',
  'older/decorators.ts',
  'newer/decorators.ts',
  'common/paths.cts',
].map((file) => `${file}:scorer`)

// One command loads them all, so each has to replace what the one before it needed.
it(
  'entrypoint, policy and eval functions each have the tsconfig.json nearest to them',
  { tags: 'slow' },
  async () => {
    const root = temporaryWorkspace(files)
    const modules = ['-m', 'near/src/main.ts', '--policy', 'policy/policy.ts']
    const functions = scorers.flatMap((scorer) => ['--eval-fn', scorer])
    const args = [...modules, ...functions, '-d', 'rows.jsonl', '-o', 'out', '--name', 'all']
    const { code, stderr } = await osmosis(['eval', 'run', ...args], {}, root)
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('error')])
    const [line = ''] = readFileSync(path.join(root, 'out/all/events.jsonl'), 'utf8').split('\n')
    expect(JSON.parse(line)).toMatchObject({
      reward: 1,
      scores: Object.fromEntries(scorers.map((scorer) => [scorer, 1])),
    })
  },
)

import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { runs } from '../../../test/kit/index.ts'
import { withoutControls } from '../src/command/terminal-controls.ts'
import { run, workIn } from './in-process.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

/** What a terminal would do instead of showing it. */
const attacks = [
  '\u001B]52;c;ZXZpbA==\u0007',
  '\u001B]0;a title\u001B\\',
  '\u001B]8;;http://evil.test\u0007link\u001B]8;;\u0007',
  '\u001B[2J\u001B[H',
  '\u001B[1A\u001B[2K',
  '\u009B31m',
  '\u001BP1$r\u001B\\',
  '\u001Bc',
  '\u0008\u0008',
  '\u202Etxet',
  '\r',
]

/** What controls a terminal, other than the colours that commands print. */
function controlsIn(text: string): string[] {
  // oxlint-disable-next-line no-control-regex -- these are the characters that are looked for
  const plain = text.replaceAll(/\u001B\[[\d;]*m/g, '')
  return plain.match(/[^\P{Cc}\n\t]|[\u202A-\u202E\u2066-\u2069]/gu) ?? []
}

const attack = attacks.join('says')
const rollout = `import { AgentWorkflow, Grader, requireRolloutContext } from '@osmosis/core'
export class Agent extends AgentWorkflow {
  async run(ctx: any) {
    await requireRolloutContext('Agent').registerPolicySample('main').complete({ messages: ctx.prompt })
    if (ctx.metadata?.fails) throw new Error(${JSON.stringify(attack)})
  }
}
export class Judge extends Grader { async grade(ctx: any) { ctx.setReward(1) } }
`

it.each([
  'test -m main.ts -d rows.jsonl',
  'eval run -m main.ts -d rows.jsonl',
  'eval run -m main.ts -d rows.jsonl --eval-fn scores.ts:thrown',
])('what user code and models write controls no terminal: osmosis %s', async (words) => {
  const root = temporaryWorkspace({
    'package.json': '{ "type": "module" }',
    'main.ts': rollout,
    'scores.ts': `export const thrown = () => { throw new Error(${JSON.stringify(attack)}) }`,
    'policy.ts': `import { scriptedPolicy } from '@osmosis/controller'
export const policy = scriptedPolicy(() => ${JSON.stringify(attack)})`,
    'rows.jsonl':
      '{"user_prompt":"a","ground_truth":"a"}\n{"user_prompt":"b","ground_truth":"b","metadata":{"fails":true}}\n',
  })
  workIn(root)
  const { stdout, stderr } = await run([...words.split(' '), '--policy', 'policy.ts'])
  expect(stdout + stderr).toContain('says')
  expect(controlsIn(stdout)).toEqual([])
  expect(controlsIn(stderr)).toEqual([])
})

it('colours, lines and tabs stay, and texts of all kinds lose nothing else', () => {
  const parts = fc.constantFrom(
    'a',
    'é',
    '\u{1f469}\u200D\u{1f52c}',
    '\n',
    '\t',
    '\u001B[31m',
    '\u001B[0m',
    '\r\u001B[2K',
    '漢',
    '\u200B',
  )
  fc.assert(
    fc.property(fc.array(parts), (all) => {
      expect(withoutControls(all.join(''))).toBe(all.join(''))
    }),
    { numRuns: runs(500) },
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(parts, fc.constantFrom(...attacks))), (all) => {
      const text = all.filter((one) => one !== '\r\u001B[2K').join('')
      expect(controlsIn(withoutControls(`x${text}`))).toEqual([])
    }),
    { numRuns: runs(1000) },
  )
})

it('what may be JSON keeps its value, and controls nothing if it only looks like it', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...attacks, 'a', '"', '\u{1f469}')), (parts) => {
      const value = { said: parts.join('') }
      const printed = withoutControls(`${JSON.stringify(value, null, 2)}\n`)
      expect(JSON.parse(printed)).toEqual(value)
      expect(controlsIn(printed)).toEqual([])
      expect(controlsIn(withoutControls(`{ no JSON: ${parts.join('')}`))).toEqual([])
    }),
    { numRuns: runs(100) },
  )
})

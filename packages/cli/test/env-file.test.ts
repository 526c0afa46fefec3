import { expect, it } from 'vitest'

import { run } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

const variable = 'OSMOSIS_TEST_LEVEL'

/** Fails where the variable is not there when the module is loaded. */
const reading = `const level = process.env['${variable}']
if (level !== '7') throw new Error('The level is ' + level)
`

const files = {
  '.env': `${variable}=7\n`,
  'osmosis.toml': `default_policy = "reading"\n\n[policies.reading]\nmodule = "policies/reading.ts"\n`,
  'configs/eval/echo.toml': evalConfig('echo'),
  'policies/reading.ts': `${reading}export { policy } from './echo.ts'\n`,
  'evals.ts': `${reading}export const ofLevel = () => Number(process.env['${variable}'])\n`,
  'loop.ts': `import { RolloutAgentLoop } from '@osmosis/agent-loop'
${reading}class Loop extends RolloutAgentLoop {
  readonly name = 'loop'
  getTools(): [] {
    return []
  }
  async run(ctx) {
    return process.env['${variable}'] === '7' ? ctx.complete(ctx.request.messages) : ctx.error('no level')
  }
}
export const agentLoop = new Loop()
`,
}

it.each([
  ['test', '-m loop.ts -d data/words.jsonl --limit 1', /^Passed: 1$/m],
  [
    'eval run',
    'configs/eval/echo.toml --eval-fn evals.ts:ofLevel --limit 1 --details',
    /\bofLevel +7\b/,
  ],
  ['validate', 'echo', /^ok +reward +1 for echo$/m],
  ['doctor', '', /: policies\/reading\.ts was loaded/],
])(
  'osmosis %s loads code of the user with the variables of .env, which it takes back',
  async (command, flags, expected) => {
    const words = `${command} ${flags}`.split(' ').filter((word) => word !== '')
    const { stdout, stderr } = await run(words, {}, temporaryWorkspace(files))
    expect(stderr + stdout).not.toContain('The level is')
    expect(stdout).toMatch(expected)
    expect(process.env[variable]).toBeUndefined()
  },
)

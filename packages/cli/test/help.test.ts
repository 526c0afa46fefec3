import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'

const commands = [
  'serve',
  'worker',
  'validate',
  'test',
  'doctor',
  'eval run',
  'eval runs',
  'eval show',
  'eval compare',
  'eval view',
  'eval regrade',
  'eval note',
  'eval audit',
  'eval export',
  'eval rubric',
  'rollout init',
  'auth login',
  'dataset upload',
  'secret set',
  'eval submit',
  'train info',
]

describe('the help of a command', () => {
  it.each(commands)('osmosis %s shows flags in groups, and an example', async (name) => {
    const { code, stdout } = await run([...name.split(' '), '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain(`\nExample:\n  $ osmosis ${name} `.trimEnd())
    // Flags of no group stand among these.
    const [, ungrouped = ''] = /\nOptions:\n((?: .*\n)*)/.exec(stdout) ?? []
    expect(ungrouped.trim()).toMatch(/^-h, --help +display help for command$/)
  })

  it('shows flags about one thing together, in the order of the groups', async () => {
    const { stdout } = await run(['validate', '--help'])
    expect(stdout.match(/^[A-Z]\w+:/gm)).toEqual([
      'Usage:',
      'Arguments:',
      'Inputs:',
      'Model:',
      'Output:',
      'Options:',
      'Example:',
    ])
  })
})

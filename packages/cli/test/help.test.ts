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
  'rollout init',
  'platform login',
  'platform dataset upload',
  'platform secret set',
  'eval submit',
  'platform train info',
]

describe('commands of the platform under the names that its guides have', () => {
  it.each(['login', 'auth login', 'dataset upload', 'secret set', 'eval list', 'train info'])(
    'osmosis %s is accepted, and not listed',
    async (name) => {
      const [topic = '', word = ''] = name.split(' ')
      const { code, stdout } = await run([...name.split(' '), '--help'])
      expect(code).toBe(0)
      expect(stdout).toContain(`Usage: osmosis ${name} `)
      const topics = (await run(['--help'])).stdout
      const listed = topics.includes(`\n  ${topic} `) ? (await run([topic, '--help'])).stdout : ''
      expect(listed).not.toMatch(new RegExp(`^ {2}${word} `, 'm'))
    },
  )

  it.each(['eval', 'train'])('osmosis %s submit is listed', async (topic) => {
    expect((await run([topic, '--help'])).stdout).toMatch(/^ {2}submit \[options\] <config>/m)
  })
})

describe('the help of a command', () => {
  it.each(commands)('osmosis %s shows flags in groups, and an example', async (name) => {
    const { code, stdout } = await run([...name.split(' '), '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain(`\nExample:\n  $ osmosis ${name} `.trimEnd())
    // Flags of no group stand among these.
    const [, ungrouped = ''] = /\nOptions:\n((?: .*\n)*)/.exec(stdout) ?? []
    expect(ungrouped.trim()).toMatch(/^-h, --help +display help for command$/)
  })

  it.each([...commands, '', 'eval', 'train', 'dataset', 'auth'])(
    'osmosis %s fits 80 columns',
    async (name) => {
      const { stdout } = await run([...name.split(' ').filter(Boolean), '--help'])
      const commandLines = /^(?:Usage:|  \$ )/
      const wide = stdout.split('\n').filter((line) => line.length > 80 && !commandLines.test(line))
      expect(wide).toEqual([])
    },
  )

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

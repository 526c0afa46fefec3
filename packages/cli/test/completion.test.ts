import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { withPrograms } from '@osmosis/testing/kit'
import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

/** The script for a shell, in a file. */
async function scriptFile(shell: string): Promise<string> {
  const { code, stdout } = await run(['completion', shell])
  expect(code).toBe(0)
  const file = path.join(temporaryFolder(), 'script')
  writeFileSync(file, stdout)
  return file
}

/** Asks the script in `$0` of zsh what it offers; its own functions work at a prompt only. */
const askZsh = `compdef() { }
_describe() { print -rl -- \${(P)@[-1]%%:*} }
compadd() { print -rl -- \${@:2} }
_files() { }
source "$0"
words=("$@") CURRENT=$#
_osmosis`
const askBash = `source "$0"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_osmosis
printf '%s\\n' "\${COMPREPLY[@]}"`
const askFish = 'source $argv[1]; complete -C "$argv[2..]"'

/** How a shell is asked what it offers at the end of a command line. */
const shells = {
  bash: ['--norc', '-c', askBash],
  zsh: ['-f', '-c', askZsh],
  fish: ['--no-config', '-c', askFish],
} as const

/** What a shell offers for the last word, which is being typed. */
async function offeredBy(
  shell: keyof typeof shells,
  ...words: readonly string[]
): Promise<string[]> {
  const args = [...shells[shell], await scriptFile(shell), 'osmosis', ...words]
  const { stdout } = await promisify(execFile)(shell, args, { cwd: temporaryFolder() })
  // In fish a description stands behind a tab.
  return stdout.split('\n').flatMap((line) => line.split('\t')[0] || [])
}

describe.each(['bash', 'zsh', 'fish'] as const)('osmosis completion %s', (shell) => {
  const tests = withPrograms(shell)

  tests.it(`completes commands and those below them`, async () => {
    expect(await offeredBy(shell, 'rollout', '')).toEqual(
      expect.arrayContaining(['init', 'send', 'validate']),
    )
    const commands = await offeredBy(shell, '')
    expect(commands).toEqual(expect.arrayContaining(['eval', 'rollout']))
    expect(commands).not.toContain('init')
  })

  tests.it(`completes flags, and values where there is a choice`, async () => {
    expect(await offeredBy(shell, 'eval', 'run', '--pol')).toContain('--policy')
    const frameworks = await offeredBy(shell, 'rollout', 'init', 'x', '--framework', '')
    expect(frameworks.toSorted()).toEqual(['agent-loop', 'ai-sdk', 'openai-agents', 'strands'])
    expect(new Set(await offeredBy(shell, 'completion', ''))).toEqual(
      new Set(['bash', 'zsh', 'fish']),
    )
  })
})

describe('osmosis completion bash', () => {
  const offered = offeredBy.bind(undefined, 'bash')

  it('offers what begins like the word', async () => {
    expect(await offered('roll')).toEqual(['rollout'])
    expect(await offered('eval', 'run', '--pol')).toEqual(['--policy', '--policy-host'])
  })

  it('leaves other words to the shell, which completes files', async () => {
    expect(await offered('eval', 'run', '')).toEqual([])
    expect(await offered('eval', 'run', '--dataset', '')).toEqual([])
    const args = ['--norc', '-c', 'source "$0"; complete -p osmosis', await scriptFile('bash')]
    const { stdout } = await promisify(execFile)('bash', args)
    expect(stdout).toBe('complete -o default -F _osmosis osmosis\n')
  })

  it('has every command and flag that the help has', async () => {
    const { stdout } = await run(['eval', 'run', '--help'])
    const flags = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag)
    expect(flags.length).toBeGreaterThan(10)
    expect(await offered('eval', 'run', '--')).toEqual(flags)
  })
})

it('refuses a shell that it does not know', async () => {
  const { code, stderr } = await run(['completion', 'cmd'])
  expect(code).toBe(2)
  expect(stderr).toContain('Allowed choices are bash, zsh, fish')
})

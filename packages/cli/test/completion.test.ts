import { execFile, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

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

/** What bash offers at the end of a command line; the last word is the one that is being typed. */
async function offered(...words: readonly string[]): Promise<string[]> {
  const ask = `source "$0"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_osmosis
printf '%s\\n' "\${COMPREPLY[@]}"`
  const args = ['--norc', '-c', ask, await scriptFile('bash'), 'osmosis', ...words]
  const { stdout } = await promisify(execFile)('bash', args)
  return stdout.split('\n').filter((line) => line !== '')
}

describe('osmosis completion bash', () => {
  it('completes commands and those below them', async () => {
    expect(await offered('roll')).toEqual(['rollout'])
    expect(await offered('rollout', '')).toEqual(
      expect.arrayContaining(['init', 'send', 'validate']),
    )
    expect(await offered('')).not.toContain('init')
  })

  it('completes flags, and values where there is a choice', async () => {
    expect(await offered('eval', 'run', '--pol')).toEqual(['--policy'])
    expect(await offered('rollout', 'init', 'x', '--framework', '')).toEqual([
      'openai-agents',
      'strands',
      'ai-sdk',
      'agent-loop',
    ])
    expect(await offered('completion', '')).toEqual(['bash', 'zsh', 'fish'])
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

const installed = ['zsh', 'fish'].filter((shell) => spawnSync(shell, ['-c', '']).status === 0)

it.skipIf(installed.length === 0)('zsh and fish take their scripts', async () => {
  for (const shell of installed) {
    const { status, stderr } = spawnSync(shell, ['-n', await scriptFile(shell)])
    expect({ status, stderr: String(stderr) }).toEqual({ status: 0, stderr: '' })
  }
})

it('refuses a shell that it does not know', async () => {
  const { code, stderr } = await run(['completion', 'cmd'])
  expect(code).toBe(1)
  expect(stderr).toContain('Allowed choices are bash, zsh, fish')
})

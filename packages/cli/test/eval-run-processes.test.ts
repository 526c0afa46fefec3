import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { readResults } from './in-process.ts'
import { startOsmosis, temporaryFolder, type RunningCommand } from './osmosis.ts'

/** A run in a folder of its own, by words of the command line with spaces between them. */
function start(...flags: string[]): { command: RunningCommand; folder: string; log: () => string } {
  const args = flags.flatMap((words) => words.split(' '))
  const output = temporaryFolder()
  const folder = path.join(output, 'r')
  const logs = path.join(folder, 'logs.txt')
  return {
    command: startOsmosis(['eval', 'run', ...args, '--output', output, '--name', 'r']),
    folder,
    log: () => (existsSync(logs) ? readFileSync(logs, 'utf8') : ''),
  }
}

async function urlOf(log: () => string): Promise<string> {
  await expect.poll(log).toContain('rollout accepted')
  return /Listening on (\S+)/.exec(log())?.[1] ?? ''
}

it('osmosis eval run stops on Ctrl-C: cancels what runs, keeps what is done, leaves no server behind', async () => {
  const { command, folder, log } = start('configs/eval/echo.toml --policy policies/silent.ts')
  const url = await urlOf(log)
  command.child.kill('SIGINT')
  const { code, stdout, stderr } = await command.finished
  expect(code).toBe(130)
  expect(stderr).toContain('Stopping: cancelling running work.')
  expect(stdout).toMatch(/incomplete/)
  expect(readResults(folder).run).toMatchObject({
    status: 'incomplete',
    incomplete_reason: 'interrupted',
  })
  await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed')
})

import { chmodSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { inWorkspace, run, workIn } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

// What is said where the program is missing that runs the learner of `osmosis train local`.

inWorkspace()

const missing = 'The learner needs uv, which installs Python with torch, transformers and peft'

/** A PATH with a stand-in of uv alone. */
async function pathWithUv(): Promise<string> {
  const folder = await temporaryFolder({ uv: '#!/bin/sh\necho uv 0.9.0\n' })
  chmodSync(path.join(folder, 'uv'), 0o755)
  return folder
}

/** What a command finds of the learner: `level message`. */
async function learnerFindings(command: string, PATH: string): Promise<readonly string[]> {
  const { stdout } = await run([command, '--json'], { PATH, _OSMOSIS_ROLLOUT_PORT: '0' })
  const found = stdout.matchAll(
    /"level":\s*"(\w+)",\s*"check":\s*"learner",\s*"message":\s*"([^"]*)"/g,
  )
  return Array.from(found, ([, level, message]) => `${level} ${message}`)
}

it.each(['doctor', 'validate'])('osmosis %s says where uv is missing', async (command) => {
  workIn(temporaryWorkspace({ 'configs/training/echo.toml': evalConfig('echo') }))
  expect(await learnerFindings(command, '/nowhere')).toEqual([
    expect.stringContaining(`warn osmosis train local cannot start here. ${missing}`),
  ])
  expect((await learnerFindings(command, await pathWithUv())).join()).not.toContain('warn')
  workIn(temporaryWorkspace({ 'configs/eval/echo.toml': evalConfig('echo') }))
  expect(await learnerFindings(command, '/nowhere')).toEqual([])
})

it('a plan needs no learner, and warns where its program is missing', async () => {
  const planned = async (PATH: string, ...flags: readonly string[]): Promise<string> => {
    const args = ['train', 'local', 'configs/training/doors.toml', '--dry-run', ...flags]
    const { code, stderr } = await run([...args, '-o', await temporaryFolder()], { PATH })
    expect(stderr).toMatch(/^Model +Qwen\/Qwen3-0\.6B$/m)
    expect(code).toBe(0)
    return stderr
  }
  expect(await planned('/nowhere')).toContain(
    `warning: this training cannot start here. ${missing}`,
  )
  expect(await planned('/nowhere', '--python', '/nowhere/python')).toContain(
    'warning: this training cannot start here. /nowhere/python does not exist. Check --python',
  )
  expect(await planned(await pathWithUv())).not.toContain('warning')
})

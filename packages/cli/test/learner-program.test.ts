import { mkdirSync, readdirSync } from 'node:fs'
import { hostname } from 'node:os'
import path from 'node:path'

import { lockRun, trainingLock } from '@osmosis/eval'
import { expect, it, onTestFinished } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { inWorkspace, run, workIn } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

// What is said where the program is missing that runs the learner of `osmosis train local`.

inWorkspace()
const withoutUv = { PATH: '/nowhere' }

const missing = 'The learner needs uv, which installs Python with torch, transformers and peft'

/** What a command finds of the learner: `level message`. */
async function learnerFindings(command: string, env = {}): Promise<readonly string[]> {
  const { stdout } = await run([command, '--json'], { _OSMOSIS_ROLLOUT_PORT: '0', ...env })
  const found = stdout.matchAll(
    /"level":\s*"(\w+)",\s*"check":\s*"learner",\s*"message":\s*"([^"]*)"/g,
  )
  return Array.from(found, ([, level, message]) => `${level} ${message}`)
}

it.each(['doctor', 'validate'])('osmosis %s says where uv is missing', async (command) => {
  workIn(temporaryWorkspace({ 'configs/training/echo.toml': evalConfig('echo') }))
  expect(await learnerFindings(command, withoutUv)).toEqual([
    expect.stringContaining(`warn osmosis train local cannot start here. ${missing}`),
  ])
  expect((await learnerFindings(command)).join()).not.toContain('warn')
  workIn(temporaryWorkspace({ 'configs/eval/echo.toml': evalConfig('echo') }))
  expect(await learnerFindings(command, withoutUv)).toEqual([])
})

it('a plan needs no learner, and warns where its program is missing', async () => {
  const planned = async (
    env: Readonly<Record<string, string>>,
    ...flags: readonly string[]
  ): Promise<string> => {
    const args = ['train', 'local', 'configs/training/doors.toml', '--dry-run', ...flags]
    const { code, stderr } = await run([...args, '-o', await temporaryFolder()], env)
    expect(stderr).toMatch(/^Model +Qwen\/Qwen3-0\.6B$/m)
    expect(code).toBe(0)
    return stderr
  }
  expect(await planned(withoutUv)).toContain(`warning: this training cannot start here. ${missing}`)
  const throughFile = path.join(import.meta.filename, 'python')
  for (const python of ['/nowhere/python', throughFile]) {
    expect(await planned(withoutUv, '--python', python)).toContain(
      `warning: this training cannot start here. ${python} does not exist. Check --python`,
    )
  }
  expect(await planned({})).not.toContain('warning')
})

it.each([[[]], [['--fresh']]])(
  'a training that a process writes is neither started again nor renamed: %j',
  async (flags) => {
    const out = await temporaryFolder()
    const folder = path.join(out, 'doors')
    mkdirSync(folder)
    const lock = await lockRun(trainingLock(folder))
    onTestFinished(async () => lock.release())
    const args = ['train', 'local', 'configs/training/doors.toml', '-o', out, ...flags]
    const { code, stderr } = await run(args, withoutUv)
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`Process ${process.pid} on host ${hostname()}, started at `),
    ])
    expect(stderr).toContain(
      `trains in ${folder}. Wait until it has ended, or pass another --name.`,
    )
    expect(readdirSync(out)).toEqual(['doors'])
  },
)

import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { FakeTinker, temporaryFolder, tokenModelFolder } from '../../../test/kit/index.ts'
import { expect, it, onTestFinished } from 'vitest'

import { inWorkspace, run as osmosis, start } from './in-process.ts'

inWorkspace()

const key = 'tml-0123456789abcdef'
const config = 'configs/training/doors.toml'

/** A service, and the arguments to train on it in a folder. */
async function prepared(): Promise<{
  readonly service: FakeTinker
  readonly folder: string
  readonly args: readonly string[]
}> {
  const service = await new FakeTinker().start()
  onTestFinished(() => service[Symbol.asyncDispose]())
  const [folder, tokenizer] = [await temporaryFolder(), await tokenModelFolder()]
  const where = ['--url', service.url, '--tokenizer', tokenizer, '--output', folder]
  return { service, folder, args: ['train', 'tinker', config, ...where] }
}

/** All text in the files of a folder. */
function writtenIn(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'utf8'))
    .join('\n')
}

it('makes a model better on a service, shows what it costs, and unloads it', async () => {
  const { service, folder, args } = await prepared()
  const settings = ['--steps', '6', '--prices', '10,20,30', '--seed', '1']
  const { code, stdout, stderr } = await osmosis([...args, ...settings], { TINKER_API_KEY: key })
  expect(stderr).toMatch(/^At most +\$[\d.]+ for [\d,]+ prompt, [\d,]+ sampled and [\d,]+ trained/m)
  expect(stderr).toMatch(/^step +6 .* drift 0 .* \$[\d.]+ for [\d,]+ prompt/m)
  expect(code).toBe(0)
  const rewards = [...stderr.matchAll(/^step +\d+ +reward (\S+)/gm)].map(([, text]) => Number(text))
  expect(rewards).toHaveLength(6)
  expect(Math.max(...rewards.slice(-3))).toBeGreaterThan((rewards[0] ?? 1) + 0.3)
  expect(stdout).toContain('All steps are done. 6 updates in 6 steps.')
  expect(stdout).toMatch(/^Weights +tinker:\/\/model_1\/sampler_weights\/osmosis-6-/m)
  expect(stdout).toMatch(/^Used +\$[\d.]+ for/m)
  expect(service.models).toEqual([])
  expect(service.requests[0]?.headers['x-api-key']).toBe(key)
  expect(stdout + stderr + writtenIn(folder)).not.toContain(key)
})

it('saves and unloads after Ctrl-C, and continues with the same command', async () => {
  const { service, args } = await prepared()
  const all = [...args, '--steps', '2', '--n', '2']
  const first = start(all)
  await first.printed(/^step +1 /m)
  const { code, stderr } = await first.end()
  expect(code).toBe(130)
  expect(stderr).toContain('The same command continues with the training.')
  expect(service.models).toEqual([])

  const second = await osmosis(all)
  expect(second.code).toBe(0)
  expect(second.stderr).toMatch(/^step +2 /m)
  expect(second.stderr).not.toMatch(/^step +1 /m)
  // Another state is loaded at the end when it was the best.
  expect(service.sentTo('load_weights')[0]?.path).toMatch(/\/osmosis-1-/)
})

it('refuses a key without repeating it, and unloads after an error', async () => {
  const { service, folder, args } = await prepared()
  service.next('create_session', { status: 401, body: { detail: `invalid key ${key}` } })
  const refused = await osmosis([...args, '--steps', '1'], { TINKER_API_KEY: key })
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain(
    'The Tinker service refuses the key (401): invalid key [the key]',
  )

  service.next('asample', { status: 402, body: { detail: `no credit for ${key}` } })
  const spent = await osmosis([...args, '--steps', '1'], { TINKER_API_KEY: key })
  expect(spent.code).not.toBe(0)
  expect(spent.stderr).toContain('Its account has no credit left: add some and continue.')
  expect(service.models).toEqual([])
  expect(refused.stderr + spent.stderr + writtenIn(folder)).not.toContain(key)
})

import { assertRunName, generateRunName } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { osmosisErrorOf } from '../thrown-by.ts'

it.each([
  ['configs/eval/multiply.toml', 'multiply'],
  ['/a/b/my config (2).toml', 'my-config-2'],
  ['.hidden.v2.toml', 'hidden.v2'],
  ['×.toml', 'eval'],
  [`${'x'.repeat(200)}.toml`, 'x'.repeat(24)],
])('is short: that of the config %s with a number', (config, stem) => {
  const name = generateRunName(config, [])
  expect(name).toBe(`${stem}-1`)
  expect(() => assertRunName(name)).not.toThrow()
})

it.each([
  [['multiply-1', 'multiply-3'], 'multiply-4'],
  [['multiply-10', 'multiply-9.1', 'multiply'], 'multiply-11'],
  [['multiply-3.1'], 'multiply-4'],
  // On some file systems it is the same folder.
  [['Multiply-3'], 'multiply-4'],
  [['multiply-hard-7', 'other-8', 'multiply-x'], 'multiply-1'],
  [['multiply-20251120T103605Z-2bfd14f4'], 'multiply-1'],
])('has the number behind the highest of %j', (taken, name) => {
  expect(generateRunName('configs/eval/multiply.toml', taken)).toBe(name)
})

it.each([
  ['latest', 'the newest run'],
  ['12', 'a rollout'],
  ['12.1', 'a rollout'],
])('must not be "%s", which commands take for %s', async (name, taken) => {
  expect(await osmosisErrorOf(() => assertRunName(name))).toEqual({
    code: 'invalid_config',
    message: `A run cannot be named '${name}': in commands that means ${taken}. Add a prefix, such as 'run-${name}'.`,
  })
})

it.each(['', '.locks', '..', '-a', 'a/b', 'a b', 'x'.repeat(97)])(
  'must not be "%s"',
  async (name) => {
    expect(await osmosisErrorOf(() => assertRunName(name))).toEqual({
      code: 'invalid_config',
      message: `A run name has up to 96 letters, digits, '.', '_' and '-' and starts with a letter or digit, got '${name}'.`,
    })
  },
)

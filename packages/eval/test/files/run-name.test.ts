import { assertRunName, generateRunName } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { osmosisErrorOf } from '../thrown-by.ts'

const now = new Date('2025-11-20T10:36:05.123Z')

it.each([
  ['configs/eval/multiply.toml', 'multiply'],
  ['/a/b/my config (2).toml', 'my-config-2'],
  ['.hidden.v2.toml', 'hidden.v2'],
  ['×.toml', 'eval'],
  [`${'x'.repeat(200)}.toml`, 'x'.repeat(70)],
])('is made from the config %s, the time and the inputs', (config, stem) => {
  const name = generateRunName(config, { n: 1 }, now)
  expect(name).toBe(`${stem}-20251120T103605Z-2bfd14f4`)
  expect(() => assertRunName(name)).not.toThrow()
})

it('differs with the inputs', () => {
  expect(generateRunName('a.toml', { n: 1 }, now)).not.toBe(
    generateRunName('a.toml', { n: 2 }, now),
  )
})

it.each([
  ['latest', 'the newest run'],
  ['12', 'a rollout'],
  ['12.1', 'a rollout'],
])('must not be "%s", which commands take for %s', async (name, taken) => {
  expect(await osmosisErrorOf(() => assertRunName(name))).toEqual({
    code: 'invalid_config',
    message: `A run cannot be named '${name}': commands take that for ${taken}. Put a word before it, such as 'run-${name}'.`,
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

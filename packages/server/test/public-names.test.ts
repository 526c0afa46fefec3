import * as server from '@osmosis/server'
import * as parts from '@osmosis/server/parts'
import { expect, it } from 'vitest'

it('exports what its users need, and nothing else', () => {
  expect(new Set(Object.keys(server))).toStrictEqual(
    new Set([
      'createRolloutServer',
      'createStderrLogger',
      'readServerEnvironment',
      'serve',
      'silentLogger',
    ]),
  )
})

it('exports the parts that servers of other rollout protocols share', () => {
  expect(new Set(Object.keys(parts))).toStrictEqual(
    new Set([
      'CallbackDelivery',
      'HttpRefusal',
      'SecretValues',
      'ServerDrain',
      'assertApiKey',
      'bodyDigest',
      'carriesKey',
      'checkBody',
      'readJsonBody',
      'redactingLogger',
      'toTelemetryJson',
    ]),
  )
})

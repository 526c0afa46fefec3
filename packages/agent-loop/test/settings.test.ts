import { createApp } from '@osmosis/agent-loop'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { resolveSettings } from '../src/rollout-settings.ts'
import { answerOnce, loopOf } from './running-app.ts'

const defaults = {
  client: {
    timeoutSeconds: 300,
    maxRetries: 3,
    completeRolloutRetries: null,
    retryBaseDelaySeconds: 1,
    retryMaxDelaySeconds: 30,
    maxConnections: 100,
    maxKeepaliveConnections: 20,
  },
  server: { maxConcurrentRollouts: null, recordTtlSeconds: 3600, requestTimeoutSeconds: null },
  maxMetadataSizeBytes: 1_048_576,
}

const variables: [string, string, number, number][] = [
  ['OSMOSIS_ROLLOUT_CLIENT_TIMEOUT_SECONDS', 'client.timeoutSeconds', 1, 3600],
  ['OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES', 'client.maxRetries', 0, 10],
  ['OSMOSIS_ROLLOUT_CLIENT_COMPLETE_ROLLOUT_RETRIES', 'client.completeRolloutRetries', 0, 10],
  ['OSMOSIS_ROLLOUT_CLIENT_RETRY_BASE_DELAY', 'client.retryBaseDelaySeconds', 0.1, 60],
  ['OSMOSIS_ROLLOUT_CLIENT_RETRY_MAX_DELAY', 'client.retryMaxDelaySeconds', 1, 300],
  ['OSMOSIS_ROLLOUT_CLIENT_MAX_CONNECTIONS', 'client.maxConnections', 1, 1000],
  ['OSMOSIS_ROLLOUT_CLIENT_MAX_KEEPALIVE_CONNECTIONS', 'client.maxKeepaliveConnections', 1, 100],
  ['OSMOSIS_ROLLOUT_SERVER_MAX_CONCURRENT_ROLLOUTS', 'server.maxConcurrentRollouts', 1, 10_000],
  ['OSMOSIS_ROLLOUT_SERVER_RECORD_TTL_SECONDS', 'server.recordTtlSeconds', 60, 86_400],
  ['OSMOSIS_ROLLOUT_SERVER_REQUEST_TIMEOUT_SECONDS', 'server.requestTimeoutSeconds', 10, 3600],
  ['OSMOSIS_ROLLOUT_MAX_METADATA_SIZE_BYTES', 'maxMetadataSizeBytes', 1024, 104_857_600],
]

describe('settings', () => {
  it('have defaults, also for an empty environment', () => {
    const environment = { OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES: ' ', OSMOSIS_ROLLOUT_CLIENT_X: '1' }
    expect(resolveSettings({}, {})).toStrictEqual(defaults)
    expect(resolveSettings(undefined, environment)).toStrictEqual(defaults)
  })

  it.each(variables)('are read from %s within its bounds', (variable, name, min, max) => {
    for (const value of [min, max]) {
      expect(resolveSettings({}, { [variable]: ` ${value} ` })).toHaveProperty(name, value)
    }
    for (const text of [String(min - 1), String(max + 1), 'many', 'NaN']) {
      expect(() => resolveSettings({}, { [variable]: text })).toThrow(
        expect.objectContaining({
          code: 'invalid_config',
          message: expect.stringMatching(
            new RegExp(`^${variable} must be a (whole )?number from ${min} to ${max}, got `),
          ),
        }) as Error,
      )
    }
  })

  it('of code come before the environment, null included', () => {
    const environment = {
      OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES: '7',
      OSMOSIS_ROLLOUT_CLIENT_COMPLETE_ROLLOUT_RETRIES: '1',
      OSMOSIS_ROLLOUT_SERVER_RECORD_TTL_SECONDS: '60',
    }
    const given = { client: { maxRetries: 0, completeRolloutRetries: null } }
    expect(resolveSettings(given, environment)).toStrictEqual({
      ...defaults,
      client: { ...defaults.client, maxRetries: 0 },
      server: { ...defaults.server, recordTtlSeconds: 60 },
    })
    expect(() => resolveSettings({ client: { maxRetries: 1.5 } }, {})).toThrow(
      'client.maxRetries must be a whole number from 0 to 10, got 1.5.',
    )
  })

  it('of the process come before a .env file, whatever the case of their names', async () => {
    const lines = 'OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES=5\nosmosis_rollout_client_max_connections=6\n'
    vi.spyOn(process, 'cwd').mockReturnValue(await temporaryFolder({ '.env': lines }))
    onTestFinished(() => {
      vi.restoreAllMocks()
      vi.unstubAllEnvs()
    })
    vi.stubEnv('OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES', '4')
    expect(resolveSettings()).toStrictEqual({
      ...defaults,
      client: { ...defaults.client, maxRetries: 4, maxConnections: 6 },
    })
  })

  it('that are invalid prevent the creation of an app', () => {
    vi.stubEnv('OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES', 'many')
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(() => createApp(loopOf(answerOnce))).toThrow(
      'OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES must be a whole number from 0 to 10, got many.',
    )
  })
})

import { hostname } from 'node:os'

import { readServerEnvironment } from '@osmosis/server'
import { describe, expect, it } from 'vitest'

describe('the environment of a server process', () => {
  it('has defaults', () => {
    expect(readServerEnvironment({ OSMOSIS_ROLLOUT_SERVER_API_KEY: '' })).toStrictEqual({
      port: 8000,
      apiKey: undefined,
      instanceId: undefined,
      artifactRoot: undefined,
      ownership: undefined,
    })
  })

  it('contains all settings of the server', () => {
    expect(
      readServerEnvironment({
        _OSMOSIS_ROLLOUT_PORT: '9001',
        ROLLOUT_PORT: '9002',
        OSMOSIS_ROLLOUT_SERVER_API_KEY: 'key',
        _OSMOSIS_ROLLOUT_INSTANCE_ID: 'pod-7',
        _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: '/data',
        OSMOSIS_ROLLOUT_OTLP_ENDPOINT: 'http://127.0.0.1:4318',
        OSMOSIS_ROLLOUT_NAMESPACE: 'blue',
      }),
    ).toStrictEqual({
      port: 9001,
      apiKey: 'key',
      instanceId: 'pod-7',
      artifactRoot: '/data',
      ownership: {
        endpoint: 'http://127.0.0.1:4318',
        serverId: 'pod-7',
        serverName: hostname(),
        namespace: 'blue',
      },
    })
    expect(readServerEnvironment({ ROLLOUT_PORT: '9002' }).port).toBe(9002)
  })

  it('leaves the default port to the server', () => {
    expect(readServerEnvironment({}, 9000).port).toBe(9000)
    expect(readServerEnvironment({ ROLLOUT_PORT: '9002' }, 9000).port).toBe(9002)
  })

  it.each(['http', '-1', '65536', '1.5'])('refuses the port %j by its name', (port) => {
    expect(() => readServerEnvironment({ ROLLOUT_PORT: port })).toThrow(
      `ROLLOUT_PORT must be a port number from 0 to 65535, got "${port}".`,
    )
  })

  it.each(['localhost:4318', 'collector', 'grpc://collector:4317', 'http://me:planted@collector'])(
    'refuses the unusable collector URL %j',
    (endpoint) => {
      expect(() => readServerEnvironment({ OSMOSIS_ROLLOUT_OTLP_ENDPOINT: endpoint })).toThrow(
        'OSMOSIS_ROLLOUT_OTLP_ENDPOINT must be an http or https URL without credentials, such as http://127.0.0.1:4318.',
      )
    },
  )
})

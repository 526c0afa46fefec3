import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { refusal } from '../../../../test/kit/index.ts'
import { json, platformUser, token } from './on-platform.ts'

const howToLogIn =
  'Log in again: osmosis platform login. Where OSMOSIS_TOKEN is set, that is the login: set a valid one, or unset it.'

describe('a refusal of the platform', () => {
  it.each<[number, string | undefined, string]>([
    [400, undefined, 'VALIDATION'],
    [401, 'TOKEN_EXPIRED', 'AUTH_REQUIRED'],
    [404, undefined, 'NOT_FOUND'],
    [409, undefined, 'CONFLICT'],
    [426, undefined, 'UPGRADE_REQUIRED'],
    [429, undefined, 'RATE_LIMITED'],
    [403, 'SUBSCRIPTION_REQUIRED', 'SUBSCRIPTION_REQUIRED'],
    [403, 'BILLING_REQUIRED', 'BILLING_REQUIRED'],
    [403, 'OTHER', 'PLATFORM_ERROR'],
    [422, undefined, 'PLATFORM_ERROR'],
    [500, undefined, 'PLATFORM_ERROR'],
    [302, undefined, 'PLATFORM_ERROR'],
  ])('with %d and code %s is %s, and is requested once', async (status, code, errorCode) => {
    const { platform, osmosis } = await platformUser()
    const issues = [{ key: 'lr', message: `is not ${token}` }]
    platform.fail('GET verify', refusal(status, `No, ${token}.`, { ...(code && { code }), issues }))
    const finished = await osmosis('auth whoami --json')

    expect([finished.code, finished.stdout]).toEqual([1, ''])
    expect(json(finished.stderr)).toStrictEqual({
      schema_version: 1,
      command: 'auth whoami',
      cli_version: '0.0.0',
      error: {
        code: errorCode,
        message: status === 401 ? `No, [redacted].\n${howToLogIn}` : 'No, [redacted].',
        details: {
          ...(code && { platform_code: code }),
          issues: [{ key: 'lr', message: 'is not [redacted]' }],
          status_code: status,
        },
      },
    })
    expect(platform.calls).toEqual(['GET verify'])
  })

  it('is a human-readable sentence with its issues', async () => {
    const { platform, osmosis } = await platformUser()
    const issues = ['too much', { key: 'lr', message: 'unknown', key_correction: 'rate' }]
    platform.fail('GET verify', { status: 400, body: { error: 'No \u001B[2Jway.', issues } })
    expect((await osmosis('auth whoami')).stderr).toBe(
      'error: No way.\n- too much\n- lr: unknown (did you mean rate?)\n',
    )
  })

  it('has its own code as platform_code, whatever else the answer calls so', async () => {
    const { platform, osmosis } = await platformUser()
    const body = { error: 'No way.', code: 'OUT_OF_ROWS', platform_code: 'OTHER' }
    platform.fail('GET verify', { status: 400, body })
    const { stderr } = await osmosis('auth whoami --json')
    expect(json(stderr)).toMatchObject({ error: { details: { platform_code: 'OUT_OF_ROWS' } } })
  })

  it('that is not JSON is cut', async () => {
    const { platform, osmosis } = await platformUser()
    platform.fail('GET verify', { status: 502, body: 'x'.repeat(1000) })
    expect((await osmosis('auth whoami')).stderr).toBe(`error: ${'x'.repeat(200)}\n`)
  })
})

it('an answer that is not an object is an error of the platform', async () => {
  const { platform, osmosis } = await platformUser()
  platform.fail('GET verify', { body: '[1]' })
  const { code, stderr } = await osmosis('auth whoami --json')
  expect([code, json(stderr)]).toMatchObject([1, { error: { code: 'PLATFORM_ERROR' } }])
})

it('a platform that is not there is an error of the platform', async () => {
  const { osmosis } = await platformUser()
  const { code, stderr } = await osmosis('auth whoami --json', {
    OSMOSIS_PLATFORM_URL: 'http://127.0.0.1:1',
    OSMOSIS_TOKEN: token,
    OSMOSIS_TOKEN_PLATFORM_URL: 'http://127.0.0.1:1',
  })
  expect([code, json(stderr)]).toMatchObject([
    1,
    { error: { code: 'PLATFORM_ERROR', details: {} } },
  ])
})

it.each([
  ['upgrade_available', 'UPGRADE_AVAILABLE'],
  ['deprecated', 'DEPRECATED'],
])('an answer that says %s is a warning, once', async (status, code) => {
  const { platform, osmosis } = await platformUser()
  platform.headers = {
    'x-osmosis-version-status': status,
    'x-osmosis-version-message': 'Take version 9.',
  }
  const { stderr } = await osmosis('--json --workspace elsewhere auth whoami')
  expect(platform.calls).toHaveLength(2)
  expect(json(stderr)).toStrictEqual({
    schema_version: 1,
    cli_version: '0.0.0',
    warning: { code, message: 'Take version 9.' },
  })
})

describe('before anything is sent', () => {
  it.each<[string, Record<string, string>, string]>([
    ['plain HTTP to others', { OSMOSIS_PLATFORM_URL: 'http://platform.example' }, 'VALIDATION'],
    ['a URL with credentials', { OSMOSIS_PLATFORM_URL: 'https://planted:x@host' }, 'VALIDATION'],
    ['a token of no platform', { OSMOSIS_TOKEN: 'planted' }, 'ENV_TOKEN_PLATFORM_REQUIRED'],
    [
      'a token of another platform',
      { OSMOSIS_TOKEN: 'planted', OSMOSIS_TOKEN_PLATFORM_URL: 'https://other.example' },
      'ENV_TOKEN_PLATFORM_MISMATCH',
    ],
    ['no such file of variables', { OSMOSIS_ENV_FILE: 'nowhere.env' }, 'VALIDATION'],
  ])('%s is refused', async (_, env, errorCode) => {
    const { platform, osmosis } = await platformUser()
    const { code, stdout, stderr } = await osmosis('auth whoami --json', env)
    expect([code, stdout, json(stderr)]).toMatchObject([
      errorCode === 'VALIDATION' ? 2 : 1,
      '',
      { error: { code: errorCode } },
    ])
    expect(stderr).not.toContain('planted')
    expect(platform.calls).toEqual([])
  })

  it('variables of .env that say something else than the environment are refused', async () => {
    const { osmosis, workspace, platform } = await platformUser()
    writeFileSync(path.join(workspace, '.env'), 'OSMOSIS_PLATFORM_URL=https://other.example\n')
    const { stderr } = await osmosis('auth whoami --json')
    expect(json(stderr)).toMatchObject({ error: { code: 'CONFLICT' } })
    writeFileSync(path.join(workspace, '.env'), `OSMOSIS_PLATFORM_URL=${platform.url}\n`)
    expect((await osmosis('auth whoami')).code).toBe(0)
    expect((await osmosis('auth whoami', { OSMOSIS_PLATFORM_URL: '' })).code).toBe(0)
  })
})

it.each([
  ['dataset list --json --nonsense', 'dataset list', "unknown option '--nonsense'"],
  ['--json secret set', 'secret set', "missing required argument 'name'"],
  ['eval download first --types images --json', 'eval download', 'must be some of metrics,'],
  ['--json dataset', 'dataset', 'osmosis dataset needs a command: validate, upload,'],
])('wrong use is one JSON document with --json: osmosis %s', async (words, command, message) => {
  const { osmosis } = await platformUser()
  const { code, stdout, stderr } = await osmosis(words)
  expect([code, stdout, json(stderr)]).toStrictEqual([
    2,
    '',
    {
      schema_version: 1,
      command,
      cli_version: '0.0.0',
      error: { code: 'VALIDATION', message: expect.stringContaining(message), details: {} },
    },
  ])
})

it('flags that do not exist end with 2, and those of the platform are for its commands', async () => {
  const { osmosis } = await platformUser()
  expect((await osmosis('auth whoami --nonsense')).code).toBe(2)
  const { code, stderr } = await osmosis('--json serve main.ts')
  expect([code, stderr]).toEqual([2, expect.stringContaining('which serve does not')])
})

import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it, onTestFinished } from 'vitest'

import { refusal } from '../../../../test/kit/index.ts'
import type { PlatformErrorCode } from '../../src/platform/client/platform-error.ts'
import { workIn } from '../in-process.ts'
import { temporaryFolder } from '../osmosis.ts'
import { json, platformUser, type PlatformUser } from './on-platform.ts'

/** Prepares an error, and names the command that ends with it; default: `auth whoami`. */
type Way = (user: PlatformUser) => { words?: string; env?: Record<string, string> } | void

/** The platform answers with a status, and perhaps a code of its own. */
function answered(status: number, code?: string): Way {
  return ({ platform }) =>
    platform.fail('GET verify', refusal(status, 'No.', { ...(code && { code }) }))
}

function loggedInBy(text: string): Way {
  return ({ credentials }) => writeFileSync(credentials, text)
}

/** A code without a way to it does not compile. That of keyrings has its own tests. */
const ways: Record<Exclude<PlatformErrorCode, 'KEYRING_UNAVAILABLE'> | 'INTERNAL', Way> = {
  VALIDATION: answered(400),
  AUTH_REQUIRED: answered(401, 'TOKEN_REVOKED'),
  NOT_FOUND: answered(404),
  CONFLICT: answered(409),
  UPGRADE_REQUIRED: answered(426),
  RATE_LIMITED: answered(429),
  SUBSCRIPTION_REQUIRED: answered(403, 'SUBSCRIPTION_REQUIRED'),
  BILLING_REQUIRED: answered(403, 'BILLING_REQUIRED'),
  PLATFORM_ERROR: answered(503),
  INTERACTIVE_REQUIRED: () => ({ words: 'auth logout' }),
  WORKSPACE_REQUIRED: () => {
    workIn(temporaryFolder())
    return { words: 'dataset list' }
  },
  CREDENTIALS_UNAVAILABLE({ credentials }) {
    rmSync(credentials)
    mkdirSync(credentials)
  },
  CREDENTIALS_PARSE_FAILED: loggedInBy('[]'),
  CREDENTIALS_VERSION_CHANGED: loggedInBy('{"version":3,"platforms":{}}'),
  ENV_TOKEN_PLATFORM_REQUIRED: () => ({ env: { OSMOSIS_TOKEN: 'planted' } }),
  ENV_TOKEN_PLATFORM_MISMATCH: () => ({
    env: { OSMOSIS_TOKEN: 'planted', OSMOSIS_TOKEN_PLATFORM_URL: 'https://other.example' },
  }),
  // A removed working folder is an unexpected error.
  INTERNAL({ workspace }) {
    const gone = path.join(workspace, 'gone')
    mkdirSync(gone)
    const before = process.cwd()
    process.chdir(gone)
    onTestFinished(() => process.chdir(before))
    workIn(undefined)
    rmSync(gone, { recursive: true })
  },
}

it.each(Object.entries(ways))(
  '%s is what --json says, and the exit code is 1',
  async (code, way) => {
    const user = await platformUser()
    const { words = 'auth whoami', env = {} } = way(user) ?? {}
    const finished = await user.osmosis(`${words} --json`, env)
    expect([finished.code, finished.stdout]).toEqual([1, ''])
    expect(json(finished.stderr)).toStrictEqual({
      schema_version: 1,
      command: words,
      cli_version: '0.0.0',
      error: { code, message: expect.any(String), details: expect.any(Object) },
    })
    expect(finished.stderr).not.toContain('planted')
  },
)

it('a mistake of ours says which kind of error it was', async () => {
  const user = await platformUser()
  ways.INTERNAL(user)
  const { stderr } = await user.osmosis('auth whoami --json')
  expect(json(stderr)).toMatchObject({ error: { details: { exception_type: 'Error' } } })
})

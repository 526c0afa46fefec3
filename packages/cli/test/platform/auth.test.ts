import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { json, platformUser, storedLogin, token } from './on-platform.ts'

describe('osmosis auth login', () => {
  it('shows a code, waits until the login is allowed, and keeps it in a file of the user', async () => {
    const { platform, osmosis, credentials } = await platformUser({ loggedIn: false })
    platform.login.polls = ['authorization_pending', 'authorization_pending']
    const { code, stdout, stderr } = await osmosis('auth login')

    expect([code, stdout]).toEqual([
      0,
      `Logged in to ${platform.url} as ada@example.com, until 2999-01-01T00:00:00Z. The token is in ${credentials}.\n`,
    ])
    expect(stderr).toContain('Open https://platform.example/device and enter the code WDJB-MJHT')
    expect(stdout + stderr).not.toMatch(/device-token|planted-device-code/)
    expect(platform.calls).toEqual([
      'POST device/authorize',
      ...Array.from({ length: 3 }, () => 'POST device/token'),
    ])
    expect(platform.requests[0]).toMatchObject({ headers: { 'x-osmosis-cli-version': '0.0.0' } })
    expect(platform.requests[0]?.headers).not.toHaveProperty('authorization')
    expect(JSON.parse(readFileSync(credentials, 'utf8'))).toStrictEqual({
      version: 2,
      platforms: {
        [platform.url]: {
          version: 2,
          token_type: 'Bearer',
          expires_at: '2999-01-01T00:00:00Z',
          created_at: expect.any(String),
          user: platform.login.user,
          token_id: 'device-1',
          platform_url: platform.url,
          token_store: 'file',
          keyring_account: expect.stringMatching(/^platform:[0-9a-f]{24}:[0-9a-f]{24}$/),
          access_token: 'device-token-1',
        },
      },
    })
    expect(statSync(credentials).mode & 0o777).toBe(0o600)
    expect(readdirSync(path.dirname(credentials))).toEqual(['credentials.json'])
  })

  it('checks a token that is given, and says with --json what became of it', async () => {
    const { platform, osmosis } = await platformUser({ loggedIn: false })
    const { code, stdout } = await osmosis(`--json auth login --token ${token}`)
    expect([code, json(stdout)]).toEqual([
      0,
      {
        schema_version: 1,
        status: 'success',
        operation: 'auth.login',
        message: expect.any(String),
        resource: {
          email: 'ada@example.com',
          name: 'Ada',
          expires_at: '2999-01-01T00:00:00Z',
          platform_url: platform.url,
          workspace: null,
          source: 'token',
          verified: true,
          saved: true,
          token_store: 'file',
        },
      },
    ])
    expect(platform.calls).toEqual(['GET verify'])
  })

  it('renames an invalid file', async () => {
    const { osmosis, credentials } = await platformUser()
    writeFileSync(credentials, 'planted-nonsense')
    const { code, stderr } = await osmosis('auth login')
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining(`The file as it was is now ${credentials}.bak`),
    ])
    expect(readFileSync(`${credentials}.bak`, 'utf8')).toBe('planted-nonsense')
    expect(stderr).not.toContain('planted-nonsense')
  })

  it('is refused when the file of logins cannot be read', async () => {
    const { osmosis, credentials, platform } = await platformUser({ loggedIn: false })
    mkdirSync(credentials, { recursive: true })
    const { code, stderr } = await osmosis(`auth login --token ${token} --json`)
    expect([code, json(stderr)]).toMatchObject([1, { error: { code: 'CREDENTIALS_UNAVAILABLE' } }])
    expect(platform.calls).toEqual([])
  })

  it.each<[string, Record<string, string>, string]>([
    ['auth login --json', {}, 'INTERACTIVE_REQUIRED'],
    ['auth login --json', { OSMOSIS_TOKEN: token, OSMOSIS_TOKEN_PLATFORM_URL: 'set' }, 'CONFLICT'],
    ['auth login --json --token unknown-token', {}, 'AUTH_REQUIRED'],
    ['auth login --json --token standing-token', { OSMOSIS_TOKEN_STORE: 'pocket' }, 'VALIDATION'],
  ])('%s with %j is refused as %s', async (words, env, errorCode) => {
    const { platform, osmosis } = await platformUser({ loggedIn: false })
    const more = env['OSMOSIS_TOKEN_PLATFORM_URL'] && { OSMOSIS_TOKEN_PLATFORM_URL: platform.url }
    const { code, stdout, stderr } = await osmosis(words, { ...env, ...(more || undefined) })
    expect([code, stdout]).toEqual([errorCode === 'VALIDATION' ? 2 : 1, ''])
    expect(json(stderr)).toMatchObject({ command: 'auth login', error: { code: errorCode } })
  })
})

describe('osmosis auth logout', () => {
  it('revokes the login and forgets it, once somebody has agreed', async () => {
    const { platform, osmosis, credentials } = await platformUser()
    const asked = await osmosis('auth logout --json')
    expect(asked.code).toBe(1)
    expect(json(asked.stderr)).toMatchObject({ error: { code: 'INTERACTIVE_REQUIRED' } })
    expect(platform.calls).toEqual([])

    const { code, stdout } = await osmosis('auth logout --yes --json')
    expect([code, json(stdout)]).toMatchObject([0, { status: 'success', operation: 'auth.logout' }])
    expect(platform.calls).toEqual(['DELETE tokens/token-1'])
    expect(existsSync(credentials)).toBe(false)

    const again = await osmosis('auth logout --yes --json')
    expect(json(again.stdout)).toMatchObject({ status: 'noop' })
  })

  it('forgets the login when it cannot be revoked, and keeps those for other platforms', async () => {
    const { platform, osmosis, credentials } = await platformUser()
    const other = storedLogin('https://other.example') as { platforms: object }
    const mine = storedLogin(platform.url) as { platforms: object }
    writeFileSync(
      credentials,
      JSON.stringify({ version: 2, platforms: { ...other.platforms, ...mine.platforms } }),
    )
    platform.fail('DELETE tokens/token-1', { status: 500 })
    const { code, stderr } = await osmosis('auth logout --yes --json')
    expect([code, json(stderr)]).toMatchObject([0, { warning: { code: 'TOKEN_REVOKE_FAILED' } }])
    expect(JSON.parse(readFileSync(credentials, 'utf8'))).toStrictEqual(other)
  })
})

describe('osmosis auth whoami', () => {
  it('says whose login it is', async () => {
    const { platform, osmosis, workspace } = await platformUser()
    const { code, stdout } = await osmosis('auth whoami --json')
    expect([code, json(stdout)]).toEqual([
      0,
      {
        schema_version: 1,
        data: {
          account: 'ada@example.com',
          email: 'ada@example.com',
          name: 'Ada',
          expires_at: '2999-01-01T00:00:00Z',
          platform_url: platform.url,
          source: 'file',
          effective_source: 'file',
          persistent_login: true,
          workspace: { id: 'workspace-1', name: 'lab', role: 'owner' },
        },
        git: { identity: 'acme/lab', remote_url: 'https://github.com/Acme/Lab.git' },
        workspace_directory: workspace,
      },
    ])
    expect(platform.requests[0]?.headers).toMatchObject({ 'x-osmosis-git': 'acme/lab' })
  })

  it('asks again without a workspace that the platform refuses', async () => {
    const { platform, osmosis } = await platformUser()
    const { code, stdout } = await osmosis('auth whoami --workspace elsewhere')
    expect([code, stdout]).toEqual([0, expect.stringContaining('ada@example.com')])
    expect(platform.requests.map(({ headers }) => headers['x-osmosis-workspace'])).toEqual([
      'elsewhere',
      undefined,
    ])
  })

  it('takes the token of the environment first, and never changes the file', async () => {
    const { platform, osmosis, credentials } = await platformUser()
    const before = readFileSync(credentials)
    const { code, stderr } = await osmosis('auth whoami --json', {
      OSMOSIS_TOKEN: 'planted-wrong-token',
      OSMOSIS_TOKEN_PLATFORM_URL: `${platform.url}/`,
    })
    expect([code, json(stderr)]).toMatchObject([
      1,
      {
        error: {
          code: 'AUTH_REQUIRED',
          details: { platform_code: 'TOKEN_INVALID', status_code: 401 },
        },
      },
    ])
    expect(stderr).not.toContain('planted')
    expect(readFileSync(credentials)).toStrictEqual(before)
  })

  it.each<[string, object, string]>([
    ['has expired', { expires_at: '2020-01-01T00:00:00Z' }, 'AUTH_REQUIRED'],
    ['has no zone', { expires_at: '2999-01-01T00:00:00' }, 'CREDENTIALS_PARSE_FAILED'],
  ])('refuses a login that %s without asking the platform', async (_, changes, errorCode) => {
    const { platform, osmosis, credentials } = await platformUser()
    writeFileSync(credentials, JSON.stringify(storedLogin(platform.url, { ...changes })))
    const { code, stderr } = await osmosis('auth whoami --json')
    expect([code, json(stderr)]).toMatchObject([1, { error: { code: errorCode } }])
    expect(platform.calls).toEqual([])
  })
})

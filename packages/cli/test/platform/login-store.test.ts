import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'

import { expect, it } from 'vitest'

import { PlatformStandIn, temporaryFolder } from '../../../../test/kit/index.ts'
import { CredentialsFile } from '../../src/platform/auth/credentials-file.ts'
import type { Keyring } from '../../src/platform/auth/keyring.ts'
import { activeLogin, LoginStore } from '../../src/platform/auth/login-store.ts'
import { PlatformError } from '../../src/platform/client/platform-error.ts'
import type { TokenStore } from '../../src/platform/client/settings.ts'
import { clientOf } from './on-platform.ts'

/** A keyring of this test alone, which can be locked. */
class TestKeyring extends Map<string, string> {
  locked = false

  forStore(): Keyring {
    const use = async <T>(act: () => T): Promise<T> => {
      if (this.locked) throw new PlatformError('KEYRING_UNAVAILABLE', 'It is locked')
      return act()
    }
    return {
      get: async (account) => use(() => this.get(account)),
      set: async (account, token) => use(() => void this.set(account, token)),
      delete: async (account) => use(() => void this.delete(account)),
    }
  }
}

interface User {
  readonly platform: PlatformStandIn
  readonly keyring: TestKeyring
  readonly file: string
  readonly warnings: string[]
  readonly logIn: (tokenId: string) => Promise<'keyring' | 'file'>
  readonly logOut: () => Promise<void>
  /** The token that commands would use. */
  readonly token: () => Promise<string>
  /** What the file says of the login. */
  readonly record: () => Record<string, unknown>
}

async function user({
  tokenStore = 'auto',
  platformUrl = '',
}: { tokenStore?: TokenStore; platformUrl?: string } = {}): Promise<User> {
  const platform = await PlatformStandIn.start()
  const keyring = new TestKeyring()
  const file = path.join(await temporaryFolder(), 'osmosis/credentials.json')
  const url = platformUrl || platform.url
  const settings = { url, environmentToken: undefined, tokenStore, environment: {} }
  const credentials = new CredentialsFile(file)
  const warnings: string[] = []
  const store = new LoginStore(settings, credentials, keyring.forStore(), {
    warn: (code) => void warnings.push(code),
    clientFor: (token) => clientOf(platform, { token }),
  })
  return {
    platform,
    keyring,
    file,
    warnings,
    async logIn(tokenId) {
      const earlier = await store.prepare()
      const token = `token-of-${tokenId}`
      platform.login.tokens.set(token, tokenId)
      const expiresAt = '2999-01-01T00:00:00Z'
      const identity = { user: { email: 'ada@example.com' }, expiresAt, tokenId, workspace: null }
      return store.keep({ ...identity, token }, earlier, true)
    },
    async logOut() {
      const login = await credentials.find(url)
      if (login !== undefined) await store.forget(login)
    },
    async token() {
      return (await activeLogin(settings, credentials, keyring.forStore())).token
    },
    record() {
      const { platforms } = JSON.parse(readFileSync(file, 'utf8')) as {
        platforms: Record<string, Record<string, unknown>>
      }
      return platforms[url] ?? {}
    },
  }
}

it('a token is stored in the keyring, and the file has everything except the token', async () => {
  const { logIn, keyring, record, token, warnings } = await user()
  expect(await logIn('a')).toBe('keyring')
  const { keyring_account: account, ...rest } = record()
  expect(account).toMatch(/^platform:[0-9a-f]{24}:[0-9a-f]{24}$/)
  expect([...keyring]).toEqual([[account, 'token-of-a']])
  expect(rest).toMatchObject({ token_store: 'keyring', token_id: 'a' })
  expect(JSON.stringify(rest)).not.toContain('token-of')
  expect(await token()).toBe('token-of-a')
  expect(warnings).toEqual([])
})

it('the account is named after the platform and the token, as all command lines name it', async () => {
  const { keyring, logIn } = await user({ platformUrl: 'https://platform.osmosis.ai' })
  await logIn('device-1')
  // The first 24 digits of SHA-256 of the URL and of the id of the token.
  expect([...keyring.keys()]).toEqual([
    'platform:4fcc7414799b68afaf830a9c:03204de92e11fc8c528139be',
  ])
})

it('a new login replaces the one before: revoked, and gone from the keyring', async () => {
  const { logIn, keyring, token, platform } = await user()
  await logIn('a')
  await logIn('b')
  expect([...keyring.values()]).toEqual(['token-of-b'])
  expect(await token()).toBe('token-of-b')
  expect(platform.calls).toEqual(['DELETE tokens/a'])
  // Logging in with the same token again removes nothing.
  await logIn('b')
  expect(await token()).toBe('token-of-b')
})

it('logging out revokes the token and removes it from both places', async () => {
  const { logIn, logOut, keyring, platform, file, warnings } = await user()
  await logIn('a')
  await logOut()
  expect([...keyring]).toEqual([])
  expect(existsSync(file)).toBe(false)
  expect(platform.calls).toEqual(['DELETE tokens/a'])
  expect(warnings).toEqual([])
})

it('without a keyring the token is in the file, and a warning says so', async () => {
  const { logIn, keyring, record, token, warnings } = await user()
  keyring.locked = true
  expect(await logIn('a')).toBe('file')
  expect(record()).toMatchObject({ token_store: 'file', access_token: 'token-of-a' })
  expect(warnings).toEqual(['KEYRING_UNAVAILABLE'])
  expect(await token()).toBe('token-of-a')
})

it('a token of the file moves to the keyring with the next login', async () => {
  const { logIn, keyring, record } = await user()
  keyring.locked = true
  await logIn('a')
  keyring.locked = false
  await logIn('b')
  expect(record()).not.toHaveProperty('access_token')
  expect([...keyring.values()]).toEqual(['token-of-b'])
})

it('with OSMOSIS_TOKEN_STORE=keyring a login fails without a keyring', async () => {
  const { logIn, keyring, file, platform } = await user({ tokenStore: 'keyring' })
  keyring.locked = true
  await expect(logIn('a')).rejects.toMatchObject({ platformCode: 'KEYRING_UNAVAILABLE' })
  expect(existsSync(file)).toBe(false)
  expect(platform.calls).toEqual([])
})

it('with OSMOSIS_TOKEN_STORE=file the keyring is not used', async () => {
  const { logIn, keyring, warnings } = await user({ tokenStore: 'file' })
  expect(await logIn('a')).toBe('file')
  expect([...keyring]).toEqual([])
  expect(warnings).toEqual([])
})

it('a login whose keyring cannot be used any more is replaced, and what stays there is said', async () => {
  const { logIn, logOut, keyring, token, warnings } = await user()
  await logIn('a')
  keyring.locked = true
  await expect(token()).rejects.toMatchObject({ platformCode: 'KEYRING_UNAVAILABLE' })
  expect(await logIn('b')).toBe('file')
  expect(warnings).toEqual(['KEYRING_UNAVAILABLE', 'KEYRING_CLEANUP_FAILED'])
  await logOut()
  expect(warnings).toHaveLength(2)
})

it('logging out of a keyring that cannot be used forgets the login, and says what is left', async () => {
  const { logIn, logOut, keyring, file, warnings } = await user()
  await logIn('a')
  keyring.locked = true
  await logOut()
  expect(existsSync(file)).toBe(false)
  expect(warnings).toEqual(['TOKEN_REVOKE_FAILED', 'KEYRING_CLEANUP_FAILED'])
})

it('a login that the keyring has lost is none', async () => {
  const { logIn, keyring, token } = await user()
  await logIn('a')
  keyring.clear()
  await expect(token()).rejects.toMatchObject({ platformCode: 'AUTH_REQUIRED' })
})

it('a login that cannot be saved is revoked, and leaves nothing in the keyring', async () => {
  const { logIn, keyring, file, platform } = await user()
  symlinkSync('nowhere', path.dirname(file))
  await expect(logIn('a')).rejects.toMatchObject({ platformCode: 'CREDENTIALS_UNAVAILABLE' })
  expect([...keyring]).toEqual([])
  expect(platform.calls).toEqual(['DELETE tokens/a'])
})

const hosted = 'https://platform.osmosis.ai'
const base = 'platform:4fcc7414799b68afaf830a9c'
const login = { token_store: 'keyring', expires_at: '2999-01-01T00:00:00+00:00' }

it.each<[string, string, object]>([
  [
    'one for each platform',
    `${base}:0`,
    { platforms: { [hosted]: { ...login, keyring_account: `${base}:0` } } },
  ],
  ['without the name of the account', base, { platforms: { [hosted]: login } }],
  ['named after the user', 'ada@example.com', { ...login, user: { email: 'ada@example.com' } }],
  ['one for all', 'default', login],
])('a token that another command line put there is found: %s', async (_, account, credentials) => {
  const { keyring, file, logIn, token, logOut } = await user({ platformUrl: hosted })
  await logIn('a')
  keyring.clear()
  keyring.set(account, 'their-token')
  await writeFile(file, JSON.stringify({ version: 2, ...credentials }))
  expect(await token()).toBe('their-token')
  await logOut()
  expect([...keyring]).toEqual([])
})

it('the file cannot ask for entries of the keyring that are for something else', async () => {
  const { platform, keyring, file, logIn, token } = await user()
  await logIn('a')
  keyring.clear()
  keyring.set(`${base}:0`, 'for-the-hosted-one').set('default', 'for-the-hosted-one')
  const record = { ...login, keyring_account: `${base}:0` }
  await writeFile(file, JSON.stringify({ version: 2, platforms: { [platform.url]: record } }))
  await expect(token()).rejects.toMatchObject({ platformCode: 'AUTH_REQUIRED' })
})

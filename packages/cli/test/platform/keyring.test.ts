import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { onlyIf, withPrograms } from '@osmosis/testing/kit'
import { expect, it, onTestFinished } from 'vitest'

import { startOsmosis, temporaryFolder, type Finished } from '../osmosis.ts'
import { json, platformUser, storedLogin, token, type PlatformUser } from './on-platform.ts'

/** A bus that starts nothing by itself, least of all the keyring of whoever runs the tests. */
const busConfig = `<busconfig>
  <type>session</type>
  <listen>unix:dir=/tmp</listen>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>`

/** Starts a session bus, and resolves with the variables of those who belong to it. */
async function startBus(home: string): Promise<Record<string, string>> {
  const config = path.join(temporaryFolder(), 'bus.conf')
  writeFileSync(config, busConfig)
  const bus = spawn('dbus-daemon', [`--config-file=${config}`, '--nofork', '--print-address'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(bus, 'exit')
  onTestFinished(async () => {
    bus.kill()
    await ended
  })
  const [address] = (await once(createInterface({ input: bus.stdout }), 'line')) as [string]
  return { DBUS_SESSION_BUS_ADDRESS: address, HOME: home, XDG_RUNTIME_DIR: home }
}

interface DesktopUser extends PlatformUser {
  /** Runs `osmosis` in a process of this session. */
  readonly command: (words: string, env?: Record<string, string>) => Promise<Finished>
  /** Runs the keyring's own command. */
  readonly secretTool: (words: readonly string[], input?: string) => string
}

/** A user with a session of their own; the keyring in it ends with the bus. */
async function desktopUser({ keyring = true, loggedIn = false } = {}): Promise<DesktopUser> {
  const user = await platformUser({ loggedIn })
  const session = await startBus(user.home)
  if (keyring) {
    execFileSync('gnome-keyring-daemon', ['--unlock', '--components=secrets'], {
      env: { ...process.env, ...session },
      input: 'password',
      stdio: 'pipe',
    })
  }
  const env = { ...user.env, ...session, OSMOSIS_TOKEN_STORE: '' }
  return {
    ...user,
    command: (words, more = {}) =>
      startOsmosis(words.split(' '), { ...env, ...more }, user.workspace).finished,
    secretTool: (words, input = '') =>
      execFileSync('secret-tool', words, {
        env: { ...process.env, ...session },
        input,
        stdio: 'pipe',
        encoding: 'utf8',
      }),
  }
}

function recordIn({ credentials, platform }: PlatformUser): Record<string, unknown> {
  const { platforms } = json(readFileSync(credentials, 'utf8')) as {
    platforms: Record<string, Record<string, unknown>>
  }
  return platforms[platform.url] ?? {}
}

/** Puts the token into the keyring for the login in the file, as the Python command line does. */
function storedByPython(user: DesktopUser): void {
  const attributes = { application: 'Python keyring library', service: 'osmosis-cli' }
  const account = String(recordIn(user)['keyring_account'])
  const words = Object.entries({ ...attributes, username: account }).flat()
  user.secretTool(['store', '--label', 'Password', ...words], token)
}

const withSecretService =
  process.platform === 'linux'
    ? withPrograms('dbus-daemon', 'gnome-keyring-daemon', 'secret-tool')
    : onlyIf(false, 'a Linux system')

withSecretService.describe('with the Secret Service', () => {
  it('a login is kept in the keyring, read from it, replaced and removed', async () => {
    const user = await desktopUser()
    const first = await user.command('auth login --json --token standing-token')
    expect([first.code, first.stderr]).toEqual([0, ''])
    expect(json(first.stdout)).toMatchObject({ resource: { token_store: 'keyring' } })

    const { keyring_account: account, ...record } = recordIn(user)
    expect(record).toMatchObject({ token_store: 'keyring', token_id: 'token-1' })
    expect(readFileSync(user.credentials, 'utf8')).not.toContain(token)
    // The attributes by which the Python command line looks for it.
    const attributes = ['service', 'osmosis-cli', 'username', String(account)]
    expect(user.secretTool(['lookup', ...attributes])).toBe(token)

    const who = await user.command('auth whoami --json')
    expect(json(who.stdout)).toMatchObject({
      data: { source: 'keyring', email: 'ada@example.com' },
    })

    expect((await user.command('auth login')).stdout).toMatch(/The token is in the keyring/)
    expect(user.platform.calls.at(-1)).toBe('DELETE tokens/token-1')
    const all = user.secretTool(['search', '--all', 'service', 'osmosis-cli'])
    expect(all.match(/^secret = .*/gm)).toEqual(['secret = device-token-1'])

    const out = await user.command('auth logout --yes --json')
    expect([out.code, out.stderr]).toEqual([0, ''])
    expect(user.platform.calls.at(-1)).toBe('DELETE tokens/device-1')
    expect(user.secretTool(['search', '--all', 'service', 'osmosis-cli'])).toBe('')
    expect(existsSync(user.credentials)).toBe(false)
  })

  it('a login that the Python command line made is read, and removed', async () => {
    const user = await desktopUser({ loggedIn: true })
    await user.osmosis(`auth login --token ${token}`)
    const { keyring_account: account } = recordIn(user)
    const changes = { token_store: 'keyring', access_token: undefined, keyring_account: account }
    writeFileSync(user.credentials, JSON.stringify(storedLogin(user.platform.url, changes)))
    storedByPython(user)

    const who = await user.command('auth whoami --json')
    expect(json(who.stdout)).toMatchObject({ data: { source: 'keyring' } })
    const out = await user.command('auth logout --yes --json')
    expect([out.code, out.stderr]).toEqual([0, ''])
    expect(user.secretTool(['search', '--all', 'service', 'osmosis-cli'])).toBe('')
  })

  it('a login with the same token by both command lines is read, and kept as it is', async () => {
    const user = await desktopUser()
    await user.command(`auth login --token ${token}`)
    storedByPython(user)
    const who = await user.command('auth whoami --json')
    expect(json(who.stdout)).toMatchObject({ data: { source: 'keyring' } })
    const again = await user.command(`auth login --token ${token}`)
    expect([again.code, again.stderr]).toEqual([0, ''])
    // Which of the two entries is ours cannot be said to the keyring.
    const out = await user.command('auth logout --yes --json')
    expect(json(out.stderr)).toMatchObject({ warning: { code: 'KEYRING_CLEANUP_FAILED' } })
    expect(user.platform.calls.at(-1)).toBe('DELETE tokens/token-1')
  })

  it('without one the token is kept in the file, and the login says so', async () => {
    const user = await desktopUser({ keyring: false })
    const { code, stdout, stderr } = await user.command(`auth login --token ${token}`)
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining(`The token is in ${user.credentials}`),
    ])
    expect(stderr).toMatch(/^warning: The keyring of the system cannot be used: .*kept in /)
    expect(recordIn(user)).toMatchObject({ token_store: 'file', access_token: token })
  })

  it('without one nothing that needs it is done', async () => {
    const user = await desktopUser({ keyring: false, loggedIn: true })
    const changes = { token_store: 'keyring', access_token: undefined }
    writeFileSync(user.credentials, JSON.stringify(storedLogin(user.platform.url, changes)))
    const refused = { error: { code: 'KEYRING_UNAVAILABLE' } }
    const who = await user.command('auth whoami --json')
    expect([who.code, json(who.stderr)]).toMatchObject([1, refused])
    const login = await user.command(`auth login --json --token ${token}`, {
      OSMOSIS_TOKEN_STORE: 'keyring',
    })
    expect([login.code, json(login.stderr)]).toMatchObject([1, refused])
    expect(user.platform.calls).toEqual([])
  })
})

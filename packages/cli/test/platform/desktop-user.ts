import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { onTestFinished } from 'vitest'

import { onlyIf, withPrograms } from '../../../../test/kit/index.ts'
import { startOsmosis, temporaryFolder, type Finished } from '../osmosis.ts'
import { json, platformUser, token, type PlatformUser } from './on-platform.ts'

/** A bus without services, so that no test uses the keyring of the developer. */
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

export interface DesktopUser extends PlatformUser {
  /** Runs `osmosis` in a process of this session. */
  readonly command: (words: string, env?: Record<string, string>) => Promise<Finished>
  /** Runs the keyring's own command. */
  readonly secretTool: (words: readonly string[], input?: string) => string
}

/** A user with a session of their own; the keyring in it ends with the bus. */
export async function desktopUser({ keyring = true, loggedIn = false } = {}): Promise<DesktopUser> {
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

export function recordIn({ credentials, platform }: PlatformUser): Record<string, unknown> {
  const { platforms } = json(readFileSync(credentials, 'utf8')) as {
    platforms: Record<string, Record<string, unknown>>
  }
  return platforms[platform.url] ?? {}
}

/** Puts the token into the keyring for the login in the file, as the Python command line does. */
export function storedByPython(user: DesktopUser): void {
  const attributes = { application: 'Python keyring library', service: 'osmosis-cli' }
  const account = String(recordIn(user)['keyring_account'])
  const words = Object.entries({ ...attributes, username: account }).flat()
  user.secretTool(['store', '--label', 'Password', ...words], token)
}

/** Runs what needs a keyring. */
export const withSecretService =
  process.platform === 'linux'
    ? withPrograms('dbus-daemon', 'gnome-keyring-daemon', 'secret-tool')
    : onlyIf(false, 'a Linux system')

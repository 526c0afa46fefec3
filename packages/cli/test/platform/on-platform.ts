import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { onTestFinished } from 'vitest'

import { PlatformStandIn } from '../../../../test/kit/index.ts'
import { PlatformClient } from '../../src/platform/client/platform-client.ts'
import { run, workIn } from '../in-process.ts'
import { temporaryFolder, type Finished } from '../osmosis.ts'

/** A user at a workspace of the stand-in, with a home folder of their own. */
export interface PlatformUser {
  readonly platform: PlatformStandIn
  readonly home: string
  readonly credentials: string
  /** Folder of the workspace, in which commands run. */
  readonly workspace: string
  readonly env: Record<string, string>
  /** Runs `osmosis` with these words. */
  readonly osmosis: (words: string, env?: Record<string, string>) => Promise<Finished>
}

export const token = 'standing-token'

/** Starts a platform with a user who is logged in, unless it is said otherwise. */
export async function platformUser({ loggedIn = true } = {}): Promise<PlatformUser> {
  const platform = await PlatformStandIn.start()
  const home = temporaryFolder()
  const credentials = path.join(home, '.config/osmosis/credentials.json')
  if (loggedIn) {
    mkdirSync(path.dirname(credentials), { recursive: true })
    writeFileSync(credentials, JSON.stringify(storedLogin(platform.url)))
  }
  const workspace = makeWorkspace()
  const env = {
    HOME: home,
    OSMOSIS_TOKEN: '',
    OSMOSIS_TOKEN_PLATFORM_URL: '',
    OSMOSIS_PLATFORM_URL: platform.url,
    // Tests must not use the keyring of the developer.
    OSMOSIS_TOKEN_STORE: 'file',
  }
  workIn(workspace)
  return {
    platform,
    home,
    credentials,
    workspace,
    env,
    osmosis: (words, more = {}) => run(words.split(' '), { ...env, ...more }),
  }
}

/** A client of a platform, which is closed with the test. */
export function clientOf(
  platform: PlatformStandIn,
  more: Partial<ConstructorParameters<typeof PlatformClient>[0]> = {},
): PlatformClient {
  const { signal } = new AbortController()
  const client = new PlatformClient({ url: platform.url, version: '1.2.3', signal, ...more })
  onTestFinished(() => client.close())
  return client
}

/** What a login leaves in the credentials file. */
export function storedLogin(url: string, changes: Record<string, unknown> = {}): object {
  const login = {
    version: 2,
    token_type: 'Bearer',
    expires_at: '2999-01-01T00:00:00+00:00',
    created_at: '2026-01-01T00:00:00+00:00',
    user: { id: 'user-1', email: 'ada@example.com' },
    token_id: 'token-1',
    platform_url: url,
    token_store: 'file',
    keyring_account: 'platform:a:b',
    access_token: token,
    ...changes,
  }
  return { version: 2, platforms: { [url]: login } }
}

function makeWorkspace(): string {
  const folder = temporaryFolder()
  for (const name of ['rollouts', 'configs/training', 'configs/eval', 'data']) {
    mkdirSync(path.join(folder, name), { recursive: true })
  }
  makeRepository(folder, 'https://planted-git-key@github.com/Acme/Lab.git')
  return folder
}

/** What `git init` and `git remote add origin` leave, without the two processes. */
function makeRepository(folder: string, origin: string): void {
  const git = path.join(folder, '.git')
  for (const name of ['objects', 'refs']) mkdirSync(path.join(git, name), { recursive: true })
  writeFileSync(path.join(git, 'HEAD'), 'ref: refs/heads/main\n')
  const core = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n'
  writeFileSync(path.join(git, 'config'), `${core}[remote "origin"]\n\turl = ${origin}\n`)
}

/** The one JSON document that a command printed. */
export function json(text: string): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>
}

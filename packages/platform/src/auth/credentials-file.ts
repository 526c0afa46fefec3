import { isJsonObject } from '@osmosis/core/http'
import { mkdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'

import { writeFileAtomically } from '@osmosis/protocol/files'

import type { JsonObject } from '../answers.ts'
import { PlatformError } from '../platform-error.ts'
import { defaultPlatformUrl } from '../settings.ts'
import { findLogin, unreadable, type StoredLogin } from './stored-login.ts'

/** Reads and writes the logins of this user, in the file that all command lines of Osmosis share. */
export class CredentialsFile {
  readonly path: string

  constructor(file = fileIn(homedir())) {
    this.path = file
  }

  /** The file in this home folder. */
  static ofHome(folder: string): CredentialsFile {
    return new CredentialsFile(fileIn(folder))
  }

  /**
   * The login for a platform; undefined when there is none.
   *
   * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` for a file that cannot be read,
   * `CREDENTIALS_PARSE_FAILED` or `CREDENTIALS_VERSION_CHANGED` for one that is invalid
   */
  async find(url: string): Promise<StoredLogin | undefined> {
    const credentials = await this.#read()
    return credentials && findLogin(credentials, url, this.path)
  }

  /**
   * Renames an invalid file, so that a new login can be saved. Resolves with its new name, or undefined for a
   * valid or missing file.
   */
  async moveCorrupt(): Promise<string | undefined> {
    try {
      const credentials = await this.#read()
      if (credentials) findLogin(credentials, defaultPlatformUrl, this.path)
      return undefined
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      if (error.platformCode !== 'CREDENTIALS_PARSE_FAILED') throw error
      const backup = await freeName(`${this.path}.bak`)
      await rename(this.path, backup)
      return backup
    }
  }

  /** Saves a login for a platform, replacing an earlier one. */
  async save(url: string, login: StoredLogin): Promise<void> {
    await mkdir(path.dirname(this.path), { recursive: true, mode: 0o700 })
    await this.#write({ ...(await this.#platforms()), [url]: toRecord(url, login) })
  }

  /** Removes the login for a platform. */
  async remove(url: string): Promise<void> {
    const { [url]: _removed, ...others } = await this.#platforms()
    if (Object.keys(others).length > 0) await this.#write(others)
    else await rm(this.path, { force: true })
  }

  /** The records by platform. A login in an older format becomes that of the default platform. */
  async #platforms(): Promise<JsonObject> {
    const credentials = await this.#read()
    if (credentials === undefined) return {}
    if (isJsonObject(credentials['platforms'])) return credentials['platforms']
    const older = findLogin(credentials, defaultPlatformUrl, this.path)
    return older ? { [defaultPlatformUrl]: toRecord(defaultPlatformUrl, older) } : {}
  }

  async #write(platforms: JsonObject): Promise<void> {
    const text = `${JSON.stringify({ version: 2, platforms }, null, 2)}\n`
    await writeFileAtomically(this.path, text, { mode: 0o600 })
  }

  async #read(): Promise<JsonObject | undefined> {
    let text: string
    try {
      text = await readFile(this.path, 'utf8')
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      if (code === 'ENOENT') return undefined
      throw new PlatformError(
        'CREDENTIALS_UNAVAILABLE',
        `The login in ${this.path} cannot be used: reading it failed with ${code}.`,
        { cause },
      )
    }
    try {
      const json: unknown = JSON.parse(text)
      if (isJsonObject(json)) return json
    } catch {
      // The error of the parser quotes the file, which contains tokens.
    }
    throw unreadable(this.path, 'it is not a JSON object')
  }
}

function toRecord(url: string, login: StoredLogin): JsonObject {
  const { token, expiresAt, user, tokenId, account } = login
  return {
    version: 2,
    token_type: 'Bearer',
    expires_at: expiresAt,
    created_at: new Date().toISOString(),
    user,
    ...(tokenId !== undefined && { token_id: tokenId }),
    platform_url: url,
    token_store: login.store,
    ...(account !== undefined && { keyring_account: account }),
    ...(token !== undefined && { access_token: token }),
  }
}

async function freeName(name: string): Promise<string> {
  for (let number = 0; ; number += 1) {
    const candidate = number === 0 ? name : `${name}.${number}`
    const taken = await stat(candidate).catch(() => undefined)
    if (taken === undefined) return candidate
  }
}

function fileIn(home: string): string {
  return path.join(home, '.config', 'osmosis', 'credentials.json')
}

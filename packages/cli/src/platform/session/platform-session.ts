import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

import {
  answerTo,
  hideKeys,
  isInteractive,
  printError,
  standardError,
  standardInput,
  workingFolder,
} from '../../command/command-context.ts'
import { interruptedExitCode, wrongUseCode } from '../../command/exit-codes.ts'
import { abortOnInterrupt } from '../../command/process.ts'
import { isWrongUse } from '../../command/wrong-use.ts'
import { CredentialsFile } from '../auth/credentials-file.ts'
import { SystemKeyring } from '../auth/keyring.ts'
import { activeLogin, LoginStore, type ActiveLogin } from '../auth/login-store.ts'
import { objectsOf, textOf, type JsonObject } from '../client/answers.ts'
import { PlatformClient, type Scope } from '../client/platform-client.ts'
import { PlatformError } from '../client/platform-error.ts'
import { readPlatformSettings, type PlatformSettings } from '../client/settings.ts'
import { Storage } from '../files/storage.ts'
import { CommandOutput } from './command-output.ts'
import { findGitWorkspace, type GitWorkspace } from './git-workspace.ts'

const versionWarnings: Readonly<Record<string, string>> = {
  upgrade_available: 'UPGRADE_AVAILABLE',
  deprecated: 'DEPRECATED',
}

/** A question before an action that cannot be undone. */
export interface Question {
  readonly prompt: string
  /** Describes the action. */
  readonly summary?: string
  readonly warnings?: readonly string[]
  /** Whether an empty line means yes; default: false. */
  readonly defaultYes?: boolean
}

/** The flags that say which platform and workspace a command means. */
interface SessionFlags {
  readonly json?: boolean | undefined
  readonly platform?: string | undefined
  readonly envFile?: string | undefined
  readonly workspace?: string | undefined
}

/** Access of one command to the platform, with its login and workspace. */
export class PlatformSession {
  readonly output: CommandOutput
  readonly settings: PlatformSettings
  readonly signal: AbortSignal
  readonly logins: LoginStore
  /** The value of `--workspace`. */
  readonly workspaceName: string | undefined
  readonly #version: string
  readonly #keyring: SystemKeyring
  readonly #clients: PlatformClient[] = []
  readonly #warned = new Set<string>()

  constructor(
    options: { output: CommandOutput; signal: AbortSignal; flags: SessionFlags; version: string },
    settings: PlatformSettings,
  ) {
    this.output = options.output
    this.signal = options.signal
    this.workspaceName = options.flags.workspace
    this.#version = options.version
    this.settings = settings
    this.#keyring = new SystemKeyring(this.signal)
    this.logins = new LoginStore(settings, new CredentialsFile(), this.#keyring, {
      clientFor: (token) => this.client(token),
      warn: (code, message) => this.output.warn(code, message),
    })
    hideKeys(settings.environmentToken)
  }

  /** Creates a client with this token, or without one. */
  client(token?: string, scope?: Scope): PlatformClient {
    hideKeys(token)
    const client = new PlatformClient({
      url: this.settings.url,
      version: this.#version,
      token,
      scope,
      signal: this.signal,
      onVersionStatus: (status, message) => this.#warnOfVersion(status, message),
    })
    this.#clients.push(client)
    return client
  }

  /** The login, without a request to the platform. */
  async login(): Promise<ActiveLogin> {
    const login = await activeLogin(this.settings, this.logins.file, this.#keyring)
    hideKeys(login.token)
    return login
  }

  /** The workspace: that of `--workspace`, else that of the repository of the working folder. */
  async workspace(): Promise<{ scope: Scope; git: GitWorkspace | undefined }> {
    const { workspaceName: name } = this
    if (name !== undefined) {
      this.output.place = { workspace: { name } }
      return { scope: { workspace: name }, git: undefined }
    }
    const git = await findGitWorkspace(workingFolder())
    this.output.place = {
      git: { identity: git.identity, remote_url: git.remoteUrl },
      workspace_directory: git.folder,
    }
    return { scope: { git: git.identity }, git }
  }

  /** A client for the workspace. Both login and workspace are checked before any request. */
  async scoped(): Promise<{ client: PlatformClient; git: GitWorkspace | undefined }> {
    const { token } = await this.login()
    const { scope, git } = await this.workspace()
    return { client: this.client(token, scope), git }
  }

  /**
   * Asks a person, unless `yes` answers for them.
   *
   * @throws PlatformError with code `INTERACTIVE_REQUIRED` without a terminal
   */
  async confirm(question: Question, yes = false): Promise<boolean> {
    const { prompt, summary = '', warnings = [], defaultYes = false } = question
    if (summary !== '') this.output.note(summary)
    if (yes) return true
    this.#assertInteractive(prompt, ': pass --yes.', { summary, warnings })
    const answer = await ask(`${prompt} ${defaultYes ? '[Y/n]' : '[y/N]'} `, this.signal)
    if (answer === undefined) return false
    return answer.trim() === '' ? defaultYes : /^y(es)?$/i.test(answer.trim())
  }

  /**
   * Asks a person for text that the terminal does not show. Spaces belong to it, and it may be empty.
   *
   * @throws PlatformError with code `INTERACTIVE_REQUIRED` without a terminal
   */
  async askHidden(prompt: string): Promise<string> {
    this.#assertInteractive(prompt, '.')
    const answer = (await ask(`${prompt} `, this.signal, { hidden: true })) ?? ''
    printError('\n')
    hideKeys(answer)
    return answer
  }

  #assertInteractive(
    prompt: string,
    advice: string,
    { summary = '', warnings = [] }: Pick<Question, 'summary' | 'warnings'> = {},
  ): void {
    if (!this.output.json && isInteractive()) return
    throw new PlatformError(
      'INTERACTIVE_REQUIRED',
      `${prompt} No terminal is available for the answer${advice}`,
      { details: { prompt, summary, notes: [], warnings } },
    )
  }

  /** Calls `use` with the storage of files, and closes it afterwards. */
  async withStorage<T>(use: (storage: Storage) => Promise<T>): Promise<T> {
    const storage = new Storage({ signal: this.signal })
    try {
      return await use(storage)
    } finally {
      await storage.close()
    }
  }

  /** Prints the log lines that flags select. */
  async showLogs(
    path: readonly string[],
    options: {
      limit?: number | undefined
      direction?: string | undefined
      cursor?: string | undefined
    },
  ): Promise<void> {
    const { client } = await this.scoped()
    const { limit = 50, direction = 'older', cursor } = options
    const answer = await client.request([...path, 'logs'], { query: { limit, direction, cursor } })
    const logs = objectsOf(answer['logs'])
    this.output.lines(logs, logs.map(logLine), textOf(answer['next_cursor']) ?? null)
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()))
  }

  /** Warns once for each status. */
  #warnOfVersion(status: string, message: string): void {
    const code = versionWarnings[status]
    if (code === undefined || this.#warned.has(code)) return
    this.#warned.add(code)
    const otherwise = 'There is a newer version of the command line.'
    this.output.warn(code, message === '' ? otherwise : message)
  }
}

/** Runs a command of the platform, and resolves with its exit code. */
export async function runPlatformCommand(
  { name, version, flags }: { name: string; version: string; flags: SessionFlags },
  work: (session: PlatformSession) => Promise<number | void>,
): Promise<number> {
  const output = new CommandOutput({ command: name, version, json: flags.json ?? false })
  const interrupt = abortOnInterrupt()
  let session: PlatformSession | undefined
  try {
    const { signal } = interrupt
    const settings = readPlatformSettings(flags)
    session = new PlatformSession({ output, signal, flags, version }, settings)
    return (await work(session)) ?? 0
  } catch (error) {
    if (interrupt.signal.aborted) return interruptedExitCode
    output.fail(error)
    return isWrongUse(error) ? wrongUseCode : 1
  } finally {
    interrupt.release()
    await session?.close()
  }
}

/** The login that commands of the platform would use, for a server that registers with it. */
export async function platformLogin(): Promise<{ url: string; token: string }> {
  const settings = readPlatformSettings()
  const { token } = await activeLogin(settings, new CredentialsFile(), new SystemKeyring())
  return { url: settings.url, token }
}

function logLine({ timestamp, level, step, message }: JsonObject): string {
  return [timestamp, level, step, message].filter((part) => typeof part === 'string').join('  ')
}

async function ask(
  prompt: string,
  signal: AbortSignal,
  { hidden = false }: { hidden?: boolean } = {},
): Promise<string | undefined> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const output = hidden ? nowhere : standardError()
  // The interface turns the echo of the terminal off, so it is created before the question is printed:
  // input that follows the question is never shown.
  const lines = createInterface({ input: standardInput(), output, terminal: true })
  // The interface receives Ctrl-C instead of the process.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    if (hidden) printError(prompt)
    return await answerTo(lines, hidden ? '' : prompt, signal)
  } finally {
    lines.close()
  }
}

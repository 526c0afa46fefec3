import {
  activeLogin,
  CredentialsFile,
  findGitWorkspace,
  LoginStore,
  PlatformClient,
  readPlatformSettings,
  SystemKeyring,
  type ActiveLogin,
  type GitWorkspace,
  type PlatformSettings,
  type Scope,
} from '@osmosis/platform'

import { abortOnInterrupt } from '../command/process.ts'
import { interruptedExitCode, isWrongUse, wrongUseCode } from '../command/exit-codes.ts'
import { environment, homeFolder, workingFolder } from '../command/surroundings.ts'
import { confirm, type Question } from './ask.ts'
import { CommandOutput } from './command-output.ts'
import type { PlatformFlags } from './platform-flags.ts'

const versionWarnings: Readonly<Record<string, string>> = {
  upgrade_available: 'UPGRADE_AVAILABLE',
  deprecated: 'DEPRECATED',
}

/** What one command knows of the platform, its user and their workspace. */
export class PlatformSession {
  readonly output: CommandOutput
  readonly settings: PlatformSettings
  readonly signal: AbortSignal
  readonly logins: LoginStore
  readonly version: string
  readonly #flags: PlatformFlags
  readonly #clients: PlatformClient[] = []
  readonly #warned = new Set<string>()

  private constructor(
    options: { output: CommandOutput; signal: AbortSignal; flags: PlatformFlags; version: string },
    settings: PlatformSettings,
  ) {
    this.output = options.output
    this.signal = options.signal
    this.version = options.version
    this.#flags = options.flags
    this.settings = settings
    const { tokenStore } = settings
    this.logins = new LoginStore({
      file: CredentialsFile.ofHome(homeFolder()),
      keyring: new SystemKeyring(this.signal),
      tokenStore,
    })
    this.output.hide(settings.environmentToken)
  }

  static async open(options: {
    output: CommandOutput
    signal: AbortSignal
    flags: PlatformFlags
    version: string
  }): Promise<PlatformSession> {
    const { platform, envFile } = options.flags
    const settings = await readPlatformSettings({
      environment: environment(),
      folder: workingFolder(),
      platform,
      envFile,
    })
    return new PlatformSession(options, settings)
  }

  /** A client that presents a token, or none. */
  client(token?: string, scope?: Scope): PlatformClient {
    this.output.hide(token)
    const client = new PlatformClient({
      url: this.settings.url,
      version: this.version,
      token,
      scope,
      signal: this.signal,
      onVersionStatus: (status, message) => this.#warnOfVersion(status, message),
    })
    this.#clients.push(client)
    return client
  }

  /** The login, without asking the platform. */
  async login(): Promise<ActiveLogin> {
    const login = await activeLogin(this.settings, this.logins)
    this.output.hide(login.token)
    return login
  }

  /** The workspace: by `--workspace`, else that of the repository around the working folder. */
  async workspace(): Promise<{ scope: Scope; git: GitWorkspace | undefined }> {
    const { workspace } = this.#flags
    if (workspace !== undefined) {
      this.output.place = { workspace: { name: workspace } }
      return { scope: { workspace }, git: undefined }
    }
    const git = await findGitWorkspace(workingFolder())
    this.output.place = {
      git: { identity: git.identity, remote_url: git.remoteUrl },
      workspace_directory: git.folder,
    }
    return { scope: { git: git.identity }, git }
  }

  /** A client for the workspace. Nothing is asked of the platform before both are known. */
  async scoped(): Promise<{ client: PlatformClient; git: GitWorkspace | undefined }> {
    const { token } = await this.login()
    const { scope, git } = await this.workspace()
    return { client: this.client(token, scope), git }
  }

  /** Asks a person, unless `yes` answers for them. */
  async confirm(question: Question, yes = false): Promise<boolean> {
    return confirm(question, { yes, output: this.output, signal: this.signal })
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()))
  }

  /** Once for each status, however many answers say it. */
  #warnOfVersion(status: string, message: string): void {
    const code = versionWarnings[status]
    if (code === undefined || this.#warned.has(code)) return
    this.#warned.add(code)
    const otherwise = 'There is a newer version of the command line.'
    this.output.warn(code, message === '' ? otherwise : message)
  }
}

/** Runs a command of the platform to its end, and resolves with its exit code. */
export async function runPlatformCommand(
  { name, version, flags }: { name: string; version: string; flags: PlatformFlags },
  work: (session: PlatformSession) => Promise<number | void>,
): Promise<number> {
  const output = new CommandOutput({ command: name, version, json: flags.json ?? false })
  const interrupt = abortOnInterrupt()
  let session: PlatformSession | undefined
  try {
    session = await PlatformSession.open({ output, signal: interrupt.signal, flags, version })
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

import { OsmosisError } from '../errors.ts'
import { defaultMaxBytes } from './regular-file.ts'

/** A place where an agent runs commands and keeps files. */
export interface Sandbox {
  /**
   * Runs a command until it ends, with everything that it starts.
   *
   * @param command - a line for `sh`, or a program with its arguments
   * @throws OsmosisError with code `tool_failed` when it cannot be started; the reason of `signal` when aborted
   */
  exec(command: string | readonly string[], options?: ExecOptions): Promise<ExecResult>
  /**
   * The bytes of a file.
   *
   * @param path - below the folder of the sandbox
   * @throws OsmosisError with code `tool_failed` when it cannot be read, is too large or not a regular file, `invalid_request` for
   * a path outside
   */
  read(path: string, options?: ReadOptions): Promise<Uint8Array>
  /** Writes a regular file, and creates its folders. Throws what `read` throws. */
  write(path: string, content: string | Uint8Array): Promise<void>
  /** Ends what still runs. Has no effect the second time. */
  close(): Promise<void>
}

/** Limits on one command. */
export interface SandboxLimits {
  /** After this time the command is killed, with what it started. Seconds; default 60. */
  readonly timeoutSeconds?: number
  /** How much of stdout, and of stderr, is returned; the rest is read and dropped. Bytes; default 1 MiB. */
  readonly maxOutputBytes?: number
}

/** Limits on one file. */
export interface ReadOptions {
  /** A larger file is an error. Bytes; default 64 MiB. */
  readonly maxBytes?: number
}

export interface ExecOptions extends SandboxLimits {
  /** The folder it runs in, below that of the sandbox. Default: that folder. */
  readonly cwd?: string | undefined
  /** Variables beside those of the sandbox. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Its standard input. Default: empty. */
  readonly input?: string | undefined
  /** Kills it when aborted. */
  readonly signal?: AbortSignal | undefined
}

/** How a command ended. */
export interface ExecResult {
  /** Null when it was killed. */
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
  /** Whether `timeoutSeconds` passed. */
  readonly timedOut: boolean
  /** Whether output beyond `maxOutputBytes` was dropped. */
  readonly truncated: boolean
}

type Limits = SandboxLimits & ReadOptions

const defaults: Required<Limits> = {
  timeoutSeconds: 60,
  maxOutputBytes: 1024 * 1024,
  maxBytes: defaultMaxBytes,
}

/**
 * The limits of a command or a file: its own, else those of the sandbox, else the defaults.
 *
 * @throws OsmosisError with code `invalid_config` for a limit that is not above 0
 */
export function sandboxLimits(...given: readonly Limits[]): Required<Limits> {
  const limit = (name: keyof Limits): number => {
    const value = given.find((limits) => limits[name] !== undefined)?.[name] ?? defaults[name]
    if (Number.isFinite(value) && value > 0) return value
    throw new OsmosisError(
      'invalid_config',
      `${name} must be a number above 0, got ${String(value)}.`,
    )
  }
  return {
    timeoutSeconds: limit('timeoutSeconds'),
    maxOutputBytes: limit('maxOutputBytes'),
    maxBytes: limit('maxBytes'),
  }
}

/** Collects output of a command up to a number of bytes. */
export class LimitedOutput {
  readonly #maxBytes: number
  readonly #pieces: Uint8Array[] = []
  #bytes = 0
  truncated = false

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  add(piece: Uint8Array): void {
    const rest = this.#maxBytes - this.#bytes
    if (piece.length > rest) this.truncated = true
    const taken = piece.subarray(0, rest)
    if (taken.length === 0) return
    this.#pieces.push(taken)
    this.#bytes += taken.length
  }

  get bytes(): Uint8Array {
    return Buffer.concat(this.#pieces)
  }

  get text(): string {
    return Buffer.concat(this.#pieces).toString('utf8')
  }
}

import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import type { RolloutGrade, StoredRollout, RunReader } from '@osmosis/eval'
import { moduleIn, type UserCodeProcess } from '@osmosis/server/child'
import { ConcurrencyLimiter } from '@osmosis/server/execution'

import { runUserCode } from '../../child/user-code.ts'
import {
  printError,
  redaction,
  resolvePath,
  hideSecrets,
  workingFolder,
} from '../../command/command-context.ts'
import { readEnvironment, requiredSecrets } from '../../command/environment.ts'
import { onOneLine, printMessage } from '../../command/terminal-text.ts'
import { invalid, invalidEntrypoint } from '../../command/wrong-use.ts'
import { splitSpec } from '../../inputs/load-module.ts'
import type { EvalRegradeFlags } from '../regrade.ts'
import type { GraderFacts, GraderOrder } from './load-grader.ts'
import { ownFiles } from './own-files.ts'

/** Options of a {@link GraderProcess}. */
export interface GraderProcessOptions {
  readonly order: GraderOrder
  /** Working folder of the process. */
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
}

/** Maximum number of rollouts or groups that a process has; it decides how many it grades concurrently. */
const mostInFlight = 64
/** How long a grader may block its process after its deadline. Seconds. */
const patienceSeconds = 5

/** The grades of some rollouts, or how the process ended that had them. */
type Graded = readonly RolloutGrade[] | { readonly how: string; readonly reason: string }

/**
 * Grades in a child process. When that exits, or is blocked beyond the deadline of the grader, another process
 * gets its rollouts or groups one by one, so that only the faulty one has no grade.
 */
export class GraderProcess {
  readonly #many: ReplacedProcess
  readonly #single: ReplacedProcess

  constructor(options: GraderProcessOptions) {
    this.#many = new ReplacedProcess(options, mostInFlight)
    this.#single = new ReplacedProcess(options, 1)
  }

  /**
   * Starts the process and loads the grader.
   *
   * @throws OsmosisError with code `invalid_entrypoint` when it cannot be loaded
   */
  async load(): Promise<GraderFacts> {
    return this.#many.load()
  }

  /** @param rollouts - graded together */
  async grade(rollouts: readonly StoredRollout[]): Promise<readonly RolloutGrade[]> {
    const first = await this.#many.grade(rollouts)
    const graded = 'how' in first ? await this.#single.grade(rollouts) : first
    if (!('how' in graded)) return graded
    const error = `The process of the grader ${graded.how}.`
    const type = graded.reason === 'stall' ? 'timeout' : 'grader_failed'
    return rollouts.map(() => ({ reward: null, error, error_type: type }))
  }

  /** Ends the processes and rejects pending rollouts. Idempotent. */
  close(): void {
    this.#many.close()
    this.#single.close()
  }
}

/** A process that grades. The one after it is started when it is needed. */
class ReplacedProcess {
  readonly #options: GraderProcessOptions
  readonly #slots: ConcurrencyLimiter
  readonly #closing = new AbortController()
  #child: UserCodeProcess | undefined

  constructor(options: GraderProcessOptions, maxInFlight: number) {
    this.#options = options
    this.#slots = new ConcurrencyLimiter(maxInFlight)
  }

  /** @throws OsmosisError with code `invalid_entrypoint` */
  async load(child = this.#start()): Promise<GraderFacts> {
    try {
      return (await child.ready).facts as GraderFacts
    } catch (error) {
      this.#closing.signal.throwIfAborted()
      throw invalidEntrypoint(errorMessage(error), error)
    }
  }

  async grade(rollouts: readonly StoredRollout[]): Promise<Graded> {
    const { signal } = this.#closing
    const release = await this.#slots.acquire(signal)
    try {
      const child = this.#child ?? this.#start()
      await this.load(child)
      try {
        return (await child.ask(rollouts)) as readonly RolloutGrade[]
      } catch (error) {
        signal.throwIfAborted()
        if (!isOsmosisError(error) || error.code !== 'worker_lost') throw error
        if (this.#child === child) this.#child = undefined
        return await child.ended
      }
    } finally {
      release()
    }
  }

  close(): void {
    this.#closing.abort(new OsmosisError('cancelled', 'the grading was ended'))
    this.#child?.kill()
  }

  #start(): UserCodeProcess {
    const { order, folder, env } = this.#options
    const { timeoutSeconds } = order
    const child = runUserCode({
      module: moduleIn(import.meta.dirname, 'grade-child'),
      loader: async () => (await import('./load-grader.ts')).loadGrading,
      order,
      name: 'the process of the grader',
      cwd: folder,
      env,
      stallTimeoutSeconds: timeoutSeconds === null ? undefined : timeoutSeconds + patienceSeconds,
    })
    for (const stream of child.output) {
      const text = redaction().stream()
      text.on('data', (piece: string) => printError(piece))
      stream.setEncoding('utf8').pipe(text)
    }
    this.#child = child
    return child
  }
}

/**
 * The environment and limits of the grader. Its secrets and its time limit are those of the run; its code and its
 * variables are those of the workspace in which the command was started, or of `--grader`.
 *
 * @throws OsmosisError with code `invalid_config` for secrets without a value, and when neither names a grader
 */
export async function graderOptions(
  run: RunReader,
  flags: Pick<EvalRegradeFlags, 'grader' | 'secretsFile'>,
): Promise<GraderProcessOptions> {
  const { code, timeouts, env, secrets: names } = run.manifest.inputs
  const own = await ownFiles(run)
  if (flags.grader === undefined && own.entrypoint === null) {
    throw invalid(
      `The workspace of this folder has no entrypoint ${onOneLine(JSON.stringify(code.entrypoint))}, and code of other folders does not grade a run by itself. Name a grader with --grader <file>.`,
    )
  }
  const unset = Object.keys(env).filter((name) => !Object.hasOwn(own.env, name))
  if (unset.length > 0) {
    printMessage(
      `warning: variables of the run that its config in this workspace does not set are left out: ${unset.map(onOneLine).join(', ')}. A grader that needs them gets them from the environment.`,
    )
  }
  const environment = readEnvironment()
  const secrets = await requiredSecrets(names, flags.secretsFile, environment)
  hideSecrets(secrets)
  return {
    order: {
      grader: flags.grader === undefined ? null : absolute(flags.grader),
      entrypoint: own.entrypoint,
      kind: code.kind,
      timeoutSeconds: timeouts.grader_seconds,
      artifactRoot: path.join(run.location, 'artifacts'),
    },
    folder: own.folder ?? workingFolder(),
    env: {
      ...environment,
      ...own.env,
      ...secrets,
      // User code does not need the login, and no policy listens.
      OSMOSIS_TOKEN: undefined,
      OSMOSIS_CHAT_COMPLETIONS_URL: undefined,
      OSMOSIS_ROLLOUT_ID: undefined,
    },
  }
}

function absolute(spec: string): string {
  const { file, name } = splitSpec(spec)
  return name === undefined ? resolvePath(file) : `${resolvePath(file)}:${name}`
}

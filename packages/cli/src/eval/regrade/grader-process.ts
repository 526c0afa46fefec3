import { invalid } from '../../command/exit-codes.ts'
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import type { RolloutGrade, StoredRollout, RunReader } from '@osmosis/eval'

import {
  printError,
  redaction,
  resolvePath,
  hideSecrets,
  workingFolder,
} from '../../command/command-context.ts'
import { onOneLine } from '../../command/terminal-text.ts'
import type { EvalRegradeFlags } from '../regrade.ts'
import { readEnvironment, requiredSecrets } from '../../command/environment.ts'
import { splitSpec } from '../../inputs/load-module.ts'
import type { FromGrader, ToGrader } from './grade-child.ts'
import type { GraderOrder } from './load-grader.ts'
import { ownFiles } from './own-files.ts'

/** Options of a {@link GraderProcess}. */
export interface GraderProcessOptions {
  readonly order: GraderOrder
  /** Working folder of the process. */
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
}

interface Task {
  /** Graded together. */
  readonly rollouts: readonly StoredRollout[]
  readonly resolve: (grades: readonly RolloutGrade[]) => void
  readonly reject: (error: unknown) => void
}

type Loaded = Extract<FromGrader, { type: 'loaded' }>

/** Maximum number of rollouts or groups that the process has; it decides how many it grades concurrently. */
const mostInFlight = 64
/** How long a process may send nothing after the deadline of its grader. Milliseconds. */
const patienceMs = 5_000

/**
 * Grades in a child process. When that exits, or is blocked beyond the deadline of the grader, a new process
 * gets its rollouts or groups one by one, so that only the faulty one has no grade.
 */
export class GraderProcess {
  readonly #options: GraderProcessOptions
  /** Removes secrets from the output of its processes. */
  readonly #redaction = redaction()
  readonly #queue: Task[] = []
  readonly #inFlight = new Map<number, Task>()
  /** Tasks that a process had when it exited. */
  readonly #suspects = new Set<Task>()
  #child: ChildProcess | undefined
  #isReady = false
  #lastId = 0
  #silence: ReturnType<typeof setTimeout> | undefined
  #closed: Error | undefined
  #giveUp: (error: Error) => void = () => {}

  constructor(options: GraderProcessOptions) {
    this.#options = options
  }

  /**
   * Starts the process and loads the grader.
   *
   * @throws OsmosisError with code `invalid_entrypoint` when it cannot be loaded
   */
  async load(): Promise<Loaded> {
    const { promise, resolve, reject } = Promise.withResolvers<Loaded>()
    this.#giveUp = reject
    this.#start((message) => {
      if (message.type === 'loaded') resolve(message)
      else reject(new OsmosisError('invalid_entrypoint', message.message))
    })
    return promise
  }

  grade(rollouts: readonly StoredRollout[]): Promise<readonly RolloutGrade[]> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ rollouts, resolve, reject })
      if (this.#closed === undefined) this.#pump()
      else this.#failAll(this.#closed)
    })
  }

  /** Ends the process and rejects pending tasks. Idempotent. */
  close(): void {
    this.#closed ??= new OsmosisError('cancelled', 'the grading was ended')
    this.#failAll(this.#closed)
    this.#giveUp(this.#closed)
    clearTimeout(this.#silence)
    this.#child?.kill('SIGKILL')
  }

  #start(onLoad: (message: Loaded | Extract<FromGrader, { type: 'failed' }>) => void): void {
    const { order, folder, env } = this.#options
    const child = spawn(process.execPath, [...process.execArgv, childFile()], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    this.#child = child
    this.#isReady = false
    for (const stream of [child.stdout, child.stderr]) {
      const text = this.#redaction.stream()
      text.on('data', (piece: string) => printError(piece))
      stream?.setEncoding('utf8').pipe(text)
    }
    child.on('message', (message: FromGrader) => {
      if (this.#child !== child) return
      switch (message.type) {
        case 'graded':
          this.#finish(message.id, message.grades)
          return
        case 'loaded':
        case 'failed':
          this.#isReady = message.type === 'loaded'
          onLoad(message)
          this.#pump()
      }
    })
    let spawnError: Error | undefined
    child.once('error', (error) => {
      spawnError = error
    })
    child.once('close', (code, signal) => {
      if (this.#child !== child || this.#closed !== undefined) return
      const how = spawnError?.message ?? `ended with ${signal ?? `code ${code}`}`
      if (this.#isReady) this.#replace(`The process of the grader ${how}.`)
      else onLoad({ type: 'failed', message: `Its process ${how} while it was loaded.` })
    })
    this.#send(child, { type: 'load', order })
  }

  #pump(): void {
    const child = this.#child
    if (!this.#isReady || child === undefined) return
    const limit = this.#suspects.size > 0 ? 1 : mostInFlight
    while (this.#inFlight.size < limit) {
      const task = this.#queue.shift()
      if (task === undefined) break
      const id = (this.#lastId += 1)
      this.#inFlight.set(id, task)
      this.#send(child, { type: 'grade', id, rollouts: task.rollouts })
    }
    this.#watchSilence()
  }

  #send(child: ChildProcess, message: ToGrader): void {
    // One that has ended is replaced when that is known.
    child.send(message, () => {})
  }

  #finish(id: number, grades: readonly RolloutGrade[]): void {
    const task = this.#inFlight.get(id)
    if (task === undefined) return
    this.#inFlight.delete(id)
    this.#suspects.delete(task)
    task.resolve(grades)
    this.#pump()
  }

  /** Goes on with a new process. */
  #replace(why: string, type = 'grader_failed'): void {
    const failed: RolloutGrade = { reward: null, error: why, error_type: type }
    const [first, ...others] = this.#inFlight.values()
    this.#inFlight.clear()
    if (first !== undefined && others.length === 0) {
      this.#suspects.delete(first)
      first.resolve(first.rollouts.map(() => failed))
    } else if (first !== undefined) {
      for (const task of [first, ...others]) this.#suspects.add(task)
      this.#queue.unshift(first, ...others)
    }
    this.#child?.kill('SIGKILL')
    this.#start((message) => {
      if (message.type === 'loaded') return
      this.#failAll(new OsmosisError('invalid_entrypoint', message.message))
    })
  }

  /** A process that works on something answers within the deadline of the grader. */
  #watchSilence(): void {
    clearTimeout(this.#silence)
    const { timeoutSeconds } = this.#options.order
    if (timeoutSeconds === null || this.#inFlight.size === 0) return
    this.#silence = setTimeout(
      () => {
        const why = `The grader has blocked its process for more than its ${timeoutSeconds}s.`
        this.#replace(why, 'timeout')
      },
      timeoutSeconds * 1000 + patienceMs,
    )
  }

  #failAll(error: Error): void {
    const tasks = [...this.#inFlight.values(), ...this.#queue.splice(0)]
    this.#inFlight.clear()
    for (const { reject } of tasks) reject(error)
  }
}

/** As source or as built code. */
function childFile(): string {
  const source = path.join(import.meta.dirname, 'grade-child.ts')
  return existsSync(source) ? source : source.replace(/ts$/, 'js')
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
    printError(
      `warning: variables of the run that its config in this workspace does not set are left out: ${unset.map(onOneLine).join(', ')}. A grader that needs them gets them from the environment.\n`,
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

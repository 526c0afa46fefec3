import { spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { parseJson } from '@osmosis/core/http'
import { z } from 'zod'

/** How the bundled learner is started. */
export interface LearnerProcessOptions {
  /** A folder with a model, or the name of one on the hub. */
  readonly model: string
  /** Python with torch, transformers and peft. Default: `uv`, which installs them for the learner alone. */
  readonly python?: string | undefined
  readonly device?: 'auto' | 'cpu' | 'cuda' | 'mps' | undefined
  /** What samples. Default: `auto`, vLLM where it is installed and finds a GPU. */
  readonly sampler?: 'auto' | 'torch' | 'vllm' | undefined
  /** Rank of the LoRA adapters; 0 trains all weights. Default: the learner's, 16. */
  readonly loraRank?: number | undefined
  /** Layers that get LoRA adapters: `all-linear`, or their names with commas between them. Default: `all-linear`. */
  readonly loraTargets?: string | undefined
  /** Of weights and answers. Default: `auto`, bfloat16 for LoRA on CUDA without a seed, else float32. */
  readonly precision?: 'auto' | 'float32' | 'bfloat16' | undefined
  /** Maximum number of tokens in a conversation. */
  readonly maxLength?: number | undefined
  /** Maximum number of conversations that are sampled at once. */
  readonly batch?: number | undefined
  /** Tokens in one pass of an update. */
  readonly microBatchTokens?: number | undefined
  readonly threads?: number | undefined
  /** Whether `export` writes the whole model where it would write a LoRA adapter. Default: false. */
  readonly exportsMerged?: boolean | undefined
  /**
   * With it a training repeats to the last bit on the same machine: each answer is computed once more by itself, in float32, and
   * vLLM samples only when `sampler` says so, inexactly. Default: 0, and answers and weights repeat but for rounding.
   */
  readonly seed?: number | undefined
  /** What gets the figures of the training. Default: nothing. */
  readonly log?: readonly TrainingLogger[] | undefined
  /** A Python class that replaces the model: `<file>:<class>`. */
  readonly policyClass?: string | undefined
  /** Receives everything the learner prints. Default: error messages have its last lines. */
  readonly logFile?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** A program or service that shows figures of trainings; its Python package has the same name. */
export type TrainingLogger = 'tensorboard' | 'wandb' | 'mlflow'

const memorySchema = z.object({
  weights: z.number(),
  optimizer: z.number(),
  activations: z.number(),
  cache: z.number(),
  needed: z.number(),
  free: z.number().nullable(),
})

const startedSchema = z.object({
  url: z.string().optional(),
  model: z.string(),
  revision: z.string().nullish(),
  device: z.string(),
  dtype: z.string(),
  weights: z.number(),
  trained_weights: z.number(),
  max_length: z.number(),
  batch: z.number().optional(),
  conversations: z.number().optional(),
  waits: z.boolean().default(false),
  memory_bytes: memorySchema,
  sampler: z.enum(['torch', 'vllm']),
  tool_parser: z.string().nullable(),
  describes_tools: z.boolean().default(false),
  reasoning_parser: z.string().nullable(),
})

/** Estimated need of memory, and what is free. Bytes. */
export interface LearnerMemory {
  readonly weights: number
  readonly optimizer: number
  readonly activations: number
  readonly cache: number
  /** At the same time, at most. */
  readonly needed: number
  /** Null where the device does not say. */
  readonly free: number | null
}

/** What the learner says about itself. */
export interface LearnerFacts {
  readonly model: string
  /** The commit of a model on the hub; null for a folder. */
  readonly revision: string | null
  readonly device: string
  readonly dtype: string
  readonly weights: number
  readonly trainedWeights: number
  /** Tokens. */
  readonly maxLength: number
  /** Maximum number of conversations that are sampled at once … */
  readonly batch: number | undefined
  /** … and of those that have room for it when all of them are of `maxLength`. */
  readonly conversations: number | undefined
  /** Whether conversations that wait begin when all others have ended, because the caches of the model cannot be joined. */
  readonly waits: boolean
  readonly memory: LearnerMemory
  /** What samples: the learner itself, or vLLM beside it. */
  readonly sampler: 'torch' | 'vllm'
  /** Names of vLLM's parsers for this model; null where it has none. */
  readonly toolParser: string | null
  /** Whether the model's own chat template knows no tools, so that the exported one describes them. */
  readonly describesTools: boolean
  readonly reasoningParser: string | null
}

/** A learner that listens. */
export interface LearnerProcess {
  readonly url: string
  readonly apiKey: string
  readonly facts: LearnerFacts
  /** Aborted with an error that has the last lines of output when the process ends. */
  readonly died: AbortSignal
  close(): Promise<void>
}

/**
 * Starts the bundled learner, and resolves when it listens. It ends with this process, even when that is killed.
 *
 * @throws OsmosisError with code `learner_error` and what it printed when it ends before, or when uv or Python is missing;
 * the message names the command that installs it
 */
export async function startLearner(options: LearnerProcessOptions): Promise<LearnerProcess> {
  const apiKey = randomBytes(32).toString('base64url')
  const run = launch(options, apiKey, [])
  try {
    const { url, ...facts } = await run.started
    if (url === undefined) throw new OsmosisError('learner_error', 'The learner gave no URL.')
    return { url, apiKey, facts: toFacts(facts), died: run.died, close: run.close }
  } catch (error) {
    await run.close()
    throw error
  }
}

/** The memory that a training would need, without loading the model. Throws what `openLocalLearner` throws. */
export async function estimateLearner(options: LearnerProcessOptions): Promise<LearnerFacts> {
  const run = launch(options, '', ['--estimate'])
  try {
    return toFacts(await run.started)
  } finally {
    await run.close()
  }
}

/**
 * Why the program that runs the learner cannot be started, and what to do; undefined where it can. The packages of a Python are not
 * looked for.
 *
 * @param python - as in {@link LearnerProcessOptions}
 */
export async function learnerProgramProblem(
  python: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  const command = python ?? 'uv'
  try {
    await once(spawn(command, ['--version'], { stdio: 'ignore', env }), 'exit')
    return undefined
  } catch (error) {
    return unusable(command, error)
  }
}

type Started = z.infer<typeof startedSchema>

function launch(
  options: LearnerProcessOptions,
  apiKey: string,
  more: readonly string[],
): {
  readonly started: Promise<Started>
  readonly died: AbortSignal
  readonly close: () => Promise<void>
} {
  const { python, signal } = options
  const program = path.resolve(import.meta.dirname, '../../learner/learner.py')
  const args = [program, ...learnerArgs(options), ...more]
  const [command, commandArgs] =
    python === undefined
      ? [
          'uv',
          ['run', ...(options.log ?? []).flatMap((name) => ['--with', name]), '--script', ...args],
        ]
      : [python, args]
  const env = {
    ...process.env, // oxlint-disable-line node/no-process-env -- the default environment of a child
    OSMOSIS_LEARNER_KEY: apiKey,
    PYTHONUNBUFFERED: '1',
  }
  let child: ChildProcessWithoutNullStreams
  try {
    child = spawn(command, commandArgs, { stdio: ['pipe', 'pipe', 'pipe'], env, signal })
  } catch (error) {
    // Not all errors are events of the child: a path through a file is one that is thrown.
    throw new OsmosisError('learner_error', unusable(command, error), { cause: error })
  }
  // The learner ends when its input does, which a kill of this process causes, too.
  child.stdin.on('error', () => {})
  const lines = lastLines(child, options.logFile)
  const gone = new Promise<void>((resolve) => {
    child.once('close', () => resolve())
  })
  const died = new AbortController()
  const ended = endOf(child, { command, lines, gone }).then((error) => {
    died.abort(error)
    return error
  })
  const started = Promise.race([
    firstJson(child),
    ended.then((error) => {
      throw error
    }),
  ])
  started.catch(() => {})
  const close = async (): Promise<void> => {
    child.stdin.end()
    await within(patienceMs, ended)
    child.kill('SIGKILL')
    await ended
    // What it started writes to the same output: while that is open, the memory and the folder are not free.
    await within(patienceMs, gone)
  }
  return { started, died: died.signal, close }
}

function learnerArgs(options: LearnerProcessOptions): string[] {
  const flags: readonly (readonly [string, string | number | undefined])[] = [
    ['--model', options.model],
    ['--device', options.device],
    ['--sampler', options.sampler],
    ['--lora-rank', options.loraRank],
    ['--lora-targets', options.loraTargets],
    ['--dtype', options.precision],
    ['--max-length', options.maxLength],
    ['--batch', options.batch],
    ['--micro-batch-tokens', options.microBatchTokens],
    ['--threads', options.threads],
    ['--seed', options.seed],
    ['--log', options.log?.join()],
    ['--policy-class', options.policyClass],
    ['--output', options.logFile],
  ]
  return flags.flatMap(([flag, value]) => (value === undefined ? [] : [flag, String(value)]))
}

/** The line in which the learner says that it is ready. The rest of its output is read and dropped. */
function firstJson({ stdout }: ChildProcess): Promise<Started> {
  if (stdout === null) throw new TypeError('The output of the learner is not a pipe.')
  const lines = createInterface({ input: stdout })
  return new Promise((resolve) => {
    lines.on('line', (line) => {
      const parsed = startedSchema.safeParse(parseJson(line))
      if (parsed.success) resolve(parsed.data)
    })
  })
}

const remembered = 30

function lastLines(child: ChildProcess, logFile: string | undefined): () => string {
  const lines: string[] = []
  const log = logFile === undefined ? undefined : createWriteStream(logFile, { flags: 'a' })
  log?.on('error', () => {})
  if (child.stderr === null) return () => ''
  child.stderr.on('data', (bytes: Buffer) => log?.write(bytes))
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (line.trim() !== '') lines.push(line)
    lines.splice(0, lines.length - remembered)
  })
  child.stderr.on('close', () => log?.end())
  return () => lines.join('\n')
}

/** Resolves with the reason when the learner has exited: its own words where it found out what is wrong. */
async function endOf(
  child: ChildProcess,
  {
    command,
    lines,
    gone,
  }: {
    readonly command: string
    readonly lines: () => string
    readonly gone: Promise<void>
  },
): Promise<OsmosisError> {
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
    // Its last lines may not have been read yet. Processes that it left behind can keep its output open for ever.
    await within(1000, gone)
    const [, ...errors] = `\n${lines()}`.split('\nerror: ')
    const said = errors.at(-1)
    if (said !== undefined && code === foundOut) return new OsmosisError('learner_error', said)
    if (said !== undefined && command === 'uv') {
      return new OsmosisError('learner_error', `${uvRepair}\n${said}`)
    }
    const how = code === null ? `was ended by ${signal}` : `ended with code ${code}`
    return new OsmosisError('learner_error', `The learner ${how}. It printed last:\n${lines()}`)
  } catch (error) {
    // `signal` ended it.
    const isAborted = (error as Error).name === 'AbortError'
    const message = isAborted ? errorMessage(error) : unusable(command, error)
    return new OsmosisError('learner_error', message, { cause: error })
  }
}

async function within(milliseconds: number, what: Promise<unknown>): Promise<void> {
  const over = new AbortController()
  const { signal } = over
  await Promise.race([what, sleep(milliseconds, undefined, { signal }).catch(() => {})])
  over.abort()
}

/** How long the learner, then what it left behind, gets to end. vLLM takes some seconds. Milliseconds. */
const patienceMs = 15_000

/** The exit code of a learner that has found out what is wrong. */
const foundOut = 78

const uvRepair =
  'uv could not install Python with torch, transformers and peft for the learner. Run the same command again with a connection, or pass --python with a Python that has them. uv says:'

/** Why a program cannot be run, and what to do. */
function unusable(command: string, error: unknown): string {
  const isMissing = ['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code))
  if (command !== 'uv') {
    if (isMissing) {
      return `${command} does not exist. Check --python, or leave it out: then uv installs one for the learner.`
    }
    if (existsSync(command) && statSync(command).isDirectory()) {
      return `${command} is a folder: pass --python ${path.join(command, 'bin/python')}`
    }
    return `${command} cannot be run (${errorMessage(error)}): pass --python with a program, or make it one: chmod +x ${command}`
  }
  if (!isMissing) return errorMessage(error)
  return 'The learner needs uv, which installs Python with torch, transformers and peft for it: curl -LsSf https://astral.sh/uv/install.sh | sh. Or name a Python that has them with --python.'
}

function toFacts(started: Omit<Started, 'url'>): LearnerFacts {
  const { model, device, dtype, weights } = started
  return {
    model,
    revision: started.revision ?? null,
    device,
    dtype,
    weights,
    trainedWeights: started.trained_weights,
    maxLength: started.max_length,
    batch: started.batch,
    conversations: started.conversations,
    waits: started.waits,
    memory: started.memory_bytes,
    sampler: started.sampler,
    toolParser: started.tool_parser,
    describesTools: started.describes_tools,
    reasoningParser: started.reasoning_parser,
  }
}

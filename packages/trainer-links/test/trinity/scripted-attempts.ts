import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
  type GroupGraderClass,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import {
  FakeTrinity,
  type FakeTrinityOptions,
  type TrinityCall,
} from '../../../../test/kit/trainers/index.ts'
import { recordingLogger, tokenAnswer, type LogLine } from '../../../../test/kit/index.ts'
import {
  runTrainerWorker,
  trinity,
  type TrinityOptions,
  type WorkerSummary,
} from '@osmosis/trainer-links'

/** What happens in one attempt at a row. */
export interface Script {
  /** Model calls before it ends. Default: 2. */
  readonly calls?: number
  /** Default: 1. */
  readonly reward?: number
  readonly steps?: readonly (number | null)[]
  /** Number of calls after which the conversation is replaced by a summary, which is not training data. */
  readonly compactsAfter?: number
  /** Default: one sample, `main`. */
  readonly samples?: readonly string[]
  /** Default: `rewarded`. */
  readonly end?:
    | 'rewarded'
    | 'removed'
    | 'throws'
    | 'ungraded'
    | 'grader throws'
    | 'hangs'
    | 'cancelled'
  /** Only the first try ends so; the second one is rewarded. */
  readonly isFirstTry?: boolean
}

/** What attempt `attempt` at row `row` does. */
export type Scripts = (row: number, attempt: number) => Script

/** A rollout that got a reward, as its grader recorded it. */
export interface Graded {
  readonly rolloutId: string
  readonly group: string
  readonly run: number
  readonly sample: string
  readonly reward: number
}

/** A backend with scripted attempts, and the record of its grader. */
export interface ScriptedBackend {
  readonly backend: LocalBackend
  readonly graded: Graded[]
  /** How many attempts are in their workflows. */
  running: number
  /** Called when a workflow begins, when a model call was answered, and when a grader begins. */
  onPhase: (phase: 'workflow' | 'asked' | 'grader', rolloutId: string) => void
}

/** @param options - `grader` replaces the scripted one */
export function scriptedBackend(
  scripts: Scripts,
  options: { grader?: GroupGraderClass; maxConcurrent?: number } = {},
): ScriptedBackend {
  class Scripted extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<void> {
      scripted.running += 1
      try {
        scripted.onPhase('workflow', ctx.rolloutId)
        const { samples = ['main'], end, ...script } = scriptOf(scripts, ctx)
        for (const sample of samples) await askPolicy(ctx, sample, script)
        if (end === 'throws') throw new Error('the tool has exited')
        if (end === 'cancelled') scripted.backend.cancel({ ids: [ctx.rolloutId] })
        if (end === 'hangs' || end === 'cancelled') await aborted(ctx.signal)
      } finally {
        scripted.running -= 1
      }
    }
  }
  async function askPolicy(
    ctx: AgentWorkflowContext,
    sample: string,
    { calls = 2, compactsAfter }: Script,
  ): Promise<void> {
    const policy = requireRolloutContext('Scripted').registerPolicySample(sample)
    const messages = [...ctx.prompt]
    for (let turn = 0; turn < calls; turn += 1) {
      const answer = await policy.complete({ messages }, { signal: ctx.signal })
      scripted.onPhase('asked', ctx.rolloutId)
      const said = answer.choices.map(({ message }) => message)
      messages.push(...said, { role: 'user', content: 'continue' })
      if (turn + 1 !== compactsAfter) continue
      const request = { messages: [{ role: 'user', content: 'a summary' }] }
      await policy.complete(request, { purpose: 'summary', trainable: false })
      messages.splice(0, messages.length, { role: 'user', content: 'so far' })
    }
  }
  class ByScript extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      scripted.onPhase('grader', ctx.rolloutId)
      const { end, reward = 1, steps, samples = ['main'] } = scriptOf(scripts, ctx)
      if (end === 'grader throws') throw new Error('the judge has exited')
      for (const [index, sample] of samples.entries()) {
        if (end === 'removed') ctx.removeSample(sample)
        if (end === 'removed' || end === 'ungraded') continue
        ctx.setSampleReward(sample, reward + index)
        if (steps) ctx.setStepRewards(sample, steps)
        scripted.graded.push(gradedOf(ctx, sample, reward + index))
      }
    }
  }
  const { grader = ByScript, maxConcurrent = 64 } = options
  const backend = new LocalBackend({ workflow: Scripted, grader, maxConcurrent })
  const scripted: ScriptedBackend = { backend, graded: [], running: 0, onPhase: () => {} }
  return scripted
}

function scriptOf(
  scripts: Scripts,
  { metadata, group, rolloutId }: Pick<AgentWorkflowContext, 'group' | 'metadata' | 'rolloutId'>,
): Script {
  const script = scripts((metadata as { row: number }).row, group?.attempt ?? 0)
  const isOver = script.isFirstTry && rolloutId.endsWith('-again')
  return isOver ? { ...script, end: 'rewarded' } : script
}

function gradedOf({ rolloutId, group }: GraderContext, sample: string, reward: number): Graded {
  const [, epoch, row] = /-(\d+)-(\d+)$/.exec(group?.id ?? '') ?? []
  return { rolloutId, group: `${epoch}-${row}`, run: group?.attempt ?? 0, sample, reward }
}

/** Rows with their number in the metadata. */
export function rowsOf(count: number): TrinityOptions['dataset'] {
  return Array.from({ length: count }, (_, row) => ({
    initialMessages: [{ role: 'user', content: `row ${row}` }],
    label: null,
    metadata: { row },
  }))
}

export interface TrinityRun {
  readonly explorer: FakeTrinity
  readonly scripted: ScriptedBackend
  readonly lines: readonly LogLine[]
  readonly summary: WorkerSummary
}

/** The default settings of a run. */
export interface RunOptions extends Partial<TrinityOptions> {
  readonly scripts?: Scripts
  readonly concurrency?: number
  readonly signal?: AbortSignal
  readonly drainSeconds?: number
  readonly scripted?: ScriptedBackend
  readonly onStart?: (figures: WorkerSummary) => void
}

/** Runs a worker against an explorer until all rows have been trained, or the signal aborts. */
export async function train(explorer: FakeTrinity, options: RunOptions = {}): Promise<TrinityRun> {
  const {
    scripts = () => ({}),
    concurrency = 64,
    signal,
    drainSeconds,
    onStart,
    ...given
  } = options
  const { scripted = scriptedBackend(scripts), ...link } = given
  const lines: LogLine[] = []
  const logger = recordingLogger(lines)
  await using trainer = trinity({
    url: explorer.url,
    dataset: rowsOf(4),
    attempts: 3,
    groupsPerCommit: 2,
    runName: 'run',
    logger,
    ...link,
  })
  const { backend } = scripted
  const summary = await runTrainerWorker({
    backend,
    link: trainer,
    concurrency,
    signal,
    drainSeconds,
    onStart,
    logger,
  })
  return { explorer, scripted, lines, summary }
}

/** An explorer whose model says `ok`. */
export async function startExplorer(
  options: Partial<FakeTrinityOptions> = {},
): Promise<FakeTrinity> {
  return FakeTrinity.start({ model: (body) => tokenAnswer(body, { content: 'ok' }), ...options })
}

/** The trained calls, without the fields that only the model decides. */
export function trainedAs(calls: readonly TrinityCall[]): unknown[] {
  return calls
    .map(({ rolloutId, group, run, reward }) => ({ rolloutId, group, run, reward }))
    .toSorted(inOrder)
}

/** The rewards of the grader, once for each of `calls` model calls. */
export function earned(graded: readonly Graded[], calls = 2): unknown[] {
  return graded
    .flatMap(({ rolloutId, group, run, reward }) =>
      Array.from({ length: calls }, () => ({ rolloutId, group, run, reward })),
    )
    .toSorted(inOrder)
}

function inOrder(a: { rolloutId: string; reward: number }, b: typeof a): number {
  return a.rolloutId.localeCompare(b.rolloutId) || a.reward - b.reward
}

async function aborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(signal.reason))
  if (signal.aborted) reject(signal.reason)
  return promise
}

import { OsmosisError } from '../errors.ts'
import { assertReward, assertStepRewards, type RolloutSample } from '../rollout-sample.ts'
import { cloneConfig } from '../workflow/config.ts'
import type { RolloutGroup } from '../workflow/agent-workflow.ts'
import type { GraderClass, GraderContext } from '../workflow/grader.ts'
import type { MetadataOf } from '../workflow/metadata-schema.ts'
import type { ConcurrencyLimiter } from './concurrency-limiter.ts'
import type { Deadline } from './deadline.ts'
import type { GradingOutcome } from './execution-backend.ts'
import type { LiveRollout } from './live-rollout.ts'
import { graderDeadline } from './phase-deadlines.ts'
import { noSamples, toFailure, type WorkflowResult } from './workflow-phase.ts'

type Samples = ReadonlyMap<string, RolloutSample>

/** Runs the grader over the samples of a workflow that succeeded. Never rejects. */
export async function runGradingPhase<TConfig, TWorkflowConfig>(
  live: LiveRollout,
  result: WorkflowResult,
  slots: ConcurrencyLimiter,
  grader: GraderClass<TConfig, TWorkflowConfig> | undefined,
  config: TConfig,
): Promise<GradingOutcome> {
  const { request } = live
  const { samples } = result
  let release: (() => void) | undefined
  let deadline: Deadline | undefined
  try {
    assertSamples(live, result)
    if (grader === undefined) return notGraded(noGrader, samples)
    if (request.label === null && request.metadata === null) return notGraded(nothingToGradeAgainst)

    release = await slots.acquire(live.ending)
    const phase = graderDeadline(request)
    deadline = phase
    live.enter(phase)
    const grade = async (): Promise<void> => {
      await phase.run(async () => {
        const copy = cloneConfig(config)
        await new grader(copy).grade(new SampleGrading(live, samples, copy, phase.signal))
      })
      for (const sample of samples.values()) assertRewarded(sample)
      live.trace?.rewarded(samples)
    }
    await (live.trace === undefined ? grade() : live.trace.grading(grader.name, grade))
    return { status: 'success', failure: null, samples }
  } catch (error) {
    live.trace?.fail(error)
    return { status: 'failure', failure: toFailure(error), samples }
  } finally {
    release?.()
    deadline?.clear()
  }
}

/** @throws why there is nothing to grade */
export function assertSamples(
  { ending }: LiveRollout,
  { samples, unasked }: Pick<WorkflowResult, 'samples' | 'unasked'>,
): void {
  ending.throwIfAborted()
  if (samples.size === 0) throw noSamples(unasked)
}

const noGrader =
  'There is no grader, so this rollout has no reward. Export a class that extends Grader or GroupGrader from the entrypoint.'

export const nothingToGradeAgainst =
  'The row has neither a label nor metadata, so there is nothing to grade against. Add ground_truth or metadata to the dataset.'

/** The workflow succeeded, but cannot be graded. */
function notGraded(why: string, samples: Samples = new Map()): GradingOutcome {
  const failure = toFailure(new OsmosisError('not_graded', why))
  return { status: 'failure', failure, samples }
}

export function assertRewarded({ id, reward, removeSample }: RolloutSample): void {
  if (removeSample) return
  if (reward === null) {
    throw new OsmosisError(
      'missing_reward',
      `Sample "${id}" has no reward after grading. Call ctx.setSampleReward("${id}", reward) for every sample, or ctx.removeSample("${id}").`,
    )
  }
  assertReward(id, reward)
}

/** The samples of one rollout, and how they get their rewards. */
export class SampleGrading<TConfig, TWorkflowConfig> implements GraderContext<
  TConfig,
  TWorkflowConfig
> {
  readonly samples: Samples
  readonly config: TConfig
  readonly signal: AbortSignal
  readonly #live: LiveRollout
  readonly #samples: Samples

  constructor(live: LiveRollout, samples: Samples, config: TConfig, signal: AbortSignal) {
    this.#live = live
    this.#samples = samples
    // A copy: whatever the grader does to it, the registered samples need their rewards.
    this.samples = new Map(samples)
    this.config = config
    this.signal = signal
  }

  get label(): string | null {
    return this.#live.request.label
  }

  get metadata(): MetadataOf<TWorkflowConfig> {
    return this.#live.metadata as MetadataOf<TWorkflowConfig>
  }

  get rolloutId(): string {
    return this.#live.request.rolloutId
  }

  get group(): RolloutGroup | null {
    return this.#live.request.group ?? null
  }

  get artifactsDir(): string | null {
    return this.#live.artifacts.path
  }

  get sample(): RolloutSample {
    const [only, ...others] = this.#samples.values()
    if (only && others.length === 0) return only
    throw new OsmosisError(
      'unknown_sample',
      `This rollout has ${this.#samples.size} samples (${[...this.#samples.keys()].join(', ')}), so "the" sample is ambiguous. Use ctx.samples and ctx.setSampleReward().`,
    )
  }

  setReward(reward: number): void {
    this.setSampleReward(this.sample.id, reward)
  }

  setSampleReward(sampleId: string, reward: number): void {
    const sample = this.#find(sampleId)
    assertReward(sampleId, reward)
    // Too late: the outcome has been reported without this grader.
    if (this.signal.aborted) return
    ;(sample as { reward: number | null }).reward = reward
  }

  setStepRewards(sampleId: string, rewards: readonly (number | null)[]): void {
    const sample = this.#find(sampleId)
    const steps = [...rewards]
    assertStepRewards(sample, steps)
    if (this.signal.aborted) return
    const known = sample.calls.length > 0 ? steps : null
    ;(sample as { stepRewards: RolloutSample['stepRewards'] }).stepRewards = known
  }

  removeSample(sampleId: string): void {
    const sample = this.#find(sampleId)
    if (!this.signal.aborted) sample.removeSample = true
  }

  #find(sampleId: string): RolloutSample {
    const sample = this.#samples.get(sampleId)
    if (sample) return sample
    throw new OsmosisError(
      'unknown_sample',
      `There is no sample "${sampleId}" in this rollout. Its samples are: ${[...this.#samples.keys()].join(', ')}.`,
    )
  }
}

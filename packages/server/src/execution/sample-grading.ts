import {
  OsmosisError,
  type RolloutSample,
  type RolloutGroup,
  type GraderContext,
  type MetadataOf,
} from '@osmosis/core'
import { assertReward, assertStepRewards, requireLabel } from '@osmosis/core/workflow'
import type { SamplesById } from '@osmosis/protocol'

import type { LiveRollout } from './live-rollout.ts'
import { requireOutput } from './run-output.ts'

/** The samples of one rollout as a grader sees them, and how it sets their rewards. */
export class SampleGrading<TConfig, TWorkflowConfig> implements GraderContext<
  TConfig,
  TWorkflowConfig
> {
  readonly samples: SamplesById
  readonly config: TConfig
  readonly signal: AbortSignal
  readonly #live: LiveRollout
  readonly #samples: SamplesById

  constructor(live: LiveRollout, samples: SamplesById, config: TConfig, signal: AbortSignal) {
    this.#live = live
    this.#samples = samples
    // A copy, because user code may change it while the registered samples still need their rewards.
    this.samples = new Map(samples)
    this.config = config
    this.signal = signal
  }

  get label(): string | null {
    return this.#live.request.label
  }

  requireLabel(): string {
    return requireLabel(this.label)
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

  get workFolder(): string | null {
    return this.#live.workFolder
  }

  get sample(): RolloutSample {
    const [only, ...others] = this.#samples.values()
    if (only && others.length === 0) return only
    throw new OsmosisError(
      'unknown_sample',
      `This rollout has ${this.#samples.size} samples (${[...this.#samples.keys()].join(', ')}), so "the" sample is ambiguous. Use ctx.samples and ctx.setSampleReward().`,
    )
  }

  get output(): unknown {
    return requireOutput(this.#live.output)
  }

  setReward(reward: number): void {
    this.setSampleReward(this.sample.id, reward)
  }

  setSampleReward(sampleId: string, reward: number): void {
    const sample = this.#find(sampleId)
    assertReward(sampleId, reward)
    // The grading is over, and its outcome is reported as it was.
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

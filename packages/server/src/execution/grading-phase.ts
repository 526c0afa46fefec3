import { OsmosisError, type GraderClass } from '@osmosis/core'
import { assertReward, cloneConfig } from '@osmosis/core/workflow'
import type { SamplesById, GradingOutcome } from '@osmosis/protocol'

import { type Deadline, graderDeadline } from './deadline.ts'
import type { LiveRollout } from './live-rollout.ts'
import { SampleGrading } from './sample-grading.ts'
import type { ConcurrencyLimiter } from './slots/concurrency-limiter.ts'
import { noSamples, toFailure, type WorkflowResult } from './workflow-phase.ts'

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
  let by: string | undefined
  try {
    assertSamples(live, result)
    if (result.isRemoved) return { status: 'success', failure: null, samples }
    if (grader === undefined) return ungraded(noGrader, samples)
    if (request.label === null && request.metadata === null) return ungraded(nothingToGradeAgainst)

    release = await slots.acquire(live.ending)
    const phase = graderDeadline(request)
    deadline = phase
    live.enter(phase)
    const grade = async (): Promise<void> => {
      await phase.run(async () => {
        const copy = cloneConfig(config)
        by = 'the constructor of the grader'
        const instance = new grader(copy)
        by = 'grade()'
        await instance.grade(new SampleGrading(live, samples, copy, phase.signal))
        by = undefined
      })
      assertRewarded(samples)
      live.trace?.rewarded(samples)
    }
    await (live.trace === undefined ? grade() : live.trace.grading(grader.name, grade))
    return { status: 'success', failure: null, samples }
  } catch (error) {
    live.trace?.fail(error)
    return { status: 'failure', failure: toFailure(error, by), samples }
  } finally {
    release?.()
    deadline?.clear()
    // What the grader left behind changes nothing more: all readers of the outcome see the same rewards.
    deadline?.abort(graded)
  }
}

/** Shared by all rollouts: it carries no data, and its stack trace would be of no use. */
export const graded = new OsmosisError(
  'rollout_ended',
  'The grading of this rollout has ended; a reward that is set now changes nothing. Await everything the grader starts.',
)

/** @throws the reason why there is nothing to grade */
export function assertSamples(
  { ending }: LiveRollout,
  { outcome, samples, unasked }: WorkflowResult,
): void {
  ending.throwIfAborted()
  if (samples.size === 0) throw noSamples(unasked, (outcome.otherCalls ?? []).length > 0)
}

const noGrader =
  'There is no grader, so this rollout has no reward. Export a class that extends Grader or GroupGrader from the entrypoint.'

export const nothingToGradeAgainst =
  'The row has neither a label nor metadata, so there is nothing to grade against. Add ground_truth or metadata to the dataset.'

/** The error of a rollout that cannot be graded although its workflow succeeded. */
export function notGraded(why: string): OsmosisError {
  return new OsmosisError('not_graded', why)
}

function ungraded(why: string, samples: SamplesById = new Map()): GradingOutcome {
  return { status: 'failure', failure: toFailure(notGraded(why)), samples }
}

export function assertRewarded(samples: SamplesById): void {
  for (const { id, reward, removeSample } of samples.values()) {
    if (removeSample) continue
    if (reward === null) throw missingReward(id, samples.size)
    assertReward(id, reward)
  }
}

function missingReward(id: string, samples: number): OsmosisError {
  const why =
    samples === 1
      ? `The grader set no reward. Call ctx.setReward(reward) in grade(), or ctx.removeSample("${id}") to leave this rollout out.`
      : `The grader set no reward for sample "${id}". Call ctx.setSampleReward("${id}", reward), or ctx.removeSample("${id}"), for each sample.`
  return new OsmosisError('missing_reward', why)
}

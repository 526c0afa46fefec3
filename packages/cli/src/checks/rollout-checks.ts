import { randomUUID } from 'node:crypto'

import {
  createController,
  createTrainer,
  recordPolicy,
  type PolicyModel,
  type RolloutOutcome,
  type RolloutRecording,
} from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'

import { closing } from '../command/process.ts'
import type { EvalRunPlan } from '../eval/run/evaluation-plan.ts'
import { startServerProcess, type ServerProcess } from '../serve/server-process.ts'
import { policyAdvice } from '../eval/show/failure-lines.ts'
import { fail, ok, warn, type CheckFinding } from './finding.ts'
import { hearRequests, trainerFindings, type TriedRollout } from './trainer-checks.ts'

/** Time limit of a rollout whose config has none. Milliseconds. */
const patienceMs = 120_000

/**
 * Serves an entrypoint in a separate process and runs its first row once, over the protocol of its training.
 */
export async function tryRollout(
  plan: EvalRunPlan,
  asked: PolicyModel,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<TriedRollout> {
  const { entrypoint, folder } = plan
  const env = { ...environment, ...plan.env, ...plan.secrets }
  const listener = hearRequests(asked)
  const policy = recordPolicy(listener.policy)
  const rolloutId = `validate-${randomUUID()}`
  const recording = policy.record(rolloutId)
  const started = await startServerProcess({ entrypoint, folder, env }, signal)
  const tried = await closing(started, async (server) => {
    try {
      const run = server.kind === 'workflow' ? runWorkflow : runLoop
      const ended = await run(plan, { server, policy, rolloutId, signal })
      const requests = listener.heard()
      const gradesGroups = server.groupMinSize !== null
      return { ...ended, kind: server.kind, ...heard(recording), requests, gradesGroups }
    } catch (error) {
      throw await server.explain(error)
    }
  })
  // The log is complete after the server has closed.
  return { ...tried, hasStepRewards: started.hasDroppedStepRewards() }
}

type Ended = Pick<TriedRollout, 'status' | 'errorMessage' | 'samples' | 'policyCalls'>

interface RunParts {
  readonly server: ServerProcess
  readonly policy: PolicyModel
  readonly rolloutId: string
  readonly signal: AbortSignal
}

async function runWorkflow(plan: EvalRunPlan, parts: RunParts): Promise<Ended> {
  const { server, policy, rolloutId, signal } = parts
  const { initialMessages, label, metadata } = firstRow(plan)
  const { agentTimeoutSeconds, graderTimeoutSeconds } = plan
  return closing(await createController({ policy, server }), async (controller) => {
    const size = server.groupMinSize ?? 1
    const attempt = async (number: number): Promise<RolloutOutcome> =>
      controller.run(
        {
          rolloutId: number === 1 ? rolloutId : `${rolloutId}-${number}`,
          initialMessages: initialMessages.map((message) => ({ ...message })),
          label,
          metadata,
          group: { id: rolloutId, attempt: number, size },
          agentTimeoutSeconds,
          graderTimeoutSeconds,
          timeoutMs: limitMs(agentTimeoutSeconds, graderTimeoutSeconds),
        },
        { signal },
      )
    // A GroupGrader cannot grade a single attempt.
    const others = Array.from({ length: size - 1 }, (_, index) => attempt(index + 2))
    const [outcome] = await Promise.all([attempt(1), ...others])
    const samples = [...outcome.samples.values()].map(({ id, reward, removeSample }) => ({
      id,
      reward,
      isRemoved: removeSample,
    }))
    return { ...outcome, samples }
  })
}

async function runLoop(plan: EvalRunPlan, parts: RunParts): Promise<Ended> {
  const { server, policy, rolloutId, signal } = parts
  const {
    initialMessages: messages,
    label,
    metadata,
    otherColumns,
    sourceRowIndex,
  } = firstRow(plan)
  return closing(await createTrainer({ policy, server }), async (trainer) => {
    const outcome = await trainer.run(
      {
        rolloutId,
        messages,
        metadata: {
          ...otherColumns,
          ...metadata,
          ...(label === null ? {} : { ground_truth: label }),
          row_index: sourceRowIndex,
          execution_mode: 'test',
        },
        timeoutMs: limitMs(plan.agentTimeoutSeconds, 0),
      },
      { signal },
    )
    const sample = { id: 'the conversation', reward: outcome.reward, isRemoved: false }
    return { ...outcome, samples: outcome.finalMessages.length === 0 ? [] : [sample] }
  })
}

function firstRow({ rows, dataset }: EvalRunPlan): EvalRunPlan['rows'][number] {
  const [row] = rows
  if (row === undefined) throw new OsmosisError('invalid_dataset', `${dataset} has no rows.`)
  return row
}

function limitMs(agentSeconds: number | null, graderSeconds: number | null): number {
  if (agentSeconds === null || graderSeconds === null) return patienceMs
  return (agentSeconds + graderSeconds) * 1000 + 10_000
}

function heard(recording: RolloutRecording): Pick<TriedRollout, 'rewritten' | 'policyTrouble'> {
  // Agents that hand over to one another have other instructions, and nothing to change.
  const rewritten = [...recording.samples()].flatMap(([id, { calls }]) =>
    calls.some((call) => !call.extendsPrevious && !call.instructionsChanged) ? [id] : [],
  )
  recording.end()
  return { rewritten, policyTrouble: recording.trouble?.message ?? null }
}

/** Problems that such a rollout causes in training. */
export function triedFindings(tried: TriedRollout, folder: string): readonly CheckFinding[] {
  const { kind, status, errorMessage, policyCalls, policyTrouble, rewritten } = tried
  const findings: CheckFinding[] = []
  if (policyTrouble !== null) findings.push(fail('policy', policyTrouble))
  if (policyCalls > 0) findings.push(ok('model calls', `${policyCalls} reached the policy`))
  else {
    const advice = kind === 'workflow' ? policyAdvice(folder) : 'Ask the policy with ctx.chat().'
    findings.push(fail('model calls', 'No model call reached the policy.', advice))
  }
  for (const [tool, error] of tried.requests.toolErrors) {
    const advice = 'Its arguments were made from its schema: check whether it should fail for them.'
    findings.push(warn('tools', `${tool} failed: ${error}`, advice))
  }
  if (status !== 'success') {
    const reason = errorMessage ?? 'no reason was given'
    findings.push(fail('rollout', `The rollout ended with ${status}: ${reason}`))
  } else findings.push(...sampleFindings(tried), ...trainerFindings(tried))
  if (rewritten.length > 0) {
    const ids = rewritten.filter((id) => id !== '').join(', ')
    findings.push(
      warn(
        'history',
        `A model call did not continue the conversation before it${ids === '' ? '' : ` (sample ${ids})`}: training splits the conversation there, and sees its parts as separate ones.`,
        'Append to the messages instead of trimming, summarising or reordering them; give sub-agents a sample of their own.',
      ),
    )
  }
  return findings
}

function* sampleFindings({ kind, samples }: TriedRollout): Generator<CheckFinding> {
  const trained = samples.filter(({ isRemoved }) => !isRemoved)
  const without = trained.filter(({ reward }) => reward === null)
  if (samples.length === 0) yield fail('samples', 'The rollout ended without a sample.')
  else if (trained.length === 0) {
    yield warn('samples', 'The grader removed every sample: there is nothing to train on.')
  }
  if (without.length > 0) {
    yield fail(
      'reward',
      `No reward was set for ${without.map(({ id }) => id).join(', ')}.`,
      kind === 'workflow'
        ? 'Call ctx.setReward(…) in the grader; with several samples ctx.setSampleReward, or ctx.removeSample, for each.'
        : 'Give ctx.complete a reward.',
    )
  }
  for (const { id, reward } of trained) {
    if (reward !== null) yield ok('reward', `${reward} for ${id}`)
  }
}

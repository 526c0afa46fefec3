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
import type { PolicyCall } from '@osmosis/core/policy'

import type { ObservedRollouts } from '../../child/observed-rollouts.ts'
import type { EntrypointKind } from '../../child/served-workflow.ts'
import { closing } from '../../command/process.ts'
import type { EvalRunPlan } from '../../eval/run/evaluation-plan.ts'
import { startServerProcess, type ServerProcess } from '../../serve/server-process.ts'
import { functionCalls, hearRequests, type HeardRequests } from './heard-requests.ts'
import { hearLog, type HeardLog } from './server-log.ts'

/** The rollouts that were run of a row. */
export interface TriedRollout {
  readonly kind: EntrypointKind
  /** How the first one ended. */
  readonly ended: TriedEnd
  /** How another one ended, which began after it in the same process; null when none was run. */
  readonly again: TriedEnd | null
  readonly samples: TriedEnd['samples']
  /** The model calls of the first one, by the ids under which they were made. */
  readonly conversations: readonly TriedConversation[]
  /** Who answered them. */
  readonly policyName: string
  /** Error of the policy. */
  readonly policyTrouble: string | null
  readonly requests: HeardRequests
  /** Whether the grader grades the attempts at a row together. */
  readonly gradesGroups: boolean
  /** Undefined when its process ended too early to be asked. */
  readonly observed: ObservedRollouts | undefined
  readonly log: HeardLog
}

/** How a rollout ended. */
export interface TriedEnd {
  readonly rolloutId: string
  readonly status: 'success' | 'failure' | 'timeout' | 'cancelled'
  readonly errorMessage: string | null
  readonly samples: readonly {
    readonly id: string
    readonly reward: number | null
    /** Whether the grader excludes it from training. */
    readonly isRemoved: boolean
    /** What ended `run()` before it returned: a limit, or an answer that the framework could not use. Null when nothing did. */
    readonly endedBy: string | null
  }[]
  readonly policyCalls: number
}

/** What a policy was asked under one id, and what of it is trained. */
export interface TriedConversation {
  /** Empty where the calls named none. */
  readonly id: string
  readonly calls: readonly PolicyCall[]
  /** The number of answers that are trained. */
  readonly trainedAnswers: number
  /** Names of the tools that the policy called. */
  readonly calledTools: readonly string[]
}

/** Time limit of a rollout whose config has none. Milliseconds. */
const patienceMs = 120_000

/**
 * Serves an entrypoint in a separate process and runs its first row over the protocol of its training: once, and when that succeeded once
 * more, which shows what one rollout leaves to the next.
 */
export async function tryRollout(
  plan: EvalRunPlan,
  asked: PolicyModel,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<TriedRollout> {
  const { entrypoint, folder } = plan
  const env = { ...environment, ...plan.env, ...plan.secrets }
  const listener = hearRequests(asked, firstRow(plan).initialMessages)
  const log = hearLog()
  const policy = recordPolicy(listener.policy)
  const rolloutId = `validate-${randomUUID()}`
  const recording = policy.record(rolloutId)
  const options = { entrypoint, folder, env, isObserved: true, onLine: log.onLine }
  const tried = await closing(await startServerProcess(options, signal), async (server) => {
    try {
      const run = server.kind === 'workflow' ? runWorkflow : runLoop
      const gradesGroups = server.groupMinSize !== null
      const ended = await run(plan, { server, policy, rolloutId, signal })
      const conversations = conversationsOf(recording)
      const requests = listener.heard()
      // The attempts of a group have been together in the process.
      const again =
        ended.status === 'success' && !gradesGroups
          ? await run(plan, { server, policy, rolloutId: `${rolloutId}-again`, signal })
          : null
      return {
        kind: server.kind,
        ended,
        again,
        samples: ended.samples,
        conversations,
        policyName: asked.name,
        policyTrouble: recording.trouble?.message ?? null,
        requests,
        gradesGroups,
        observed: await server.observed(),
      }
    } catch (error) {
      throw await server.explain(error)
    } finally {
      recording.end()
    }
  })
  // The log is complete after the server has closed.
  return { ...tried, log: log.heard() }
}

interface RunParts {
  readonly server: ServerProcess
  readonly policy: PolicyModel
  readonly rolloutId: string
  readonly signal: AbortSignal
}

async function runWorkflow(plan: EvalRunPlan, parts: RunParts): Promise<TriedEnd> {
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
    const samples = [...outcome.samples.values()].map(
      ({ id, reward, removeSample, extraFields }) => ({
        id,
        reward,
        isRemoved: removeSample,
        endedBy: earlyEndIn(extraFields),
      }),
    )
    return { ...outcome, samples }
  })
}

async function runLoop(plan: EvalRunPlan, parts: RunParts): Promise<TriedEnd> {
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
    const { reward } = outcome
    const sample = { id: loopSample, reward, isRemoved: false, endedBy: null }
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

/** The conversation of an agent loop, which has no id. */
export const loopSample = 'the conversation'

function earlyEndIn(fields: Readonly<Record<string, unknown>>): string | null {
  const { limit_reached: limit, model_error: error } = fields
  if (typeof limit === 'string') return `the limit ${limit}`
  return typeof error === 'string' ? error : null
}

function conversationsOf(recording: RolloutRecording): TriedConversation[] {
  return [...recording.samples()].map(([id, { calls, trained, messages, otherConversations }]) => ({
    id,
    calls,
    trainedAnswers: trained.reduce((sum, { answers }) => sum + answers.length, 0),
    calledTools: [messages, ...otherConversations]
      .flat()
      .flatMap(functionCalls)
      .map((call) => call.function.name),
  }))
}

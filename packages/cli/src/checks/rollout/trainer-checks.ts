import type { PolicyModel } from '@osmosis/controller'
import type { ChatMessage } from '@osmosis/core/policy'
import { isToolError, shownContent } from '@osmosis/eval/analysis'

import { ok, warn, type CheckFinding } from './finding.ts'
import type { EntrypointKind } from '../child/served-workflow.ts'

/** The outcome of the rollout that was run. */
export interface TriedRollout {
  readonly kind: EntrypointKind
  readonly status: 'success' | 'failure' | 'timeout' | 'cancelled'
  readonly errorMessage: string | null
  readonly samples: readonly {
    readonly id: string
    readonly reward: number | null
    /** Whether the grader excludes it from training. */
    readonly isRemoved: boolean
  }[]
  readonly policyCalls: number
  /** Ids of the samples whose history was rewritten between two model calls, their instructions aside. */
  readonly rewritten: readonly string[]
  /** Error of the policy. */
  readonly policyTrouble: string | null
  readonly requests: HeardRequests
  /** Whether the grader grades the attempts at a row together. */
  readonly gradesGroups: boolean
  /** Whether the grader sets rewards of single steps. */
  readonly hasStepRewards: boolean
}

/** Facts about the requests of a rollout. */
export interface HeardRequests {
  /** Ids of samples that sent one prompt twice. */
  readonly repeated: readonly string[]
  /** Whether a request set temperature 0. */
  readonly greedy: boolean
  /** The first error of each tool, by its name. */
  readonly toolErrors: ReadonlyMap<string, string>
}

/** Observes the requests of a rollout to `policy`. */
export function hearRequests(policy: PolicyModel): {
  readonly policy: PolicyModel
  readonly heard: () => HeardRequests
} {
  const prompts = new Map<string, string>()
  const repeated = new Set<string>()
  const toolErrors = new Map<string, string>()
  let greedy = false
  return {
    policy: {
      ...policy,
      respond: async (request) => {
        const { rolloutId, sampleId, body } = request
        greedy ||= body['temperature'] === 0
        const prompt = JSON.stringify([rolloutId, body['messages']])
        if (prompts.has(prompt)) repeated.add(sampleId)
        prompts.set(prompt, sampleId)
        noteToolErrors((body['messages'] ?? []) as ChatMessage[], toolErrors)
        return policy.respond(request)
      },
    },
    heard: () => ({ repeated: [...repeated], greedy, toolErrors }),
  }
}

function noteToolErrors(messages: readonly ChatMessage[], errors: Map<string, string>): void {
  const calls = messages.flatMap(({ tool_calls: made = [] }) => made)
  for (const { role, content, tool_call_id: id } of messages) {
    const tool = calls.find((call) => call.id === id)?.function.name
    if (role !== 'tool' || tool === undefined || errors.has(tool)) continue
    if (isToolError({ content })) errors.set(tool, shownContent(content).text.slice(0, 500))
  }
}

/** How each trainer handles such a rollout. */
export function trainerFindings({
  kind,
  samples,
  requests,
  gradesGroups,
  hasStepRewards,
}: TriedRollout): readonly CheckFinding[] {
  if (kind === 'agent-loop') return [local, loops]
  const trained = samples.filter(({ isRemoved }) => !isRemoved)
  const severalSamples = trained.length > 1 ? idsOf(trained) : undefined
  const oneNumber = oneNumberProblem(samples)
  const findings = [...greedyFindings(requests), ...(hasStepRewards ? [stepRewards] : []), local]
  if (gradesGroups) return [...findings, ...groupFindings]
  return [
    ...findings,
    severalSamples === undefined
      ? ok('Osmosis', 'can train it: osmosis serve')
      : warn(
          'Osmosis',
          `gets all samples (${severalSamples}) where the server sends the results; results that the trainer fetches have room for one.`,
          'Call ctx.removeSample(id) in the grader for all samples but the one to train on.',
        ),
    ...agentLightningFindings(oneNumber, requests),
    oneNumber === undefined
      ? ok('POST /run', 'can train it: osmosis serve --run')
      : warn('POST /run', ...oneNumber),
  ]
}

const local = ok('this machine', 'can train it: osmosis train local')

const stepRewards = warn(
  'step rewards',
  'The grader sets step rewards, which only osmosis train and the trace of POST /run use. Osmosis, Agent Lightning and the others train all model calls of a sample with the one reward of the sample.',
  'Include the step rewards in the reward, or train with one of the two.',
)

const loops = ok(
  'trainers',
  'Osmosis trains agent loops. Agent Lightning and POST /run take workflows.',
)

const useGrader = 'For this trainer, export a class that extends Grader instead of GroupGrader.'

/** Which trainers send the groups that a GroupGrader needs. */
const groupFindings = [
  warn(
    'Osmosis',
    'can train it only where the controller sends `group` with each rollout: others get no reward.',
    useGrader,
  ),
  warn(
    'Agent Lightning',
    'sends no groups, which the grader needs: no rollout gets a reward.',
    useGrader,
  ),
  warn(
    'POST /run',
    'sends groups only with --group-column: other rollouts get no reward.',
    'Start the server with --group-column <column> --group-size <attempts>.',
  ),
]

/** Why a trainer that takes one reward per rollout cannot use these samples, with advice. */
function oneNumberProblem(samples: TriedRollout['samples']): [string, string] | undefined {
  const trained = samples.filter(({ isRemoved }) => !isRemoved)
  const removed = samples.filter(({ isRemoved }) => isRemoved)
  const rule = '--reward mean, --reward sum or --reward <sample id>.'
  if (trained.length > 0 && removed.length > 0) {
    return [
      `trains all model calls of a rollout with one reward, those of removed samples (${idsOf(removed)}) too: the rollout would fail.`,
      `Give every sample a reward, and choose how they are combined: ${rule}`,
    ]
  }
  if (trained.length < 2) return undefined
  return [
    `takes one reward per rollout, and this one has several samples: ${idsOf(trained)}.`,
    `Choose how they are combined: ${rule}`,
  ]
}

function idsOf(samples: TriedRollout['samples']): string {
  return samples.map(({ id }) => id).join(', ')
}

function greedyFindings({ greedy }: HeardRequests): CheckFinding[] {
  if (!greedy) return []
  return [
    warn(
      'sampling',
      'The agent sets temperature 0. Unless the trainer overrides it, all attempts at a row are identical and give no training signal.',
      'Leave temperature, top_p and the like to the trainer.',
    ),
  ]
}

function agentLightningFindings(
  oneNumber: [string, string] | undefined,
  { repeated }: HeardRequests,
): CheckFinding[] {
  const findings: CheckFinding[] = []
  if (oneNumber !== undefined) findings.push(warn('Agent Lightning', ...oneNumber))
  if (repeated.length > 0) {
    const ids = repeated.filter((id) => id !== '').join(', ')
    findings.push(
      warn(
        'Agent Lightning',
        `trains only the last of several model calls with one prompt, and there are such calls${ids === '' ? '' : ` (sample ${ids})`}.`,
        'Change the prompt between tries, e.g. by saying what was wrong with the first answer.',
      ),
    )
  }
  if (findings.length > 0) return findings
  return [ok('Agent Lightning', 'can train it: osmosis worker --agent-lightning')]
}

import type { PolicyModel } from '@osmosis/controller'

import { ok, warn, type CheckFinding } from '../../command/findings.ts'
import type { EntrypointKind } from '../../serve/server-channel.ts'

/** How a rollout went. */
export interface TriedRollout {
  readonly kind: EntrypointKind
  readonly status: 'success' | 'failure' | 'timeout' | 'cancelled'
  readonly errorMessage: string | null
  readonly samples: readonly TriedSample[]
  readonly policyCalls: number
  /** Ids of the samples whose history was rewritten between two model calls. */
  readonly rewritten: readonly string[]
  /** Why the policy did not answer. */
  readonly policyTrouble: string | null
  readonly requests: HeardRequests
  /** Whether the attempts at a row are graded together. */
  readonly gradesGroups: boolean
  /** Whether the grader says what single steps were worth. */
  readonly hasStepRewards: boolean
}

interface TriedSample {
  readonly id: string
  readonly reward: number | null
  /** Whether the grader keeps it out of training. */
  readonly isRemoved: boolean
}

/** What trainers care about in the requests of a rollout. */
export interface HeardRequests {
  /** Ids of samples that sent one prompt twice. */
  readonly repeated: readonly string[]
  /** Whether some request asked for temperature 0. */
  readonly greedy: boolean
}

/** Listens to the requests of a rollout on their way to `policy`. */
export function hearRequests(policy: PolicyModel): {
  readonly policy: PolicyModel
  readonly heard: () => HeardRequests
} {
  const prompts = new Map<string, string>()
  const repeated = new Set<string>()
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
        return policy.respond(request)
      },
    },
    heard: () => ({ repeated: [...repeated], greedy }),
  }
}

/** What each trainer makes of a rollout that went like this. */
export function trainerFindings({
  kind,
  samples,
  requests,
  gradesGroups,
  hasStepRewards,
}: TriedRollout): readonly CheckFinding[] {
  if (kind === 'agent-loop') return [loops]
  const kept = samples.filter(({ isRemoved }) => !isRemoved)
  const severalSamples = kept.length > 1 ? idsOf(kept) : undefined
  const oneNumber = oneNumberProblem(samples)
  const findings = [...greedyFindings(requests), ...(hasStepRewards ? [stepRewards] : [])]
  if (gradesGroups) return [...findings, ...groupFindings]
  return [
    ...findings,
    severalSamples === undefined
      ? ok('Osmosis', 'takes it over callbacks and over leases')
      : warn(
          'Osmosis',
          `takes all samples (${severalSamples}) over callbacks; results that are fetched have room for one.`,
          'Keep the one that is to be trained: ctx.removeSample(id) in the grader for the others.',
        ),
    ...agentLightningFindings(oneNumber, requests),
    oneNumber === undefined
      ? ok('POST /run', 'takes it: osmosis serve --run')
      : warn('POST /run', ...oneNumber),
    ok('Trinity', 'takes it, each sample with its own reward: osmosis worker --trinity'),
  ]
}

const stepRewards = warn(
  'step rewards',
  'The grader sets step rewards, which only Trinity and the trace of POST /run carry. Osmosis, Agent Lightning and the others train all model calls of a sample with the one reward of the sample.',
  'Make what the steps were worth part of the reward, or train with one of the two.',
)

const loops = ok(
  'trainers',
  'Osmosis trains agent loops. Agent Lightning, Trinity and POST /run take workflows.',
)

const useGrader = 'For this trainer, export a class that extends Grader instead of GroupGrader.'

/** Who gives a GroupGrader the groups that it judges. */
const groupFindings = [
  warn(
    'Osmosis',
    'takes it only where the controller sends `group` with each rollout: others get no reward.',
    useGrader,
  ),
  warn(
    'Agent Lightning',
    'gives no groups, which the grader needs: no rollout gets a reward.',
    useGrader,
  ),
  warn(
    'POST /run',
    'gives groups only when it is said which rows belong together: others get no reward.',
    'Start the server with --group-column <column> --group-size <attempts>.',
  ),
  ok('Trinity', 'takes it, with groups: osmosis worker --trinity'),
]

/** What trainers of one number cannot use of these samples, and what to do about it. */
function oneNumberProblem(samples: TriedRollout['samples']): [string, string] | undefined {
  const kept = samples.filter(({ isRemoved }) => !isRemoved)
  const removed = samples.filter(({ isRemoved }) => isRemoved)
  const rule = '--reward mean, --reward sum or --reward <sample id>.'
  if (kept.length > 0 && removed.length > 0) {
    return [
      `trains all model calls of a rollout with one reward, those of removed samples (${idsOf(removed)}) too: the rollout would fail.`,
      `Give every sample a reward, and say which it is: ${rule}`,
    ]
  }
  if (kept.length < 2) return undefined
  return [
    `takes one reward per rollout, and this one has several samples: ${idsOf(kept)}.`,
    `Say which it is: ${rule}`,
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
  return [ok('Agent Lightning', 'takes it: osmosis worker --agent-lightning')]
}

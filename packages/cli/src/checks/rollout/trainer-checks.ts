import { ok, warn, type CheckFinding, type FindingDetails } from '../finding.ts'
import { page } from '../pages.ts'
import type { HeardRequests } from './heard-requests.ts'
import type { TriedRollout } from './tried-rollout.ts'

/** How each trainer handles such a rollout. */
export function trainerFindings({
  kind,
  samples,
  requests,
  gradesGroups,
  log: { hasStepRewards },
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
          {
            advice: `${leaveOut}, or call ctx.removeSample(id) in the grader for all samples but one.`,
            page: page('graders'),
          },
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
  {
    advice: 'Include the step rewards in the reward, or train with one of the two.',
    page: page('trainers'),
  },
)

const loops = ok(
  'trainers',
  'Osmosis trains agent loops. Agent Lightning and POST /run take workflows.',
)

const useGrader = {
  advice: 'For this trainer, export a class that extends Grader instead of GroupGrader.',
  page: page('graders'),
}

/** An agent without a sample needs no reward, whatever the trainer. */
const leaveOut = 'Give trainable: false to the model of an agent that need not be trained'

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
  warn('POST /run', 'sends groups only with --group-column: other rollouts get no reward.', {
    advice: 'Start the server with --group-column <column> --group-size <attempts>.',
    page: page('trainers'),
  }),
]

/** Why a trainer that takes one reward per rollout cannot use these samples, with advice. */
function oneNumberProblem(samples: TriedRollout['samples']): [string, FindingDetails] | undefined {
  const trained = samples.filter(({ isRemoved }) => !isRemoved)
  const removed = samples.filter(({ isRemoved }) => isRemoved)
  const rule = '--reward mean, --reward sum or --reward <sample id>.'
  if (trained.length > 0 && removed.length > 0) {
    return [
      `trains all model calls of a rollout with one reward, those of removed samples (${idsOf(removed)}) too: the rollout would fail.`,
      {
        advice: `${leaveOut} instead of removing its sample, or give every sample a reward and choose how they are combined: ${rule}`,
        page: page('trainers'),
      },
    ]
  }
  if (trained.length < 2) return undefined
  return [
    `takes one reward per rollout, and this one has several samples: ${idsOf(trained)}.`,
    { advice: `${leaveOut}, or choose how they are combined: ${rule}`, page: page('trainers') },
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
      {
        advice: 'Leave temperature, top_p and the like to the trainer.',
        page: page('trainers'),
      },
    ),
  ]
}

function agentLightningFindings(
  oneNumber: [string, FindingDetails] | undefined,
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
        {
          advice:
            'Change the prompt between tries, e.g. by saying what was wrong with the first answer.',
          page: page('trainers'),
        },
      ),
    )
  }
  if (findings.length > 0) return findings
  return [ok('Agent Lightning', 'can train it: osmosis worker --agent-lightning')]
}

import { placeOf } from '@osmosis/eval'
import { formatQuantity } from '@osmosis/eval/analysis'

import { fromWorkingFolder } from '../../command/command-context.ts'
import type { EvalRunPlan } from '../../eval/run/evaluation-plan.ts'
import { splitSpec } from '../../inputs/load-module.ts'
import { changeFor, changeOfPolicy, changeOfRollout, type Change } from '../failure-advice.ts'
import { fail, ok, warn, type CheckFinding } from '../finding.ts'
import { frameworkPage, policyAdvice } from '../framework-advice.ts'
import { page } from '../pages.ts'
import { placeIn, placeOfFailure, type Place } from '../place.ts'
import { conversationFindings } from './conversation-findings.ts'
import { probe } from './scripted-probe.ts'
import { trainerFindings } from './trainer-checks.ts'
import type { TriedEnd, TriedRollout } from './tried-rollout.ts'

/** What the rollouts of a row say about a training. */
export function triedFindings(tried: TriedRollout, plan: EvalRunPlan): readonly CheckFinding[] {
  return [
    ...policyFindings(tried, plan),
    ...conversationFindings(tried, placeOfRollout(plan)),
    ...toolFindings(tried),
    ...graderFindings(tried, plan),
    ...outcomeFindings(tried, plan),
    ...secondRolloutFindings(tried, plan),
  ]
}

/** Whether the policy was asked, and which other models were. */
function* policyFindings(tried: TriedRollout, { folder }: EvalRunPlan): Generator<CheckFinding> {
  const { kind, ended, policyTrouble, observed } = tried
  if (policyTrouble !== null) {
    yield fail('policy', policyTrouble, changeOfPolicy(policyTrouble))
  }
  const advice = policyAdvice(folder)
  const { otherModels = [] } = observed ?? {}
  if (ended.policyCalls > 0) yield ok('model calls', `${ended.policyCalls} reached the policy`)
  else if (otherModels.length === 0 && failedOtherwise(tried)) return
  else if (kind === 'agent-loop') {
    const change = { advice: 'Ask the policy with ctx.chat().', page: page('agentLoops') }
    yield fail('model calls', 'No model call reached the policy.', change)
  } else {
    const asked = otherModels.map(({ url }) => url).join(', ')
    yield fail(
      'model calls',
      `No model call reached the policy${asked === '' ? '' : `: run() asked ${asked}`}.`,
      {
        ...placeIn(folder, otherModels.find((call) => call.place !== undefined)?.place),
        advice,
        page: frameworkPage(folder),
      },
    )
    return
  }
  for (const { url, place } of otherModels) {
    yield warn(
      'other model',
      `run() asked ${url}, past the policy: that answer is in no sample, and is not trained.`,
      {
        ...placeIn(folder, place),
        advice: `${advice} A second model of the program goes through the adapter too, with trainable: false.`,
        page: frameworkPage(folder),
      },
    )
  }
}

/** Whether it failed for another reason than that the policy was not asked. */
function failedOtherwise({ ended, log }: TriedRollout): boolean {
  return ended.status !== 'success' && log.codes.get(ended.rolloutId) !== 'no_samples'
}

function* toolFindings({
  conversations,
  requests,
  log,
  policyName,
}: TriedRollout): Generator<CheckFinding> {
  const offered = [...requests.tools.keys()]
  if (offered.length > 0) yield ok('tools', `the policy can call ${offered.join(', ')}`)
  const called = new Set(conversations.flatMap(({ calledTools }) => calledTools))
  const others = offered.filter((tool) => !called.has(tool))
  if (others.length > 0) {
    yield ok(
      'tools',
      `the policy did not call ${others.join(', ')}; try another --row, or a --policy that does`,
    )
  }
  const names = new Set([...log.toolErrors.keys(), ...requests.toolErrors.keys()])
  for (const tool of names) {
    const thrown = log.toolErrors.get(tool)
    const said = requests.toolErrors.get(tool)
    yield warn('tools', `${tool} failed: ${thrown?.message ?? said}`, {
      ...thrown?.place,
      ...changeOfTool(policyName === probe.name, requests.tools.get(tool) !== false),
    })
  }
}

/**
 * What to change about a tool that failed.
 *
 * @param isProbed - whether its arguments were made from its schema
 * @param hasArguments - whether these are any
 */
function changeOfTool(isProbed: boolean, hasArguments: boolean): Change {
  if (isProbed && !hasArguments) {
    return {
      advice:
        'It takes no arguments, so it needs something that this machine lacks, such as a service, a file or a variable: provide that, or let the tool answer from the row in a rollout.',
      page: page('toolsOfRows'),
    }
  }
  const fails = isProbed
    ? 'Its arguments were made from its schema: check whether it should fail for them, or call it with others by a policy of your own (--policy <file>).'
    : 'Check whether it should fail for the arguments that the policy wrote.'
  return {
    advice: `${fails} What it throws reaches the policy as a text.`,
    page: page('tools'),
  }
}

/** What the grader looked for, and no row of the dataset has. A row may leave out what others have. */
function* graderFindings({ observed }: TriedRollout, plan: EvalRunPlan): Generator<CheckFinding> {
  const { missingFields = [], missingLabel, missingMetadata } = observed ?? {}
  const dataset = fromWorkingFolder(plan.datasetFile)
  const unread = unreadColumns(plan)
  if (missingMetadata !== undefined && unread.length > 0) {
    yield* missingMetadataFinding(plan, unread, missingMetadata.place)
  }
  for (const { name, known, place } of missingFields) {
    if (plan.allRows.some(({ metadata }) => Object.hasOwn(metadata ?? {}, name))) continue
    const isColumn = unread.includes(name)
    yield warn(
      'grader',
      `The grader reads ctx.metadata.${name}, which no row has. There is: ${known.join(', ') || 'nothing'}.`,
      {
        ...placeIn(plan.folder, place),
        advice: isColumn
          ? `It is a column of ${dataset}: write it into the metadata, because graders get no other columns.`
          : `Read a field that the rows have, or write it into the metadata in ${dataset}.`,
        page: page(isColumn ? 'datasets' : 'graders'),
      },
    )
  }
  if (missingLabel === undefined || plan.allRows.some(({ label }) => label !== null)) return
  const { file, line } = placeIn(plan.folder, missingLabel.place)
  const by = file === undefined ? '' : ` (${file}:${line})`
  const others = unread.map((name) => `"${name}"`).join(', ') || 'no other column'
  yield fail('label', `The grader reads the label${by}, and no row has one. Not read: ${others}.`, {
    ...rowPlace(plan),
    advice: 'Name the column with the answer: ground_truth, or [columns] label in the config.',
    page: page('datasets'),
  })
}

function* missingMetadataFinding(
  { allRows, folder }: EvalRunPlan,
  unread: readonly string[],
  place: string | undefined,
): Generator<CheckFinding> {
  if (allRows.some(({ metadata }) => metadata !== null)) return
  const names = unread.map((name) => `"${name}"`).join(', ')
  yield warn('grader', `The grader reads ctx.metadata, and no row has any. Not read: ${names}.`, {
    ...placeIn(folder, place),
    advice: `Name the columns that the grader needs in the config, e.g. [columns] metadata = [${names}], or label for what the agent must not see.`,
    page: page('datasets'),
  })
}

/** The columns of the first row that neither workflow nor grader gets. */
function unreadColumns({ rows: [row] }: EvalRunPlan): readonly string[] {
  return Object.keys(row?.otherColumns ?? {})
}

/** Where the row stands; without a line in a file that is not text. */
function rowPlace({ rows: [row], datasetFile }: EvalRunPlan): Place {
  const [, line] = /^line (\d+)$/.exec(row === undefined ? '' : placeOf(row)) ?? []
  const file = fromWorkingFolder(datasetFile)
  return { file, line: line === undefined ? undefined : Number(line) }
}

function* outcomeFindings(tried: TriedRollout, plan: EvalRunPlan): Generator<CheckFinding> {
  const { kind, ended, log, samples } = tried
  if (ended.status !== 'success') {
    // The finding about model calls has said so, with the page of the framework.
    if (codeOf(tried, ended) === 'no_samples' && ended.policyCalls === 0) return
    yield fail('rollout', `The rollout ended with ${ended.status}: ${reasonOf(ended)}`, {
      ...placeOfRollout(plan, reasonOf(ended)),
      ...changeOfRollout(
        { code: codeOf(tried, ended), reason: reasonOf(ended) },
        kind,
        plan.folder,
      ),
    })
    return
  }
  const early = samples.find(({ endedBy }) => endedBy !== null)?.endedBy
  if (early) {
    const said = log.warnings.get(ended.rolloutId)
    const why = said === undefined ? '' : `: ${said}`
    yield warn(
      'run()',
      `run() did not return, and the rollout is graded: ${early} ended it${why}`,
      {
        advice:
          'Check whether the limit fits the task, and whether the framework takes such answers.',
        page: page('limits'),
      },
    )
  }
  yield* sampleFindings(tried)
  yield* trainerFindings(tried)
}

function* sampleFindings({ kind, samples }: TriedRollout): Generator<CheckFinding> {
  const trained = samples.filter(({ isRemoved }) => !isRemoved)
  const without = trained.filter(({ reward }) => reward === null)
  if (samples.length === 0) {
    yield fail('samples', 'The rollout ended without a sample.', changeFor('no_samples'))
  } else if (trained.length === 0) {
    yield warn('samples', 'The grader removed every sample: there is nothing to train on.', {
      advice: 'Remove only samples that are not to be trained.',
      page: page('graders'),
    })
  }
  if (without.length > 0) {
    yield fail('reward', `No reward was set for ${without.map(({ id }) => id).join(', ')}.`, {
      advice:
        kind === 'workflow'
          ? 'Call ctx.setReward(…) in the grader; with several samples ctx.setSampleReward, or ctx.removeSample, for each.'
          : 'Give ctx.complete a reward.',
      page: page(kind === 'workflow' ? 'graders' : 'agentLoops'),
    })
  }
  for (const { id, reward } of trained) {
    if (reward !== null) yield ok('reward', `${reward} for ${id}`)
  }
}

/** Codes of errors about things of a rollout that another one uses. Errors of the program have none, and may be about them. */
const ofAnotherRollout: ReadonlySet<string> = new Set(['wrong_rollout_context', 'rollout_ended'])

/** What the first rollout left to the second one, in the same process. */
function* secondRolloutFindings(tried: TriedRollout, plan: EvalRunPlan): Generator<CheckFinding> {
  const { kind, ended, again, requests } = tried
  if (again === null) return
  const advice =
    'Make what holds a conversation inside run(): the agent, the session, the memory, the list of messages. One process runs many rollouts.'
  if (again.status !== 'success') {
    const reason = reasonOf(again)
    const code = codeOf(tried, again)
    const change = changeOfRollout({ code, reason }, kind, plan.folder)
    const isOfFirst = code === undefined || ofAnotherRollout.has(code)
    yield fail(
      'second rollout',
      `A second rollout in the same process ended with ${again.status}: ${reason}`,
      {
        ...placeOfRollout(plan, reason),
        ...change,
        advice: isOfFirst
          ? advice
          : `${change.advice} The first rollout did not fail with this: either the policy answered it otherwise, or it has left something behind.`,
      },
    )
    return
  }
  const [first = 0, second = 0] = [ended, again].map(({ rolloutId }) =>
    requests.firstAnswers.get(rolloutId),
  )
  if (second > first) {
    yield fail(
      'second rollout',
      `A second rollout in the same process began with ${formatQuantity(second - first, 'answer')} of the first one.`,
      { ...placeOfRollout(plan), advice, page: page('concurrency') },
    )
  }
}

/** The line that the message of a failure names, else the entrypoint. */
function placeOfRollout({ folder, entrypoint }: EvalRunPlan, message = ''): Place {
  const place = placeOfFailure(folder, message)
  return place.file === undefined ? { file: fromWorkingFolder(splitSpec(entrypoint).file) } : place
}

function reasonOf({ errorMessage }: TriedEnd): string {
  return errorMessage ?? 'no reason was given'
}

function codeOf({ log }: TriedRollout, { rolloutId }: TriedEnd): string | undefined {
  return log.codes.get(rolloutId)
}

import { invalid } from '../../command/exit-codes.ts'
import type { Grade } from '@osmosis/eval'
import { shownContent, type RunNote } from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/protocol/trajectory'

import { protectData } from '../../command/command-context.ts'
import type { RubricFlags } from '../rubric.ts'
import { findRun, openShownRun, runsRoot, type ShownRun } from '../show/shown-run.ts'
import { filterItems, itemName, itemsOf, type ShownItem } from '../show/shown-items.ts'
import { verdictWord, type AnswerRow, type AnswerSource, type JudgedRow } from './answer-rows.ts'

/**
 * Reads answers from a run: the last text of each rollout. The notes of people are their verdicts.
 *
 * @throws OsmosisError with code `invalid_config` when no rollout is selected, and for a grading that exists;
 * `damaged_run`
 */
export async function readRunAnswers(name: string, flags: RubricFlags): Promise<AnswerSource> {
  const { filter, as } = flags
  const run = await openShownRun(await findRun(name, await runsRoot(undefined)))
  if (as !== undefined) await assertNewGrading(run, as)
  const people = ({ item }: ShownItem): boolean | null =>
    verdictOf(run.table.note(item), flags.agreeWith)
  const items =
    filter === undefined
      ? itemsOf(run).filter((item) => people(item) !== null)
      : await filterItems(run, filter)
  if (items.length === 0) throw invalid(nothingSelected(run, flags))
  const answers: AnswerRow[] = []
  for (const item of items) answers.push({ ...(await answerOf(item)), people: people(item) })
  protectData(answers)
  return {
    answers,
    passThreshold: thresholdOf(run, flags),
    show: ['eval', 'show', run.command],
    ...(as === undefined ? {} : { store: async (rows) => storeScores(run, as, items, rows) }),
  }
}

function nothingSelected({ name, command }: ShownRun, { filter, agreeWith }: RubricFlags): string {
  if (filter !== undefined) return `No rollout of ${name} matches ${filter}.`
  const tags = agreeWith === undefined ? 'pass or fail' : agreeWith
  return `No rollout of ${name} has a note with a verdict. Add some, such as osmosis eval note ${command} 12.1 --tag ${agreeWith ?? 'pass'}: the tag is ${tags}. Or select rollouts with --filter.`
}

/** The verdict of a note: its tag. With `--agree-with` a rollout with that tag passes, and one with another fails. */
function verdictOf(note: RunNote | undefined, agreeWith: string | undefined): boolean | null {
  const tag = note?.tag ?? ''
  if (tag === '') return null
  return agreeWith === undefined ? verdictWord(tag) : tag === agreeWith
}

/** That of the run, where it is a score of the range. */
function thresholdOf(run: ShownRun, { passThreshold, scoreMin, scoreMax }: RubricFlags): number {
  if (passThreshold !== undefined) return passThreshold
  const { threshold } = run.table.document
  return threshold > scoreMin && threshold <= scoreMax ? threshold : (scoreMin + scoreMax) / 2
}

async function answerOf(item: ShownItem): Promise<Omit<AnswerRow, 'people'>> {
  const { reader } = item.run
  const [said, samples] = await Promise.all([
    reader.trajectories(item.event),
    reader.graded(item.event),
  ])
  const label = itemName(item)
  if (said.state === 'damaged') throw invalid(`The transcript of ${label} is damaged.`)
  const { answer, originalInput } = textsOf(said.state === 'found' ? Object.values(said.value) : [])
  const { label: groundTruth = null, metadata = null } =
    samples.state === 'found' ? samples.value : {}
  return { label, answer, originalInput, groundTruth, metadata }
}

/** The last text of the policy, and what the user wrote before its first one. */
function textsOf(conversations: readonly Trajectory[]): {
  readonly answer: string
  readonly originalInput: string | null
} {
  for (const { steps } of conversations.toReversed()) {
    const answer = steps
      .filter(({ source }) => source === 'agent')
      .map(({ message }) => shownContent(message).text)
      .findLast((text) => text.trim() !== '')
    if (answer === undefined) continue
    const first = steps.findIndex(({ source }) => source === 'agent')
    const prompt = steps.slice(0, first).filter(({ source }) => source === 'user')
    const texts = prompt.map(({ message }) => shownContent(message).text)
    return { answer, originalInput: texts.length === 0 ? null : texts.join('\n\n') }
  }
  return { answer: '', originalInput: null }
}

/** Before the judge is called: its scores should not be lost. */
async function assertNewGrading({ reader }: ShownRun, as: string): Promise<void> {
  // Throws for a name that cannot be one.
  const { size } = await reader.grades(as)
  if (size > 0)
    throw invalid(`There is ${reader.name}@${as} already: choose another name for --as.`)
}

/** Stores the scores as a re-grading of the run. */
async function storeScores(
  { reader, command }: ShownRun,
  as: string,
  items: readonly ShownItem[],
  rows: readonly JudgedRow[],
): Promise<readonly string[]> {
  const grades = items.map(({ event }, at): Grade => {
    const { scored = null, error = null } = rows[at] ?? {}
    const [sample, ...others] = Object.keys(event.samples)
    const isOnly = sample !== undefined && others.length === 0
    return {
      source_row_index: event.source_row_index,
      run_index: event.run_index,
      rollout_id: event.rollout_id,
      reward: scored?.score ?? null,
      ...(isOnly && scored !== null ? { samples: { [sample]: scored.score } } : {}),
      error,
    }
  })
  await reader.addGrades(as, grades)
  return ['eval', 'view', `${command.replace(/@[^@/]*$/, '')}@${as}`]
}

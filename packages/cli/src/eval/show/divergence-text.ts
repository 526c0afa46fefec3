import { stripVTControlCharacters } from 'node:util'

import { OsmosisError } from '@osmosis/core'
import { counterpartOf, divergenceOf, type Divergence } from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/runtime/trajectory'

import { columnsOf, onOneLine, styled, wrapped, commandLines } from '../../command/terminal-text.ts'
import { findRun, openShownRun } from './shown-run.ts'
import { titleLine } from './rollout-text.ts'
import { itemName, itemsOf, namedItems, type ShownItem } from './shown-items.ts'
import { stepLines, type TranscriptOptions } from './transcript-text.ts'

/** Number of steps of each rollout that are shown from the first difference on. */
const shownSteps = 3
/** From this width on, both are shown side by side. Columns. */
const sideBySide = 110

/**
 * The attempt to compare with: `true` for an attempt at the same row with another result, else an attempt at
 * that row, `<row>.<attempt>` or `<run>:<row>.<attempt>`.
 *
 * @throws OsmosisError with code `invalid_config` when there is none
 */
export async function otherAttempt(
  own: ShownItem,
  name: true | string,
  root: string,
): Promise<ShownItem> {
  const { run, event } = own
  if (name === true) {
    const item = counterpartOf(run.table, own.item)
    const other = itemsOf(run).find((shown) => shown.item === item)
    if (other !== undefined) return other
    throw new OsmosisError(
      'invalid_config',
      `No other attempt at row ${event.source_row_index} has ended.`,
    )
  }
  const colon = name.lastIndexOf(':')
  const otherRun =
    colon === -1 ? run : await openShownRun(await findRun(name.slice(0, colon), root))
  const place = name.slice(colon + 1)
  const [other] = namedItems(
    otherRun,
    place.includes('.') ? place : `${event.source_row_index}.${place}`,
  )
  if (other === undefined) throw new TypeError('A name with an attempt is of one item.')
  return other
}

/** The first difference of two rollouts, and how both continue. */
export async function divergenceLines(
  own: ShownItem,
  other: ShownItem,
  options: TranscriptOptions,
): Promise<string[]> {
  const both = await sharedSample(own, other)
  const head = [titleOf(own, other), titleOf(other, own), '']
  if (both === null) {
    const text =
      'A transcript of both rollouts is needed: osmosis eval show says which one is missing.'
    return [...head, styled('yellow', text)]
  }
  const { divergence, left, right } = both
  const { at, environment } = divergence
  const noise =
    environment === null
      ? []
      : wrapped(
          `In step ${environment.at + 1} an equal call of ${onOneLine(environment.tool)} got another result: the environment is not deterministic, and its noise is in the reward.`,
          options.width,
        ).map((line) => styled('yellow', line))
  if (at === null) return [...head, 'They are the same to the end.', ...noise]
  const last = left.steps[at - 1]
  const reason = reasonOf(divergence)
  const common =
    at === 0 ? `They part at once: ${reason}.` : `The same up to step ${at}, then ${reason}.`
  return [
    ...head,
    ...(last === undefined ? [] : [...stepLines(last, options), '']),
    styled('bold', common),
    ...noise,
    '',
    ...beside(
      (width) => [titleOf(own, other), ...restLines(left, at, own, { ...options, width })],
      (width) => [titleOf(other, own), ...restLines(right, at, other, { ...options, width })],
      options.width,
    ),
  ]
}

function titleOf(shown: ShownItem, other: ShownItem): string {
  const name = shown.run.name === other.run.name ? '' : `${styled('dim', shown.run.name)}  `
  return `${name}${titleLine(shown)}`
}

function reasonOf({ by }: Divergence): string {
  switch (by) {
    case 'source':
      return 'another one speaks'
    case 'text':
      return 'the text differs'
    case 'tool':
      return 'another tool is called'
    case 'arguments':
      return 'the arguments differ'
    case 'end':
    case null:
      return 'one of them ends'
  }
}

interface SharedSample {
  readonly divergence: Divergence
  readonly left: Trajectory
  readonly right: Trajectory
}

/** The first common sample in which the rollouts differ; null without one. */
export async function sharedSample(own: ShownItem, other: ShownItem): Promise<SharedSample | null> {
  const [left, right] = await Promise.all(
    [own, other].map(({ run, event }) => run.reader.trajectories(event)),
  )
  if (left?.state !== 'found' || right?.state !== 'found') return null
  const names = Object.keys(left.value)
  // Samples with different names are compared in their order.
  const others = Object.values(right.value)
  const pairs = names.flatMap((name, at): SharedSample[] => {
    const [a, b] = [left.value[name], right.value[name] ?? others[at]]
    return a === undefined || b === undefined
      ? []
      : [{ divergence: divergenceOf(a, b), left: a, right: b }]
  })
  return pairs.find(({ divergence }) => divergence.at !== null) ?? pairs[0] ?? null
}

function restLines(
  { steps }: Trajectory,
  at: number,
  shown: ShownItem,
  options: TranscriptOptions,
): string[] {
  const rest = steps.slice(at)
  if (rest.length === 0) return ['', styled('dim', 'It ends here.')]
  const most = options.full ? rest.length : shownSteps
  const more = rest.length - most
  const command = ['eval', 'show', shown.run.command, itemName(shown)]
  return [
    ...rest.slice(0, most).flatMap((step) => ['', ...stepLines(step, options)]),
    ...(more > 0
      ? [
          '',
          styled('dim', `… ${more} more ${more === 1 ? 'step' : 'steps'} (--full)`),
          ...commandLines(command, 0),
        ]
      : []),
  ]
}

/** Side by side if the terminal is wide enough, else one below the other. */
function beside(
  left: (width: number) => readonly string[],
  right: (width: number) => readonly string[],
  width: number,
): string[] {
  if (width < sideBySide || width === Infinity) return [...left(width), '', ...right(width)]
  const half = Math.floor((width - 3) / 2)
  const [a, b] = [left(half), right(half)]
  return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => {
    const line = a[at] ?? ''
    const space = ' '.repeat(Math.max(0, half - columnsOf(stripVTControlCharacters(line))))
    return `${line}${space} ${styled('dim', '│')} ${b[at] ?? ''}`.trimEnd()
  })
}

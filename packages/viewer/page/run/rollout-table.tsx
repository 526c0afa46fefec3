import { formatCount, type ItemFlag, type RunQuery, type RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'

import { duration, oneLine, rewardText, unknown } from '../format.ts'
import { rem } from '../media/text-size.ts'
import { Dots, dotsWidth, type ItemProps, toneOf } from '../parts/dot.tsx'
import { VirtualList } from '../parts/virtual-list.tsx'
import type { DisplayedRun } from './use-run.ts'

interface RolloutTableProps {
  readonly run: DisplayedRun
  readonly query: RunQuery
  /** Items in their order. */
  readonly list: Int32Array
  readonly selected: number | null
  /** Whether there is room for the left columns only. */
  readonly short: boolean
  readonly onSort: (key: string) => void
  readonly onPick: (item: number) => void
  readonly onClear: () => void
}

/** The rollouts that match the filter. */
export function RolloutTable(props: RolloutTableProps): JSX.Element {
  const { run, query, list, selected, short, onSort, onPick, onClear } = props
  const { table } = run
  const { row } = table.document.columns
  const range = useMemo(() => rangeOf(table), [run])
  const focus = selected === null ? -1 : list.indexOf(selected)
  return (
    <div class="rollouts" style={{ '--attempts': rem(dotsWidth([table], 60)) }}>
      <Head query={query} short={short} measure={table.measure} onSort={onSort} />
      {list.length === 0 ? (
        <div class="empty">
          <b>{table.size === 0 ? 'No rollout has ended yet' : 'Nothing matches'}</b>
          {table.size === 0 ? (
            run.progress.state === 'running' && 'Lines appear here as rollouts end.'
          ) : (
            <button class="fold" onClick={onClear}>
              Show all rollouts <kbd>x</kbd>
            </button>
          )}
        </div>
      ) : (
        <VirtualList
          count={list.length}
          focus={focus}
          role="listbox"
          label="Rollouts"
          active={focus >= 0 && selected !== null ? lineId(selected) : undefined}
          render={(index, top) => {
            const item = list[index] ?? 0
            const above = index > 0 ? list[index - 1] : undefined
            return (
              <RolloutLine
                key={item}
                {...{ table, item, top, short, range, onPick }}
                isSelected={item === selected}
                isSameRow={above !== undefined && row[above] === row[item]}
              />
            )
          }}
        />
      )}
    </div>
  )
}

function Head({
  query,
  short,
  measure,
  onSort,
}: {
  query: RunQuery
  short: boolean
  measure: string
  onSort: (key: string) => void
}): JSX.Element {
  const { key: sorted, descending } = query.sort
  const button = (key: string, label: string, style = ''): JSX.Element => (
    <button
      class={style}
      data-sorted={sorted === key ? (descending ? 'down' : 'up') : undefined}
      title={`Sort by ${label.toLowerCase()}`}
      onClick={() => onSort(key)}
    >
      {label}
    </button>
  )
  return (
    <div class="head">
      {button('row', 'Row')}
      <span>Attempts</span>
      {button('reward', short ? 'Rew.' : measure === 'reward' ? 'Reward' : 'Score', 'reward-head')}
      <span>Question, and how it ends</span>
      <span class="flags">Flags</span>
      {!short && (
        <>
          {button('turns', 'Calls', 'end')}
          {button('tools', 'Tools', 'end wide')}
          {button('tokens', 'Tokens', 'end wide')}
          {button('seconds', 'Time', 'end')}
        </>
      )}
    </div>
  )
}

/** From the least value or 0 to the greatest value or the threshold. */
function rangeOf({ values, document }: RunTable): readonly [number, number] {
  let [least, most] = [0, Math.max(document.threshold, Number.MIN_VALUE)]
  for (const value of values) {
    if (value === null) continue
    if (value < least) least = value
    if (value > most) most = value
  }
  return [least, most]
}

interface RolloutLineProps {
  readonly table: RunTable
  readonly item: number
  /** Pixels. */
  readonly top: number
  readonly isSelected: boolean
  /** Whether the line above is of the same row. */
  readonly isSameRow: boolean
  /** Whether there is room for the left columns only. */
  readonly short: boolean
  /** The least and the greatest value that the bar shows. */
  readonly range: readonly [number, number]
  readonly onPick: (item: number) => void
}

/** The id of the line of an item, for screen readers. */
function lineId(item: number): string {
  return `item-${item}`
}

/** A rollout. */
function RolloutLine(props: RolloutLineProps): JSX.Element {
  const { table, item, top, isSelected, isSameRow, short, range, onPick } = props
  const { columns } = table.document
  const value = table.value(item)
  const group = table.group(item)
  const question = isSameRow ? '' : (table.document.rows.question[group.place] ?? '')
  const [facet] = question === '' ? Object.entries(table.facets(group)) : []
  const id = isSameRow ? null : givenId(group.key)
  const tokens = columns.completionTokens[item] ?? null
  return (
    <div
      id={lineId(item)}
      class={`line${isSameRow ? ' same' : ''}`}
      role="option"
      aria-selected={isSelected}
      style={{ top: `${top}px` }}
      onClick={() => onPick(item)}
    >
      <span class="row">
        <b>{columns.row[item]}</b>
        <span class="dim">.{(columns.attempt[item] ?? 0) + 1}</span>
      </span>
      {isSameRow ? <span /> : <Dots table={table} items={group.items} me={item} />}
      <span class="reward">
        <span>{rewardText(value)}</span>
        {!short && (
          <span class="track">
            <i class={toneOf(table, item)} style={{ width: `${100 * shareOf(value, range)}%` }} />
          </span>
        )}
      </span>
      <span class="text">
        {/* Behind an id, a question that does not fit whole would not be shown at all. */}
        {question !== '' && <q title={question}>{oneLine(question)}</q>}
        {id !== null && <code>{id}</code>}
        {facet !== undefined && <em>{facet.join(' ')}</em>}
        {oneLine(columns.summary[item] ?? '')}
      </span>
      <Flags table={table} item={item} most={short ? 1 : 2} />
      {!short && (
        <>
          <span class="end">{columns.calls[item]}</span>
          <span class="end wide">{columns.toolCalls[item]}</span>
          <span class="end wide">{tokens === null ? unknown : formatCount(tokens)}</span>
          <span class="end">{duration(columns.durationMs[item] ?? 0)}</span>
        </>
      )}
    </div>
  )
}

/** The id of a row in its dataset; null when it has none, so that its key is a digest. */
export function givenId(key: string): string | null {
  return /^[\da-f]{16,}$/.test(key) ? null : key
}

/** The filled share of the bar; never quite empty. */
function shareOf(value: number | null, [least, most]: readonly [number, number]): number {
  if (value === null) return 0
  return Math.max(0.04, Math.min(1, (value - least) / (most - least)))
}

const tones: Partial<Record<ItemFlag, 'bad' | 'warn'>> = {
  suspicious: 'bad',
  failed: 'bad',
  stuck: 'bad',
  nocalls: 'bad',
  cut: 'warn',
  rewritten: 'warn',
  limited: 'warn',
  modelerror: 'warn',
  notext: 'warn',
}

const words: Record<ItemFlag, string> = {
  suspicious: 'suspicious',
  failed: 'failed',
  stuck: 'stuck',
  nocalls: 'no model call',
  cut: 'cut off',
  rewritten: 'rewritten',
  limited: 'limit reached',
  modelerror: 'unusable answer',
  notext: 'no text',
  toolerror: 'tool error',
  long: 'long',
  skipped: 'skipped',
}

/** The flags and the tag of an item, the most important first. */
function Flags({ table, item, most }: ItemProps & { most: number }): JSX.Element {
  // A rollout that is stuck has errors of tools.
  const itemFlags = table.flags(item)
  const found = itemFlags.filter((flag) => flag !== 'toolerror' || !itemFlags.includes('stuck'))
  const note = table.note(item)
  const shown = found.slice(0, note === undefined ? most : most - 1)
  return (
    <span class="flags">
      {note !== undefined && (
        <span class="chip note" title={note.tag ?? ''}>
          {note.tag || 'note'}
        </span>
      )}
      {shown.map((flag) => (
        <span key={flag} class={`chip ${tones[flag] ?? ''}`}>
          {signText(table, item, flag)}
        </span>
      ))}
      {found.length > shown.length && <span class="dim">+{found.length - shown.length}</span>}
    </span>
  )
}

function signText(table: RunTable, item: number, flag: ItemFlag): string {
  if (flag === 'failed') return table.errorType(item)?.replaceAll('_', ' ') ?? words.failed
  if (flag === 'stuck') return `stuck ×${table.document.columns.toolErrors[item] ?? 0}`
  return words[flag]
}

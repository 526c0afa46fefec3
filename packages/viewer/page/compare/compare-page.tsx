import {
  formatCount,
  formatQuantity,
  signed,
  compareRuns,
  type Comparison,
  inputChanges,
  runStatistics,
  type RowChange,
  rolloutName,
  type BehaviourChange,
  behaviourTexts,
} from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'

import { percent, unknown, oneLine } from '../format.ts'
import { rem } from '../media/text-size.ts'
import { Dots, dotsWidth } from '../parts/dot.tsx'
import { type Draw, Plot } from '../parts/plot.tsx'
import { VirtualList } from '../parts/virtual-list.tsx'
import { hrefOf } from '../route.ts'
import type { DisplayedRun } from '../run/use-run.ts'
import { colour } from '../theme.ts'
import { Forest } from './forest.tsx'

interface BothRuns {
  readonly before: DisplayedRun
  readonly after: DisplayedRun
}

/** What the runs were made with, where it differs. */
function ChangedInputs({ before, after }: BothRuns): JSX.Element | null {
  const changes = inputChanges(before.table.document, after.table.document)
  if (changes.length === 0) return null
  return (
    <section class="card" aria-label="What changed">
      <h2>What changed</h2>
      <table class="inputs">
        <thead>
          <tr>
            <td />
            <th scope="col">{before.name}</th>
            <th scope="col">{after.name}</th>
          </tr>
        </thead>
        <tbody>
          {changes.map((change) => (
            <tr key={change.name}>
              <th scope="row">{change.name}</th>
              <td>{change.before ?? 'not set'}</td>
              <td>{change.after ?? 'not set'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** Facet values with fewer rows are not shown. */
const minRows = 10

/** The changes from one run to another, over the rows that both have. */
export function ComparePage({ before, after, look }: BothRuns & { look: string }): JSX.Element {
  const passes = useMemo(() => compareRuns(before.table, after.table), [before, after])
  const { verdict, rows, behaviour } = passes
  if (rows.length === 0) {
    return (
      <main class="empty">
        <b>These runs have no row in common</b>
        Rows are paired by their id column, or else by prompt, label and metadata.
      </main>
    )
  }
  const tones = { better: 'up', worse: 'down', none: '', unknown: '' }
  return (
    <main class="comparison">
      <section class="page" tabIndex={0} aria-label="Comparison">
        <p class="sentence">
          <span class={tones[verdict.tone]}>{verdict.lead}</span>
          {verdict.rest}
        </p>
        <FourFigures {...{ before, after, passes }} />
        <ChangedInputs before={before} after={after} />
        {Object.keys(after.table.document.rows.facets).map((name) => (
          <FacetForest key={name} {...{ before, after, name }} />
        ))}
        <Waterfall comparison={passes} look={look} />
        <Behaviour list={behaviour} names={[before.name, after.name]} />
      </section>
      <ChangedRows before={before} after={after} comparison={passes} />
    </main>
  )
}

function FourFigures({ before, after, passes }: BothRuns & { passes: Comparison }): JSX.Element {
  const values = useMemo(
    () => compareRuns(before.table, after.table, { metric: 'reward' }),
    [before, after],
  )
  const gradients = useMemo(
    () => [before, after].map(({ table }) => runStatistics(table).groups.signal),
    [before, after],
  )
  const { difference } = passes
  const attempts = Math.min(before.table.document.attempts, after.table.document.attempts)
  return (
    <div class="panels">
      <Figure
        label="Pass rate"
        value={percent(passes.after.value)}
        below={`was ${percent(passes.before.value)}`}
      />
      <Figure
        label={after.table.measure === 'reward' ? 'Reward' : after.table.measure}
        value={values.after.value?.toFixed(3) ?? unknown}
        beside={values.difference.value === null ? '' : signed(values.difference.value, 3)}
        below={`was ${values.before.value?.toFixed(3) ?? unknown}`}
      />
      <Figure
        label="Rows better, worse"
        value={`${formatCount(difference.better)}, ${formatCount(difference.worse)}`}
        below={
          attempts > 1
            ? `${formatCount(passes.lostSure)} no longer always pass`
            : `${formatCount(difference.same)} the same`
        }
      />
      {attempts > 1 && (
        <Figure
          label="Rows with a training signal"
          value={formatCount(gradients[1] ?? 0)}
          below={`was ${formatCount(gradients[0] ?? 0)}`}
        />
      )}
      {(passes.onlyA > 0 || passes.onlyB > 0) && (
        <Figure
          label="Rows in both"
          value={formatCount(difference.rows)}
          below={`${formatQuantity(passes.onlyA, 'other')} before, ${formatCount(passes.onlyB)} after`}
        />
      )}
    </div>
  )
}

function Figure({
  label,
  value,
  beside,
  below,
}: {
  label: string
  value: string
  beside?: string
  below: string
}): JSX.Element {
  return (
    <div class="figure">
      <div class="label">{label}</div>
      <div class="value">
        {value}
        {beside && <small>{beside}</small>}
      </div>
      <div class="sub" title={below}>
        {below}
      </div>
    </div>
  )
}

function FacetForest({ before, after, name }: BothRuns & { name: string }): JSX.Element | null {
  const facets = useMemo(
    () => compareRuns(before.table, after.table, { by: name }).facets,
    [before, after, name],
  )
  const shown = facets.filter(({ difference }) => difference.rows >= minRows)
  if (shown.length < 2) return null
  return <Forest title={`Change of the pass rate by ${name.replaceAll('_', ' ')}`} list={shown} />
}

/** Every row by its change, from the worst to the best. */
function Waterfall({ comparison, look }: { comparison: Comparison; look: string }): JSX.Element {
  const {
    rows,
    difference: { better, worse },
  } = comparison
  const draw: Draw = (canvas, width, height) => {
    canvas.fillStyle = colour('line-strong')
    canvas.fillRect(0, height / 2, width, 1)
    const step = width / rows.length
    const tones = { up: colour('pass'), down: colour('fail') }
    for (const [index, { change }] of rows.entries()) {
      canvas.fillStyle = change > 0 ? tones.up : tones.down
      const length = (Math.abs(change) * height) / 2
      const top = change > 0 ? height / 2 - length : height / 2
      // Rounded to device pixels, so that adjacent bars have no gaps.
      const left = Math.floor(index * step * devicePixelRatio) / devicePixelRatio
      const right = Math.ceil((index + 1) * step * devicePixelRatio) / devicePixelRatio
      canvas.fillRect(left, top, right - left, length)
    }
  }
  return (
    <section class="card">
      <h2>
        Every row by its change in {comparison.metric === 'pass' ? 'points' : 'reward'}, from the
        worst to the best
      </h2>
      <div class="waterfall">
        <div class="levels" aria-hidden="true">
          <span>{comparison.metric === 'pass' ? '+100' : '+1'}</span>
          <span>0</span>
          <span>{comparison.metric === 'pass' ? '−100' : '−1'}</span>
        </div>
        <Plot
          draw={draw}
          inputs={[rows, look]}
          label={`Of ${formatQuantity(rows.length, 'row')} ${worse} are worse and ${better} better`}
        />
      </div>
      <div class="ends" aria-hidden="true">
        <span>{formatCount(worse)} worse</span>
        <span>{formatQuantity(rows.length, 'row')}</span>
        <span>{formatCount(better)} better</span>
      </div>
    </section>
  )
}

/** The rows that both runs have, the largest losses first; each opens at its first difference. */
function ChangedRows({
  before,
  after,
  comparison,
}: BothRuns & { comparison: Comparison }): JSX.Element {
  const [a, b] = shortNames([before.name, after.name])
  const { rows } = comparison
  return (
    <section
      class="list changed"
      aria-label="Rows and their change"
      style={{ '--attempts': rem(dotsWidth([before.table, after.table], 60)) }}
    >
      <div class="bar">
        <h2 class="count">Rows both have, the largest losses first</h2>
      </div>
      <div class="head">
        <span>Row</span>
        <span class="cut" title={before.name}>
          {a}
        </span>
        <span class="cut" title={after.name}>
          {b}
        </span>
        <span class="end">Change</span>
        <span>Question, and how it ends after</span>
      </div>
      <VirtualList
        count={rows.length}
        focus={-1}
        role="region"
        label="Rows, the largest losses first"
        render={(index, top) => {
          const row = rows[index]
          return row && <ChangedRow key={row.key} {...{ before, after, row, top }} />
        }}
      />
    </section>
  )
}

function ChangedRow({
  before,
  after,
  row,
  top,
}: BothRuns & { row: RowChange; top: number }): JSX.Element {
  const { table } = after
  const { items } = row.b
  const item = items.find((each) => !table.passed(each)) ?? items[0] ?? 0
  const { attempt, summary } = table.document.columns
  const question = table.document.rows.question[table.group(item).place] ?? ''
  const href = hrefOf({
    page: 'run',
    run: after.name,
    selected: rolloutName({ source_row_index: row.b.row, run_index: attempt[item] ?? 0 }),
    divergence: items.length > 1,
  })
  const tone = row.change > 0 ? ' up' : row.change < 0 ? ' down' : ''
  return (
    <a class="line" href={href} style={{ top: `${top}px` }}>
      <span>{row.b.row}</span>
      <Dots table={before.table} items={row.a.items} />
      <Dots table={table} items={items} />
      <span class={`change${tone}`}>{row.change === 0 ? '0' : signed(100 * row.change, 0)}</span>
      <span class="text">
        {question !== '' && <q title={question}>{oneLine(question)}</q>}
        {oneLine(summary[item] ?? '')}
      </span>
    </a>
  )
}

/** Behaviour before and after; significant changes are bold. */
function Behaviour({
  list,
  names,
}: {
  list: readonly BehaviourChange[]
  names: readonly [before: string, after: string]
}): JSX.Element {
  const [before, after] = shortNames(names)
  return (
    <section class="card">
      <table class="behaviour">
        <thead>
          <tr>
            <th>Behaviour</th>
            <th title={names[0]}>{before}</th>
            <th title={names[1]}>{after}</th>
            <th>Change</th>
          </tr>
        </thead>
        <tbody>
          {list.map((change) => (
            <BehaviourLine key={change.key} change={change} />
          ))}
        </tbody>
      </table>
    </section>
  )
}

function BehaviourLine({ change }: { change: BehaviourChange }): JSX.Element {
  const texts = behaviourTexts(change)
  return (
    <tr>
      <td>{change.title}</td>
      <td>{texts.before}</td>
      <td>{texts.after}</td>
      <td class={texts.isSure ? 'sure' : 'dim'}>{texts.change}</td>
    </tr>
  )
}

/** The names without their common beginning. */
function shortNames([a, b]: readonly [string, string]): readonly [string, string] {
  const [runA, variantA = 'run'] = a.split('@')
  const [runB, variantB = 'run'] = b.split('@')
  if (runA === runB && a !== b) return [variantA, variantB]
  const partsA = a.split(/(?<=[-_@./ ])/)
  const partsB = b.split(/(?<=[-_@./ ])/)
  let same = 0
  while (partsA[same] !== undefined && partsA[same] === partsB[same]) same += 1
  const short = (parts: string[], whole: string): string => parts.slice(same).join('') || whole
  return a === b ? ['before', 'after'] : [short(partsA, a), short(partsB, b)]
}

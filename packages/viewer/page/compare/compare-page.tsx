import { compareRuns, type Comparison, runStatistics } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'

import { counted, percent, signed, thousands, unknown } from '../format.ts'
import type { DisplayedRun } from '../run/use-run.ts'
import { Behaviour } from './behaviour.tsx'
import { ChangedRows } from './changed-rows.tsx'
import { Forest } from './forest.tsx'
import { Waterfall } from './waterfall.tsx'

/** So many rows with one value of a facet say something. */
const fewestRows = 10

/** What became better or worse from one run to another, over the rows that both have. */
export function ComparePage({
  before,
  after,
  look,
}: {
  before: DisplayedRun
  after: DisplayedRun
  look: string
}): JSX.Element {
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
        {Object.keys(after.table.document.rows.facets).map((name) => (
          <FacetForest key={name} {...{ before, after, name }} />
        ))}
        <Waterfall rows={rows} look={look} />
        <Behaviour list={behaviour} names={[before.name, after.name]} />
      </section>
      <ChangedRows before={before} after={after} comparison={passes} />
    </main>
  )
}

function FourFigures({
  before,
  after,
  passes,
}: {
  before: DisplayedRun
  after: DisplayedRun
  passes: Comparison
}): JSX.Element {
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
        value={`${thousands(difference.better)}, ${thousands(difference.worse)}`}
        below={
          attempts > 1
            ? `${thousands(passes.lostSure)} lost a sure pass`
            : `${thousands(difference.same)} the same`
        }
      />
      {attempts > 1 && (
        <Figure
          label="Rows with a gradient"
          value={thousands(gradients[1] ?? 0)}
          below={`was ${thousands(gradients[0] ?? 0)}`}
        />
      )}
      {(passes.onlyA > 0 || passes.onlyB > 0) && (
        <Figure
          label="Rows in both"
          value={thousands(difference.rows)}
          below={`${counted(passes.onlyA, 'other')} before, ${thousands(passes.onlyB)} after`}
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

function FacetForest({
  before,
  after,
  name,
}: {
  before: DisplayedRun
  after: DisplayedRun
  name: string
}): JSX.Element | null {
  const facets = useMemo(
    () => compareRuns(before.table, after.table, { by: name }).facets,
    [before, after, name],
  )
  const shown = facets.filter(({ difference }) => difference.rows >= fewestRows)
  if (shown.length < 2) return null
  return <Forest title={`Change of the pass rate by ${name.replaceAll('_', ' ')}`} list={shown} />
}

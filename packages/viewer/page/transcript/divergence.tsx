import {
  formatQuantity,
  divergenceOf,
  type Divergence as DivergencePlace,
  type RunTable,
} from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/protocol/trajectory'
import type { JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'

import type { ItemEnding } from '../../src/wire.ts'
import { rewardText } from '../format.ts'
import { Dot } from '../parts/dot.tsx'
import { Failure } from './failure.tsx'
import { Step } from './steps/step.tsx'
import { Verdict } from './verdict.tsx'

interface DivergenceProps {
  readonly table: RunTable
  readonly items: readonly [number, number]
  readonly trajectories: readonly [Trajectory, Trajectory]
  readonly endings: readonly [ItemEnding | null, ItemEnding | null]
}

/** Two attempts at one row side by side, from their first difference. */
export function Divergence({ table, items, trajectories, endings }: DivergenceProps): JSX.Element {
  const [all, setAll] = useState(false)
  const [a, b] = trajectories
  const divergence = useMemo(() => divergenceOf(a, b), [a, b])
  const length = Math.max(a.steps.length, b.steps.length)
  const same = divergence.at ?? length
  const first = all ? 0 : Math.max(0, same - 1)
  const places = Array.from({ length: length - first }, (_, index) => first + index)
  const { environment } = divergence
  return (
    <div class="pairs" tabIndex={0} role="region" aria-label="Two attempts">
      <div class="pair caps">
        {items.map((item) => (
          <div key={item}>
            <Dot table={table} item={item} />
            <b>Attempt {(table.document.columns.attempt[item] ?? 0) + 1}</b>
            <span>
              {table.measure} {rewardText(table.value(item))}
            </span>
          </div>
        ))}
      </div>
      {items.some((item) => table.errorType(item) !== null) && (
        <div class="pair">
          {items.map((item, side) => (
            <div key={item}>
              <Failure table={table} item={item} ending={endings[side] ?? null} />
            </div>
          ))}
        </div>
      )}
      {same > 1 && (
        <button class="fold same-steps" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? 'Hide equal steps' : `Show the ${formatQuantity(same, 'equal step')}`}
        </button>
      )}
      {environment !== null && !all && environment.at < first && (
        <button class="says fold same-steps" onClick={() => setAll(true)}>
          At step {environment.at + 1} the environment answered the same {environment.tool} call
          differently.
        </button>
      )}
      {places.map((place) => (
        <Pair key={place} place={place} divergence={divergence} trajectories={trajectories} />
      ))}
      {divergence.at === null && (
        <p class="says same-steps">
          {table.value(items[0]) === table.value(items[1])
            ? 'All steps are equal.'
            : `All steps are equal, but the ${table.measure} differs: not because of the agent.`}
        </p>
      )}
      <div class="pair">
        {items.map((item, side) => (
          <Verdict
            key={item}
            table={table}
            item={item}
            ending={endings[side] ?? null}
            trajectory={trajectories[side] ?? null}
          />
        ))}
      </div>
    </div>
  )
}

const differences: Record<NonNullable<DivergencePlace['by']>, string> = {
  source: 'First difference: the speaker.',
  text: 'First difference: the text.',
  tool: 'First difference: the tool.',
  arguments: 'First difference: the arguments.',
  end: 'First difference: one attempt ends.',
}

function Pair({
  place,
  divergence,
  trajectories,
}: {
  place: number
  divergence: DivergencePlace
  trajectories: readonly [Trajectory, Trajectory]
}): JSX.Element {
  const differsHere = place === divergence.at && divergence.by !== null
  return (
    <div class={`pair${differsHere ? ' parts' : ''}`}>
      {place === divergence.environment?.at && (
        <div class="says">The agent did the same, but the environment answered differently.</div>
      )}
      {differsHere && divergence.by !== null && (
        <div class="says">{differences[divergence.by]}</div>
      )}
      {trajectories.map((trajectory, side) => {
        const step = trajectory.steps[place]
        return <div key={side}>{step !== undefined && <Step step={step} here={false} />}</div>
      })}
    </div>
  )
}

import { numberKeys, parseQuery, type RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import type { ItemEnding } from '../../src/wire.ts'
import { rewardText } from '../format.ts'
import type { ItemProps } from '../parts/dot.tsx'
import type { Go, Route } from '../route.ts'
import { hasTerm, toggleTerm } from '../run/filter-term.ts'

/** The scores of eval functions for an item, then the metrics of its grader. */
export function scoresOf(
  table: RunTable,
  item: number,
): (readonly [name: string, value: number])[] {
  const { scores, metrics } = table.document.columns
  return [scores, metrics].flatMap((columns) =>
    Object.entries(columns).flatMap(([name, values]): [string, number][] => {
      const value = values[item] ?? null
      return value === null ? [] : [[name, value]]
    }),
  )
}

interface ScoresProps extends ItemProps {
  readonly ending: ItemEnding | null
  readonly route: Route
  readonly go: Go
}

/** The scores of an item; a click on one filters by the same score. */
export function Scores({ table, item, ending, route, go }: ScoresProps): JSX.Element | null {
  const scores = scoresOf(table, item)
  const failed = Object.entries(ending?.scoreErrors ?? {})
  if (scores.length + failed.length === 0) return null
  return (
    <div class="scores" role="group" aria-label="Scores">
      {scores.map(([name, value]) => {
        const term = termOf(table, name, value)
        const content = (
          <>
            <span class="name cut">{name}</span>
            <b>{rewardText(value)}</b>
          </>
        )
        return term === null ? (
          <span key={name} class="score" title={name}>
            {content}
          </span>
        ) : (
          <button
            key={name}
            class="score"
            aria-pressed={hasTerm(route.query, term)}
            title={`Rollouts with ${name} ${value}`}
            onClick={() => go({ query: toggleTerm(route.query, term) })}
          >
            {content}
          </button>
        )
      })}
      {failed.map(([name, message]) => (
        <span key={name} class="score" title={message}>
          <span class="name cut">{name}</span>
          <b class="alarm">failed</b>
        </span>
      ))}
    </div>
  )
}

/** Null for a name that has another meaning, or none, in a filter line. */
function termOf(table: RunTable, name: string, value: number): string | null {
  const isTaken = ['tag', ...numberKeys, ...Object.keys(table.document.rows.facets)].some(
    (key) => key.toLowerCase() === name.toLowerCase(),
  )
  if (isTaken || !/^[a-z_][\w.-]*$/i.test(name)) return null
  const term = `${name}:${value}`
  return parseQuery(term, table).problems.length === 0 ? term : null
}

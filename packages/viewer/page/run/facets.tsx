import {
  formatQuantity,
  facetFigures,
  type GroupFigures,
  toolFigures,
} from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'

import { percent } from '../format.ts'
import { type Filtering, hasTerm, textTerm, toggleTerm } from './filter-term.ts'
import type { DisplayedRun } from './use-run.ts'

/** Maximum entries of a list. */
const maxShown = 9

/** The pass rate of groups of items, the worst first; each is a filter. */
export function FacetLists({
  run,
  query,
  onQuery,
}: Filtering & { run: DisplayedRun }): JSX.Element {
  const { table } = run
  const lists = useMemo(
    () => [
      ...Object.keys(table.document.rows.facets).map((name) => ({
        title: `Pass rate by ${name.replaceAll('_', ' ')}`,
        key: name,
        groups: facetFigures(table, name),
      })),
      {
        title: 'Pass rate where a tool is used',
        key: 'tool',
        groups: toolFigures(table).map(({ name, rollouts, pass_rate: rate }) => ({
          name,
          ended: rollouts,
          passed: Math.round(rate * rollouts),
        })),
      },
    ],
    [run],
  )
  return (
    <>
      {lists.map(({ title, key, groups }) => {
        // A single group, or groups of one row each, cannot be compared.
        const shown = worstFirst(groups, table.groups.length)
        if (shown.length === 0) return null
        return (
          <section key={key} aria-label={title}>
            <h2>{title}</h2>
            {shown.map((group) => (
              <Facet
                key={group.name}
                {...{ group, query, onQuery }}
                term={textTerm(key, group.name)}
              />
            ))}
          </section>
        )
      })}
    </>
  )
}

function Facet({
  group: { name, ended, passed },
  term,
  query,
  onQuery,
}: Filtering & { group: GroupFigures; term: string }): JSX.Element {
  return (
    <button
      class="facet"
      aria-pressed={hasTerm(query, term)}
      title={`${name}: ${passed} of ${formatQuantity(ended, 'rollout')} passed`}
      onClick={() => onQuery(toggleTerm(query, term))}
    >
      <span class="name">{name.replaceAll('_', ' ')}</span>
      <span class="share">
        <i style={{ width: `${(100 * passed) / ended}%` }} />
      </span>
      <span class="rate">{percent(passed / ended, 0)}</span>
    </button>
  )
}

function worstFirst(groups: readonly GroupFigures[], rows: number): GroupFigures[] {
  const used = groups.filter(({ ended }) => ended > 0)
  if (used.length < 2 || (used.length > 20 && used.length > rows / 2)) return []
  return used
    .toSorted((a, b) => a.passed / a.ended - b.passed / b.ended || b.ended - a.ended)
    .slice(0, maxShown)
}

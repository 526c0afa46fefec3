import type { RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'

import { counted, percent } from '../format.ts'
import { hasTerm, turnTerm } from './filter-term.ts'
import type { DisplayedRun } from './use-run.ts'

/** As many of a list are shown. */
const maxShown = 9

interface Tally {
  readonly name: string
  readonly ended: number
  readonly passed: number
}

interface FacetListProps {
  readonly run: DisplayedRun
  readonly query: string
  readonly onQuery: (query: string) => void
}

/** The pass rate of groups of items, the worst first; each is a filter. */
export function FacetLists({ run, query, onQuery }: FacetListProps): JSX.Element {
  const { table } = run
  const lists = useMemo(
    () => [
      ...Object.keys(table.document.rows.facets).map((name) => ({
        title: `Pass rate by ${name.replaceAll('_', ' ')}`,
        key: name,
        tallies: facetTallies(table, name),
      })),
      {
        title: 'Pass rate where a tool is used',
        key: 'tool',
        tallies: toolTallies(table),
      },
    ],
    [run],
  )
  return (
    <>
      {lists.map(({ title, key, tallies }) => {
        // Of one group, or of groups of one row each, nothing can be compared.
        const shown = worstFirst(tallies, table.groups.length)
        if (shown.length === 0) return null
        return (
          <section key={key} aria-label={title}>
            <h2>{title}</h2>
            {shown.map((tally) => (
              <Facet
                key={tally.name}
                {...{ tally, query, onQuery }}
                term={termOf(key, tally.name)}
              />
            ))}
          </section>
        )
      })}
    </>
  )
}

function Facet({
  tally: { name, ended, passed },
  term,
  query,
  onQuery,
}: {
  tally: Tally
  term: string
  query: string
  onQuery: (query: string) => void
}): JSX.Element {
  return (
    <button
      class="facet"
      aria-pressed={hasTerm(query, term)}
      title={`${name}: ${passed} of ${counted(ended, 'rollout')} passed`}
      onClick={() => onQuery(turnTerm(query, term))}
    >
      <span class="name">{name.replaceAll('_', ' ')}</span>
      <span class="share">
        <i style={{ width: `${(100 * passed) / ended}%` }} />
      </span>
      <span class="rate">{percent(passed / ended, 0)}</span>
    </button>
  )
}

function worstFirst(tallies: readonly Tally[], rows: number): Tally[] {
  const used = tallies.filter(({ ended }) => ended > 0)
  if (used.length < 2 || (used.length > 20 && used.length > rows / 2)) return []
  return used
    .toSorted((a, b) => a.passed / a.ended - b.passed / b.ended || b.ended - a.ended)
    .slice(0, maxShown)
}

function facetTallies({ document, groups }: RunTable, name: string): Tally[] {
  const facet = document.rows.facets[name]
  const ended = new Float64Array(facet?.values.length ?? 0)
  const passed = new Float64Array(ended.length)
  for (const group of groups) {
    const place = facet?.of[group.place] ?? -1
    if (place < 0) continue
    ended[place] = (ended[place] ?? 0) + group.ended
    passed[place] = (passed[place] ?? 0) + group.passed
  }
  return (facet?.values ?? []).map((value, place) => ({
    name: value,
    ended: ended[place] ?? 0,
    passed: passed[place] ?? 0,
  }))
}

function toolTallies(table: RunTable): Tally[] {
  const { toolNames, toolUses, columns } = table.document
  const ended = new Float64Array(toolNames.length)
  const passed = new Float64Array(toolNames.length)
  for (let item = 0; item < table.size; item++) {
    if (!table.counts(item)) continue
    const use = toolUses[columns.toolUse[item] ?? -1] ?? []
    // Tool, calls, errors, and so on.
    for (let at = 0; at < use.length; at += 3) {
      const tool = use[at] ?? -1
      ended[tool] = (ended[tool] ?? 0) + 1
      if (table.passed(item)) passed[tool] = (passed[tool] ?? 0) + 1
    }
  }
  return toolNames.map((name, tool) => ({
    name,
    ended: ended[tool] ?? 0,
    passed: passed[tool] ?? 0,
  }))
}

function termOf(key: string, value: string): string {
  return `${key}:${/[\s"]/.test(value) ? `"${value.replaceAll('"', '')}"` : value}`
}

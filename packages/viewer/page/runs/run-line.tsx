import { formatCount, formatDollars, points } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import type { RunListing, RunSummary } from '../../src/wire.ts'
import { duration, margin, percent, startText, unknown } from '../format.ts'
import { comparisonHref, hrefOf } from '../route.ts'
import { textTerm } from '../run/filter-term.ts'
import { isSummary } from './run-order.ts'

interface RunLineProps {
  readonly run: RunListing
  readonly isMarked: boolean
  /** Undefined when there is only one run. */
  readonly onMark: ((name: string, isOn: boolean) => void) | undefined
}

/** A run in the list; one that is still being read, or cannot be, has its name only. */
export function RunLine({ run, isMarked, onMark }: RunLineProps): JSX.Element {
  if (!isSummary(run)) {
    return (
      <tr aria-busy={'isReading' in run}>
        {onMark !== undefined && <td />}
        <td class="name">
          {'isReading' in run ? (
            <a href={hrefOf({ page: 'run', run: run.name })}>{run.name}</a>
          ) : (
            run.name
          )}
        </td>
        <td colSpan={10} class="dim">
          {'isReading' in run ? 'reading…' : run.problem}
        </td>
      </tr>
    )
  }
  return (
    <tr class={isMarked ? 'here' : ''}>
      {onMark !== undefined && (
        <td>
          <label class="mark-box">
            <input
              type="checkbox"
              aria-label={`Mark ${run.name}`}
              checked={isMarked}
              onChange={({ currentTarget }) => onMark(run.name, currentTarget.checked)}
            />
          </label>
        </td>
      )}
      <Name run={run} />
      <td class="wide" title={run.startedAt}>
        {startText(run.startedAt)}
      </td>
      <td class="wide mono">{run.model}</td>
      <td class="wider" title={run.dataset}>
        {run.dataset.split('/').at(-1)}
      </td>
      <td class="end">{run.reward?.toFixed(3) ?? unknown}</td>
      <td class="end">
        {percent(run.passRate)}
        <span class="margin">
          {run.passRate !== null &&
            run.passInterval !== null &&
            ` ${margin(run.passRate, run.passInterval, points)}`}
        </span>
      </td>
      <td class="end wider">{percent(run.signal, 0)}</td>
      <td class="end wider">
        {formatCount(run.rows)} × {run.attempts}
      </td>
      <td class="end">
        <span class={`state ${run.state}`} title={run.reason ?? ''}>
          {run.state}
          {run.state !== 'finished' && ` ${formatCount(run.ended)} of ${formatCount(run.total)}`}
        </span>
        <Trouble
          run={run}
          query="is:failed"
          text={`${formatCount(run.failed)} failed`}
          count={run.failed}
        />
        <Trouble
          run={run}
          query="is:suspicious"
          text={`possible hacking in ${formatCount(run.suspicious)}`}
          count={run.suspicious}
        />
      </td>
      <td class="end wide">{duration(run.durationMs)}</td>
      <td class="end wider">{run.costUsd === null ? unknown : formatDollars(run.costUsd)}</td>
    </tr>
  )
}

interface TroubleProps {
  readonly run: RunSummary
  readonly query: string
  readonly text: string
  readonly count: number
}

/** Rollouts of a run that somebody should look at; nothing when there are none. */
function Trouble({ run, query, text, count }: TroubleProps): JSX.Element | null {
  if (count === 0) return null
  return (
    <div>
      <a class="alarm" href={hrefOf({ page: 'run', run: run.name, query })}>
        {text}
      </a>
    </div>
  )
}

/** The name with the tags of notes, and links to comparisons with its re-gradings. */
function Name({ run }: { run: RunSummary }): JSX.Element {
  return (
    <td class="name">
      <a href={hrefOf({ page: 'run', run: run.name })}>{run.name}</a>
      {run.tags.map((tag) => (
        <a
          key={tag}
          class="chip note"
          href={hrefOf({ page: 'run', run: run.name, query: textTerm('tag', tag) })}
        >
          {tag}
        </a>
      ))}
      {run.variants.length > 0 && (
        <div class="variants">
          {run.variants.map((variant) => (
            <a key={variant} class="dim" href={comparisonHref(run.name, variant)}>
              compare {variant.slice(run.name.length)}
            </a>
          ))}
        </div>
      )}
    </td>
  )
}

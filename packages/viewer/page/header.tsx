import { formatCount, formatQuantity } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'

import type { RunProgress } from '../src/wire.ts'
import { useKeys } from './keys.ts'
import { comparisonHref, type Go, hrefOf, type Route } from './route.ts'
import type { DisplayedRun, RunState } from './run/use-run.ts'
import { useIsLive } from './source/connection.tsx'
import type { Source } from './source/source.ts'
import { CopyButton } from './text/block.tsx'
import type { Theme, ThemeControl } from './theme.ts'

interface HeaderProps {
  readonly source: Source
  readonly route: Route
  readonly states: readonly RunState[]
  readonly control: ThemeControl
  readonly go: Go
  readonly onHelp: () => void
}

const themeNames: Record<Theme, string> = {
  light: 'Light theme',
  dark: 'Dark theme',
  system: 'System theme',
}

/** Navigation, and the progress of the run. */
export function Header({ source, route, states, control, go, onHelp }: HeaderProps): JSX.Element {
  const [state] = states
  const run = route.page === 'run' && state?.state === 'shown' ? state.run : null
  const graded = state?.state === 'shown' && state.run.canRegrade ? wholeName(state.run.name) : null
  return (
    <header class="top">
      <a class="logo" href={hrefOf({})}>
        <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
          <circle cx="6" cy="8" r="5" fill="var(--pass)" />
          <circle cx="11" cy="8" r="4.2" fill="none" stroke="var(--ink)" stroke-width="1.4" />
        </svg>
        Evaluations
      </a>
      {route.training !== '' && (
        <>
          <span class="crumb">/</span>
          <h1 class="cut" title={route.training}>
            <a href={hrefOf({ page: 'training', training: route.training })}>{route.training}</a>
          </h1>
        </>
      )}
      {route.run !== '' && (
        <>
          <span class="crumb">/</span>
          <RunLink name={route.run} />
        </>
      )}
      {route.page === 'compare' && (
        <>
          <span class="dim" aria-label="and after it">
            →
          </span>
          <RunLink name={route.other} />
        </>
      )}
      {run !== null && <Progress run={run} />}
      {run !== null && <Variants run={run} />}
      {run !== null && <span class="meta">{aboutText(run)}</span>}
      {graded !== null && <Regrade key={graded} source={source} name={graded} go={go} />}
      <span class="spring" />
      {source.held !== undefined && <span class="dim report">{reportText(run, source.held)}</span>}
      <button class="btn" onClick={control.turn} title="Light, dark, or as the system">
        {themeNames[control.theme]} <kbd>t</kbd>
      </button>
      <button class="btn" onClick={onHelp}>
        Keys <kbd>?</kbd>
      </button>
    </header>
  )
}

function RunLink({ name }: { name: string }): JSX.Element {
  return (
    <h1 class="cut" title={name}>
      <a href={hrefOf({ page: 'run', run: name })}>{name.split('/').at(-1)}</a>
    </h1>
  )
}

const stateTexts: Record<RunProgress['state'], string> = {
  running: '',
  finished: '',
  incomplete: 'incomplete, ',
  graded: 'graded ',
}

function Progress({ run: { progress } }: { run: DisplayedRun }): JSX.Element | null {
  const isLive = useIsLive()
  if (progress.state === 'finished') return null
  const wasRunning = progress.state === 'running' && !isLive
  return (
    <span class={`state ${wasRunning ? '' : progress.state}`}>
      {wasRunning ? 'last seen at ' : stateTexts[progress.state]}
      {formatCount(progress.ended)} of {formatCount(progress.total)}
    </span>
  )
}

/** Links to comparisons with its re-gradings. */
function Variants({ run }: { run: DisplayedRun }): JSX.Element | null {
  const others = run.variants.filter((variant) => variant !== run.name)
  if (others.length === 0) return null
  const whole = wholeName(run.name)
  return (
    <span class="variants">
      {others.slice(0, 3).map((variant) => (
        <a key={variant} class="btn" href={comparisonHref(run.name, variant)}>
          Compare {variant === whole ? 'the run' : variant.slice(whole.length)}
        </a>
      ))}
    </span>
  )
}

/** The name of a run without its variant. */
function wholeName(name: string): string {
  return name.split('@')[0] ?? ''
}

/** How many transcripts a report has, because only these are searched. */
function reportText(run: DisplayedRun | null, held: number): string {
  if (run === null) return 'Report'
  const { size } = run.table
  if (held === 0) return 'Report without transcripts'
  return held >= size
    ? 'Report with all transcripts'
    : `Report with ${formatCount(held)} of ${formatQuantity(size, 'transcript')}`
}

function aboutText({ table: { document } }: DisplayedRun): string {
  const rows = formatQuantity(document.rows.row.length, 'row')
  const attempts = document.attempts > 1 ? ` × ${document.attempts}` : ''
  const dataset = document.dataset.split('/').at(-1) ?? ''
  return `${document.model}, ${dataset}, ${rows}${attempts}`
}

interface RegradeProps {
  readonly source: Source
  /** The run, without a variant. */
  readonly name: string
  readonly go: Go
}

type Grading =
  | { readonly state: 'ready' }
  | { readonly state: 'grading' }
  | { readonly state: 'failed'; readonly problem: string }

/**
 * Grades the stored rollouts again with the grader as its file is now, at no cost, and shows which verdicts changed.
 */
function Regrade({ source, name, go }: RegradeProps): JSX.Element {
  const [grading, setGrading] = useState<Grading>({ state: 'ready' })
  const start = async (): Promise<void> => {
    if (grading.state === 'grading') return
    setGrading({ state: 'grading' })
    try {
      const answer = await source.regrade?.(name)
      if (answer === undefined) return
      setGrading(answer.state === 'failed' ? answer : { state: 'ready' })
      if (answer.state === 'graded') go({ page: 'compare', run: name, other: answer.name }, 'push')
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      setGrading({ state: 'failed', problem })
    }
  }
  useKeys({ r: () => void start() })
  if (grading.state !== 'failed') {
    return (
      <button
        class="btn"
        aria-busy={grading.state === 'grading'}
        title="Grade the stored rollouts again with the grader as its file is now"
        onClick={() => void start()}
      >
        {grading.state === 'grading' ? 'Grading…' : 'Re-grade'} <kbd>r</kbd>
      </button>
    )
  }
  return (
    <span class="alarm" role="alert">
      Not graded: {grading.problem} <CopyButton text={grading.problem} />{' '}
      <button class="btn" onClick={() => setGrading({ state: 'ready' })}>
        Close
      </button>
    </span>
  )
}

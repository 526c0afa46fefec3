import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

import { ComparePage } from './compare/compare-page.tsx'
import { Header } from './header.tsx'
import { keyHelp, useKeys } from './keys.ts'
import { type Go, hrefOf, type Route, useRoute } from './route.ts'
import { RunPage } from './run/run-page.tsx'
import { type RunState, useRun } from './run/use-run.ts'
import { noChoices, RunsPage } from './runs/runs-page.tsx'
import { ConnectionNotice, LiveProvider, useConnection } from './source/connection.tsx'
import type { Source } from './source/source.ts'
import { Boundary } from './text/boundary.tsx'
import { useTheme } from './theme.ts'
import { TrainingPage } from './training/training-page.tsx'
import { type TrainingState, useTraining } from './training/use-training.ts'

interface ViewProps {
  readonly source: Source
  readonly route: Route
  readonly go: Go
  readonly look: string
  /** Draws the page under its header. */
  readonly frame: (content: JSX.Element, states: readonly RunState[]) => JSX.Element
}

export function App({ source }: { source: Source }): JSX.Element {
  const [route, go] = useRoute(source.only)
  const control = useTheme()
  const connection = useConnection(source)
  const [isHelping, setIsHelping] = useState(false)
  useKeys({ t: control.turn, '?': () => setIsHelping(true) })
  const shown = route.page === 'training' ? route.training : route.run
  const [choices, setChoices] = useState(noChoices)
  const title = titleOf(route)
  useEffect(() => {
    document.title = title
  }, [title])
  const { look } = control
  const frame: ViewProps['frame'] = (content, states) => (
    <LiveProvider value={connection === 'live'}>
      <div class="app">
        <Header {...{ source, route, states, control, go }} onHelp={() => setIsHelping(true)} />
        {/* The list of runs says it in its place. */}
        {route.page !== 'runs' && <ConnectionNotice connection={connection} />}
        <Boundary of={shown} instead={() => <Waiting state={undrawn} />}>
          {content}
        </Boundary>
        {isHelping && <Help onClose={() => setIsHelping(false)} />}
      </div>
    </LiveProvider>
  )
  const view = { source, route, go, look, frame }
  if (route.page === 'run') return <OneRun key={route.run} {...view} />
  if (route.page === 'compare') return <TwoRuns key={`${route.run}/${route.other}`} {...view} />
  if (route.page === 'training') return <OneTraining key={route.training} {...view} />
  return frame(<RunsPage {...{ source, go, choices }} onChoices={setChoices} />, [])
}

function titleOf({ page, run, other, training }: Route): string {
  if (page === 'runs') return 'Evaluations'
  const what = { run, compare: `${run} → ${other}`, training }[page]
  return `${what} · Evaluations`
}

const undrawn = { state: 'failed', problem: 'The page cannot draw what it says.' } as const

function OneRun({ source, route, go, look, frame }: ViewProps): JSX.Element {
  const state = useRun(source, route.run)
  const content =
    state.state === 'shown' ? (
      <RunPage {...{ source, route, go, look }} run={state.run} />
    ) : (
      <Waiting state={state} />
    )
  return frame(content, [state])
}

function OneTraining({ source, route, go, frame }: ViewProps): JSX.Element {
  const state = useTraining(source, route.training)
  const content =
    state.state === 'shown' ? (
      <TrainingPage {...{ source, go }} training={state.training} />
    ) : (
      <Waiting state={state} what="training" />
    )
  return frame(content, [])
}

function TwoRuns({ source, route, look, frame }: ViewProps): JSX.Element {
  const before = useRun(source, route.run)
  const after = useRun(source, route.other)
  const content =
    before.state === 'shown' && after.state === 'shown' ? (
      <ComparePage before={before.run} after={after.run} look={look} />
    ) : (
      <Waiting state={before.state === 'failed' ? before : after} />
    )
  return frame(content, [before, after])
}

function Waiting({
  state,
  what = 'run',
}: {
  state: RunState | TrainingState
  what?: 'run' | 'training'
}): JSX.Element {
  if (state.state !== 'failed') return <main class="empty" aria-busy="true" />
  return (
    <main class="empty">
      <b>The {what} cannot be read</b>
      <p>{state.problem}</p>
      <p>
        <a class="btn" href={hrefOf({})}>
          All runs
        </a>
      </p>
    </main>
  )
}

function Help({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog class="help" ref={dialog} aria-label="Keys" onClose={onClose}>
      <div>
        <h2>
          Keys
          <button class="btn" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </h2>
        {keyHelp.map(([keys, what]) => (
          <>
            <span class="keys">
              {keys.split(' ').map((key) => (key === '–' ? '–' : <kbd>{key}</kbd>))}
            </span>
            <span>{what}</span>
          </>
        ))}
      </div>
    </dialog>
  )
}

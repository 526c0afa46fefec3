import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

import { ComparePage } from './compare/compare-page.tsx'
import { Header } from './header.tsx'
import { keyHelp, useKeys } from './keys.ts'
import { type Go, type Route, useRoute } from './route.ts'
import { RunPage } from './run/run-page.tsx'
import { type RunState, useRun } from './run/use-run.ts'
import { RunsPage } from './runs/runs-page.tsx'
import type { Source } from './source/source.ts'
import { useTheme } from './theme.ts'

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
  const [isHelping, setIsHelping] = useState(false)
  useKeys({ t: control.turn, '?': () => setIsHelping(true) })
  const title = route.page === 'runs' ? 'Evaluations' : `${route.run} · Evaluations`
  useEffect(() => {
    document.title = title
  }, [title])
  const { look } = control
  const frame: ViewProps['frame'] = (content, states) => (
    <div class="app">
      <Header {...{ source, route, states, control }} onHelp={() => setIsHelping(true)} />
      {content}
      {isHelping && <Help onClose={() => setIsHelping(false)} />}
    </div>
  )
  const view = { source, route, go, look, frame }
  if (route.page === 'run') return <OneRun key={route.run} {...view} />
  if (route.page === 'compare') return <TwoRuns key={`${route.run}/${route.other}`} {...view} />
  return frame(<RunsPage source={source} go={go} />, [])
}

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

function Waiting({ state }: { state: RunState }): JSX.Element {
  if (state.state !== 'failed') return <main class="empty" aria-busy="true" />
  return (
    <main class="empty">
      <b>The run cannot be read</b>
      {state.problem}
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

import { callsBeside, counterpartOf, runOutputOf } from '@osmosis/eval/analysis'
import type { Trajectory, TrajectoryStep } from '@osmosis/protocol/trajectory'
import type { JSX, RefObject } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'

import type { ItemEnding, TranscriptAnswer } from '../../src/wire.ts'
import { type Keys, useKeys } from '../keys.ts'
import type { Go, Route } from '../route.ts'
import type { ItemProps } from '../parts/dot.tsx'
import type { DisplayedRun } from '../run/use-run.ts'
import type { Source, OmittedTranscript } from '../source/source.ts'
import { Block, Raw } from '../text/block.tsx'
import { Boundary } from '../text/boundary.tsx'
import { Failure } from './failure.tsx'
import { Divergence } from './divergence.tsx'
import { NoteForm, noteFieldId, type OnNote } from '../note/note-form.tsx'
import { ReaderHead } from './reader-head.tsx'
import { isNotable, kindOf } from './step-facts.ts'
import { Step } from './step.tsx'
import { Verdict } from './verdict.tsx'

/** More bars than this have no gaps between them. */
const maxBarsWithGaps = 120

/** A bar for each step, as wide as its tokens, red where a tool failed. */
function Timeline({
  steps,
  at,
  onGo,
}: {
  steps: readonly TrajectoryStep[]
  /** The id of the selected step; 0 for none. */
  at: number
  onGo: (stepId: number) => void
}): JSX.Element {
  const written = steps.map((step) => step.metrics?.completion_tokens ?? 8)
  const most = Math.max(1, ...written)
  return (
    <div
      class={`timeline${steps.length > maxBarsWithGaps ? ' dense' : ''}`}
      role="group"
      aria-label="Steps"
    >
      {steps.map((step, index) => (
        <button
          key={step.step_id}
          // Hundreds of bars are not in the tab order; n, p and the scroll bar remain.
          tabIndex={steps.length > maxBarsWithGaps ? -1 : 0}
          class={kindOf(step)}
          style={{ flexGrow: 1 + (5 * (written[index] ?? 0)) / most }}
          title={titleOf(step)}
          aria-label={titleOf(step)}
          aria-current={step.step_id === at ? 'step' : undefined}
          onClick={() => onGo(step.step_id)}
        />
      ))}
    </div>
  )
}

function titleOf(step: TrajectoryStep): string {
  const called = step.tool_calls?.map(({ function_name: name }) => name).join(', ')
  const tokens = step.metrics?.completion_tokens
  const cost = tokens === undefined || tokens === null ? '' : `, ${tokens} tokens`
  return `Step ${step.step_id}: ${called || step.source}${cost}`
}

export interface ReaderProps {
  readonly source: Source
  readonly run: DisplayedRun
  readonly item: number
  readonly route: Route
  readonly go: Go
  readonly onPick: (item: number | null) => void
  /** Null in a report. */
  readonly onNote: OnNote | null
}

/** The transcript of a rollout; one that cannot be drawn keeps no other from being read. */
export function Reader(props: ReaderProps): JSX.Element {
  const { run, item, route, onPick } = props
  const failed = (): JSX.Element => (
    <section class="reader" aria-label="Transcript">
      <div class="empty">
        <b>This rollout cannot be shown</b>
        Its text is in the files of the run; osmosis eval show prints it.
        <button class="btn" onClick={() => onPick(null)}>
          Close <kbd>esc</kbd>
        </button>
      </div>
    </section>
  )
  return (
    <Boundary of={`${run.name} ${item} ${route.sample} ${route.divergence}`} instead={failed}>
      <DrawnReader {...props} />
    </Boundary>
  )
}

/** Alone or beside another attempt at the row. */
function DrawnReader(props: ReaderProps): JSX.Element {
  const { source, run, item, route, go, onPick, onNote } = props
  const { table } = run
  const transcript = useTranscript(source, run, item)
  const other = useMemo(() => counterpartOf(table, item), [run, item])
  const beside = route.divergence ? other : null
  const otherTranscript = useTranscript(source, run, beside)
  const samples = transcript.state === 'found' ? Object.keys(transcript.samples) : []
  const sample = samples.includes(route.sample) ? route.sample : samples[0]
  const trajectory = trajectoryOf(transcript, sample)
  const otherTrajectory = beside === null ? null : trajectoryOf(otherTranscript, sample)

  const ending = endingOf(transcript)
  const nextSample = (): void => {
    const next = samples[(samples.indexOf(sample ?? '') + 1) % samples.length]
    if (next !== undefined) go({ sample: next })
  }
  const [isRaw, setIsRaw] = useState(false)
  const section = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    const { current } = section
    // Where the page scrolls as a whole, it may stand anywhere.
    const steps = current?.querySelector('.steps, .pairs') ?? null
    if (scrollerOf(steps) === document.scrollingElement) current?.scrollIntoView()
  }, [item])
  useKeptFocus(section, `${item} ${sample} ${beside} ${transcript.state}`)
  useKeys({
    ...scrollKeys(() => scrollerOf(section.current?.querySelector('.steps, .pairs') ?? null)),
    m: () => setIsRaw(!isRaw),
    d: other === null ? undefined : () => go({ divergence: !route.divergence }),
    s: samples.length > 1 ? nextSample : undefined,
    a: onNote === null ? undefined : () => document.getElementById(noteFieldId)?.focus(),
  })

  return (
    <section class="reader" aria-label="Transcript" ref={section}>
      <ReaderHead
        {...{ run, item, ending, trajectory, other, route, go, onPick, samples, sample, isRaw }}
        onRaw={setIsRaw}
      />
      <Raw.Provider value={isRaw}>
        {trajectory === null ? (
          <Absent {...{ table, item, transcript }} />
        ) : beside === null ? (
          <Conversation key={`${item} ${sample}`} {...{ table, item, ending, trajectory }} />
        ) : otherTrajectory === null ? (
          <Absent {...{ table, item: beside, transcript: otherTranscript }} />
        ) : (
          <Divergence
            key={`${item} ${beside} ${sample}`}
            table={table}
            items={[item, beside]}
            trajectories={[trajectory, otherTrajectory]}
            endings={[ending, endingOf(otherTranscript)]}
          />
        )}
      </Raw.Provider>
      <NoteForm table={table} item={item} run={run.name} onNote={onNote} />
    </section>
  )
}

/** Another conversation takes the place of the one that has the focus: then it has the focus. */
function useKeptFocus(section: RefObject<HTMLElement | null>, shown: string): void {
  const isWithin = useRef(false)
  useEffect(() => {
    const note = (): void => {
      isWithin.current = section.current?.contains(document.activeElement) === true
    }
    note()
    document.addEventListener('focusin', note)
    return () => document.removeEventListener('focusin', note)
  }, [])
  useLayoutEffect(() => {
    const region = section.current?.querySelector<HTMLElement>('[role="region"]')
    if (isWithin.current && document.activeElement === document.body)
      region?.focus({ preventScroll: true })
  }, [shown])
}

/** What scrolls a part of the page: the part itself, or the page as a whole where there is little room. */
function scrollerOf(part: Element | null): Element | null {
  const scrolls = part !== null && getComputedStyle(part).overflowY === 'auto'
  return scrolls ? part : document.scrollingElement
}

/** Keys that scroll the transcript, wherever the focus is. */
function scrollKeys(find: () => Element | null): Keys {
  const by = (pages: number) => () => {
    const list = find()
    list?.scrollBy({ top: pages * (list.clientHeight - 60) })
  }
  const to = (end: boolean) => () => {
    const list = find()
    list?.scrollTo({ top: end ? list.scrollHeight : 0 })
  }
  return { ' ': by(1), PageDown: by(1), PageUp: by(-1), Home: to(false), End: to(true) }
}

/** The steps with a timeline; n and p select the next and previous error. */
function Conversation({
  table,
  item,
  ending,
  trajectory,
}: ItemProps & { ending: ItemEnding | null; trajectory: Trajectory }): JSX.Element {
  const { steps } = trajectory
  const [at, setAt] = useState(0)
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const step = list.current?.querySelector(`[data-step="${at}"]`)
    // Twice, because steps get their height only when they come into view.
    step?.scrollIntoView({ block: 'start' })
    requestAnimationFrame(() => step?.scrollIntoView({ block: 'start' }))
  }, [at])
  const marks = steps.filter(isNotable).map(({ step_id: id }) => id)
  const goTo = (id: number | undefined): void => {
    if (id !== undefined) setAt(id)
  }
  useKeys({
    n: () => goTo(marks.find((id) => id > at)),
    p: () => goTo(marks.findLast((id) => id < at)),
  })
  return (
    <>
      <Boundary of={steps} instead={() => null}>
        <Timeline steps={steps} at={at} onGo={setAt} />
      </Boundary>
      <div class="steps" ref={list} tabIndex={0} role="region" aria-label="What was said">
        <Boundary of={ending} instead={() => ending?.error}>
          <Failure {...{ table, item, ending }} />
        </Boundary>
        {steps.map((step) => (
          <Step key={step.step_id} step={step} here={step.step_id === at} />
        ))}
        <Output trajectory={trajectory} />
        {callsBeside(trajectory).map((notes, index) => (
          <div key={index} class="mark">{`another model call: ${notes.join(', ')}`}</div>
        ))}
        <Boundary of={ending} instead={() => null}>
          <Verdict {...{ table, item, ending, trajectory }} />
        </Boundary>
      </div>
    </>
  )
}

/** What `run()` of the workflow returned; nothing when it returned no JSON data. */
function Output({ trajectory }: { trajectory: Trajectory }): JSX.Element | null {
  const output = runOutputOf(trajectory)
  if (output === undefined) return null
  return (
    <div class="step agent" role="group" aria-label="Output of run()">
      <div class="who">
        <b>output</b>
        <div>of run()</div>
      </div>
      <div class="said">
        <Block text={output.whole} characters={4000} />
      </div>
    </div>
  )
}

function Absent({
  table,
  item,
  transcript,
}: ItemProps & { transcript: TranscriptState }): JSX.Element {
  const [title, detail] = absenceText(transcript)
  const ending = endingOf(transcript)
  return (
    <div class="steps" tabIndex={0} role="region" aria-label="What was said">
      {title !== '' && (
        <>
          <div class="empty">
            <b>{title}</b>
            {detail}
          </div>
          <Failure {...{ table, item, ending }} />
          <Verdict {...{ table, item, ending }} trajectory={null} />
        </>
      )}
    </div>
  )
}

/** The sample of this name, or else the first one. */
function trajectoryOf(transcript: TranscriptState, sample: string | undefined): Trajectory | null {
  if (transcript.state !== 'found') return null
  const { samples } = transcript
  if (sample !== undefined && Object.hasOwn(samples, sample)) return samples[sample] ?? null
  return Object.values(samples)[0] ?? null
}

/** The transcript of an item, or why it is not shown. */
type TranscriptState =
  | TranscriptAnswer
  | OmittedTranscript
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly problem: string }

/** Reads the transcript of an item. The previous one stays until the next is loaded. */
function useTranscript(
  source: Source,
  { name, table }: Pick<DisplayedRun, 'name' | 'table'>,
  item: number | null,
): TranscriptState {
  const [state, setState] = useState<TranscriptState>({ state: 'loading' })
  const { row, attempt, endedSeconds } = table.document.columns
  // An item that ends again has another transcript.
  const ended = item === null ? null : endedSeconds[item]
  useEffect(() => {
    if (item === null) return undefined
    let isCancelled = false
    const show = (next: TranscriptState): void => {
      if (!isCancelled) setState(next)
    }
    source.transcript(name, [row[item] ?? 0, attempt[item] ?? 0]).then(show, (error: unknown) => {
      show({ state: 'failed', problem: error instanceof Error ? error.message : String(error) })
    })
    return () => {
      isCancelled = true
    }
  }, [source, name, item, ended])
  return state
}

/** How the item ended; null while unknown. */
function endingOf(transcript: TranscriptState): ItemEnding | null {
  return 'ending' in transcript ? transcript.ending : null
}

/** Why there is nothing to read. */
function absenceText(transcript: TranscriptState): readonly [title: string, detail: string] {
  switch (transcript.state) {
    case 'silent':
      return ['No conversation', 'The rollout ended before it called the policy.']
    case 'missing':
      return [
        'The transcript is missing',
        'Its file was removed. Figures still include the rollout.',
      ]
    case 'damaged':
      return [
        'The transcript is damaged',
        'Its file was changed or is damaged. Figures still include the rollout.',
      ]
    case 'omitted':
      return [
        'Not in this report',
        'Export the report with --transcripts all to include every transcript.',
      ]
    case 'failed':
      return ['The transcript cannot be read', transcript.problem]
    case 'found':
    case 'loading':
      return ['', '']
  }
}

import { callsBeside, counterpartOf, runOutputOf } from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/protocol/trajectory'
import type { JSX, RefObject } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'

import type { ItemEnding } from '../../src/wire.ts'
import { type Keys, useKeys } from '../keys.ts'
import { NoteForm, noteFieldId, type OnNote } from '../note/note-form.tsx'
import type { ItemProps } from '../parts/dot.tsx'
import type { Go, Route } from '../route.ts'
import type { DisplayedRun } from '../run/use-run.ts'
import type { Source } from '../source/source.ts'
import { Block, Raw } from '../text/block.tsx'
import { Boundary } from '../text/boundary.tsx'
import { Divergence } from './divergence.tsx'
import { Failure } from './failure.tsx'
import { ReaderHead } from './reader-head.tsx'
import { isNotable } from './steps/step-facts.ts'
import { Step } from './steps/step.tsx'
import { Timeline } from './steps/timeline.tsx'
import {
  absenceText,
  endingOf,
  type TranscriptState,
  trajectoryOf,
  useTranscript,
} from './transcript-state.ts'
import { Verdict } from './verdict.tsx'

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
  const marks = steps.filter(isNotable).map(({ step_id: id }) => id)
  const goTo = (id: number | undefined): void => {
    if (id === undefined) return
    setAt(id)
    // Not in an effect: who scrolled away and selects the same step again wants to see it again.
    const step = list.current?.querySelector(`[data-step="${id}"]`)
    step?.scrollIntoView({ block: 'start' })
    // Twice, because steps get their height only when they come into view.
    requestAnimationFrame(() => step?.scrollIntoView({ block: 'start' }))
  }
  useKeys({
    n: () => goTo(marks.find((id) => id > at)),
    p: () => goTo(marks.findLast((id) => id < at)),
  })
  return (
    <>
      <Boundary of={steps} instead={() => null}>
        <Timeline steps={steps} at={at} onGo={goTo} />
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

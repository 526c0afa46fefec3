import type { Trajectory } from '@osmosis/runtime/trajectory'
import { counterpartOf } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'

import type { ItemEnding } from '../../src/wire.ts'
import { useKeys } from '../keys.ts'
import type { Go, Route } from '../route.ts'
import type { DisplayedRun } from '../run/use-run.ts'
import type { Source } from '../source/source.ts'
import { Failure } from './failure.tsx'
import { NoteForm, noteFieldId } from './note-form.tsx'
import { Parting } from './parting.tsx'
import { ReaderHead } from './reader-head.tsx'
import { isNotable } from './step-facts.ts'
import { Step } from './step.tsx'
import { Timeline } from './timeline.tsx'
import { absenceText, endingOf, type TranscriptState, useTranscript } from './use-transcript.ts'
import { Verdict } from './verdict.tsx'

export interface ReaderProps {
  readonly source: Source
  readonly run: DisplayedRun
  readonly item: number
  readonly route: Route
  readonly go: Go
  readonly onPick: (item: number | null) => void
  readonly onNote: ((tag: string, text: string) => void) | null
}

/** What was said in a rollout, alone or beside another attempt at the row. */
export function Reader(props: ReaderProps): JSX.Element {
  const { source, run, item, route, go, onPick, onNote } = props
  const { table } = run
  const transcript = useTranscript(source, run, item)
  const other = useMemo(() => counterpartOf(table, item), [run, item])
  const beside = route.parting ? other : null
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
  useKeys({
    d: other === null ? undefined : () => go({ parting: !route.parting }),
    s: samples.length > 1 ? nextSample : undefined,
    a: onNote === null ? undefined : () => document.getElementById(noteFieldId)?.focus(),
  })

  return (
    <section class="reader" aria-label="Transcript">
      <ReaderHead {...{ run, item, ending, other, route, go, onPick, samples, sample }} />
      {trajectory === null ? (
        <Absent {...{ table, item, transcript }} />
      ) : beside === null ? (
        <Conversation key={`${item} ${sample}`} {...{ table, item, ending, trajectory }} />
      ) : otherTrajectory === null ? (
        <Absent {...{ table, item: beside, transcript: otherTranscript }} />
      ) : (
        <Parting
          key={`${item} ${beside} ${sample}`}
          table={table}
          items={[item, beside]}
          trajectories={[trajectory, otherTrajectory]}
          endings={[ending, endingOf(otherTranscript)]}
        />
      )}
      <NoteForm table={table} item={item} onNote={onNote} />
    </section>
  )
}

interface ConversationProps {
  readonly table: DisplayedRun['table']
  readonly item: number
  readonly ending: ItemEnding | null
  readonly trajectory: Trajectory
}

/** The steps from the first to the last, with a timeline; n and p go from error to error. */
function Conversation({ table, item, ending, trajectory }: ConversationProps): JSX.Element {
  const { steps } = trajectory
  const [at, setAt] = useState(0)
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const step = list.current?.querySelector(`[data-step="${at}"]`)
    // Twice: what comes into view gets its height only then.
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
      <Timeline steps={steps} at={at} onGo={setAt} />
      <div class="steps" ref={list} tabIndex={0} role="region" aria-label="What was said">
        <Failure {...{ table, item, ending }} />
        {steps.map((step) => (
          <Step key={step.step_id} step={step} here={step.step_id === at} />
        ))}
        <Verdict {...{ table, item, ending, trajectory }} />
      </div>
    </>
  )
}

function Absent({
  table,
  item,
  transcript,
}: {
  table: DisplayedRun['table']
  item: number
  transcript: TranscriptState
}): JSX.Element {
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

/** The sample of this name; a rollout whose only sample has another name is the same one. */
function trajectoryOf(transcript: TranscriptState, sample: string | undefined): Trajectory | null {
  if (transcript.state !== 'found') return null
  const { samples } = transcript
  if (sample !== undefined && Object.hasOwn(samples, sample)) return samples[sample] ?? null
  return Object.values(samples)[0] ?? null
}

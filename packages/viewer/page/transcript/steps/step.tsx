import {
  formatCount,
  formatQuantity,
  answeredCalls,
  callNotes,
  isToolError,
  samplingText,
  seamText,
  shownContent,
  type ShownImage,
} from '@osmosis/eval/analysis'
import type { TrajectoryStep, TrajectoryToolCall } from '@osmosis/protocol/trajectory'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'

import { duration, oneLine } from '../../format.ts'
import { usePrinting } from '../../media/printing.ts'
import { Block } from '../../text/block.tsx'
import { Boundary, plainText } from '../../text/boundary.tsx'
import { LongText } from '../../text/long-text.tsx'
import { finishReason, latency, rewrittenFrom, rewroteHistory } from './step-facts.ts'

interface StepProps {
  readonly step: TrajectoryStep
  readonly here: boolean
}

/** One message of a conversation with its tool calls, as plain text where it cannot be drawn. */
export function Step(props: StepProps): JSX.Element {
  const plain = (): JSX.Element => (
    <div class="step">
      <div class="who" />
      <LongText text={plainText(props.step)} characters={1400} />
    </div>
  )
  return (
    <Boundary of={props.step} instead={plain}>
      <DrawnStep {...props} />
    </Boundary>
  )
}

/** A long system message is folded. */
function DrawnStep({ step, here }: StepProps): JSX.Element {
  const { text, images } = shownContent(step.message)
  const folds = step.source === 'system' && text.length > 120
  const [isUnfolded, setIsUnfolded] = useState(!folds)
  const open = usePrinting() || isUnfolded
  const tokens = step.metrics?.completion_tokens ?? null
  const tookMs = latency(step)
  const seam = seamText(step)
  return (
    <>
      {seam !== undefined && <div class="mark seam">{seam}</div>}
      {rewroteHistory(step) && (
        <div class="mark">
          history rewritten before this step{rewrittenFrom(step)}: a trainer splits here
        </div>
      )}
      <div class={`step ${step.source}${here ? ' here' : ''}`} data-step={step.step_id}>
        <div class="who">
          <b>{step.source}</b>
          {tokens !== null && <div>{formatCount(tokens)} tok</div>}
          {tookMs !== null && <div>{duration(tookMs)}</div>}
          {callNotes(step.metrics?.extra).map((note) => (
            <div key={note} title={samplingText(step.metrics?.extra)}>
              {note}
            </div>
          ))}
        </div>
        <div>
          {!open && (
            <button class="fold folded" onClick={() => setIsUnfolded(true)}>
              {`${formatQuantity(text.length, 'character')}: ${oneLine(text.slice(0, 200))}`}
            </button>
          )}
          {open && step.reasoning_content && (
            <div class="think">
              <Block text={step.reasoning_content} characters={1400} />
            </div>
          )}
          {open && text !== '' && (
            <div class="said">
              <Block text={text} characters={step.source === 'system' ? 20_000 : 1400} />
            </div>
          )}
          {open && <Images images={images} />}
          {open && <ToolCalls step={step} />}
          {finishReason(step) === 'length' && (
            <span class="chip warn">cut off: finish_reason length</span>
          )}
        </div>
      </div>
    </>
  )
}

type Result = NonNullable<TrajectoryStep['observation']>['results'][number]

/** The tool calls of a step with their results. */
function ToolCalls({ step }: { step: TrajectoryStep }): JSX.Element {
  const results = step.observation?.results ?? []
  const calls = answeredCalls(step)
  const shown = new Set(calls.map(({ result }) => result))
  const others = results.filter((result) => !shown.has(result))
  return (
    <>
      {calls.map(({ call, result }, index) => (
        <ToolCall key={index} call={call} result={result} />
      ))}
      {others.map((result, index) => (
        <div key={index} class={`call${isToolError(result) ? ' bad' : ''}`}>
          <ToolResult result={result} />
        </div>
      ))}
    </>
  )
}

function ToolCall({
  call,
  result,
}: {
  call: TrajectoryToolCall
  result: Result | undefined
}): JSX.Element {
  const isShort = Object.keys(call.arguments).length <= 3
  const args = isShort ? JSON.stringify(call.arguments) : plainText(call.arguments)
  const bad = result !== undefined && isToolError(result)
  return (
    <div class={`call${bad ? ' bad' : ''}`}>
      <div class="sig">
        <b>{call.function_name}</b> <LongText text={args} characters={1200} lines={16} />
      </div>
      {result === undefined ? (
        <div class="result missing">no result</div>
      ) : (
        <ToolResult result={result} />
      )}
    </div>
  )
}

function ToolResult({ result }: { result: Result }): JSX.Element {
  const { text, images } = shownContent(result.content)
  if (text === '') return <div class="result missing">empty result</div>
  return (
    <div class="result">
      <Block text={text} characters={1200} lines={12} />
      <Images images={images} />
    </div>
  )
}

/** Thumbnails of the images of a message or result; a click shows one in full size. */
function Images({ images }: { images: readonly ShownImage[] }): JSX.Element | null {
  const own = images.filter(({ dataUrl }) => dataUrl !== undefined)
  if (own.length === 0) return null
  return (
    <div class="images">
      {own.map(({ name, dataUrl }, index) => (
        <details key={index}>
          <summary>
            <img src={dataUrl} alt={name} title={name} />
          </summary>
          <img src={dataUrl} alt={name} />
        </details>
      ))}
    </div>
  )
}

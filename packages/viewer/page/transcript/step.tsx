import type { TrajectoryStep } from '@osmosis/runtime/trajectory'
import { shownContent } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'

import { counted, duration, oneLine, thousands } from '../format.ts'
import { LongText } from './long-text.tsx'
import { Images } from './images.tsx'
import { finishReason, latency, rewroteHistory } from './step-facts.ts'
import { ToolCalls } from './tool-call.tsx'

/** One message of a conversation with the tools that it calls; what is asked of the system is folded. */
export function Step({ step, here }: { step: TrajectoryStep; here: boolean }): JSX.Element {
  const { text, images } = shownContent(step.message)
  const folds = step.source === 'system' && text.length > 120
  const [open, setOpen] = useState(!folds)
  const tokens = step.metrics?.completion_tokens ?? null
  const tookMs = latency(step)
  return (
    <>
      {rewroteHistory(step) && (
        <div class="mark">history rewritten before this step: a trainer splits here</div>
      )}
      <div class={`step ${step.source}${here ? ' here' : ''}`} data-step={step.step_id}>
        <div class="who">
          <b>{step.source}</b>
          {tokens !== null && <div>{thousands(tokens)} tok</div>}
          {tookMs !== null && <div>{duration(tookMs)}</div>}
        </div>
        <div>
          {!open && (
            <button class="fold folded" onClick={() => setOpen(true)}>
              {`${counted(text.length, 'character')}: ${oneLine(text.slice(0, 200))}`}
            </button>
          )}
          {open && step.reasoning_content && (
            <div class="think">
              <LongText text={step.reasoning_content} characters={1400} />
            </div>
          )}
          {open && text !== '' && (
            <div class="said">
              <LongText text={text} characters={step.source === 'system' ? 20_000 : 1400} />
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

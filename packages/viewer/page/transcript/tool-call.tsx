import type { TrajectoryStep, TrajectoryToolCall } from '@osmosis/runtime/trajectory'
import { isToolError, shownContent } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { LongText } from './long-text.tsx'
import { Images } from './images.tsx'

type Result = NonNullable<TrajectoryStep['observation']>['results'][number]

/** The tools that a step calls, each with its result. */
export function ToolCalls({ step }: { step: TrajectoryStep }): JSX.Element {
  const results = step.observation?.results ?? []
  const calls = step.tool_calls ?? []
  const others = results.filter(
    ({ source_call_id: id }) => !calls.some(({ tool_call_id: own }) => own === id),
  )
  return (
    <>
      {calls.map((call) => (
        <ToolCall
          key={call.tool_call_id}
          call={call}
          result={results.find(({ source_call_id: id }) => id === call.tool_call_id)}
        />
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
  const few = Object.keys(call.arguments).length <= 3
  const args = JSON.stringify(call.arguments, null, few ? 0 : 2)
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
      <LongText text={text} characters={1200} lines={12} />
      <Images images={images} />
    </div>
  )
}

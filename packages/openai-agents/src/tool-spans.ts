import { getCurrentSpan } from '@openai/agents'
import { getRolloutContext } from '@osmosis/core'
import { traceOf, type ToolTrace } from '@osmosis/core/tracing'

import { currentRecord, currentScope, type RunScope } from './run-scope.ts'

/** What is used of a `Runner`: it tells of the tools of all its runs. */
interface ToolEvents {
  on(event: 'agent_tool_start', listener: (...args: ToolStart) => void): unknown
  on(event: 'agent_tool_end', listener: (...args: ToolEnd) => void): unknown
}

type ToolStart = [run: unknown, agent: unknown, tool: NamedTool, details: CallDetails]
type ToolEnd = [
  run: unknown,
  agent: unknown,
  tool: NamedTool,
  result: unknown,
  details: CallDetails,
]

interface NamedTool {
  readonly name: string
}

interface CallDetails {
  readonly toolCall: { readonly callId?: string }
}

/** What is used of the SDK's own span of a tool call. */
interface FailingSpan {
  readonly spanData: { readonly type: string }
  setError(error: unknown): void
}

interface OpenCall {
  readonly id: string | undefined
  readonly tool: NamedTool
  readonly trace: ToolTrace
  failed: boolean
}

const followed = new WeakSet<object>()
const openCalls = new WeakMap<RunScope, OpenCall[]>()

/** Makes spans of the tools of a runner, whose runs may be those of many rollouts at once. */
export function traceTools(runner: object): void {
  if (traceOf(getRolloutContext()) === undefined || followed.has(runner)) return
  followed.add(runner)
  const events = runner as ToolEvents
  events.on('agent_tool_start', (_run, _agent, tool, { toolCall }) => begin(tool, toolCall.callId))
  events.on('agent_tool_end', (_run, _agent, tool, _result, { toolCall }) => {
    const scope = currentScope()
    const open = (scope && openCalls.get(scope)) ?? []
    const index = open.findIndex((call) => call.id === toolCall.callId && call.tool === tool)
    const [call] = index < 0 ? [] : open.splice(index, 1)
    if (call?.failed) call.trace.fail()
    else call?.trace.end()
  })
}

function begin(tool: NamedTool, id: string | undefined): void {
  // Events come in the async context of their run.
  const scope = currentScope()
  const sampleId = currentRecord()?.name
  const trace = traceOf(getRolloutContext())?.tool(sampleId, { name: tool.name, id })
  if (scope === undefined || trace === undefined) return
  const call: OpenCall = { id, tool, trace, failed: false }
  const open = openCalls.get(scope)
  if (open === undefined) openCalls.set(scope, [call])
  else open.push(call)
  noticeFailure(call)
}

/**
 * The result that the SDK tells of is a text, whether the tool gave it or its error became one. The
 * SDK's own span of the call is told the difference, even where its tracing is off.
 */
function noticeFailure(call: OpenCall): void {
  const span: FailingSpan | null = getCurrentSpan()
  if (span?.spanData.type !== 'function') return
  const setError = span.setError.bind(span)
  span.setError = (error) => {
    call.failed = true
    setError(error)
  }
}

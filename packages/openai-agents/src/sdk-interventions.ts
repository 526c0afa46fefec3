// Everything that this package changes in the SDK, because the SDK has no public point for it. Each has its reason
// in docs/contributing/framework-interventions.md.
import { type AgentInputItem, Runner, getCurrentSpan, setTracingDisabled } from '@openai/agents'
import { getRolloutContext } from '@osmosis/core'
import { traceOf, type ToolTrace } from '@osmosis/core/tracing'

import { isChatMessage, toAgentInput } from './agent-input.ts'
import { joinedInput } from './own-history.ts'
import { noteRunError } from './policy-faults.ts'
import { currentScope, type RunScope, withScope, currentRecord } from './run-scope.ts'
import { commonJsTwin } from './sdk-copies.ts'
import { sessionRecordOf } from './session-record.ts'

/** What is used of a `Runner`: it reports the tools of all its runs. */
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
function traceTools(runner: object): void {
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
 * The result that the SDK reports is a text, whether the tool gave it or its error became one. The
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

/** The class that executes runs, of whichever copy of the SDK. */
export interface RunnerClass {
  // Methods of the class differ between versions of the SDK; of `run`, only that it takes
  // (agent, input, options) and returns a promise is relied on.
  readonly prototype: object
}

type RunMethod = (this: unknown, ...args: unknown[]) => Promise<unknown>

const wrapped = Symbol.for('osmosis.openai-agents.instrumented')

/**
 * Makes the runs of a `Runner` class find their sessions inside rollouts. For the copies of
 * `@openai/agents` that this package sees by itself (the one it imports, and the CommonJS form of
 * that) this happens when the first session or agent binds to a rollout. Call it for a further copy
 * in the same process; calling it again does nothing. Outside of rollouts runs are left as they are.
 */
export function instrumentRunner(runnerClass: RunnerClass = Runner): void {
  const prototype = runnerClass.prototype as { run: RunMethod; [wrapped]?: true }
  if (prototype[wrapped]) return
  const original = prototype.run
  // The one seam that `run()`, runners of the user's own and agents used as tools have in common.
  Object.defineProperty(prototype, 'run', {
    configurable: true,
    writable: true,
    enumerable: false,
    value(this: unknown, ...args: unknown[]): Promise<unknown> {
      if (getRolloutContext() === undefined) return Reflect.apply(original, this, args)
      traceTools(this as object)
      return runInScope(withOwnHistory(this, args), (runArgs) =>
        Reflect.apply(original, this, runArgs),
      )
    },
  })
  Object.defineProperty(prototype, wrapped, { value: true, configurable: true })
}

async function runInScope(
  [agent, input, options, ...rest]: unknown[],
  start: (args: unknown[]) => Promise<unknown>,
): Promise<unknown> {
  const session = (options as { session?: unknown } | undefined)?.session
  const record = sessionRecordOf(session)
  const scope: RunScope = {
    record,
    mayWrapSession: record === undefined && session !== undefined,
    parent: currentScope(),
    answers: (isState(input) && record?.answersToContinue) || {
      rollout: undefined,
      ids: new Set(),
    },
  }
  try {
    const result = await withScope(scope, () =>
      start([agent, sdkInput(input), withToolErrors(options), ...rest]),
    )
    if (isStreamed(result)) followStream(scope, result)
    else scope.record?.noteSuccess(result as object, scope.answers)
    return result
  } catch (error) {
    noteRunError(error, scope.answers)
    scope.record?.noteFailure(historyOf((error as { state?: unknown } | null)?.state))
    throw error
  }
}

/**
 * A list with a session is joined with what that holds by a function of ours, unless the program has said by its own
 * how the two are joined.
 */
function withOwnHistory(runner: unknown, args: unknown[]): unknown[] {
  const [agent, input, options, ...rest] = args
  const { session, sessionInputCallback: own } = (options ?? {}) as SessionOptions
  const { config } = runner as { readonly config?: SessionOptions }
  if (!Array.isArray(input) || session === undefined) return args
  const sessionInputCallback = own ?? config?.sessionInputCallback ?? joinedInput
  return [agent, input, { ...(options as object), sessionInputCallback }, ...rest]
}

interface SessionOptions {
  readonly session?: unknown
  readonly sessionInputCallback?: unknown
}

/**
 * The SDK throws when the model calls a tool that does not exist. The rollout would then have no reward, and the
 * policy would never learn to leave such calls, so the policy gets an error result instead. What the options of
 * the run say wins.
 */
function withToolErrors(options: unknown): unknown {
  const given = options as { toolNotFoundBehavior?: unknown } | undefined
  const toolNotFoundBehavior = given?.toolNotFoundBehavior ?? 'return_error_to_model'
  return { ...given, toolNotFoundBehavior }
}

/** Whether a run continues an earlier one: its input is the state of that, and not messages. */
function isState(input: unknown): boolean {
  return typeof input === 'object' && !Array.isArray(input)
}

/** `ctx.prompt` is in chat completions form, which the SDK understands in part only. */
function sdkInput(input: unknown): unknown {
  return Array.isArray(input) && input.some(isChatMessage) ? toAgentInput(input) : input
}

/** A streamed run continues after `run` has resolved. */
interface StreamedRun {
  readonly completed: Promise<void>
  readonly cancelled: boolean
}

function isStreamed(result: unknown): result is StreamedRun {
  return (result as { completed?: unknown } | null)?.completed instanceof Promise
}

function followStream(scope: RunScope, result: StreamedRun): void {
  const stored = (): void => scope.record?.noteSuccess(result, scope.answers)
  const lost = (): void => scope.record?.noteFailure(historyOf(result))
  // An aborted stream completes as well, but nothing beyond its input is stored.
  result.completed.then(
    () => (result.cancelled ? lost() : stored()),
    (error: unknown) => {
      noteRunError(error, scope.answers)
      lost()
    },
  )
}

function historyOf(state: unknown): AgentInputItem[] | undefined {
  const history = (state as { history?: unknown } | null | undefined)?.history
  return Array.isArray(history) ? (history as AgentInputItem[]) : undefined
}

let tracingDecided = false

/**
 * Makes the SDK ready for rollouts: runs find their sessions, and no trace leaves the process.
 * Called whenever a session or an agent binds to a rollout; cheap after the first time.
 */
export function prepareSdk(): void {
  instrumentRunner()
  const twin = commonJsTwin()
  if (twin?.['Runner']) instrumentRunner(twin['Runner'] as RunnerClass)
  if (tracingDecided) return
  tracingDecided = true
  if (keepsTracing()) return
  // By default the SDK sends every prompt to api.openai.com as soon as OPENAI_API_KEY is set. Done
  // once only, so that turning it on again afterwards is up to the user.
  setTracingDisabled(true)
  const disable = twin?.['setTracingDisabled'] as typeof setTracingDisabled | undefined
  disable?.(true)
}

function keepsTracing(): boolean {
  // oxlint-disable-next-line node/no-process-env -- a switch for operators, no setting of a rollout
  return process.env['OSMOSIS_KEEP_OPENAI_TRACING'] === '1'
}

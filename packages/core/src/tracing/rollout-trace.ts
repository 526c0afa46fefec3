import { errorMessage, isOsmosisError } from '../errors.ts'
import { beginningOf, errorTextBytes } from '../http/error-text.ts'
import type { ChatCompletionRequest } from '../policy/chat-completion.ts'
import type { RolloutSample } from '../rollout-sample.ts'
import { sharedByCopies } from '../shared-by-copies.ts'
import { answerAttributes, requestAttributes, type EndedCall } from './call-attributes.ts'
import {
  parentOf,
  traceApi,
  type Attributes,
  type TraceApi,
  attempt,
  type Span,
  type TraceContext,
} from './trace-api.ts'

/** The rollout of a trace. */
export interface TracedRollout {
  readonly rolloutId: string
  /** Bearer of the policy, removed from error messages. */
  readonly apiKey: string | undefined
  /** Headers `traceparent` and `tracestate` of the trace that the rollout belongs to. Default: none. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined
}

/**
 * Starts the trace of a rollout; undefined when tracing is off.
 *
 * @param workflow - name of the class, or of the agent loop
 */
export function beginRolloutTrace(
  rollout: TracedRollout,
  workflow: string,
): RolloutTrace | undefined {
  const api = traceApi()
  return api && new RolloutTrace(api, rollout, workflow)
}

/** The traces of rollout contexts. Not a field, because creators of a context do not need it. */
export const traces = sharedByCopies('rollout-traces', () => new WeakMap<object, RolloutTrace>())

const traceKey = Symbol.for('osmosis.rollout-trace')

/** The trace of the rollout this code runs in, for code without access to the rollout context. */
export function activeTrace(): RolloutTrace | undefined {
  return traceApi()?.context.active().getValue(traceKey) as RolloutTrace | undefined
}

/** The spans of one rollout: samples and grading are its children, model and tool calls those of their sample. */
export class RolloutTrace {
  readonly #rollout: TracedRollout
  readonly #root: OpenSpan
  readonly #samples = new Map<string, OpenSpan>()
  /** Functions that end the tool calls in progress, with an error type. */
  readonly #tools = new Set<(type?: string) => void>()
  /** Ids of the latest answers, by sample. */
  readonly #answers = new Map<string | undefined, string>()
  #grading: { open: OpenSpan; grader: string } | undefined
  #workflowEnded = false

  constructor(api: TraceApi, rollout: TracedRollout, workflow: string) {
    this.#rollout = rollout
    const parent = parentOf(api, rollout.traceHeaders).setValue(traceKey, this)
    this.#root = new OpenSpan(api, parent, {
      name: `invoke_workflow ${workflow}`,
      attributes: {
        'gen_ai.operation.name': 'invoke_workflow',
        'gen_ai.workflow.name': workflow,
        ...this.#ids(),
      },
    })
  }

  /** Makes the rollout's span the parent of everything `fn` starts. */
  run<T>(fn: () => T): T {
    return this.#root.run(fn)
  }

  /** Records that the rollout failed. */
  fail(error: unknown, type?: string): void {
    this.#fail(this.#root, error, type)
  }

  /** Starts the span of a model call. */
  call(
    { sampleId, endpoint, model, streams }: TracedCall,
    request: ChatCompletionRequest,
  ): CallTrace {
    const parent = sampleId === undefined ? this.#root : this.#sample(sampleId)
    const open = parent.below({
      name: `chat ${model}`,
      kind: 'client',
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'osmosis',
        'gen_ai.request.model': model,
        'gen_ai.request.stream': streams || undefined,
        'server.address': endpoint.hostname,
        'server.port': Number(endpoint.port || (endpoint.protocol === 'https:' ? 443 : 80)),
        ...this.#ids(sampleId),
        ...requestAttributes(request),
      },
    })
    return {
      headers: () => open.headers(),
      end: (call, error) => {
        if (call !== undefined) open.set(answerAttributes(call))
        if (call?.responseId !== undefined) this.#answers.set(sampleId, call.responseId)
        if (error !== undefined) this.#fail(open, error)
        open.end()
      },
    }
  }

  /**
   * Starts the span of a tool call, below its sample if that is known. Arguments and results are not recorded.
   * Undefined when the workflow has ended.
   */
  tool(sampleId: string | undefined, { name, id }: TracedTool): ToolTrace | undefined {
    if (this.#workflowEnded) return undefined
    const sample = sampleId === undefined ? undefined : this.#samples.get(sampleId)
    const open = (sample ?? this.#root).below({
      name: `execute_tool ${name}`,
      attributes: {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': name,
        'gen_ai.tool.type': 'function',
        'gen_ai.tool.call.id': id,
        ...this.#ids(sampleId),
      },
    })
    const end = (type?: string): void => {
      if (!this.#tools.delete(end)) return
      if (type !== undefined) open.fail(type)
      open.end()
    }
    this.#tools.add(end)
    return {
      run: (fn) => open.run(fn),
      end: () => end(),
      fail: (error) => end(error === undefined ? 'tool_failed' : errorType(error)),
    }
  }

  /** To be called when the workflow has ended. Ends the spans of samples and of tools that still run. */
  endSamples(): void {
    this.#workflowEnded = true
    for (const end of this.#tools) end('rollout_ended')
    for (const sample of this.#samples.values()) sample.end()
    this.#samples.clear()
  }

  /** Runs the grader in a span. Rejects with the error of `grade`. */
  async grading<T>(grader: string, grade: () => Promise<T>): Promise<T> {
    const open = this.#root.below({ name: `grade ${grader}`, attributes: this.#ids() })
    this.#grading = { open, grader }
    try {
      return await open.run(grade)
    } catch (error) {
      this.#fail(open, error)
      evaluated(open, grader, { 'error.type': errorType(error) })
      throw error
    } finally {
      open.end()
      this.#grading = undefined
    }
  }

  /** Records the rewards of the grader; to be called before {@link RolloutTrace.grading} ends. */
  rewarded(samples: ReadonlyMap<string, RolloutSample>): void {
    if (this.#grading === undefined) return
    const { open, grader } = this.#grading
    for (const { id, reward, removeSample } of samples.values()) {
      if (reward !== null && !removeSample) this.#reward(open, grader, reward, id)
    }
  }

  /** Records the reward that an agent loop gave itself. */
  rewardedItself(loop: string, reward: number): void {
    this.#reward(this.#root, loop, reward)
  }

  end(): void {
    this.endSamples()
    this.#root.end()
  }

  #reward(open: OpenSpan, by: string, reward: number, sampleId?: string): void {
    evaluated(open, by, {
      'gen_ai.evaluation.score.value': reward,
      // The evaluated span has ended; this is the id of its last answer.
      'gen_ai.response.id': this.#answers.get(sampleId),
      ...(sampleId === undefined ? {} : { 'osmosis.sample.id': sampleId }),
    })
  }

  #sample(sampleId: string): OpenSpan {
    const known = this.#samples.get(sampleId)
    if (known !== undefined) return known
    const open = this.#root.below({
      name: `invoke_agent ${sampleId}`,
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': sampleId,
        ...this.#ids(sampleId),
      },
    })
    this.#samples.set(sampleId, open)
    return open
  }

  #ids(sampleId?: string): Attributes {
    return { 'osmosis.rollout.id': this.#rollout.rolloutId, 'osmosis.sample.id': sampleId }
  }

  /** Errors of HTTP clients can contain keys. */
  #fail(open: OpenSpan, error: unknown, type = errorType(error)): void {
    const { apiKey } = this.#rollout
    const text = errorMessage(error)
    // Before truncating, which could leave a piece of the key.
    const clean = apiKey ? text.replaceAll(apiKey, '***') : text
    open.fail(type, beginningOf(clean, errorTextBytes))
  }
}

/** A model call that is about to be sent. */
export interface TracedCall {
  /** Undefined in an agent loop, which has no samples. */
  readonly sampleId: string | undefined
  readonly endpoint: URL
  readonly model: string
  readonly streams: boolean
}

/** The span of a model call. */
export interface CallTrace {
  /** Headers that continue the trace at the policy. */
  headers(): Record<string, string>
  /** @param error - why the call failed; undefined when it was answered */
  end(call: EndedCall | undefined, error: unknown): void
}

/** A tool call that is about to run. */
export interface TracedTool {
  readonly name: string
  /** The policy's id of the call. */
  readonly id?: string | undefined
}

/** The span of a tool call. It ends once; later calls have no effect. */
export interface ToolTrace {
  /** Makes the span the parent of everything `fn` starts. */
  run<T>(fn: () => T): T
  end(): void
  /** @param error - what the tool threw; undefined when it reported a failure */
  fail(error?: unknown): void
}

function evaluated(open: OpenSpan, by: string, attributes: Attributes): void {
  open.add('gen_ai.evaluation.result', { 'gen_ai.evaluation.name': by, ...attributes })
}

const kinds = { internal: 0, client: 2 } as const
const errorStatus = 2
/** Characters. */
const maxTypeLength = 100

/** What a span starts with. */
interface SpanStart {
  readonly name: string
  /** Default: `internal`. */
  readonly kind?: keyof typeof kinds
  readonly attributes: Attributes
}

/** A span that has started, and the context of its children. Only `run` can throw. */
class OpenSpan {
  readonly #api: TraceApi
  /** Undefined when the provider failed to start one; its children then belong to its parent. */
  readonly #span: Span | undefined
  readonly #context: TraceContext

  constructor(api: TraceApi, parent: TraceContext, start: SpanStart) {
    const { name, kind = 'internal', attributes } = start
    const options = { kind: kinds[kind], attributes }
    const span = attempt(api, () =>
      api.trace.getTracer('@osmosis/core').startSpan(name, options, parent),
    )
    this.#api = api
    this.#span = span
    this.#context = span === undefined ? parent : api.trace.setSpan(parent, span)
  }

  /** Starts a child span. */
  below(start: SpanStart): OpenSpan {
    return new OpenSpan(this.#api, this.#context, start)
  }

  /** Makes this the span of everything `fn` starts. */
  run<T>(fn: () => T): T {
    return this.#api.context.with(this.#context, fn)
  }

  /** The headers that continue the trace below this span. */
  headers(): Record<string, string> {
    const headers: Record<string, string> = {}
    attempt(this.#api, () => this.#api.propagation.inject(this.#context, headers))
    return headers
  }

  set(attributes: Attributes): void {
    attempt(this.#api, () => this.#span?.setAttributes(attributes))
  }

  add(event: string, attributes: Attributes): void {
    attempt(this.#api, () => this.#span?.addEvent(event, attributes))
  }

  fail(type: string, message?: string): void {
    const status = { code: errorStatus, ...(message === undefined ? {} : { message }) }
    attempt(this.#api, () => this.#span?.setStatus(status))
    this.set({ 'error.type': type })
  }

  end(): void {
    attempt(this.#api, () => this.#span?.end())
  }
}

/** The type of an error, of low cardinality. */
function errorType(error: unknown): string {
  try {
    if (isOsmosisError(error)) return error.code
    const name: unknown = error instanceof Error ? error.name : undefined
    return typeof name === 'string' ? name.slice(0, maxTypeLength) : '_OTHER'
  } catch {
    // Getters of user code may throw.
    return '_OTHER'
  }
}

import { errorMessage } from '../error-category.ts'
import { isOsmosisError } from '../errors.ts'
import { beginningOf, errorTextBytes } from '../http/error-text.ts'
import type { RolloutRequest } from '../backend/execution-backend.ts'
import type { RolloutSample } from '../rollout-sample.ts'
import type { ChatCompletionRequest } from '../wire/chat-completion.ts'
import { answerAttributes, requestAttributes, type AnsweredCall } from './call-attributes.ts'
import { parentOf, traceApi, type Attributes, type Span, type TraceApi } from './trace-api.ts'

const kinds = { internal: 0, client: 2 } as const
const errorStatus = 2

/** The name that every request gives as its model. */
const requestedModel = 'osmosis-rollout'

/**
 * Begins the trace of a rollout; undefined when nobody wants traces.
 *
 * @param workflow - name of the class
 */
export function beginRolloutTrace(
  request: RolloutRequest,
  workflow: string,
): RolloutTrace | undefined {
  const api = traceApi()
  return api && new RolloutTrace(api, request, workflow)
}

/** A span that has begun, and the context that its children are made in. */
class OpenSpan {
  readonly span: Span
  readonly context: ReturnType<TraceApi['context']['active']>

  constructor(
    api: TraceApi,
    parent: ReturnType<TraceApi['context']['active']>,
    { name, kind = 'internal', attributes }: SpanStart,
  ) {
    const tracer = api.trace.getTracer('@osmosis/core')
    this.span = tracer.startSpan(name, { kind: kinds[kind], attributes }, parent)
    this.context = api.trace.setSpan(parent, this.span)
  }
}

interface SpanStart {
  readonly name: string
  readonly kind?: keyof typeof kinds
  readonly attributes: Attributes
}

/** The traces of rollout contexts. They are no business of whoever makes a context. */
export const traces = new WeakMap<object, RolloutTrace>()

/** The spans of one rollout: samples and the grading below it, model calls below their sample. */
export class RolloutTrace {
  readonly #api: TraceApi
  readonly #request: RolloutRequest
  readonly #root: OpenSpan
  readonly #samples = new Map<string, OpenSpan>()
  #grading: { open: OpenSpan; grader: string } | undefined

  constructor(api: TraceApi, request: RolloutRequest, workflow: string) {
    this.#api = api
    this.#request = request
    this.#root = new OpenSpan(api, parentOf(api, request.traceHeaders), {
      name: `invoke_workflow ${workflow}`,
      attributes: {
        'gen_ai.operation.name': 'invoke_workflow',
        'gen_ai.workflow.name': workflow,
        'osmosis.rollout.id': request.rolloutId,
      },
    })
  }

  /** Makes the rollout's span that of everything `fn` starts. */
  run<T>(fn: () => T): T {
    return this.#api.context.with(this.#root.context, fn)
  }

  /** The workflow or the grader failed, and with it the rollout. */
  fail(error: unknown): void {
    this.#fail(this.#root.span, error)
  }

  /** Begins a model call of a sample. */
  call(sampleId: string, endpoint: URL, request: ChatCompletionRequest): CallTrace {
    const open = new OpenSpan(this.#api, this.#sample(sampleId).context, {
      name: `chat ${requestedModel}`,
      kind: 'client',
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'osmosis',
        'gen_ai.request.model': requestedModel,
        'server.address': endpoint.hostname,
        'server.port': Number(endpoint.port || (endpoint.protocol === 'https:' ? 443 : 80)),
        'osmosis.rollout.id': this.#request.rolloutId,
        'osmosis.sample.id': sampleId,
        ...requestAttributes(request),
      },
    })
    return {
      headers: () => {
        const headers: Record<string, string> = {}
        this.#api.propagation.inject(open.context, headers)
        return headers
      },
      end: (call, error) => {
        if (call !== undefined) open.span.setAttributes(answerAttributes(call))
        if (error !== undefined) this.#fail(open.span, error)
        open.span.end()
      },
    }
  }

  /** The workflow is over, and its samples with it. */
  endSamples(): void {
    for (const { span } of this.#samples.values()) span.end()
    this.#samples.clear()
  }

  /** Runs the grader in a span of its own. Rejects with what `grade` rejects with. */
  async grading<T>(grader: string, grade: () => Promise<T>): Promise<T> {
    const attributes = { 'osmosis.rollout.id': this.#request.rolloutId }
    const open = new OpenSpan(this.#api, this.#root.context, {
      name: `grade ${grader}`,
      attributes,
    })
    this.#grading = { open, grader }
    try {
      return await this.#api.context.with(open.context, grade)
    } catch (error) {
      this.#fail(open.span, error)
      open.span.addEvent('gen_ai.evaluation.result', {
        'gen_ai.evaluation.name': grader,
        'error.type': errorType(error),
      })
      throw error
    } finally {
      open.span.end()
      this.#grading = undefined
    }
  }

  /** Notes what the grader gave; to be called before {@link RolloutTrace.grading} ends. */
  rewarded(samples: ReadonlyMap<string, RolloutSample>): void {
    if (this.#grading === undefined) return
    const { open, grader } = this.#grading
    for (const { id, reward, removeSample } of samples.values()) {
      if (reward === null || removeSample) continue
      open.span.addEvent('gen_ai.evaluation.result', {
        'gen_ai.evaluation.name': grader,
        'gen_ai.evaluation.score.value': reward,
        'osmosis.sample.id': id,
      })
    }
  }

  end(): void {
    this.endSamples()
    this.#root.span.end()
  }

  #sample(sampleId: string): OpenSpan {
    const known = this.#samples.get(sampleId)
    if (known !== undefined) return known
    const open = new OpenSpan(this.#api, this.#root.context, {
      name: `invoke_agent ${sampleId}`,
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': sampleId,
        'osmosis.rollout.id': this.#request.rolloutId,
        'osmosis.sample.id': sampleId,
      },
    })
    this.#samples.set(sampleId, open)
    return open
  }

  /** Errors of HTTP clients have been seen to carry keys. */
  #fail(span: Span, error: unknown): void {
    const { apiKey } = this.#request
    const text = beginningOf(errorMessage(error), errorTextBytes)
    const message = apiKey ? text.replaceAll(apiKey, '***') : text
    span.setStatus({ code: errorStatus, message })
    span.setAttributes({ 'error.type': errorType(error) })
  }
}

/** The span of a model call. */
export interface CallTrace {
  /** That continue the trace at the policy. */
  headers(): Record<string, string>
  /** @param error - why there is no answer; undefined when there is one */
  end(call: AnsweredCall | undefined, error: unknown): void
}

function errorType(error: unknown): string {
  if (isOsmosisError(error)) return error.code
  return error instanceof Error ? error.name : '_OTHER'
}

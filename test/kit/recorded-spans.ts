import { context, propagation, SpanStatusCode, trace } from '@opentelemetry/api'
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-node'

/** A span and what is below it, in the order in which they began. */
export interface SpanTree {
  readonly name: string
  /** The `error.type` of a span that failed. */
  readonly error?: unknown
  readonly below?: readonly SpanTree[]
}

/** The spans of this process between construction and disposal. */
export class RecordedSpans implements Disposable {
  readonly #exporter = new InMemorySpanExporter()

  constructor() {
    const spanProcessors = [new SimpleSpanProcessor(this.#exporter)]
    new NodeTracerProvider({ spanProcessors }).register()
  }

  /** Those of this SDK that have ended, in the order of their ends. Frameworks may have spans of their own. */
  get ended(): readonly ReadableSpan[] {
    const spans = this.#exporter.getFinishedSpans()
    return spans.filter(({ instrumentationScope: { name } }) => name === '@osmosis/core')
  }

  /** Those that have ended and whose parent is not one of them, with all that is below. */
  get trees(): SpanTree[] {
    const ids = new Set(this.ended.map((span) => span.spanContext().spanId))
    return this.#below((span) => !ids.has(span.parentSpanContext?.spanId ?? ''))
  }

  named(name: string): ReadableSpan[] {
    return this.ended.filter((span) => span.name === name)
  }

  [Symbol.dispose](): void {
    trace.disable()
    context.disable()
    propagation.disable()
  }

  #below(isMeant: (span: ReadableSpan) => boolean): SpanTree[] {
    return this.ended
      .filter(isMeant)
      .toSorted((a, b) => began(a) - began(b))
      .map((span) => {
        const { spanId } = span.spanContext()
        const below = this.#below((other) => other.parentSpanContext?.spanId === spanId)
        const failed = span.status.code === SpanStatusCode.ERROR
        return {
          name: span.name,
          ...(failed ? { error: span.attributes['error.type'] } : {}),
          ...(below.length === 0 ? {} : { below }),
        }
      })
  }
}

function began({ startTime: [seconds, nanos] }: ReadableSpan): number {
  return seconds * 1e9 + nanos
}

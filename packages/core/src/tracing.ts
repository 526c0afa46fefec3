// For adapters and backends, which add spans to the trace of a rollout.
import { traces, type RolloutTrace } from './tracing/rollout-trace.ts'

export {
  activeTrace,
  beginRolloutTrace,
  type CallTrace,
  type RolloutTrace,
  type ToolTrace,
  type TracedTool,
} from './tracing/rollout-trace.ts'

/** The trace of a rollout by its context; undefined when tracing is off. */
export function traceOf(context: object | undefined): RolloutTrace | undefined {
  return context && traces.get(context)
}

/** Sets the trace of a context, for {@link traceOf}. */
export function setTrace(context: object, trace: RolloutTrace): void {
  traces.set(context, trace)
}

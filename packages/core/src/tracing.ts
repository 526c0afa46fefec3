// How adapters, and what runs rollouts, add to the trace of a rollout.
import { traces, type RolloutTrace } from './tracing/rollout-trace.ts'

export {
  activeTrace,
  beginRolloutTrace,
  type CallTrace,
  type RolloutTrace,
  type ToolTrace,
  type TracedTool,
} from './tracing/rollout-trace.ts'

/** The trace of a rollout by its context; undefined when nobody wants traces. */
export function traceOf(context: object | undefined): RolloutTrace | undefined {
  return context && traces.get(context)
}

/** Makes a trace that of a context, for {@link traceOf}. */
export function setTrace(context: object, trace: RolloutTrace): void {
  traces.set(context, trace)
}

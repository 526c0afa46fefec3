// How what runs rollouts and what runs inside of them adds to the trace of a rollout, for the other
// `@osmosis` packages. Not part of the promised API: names here may change in any version.
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

import { createRequire } from 'node:module'

import { setTracingDisabled } from '@openai/agents'

import { instrumentRunner, type RunnerClass } from './runner-instrumentation.ts'

let tracingDecided = false

/**
 * Makes the SDK ready for rollouts: runs find their sessions, and no trace leaves the process.
 * Called whenever a session or an agent binds to a rollout; cheap after the first time.
 */
export function prepareSdk(): void {
  instrumentRunner()
  const twin = commonJsTwin()
  if (twin?.Runner) instrumentRunner(twin.Runner)
  if (tracingDecided) return
  tracingDecided = true
  if (keepsTracing()) return
  // By default the SDK sends every prompt to api.openai.com as soon as OPENAI_API_KEY is set. Done
  // once only, so that turning it on again afterwards is up to the user.
  setTracingDisabled(true)
  twin?.setTracingDisabled?.(true)
}

interface CommonJsTwin {
  readonly Runner?: RunnerClass
  readonly setTracingDisabled?: typeof setTracingDisabled
}

/**
 * The SDK as `require()` gives it: a second set of classes next to the imported one, present when
 * some CommonJS code of the program uses the SDK as well.
 */
function commonJsTwin(): CommonJsTwin | undefined {
  const require = createRequire(import.meta.url)
  try {
    return require.cache[require.resolve('@openai/agents')]?.exports as CommonJsTwin | undefined
  } catch {
    // Not resolvable from here: then this package's own import went another way, and so did theirs.
    return undefined
  }
}

function keepsTracing(): boolean {
  // oxlint-disable-next-line node/no-process-env -- a switch for operators, no setting of a rollout
  return process.env['OSMOSIS_KEEP_OPENAI_TRACING'] === '1'
}

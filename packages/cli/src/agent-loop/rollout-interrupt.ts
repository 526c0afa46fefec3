import type { AgentLoopApp } from '@osmosis/agent-loop'

import { abortOnInterrupt } from '../eval-run/interrupt.ts'

/**
 * A signal that Ctrl-C aborts; what runs in `app` then ends at once, with an error as its result.
 */
export function endRolloutsOnInterrupt(app: AgentLoopApp): ReturnType<typeof abortOnInterrupt> {
  const interrupt = abortOnInterrupt()
  const onInterrupt = (): void => {
    app.drain({ waitSeconds: 0 }).catch(() => undefined)
  }
  interrupt.signal.addEventListener('abort', onInterrupt, { once: true })
  return interrupt
}

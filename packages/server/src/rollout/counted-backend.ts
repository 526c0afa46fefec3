import { replaceMethods } from '../execution/replaced-methods.ts'
import type { ExecutionBackend, RolloutObserver } from '@osmosis/protocol'

import { CountedDelivery, type ResultDelivery } from './result-delivery.ts'
import type { OwnershipLog } from '../work/ownership-log.ts'
import type { ServerMetrics } from '../metrics/server-metrics.ts'

/**
 * The same backend, whose rollouts are counted and whose ownership is reported as those of a server: for workers that get
 * their rollouts from elsewhere.
 */
export function countedBackend(
  backend: ExecutionBackend,
  metrics: Pick<ServerMetrics, 'policy' | 'rollouts'>,
  ownership: OwnershipLog | undefined,
): ExecutionBackend {
  return replaceMethods(backend, {
    async execute(request, observer) {
      const { grade } = request
      const report = ownership?.begin(request)
      const counted = new CountedDelivery(passedOn(observer), metrics, grade, report)
      const counting = replaceMethods<RolloutObserver>(observer, {
        phaseChanged: (phase) => counted.phaseChanged(phase),
        workflowFinished: async (outcome, samples) => counted.workflowFinished(outcome, samples),
        gradingFinished: async (outcome) => counted.gradingFinished(outcome),
      })
      // Has no effect on a rollout whose outcome was reported.
      let problem: unknown = new Error('The backend ended the rollout without a result.')
      try {
        await backend.execute(request, counting)
      } catch (error) {
        problem = error
        throw error
      } finally {
        await counted.backendEnded(problem)
      }
    },
  })
}

/** The caller of `execute` learns from its own observer whether all was reported. */
function passedOn(observer: RolloutObserver): ResultDelivery {
  return {
    complete: false,
    phaseChanged: (phase) => observer.phaseChanged?.(phase),
    workflowFinished: async (outcome, samples) => observer.workflowFinished(outcome, samples),
    gradingFinished: async (outcome) => observer.gradingFinished(outcome),
    backendEnded: async () => {},
  }
}

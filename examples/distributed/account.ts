// The outcome of each rollout, from its caller and from the logs of the workers.
import type { RolloutOutcome } from '@osmosis/controller'

import type { LogLine } from './processes.ts'

/** Number of model calls of a rollout that ran once from its start to its end. */
const callsOfOneRun = 2

/** Records the outcomes that a caller receives, and reports at the end whether any is missing or came twice. */
export class Account {
  readonly #ends = new Map<string, RolloutOutcome[]>()
  readonly #faults: string[] = []

  ended(outcome: RolloutOutcome): void {
    const { rolloutId } = outcome
    this.#ends.set(rolloutId, [...(this.#ends.get(rolloutId) ?? []), outcome])
  }

  contradicted(rolloutId: string, kind: string): void {
    this.#faults.push(`${rolloutId}: received a second, different ${kind}`)
  }

  /**
   * @param ids - of all rollouts that were sent
   * @param logs - of the workers
   */
  close(
    ids: readonly string[],
    logs: readonly (readonly LogLine[])[],
  ): { text: string; complete: boolean } {
    const runs = logs.map((log) => new Set(log.filter(isRun).map((line) => line['rollout_id'])))
    const lines: string[] = []
    const counts = { success: 0, failure: 0, again: 0, reward: 0, calls: 0 }
    for (const id of ids) {
      const [end, ...others] = this.#ends.get(id) ?? []
      if (end === undefined || others.length > 0) {
        this.#faults.push(`${id}: has ${others.length === 0 ? 'no end' : 'several ends'}`)
        continue
      }
      const places = runs.flatMap((ran, worker) => (ran.has(id) ? [`worker ${worker + 1}`] : []))
      const again = places.length > 1
      const [reward = null] = Array.from(end.samples.values(), (sample) => sample.reward)
      const result = end.status === 'success' ? `reward ${reward}` : `${end.errorMessage}`
      lines.push(
        `${id}  ${end.status.padEnd(8)} ${places.join(', then ')}: ${again ? 'run again, ' : ''}${result}`,
      )
      counts[end.status === 'success' ? 'success' : 'failure'] += 1
      counts.calls += end.policyCalls
      counts.reward += reward ?? 0
      if (again) counts.again += 1
      const tooMany = end.policyCalls > callsOfOneRun
      const tooFew =
        end.status === 'success' && (end.policyCalls < callsOfOneRun || reward === null)
      if (tooMany || tooFew) this.#faults.push(`${id}: ${end.policyCalls} model calls, ${result}`)
    }
    const complete = this.#faults.length === 0
    return {
      complete,
      text: [
        ...lines,
        '',
        `${ids.length} rollouts sent, ${counts.success + counts.failure} ended: ${counts.success} succeeded, with a reward of 1 for ${counts.reward}, and ${counts.failure} failed`,
        `${counts.again} were started again by the other worker, because the first had not called the policy yet`,
        `${counts.calls} model calls, at most ${callsOfOneRun} in each rollout`,
        complete
          ? 'Nothing is missing, and nothing came twice.'
          : `The account is not complete:\n${this.#faults.join('\n')}`,
      ].join('\n'),
    }
  }
}

function isRun({ msg }: LogLine): boolean {
  return msg === 'rollout taken'
}

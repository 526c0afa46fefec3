import type { Logger } from '@osmosis/server'

import type { TakeAnswer } from '../records/queued-executions.ts'

/** A rollout that only other workers can execute. */
type Refusal = Extract<TakeAnswer, { what: 'other-code' | 'other-keys' }>

/** Warns of rollouts that this worker refuses, once for each reason: they are offered again and again. */
export class RefusedRollouts {
  readonly #code: string
  readonly #logger: Logger | undefined
  readonly #reasons = new Set<string>()

  /** @param code - digest of the code of this worker */
  constructor(code: string, logger: Logger | undefined) {
    this.#code = code
    this.#logger = logger
  }

  warn(rolloutId: string, refusal: Refusal): void {
    const reason = refusal.what === 'other-code' ? refusal.code : refusal.what
    if (this.#reasons.has(reason)) return
    this.#reasons.add(reason)
    if (refusal.what === 'other-code') {
      this.#logger?.warn(
        { code: refusal.code, own_code: this.#code },
        'a rollout was refused: it was accepted for other code than this worker has',
      )
      return
    }
    this.#logger?.warn(
      { rollout_id: rolloutId },
      'a rollout was refused: it is encrypted with a queue key that this worker does not have. Servers and workers of a queue need the same file of keys.',
    )
  }
}

import type { PolicyModel } from '@osmosis/controller'
import { serve } from '@osmosis/server'

import { LocalTrainer } from './local-trainer.ts'

/** A trainer that listens, and how a rollout reaches it. */
export interface ListeningTrainer extends AsyncDisposable {
  readonly trainer: LocalTrainer
  readonly trainerUrl: string
}

/** Starts a trainer whose model calls `policy` answers. The caller disposes of it. */
export async function startTrainer(policy: PolicyModel): Promise<ListeningTrainer> {
  const trainer = new LocalTrainer(policy)
  const listening = await serve(trainer, { port: 0, handleSignals: false })
  return {
    trainer,
    trainerUrl: listening.url,
    [Symbol.asyncDispose]: () => listening.close(),
  }
}

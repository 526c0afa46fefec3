import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import type { PolicyModel } from '@osmosis/controller'
import type {
  BatchSequence,
  Learner,
  TrainingBatch,
  UpdateFigures,
  UpdateSettings,
} from '@osmosis/train'

import {
  TinyPolicy,
  type SavedTinyPolicy,
  type WeighedCall,
} from '../../../test/kit/trainers/index.ts'

/** A learner of this process, whose policy has 720 weights. */
export class TinyLearner implements Learner {
  readonly name = 'tiny'
  /** The batches of all updates, in order. */
  readonly batches: TrainingBatch[] = []
  #policy: TinyPolicy

  constructor(seed: number) {
    this.#policy = new TinyPolicy({ seed })
  }

  readonly policy: PolicyModel = {
    name: this.name,
    respond: async (request) => {
      // Without the random end of the id, so that each training has the same answers.
      const rolloutId = request.rolloutId.replace(/-[\da-f]{8}$/, '')
      const response = await this.#policy.respond({ ...request, rolloutId })
      const text = (await response.text()).replaceAll('tiny-policy@', 'policy-')
      return new Response(text, response)
    },
  }

  get version(): number {
    return this.#policy.version
  }

  get weights(): readonly number[] {
    return this.#policy.toJSON().weights
  }

  async update(batch: TrainingBatch, _settings: UpdateSettings): Promise<UpdateFigures> {
    this.batches.push(batch)
    const calls = batch.sequences.flatMap(callsOf)
    this.#policy.update(calls, { steps: 4, learningRate: 6, clip: 0.2 })
    const tokens = calls.reduce((sum, { ids }) => sum + ids.length, 0)
    const unknown = { loss: null, entropy: null, clipFraction: null, kl: null, gradNorm: null }
    const counts = { tokens, sequences: batch.sequences.length, seconds: 0 }
    return { ...unknown, driftMean: 0, driftMax: 0, ...counts }
  }

  async save(folder: string): Promise<void> {
    mkdirSync(folder, { recursive: true })
    writeFileSync(path.join(folder, 'policy.json'), JSON.stringify(this.#policy))
  }

  async load(folder: string): Promise<void> {
    const text = readFileSync(path.join(folder, 'policy.json'), 'utf8')
    this.#policy = TinyPolicy.from(JSON.parse(text) as SavedTinyPolicy)
  }

  export(folder: string): Promise<void> {
    return this.save(folder)
  }

  async close(): Promise<void> {}
}

function callsOf({ ids, logprobs, advantages, mask }: BatchSequence): WeighedCall[] {
  const calls: WeighedCall[] = []
  for (let start = mask.indexOf(1); start !== -1;) {
    let end = start
    while (mask[end] === 1) end += 1
    calls.push({
      promptIds: ids.slice(0, start),
      ids: ids.slice(start, end),
      logprobs: logprobs.slice(start, end),
      advantage: advantages[start] ?? 0,
    })
    start = mask.indexOf(1, end)
  }
  return calls
}

import { toTrainingSequences } from '@osmosis/protocol/trajectory'
import {
  defaultUpdate,
  openLocalLearner,
  policyGradientBatch,
  type LocalLearner,
  type TrainableSample,
  type TrainingBatch,
} from '@osmosis/train'
import { expect } from 'vitest'

import { pythonWithTorch, tinyTransformer } from '../kit/index.ts'
import type { TrainedCall, FakeModel, TrainingRow } from '../kit/trainers/index.ts'
import type { AskForCode } from './agents/ask-for-code.ts'
import { handWritten } from './agents/hand-written.ts'
import { doorRollouts } from './door-rollouts.ts'
import { iterationOf, type Iteration } from './train.ts'
import type { TrainerUnderTest } from './trainer-under-test.ts'
import { expectWhatWasSaid, saidIn, type SaidCall } from './what-was-said.ts'

const letters = Array.from('abcd')

/** One row for each code. Their questions differ, but do not say the code. */
const numberedDoors: readonly TrainingRow[] = letters
  .flatMap((first) => letters.map((second) => first + second))
  .map((code, at) => ({
    initialMessages: [{ role: 'user', content: `What is the code of door ${at}?` }],
    label: code,
    metadata: { code },
  }))

/** Settings of {@link trainTransformer}. */
export interface TransformerTraining {
  readonly trainer: TrainerUnderTest
  /** Default: the hand-written loop. */
  readonly agent?: AskForCode
  /** Maximum number of updates. */
  readonly updates: number
  /** Rollouts of each door before an update. Default: 8. */
  readonly attempts?: number
  /** Ends the training as soon as the mean reward reaches this. Default: after all updates. */
  readonly until?: number
  /** Share of the rollouts with tool calls that fail. Default: 0. */
  readonly failing?: number
  /** What the trainer gives rollouts that have no reward. Default: null, it leaves them out. */
  readonly failuresAs?: number | null
  /** Replaces what the trainer would train. Default: all of it. */
  readonly learnFrom?: (samples: readonly TrainableSample[]) => readonly TrainableSample[]
  /** Changes what the learner gets. */
  readonly tamper?: (batch: TrainingBatch) => TrainingBatch
  /** Largest mean difference of logprobs. Default: 0.3. */
  readonly maxDrift?: number
}

/**
 * Trains a transformer of 150,000 weights, whose tokens are text, from what a trainer recorded of the rollouts. Fails
 * unless the recorded tokens and rewards are those of the policy and the grader, and the learner's own logprobs of
 * these tokens agree within 1e-4.
 */
export async function trainTransformer(options: TransformerTraining): Promise<Iteration[]> {
  const { agent = handWritten, updates, until = Infinity, failing = 0, failuresAs = null } = options
  const { nameOf = (rolloutId) => rolloutId } = options.trainer
  await using learner = await openTransformer()
  const said = new Map<string, SaidCall[]>()
  const model: FakeModel = async (body, id) => {
    const signal = new AbortController().signal
    const request = { ...body, logprobs: true, return_token_ids: true, stream: false }
    const response = await learner.policy.respond({
      body: request,
      rolloutId: id,
      sampleId: 'sample',
      headers: {},
      signal,
    })
    const answer = (await response.json()) as Awaited<ReturnType<FakeModel>>
    const name = nameOf(id)
    // A farewell is not offered the tool, and is not counted as a use of it.
    if (body['tools'] !== undefined) said.set(name, [...(said.get(name) ?? []), saidIn(answer)])
    return answer
  }
  const { backend, graded } = doorRollouts(agent, { failing, nameOf })
  await using trainer = await options.trainer.open(model, backend)

  const curve: Iteration[] = []
  let known = 0
  for (;;) {
    said.clear()
    graded.clear()
    await trainer.runBatch(numberedDoors, options.attempts ?? 8)
    const all = trainer.trained()
    const trained = all.slice(known).map((call) => ({ ...call, rolloutId: nameOf(call.rolloutId) }))
    known = all.length
    if (agent === handWritten) expectWhatWasSaid(said, { graded, trained, failuresAs })
    const iteration = iterationOf(said, graded)
    curve.push(iteration)
    if (iteration.reward >= until || curve.length > updates) return curve
    await update(learner, trained, options)
  }
}

async function openTransformer(): Promise<LocalLearner & AsyncDisposable> {
  const learner = await openLocalLearner({
    model: 'tiny',
    python: pythonWithTorch(),
    policyClass: tinyTransformer,
    loraRank: 0,
    threads: 1,
    maxLength: 256,
  })
  return Object.assign(learner, { [Symbol.asyncDispose]: () => learner.close() })
}

async function update(
  learner: LocalLearner,
  trained: readonly TrainedCall[],
  { learnFrom = (all) => all, tamper = (batch) => batch, maxDrift = 0.3 }: TransformerTraining,
): Promise<void> {
  const samples = learnFrom(samplesOf(trained))
  const { batch } = policyGradientBatch(samples, { version: learner.version })
  const figures = await learner.update(tamper(batch), {
    ...defaultUpdate,
    learningRate: 1e-3,
    epochs: 2,
    minibatches: 2,
    maxDrift,
    seed: learner.version,
  })
  expect(figures.driftMax, 'recorded and recomputed logprobs agree').toBeLessThan(1e-4)
}

function samplesOf(trained: readonly TrainedCall[]): TrainableSample[] {
  const groups = [...new Set(trained.map(({ group }) => group))]
  return [...Map.groupBy(trained, ({ rolloutId }) => rolloutId)].map(([rolloutId, calls]) => ({
    rolloutId,
    sampleId: 'sample',
    row: groups.indexOf(calls[0]?.group ?? ''),
    reward: calls[0]?.reward ?? 0,
    ...toTrainingSequences(
      calls.map(({ promptIds, ids, logprobs }) => ({
        promptTokenIds: [...promptIds],
        completionTokenIds: [...ids],
        logprobs: { content: logprobs.map((logprob) => ({ logprob })) },
        error: null,
        version: null,
        trainable: true,
        sampling: {},
      })),
    ),
  }))
}

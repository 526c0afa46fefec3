import { answerMutations } from './answer-mutations.ts'
import { figureMutations } from './figure-mutations.ts'
import { learnerModelMutations, learnerMutations } from './learner-mutations.ts'
import { modelMutations } from './model-mutations.ts'
import type { Mutation } from './mutation.ts'
import { proxyMutations } from './proxy-mutations.ts'
import { queueMutations } from './queue-mutations.ts'
import { recordMutations } from './record-mutations.ts'
import { rewardMutations } from './reward-mutations.ts'
import { rowMutations } from './row-mutations.ts'
import { sandboxMutations } from './sandbox-mutations.ts'
import { scoreMutations } from './score-mutations.ts'
import { serverMutations } from './server-mutations.ts'
import { trainingLoopMutations } from './training-loop-mutations.ts'
import { trainingMutations } from './training-mutations.ts'
import { trajectoryMutations } from './trajectory-mutations.ts'
import { wireMutations } from './wire-mutations.ts'

/** Updates are computed once more to notice these, which takes longer than the other tests of trainings. */
const ofUpdates = trainingMutations.filter(({ tests }) =>
  tests.some((test) => test.includes('/reference/')),
)
const ofTinker = trainingMutations.filter(({ tests }) =>
  tests.some((test) => test.includes('tinker')),
)

/** The mutations by area. The tests of an area take minutes. */
export const mutationAreas: Readonly<Record<string, readonly Mutation[]>> = {
  wire: wireMutations,
  server: serverMutations,
  queue: queueMutations,
  answers: answerMutations,
  proxy: proxyMutations,
  models: modelMutations,
  record: recordMutations,
  trajectory: trajectoryMutations,
  rewards: rewardMutations,
  scores: scoreMutations,
  figures: figureMutations,
  rows: rowMutations,
  sandbox: sandboxMutations,
  'training-loop': trainingLoopMutations,
  training: trainingMutations.filter((one) => ![...ofUpdates, ...ofTinker].includes(one)),
  updates: ofUpdates,
  tinker: ofTinker,
  'learner-models': learnerModelMutations,
  learner: learnerMutations,
}

import path from 'node:path'

import { openLocalLearner, type LearnerProcessOptions, type LocalLearner } from '@osmosis/train'
import { onTestFinished } from 'vitest'

import { pythonWithTorch } from '../../../../test/kit/index.ts'

/** The bundled learner with a policy of which every number can be computed by hand; see `table_policy.py`. */
export async function tableLearner(
  options: Partial<LearnerProcessOptions> = {},
  policy: 'TablePolicy' | 'CrowdedPolicy' = 'TablePolicy',
): Promise<LocalLearner> {
  const learner = await openLocalLearner({
    model: 'table',
    python: pythonWithTorch(),
    policyClass: `${path.join(import.meta.dirname, 'table_policy.py')}:${policy}`,
    loraRank: 0,
    ...options,
  })
  onTestFinished(() => learner.close())
  return learner
}

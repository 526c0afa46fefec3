import { Grader, lastAssistantText, type GraderContext } from '@osmosis/core'

import { rewardOf } from './reward.ts'

/** Gives each conversation its reward: there is one, unless the workflow runs several agents. */
export class ShopGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      ctx.setSampleReward(sampleId, rewardOf(lastAssistantText(sample), ctx.label))
    }
  }
}

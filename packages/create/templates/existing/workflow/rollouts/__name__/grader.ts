import { Grader, lastAssistantText, type GraderContext } from '@osmosis/core'

/** Gives the conversation its reward. */
export class TaskGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    // With several agents: ctx.samples has the sample of each by its name.
    const answer = lastAssistantText(ctx.sample)
    const label = ctx.requireLabel()
    // The grader is written here: it compares both, and calls ctx.setReward(…) with a number.
    throw new Error(
      `no grader is written yet: give the answer ${JSON.stringify(answer)} a reward, the row says ${JSON.stringify(label)}`,
    )
  }
}

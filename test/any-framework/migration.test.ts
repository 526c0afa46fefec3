import { Grader, lastAssistantText, type GraderContext } from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'

import { runMigrationContract } from '../kit/index.ts'
import { CalculatorWorkflow } from './migration/openai/after.ts'

class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(numeric(lastAssistantText(ctx.sample), ctx.label))
  }
}

runMigrationContract({
  users: { tags: 'slow' },
  before: new URL('migration/openai/before.ts', import.meta.url),
  after: new URL('migration/openai/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
})

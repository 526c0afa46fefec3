import { createScorer } from '@mastra/core/evals'
import { Grader, type GraderContext } from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { scoreSample } from '@osmosis/mastra'

const namesTheNumber = createScorer({
  id: 'names-the-number',
  description: 'Whether the answer has the right number.',
  type: 'agent',
}).generateScore(({ run }) => {
  const answer = run.output.at(-1)?.content.parts.at(-1)
  if (typeof run.groundTruth !== 'string') throw new Error('The row has no answer.')
  return answer?.type === 'text' ? numeric(answer.text, run.groundTruth) : 0
})

export class CalculatorGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(await scoreSample(namesTheNumber, ctx))
  }
}

import { Grader, lastAssistantText, type GraderContext } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { calculatorMigration, execute } from '../kit/index.ts'
import { describe, expect, it } from 'vitest'

import { CalculatorWorkflow as OpenAICalculator } from './migration/openai/after.ts'

const { answers, unchanged, prompt, label } = calculatorMigration

class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(lastAssistantText(ctx.sample).includes(ctx.requireLabel()) ? 1 : 0)
  }
}

describe.each([{ framework: 'openai', workflow: OpenAICalculator }])(
  'the program of $framework',
  ({ workflow: calculator }) => {
    // What it was before is run in migration.slow.test.ts: nothing of it is from here.
    it('runs as a rollout after the migration', async () => {
      await using server = await startPolicyServer(answers)
      const { workflow, grading } = await execute(server, calculator, {
        prompt,
        label,
        grader: MultiplyGrader,
      })
      expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
      const sample = grading?.samples.get('calculator')
      expect(sample?.reward).toBe(1)
      expect(sample?.trajectoryMessages).toMatchObject([
        ...unchanged.messages,
        { role: 'assistant', tool_calls: [{ function: { arguments: '{"a": 12.0,"b":34}' } }] },
        { role: 'tool', tool_call_id: 'call-1', content: '408' },
        { role: 'assistant', content: '12 times 34 is 408.' },
      ])
      expect(sample?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true])
      expect(server.requests[0]?.body).toMatchObject({ model: 'osmosis-rollout', ...unchanged })
    })
  },
)

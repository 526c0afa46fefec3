import { Agent, type AgentConfig } from '@mastra/core/agent'
import { createScorer } from '@mastra/core/evals'
import type { AgentWorkflowContext, GraderContext } from '@osmosis/core'
import { rolloutMemory, rolloutModel, scoreSample, toModelMessages } from '@osmosis/mastra'
import { expectTypeOf } from 'vitest'

/** A rollout model is a model of the installed Mastra, without an assertion. */
export async function typesOfModels({ prompt, signal }: AgentWorkflowContext): Promise<void> {
  const model = rolloutModel({ name: 'main', temperature: 1 })
  const agent = new Agent({ id: 'main', name: 'Main', instructions: '', model })
  expectTypeOf(() => model).toExtend<AgentConfig['model']>()
  expectTypeOf([{ model }]).toExtend<AgentConfig['model']>()
  await agent.generate(toModelMessages(prompt), { memory: rolloutMemory(), abortSignal: signal })
  await agent.stream(toModelMessages(prompt), { maxSteps: 3 })
  // @ts-expect-error a temperature is a number
  rolloutModel({ temperature: 'hot' })
  const either = rolloutModel({ name: 'main', fallback: 'openai/gpt-4.1' })
  expectTypeOf(() => either).toExtend<() => AgentConfig['model']>()
}

/** Scorers of every type, also with a judge and intermediate results. */
export async function typesOfScorers(ctx: GraderContext): Promise<void> {
  const about = { id: 'scorer', description: 'Scores.' }
  const judge = { model: rolloutModel('judge'), instructions: 'You judge.' }
  const scorers = [
    createScorer(about).generateScore(() => 1),
    createScorer({ ...about, type: 'agent' })
      .preprocess(({ run }) => run.output.length)
      .generateScore(({ results }) => results.preprocessStepResult),
    createScorer({ ...about, judge }).generateScore({ description: 'd', createPrompt: () => 'p' }),
  ]
  for (const scorer of scorers) ctx.setReward(await scoreSample(scorer, ctx))
}

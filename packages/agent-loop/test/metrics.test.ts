import { describe, expect, it } from 'vitest'

import { said, type LoopTrainerAnswer } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, startApp } from './running-app.ts'
import { stoppedClock } from './stopped-clock.ts'

/** Makes the policy answer after this many milliseconds. */
function after(
  pass: (ms: number) => void,
  ms: number,
  answer: LoopTrainerAnswer,
): LoopTrainerAnswer {
  return (response) => {
    pass(ms)
    if (typeof answer === 'number') response.writeHead(answer).end()
    else response.end(JSON.stringify(answer))
  }
}

describe('the metrics of a rollout', () => {
  it('have the time of answered requests, and the total time', async () => {
    const pass = stoppedClock()
    await using running = await startApp({
      loop: loopOf(async (ctx) => {
        await answerOnce(ctx)
        pass(10)
        ctx.recordToolCall({ latencyMs: 10 })
        return answerOnce(ctx)
      }),
    })
    running.trainer.chatAnswers.push(
      after(pass, 1000, 500),
      after(pass, 200, said('one')),
      after(pass, 30, said('two')),
    )
    await running.init()

    expect(await running.trainer.results()).toMatchObject([
      {
        metrics: {
          total_latency_ms: expect.closeTo(1240, 3),
          llm_latency_ms: expect.closeTo(230, 3),
          tool_latency_ms: 10,
          num_llm_calls: 2,
          num_tool_calls: 1,
          prompt_tokens: 20,
          response_tokens: 8,
          max_context_tokens: 0,
        },
      },
    ])
  })

  it('count the time in the queue', async () => {
    const pass = stoppedClock()
    await using running = await startApp({ maxConcurrent: 1 })
    const { trainer } = running
    const finish = Promise.withResolvers<() => void>()
    trainer.chatAnswers.push((response) => {
      finish.resolve(() => response.end(JSON.stringify(said('ok'))))
    })
    await running.init({ rollout_id: 'first' })
    const end = await finish.promise
    await running.init({ rollout_id: 'second' })
    pass(5000)
    end()
    expect(await trainer.results(2)).toMatchObject([
      {
        rollout_id: 'first',
        metrics: {
          total_latency_ms: expect.closeTo(5000, 3),
          llm_latency_ms: expect.closeTo(5000, 3),
        },
      },
      {
        rollout_id: 'second',
        metrics: { total_latency_ms: expect.closeTo(5000, 3), llm_latency_ms: 0 },
      },
    ])
  })
})

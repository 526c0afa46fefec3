import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import path from 'node:path'

import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import { validateTrajectory, type Trajectory } from '@osmosis/protocol/trajectory'
import { describe, expect, it } from 'vitest'

import { LeaseClient, onlyIf, post, temporaryFolder } from '../../../test/kit/index.ts'
import {
  askPolicy,
  graderOf,
  startServer,
  workflowOf,
  type RunningServer,
} from './running-server.ts'

/** Lets everything that runs come to its end. */
async function ended({ server }: RunningServer): Promise<void> {
  await server.drain({ waitSeconds: 60 })
}

function read({ artifactRoot }: RunningServer, name = 'r1/trajectory.json'): Trajectory {
  const document = JSON.parse(readFileSync(path.join(artifactRoot, name), 'utf8')) as Trajectory
  expect(validateTrajectory(document)).toEqual([])
  return document
}

function diagnostics({ artifactRoot }: RunningServer): unknown {
  return JSON.parse(readFileSync(path.join(artifactRoot, 'r1/diagnostics.json'), 'utf8'))
}

/** An acknowledgement with a report of these calls. */
function acknowledging(trajectory: unknown): (response: ServerResponse) => void {
  return (response) => response.writeHead(200).end(JSON.stringify({ trajectory }))
}
const report = (...calls: object[]): object => ({ samples: { main: { llm_call_metrics: calls } } })

const answered = [
  { source: 'user', message: 'Is it?' },
  { source: 'agent', message: 'yes' },
]

describe('the trajectory document of a rollout', () => {
  onlyIf(process.platform !== 'win32', 'permissions of files').it(
    'can be read only by the owner of the process, and so can its diagnostics',
    async () => {
      const failing = graderOf(() => {
        throw new Error('no grade')
      })
      await using running = await startServer({ grader: failing })
      await running.post()
      await ended(running)
      for (const name of ['trajectory.json', 'diagnostics.json']) {
        const { mode } = statSync(path.join(running.artifactRoot, 'r1', name))
        expect([name, mode & 0o777]).toStrictEqual([name, 0o600])
      }
    },
  )

  it('shows the conversation, the reward and the fields of the request', async () => {
    await using running = await startServer()
    await running.post({ metadata: { level: 1 }, extra_fields: { row_index: 4, run_index: 2 } })
    await ended(running)
    const document = read(running)
    expect(document).toMatchObject({ session_id: 'r1', trajectory_id: 'r1', steps: answered })
    expect(document.extra).toEqual({
      osmosis: {
        rollout_id: 'r1',
        sample_id: 'main',
        label: 'yes',
        reward: 1,
        request_metadata: { level: 1 },
        request_extra_fields: { row_index: 4, run_index: 2 },
      },
    })
    expect(readdirSync(path.join(running.artifactRoot, 'r1'))).toEqual(['trajectory.json'])
  })

  it('is written when the last callback was acknowledged', async () => {
    await using running = await startServer()
    const { controller } = running
    let earlier: boolean | undefined
    controller.answers['grader'] = [
      (response) => {
        earlier = existsSync(path.join(running.artifactRoot, 'r1'))
        response.writeHead(200).end()
      },
    ]
    await running.post()
    await ended(running)
    expect(earlier).toBe(false)
    expect(read(running).steps).toHaveLength(2)
  })

  it('contains the report in the acknowledgement by the controller of the completion', async () => {
    await using running = await startServer()
    running.controller.answers['completion'] = [
      acknowledging(report({ prompt_tokens: 9, completion_token_ids: [1, 2] })),
    ]
    await running.post()
    await ended(running)
    expect(read(running).steps[1]?.metrics).toMatchObject({
      prompt_tokens: 9,
      completion_token_ids: [1, 2],
      extra: { attempts: 1 },
    })
    expect(read(running).final_metrics).toEqual({ total_prompt_tokens: 9, total_steps: 2 })
  })

  it('contains the later report when two acknowledgements have one', async () => {
    await using running = await startServer()
    running.controller.answers['completion'] = [acknowledging(report({ prompt_tokens: 9 }))]
    running.controller.answers['grader'] = [acknowledging(report({ completion_tokens: 3 }))]
    await running.post()
    await ended(running)
    expect(read(running).final_metrics).toEqual({ total_completion_tokens: 3, total_steps: 2 })
  })

  it('is written without a malformed report, which is logged', async () => {
    await using running = await startServer()
    running.controller.answers['completion'] = [acknowledging({ samples: 'all' })]
    await running.post()
    await ended(running)
    expect(read(running).steps).toMatchObject(answered)
    expect(running.log).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        message: 'the report in an acknowledgement is malformed; ignored',
      }),
    )
  })

  it('is written without an incomplete report, which still acknowledges', async () => {
    await using running = await startServer()
    running.controller.answers['completion'] = [
      (response) => {
        response.writeHead(200, { 'content-length': '100' })
        response.write('{"trajectory":', () => response.destroy())
      },
    ]
    await running.post()
    await ended(running)
    expect(read(running).steps).toMatchObject(answered)
    expect(running.controller.callbacks.map(({ kind }) => kind)).toEqual(['completion', 'grader'])
  })

  it('is written for a rollout without grading', async () => {
    await using running = await startServer()
    await running.post({ grader_callback_url: null })
    await ended(running)
    expect(read(running).steps).toMatchObject(answered)
  })

  it('shows the reward that a sample source has set where nothing is graded', async () => {
    await using running = await startServer({
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        requireRolloutContext('test').registerSampleSource('own', {
          getSample: (id) => ({ ...toRolloutSample({ id, messages: [] }), reward: 0.5 }),
        })
      }),
    })
    await running.post({ grader_callback_url: null })
    await ended(running)
    expect(read(running, 'r1/trajectory-own.json')).toMatchObject({
      extra: { osmosis: { sample_id: 'own', reward: 0.5 } },
    })
  })

  it('has the reward of its callback, although the grader left code behind that sets another', async () => {
    const grader = graderOf((ctx) => {
      ctx.setReward(1)
      ctx.signal.addEventListener('abort', () => {
        ctx.setReward(2)
        ctx.setStepRewards('main', [2])
        ctx.removeSample('main')
      })
      setImmediate(() => ctx.setReward(3))
    })
    await using running = await startServer({ grader })
    let late: Promise<unknown> | undefined
    running.controller.answers['grader'] = [
      (response) => {
        late = new Promise((resolve) => setImmediate(resolve))
        void late.then(() => response.writeHead(200).end())
      },
    ]
    await running.post()
    await ended(running)
    expect(await running.controller.bodies()).toMatchObject([{}, { sample: { reward: 1 } }])
    const { osmosis } = read(running).extra as { osmosis: object }
    expect(osmosis).toMatchObject({ reward: 1 })
    expect(JSON.stringify(read(running))).not.toMatch(/step_reward|remove_sample/)
  })

  it('is one for each sample when there are several', async () => {
    await using running = await startServer({
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx, 'solver')
        await askPolicy(ctx, '../judge')
      }),
    })
    await running.post()
    await ended(running)
    expect(readdirSync(path.join(running.artifactRoot, 'r1')).toSorted()).toEqual([
      'trajectory-_judge.json',
      'trajectory-solver.json',
    ])
    expect(read(running, 'r1/trajectory-_judge.json')).toMatchObject({
      trajectory_id: 'r1/../judge',
      steps: answered,
      extra: { osmosis: { sample_id: '../judge', reward: 1 } },
    })
  })
})

describe('the document of a failed rollout', () => {
  it('shows the conversation until the workflow failed, which no callback does', async () => {
    await using running = await startServer({
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        throw new Error('boom with controller-key')
      }),
    })
    await running.post()
    await ended(running)
    const failure = {
      phase: 'workflow',
      category: 'agent_error',
      message: expect.stringMatching(
        /^thrown by run\(\) at \S+:\d+: boom with \[redacted\]$/,
      ) as unknown,
    }
    expect(read(running)).toMatchObject({
      steps: answered,
      extra: { osmosis: { failures: [failure] } },
    })
    expect(diagnostics(running)).toEqual({
      failed_calls: [],
      failures: [failure],
      rollout_id: 'r1',
      warnings: [],
    })
    expect(await running.controller.bodies()).toMatchObject([
      { status: 'failure' },
      { status: 'failure', samples: {}, sample: null },
    ])
  })

  it('shows the call that a timed-out workflow waited for', async () => {
    await using running = await startServer({
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        running.controller.hanging = true
        const messages = [{ role: 'user', content: 'And now?' }]
        await requireRolloutContext('test').policy('main').complete({ messages })
      }),
    })
    await running.post({ agent_timeout_sec: 1 })
    await ended(running)
    expect(read(running)).toMatchObject({
      steps: [{ source: 'user', message: 'And now?' }],
      extra: {
        osmosis: {
          failures: [{ category: 'timeout' }],
          sample_extra_fields: { other_conversations: [[{ role: 'user' }, { content: 'yes' }]] },
        },
      },
    })
    expect(diagnostics(running)).toMatchObject({
      failed_calls: [{ call: 1, sample_id: 'main', error: expect.stringContaining('deadline') }],
    })
  })

  it('shows the model calls of a cancelled rollout, also when its code never ends', async () => {
    await using running = await startServer({
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx).catch(async () => new Promise(() => undefined))
      }),
    })
    running.controller.hanging = true
    await running.post()
    await running.controller.until(() => running.controller.openPolicyCalls === 1)
    await post(`${running.url}/rollout/cancel`, { all: true })
    await ended(running)
    expect(read(running)).toMatchObject({
      steps: [{ source: 'user', message: 'Is it?' }],
      extra: { osmosis: { failures: [{ phase: 'workflow', message: 'cancelled' }] } },
    })
  })

  it('shows the prompt of a rollout that never began', async () => {
    await using running = await startServer()
    await running.post({ agent_timeout_sec: 0 })
    await ended(running)
    expect(read(running)).toMatchObject({ steps: [{ source: 'user', message: 'Is it?' }] })
  })

  it('shows the whole conversation when the grader failed, or there was none', async () => {
    const failing = graderOf(() => {
      throw new Error('gboom')
    })
    for (const grader of [failing, null]) {
      await using running = await startServer({ grader })
      await running.post()
      await ended(running)
      expect(read(running)).toMatchObject({
        steps: answered,
        extra: { osmosis: { failures: [{ phase: 'grading' }] } },
      })
    }
  })

  it('has no reward when the grader failed after it had set one', async () => {
    const grader = graderOf((ctx) => {
      ctx.setReward(1)
      ctx.setStepRewards('main', [0.5])
      throw new Error('no grade')
    })
    await using running = await startServer({ grader })
    await running.post()
    await ended(running)
    const { osmosis } = read(running).extra as { osmosis: object }
    expect(osmosis).toMatchObject({ sample_id: 'main', failures: [{ phase: 'grading' }] })
    expect(JSON.stringify(read(running))).not.toContain('reward')
  })

  it('shows the prompt when the backend broke', async () => {
    const artifactRoot = await temporaryFolder()
    await using running = await startServer({
      artifactRoot,
      backend: {
        artifactRoot,
        // oxlint-disable-next-line require-yield -- it breaks before its first event
        async *execute() {
          throw new Error('broken')
        },
        hasCapacity: () => true,
        load: () => ({ maxConcurrent: null, queued: 0, running: 0 }),
        status: () => ({ status: 'unknown', reward: null, errorMessage: null }),
        cancel: () => new Map(),
        shutdown: () => undefined,
      },
    })
    await running.post()
    await ended(running)
    expect(read(running)).toMatchObject({
      steps: [{ message: 'Is it?' }],
      extra: { osmosis: { failures: [{ message: 'broken' }] } },
    })
  })
})

describe('a document that cannot be written', () => {
  it('only adds a line to the log', async () => {
    const folder = await temporaryFolder({ file: 'not a folder' })
    await using running = await startServer({ artifactRoot: path.join(folder, 'file') })
    await running.post()
    await ended(running)
    expect(await running.controller.bodies()).toMatchObject([
      { status: 'success' },
      { status: 'success', sample: { reward: 1 } },
    ])
    expect(running.log.filter(({ level }) => level === 'warn')).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/^trajectory not written: /) }),
    ])
  })

  it('is one that the server was not to write', async () => {
    await using running = await startServer({ trajectories: false })
    await running.post()
    await ended(running)
    expect(readdirSync(running.artifactRoot)).toEqual([])
  })

  it('of a hanging source does not delay the results', async () => {
    await using running = await startServer({
      workflow: workflowOf(async () => {
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: () => new Promise(() => undefined),
        })
        throw new Error('boom')
      }),
    })
    await running.post()
    await running.controller.bodies()
    expect(existsSync(path.join(running.artifactRoot, 'r1'))).toBe(false)
    await ended(running)
    expect(read(running).steps).toMatchObject([{ message: 'Is it?' }])
  })

  it('does not refuse samples that cannot be converted', async () => {
    await using running = await startServer({
      workflow: workflowOf(() => {
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: (id) =>
            toRolloutSample({ id, messages: [new Map(), 7, null], metrics: { odd: 1n } }),
        })
      }),
    })
    await running.post()
    await ended(running)
    expect(read(running).steps).toHaveLength(3)
  })
})

describe('the document of a leased rollout', () => {
  const lease = async (
    running: RunningServer,
    overrides: Record<string, unknown> = {},
  ): ReturnType<LeaseClient['start']> => {
    const { completion_callback_url: _, ...body } = running.controller.rolloutBody(overrides)
    return new LeaseClient({ url: running.url }).start(body)
  }

  it('exists when its result is published', async () => {
    await using running = await startServer()
    const handle = await lease(running, { extra_fields: { row_index: 1 } })
    expect(await handle.until()).toMatchObject({ status: 'success', sample: { reward: 1 } })
    expect(read(running)).toMatchObject({
      steps: answered,
      extra: { osmosis: { reward: 1, request_extra_fields: { row_index: 1 } } },
    })
  })

  it('exists without grading as well', async () => {
    await using running = await startServer()
    await (await lease(running, { grade: false })).until()
    expect(read(running).steps).toMatchObject(answered)
  })

  it('shows the conversation of a rollout that failed or was cancelled', async () => {
    await using running = await startServer({
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        if (ctx.rolloutId === 'fails') throw new Error('boom')
        running.controller.note('requested')
        await new Promise(() => undefined)
      }),
    })
    const failing = await lease(running, { rollout_id: 'fails' })
    expect((await failing.until()).err_message).toMatch(/: boom$/)
    const hanging = await lease(running)
    await running.controller.until(() => running.controller.events.includes('requested'))
    await post(`${running.url}/rollout/cancel`, { all: true })
    expect((await hanging.until()).status).toBe('cancelled')
    for (const [name, message] of [
      ['fails', expect.stringMatching(/^thrown by run\(\) at \S+:\d+: boom$/) as unknown],
      ['r1', 'cancelled'],
    ] as const) {
      expect(read(running, `${name}/trajectory.json`)).toMatchObject({
        steps: answered,
        extra: { osmosis: { failures: [{ message }] } },
      })
    }
  })

  it('does not prevent the result when it cannot be written', async () => {
    const folder = await temporaryFolder({ file: 'not a folder' })
    await using running = await startServer({ artifactRoot: path.join(folder, 'file') })
    expect(await (await lease(running)).until()).toMatchObject({ sample: { reward: 1 } })
  })
})

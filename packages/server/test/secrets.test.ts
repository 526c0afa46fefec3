import { describe, expect, it } from 'vitest'

import { startServer, workflowOf } from './running-server.ts'

const serverKey = 'planted-server-key'
const controllerKey = 'planted-controller-key'
const llmKey = 'planted-controller-key-of-the-llm'
const planted = /planted/

describe('a key that the server received', () => {
  it('is in no log line, status, health or 422 body, and in no error message of a callback', async () => {
    const spill = new Error(`refused: ${serverKey}, ${controllerKey} and "${llmKey}"`, {
      cause: Object.assign(new Error(`Bearer ${controllerKey}`), { headers: { key: llmKey } }),
    })
    await using running = await startServer({
      apiKey: serverKey,
      workflow: workflowOf(() => Promise.reject(spill)),
    })
    const { controller, url, log, server } = running
    const headers = { authorization: `Bearer ${serverKey}` }
    const body = { controller_api_key: controllerKey, llm_api_key: llmKey }
    controller.answers['completion'] = [503, 400]

    const texts = [
      await (await running.post({ ...body, label: 1 }, headers)).text(),
      await (await running.post({ ...body, llm_api_key: [llmKey] }, headers)).text(),
      await (await running.post(body, headers)).text(),
    ]
    await controller.until(() => controller.events.includes('grader 200'))
    texts.push(
      await (await fetch(`${url}/rollout/r1/status`, { headers })).text(),
      await (await fetch(`${url}/health`)).text(),
    )
    const nested = { [`clients of ${llmKey}`]: { [controllerKey]: 1 } }
    server.logger.error(
      { deep: { list: [{ key: `x${llmKey}x` }], nested } },
      `stray: ${controllerKey}`,
    )
    await server.drain()

    for (const text of texts) expect(text).not.toMatch(planted)
    expect(JSON.stringify(log)).not.toMatch(planted)
    expect(JSON.stringify(controller.callbacks.map((callback) => callback.body))).not.toMatch(
      planted,
    )
    expect(controller.callbacks[0]?.body).toMatchObject({
      err_message: expect.stringMatching(
        /: refused: \[redacted\], \[redacted\] and "\[redacted\]"$/,
      ) as unknown,
    })
    expect(log).toContainEqual({
      level: 'error',
      message: 'stray: [redacted]',
      fields: {
        deep: {
          list: [{ key: 'x[redacted]x' }],
          nested: { 'clients of [redacted]': { '[redacted]': 1 } },
        },
      },
    })
  })
})

describe('the log', () => {
  it('has the rollout id in every line about a rollout, and the category of its failure', async () => {
    await using running = await startServer({
      workflow: workflowOf(() => Promise.reject(new TypeError('boom'))),
    })
    await running.post({ grader_callback_url: null })
    await running.server.drain()

    expect(
      running.log
        .filter(({ fields }) => 'rollout_id' in fields)
        .map(({ level, message, fields }) => [level, message, fields['rollout_id']]),
    ).toStrictEqual([
      ['info', 'rollout accepted', 'r1'],
      [
        'warn',
        expect.stringMatching(/^workflow failed: thrown by run\(\) at \S+:\d+: boom$/),
        'r1',
      ],
      ['debug', 'callback acknowledged', 'r1'],
      ['info', 'rollout ended', 'r1'],
    ])
    expect(running.log.find(({ level }) => level === 'warn')?.fields).toMatchObject({
      rollout_id: 'r1',
      category: 'validation_error',
      error: { name: 'TypeError', message: 'boom' },
    })
  })

  it('warns of a workflow without a model call, and of omitted telemetry', async () => {
    const { requireRolloutContext, toRolloutSample } = await import('@osmosis/core')
    await using running = await startServer({
      workflow: workflowOf(() => {
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: (id) =>
            toRolloutSample({ id, messages: [], metrics: { a: Number.NaN, b: () => 1 } }),
        })
      }),
    })
    await running.post()
    await running.server.drain()

    expect(
      running.log.filter(({ level }) => level === 'warn').map(({ fields }) => fields),
    ).toStrictEqual([
      {
        rollout_id: 'r1',
        warning:
          'No model call reached the policy. The agent probably still has its old model: give it that of its adapter, and await its run.',
      },
      {
        rollout_id: 'r1',
        warning:
          'The grader callback leaves out metrics or extra fields without a JSON form: non-finite number, function.',
      },
    ])
  })

  it('reports a workflow failure whose error cannot be read', async () => {
    const refuse = (): never => {
      throw new Error('not to be read')
    }
    const traps = { get: refuse, getPrototypeOf: refuse, ownKeys: refuse }
    const unreadable = new Proxy(new Error(), traps)
    await using running = await startServer({
      workflow: workflowOf(() => Promise.reject(unreadable)),
    })
    await running.post()
    await running.controller.bodies()
    expect(running.log).toContainEqual({
      level: 'warn',
      message: expect.stringMatching(/^workflow failed: ./) as string,
      fields: { rollout_id: 'r1', category: 'agent_error', error: '[cannot be read]' },
    })
  })

  it('may fail without harm to a rollout', async () => {
    const fail = (): never => {
      throw new Error('disk full')
    }
    await using running = await startServer({
      logger: { debug: fail, info: fail, warn: fail, error: fail },
    })
    await running.post()

    expect(await running.controller.bodies()).toMatchObject([
      { status: 'success' },
      { status: 'success' },
    ])
  })
})

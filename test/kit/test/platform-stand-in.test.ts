import { expect, it } from 'vitest'

import { PlatformStandIn } from '../index.ts'

const headers = { authorization: 'Bearer standing-token', 'x-osmosis-git': 'acme/lab' }

/** What the platform answers a request of a user who is logged in. */
async function ask(
  platform: PlatformStandIn,
  request: string,
  body?: object,
): Promise<{ status: number; text: string }> {
  const [method = '', route = ''] = request.split(' ')
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await fetch(`${platform.url}/api/cli/${route}`, { method, headers, ...sent })
  return { status: answer.status, text: await answer.text() }
}

it.each<[string, object | undefined, string]>([
  ['GET datasets?limit=50', undefined, 'offset: '],
  ['GET datasets?limit=50&offset=0&sort=name', undefined, '"sort\\"'],
  ['GET datasets/sums/logs?limit=50', undefined, 'direction: '],
  ['GET environment-secrets?limit=50&offset=0', undefined, 'scope: '],
  ['POST environment-secrets', { name: 'KEY', value: 'x' }, 'scope: '],
  ['POST environment-secrets', { name: 'KEY', value: 'x', scope: 'personal' }, 'scope: '],
  ['DELETE environment-secrets', { name: 'KEY', scope: 'user', value: 'x' }, '"value\\"'],
  ['POST datasets', { file_name: 'a', file_size: 1 }, 'extension: '],
  ['POST eval-runs', { experiment_config: { rollout: 'echo' } }, 'experiment_config.entrypoint'],
  ['GET eval-runs/eval-1/samples/manifest?types=metrics&row=1', undefined, '"row\\"'],
])(
  'the stand-in takes nothing that the Python SDK would not send: %s',
  async (request, body, fault) => {
    const platform = await PlatformStandIn.start()
    const { status, text } = await ask(platform, request, body)
    expect([status, text]).toEqual([400, expect.stringContaining(fault)])
  },
)

it('the Python SDK can read every answer of the stand-in', async () => {
  const platform = await PlatformStandIn.start()
  platform.trainingRuns.add('first', { more: { loss: 1 } })
  const { status, text } = await ask(platform, 'GET training-runs/first')
  expect([status, text]).toEqual([
    500,
    expect.stringContaining('training_run: Unrecognized key: "loss"'),
  ])
})

it('metrics and files of a run are found by its id alone', async () => {
  const platform = await PlatformStandIn.start()
  platform.evalRuns.add('first')
  expect((await ask(platform, 'GET eval-runs/first/metrics')).status).toBe(404)
  expect((await ask(platform, 'GET eval-runs/eval-1/metrics')).status).toBe(200)
  expect((await ask(platform, 'GET eval-runs/first/samples/manifest?types=logs')).status).toBe(404)
})

import { writeFileSync } from 'node:fs'
import path from 'node:path'

import type { RunResponseBody } from '@osmosis/protocol/wire'
import { expect, it } from 'vitest'

import { post, sendJson, startPolicyEndpoint, tokenAnswer } from '../../../test/kit/index.ts'
import { FakeMiles } from '../../../test/kit/trainers/index.ts'
import { inWorkspace, run as osmosis, sendRow, start } from './in-process.ts'
import { startOsmosis } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'

it.each([
  ['here', []],
  ['in a worker process', ['--workers', '1']],
] as const)(
  'serves a workflow %s, and rollouts whose answer is their result with --run, and ends when it is told to',
  async (where, flags) => {
    const run = ['--port', '0', '--no-trajectories', '--run', '--group-column', 'id']
    const args = ['serve', echo, ...run, ...flags]
    const here = where === 'here' ? start(args) : undefined
    const command = here ?? startOsmosis(args)
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    const health = await fetch(`${url}/health`)
    expect(await health.json()).toMatchObject({
      status: 'ok',
      concurrency: { max_concurrent: 4, queued: 0, running: 0 },
    })
    expect(await sendRow(url)).toMatchObject({ code: 0 })

    await using miles = await FakeMiles.start({
      model: (body, rolloutId) => tokenAnswer(body, { content: rolloutId }),
      filter: true,
    })
    const row = { prompt: 'Say your name.', label: 'g1-1', id: 1 }
    const rollouts = await miles.generate(url, [row], { attempts: 2 })
    expect(rollouts.map(({ answer }) => answer?.reward)).toStrictEqual([1, 0])
    expect(miles.trained()).toHaveLength(2)
    // What a policy says that records nothing comes back with its ids, from workers as well.
    const policy = await startPolicyEndpoint((response, _, { body }) =>
      sendJson(response, 200, tokenAnswer(body, { content: 'g1-1' })),
    )
    const asked = { ...row, base_url: policy.url, model: 'openai/model', trace: true }
    const answer = (await (await post(`${url}/run`, asked)).json()) as RunResponseBody
    expect(answer).toMatchObject({ exit_status: 'completed', reward: 1 })
    const [call] = answer.trace?.[0]?.calls ?? []
    expect(call?.completion_token_ids).toHaveLength('{"content":"g1-1"}'.length)
    expect(call?.logprobs).toHaveLength('{"content":"g1-1"}'.length)

    if ('child' in command) command.child.kill('SIGTERM')
    const { code, stdout } = await (here?.end() ?? command.finished)
    expect(stdout).toBe(
      `Serving EchoWorkflow of ${echo} (EchoGrader)\nA trainer that uses POST /run gives a failed rollout the reward 0, unless it drops the group.\nThe page Serving of the documentation has a filter that drops such groups.\nListening on ${url} (open, no key required)\n`,
    )
    expect(code).toBe(0)
  },
)

it('a grader that compares attempts is served with --run only where groups are named', async () => {
  const folder = temporaryWorkspace({})
  const file = path.join(folder, 'rollouts/echo/ranked.ts')
  writeFileSync(
    file,
    `import { GroupGrader } from '@osmosis/core'
import { EchoWorkflow } from './main.ts'
export class Workflow extends EchoWorkflow {}
export class RankGrader extends GroupGrader { async gradeGroup() {} }
`,
  )
  const args = ['serve', file, '--port', '0', '--run', '--group-column', 'id']
  const { code, stderr } = await start(args).finished
  expect(code).toBe(2)
  expect(stderr).toContain(
    'compares the attempts at a row: pass --group-column and --group-size, which define the groups of POST /run.',
  )
  const named = start([...args, '--group-size', '2'])
  await named.printed(/Listening on (\S+)/)
})

it('flags that do not fit together are refused', async () => {
  const loop = start(['serve', 'rollouts/agent-loops/adder.ts', '--port', '0', '--workers', '1'])
  expect(await osmosis(['serve', echo, '--stall-timeout', '5'])).toMatchObject({
    code: 2,
    stderr:
      'error: --stall-timeout and --worker-memory are limits of workers: pass --workers as well.\n',
  })
  expect((await osmosis(['serve', echo, '--workers', '0'])).stderr).toMatch(/at least 1, or auto/)
  expect(await loop.finished).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--workers is for workflows'),
  })
})

it(
  'a server is not started with an entrypoint that no worker can load',
  { tags: 'slow' },
  async () => {
    const folder = temporaryWorkspace({})
    writeFileSync(path.join(folder, 'broken.ts'), 'throw new Error("half an entrypoint")\n')
    const args = ['serve', path.join(folder, 'broken.ts'), '--port', '0']
    const [inProcess, inWorkers] = await Promise.all([
      start(args).finished,
      start([...args, '--workers', '2']).finished,
    ])
    expect(inWorkers.code).toBe(2)
    expect(inWorkers.stderr).toMatch(/^error: Cannot load the entrypoint .*half an entrypoint/s)
    expect(inProcess.stderr.split('\n')[0]).toBe(inWorkers.stderr.split('\n')[0])
  },
)

it('a workflow in workers is not registered', { tags: 'slow' }, async () => {
  const args = ['serve', 'rollouts/echo/main.ts', '--port', '0', '--workers', '1', '--register']
  expect(await start(args).finished).toMatchObject({ code: 2 })
})

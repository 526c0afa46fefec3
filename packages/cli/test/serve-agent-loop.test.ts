import { readdirSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { inWorkspace, run as osmosis, start } from './in-process.ts'
import { endpoint, say } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

const adder = 'rollouts/agent-loops/adder.ts:agentLoop'

async function fails(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await osmosis(args)
  expect([code, stdout]).toEqual([2, ''])
  return stderr
}

describe('osmosis serve -m', () => {
  it('serves an agent loop to a trainer, writes traces, and ends on a signal', async () => {
    const log = temporaryFolder()
    const done = Promise.withResolvers<Record<string, unknown>>()
    const trainer = await endpoint(({ path: route, body }, response) => {
      if (route === '/v1/chat/completions') {
        say(response, '5')
        return
      }
      response.end('{}')
      done.resolve(body)
    })
    const command = start(['serve', '-m', adder, '--port', '0', '--log', log])
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ agent_loop: 'adder' })
    const init = {
      rollout_id: 'r1',
      server_url: trainer.url,
      messages: [{ role: 'user', content: '2 and 3' }],
      completion_params: {},
      metadata: { ground_truth: '5' },
    }
    const answer = await fetch(`${url}/v1/rollout/init`, {
      method: 'POST',
      body: JSON.stringify(init),
    })
    expect(answer.status).toBe(202)
    expect(await done.promise).toMatchObject({ rollout_id: 'r1', status: 'COMPLETED', reward: 1 })

    const { code, stdout } = await command.end()
    const [started = ''] = readdirSync(log)
    expect([code, stdout]).toEqual([
      0,
      `Serving the agent loop adder of rollouts/agent-loops/adder.ts\nWriting traces to ${path.join(log, started)}\nListening on ${url} (open, no key required)\n`,
    ])
    expect(started).toMatch(/^\d{10}$/)
    expect(readdirSync(path.join(log, started))).toEqual(['r1.jsonl'])
  })

  it('asks for a key beyond this machine, and for the key of the flag', async () => {
    expect(await fails('serve', '-m', adder, '--port', '0', '--host', '0.0.0.0')).toMatch(
      /^error: .*0\.0\.0\.0.*key/,
    )
    const command = start(['serve', '-m', adder, '--port', '0', '--api-key', 'k1'])
    const [, url = ''] = await command.printed(/Listening on (\S+) \(with a bearer key\)/)
    expect((await fetch(`${url}/platform/health`)).status).toBe(401)
  })

  it('does not serve an invalid loop', async () => {
    expect(await fails('serve', '-m', 'rollouts/agent-loops/faulty.ts:wrong', '--port', '0')).toBe(
      'error: Agent loop validation failed with 1 error(s):\n  - [GET_TOOLS_RETURNS_NONE] getTools: getTools() must return an array, got null\n',
    )
  })

  it('serves one thing at a time', async () => {
    const message =
      'error: Name one entrypoint: a module that exports an AgentWorkflow or an agent loop, as <file> or -m <file>:<export>.\n'
    expect(await fails('serve')).toBe(message)
    expect(await fails('serve', 'rollouts/echo/main.ts', '-m', adder)).toBe(message)
  })
})

describe('osmosis serve, when the entrypoint says what it is,', () => {
  it('takes an agent loop without a flag, and a workflow with one', async () => {
    const served = async (...args: string[]): Promise<string> => {
      const [, what = ''] = await start(['serve', ...args, '--port', '0']).printed(
        /Serving (.*)\nListening on/,
      )
      return what
    }
    expect(await served('rollouts/agent-loops/adder')).toBe(
      'the agent loop adder of rollouts/agent-loops/adder.ts',
    )
    expect(await served('-m', 'rollouts/echo/main')).toBe(
      'EchoWorkflow of rollouts/echo/main.ts (EchoGrader)',
    )
  })

  it.each([
    [
      'a workflow by name',
      ['-m', 'rollouts/echo/main.ts:EchoWorkflow'],
      "'EchoWorkflow' is a workflow, which needs no name: pass rollouts/echo/main.ts without :EchoWorkflow.",
    ],
    [
      'a workflow and an agent loop in one module',
      ['rollouts/broken/both.ts'],
      'rollouts/broken/both.ts exports a workflow and an agent loop (agentLoop). Name the loop as rollouts/broken/both.ts:<export>, or move one of them to a file of its own.',
    ],
    [
      'the class of an agent loop alone',
      ['rollouts/broken/only-a-class.ts'],
      'rollouts/broken/only-a-class.ts exports the class of an agent loop. Name it as rollouts/broken/only-a-class.ts:Adder, or export one instance of it.',
    ],
    [
      'traces of a workflow',
      ['rollouts/echo/main.ts', '--log', 'traces'],
      '--log is for agent loops, and rollouts/echo/main.ts exports an AgentWorkflow.',
    ],
  ])('refuses %s', async (_what, args, message) => {
    expect(await fails('serve', ...args)).toBe(`error: ${message}\n`)
  })
})

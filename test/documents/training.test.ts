import { execFile } from 'node:child_process'
import { cpSync, globSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend, createRolloutServer, serve } from '@osmosis/server'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { temporaryFolder, tokenAnswer, withPrograms } from '../kit/index.ts'
import { FakeAgentLightning, type FakeModel } from '../kit/trainers/index.ts'
import { commandLines } from '../repository/command-line.ts'
import { blocksOf, documents, read, root } from '../repository/documents.ts'
import { makeWorkspace, startReader, type Reader } from './reader.ts'

// Blocks of `bash` run here. Those of `shell` need a GPU or Python packages and are not run.
const pages = documents.filter((document) => document.startsWith('docs/training/'))
const commands = pages
  .flatMap((document) => blocksOf(document, 'bash').map(({ text }) => text))
  .flatMap((text) => commandLines(text))
const row = { user_prompt: 'How much do I pay for 3 notebooks?', ground_truth: '10.50' }
const model: FakeModel = (body) => tokenAnswer(body, { content: '#### 10.50' })

/** In the folder of the workspace that all pages train. */
async function workspace(): Promise<{ reader: Reader; place: string }> {
  const reader = await startReader('processes')
  return { reader, place: await makeWorkspace(reader) }
}

function commandWith(words: string): string {
  const found = commands.find((command) => command.includes(words))
  if (found === undefined) throw new Error(`no page has a command with ${words}`)
  return found
}

it('the worker of the page about Agent Lightning takes rows of its data, and has its key', async () => {
  await using fake = await FakeAgentLightning.start({ apiKey: 'change-me', model })
  fake.enqueue(Array.from({ length: 4 }, () => ({ input: { ...row, index: 0 } })))
  const { reader, place } = await workspace()
  const command = commandWith('--agent-lightning').replace('http://127.0.0.1:8181', fake.url)
  const script = `${commandWith('export OSMOSIS_TRAINER_KEY')}\nuntil_it_says "Taking rollouts" TERM ${command}`
  // The worker ends what it has started.
  const printed = await reader.bash(script, place)
  expect(printed).toContain(`Taking rollouts from Agent Lightning at ${fake.url}`)
  expect(printed).toContain('"msg":"rollouts for Agent Lightning')
  expect(printed).not.toContain('refuses')
})

it.each([...new Set(commands.filter((command) => command.includes('osmosis serve ')))])(
  '%s serves',
  async (command) => {
    const { reader, place } = await workspace()
    const here = command.replace(/ --port \d+/, '').replace('--host 0.0.0.0', '')
    const script = [
      'mkdir -p rollouts/my-rollout && cp rollouts/my-agent/*.ts rollouts/my-rollout/',
      `until_it_says 'Listening on' TERM ${here} --port 0`,
    ]
    const printed = await reader.bash(script.join('\n'), place, {
      OSMOSIS_ROLLOUT_SERVER_API_KEY: 'change-me',
    })
    expect(printed).toContain('Serving ShopWorkflow')
  },
)

/** As much of httpx as the page needs, over the standard library. */
const httpx = `
import asyncio, json, types, urllib.request
class AsyncClient:
    def __init__(self, timeout): pass
    async def __aenter__(self): return self
    async def __aexit__(self, *_): pass
    async def post(self, url, json, headers): return await asyncio.to_thread(send, url, json, headers)
def send(url, body, headers):
    given = {"content-type": "application/json", **headers}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), given)) as answer:
        text = answer.read()
    return types.SimpleNamespace(raise_for_status=lambda: None, json=lambda: json.loads(text))
`

/** What Miles does with an agent, its reward and its filter. */
const asMiles = `
import asyncio, json, sys, types
import osmosis_agent, osmosis_rewards
async def main():
    ends = []
    for row in json.loads(sys.argv[2]):
        metadata = await osmosis_agent.run(sys.argv[1], [], {"max_new_tokens": 64}, row)
        sample = types.SimpleNamespace(metadata={**row, **metadata})
        kept = osmosis_rewards.keep_completed(None, [sample, [sample]])
        ends.append([metadata["exit_status"], await osmosis_rewards.reward(None, sample), kept])
    await osmosis_agent.abort(types.SimpleNamespace(session_server_instance_ids={30000: "instance"}))
    print(json.dumps(ends))
asyncio.run(main())
`

withPrograms('python3').it(
  'the programs of the page about Miles give it rewards, and have it drop what failed',
  async () => {
    class ByRow extends AgentWorkflow {
      async run({ metadata, prompt }: AgentWorkflowContext): Promise<unknown> {
        const { choices } = await requireRolloutContext('ByRow')
          .policy('sample')
          .complete({ messages: [...prompt] })
        if (metadata?.['breaks'] === true) throw new Error('the sandbox is gone')
        return [...prompt, choices[0]?.message]
      }
    }
    class Label extends Grader {
      async grade(ctx: GraderContext): Promise<void> {
        ctx.setReward(Number(ctx.label))
      }
    }
    await using policy = await startPolicyServer(() => 'yes')
    const backend = new LocalBackend({ workflow: ByRow, grader: Label })
    const server = createRolloutServer({ backend, run: true, apiKey: 'change-me', logger: false })
    await using listening = await serve(server, { port: 0, handleSignals: false })
    const folder = await temporaryFolder()
    const files = { 'httpx.py': httpx, 'main.py': asMiles }
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text)
    cpSync(path.join(root, 'examples/trainers/miles'), folder, { recursive: true })
    const rows = [
      { ...row, ground_truth: '0.5' },
      { ...row, breaks: true },
    ]
    const { stdout } = await promisify(execFile)(
      'python3',
      ['main.py', policy.url.replace(/\/v1$/, ''), JSON.stringify(rows)],
      {
        cwd: folder,
        env: { ...process.env, OSMOSIS_SERVER: listening.url, OSMOSIS_KEY: 'change-me' },
      },
    )
    expect(JSON.parse(stdout)).toEqual([
      ['completed', 0.5, true],
      ['failed', 0, false],
    ])
  },
)

withPrograms('python3').it('every program in Python can be compiled', async () => {
  const files = globSync('examples/trainers/*/*.py', { cwd: root })
  expect(files.length).toBeGreaterThan(8)
  const compile = 'import sys; [compile(open(file).read(), file, "exec") for file in sys.argv[1:]]'
  await promisify(execFile)('python3', ['-c', compile, ...files], { cwd: root })
})

it('the pages link to every program and settings file for trainers', () => {
  const files = globSync('examples/trainers/*/*.{py,yaml}', { cwd: root })
  const text = pages.map((page) => read(page)).join('\n')
  expect(files.filter((file) => !text.includes(`(../../${file})`))).toEqual([])
})

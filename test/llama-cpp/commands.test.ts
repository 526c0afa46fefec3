import { existsSync } from 'node:fs'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { expect } from 'vitest'

import { temporaryFolder } from '../kit/index.ts'
import {
  modelServerKey,
  modelServerModel,
  ownModelServer,
  RecordingProxy,
  withModelServer,
} from '../kit/model-server/index.ts'
import { runCommand } from './run-command.ts'
import { saidByServer } from './said-by-server.ts'
import { sharedModelServer } from './shared-server.ts'

const { it } = withModelServer()

const variables = { MODEL_KEY: modelServerKey }
const modelFlags = (url: string): string[] =>
  `--base-url ${url} --model ${modelServerModel} --api-key-env MODEL_KEY`.split(' ')

it('osmosis doctor finds what a real server lacks for trainers', async () => {
  // At temperature 1 so small a model talks on and on. What is drawn is the same in each run.
  let asked = 0
  const shorter = (body: object) => ({ ...body, max_tokens: 32, seed: (asked += 1) })
  await using proxy = await new RecordingProxy((await sharedModelServer()).url, shorter).start()
  const folder = await temporaryFolder()
  const { code, printed } = await runCommand(
    ['doctor', ...modelFlags(proxy.url)],
    folder,
    variables,
  )
  const findings = printed.matchAll(/^(ok|warn|fail) +(\S.*?) {2,}(.*)$/gm)
  const found = Object.fromEntries(
    Array.from(findings, ([, level, check, message]) => [check, [level, message]]),
  )
  expect(found).toEqual({
    endpoint: ['ok', `${modelServerModel} answered`],
    'token ids': [
      'fail',
      'The answer has no choices[0].token_ids, though the request had return_token_ids: true.',
    ],
    logprobs: ['ok', 'one for each token of the answer'],
    // It also says anything.
    'tool calls': [expect.any(String), expect.stringMatching(/^The model |^are parsed$/)],
    // A rollout that records logprobs fails there as soon as its agent has tools.
    stream: [
      'fail',
      expect.stringContaining('logprobs is not supported with tools + stream') as string,
    ],
    prefixes: ['warn', 'Not checked: there are no token ids.'],
    temperature: ['ok', 'is that of the request'],
    // By default it draws from a limited distribution: top_k 40, top_p 0.95, min_p 0.05.
    sampling: [
      'warn',
      'At temperature 1 the server draws likely tokens more often than their logprobs say.',
    ],
    'logprob scale': [
      'warn',
      'Logprobs are those of temperature 1, whatever the temperature of the request.',
    ],
  })
  expect(code).toBe(1)
})

/** A workflow that calls the policy once, and creates a file as soon as that has begun to answer. */
const entrypoint = (settings: object, begun: string): string => `
import { writeFileSync } from 'node:fs'
import { AgentWorkflow, Grader, requireRolloutContext, toRolloutSample } from '@osmosis/core'

export class AskWorkflow extends AgentWorkflow {
  async run(ctx) {
    const rollout = requireRolloutContext('AskWorkflow')
    const messages = [...ctx.prompt]
    rollout.registerSampleSource('main', { getSample: (id) => toRolloutSample({ id, messages }) })
    const answer = rollout.policy('main').stream({ messages, ...${JSON.stringify(settings)} })
    for await (const chunk of answer) writeFileSync(${JSON.stringify(begun)}, '')
  }
}

export class ZeroGrader extends Grader {
  async grade(ctx) {
    ctx.setReward(0)
  }
}
`

async function askingWorkspace(settings: object = {}): Promise<string> {
  const folder = await temporaryFolder({
    'osmosis.toml': '',
    'data/words.jsonl':
      '{"user_prompt":"one","ground_truth":"1"}\n{"user_prompt":"two","ground_truth":"2"}\n',
  })
  await mkdir(path.join(folder, 'rollouts/ask'), { recursive: true })
  const main = entrypoint(settings, path.join(folder, 'begun'))
  await writeFile(path.join(folder, 'rollouts/ask/main.ts'), main)
  await symlink(path.resolve('node_modules'), path.join(folder, 'node_modules'))
  return folder
}

const evaluation = 'eval run -m rollouts/ask/main.ts -d data/words.jsonl --output out --name run'

it('osmosis eval run evaluates a model on a real server', async () => {
  await using proxy = await new RecordingProxy((await sharedModelServer()).url).start()
  const folder = await askingWorkspace()
  const args = [...evaluation.split(' '), '--max-tokens', '8', ...modelFlags(proxy.url)]
  const { code, printed } = await runCommand(args, folder, variables)
  expect(printed).toContain('2/2 rollouts')
  expect(code).toBe(0)
  const read = async (file: string): Promise<string> =>
    readFile(path.join(folder, 'out/run', file), 'utf8')
  const records = (await read('index.jsonl'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
  const { summary } = JSON.parse(await read('metrics.json')) as { summary: object }
  // The first call only asks whether there is an answer.
  const usages = proxy.exchanges.slice(1).map((exchange) => saidByServer(exchange).usage)
  const sum = (name: 'prompt_tokens' | 'completion_tokens' | 'total_tokens'): number =>
    usages.reduce((all, usage) => all + (usage?.[name] ?? NaN), 0)
  expect(records).toMatchObject([
    { status: 'success', reward: 0 },
    { status: 'success', reward: 0 },
  ])
  expect(summary).toMatchObject({
    failed: 0,
    graded: 2,
    tokens_used: sum('total_tokens'),
    prompt_tokens: sum('prompt_tokens'),
    completion_tokens: sum('completion_tokens'),
  })
})

it('osmosis eval run waits for a real server that loads its model', async () => {
  const server = await ownModelServer()
  await using proxy = await new RecordingProxy(server.url).start()
  const folder = await askingWorkspace()
  const args = [...evaluation.split(' '), '--max-tokens', '8', ...modelFlags(proxy.url)]
  const running = runCommand(args, folder, variables)
  await expect.poll(() => proxy.exchanges.length).toBeGreaterThan(1)
  server.release()
  const { code, printed } = await running
  expect(printed).toContain('2/2 rollouts')
  expect(printed).not.toMatch(/\d+ failed|503/)
  expect(code).toBe(0)
  await server.kill()
})

it('osmosis eval run goes on when a real server was killed in the middle of an answer and is back', async () => {
  const server = await ownModelServer()
  server.release()
  await server.ready()
  const folder = await askingWorkspace({ max_tokens: 64, ignore_eos: true })
  const args = [...evaluation.split(' '), '--max-in-flight', '1', ...modelFlags(server.url)]
  const running = runCommand(args, folder, variables)
  await expect.poll(() => existsSync(path.join(folder, 'begun'))).toBe(true)
  await server.kill()
  await ownModelServer({ hold: false, port: Number(new URL(server.url).port) })
  const { code, printed } = await running
  expect(printed).toContain('2/2 rollouts')
  expect(printed).not.toMatch(/\d+ failed/)
  expect(code).toBe(0)
})

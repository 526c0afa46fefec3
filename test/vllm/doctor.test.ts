import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { temporaryFolder } from '../kit/index.ts'
import { runCommand } from '../llama-cpp/run-command.ts'
import { smallModel, startVllm } from './vllm-server.ts'
import { withVllm } from './with-vllm.ts'

const { it } = withVllm()

/** Starts `vllm serve`, and returns its URL when it answers. It ends with the test. */
async function serve(model: string, ...flags: readonly string[]): Promise<string> {
  const server = await startVllm(model, flags)
  onTestFinished(() => server.kill())
  return server.url
}

/** A model whose folder goes with the test. */
async function ownModel(): Promise<string> {
  const model = await smallModel()
  onTestFinished(() => rm(path.dirname(model), { recursive: true, force: true }))
  return model
}

/** What `osmosis doctor` finds at an endpoint: the level of each check. */
async function findings(url: string): Promise<Readonly<Record<string, string>>> {
  const { printed } = await runCommand(
    ['doctor', '--base-url', url, '--model', 'policy'],
    await temporaryFolder(),
    {},
  )
  const lines = printed.matchAll(/^(ok|warn|fail) +(\S.*?) {2,}/gm)
  return Object.fromEntries(
    Array.from(lines, ([, level, check]) => [check, level] as const),
  ) as Record<string, string>
}

const whole = { endpoint: 'ok', 'token ids': 'ok', logprobs: 'ok', stream: 'ok', temperature: 'ok' }

it('doctor is content with a vLLM that is started for training', async () => {
  const flags = '--generation-config vllm --logprobs-mode processed_logprobs'
  const tools = '--enable-auto-tool-choice --tool-call-parser hermes'
  const url = await serve(await ownModel(), ...`${flags} ${tools}`.split(' '))
  expect(await findings(url)).toMatchObject({ ...whole, sampling: 'ok', 'logprob scale': 'ok' })
})

it('doctor finds the defaults of a model’s folder, raw logprobs, and tools that are refused', async () => {
  const model = await ownModel()
  const defaults = { do_sample: true, temperature: 0.7, top_k: 20, repetition_penalty: 1.1 }
  const ids = { bos_token_id: 1, eos_token_id: 2, pad_token_id: 2 }
  await writeFile(
    path.join(model, 'generation_config.json'),
    JSON.stringify({ ...defaults, ...ids }),
  )
  expect(await findings(await serve(model))).toMatchObject({
    ...whole,
    'tool calls': 'fail',
    sampling: 'warn',
    'logprob scale': 'warn',
  })
})

import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'

import { describe, expect, it, onTestFinished } from 'vitest'

import { run as osmosis } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

const evaluation = ['eval', 'run', 'configs/eval/echo.toml']
const asked = [...evaluation, '--policy', 'policies/echo.ts', '--name', 'r', '--limit', '1']

const secretive = {
  'configs/eval/echo.toml': evalConfig('echo', '[secrets]\nrequired = ["FIRST"]\n'),
}

/** The transcripts of a run, without what differs from run to run. */
function transcripts(root: string): string {
  return readFileSync(segment(root), 'utf8').replaceAll(
    /"(?:rollout_id|session_id|trajectory_id|timestamp|response_id)":"[^"]*"|"\w+_ms":[\d.]+/g,
    '-',
  )
}

function segment(root: string): string {
  return path.join(root, '.osmosis/evals/r/trajectories/0000.jsonl')
}

/** An endpoint that repeats the key that it refuses, in each of the forms that have been seen. */
async function repeatingEndpoint(status = 401): Promise<string> {
  const server = createServer((request, response) => {
    const key = (request.headers.authorization ?? '').replace('Bearer ', '')
    const escaped = key
      .split('')
      .map((char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`)
      .join('')
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(`{"error":{"message":"Incorrect API key: ${key} or ${escaped}","code":"x"}}`)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

describe('a secret that cannot be hidden', () => {
  it.each([
    ['1', 'is shorter than 8 characters'],
    ['token', 'is shorter than 8 characters'],
    ['user', 'is shorter than 8 characters'],
  ])('such as %j is named, and changes no stored figure or text', async (value, why) => {
    const plain = temporaryWorkspace(secretive)
    await osmosis(asked, { FIRST: 'a value that occurs nowhere' }, plain)
    const root = temporaryWorkspace(secretive)
    const { stderr } = await osmosis(asked, { FIRST: value }, root)
    expect(stderr).toContain(
      `warning: FIRST is not redacted in what is printed and stored, because its value ${why}.\n`,
    )
    expect(transcripts(root)).toBe(transcripts(plain))
  })

  it('because it occurs in the dataset leaves prompts and labels as they are', async () => {
    const row = { user_prompt: 'Say 12345678', ground_truth: '12345678' }
    const config = secretive['configs/eval/echo.toml'].replace('"words"', '"numbers"')
    const root = temporaryWorkspace({
      'configs/eval/echo.toml': config,
      'data/numbers.jsonl': `${JSON.stringify(row)}\n`,
    })
    const { stderr } = await osmosis(asked, { FIRST: '12345678' }, root)
    expect(stderr).toContain('because its value occurs in the dataset.\n')
    expect(transcripts(root)).toContain('Say 12345678')
    expect(transcripts(root)).not.toContain('[redacted]')
  })

  it('as it is a role or a key of the schema leaves both as they are', async () => {
    const plain = temporaryWorkspace(secretive)
    await osmosis(asked, { FIRST: 'a value that occurs nowhere' }, plain)
    for (const value of ['assistant', 'schema_version', 'osmosis-rollout']) {
      const root = temporaryWorkspace(secretive)
      const { stderr } = await osmosis(asked, { FIRST: value }, root)
      expect(stderr).not.toContain('warning')
      expect(transcripts(root)).toBe(transcripts(plain))
    }
  })
})

describe('a key that its endpoint repeats', () => {
  const key = 'sk-planted-0123456789/abc'
  const model = (url: string): string[] => [
    '--base-url',
    url,
    '--model',
    'm',
    '--api-key-env',
    'MY_KEY',
  ]

  it.each([
    ['eval run', (url: string) => [...evaluation, '--name', 'r', '--limit', '1', ...model(url)]],
    [
      'eval run without a preflight',
      (url: string) => [
        ...evaluation,
        '--name',
        'r',
        '--limit',
        '1',
        '--no-preflight',
        ...model(url),
      ],
    ],
    [
      'eval rubric',
      (url: string) => [
        'eval',
        'rubric',
        '--rubric',
        'Is it right?',
        '--dataset',
        'answers.jsonl',
        ...model(url),
      ],
    ],
    [
      'rollout send',
      (url: string) => [
        'rollout',
        'send',
        'rollouts/echo/main.ts',
        '--dataset',
        'data/words.jsonl',
        ...model(url),
      ],
    ],
    ['rollout validate', (url: string) => ['rollout', 'validate', 'echo', ...model(url)]],
  ])('is in nothing that %s prints or stores', async (_name, args) => {
    const root = temporaryWorkspace({
      'configs/eval/echo.toml': evalConfig('echo'),
      'answers.jsonl': '{"solution_str":"4"}\n',
    })
    const finished = await osmosis(args(await repeatingEndpoint()), { MY_KEY: key }, root)
    const said = [finished.stdout, finished.stderr].join('\n')
    expect(said).toContain('Incorrect API key: [redacted] or [redacted]')
    expect(said).not.toContain('0123456789')
  })

  it('is in nothing that doctor --online prints', async () => {
    const url = await repeatingEndpoint()
    const root = temporaryWorkspace({
      'osmosis.toml': `default_policy = "p"\n[policies.p]\nbase_url = "${url}"\nmodel = "m"\napi_key_env = "MY_KEY"\n`,
    })
    const { stdout } = await osmosis(['doctor', '--online'], { MY_KEY: key }, root)
    expect(stdout).toContain('Incorrect API key: [redacted]')
    expect(stdout).not.toContain('0123456789')
  })
})

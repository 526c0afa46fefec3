import { globSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'

import { describe, expect, it, onTestFinished } from 'vitest'

import { run as osmosis } from './in-process.ts'
import { endpoint, refuse } from './model-endpoint.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

const evaluation = ['eval', 'run', 'configs/eval/echo.toml']
const asked = [...evaluation, '--policy', 'policies/echo.ts', '--name', 'r', '--limit', '1']

const secretive = {
  'configs/eval/echo.toml': evalConfig(
    'echo',
    '[secrets]\nrequired = ["FIRST", "SECOND", "THIRD"]\n',
  ),
}

/** Values of the three secrets. */
function secrets(...values: readonly [string, string, string]): Record<string, string> {
  return { FIRST: values[0], SECOND: values[1], THIRD: values[2] }
}

const nowhere = secrets('a value nowhere', 'another nowhere', 'a third nowhere')

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
  it('as it is short, a role or a key of the schema changes no stored figure or text', async () => {
    const plain = temporaryWorkspace(secretive)
    await osmosis(asked, nowhere, plain)

    const short = temporaryWorkspace(secretive)
    const { stderr } = await osmosis(asked, secrets('1', 'token', 'user'), short)
    for (const name of Object.keys(nowhere)) {
      expect(stderr).toContain(
        `warning: ${name} is not redacted in what is printed and stored, because its value is shorter than 6 characters.\n`,
      )
    }
    expect(transcripts(short)).toBe(transcripts(plain))

    const names = temporaryWorkspace(secretive)
    const ofSchema = secrets('assistant', 'schema_version', 'osmosis-rollout')
    expect((await osmosis(asked, ofSchema, names)).stderr).not.toContain('warning')
    expect(transcripts(names)).toBe(transcripts(plain))
  })

  it('because it occurs in the dataset leaves prompts and labels as they are', async () => {
    const row = { user_prompt: 'Say 12345678', ground_truth: '12345678' }
    const config = secretive['configs/eval/echo.toml'].replace('"words"', '"numbers"')
    const root = temporaryWorkspace({
      'configs/eval/echo.toml': config,
      'data/numbers.jsonl': `${JSON.stringify(row)}\n`,
    })
    const { stderr } = await osmosis(asked, { ...nowhere, FIRST: '12345678' }, root)
    expect(stderr).toContain('because its value occurs in the dataset.\n')
    expect(transcripts(root)).toContain('Say 12345678')
    expect(transcripts(root)).not.toContain('[redacted]')
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
    ['validate', (url: string) => ['validate', 'echo', ...model(url)]],
  ])('is in nothing that %s prints or stores', async (_name, args) => {
    const root = temporaryWorkspace({
      'configs/eval/echo.toml': evalConfig('echo'),
    })
    const finished = await osmosis(args(await repeatingEndpoint()), { MY_KEY: key }, root)
    const said = [finished.stdout, finished.stderr].join('\n')
    expect(said).toContain('Incorrect API key: [redacted] or [redacted]')
    expect(said).not.toContain('0123456789')
  })

  it('is in nothing that an evaluation prints or stores, when it is in the query of --base-url', async () => {
    const upstream = await endpoint((request, response) =>
      refuse(response, 404, `Nothing at ${request.path}`),
    )
    const root = temporaryWorkspace({ 'configs/eval/echo.toml': evalConfig('echo') })
    const url = `${upstream.url}/v1?api-version=2024-06-01&key=planted-0123456789&deployment=main`
    const flags = ['--name', 'r', '--limit', '1', '--base-url', url, '--model', 'm']
    const { code, stdout, stderr } = await osmosis([...evaluation, ...flags], {}, root)
    expect([code, upstream.received[0]?.path]).toEqual([
      1,
      '/v1/chat/completions?api-version=2024-06-01&key=planted-0123456789&deployment=main',
    ])
    const folder = path.join(root, '.osmosis/evals/r')
    const stored = globSync('**/*', { cwd: folder, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'utf8'))
    const said = [stdout, stderr, ...stored].join('\n')
    expect(said).toContain('/v1/chat/completions?api-version=2024-06-01&key=[redacted]&')
    expect(stdout).toContain(
      `'${upstream.url}/v1?api-version=2024-06-01&key=[redacted]&deployment=[redacted]'`,
    )
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

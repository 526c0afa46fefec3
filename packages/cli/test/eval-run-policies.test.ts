import { readFileSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { run as osmosis } from './in-process.ts'
import { endpoint, say } from './model-endpoint.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

const command = ['eval', 'run', 'configs/eval/echo.toml', '--limit', '1']
const files = { 'configs/eval/echo.toml': evalConfig('echo') }

describe('osmosis eval run lets', () => {
  it('the default policy of osmosis.toml answer, wherever in the workspace it is called', async () => {
    const root = temporaryWorkspace({
      ...files,
      'osmosis.toml': 'default_policy = "mine"\n[policies.mine]\nmodule = "policies/echo.ts"\n',
    })
    const config = ['eval', 'run', '../configs/eval/echo.toml', '--limit', '1', '--details']
    const { code, stdout, stderr } = await osmosis(config, {}, `${root}/data`)
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('warning')])
    expect(stdout).toMatch(/ · policies\/echo\.ts · /)
  })

  it('no model answer unless one is named', async () => {
    const root = temporaryWorkspace(files)
    const { code, stderr } = await osmosis(command, {}, root)
    expect([code, stderr]).toEqual([
      2,
      'error: No model is named for the model calls. Pass --base-url <url> --model <name> for an OpenAI-compatible endpoint, or --model <provider>/<model>, or --policy <name or module>, or name a default_policy in osmosis.toml.\n',
    ])
  })
})

it('a policy module is closed when its run ends, cannot start, or has ended before', async () => {
  const closable = `import { appendFileSync } from 'node:fs'
import { scriptedPolicy } from '@osmosis/controller'
export const policy = {
  ...scriptedPolicy(() => 'one'),
  close: () => appendFileSync(new URL('closed', import.meta.url), '.'),
}
`
  const root = temporaryWorkspace({ ...files, 'policies/closable.ts': closable })
  const own = [...command, '--policy', 'policies/closable.ts', '--name', 'mine']
  expect(await osmosis([...own, '--max-turns', '3'], {}, root)).toMatchObject({ code: 2 })
  expect(readFileSync(`${root}/policies/closed`, 'utf8')).toBe('.')
  expect(await osmosis(own, {}, root)).toMatchObject({ code: 0 })
  expect(readFileSync(`${root}/policies/closed`, 'utf8')).toBe('..')
  expect(await osmosis(own, {}, root)).toMatchObject({ code: 0 })
  expect(readFileSync(`${root}/policies/closed`, 'utf8')).toBe('...')
})

it('a config whose model is one of a provider says first that no policy is named', async () => {
  const config = evalConfig('echo').replace('test/model', 'openai/gpt-5-mini')
  const root = temporaryWorkspace({ 'configs/eval/echo.toml': config })
  const { code, stderr } = await osmosis(command, { OPENAI_API_KEY: '' }, root)
  expect([code, stderr]).toEqual([
    2,
    'error: No policy is named for the model calls. Pass --base-url <url> --model <name> for an OpenAI-compatible endpoint, or --model <provider>/<model>, or --policy <name or module>, or name a default_policy in osmosis.toml. Without them the model of the config is asked, model_path = "openai/gpt-5-mini", and OPENAI_API_KEY with its key is not set.\n',
  ])
})

describe('osmosis eval run with a model of a provider', () => {
  // Stands for an installed package: what real ones say is tested where they are loaded.
  const installed = {
    'rollouts/echo/node_modules/@ai-sdk/mistral/package.json':
      '{"type":"module","exports":"./index.js"}',
    'rollouts/echo/node_modules/@ai-sdk/mistral/index.js': `
export const createMistral = ({ apiKey, baseURL }) => ({
  languageModel: (id) => ({
    specificationVersion: 'v4',
    async doStream() {
      const say = (part) => ({ type: 'text-' + part, id: '1', delta: [id, apiKey, baseURL].join(' ') })
      const usage = { inputTokens: { total: 2 }, outputTokens: { total: 1 } }
      const finish = { type: 'finish', usage, finishReason: { unified: 'stop' } }
      return { stream: ReadableStream.from([say('start'), say('delta'), say('end'), finish]) }
    },
  }),
})
`,
  }
  const keys = { MISTRAL_API_KEY: 'mistral-key', MISTRAL_BASE_URL: 'http://127.0.0.1:1/v1' }

  it('takes it from osmosis.toml, with the key of its variable', async () => {
    const toml = 'default_policy = "m"\n[policies.m]\nmodel = "mistral/small"\n'
    const config = { 'configs/eval/echo.toml': evalConfig('echo', '') }
    const root = temporaryWorkspace({ ...config, ...installed, 'osmosis.toml': toml })
    const { code, stdout, stderr } = await osmosis([...command, '--details'], keys, root)
    // What the platform would refuse is said once.
    expect([code, stderr.split('\n').slice(0, 2)]).toEqual([
      0,
      [
        'warning: The platform would refuse configs/eval/echo.toml:',
        '- secrets: missing; add [secrets] with required = [] for none',
      ],
    ])
    expect(stderr.match(/warning/g)).toHaveLength(1)
    expect(stdout).toMatch(/ · mistral\/small · /)
    expect(stdout).toMatch(/^Tokens +\d+ .*; \d+ written and \d+ read in all$/m)
  })

  it('names the variable that is missing, and the line that installs what is', async () => {
    const root = temporaryWorkspace({ ...files, ...installed, 'pnpm-lock.yaml': '' })
    const asked = (model: string): ReturnType<typeof osmosis> =>
      osmosis(
        [...command, '--model', model],
        { ...keys, MISTRAL_API_KEY: '', XAI_API_KEY: 'x' },
        root,
      )
    expect(await asked('mistral/small')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('the environment variable MISTRAL_API_KEY is not set'),
    })
    expect(await asked('xai/grok')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/@ai-sdk\/xai is not installed in .*: pnpm add @ai-sdk\/xai\n/),
    })
  })
})

describe('osmosis eval run lets', { tags: 'slow' }, () => {
  it('an endpoint of osmosis.toml answer, with its model and its key, and a flag instead of either', async () => {
    const upstream = await endpoint((_, response) => say(response, 'one'))
    const root = temporaryWorkspace({
      ...files,
      'osmosis.toml': `[policies.near]
base_url = "${upstream.url}/v1"
model = "qwen"
api_key_env = "NEAR_KEY"
`,
    })
    const near = [...command, '--policy', 'near']
    const keys = { NEAR_KEY: 'near-key', OTHER_KEY: 'other-key' }
    expect(await osmosis(near, keys, root)).toMatchObject({ code: 0 })
    const flags = ['--model', 'qwen-2', '--api-key-env', 'OTHER_KEY']
    expect((await osmosis([...near, ...flags], keys, root)).code).toBe(0)
    expect(
      upstream.received.map(({ headers, body }) => [headers.authorization, body['model']]),
    ).toEqual([
      ['Bearer near-key', 'qwen'],
      ['Bearer other-key', 'qwen-2'],
    ])
  })
})

it(
  'osmosis eval run runs a config as the Python command line writes one, with an entrypoint in TypeScript',
  { tags: 'slow' },
  async () => {
    // Its values are comments, but for the experiment and the secret of the model that it proposes.
    const config = `# osmosis eval submit configs/eval/echo.toml
[experiment]
rollout = "echo"                     # in rollouts/
entrypoint = "main.ts"
model_path = "openai/gpt-5-mini"
dataset = "words"
# branch = "main"
# commit_sha =

[evaluation]
# limit = 200
# n = 1
# batch_size = 1
# pass_threshold = 1.0
# agent_workflow_timeout_s = 450
# grader_timeout_s = 150

# [env]
# LOG_LEVEL = "INFO"

[secrets]
required = ["OPENAI_API_KEY"]
`
    const root = temporaryWorkspace({
      'configs/eval/echo.toml': config,
      'configs/training/echo.toml': '',
      'rollouts/echo/README.md': '',
    })
    const args = ['eval', 'run', 'configs/eval/echo.toml', '--policy', 'policies/echo.ts']
    const { code, stdout, stderr } = await osmosis(args, { OPENAI_API_KEY: 'sesame-open' }, root)
    expect([code, stdout, stderr]).toEqual([
      0,
      expect.stringMatching(/^Pass rate +75\.0 % +3 of 4 /m),
      expect.not.stringContaining('warning'),
    ])
  },
)

describe('osmosis eval run with a model of a provider', { tags: 'nightly' }, () => {
  it('leaves a name with a slash alone where there is an endpoint', async () => {
    const upstream = await endpoint((_, response) => say(response, 'one'))
    const root = temporaryWorkspace(files)
    const flags = ['--base-url', `${upstream.url}/v1`, '--model']
    for (const model of ['Qwen/Qwen3-8B', 'mistral/small']) {
      expect((await osmosis([...command, ...flags, model], {}, root)).code).toBe(0)
    }
    expect(upstream.received.map(({ body }) => body['model'])).toEqual([
      'Qwen/Qwen3-8B',
      'mistral/small',
    ])
    const alone = await osmosis([...command, '--model', 'Qwen/Qwen3-8B'], {}, root)
    expect([alone.code, alone.stderr]).toEqual([
      2,
      'error: --model and --api-key-env belong to an endpoint: pass --base-url as well, or a model of a provider such as openai/gpt-5-mini.\n',
    ])
  })
})

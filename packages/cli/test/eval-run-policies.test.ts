import { describe, expect, it } from 'vitest'

import { run as osmosis } from './in-process.ts'
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

import { symlinkSync } from 'node:fs'
import path from 'node:path'

import { providerModel, providerOf } from '@osmosis/models'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'

it.each([
  ['openai/gpt-5-mini', '@ai-sdk/openai', 'OPENAI_API_KEY', 'gpt-5-mini'],
  ['google/gemini-x', '@ai-sdk/google', 'GOOGLE_GENERATIVE_AI_API_KEY', 'gemini-x'],
  [
    'fireworks/accounts/a/models/b',
    '@ai-sdk/fireworks',
    'FIREWORKS_API_KEY',
    'accounts/a/models/b',
  ],
])('%s is a model of a provider', (name, from, keyVariable, modelId) => {
  expect(providerOf(name)).toMatchObject({ provider: { package: from, keyVariable }, modelId })
})

it.each(['Qwen/Qwen3-8B', 'gpt-5', 'openai', 'openai/', '/x', 'meta-llama/Llama-3'])(
  '%s is the name of a model',
  (name) => expect(providerOf(name)).toBeUndefined(),
)

it.each([
  ['pnpm-lock.yaml', 'pnpm add'],
  ['yarn.lock', 'yarn add'],
  ['bun.lock', 'bun add'],
  ['package-lock.json', 'npm install'],
  ['none', 'npm install'],
])('a package that is not installed comes with its install line: %s', async (lock, line) => {
  const root = await temporaryFolder({ [lock]: '', 'package.json': '{}', 'rollouts/a/main.ts': '' })
  const folder = path.join(root, 'rollouts/a')
  await expect(providerModel('mistral/m', { folder })).rejects.toMatchObject({
    code: 'invalid_config',
    message: `@ai-sdk/mistral is not installed in ${root}. Install it: ${line} @ai-sdk/mistral`,
  })
})

it('a package that is made for ai 6 is refused, with the line that installs one for ai 7', async () => {
  const folder = await temporaryFolder({ 'node_modules/@ai-sdk/none': '', 'pnpm-lock.yaml': '' })
  const installed = path.join(import.meta.dirname, '../node_modules/@ai-sdk/google-previous')
  symlinkSync(installed, path.join(folder, 'node_modules/@ai-sdk/google'))
  await expect(providerModel('google/gemini-x', { folder })).rejects.toMatchObject({
    code: 'invalid_config',
    message:
      'The installed @ai-sdk/google is made for another version of the AI SDK: it has v3 of the model interface, and only v4 is supported, that of ai 7. Install the release for ai 7: pnpm add @ai-sdk/google@latest',
  })
})

it('a name without a provider is refused with those there are', async () => {
  await expect(providerModel('Qwen/Qwen3-8B')).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining('write <provider>/<model>, with one of anthropic, cerebras'),
  })
})

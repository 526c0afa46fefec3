import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { PlatformStandIn } from '../kit/index.ts'
import { blocksOf } from '../repository/documents.ts'
import { commandsOf, makeWorkspace, startReader, writeFiles } from './reader.ts'

it('what docs/guides/platform.md shows runs against a stand-in of the platform', async () => {
  const platform = await PlatformStandIn.start()
  platform.evalRuns.add('first')
  platform.evalRuns.files.set('metrics.json', '{}')
  const { folder, bash } = await startReader()
  writeFiles(blocksOf('docs/guides/graders.md', 'ts'), folder)
  const rows = [1, 2, 3, 4].map((n) => ({ user_prompt: `${n} + 1?`, ground_truth: `${n + 1}` }))
  const config = (section: string): string =>
    `[experiment]\nrollout = "sums"\nentrypoint = "main.ts"\nmodel_path = "Qwen/Qwen3-8B"\ndataset = "sums"\n${section}\n[secrets]\nrequired = []\n`
  const files = {
    'data/sums.jsonl': rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
    'configs/eval/sums.toml': config(''),
    'configs/training/sums.toml': config('[training]\nlr = 1e-6'),
  }
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true })
    writeFileSync(path.join(folder, file), text)
  }

  const commands = commandsOf(blocksOf('docs/guides/platform.md', 'sh')).map((command) => {
    const named = command.replaceAll('<run>', 'first')
    // Its value is typed, or comes from stdin.
    return /secret set (?!.*--from-env)/.test(named) ? `echo value | ${named}` : named
  })
  // The page ends the login that it begins with.
  const login = commands.findIndex((command) => command.startsWith('osmosis platform logout'))
  expect(login).toBeGreaterThan(0)
  const script = [
    'git init --quiet',
    'git remote add origin https://github.com/Acme/Lab.git',
    ...commands.toSpliced(login + 1, 0, 'osmosis platform login'),
  ]
  const env = {
    HOME: folder,
    KEY: 'another value',
    OSMOSIS_PLATFORM_URL: platform.url,
    OSMOSIS_TOKEN: '',
    OSMOSIS_TOKEN_STORE: 'file',
  }
  // Between an upload and a download the platform has work to do.
  const download = script.findIndex((command) =>
    command.startsWith('osmosis platform dataset download'),
  )
  const printed = await bash(script.slice(0, download).join('\n'), folder, env)
  for (const dataset of platform.datasets.list) dataset.status = 'uploaded'
  await bash(script.slice(download).join('\n'), folder, env)
  expect(printed).toContain('ada@example.com')
  expect(platform.calls).toEqual(
    expect.arrayContaining(['POST eval-runs', 'POST training-runs', 'POST eval-runs/first/stop']),
  )
  // The page sets the secret in two ways and then deletes it, so that only the requests show its values.
  const secrets = platform.requests.filter(({ path: [route] }) => route === 'environment-secrets')
  const set = secrets.filter(({ method }) => method === 'POST')
  expect(set.map(({ body }) => body['value'])).toEqual(['value', 'another value'])
  expect(platform.secrets).toEqual([])
}, 600_000)

it('what docs/training/osmosis.md asks the platform runs in the workspace that it trains', async () => {
  const platform = await PlatformStandIn.start()
  platform.trainingRuns.add('my-run')
  const reader = await startReader()
  const { folder, bash } = reader
  const place = await makeWorkspace(reader)
  const script = [
    'git init --quiet',
    'git remote add origin https://github.com/Acme/Lab.git',
    ...commandsOf(blocksOf('docs/training/osmosis.md', 'sh')),
  ]
  await bash(script.join('\n'), place, {
    HOME: folder,
    OSMOSIS_PLATFORM_URL: platform.url,
    OSMOSIS_TOKEN: '',
    OSMOSIS_TOKEN_STORE: 'file',
  })
  expect(platform.calls).toContain('POST training-runs')
  expect(platform.datasets.list).toHaveLength(1)
}, 600_000)

import { join } from 'node:path'

import { readEvalConfig } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'

/** A workspace with these files and a config that names this dataset. */
async function workspace(
  dataset: string,
  files: readonly string[],
): Promise<{ root: string; config: string }> {
  const toml = `[experiment]
rollout = "multiply"
entrypoint = "main.ts"
model_path = "openai/gpt-5"
dataset = "${dataset}"
`
  const root = await temporaryFolder({
    'rollouts/multiply/main.ts': '',
    'data/README.md': '',
    'configs/eval/multiply.toml': toml,
    ...Object.fromEntries(files.map((file) => [file, ''])),
  })
  return { root, config: join(root, 'configs/eval/multiply.toml') }
}

it.each([
  ['multiply', 'data/multiply.jsonl'],
  ['multiply', 'data/multiply.ndjson'],
  ['multiply', 'data/multiply.csv'],
  ['multiply', 'data/multiply.parquet'],
  ['multiply.csv', 'data/multiply.csv'],
  ['multiply.ndjson', 'data/multiply.ndjson'],
  ['data/multiply', 'data/multiply.jsonl'],
  ['tables/multiply', 'tables/multiply.parquet'],
  ['tables/multiply.csv', 'tables/multiply.csv'],
])('the dataset "%s" is %s when that is the only one', async (dataset, file) => {
  const { root, config } = await workspace(dataset, [file, 'data/other.csv'])
  expect((await readEvalConfig(config)).experiment.datasetFile).toBe(join(root, file))
})

it('a name with an extension means that file, even with similar files beside it', async () => {
  const { root, config } = await workspace('a.csv', ['data/a.jsonl', 'data/a.csv'])
  expect((await readEvalConfig(config)).experiment.datasetFile).toBe(join(root, 'data/a.csv'))
})

it('a folder is not a dataset', async () => {
  const { root, config } = await workspace('a', ['data/a.jsonl/part', 'data/a.csv'])
  expect((await readEvalConfig(config)).experiment.datasetFile).toBe(join(root, 'data/a.csv'))
})

it.each([
  [
    'a',
    ['data/a.jsonl', 'data/a.parquet'],
    'write the extension; there are <root>/data/a.jsonl and <root>/data/a.parquet',
  ],
  [
    'a',
    ['data/a.ndjson', 'data/a.jsonl'],
    'write the extension; there are <root>/data/a.jsonl and <root>/data/a.ndjson',
  ],
  [
    'tables/a',
    ['tables/a.jsonl', 'tables/a.csv', 'tables/a.parquet'],
    'write the extension; there are <root>/tables/a.jsonl and <root>/tables/a.csv and <root>/tables/a.parquet',
  ],
  ['a', ['a.csv', 'data/a.json'], 'no such file: <root>/data/a.jsonl, .ndjson, .csv, .parquet'],
  ['a.json', ['data/a.csv'], 'no such file: <root>/data/a.json. <root>/data has a.csv.'],
])('the dataset "%s" is refused beside %j', async (dataset, files, problem) => {
  const { root, config } = await workspace(dataset, files)
  const { code, message } = await osmosisErrorOf(() => readEvalConfig(config))
  expect([code, message.replaceAll(root, '<root>').split('\n').slice(1)]).toEqual([
    'invalid_config',
    [`- experiment.dataset: ${problem}`],
  ])
})

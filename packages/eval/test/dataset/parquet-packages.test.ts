import { execFile } from 'node:child_process'
import { cp, readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

import { temporaryFolder } from '@osmosis/testing/kit'
import { expect, it, vi } from 'vitest'

import { csv, parquet } from './dataset-files.ts'

// Each test starts a process.
vi.setConfig({ testTimeout: 30_000 })

const packageFolder = join(import.meta.dirname, '../..')

const script = `
import { readDataset } from './src/index.ts'
const outcome = await readDataset(process.argv[2]).catch(({ code, message }) => ({ code, message }))
console.log(JSON.stringify(outcome))
`

const row = {
  sourceRowIndex: 0,
  initialMessages: [{ role: 'user', content: 'a' }],
  label: '1',
  metadata: null,
  otherColumns: {},
}

/** What a process reads that runs a copy of this package, in which these packages are missing. */
async function readWithout(missing: readonly string[], file: string): Promise<unknown> {
  const folder = await temporaryFolder({
    'package.json': '{"type":"module"}',
    'read.ts': script,
    'rows.csv': csv([
      ['user_prompt', 'label'],
      ['a', '1'],
    ]),
    'rows.parquet': parquet([
      { name: 'user_prompt', data: ['a'] },
      { name: 'label', data: ['1'] },
    ]),
    'node_modules/README': 'Links to what is installed for the original.',
  })
  await cp(join(packageFolder, 'src'), join(folder, 'src'), { recursive: true })
  for (const name of await readdir(join(packageFolder, 'node_modules'))) {
    if (missing.includes(name)) continue
    await symlink(join(packageFolder, 'node_modules', name), join(folder, 'node_modules', name))
  }
  const { stdout } = await promisify(execFile)(process.execPath, ['read.ts', file], { cwd: folder })
  return JSON.parse(stdout)
}

it.each([[['hyparquet', 'hyparquet-compressors']], [['hyparquet-compressors']]])(
  'without %j, reading Parquet says what to install',
  async (missing) => {
    expect(await readWithout(missing, 'rows.parquet')).toEqual({
      code: 'invalid_dataset',
      message:
        'Cannot read the dataset rows.parquet: Parquet needs two packages that are not installed. Run: npm install hyparquet hyparquet-compressors',
    })
  },
)

it('reads other formats without the packages for Parquet', async () => {
  const missing = ['hyparquet', 'hyparquet-compressors']
  expect(await readWithout(missing, 'rows.csv')).toEqual([row])
})

it('reads Parquet in the same surroundings when they are there', async () => {
  expect(await readWithout([], 'rows.parquet')).toEqual([row])
})

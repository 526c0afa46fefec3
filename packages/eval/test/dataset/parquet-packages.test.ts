import { execFile } from 'node:child_process'
import { cp, readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { csv, parquet } from './dataset-files.ts'

const packageFolder = join(import.meta.dirname, '../..')

const script = `
import { readDataset } from './src/index.ts'
const outcomes = process.argv.slice(2).map((file) =>
  readDataset(file).catch(({ code, message }) => ({ code, message })),
)
console.log(JSON.stringify(await Promise.all(outcomes)))
`

const row = {
  sourceRowIndex: 0,
  initialMessages: [{ role: 'user', content: 'a' }],
  label: '1',
  metadata: null,
  otherColumns: {},
}

/** What a process reads of files that runs a copy of this package, in which these packages are missing. */
async function readWithout(missing: readonly string[], ...files: string[]): Promise<unknown> {
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
  const { stdout } = await promisify(execFile)(process.execPath, ['read.ts', ...files], {
    cwd: folder,
  })
  return JSON.parse(stdout)
}

const advice = {
  code: 'invalid_dataset',
  message:
    'Cannot read the dataset rows.parquet: Parquet needs two packages that are not installed. Run: npm install hyparquet hyparquet-compressors',
}

it(
  'without its packages reading Parquet says what to install, and other formats are read',
  { tags: 'slow' },
  async () => {
    const missing = ['hyparquet', 'hyparquet-compressors']
    expect(await readWithout(missing, 'rows.parquet', 'rows.csv')).toEqual([advice, [row]])
  },
)

it('without one of its packages reading Parquet says the same', { tags: 'nightly' }, async () => {
  expect(await readWithout(['hyparquet-compressors'], 'rows.parquet')).toEqual([advice])
})

// That these surroundings read anything at all is known from the other format above.
it('reads Parquet in the same surroundings when they are there', { tags: 'slow' }, async () => {
  expect(await readWithout([], 'rows.parquet')).toEqual([[row]])
})

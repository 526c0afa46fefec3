import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { writeFileAtomically } from '@osmosis/protocol/files'
import { expect, it, onTestFinished } from 'vitest'

async function folder(): Promise<string> {
  const made = await mkdtemp(path.join(tmpdir(), 'atomic-write-'))
  onTestFinished(async () => rm(made, { recursive: true, force: true }))
  return made
}

it.each(['file-and-folder', 'file', 'nothing'] as const)(
  'replaces a file, syncing %s',
  async (sync) => {
    const file = path.join(await folder(), 'state.json')
    await writeFile(file, 'old')
    await writeFileAtomically(file, 'new', { sync })
    expect(await readFile(file, 'utf8')).toBe('new')
    expect(await readdir(path.dirname(file))).toStrictEqual(['state.json'])
  },
)

it('gives the file the requested permissions', async () => {
  const file = path.join(await folder(), 'secret')
  await writeFileAtomically(file, 'key', { mode: 0o600 })
  expect((await stat(file)).mode & 0o777).toBe(0o600)
})

it('shows readers a complete text at all times with concurrent writers', async () => {
  const file = path.join(await folder(), 'state.json')
  const texts = Array.from({ length: 20 }, (_, n) => String(n).repeat(50_000))
  await writeFileAtomically(file, texts[0] ?? '')
  const writes = Promise.all(
    texts.map((text) => writeFileAtomically(file, text, { sync: 'nothing' })),
  )
  for (let read = 0; read < 20; read += 1) expect(texts).toContain(await readFile(file, 'utf8'))
  await writes
})

it('leaves only the old text when it cannot be replaced', async () => {
  const parent = await folder()
  await writeFile(path.join(parent, 'is a file'), '')
  await expect(
    writeFileAtomically(path.join(parent, 'is a file', 'state.json'), 'new'),
  ).rejects.toMatchObject({ code: 'ENOTDIR' })
  await expect(writeFileAtomically(parent, 'new')).rejects.toThrow(/EISDIR|ENOTEMPTY|EEXIST/)
  expect(await readdir(parent)).toStrictEqual(['is a file'])
})

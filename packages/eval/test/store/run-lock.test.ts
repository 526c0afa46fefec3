import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { archiveRun, createRun, openRun, reserveRun, resumeRun, type RunStore } from '@osmosis/eval'
import { FolderLock } from '@osmosis/protocol/files'
import { expect, it, onTestFinished } from 'vitest'

import { madeManifest, onlyIf, temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'
import { itemOf } from './runs.ts'

const script = path.join(import.meta.dirname, 'crash-writer.ts')

async function newRun(): Promise<RunStore> {
  return createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
}

it('allows one writer, and reports which', async () => {
  const store = await newRun()
  const { location } = store
  const reader = await openRun(location)
  const writing = reader.writer()
  expect(writing).toEqual({
    pid: process.pid,
    host: hostname(),
    started_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
  })
  const refusal = {
    code: 'run_locked',
    message: `Process ${process.pid}, started at ${writing?.started_at}, writes to the run ${location}. Wait until it has ended, or pass another --name.`,
  }
  expect(await osmosisErrorOf(() => resumeRun({ location }))).toEqual(refusal)
  expect(await osmosisErrorOf(() => archiveRun(location))).toEqual(refusal)
  const [outputRoot, manifest] = [path.dirname(location), madeManifest()]
  expect(await osmosisErrorOf(() => createRun({ outputRoot, manifest }))).toEqual(refusal)
  await store.close()
  expect(reader.writer()).toBeNull()
  expect(await readdir(path.join(outputRoot, '.locks'))).toEqual([])
  await (await resumeRun({ location })).close()
})

it('commands that start runs concurrently generate different names', async () => {
  const outputRoot = await temporaryFolder()
  const source = 'configs/eval/airline.toml'
  const reserved = await Promise.all([1, 2, 3].map(() => reserveRun(outputRoot, source)))
  const [first, ...others] = reserved.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const names = reserved.map(({ name }) => name).toSorted()
  expect(names).toEqual(['airline-1', 'airline-2', 'airline-3'])
  const store = await createRun({ outputRoot, manifest: madeManifest(), lock: first?.lock })
  for (const { lock } of others) await lock.release()
  await store.close()
  const next = await reserveRun(outputRoot, source)
  expect(next.name).toBe('airline-2')
  await next.lock.release()
})

it('is free again when the run for which it was reserved cannot be created', async () => {
  const outputRoot = await temporaryFolder()
  const { name, lock } = await reserveRun(outputRoot, 'configs/eval/airline.toml')
  const manifest = madeManifest({ run_name: 'not a name' })
  expect(await osmosisErrorOf(() => createRun({ outputRoot, manifest, lock }))).toMatchObject({
    code: 'invalid_config',
  })
  const again = await reserveRun(outputRoot, 'configs/eval/airline.toml')
  expect(again.name).toBe(name)
  await again.lock.release()
})

onlyIf(process.platform === 'linux', 'a Linux system').it(
  'is taken over at once, by one of many, when its writer was killed, but not when it is stopped',
  async () => {
    const store = await newRun()
    await store.close()
    const { location } = store
    const command = '"$0" "$@" & echo $!; exec sleep 600'
    const parent = spawn('/bin/sh', ['-c', command, process.execPath, script, location, '0', '1'])
    const [text] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(text)
    onTestFinished(() => {
      process.kill(pid, 'SIGKILL')
      parent.kill()
    })
    const reader = await openRun(location)
    await expect.poll(() => reader.writer()?.pid).toBe(pid)
    process.kill(pid, 'SIGSTOP')
    const refusal = await osmosisErrorOf(() => resumeRun({ location }))
    expect(refusal.message).toMatch(
      new RegExp(`^Process ${pid}, started at .+, writes to the run `),
    )
    // It becomes a zombie, whose parent does not read its exit code.
    process.kill(pid, 'SIGKILL')
    await expect.poll(() => reader.writer()).toBeNull()
    const locks = path.join(path.dirname(location), '.locks')
    const [file = ''] = globSync(path.join(locks, 'airline-1/*'))
    // Another process may get its id.
    await writeFile(
      file,
      (await readFile(file, 'utf8')).replace(text.toString().trim(), `${process.pid}`),
    )
    expect(reader.writer()).toBeNull()
    const attempts = await Promise.allSettled(
      Array.from({ length: 20 }, () => resumeRun({ location })),
    )
    const winners = attempts.flatMap((attempt) =>
      attempt.status === 'fulfilled' ? attempt.value : [],
    )
    expect(winners).toHaveLength(1)
    expect(reader.writer()?.pid).toBe(process.pid)
    for (const winner of winners) await winner.close()
    expect(await readdir(locks)).toEqual([])
  },
)

it('stores nothing more when another process has taken it over', async () => {
  await using store = await newRun()
  const { location } = store
  await store.commit(itemOf(0, 0))
  const stored = async (): Promise<string[]> =>
    Promise.all(
      (await readdir(location, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => readFile(path.join(parentPath, name), 'utf8')),
    )
  const before = await stored()
  const refused = (): OsmosisError => new OsmosisError('run_locked', 'refused')
  const other = await FolderLock.acquire(path.join(location, '../.locks/airline-1'), {
    isTemporary: true,
    namespace: 'another host',
    deadAfterMs: 30,
    inUse: refused,
    takenOver: refused,
  })
  const texts = { index: 'late', metrics: 'late', progress: 'late' }
  const writes = [
    () => store.writeSnapshots(() => texts),
    () => store.grow({ n: 100 }),
    () => store.commit(itemOf(1, 0)),
    () => store.commit(itemOf(2, 0)),
  ]
  for (const write of writes) {
    const { code, message } = await osmosisErrorOf(write)
    expect(code).toBe('run_locked')
    expect(message).toMatch(
      /^Process \d+, started at \S+, has taken over the run .+ This process ends and stores nothing more\.$/,
    )
  }
  await store.close()
  expect(await stored()).toEqual(before)
  other.assertHeld()
  await other.release()
})

it('cannot be written where its lock cannot', async () => {
  const store = await newRun()
  await store.close()
  const outputRoot = path.dirname(store.location)
  await rmdir(path.join(outputRoot, '.locks'))
  await writeFile(path.join(outputRoot, '.locks'), '')
  const { code, message } = await osmosisErrorOf(() => resumeRun({ location: store.location }))
  expect(code).toBe('storage_error')
  expect(message).toContain(`Cannot write to ${path.join(outputRoot, '.locks', 'airline-1')}: `)
})

it('says which file could not be written where its lock cannot be looked at', async () => {
  const store = await newRun()
  onTestFinished(() => store.close())
  const { location } = store
  const [owner = ''] = globSync(path.join(path.dirname(location), '.locks/airline-1/*'))
  await rm(owner)
  await mkdir(owner)
  const texts = { index: '', metrics: '{}', progress: '{}' }
  const failures = [
    ['index.jsonl', () => store.writeSnapshots(() => texts)],
    ['manifest.json', () => store.grow({ n: 100 })],
  ] as const
  for (const [file, write] of failures) {
    const { code, message } = await osmosisErrorOf(write)
    expect(code).toBe('storage_error')
    expect(message).toContain(`Cannot write to ${path.join(location, file)}: EISDIR`)
  }
})

const separate = ['--net', '--uts', 'sh', '-c', 'hostname elsewhere && exec "$0" "$@"']
const canSeparate = spawnSync('unshare', [...separate, 'true']).status === 0

onlyIf(canSeparate, 'root and unshare').it(
  'is refused as long as a process on another host writes, and taken over 15 s after it was killed',
  { tags: 'slow', timeout: 60_000 },
  async () => {
    const store = await newRun()
    await store.close()
    const { location } = store
    const other = spawn('unshare', [...separate, process.execPath, script, location, '0', '1'])
    onTestFinished(() => void other.kill('SIGKILL'))
    const reader = await openRun(location)
    await expect.poll(() => reader.writer()?.host).toBe('elsewhere')
    const { code, message } = await osmosisErrorOf(() => resumeRun({ location }))
    expect(code).toBe('run_locked')
    expect(message).toMatch(/^Process \d+ on host elsewhere, started at \S+, writes to the run/)
    other.kill('SIGKILL')
    await once(other, 'exit')
    await (await resumeRun({ location })).close()
  },
)

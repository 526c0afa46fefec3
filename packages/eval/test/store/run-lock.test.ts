import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'

import { archiveRun, createRun, openRun, reserveRun, resumeRun, type RunStore } from '@osmosis/eval'
import { madeManifest, onlyIf, temporaryFolder } from '../../../../test/kit/index.ts'
import { expect, it, onTestFinished } from 'vitest'

import { osmosisErrorOf } from '../thrown-by.ts'

async function newRun(): Promise<{ store: RunStore; lock: string }> {
  const outputRoot = await temporaryFolder()
  const store = await createRun({ outputRoot, manifest: madeManifest() })
  return { store, lock: path.join(outputRoot, '.locks', 'airline-1.lock') }
}

/** Puts a lock in place that says something else than the own one. */
async function changeLock(lock: string, change: Record<string, unknown>): Promise<void> {
  const own = JSON.parse(await readFile(lock, 'utf8')) as object
  await writeFile(lock, `${JSON.stringify({ ...own, ...change })}\n`)
}

it('allows one writer, and reports which', async () => {
  const { store, lock } = await newRun()
  const { location } = store
  const reader = await openRun(location)
  const writer = reader.writer()
  expect(writer).toEqual({
    pid: process.pid,
    host: hostname(),
    started_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
  })
  const refusal = {
    code: 'run_locked',
    message: `Process ${process.pid}, started at ${writer?.started_at}, writes to the run ${location}. Wait until it has ended, or pass another --name.`,
  }
  expect(await osmosisErrorOf(() => resumeRun({ location }))).toEqual(refusal)
  expect(await osmosisErrorOf(() => archiveRun({ location }))).toEqual(refusal)
  const [outputRoot, manifest] = [path.dirname(location), madeManifest()]
  expect(await osmosisErrorOf(() => createRun({ outputRoot, manifest }))).toEqual(refusal)
  await store.close()
  expect(reader.writer()).toBeNull()
  await expect(access(lock)).rejects.toThrow('ENOENT')
  await (await resumeRun({ location })).close()
})

it('commands that start runs concurrently generate different names', async () => {
  const outputRoot = await temporaryFolder()
  const source = 'configs/eval/airline.toml'
  const reserved = await Promise.all([1, 2, 3].map(() => reserveRun(outputRoot, source)))
  const [first, ...others] = reserved.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  expect([first, ...others].map((run) => run?.name)).toEqual([
    'airline-1',
    'airline-2',
    'airline-3',
  ])
  const store = await createRun({ outputRoot, manifest: madeManifest(), lock: first?.lock })
  for (const { lock } of others) lock.release()
  await store.close()
  const next = await reserveRun(outputRoot, source)
  expect(next.name).toBe('airline-2')
  next.lock.release()
})

it('is taken over from a process that has exited', async () => {
  const { store, lock } = await newRun()
  const { location } = store
  const child = spawn(process.execPath, ['-e', ''])
  await once(child, 'exit')
  await changeLock(lock, { pid: child.pid })
  expect((await openRun(location)).writer()).toBeNull()
  const resumed = await resumeRun({ location })
  // It is no longer the first one's to release.
  await store.close()
  expect((await openRun(location)).writer()?.pid).toBe(process.pid)
  await resumed.close()
  expect(await readdir(path.dirname(lock))).toEqual([])
})

onlyIf(process.platform === 'linux', 'a Linux system').it(
  `is taken over from a zombie, whose parent has not read its exit code`,
  async () => {
    const { store, lock } = await newRun()
    const parent = spawn('/bin/sh', ['-c', 'true & echo $!; exec sleep 600'])
    onTestFinished(() => void parent.kill())
    const [pid] = (await once(parent.stdout, 'data')) as [Buffer]
    await changeLock(lock, { pid: Number(pid), process_start: null })
    const reader = await openRun(store.location)
    await expect.poll(() => reader.writer()).toBeNull()
    await store.close()
  },
)

it('is not taken over from a running process of another user', async () => {
  const { store, lock } = await newRun()
  await changeLock(lock, { pid: 1, process_start: null })
  const { location } = store
  expect((await osmosisErrorOf(() => resumeRun({ location }))).code).toBe('run_locked')
  expect((await openRun(location)).writer()?.pid).toBe(1)
  await store.close()
})

it('is taken over from a process whose id was reused', async () => {
  const { store, lock } = await newRun()
  await changeLock(lock, { process_start: 'another start' })
  const reader = await openRun(store.location)
  expect(reader.writer()).toBeNull()
  const resumed = await resumeRun({ location: store.location })
  expect(reader.writer()?.pid).toBe(process.pid)
  await resumed.close()
  await store.close()
})

it('is taken over by exactly one of many processes', async () => {
  const { store, lock } = await newRun()
  const { location } = store
  await changeLock(lock, { process_start: 'another start' })
  const attempts = await Promise.allSettled(
    Array.from({ length: 20 }, () => resumeRun({ location })),
  )
  const winners = attempts.flatMap((attempt) =>
    attempt.status === 'fulfilled' ? attempt.value : [],
  )
  expect(winners).toHaveLength(1)
  for (const winner of winners) await winner.close()
  await store.close()
  expect(await readdir(path.dirname(lock))).toEqual([])
})

it('is not taken over from a process on another host without --break-lock', async () => {
  const { store, lock } = await newRun()
  const { location } = store
  await changeLock(lock, { host: 'elsewhere', pid: 1 })
  const { code, message } = await osmosisErrorOf(() => resumeRun({ location }))
  expect(code).toBe('run_locked')
  expect(message).toContain('Process 1 on host elsewhere, started at ')
  expect(message).toContain(
    `This host cannot tell whether it is still running; if it is not, pass --break-lock.`,
  )
  await (await resumeRun({ location, breakLock: true })).close()
  await store.close()
})

it('is taken over when its process died before it wrote the lock text', async () => {
  const { store, lock } = await newRun()
  const { location } = store
  await store.close()
  await writeFile(lock, '')
  expect(await osmosisErrorOf(() => resumeRun({ location }))).toEqual({
    code: 'run_locked',
    message: `Another process has just taken the run ${location}. Wait until it has ended, or pass another --name.`,
  })
  const longAgo = new Date(Date.now() - 60_000)
  await utimes(lock, longAgo, longAgo)
  // As does one that died while it took over.
  await writeFile(`${lock}.takeover`, '')
  await utimes(`${lock}.takeover`, longAgo, longAgo)
  await (await resumeRun({ location })).close()
  await rm(path.dirname(lock), { recursive: true })
})

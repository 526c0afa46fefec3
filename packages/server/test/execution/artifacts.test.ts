import { existsSync } from 'node:fs'
import path from 'node:path'

import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { grader, registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { temporaryFolder } from '../../../../test/kit/temporary-folder.ts'

it('gives the workflow and the grader the same folder, which is created on first access', async () => {
  const artifactRoot = await temporaryFolder()
  const seen: (string | null)[] = []
  const backend = new LocalBackend({
    artifactRoot,
    workflow: workflow((ctx) => {
      registerSamples('main')
      if (ctx.rolloutId === 'keeps') seen.push(ctx.artifactsDir)
    }),
    grader: grader((ctx) => {
      if (ctx.rolloutId === 'keeps') seen.push(ctx.artifactsDir)
      ctx.setReward(1)
    }),
  })
  await run(backend, { rolloutId: 'keeps' })
  await run(backend, { rolloutId: 'needs-none' })

  const folder = path.join(artifactRoot, 'keeps', 'artifacts')
  expect(seen).toEqual([folder, folder])
  expect(existsSync(folder)).toBe(true)
  expect(existsSync(path.join(artifactRoot, 'needs-none'))).toBe(false)
})

it('has a folder of its own also for an id that no folder can have', async () => {
  const artifactRoot = await temporaryFolder()
  const seen: (string | null)[] = []
  const backend = new LocalBackend({
    artifactRoot,
    workflow: workflow((ctx) => {
      seen.push(ctx.artifactsDir)
    }),
  })
  for (const rolloutId of ['r'.repeat(256), `${'r'.repeat(255)}s`, '../a', '..']) {
    await run(backend, { rolloutId, grade: false })
  }
  const places = seen.map((folder) => path.relative(artifactRoot, String(folder)).split(path.sep))
  expect(places.map(([, last, ...more]) => [last, ...more])).toEqual(seen.map(() => ['artifacts']))
  expect(new Set(places.map(([name]) => name)).size).toBe(4)
  expect(places.flat()).not.toContain('..')
})

it('keeps the folder in copies of the workflow input', async () => {
  const artifactRoot = await temporaryFolder()
  const seen: (string | null)[] = []
  const backend = new LocalBackend({
    artifactRoot,
    workflow: workflow((ctx) => {
      seen.push({ ...ctx }.artifactsDir, new Proxy(ctx, {}).artifactsDir)
    }),
  })
  await run(backend, { rolloutId: 'copies', grade: false })
  const folder = path.join(artifactRoot, 'copies', 'artifacts')
  expect(seen).toStrictEqual([folder, folder])
})

it('runs without a folder when it cannot be created', async () => {
  const file = path.join(await temporaryFolder({ file: '' }), 'file')
  let seen: string | null | undefined
  const backend = new LocalBackend({
    artifactRoot: file,
    workflow: workflow((ctx) => {
      seen = ctx.artifactsDir
    }),
  })
  const { completion } = await run(backend, { grade: false })
  expect(completion?.status).toBe('success')
  expect(seen).toBeNull()
})

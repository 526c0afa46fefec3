import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import type { AgentWorkflowContext, WorkFolderOptions } from '@osmosis/core'
import { LocalBackend } from '@osmosis/runtime'
import { grader, registerSamples, run, workflow } from '@osmosis/testing/kit/executed-rollouts'
import { expect, it, onTestFinished, vi } from 'vitest'

/** A folder for work folders and artifacts of a test. */
async function parentFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-test-'))
  onTestFinished(async () => rm(folder, { recursive: true }))
  return folder
}

/** Makes a workflow whose agent writes files. */
function writing(
  options: WorkFolderOptions,
  body?: (ctx: AgentWorkflowContext, folder: string) => unknown,
) {
  return workflow(async (ctx) => {
    const folder = await ctx.workFolder(options)
    await mkdir(path.join(folder, 'src'))
    await writeFile(path.join(folder, 'src', 'a.diff'), ctx.rolloutId)
    await writeFile(path.join(folder, 'b.txt'), 'b')
    await symlink('/etc/hosts', path.join(folder, 'link.diff'))
    registerSamples('main')
    await body?.(ctx, folder)
  })
}

it('is fresh for each rollout, and deleted after its grading', async () => {
  const parent = await parentFolder()
  const seen: (string | null)[] = []
  const backend = new LocalBackend({
    workflow: writing({ parent }, async (ctx, folder) => {
      seen.push(folder)
      expect(await { ...ctx }.workFolder()).toBe(folder)
    }),
    grader: grader((ctx) => {
      expect(existsSync(path.join(ctx.workFolder ?? '', 'b.txt'))).toBe(true)
      seen.push(ctx.workFolder)
      ctx.setReward(1)
    }),
  })
  await Promise.all(['one', 'two'].map(async (rolloutId) => run(backend, { rolloutId })))
  expect(new Set(seen).size).toBe(2)
  expect(await readdir(parent)).toEqual([])
})

it('leaves the chosen files as artifacts, also for the grader', async () => {
  const parent = await parentFolder()
  const artifactRoot = await parentFolder()
  const backend = new LocalBackend({
    artifactRoot,
    workflow: writing({ parent, artifacts: ['**/*.diff'] }),
    grader: grader((ctx) => {
      const diff = readFileSync(path.join(ctx.artifactsDir ?? '', 'src', 'a.diff'), 'utf8')
      ctx.setReward(diff === ctx.rolloutId ? 1 : 0)
    }),
  })
  const { grading } = await run(backend, { rolloutId: 'stored' })
  expect(grading?.samples.get('main')?.reward).toBe(1)
  const stored = await readdir(path.join(artifactRoot, 'stored', 'artifacts'), { recursive: true })
  expect(stored.toSorted()).toEqual(['src', path.join('src', 'a.diff')])
})

it.each([
  [false, 0],
  [true, 1],
])('of a failed rollout, with keepOnFailure %s: %i are left', async (keepOnFailure, left) => {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const parent = await parentFolder()
  const options = { parent, keepOnFailure }
  const failing = new LocalBackend({
    workflow: writing(options, () => {
      throw new Error('no')
    }),
  })
  await run(failing, { rolloutId: 'failed' })
  await run(new LocalBackend({ workflow: writing(options) }), { rolloutId: 'fine', grade: false })
  const folders = await readdir(parent)
  expect(folders).toHaveLength(left)
  expect(warned.mock.calls.map(([message]) => message)).toEqual(
    folders.map(
      (name) => `Rollout failed: it failed, so its work folder remains: ${path.join(parent, name)}`,
    ),
  )
})

it('that cannot be created, or is requested too late, is an error', async () => {
  const file = path.join(await parentFolder(), 'file')
  await writeFile(file, '')
  const refused = await run(new LocalBackend({ workflow: writing({ parent: file }) }))
  expect(refused.completion?.failure).toMatchObject({
    message: expect.stringContaining('The option parent of workFolder() names another place.'),
    cause: { code: 'storage_error' },
  })
  let late: AgentWorkflowContext | undefined
  await run(new LocalBackend({ workflow: workflow((ctx) => (late = ctx)) }))
  await expect(late?.workFolder()).rejects.toMatchObject({ code: 'rollout_ended' })
})

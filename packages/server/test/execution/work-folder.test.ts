import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import type { AgentWorkflowContext, WorkFolderOptions } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it, onTestFinished, vi } from 'vitest'

import { grader, registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { onlyIf } from '../../../../test/kit/index.ts'

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

/** What is stored of a work folder in which the code of a model has run `line`, and what is left of the folder. */
async function storedAfter(
  line: string,
  artifacts: readonly string[] = ['**'],
): Promise<{ root: string; stored: string[]; left: string[]; warned: string[] }> {
  const warnings = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => warnings.mockRestore())
  const [parent, artifactRoot] = [await parentFolder(), await parentFolder()]
  await writeFile(path.join(parent, 'secret'), 'secret')
  const folders = path.join(parent, 'folders')
  const agent = workflow(async (ctx) => {
    const cwd = await ctx.workFolder({ parent: folders, artifacts })
    execFileSync('/bin/sh', ['-c', `${line}; mkdir -p z; printf fine > z/fine`], { cwd })
    registerSamples('main')
  })
  const backend = new LocalBackend({ artifactRoot, workflow: agent })
  await run(backend, { rolloutId: 'hostile', grade: false })
  const root = path.join(artifactRoot, 'hostile', 'artifacts')
  const names = await readdir(root, { recursive: true, withFileTypes: true })
  return {
    root,
    stored: names
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'utf8'))
      .toSorted(),
    left: await readdir(folders),
    warned: warnings.mock.calls.map(([message]) => String(message)),
  }
}

const posix = onlyIf(process.platform !== 'win32', 'a POSIX shell')
/** Makes a path that is longer than the system accepts, where a shell does not get. */
function deep(end: string, name = 'long'.repeat(60), depth = 100): string {
  const code = `
    const { mkdirSync } = require('node:fs')
    for (let depth = 0; depth < ${depth}; depth += 1) {
      mkdirSync('${name}')
      process.chdir('${name}')
    }
    require('node:child_process').execSync(${JSON.stringify(end)})`
  return `"${process.execPath}" -e '${code.replaceAll("'", `'"'"'`)}'`
}

const hostile: readonly (readonly [what: string, line: string, patterns?: string[]])[] = [
  ['a FIFO', 'mkfifo x'],
  ['FIFOs, more than there are threads', 'mkfifo 1 2 3 4 5 6 7 8'],
  ['a link to /dev/zero', 'ln -s /dev/zero x'],
  ['a link to a file elsewhere', 'ln -s ../../secret x'],
  ['a link to a folder elsewhere', 'ln -s ../.. x'],
  ['a link to a folder elsewhere, by its name', 'ln -s ../.. x', ['x/secret', 'z/*']],
  ['a link in a parent folder', 'mkdir y; ln -s ../../.. y/x', ['y/x/secret', 'z/*']],
  ['a link to a link', 'ln -s ../.. y; ln -s y x', ['x/*', 'y/*', 'z/*']],
  ['a pattern that leads outside', ':', ['../../secret', 'z/*']],
  ['a link to itself', 'ln -s x x'],
  ['a sparse file that is larger than the disk', 'truncate -s 1T x'],
  ['a folder without permissions', 'mkdir -p x/y; : > x/y/z; rm x/y/z; chmod 000 x/y x'],
]
posix.it.each(hostile.map(([what, line, patterns = ['**']]) => ({ what, line, patterns })))(
  '$what in the work folder: only files below it are stored, and it is deleted',
  async (given) => {
    const { line, patterns } = given
    const { stored, left } = await storedAfter(line, patterns)
    expect(stored).toEqual(['fine'])
    expect(left).toEqual([])
  },
)

posix.it.each([
  ['deep', deep(':')],
  ['deep, with a file at its end', deep('printf end > file')],
  ['deep, with a FIFO at its end', deep('mkfifo x')],
  ['deep, and cannot be read', deep('chmod 000 .')],
  ['deep at two places', `${deep(':')}; mkdir e f; : > f/g; cd e; ${deep(':')}; cd ..`],
])('a folder that is %s is deleted', async (_, line) => {
  await expectDeletedAfter(line)
})

posix.it('a folder that is 2,500 deep is deleted', { tags: 'slow' }, async () => {
  await expectDeletedAfter(deep(':', 'd', 2500))
})

async function expectDeletedAfter(line: string): Promise<void> {
  const { left, warned } = await storedAfter(line, ['z/*'])
  expect({ left, warned }).toEqual({ left: [], warned: [] })
}

posix.it('artifacts keep their rights, and empty ones are stored', async () => {
  const line = ': > empty; printf run > run.sh; chmod 750 run.sh'
  const { root, stored } = await storedAfter(line)
  expect(stored).toEqual(['', 'fine', 'run'])
  expect(statSync(path.join(root, 'run.sh')).mode & 0o777).toBe(0o750)
})

posix.it('a file that was left out is named, and the others are stored', async () => {
  const { stored, warned } = await storedAfter('truncate -s 1T x; truncate -s 2G y; printf a > a')
  expect(stored).toEqual(['a', 'fine'])
  expect(warned).toEqual([
    expect.stringMatching(
      /could not be stored \(2\), such as: [xy] exceeds the limit of 1073741824/,
    ),
  ])
})

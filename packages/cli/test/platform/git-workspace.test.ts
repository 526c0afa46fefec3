import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'

import { expect, it, onTestFinished } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { findGithubCommit, findGitWorkspace } from '../../src/platform/session/git-workspace.ts'

const parts = { 'rollouts/a': '', 'configs/training/a': '', 'configs/eval/a': '', 'data/a': '' }

async function repository(origin: string, files: Record<string, string> = parts): Promise<string> {
  const folder = await temporaryFolder(files)
  execFileSync('git', ['-C', folder, 'init', '--quiet'])
  execFileSync('git', ['-C', folder, 'remote', 'add', 'origin', origin])
  return folder
}

it.each([
  'https://github.com/Acme/Lab.git',
  'https://planted:key@github.com/acme/lab/',
  'git@github.com:acme/lab.git',
  'ssh://git@github.com/acme/lab',
])('knows the repository of %s', async (origin) => {
  const folder = await repository(origin)
  const workspace = await findGitWorkspace(`${folder}/rollouts`)
  expect(workspace).toMatchObject({ folder, identity: 'acme/lab' })
  expect(workspace.remoteUrl).not.toContain('planted')
})

it.each(['https://gitlab.com/acme/lab', 'https://github.com/acme', 'https://github.com/a/b/c'])(
  'refuses the origin %s',
  async (origin) => {
    await expect(findGitWorkspace(await repository(origin))).rejects.toMatchObject({
      platformCode: 'VALIDATION',
    })
  },
)

it('names the folders that a workspace lacks', async () => {
  const folder = await repository('https://github.com/a/b', { 'data/a': '', 'rollouts/a': '' })
  await expect(findGitWorkspace(folder)).rejects.toMatchObject({
    platformCode: 'VALIDATION',
    details: { missing: ['configs/training', 'configs/eval'] },
  })
})

it('needs a repository', async () => {
  await expect(findGitWorkspace(await temporaryFolder())).rejects.toMatchObject({
    platformCode: 'WORKSPACE_REQUIRED',
  })
})

const signal = new AbortController().signal

/** Asks about a commit where `gh` is this script, git has this helper for logins, and GitHub answers so. */
async function ask(options: { gh: string; helper: string; status: number | 'nothing' }): Promise<{
  found: string
  asked: unknown[]
}> {
  const folder = await temporaryFolder()
  await writeFile(path.join(folder, 'gh'), `#!/bin/sh\n${options.gh}\n`)
  await chmod(path.join(folder, 'gh'), 0o755)
  const asked: unknown[] = []
  const github = createServer((request, response) => {
    asked.push([request.url, request.headers.authorization])
    if (options.status === 'nothing') response.destroy()
    else response.writeHead(options.status).end('{}')
  }).listen(0, '127.0.0.1')
  await once(github, 'listening')
  onTestFinished(() => void github.close())
  const found = await findGithubCommit('acme/lab', 'abc1234', {
    environment: {
      PATH: `${folder}${path.delimiter}${process.env['PATH']}`,
      HOME: folder,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'credential.helper',
      GIT_CONFIG_VALUE_0: options.helper,
    },
    signal,
    apiUrl: `http://127.0.0.1:${(github.address() as AddressInfo).port}`,
  })
  return { found, asked }
}

const offline = 'echo "no network" >&2; exit 1'
const knows = '!f() { cat >/dev/null; echo username=ada; echo password=the-token; }; f'
const asks = [['/repos/acme/lab/commits/abc1234', 'Bearer the-token']]

it.each([
  ['present', '[ "$2" = repos/acme/lab/commits/abc1234 ]'],
  ['absent', 'echo "gh: No commit found for SHA: abc1234 (HTTP 422)" >&2; exit 1'],
])('a commit is %s when gh says so, without another request', async (found, gh) => {
  expect(await ask({ gh, helper: knows, status: 500 })).toEqual({ found, asked: [] })
})

it.each([
  ['present', 200],
  ['absent', 422],
  // This is about the repository, or who may see it.
  ['unknown', 404],
  ['unknown', 'nothing'],
] as const)(
  'where gh cannot say, a login that git has is used: %s when GitHub answers %s',
  async (found, status) => {
    expect(await ask({ gh: offline, helper: knows, status })).toEqual({ found, asked: asks })
  },
)

it('a repository that gh cannot access is queried with the login of git', async () => {
  const gh = 'echo "gh: Not Found (HTTP 404)" >&2; exit 1'
  expect(await ask({ gh, helper: knows, status: 200 })).toEqual({ found: 'present', asked: asks })
})

it('without any login there is no request and no prompt', async () => {
  const helper = '!f() { cat >/dev/null; }; f'
  expect(await ask({ gh: offline, helper, status: 200 })).toEqual({ found: 'unknown', asked: [] })
})

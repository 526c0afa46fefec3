import { execFileSync } from 'node:child_process'

import { findGitWorkspace } from '@osmosis/platform'
import { temporaryFolder } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

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

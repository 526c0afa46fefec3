import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../../..')

it('templates name the versions that the packages here have', async () => {
  const script = path.join(root, 'scripts/template-versions.ts')
  expect(await promisify(execFile)(process.execPath, [script])).toEqual({ stdout: '', stderr: '' })
})

it('a release of a package that templates name is one of the templates, too', () => {
  const versions = readFileSync(path.join(root, 'packages/create/templates/versions.json'), 'utf8')
  const named = Object.keys(JSON.parse(versions) as object)
  const released = globSync('.changeset/*.md', { cwd: root }).flatMap((file) =>
    [...readFileSync(path.join(root, file), 'utf8').matchAll(/^'(.*)': (?:minor|major)$/gm)].map(
      ([, name = '']) => name,
    ),
  )
  const needsRelease = released.some((name) => named.includes(name))
  expect(needsRelease && !released.includes('@osmosis/create')).toBe(false)
})

import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { frameworkNames, frameworks, workspaceFiles } from '@osmosis/create'
import { expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../../..')

it('templates name the versions that the packages here have', async () => {
  const script = path.join(root, 'scripts/template-versions.ts')
  expect(await promisify(execFile)(process.execPath, [script])).toEqual({ stdout: '', stderr: '' })
})

it.each(frameworkNames)(
  'AGENTS.md has the steps of the page about %s, which a package carries',
  (framework) => {
    const { page, steps, title } = frameworks[framework]
    const [name = '', ...rest] = page.split('/')
    const readme = readFileSync(path.join(root, 'packages', name, 'README.md'), 'utf8')
    const address = rest.slice(1).join('/').replace(/\.md$/, '')
    expect(readme).toMatch(new RegExp(`/osmosis-sdk-typescript/${address}[)#]`))
    const text = workspaceFiles({ folder: 'f', rollout: 'r', framework }).get('AGENTS.md') ?? ''
    expect(text).toContain(title)
    expect(text).toContain(`node_modules/@osmosis/${page}`)
    expect(text).not.toMatch(/\{\{|__/)
    steps.forEach((step, at) => expect(text).toContain(`${at + 1}. ${step}`))
    if (framework === 'agent-loop') return
    const section = /^## The four steps\n([^]*?)^## /m.exec(
      readFileSync(path.join(root, rest.join('/')), 'utf8'),
    )
    const sentences = [...(section?.[1] ?? '').matchAll(/^\*\*\d\. ([^]*?[^.])\.(?:\*\*)?\s/gm)]
    const plain = (sentence: string): string =>
      sentence
        .replaceAll('**', '')
        .replaceAll(/\s+/g, ' ')
        .replaceAll(/\[(.*?)\]\(.*?\)/g, '$1')
    expect(sentences.map(([, sentence = '']) => `${plain(sentence)}.`)).toEqual(steps)
  },
)

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

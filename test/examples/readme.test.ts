import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { root } from './command.ts'

const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

function codeBlocks(language: string): string[] {
  const blocks = read('README.md').matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))
  return [...blocks].map(([, code = '']) => code)
}

it('the README begins with two commands of a clone, which are scripts of the workspace', () => {
  const [commands = ''] = codeBlocks('bash')
  const names = [...commands.matchAll(/^npx -y pnpm@12 (\S+)/gm)].map(([, name]) => name)
  expect(names).toEqual(['demo', 'test'])
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(names))
})

it('the files that the README points at are there', () => {
  const links = [...read('README.md').matchAll(/\]\((?!https?:)([^)#]+)\)/g)]
  for (const [, link = ''] of links) {
    const file = /\.(?:md|ts|png|svg)$/.test(link) ? link : path.join(link, 'README.md')
    expect(read(file)).not.toBe('')
  }
})

it('the site leads to every document', () => {
  const sidebar = read('docs/.vitepress/config.ts')
  const pages = globSync('docs/**/*.md', { cwd: root, exclude: ['**/node_modules/**'] })
  const missing = pages.filter((page) => {
    const link = page.replace(/^docs/, '').replace(/(?:index)?\.md$/, '')
    return link !== '/' && !sidebar.includes(`link: '${link}'`)
  })
  expect(missing).toEqual([])
})

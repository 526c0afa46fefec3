import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { root } from './command.ts'

const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

function codeBlocks(language: string): string[] {
  const blocks = read('README.md').matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))
  return [...blocks].map(([, code = '']) => code)
}

it('the README shows the example as it is', () => {
  const [example = ''] = codeBlocks('ts')
  const [name, ...code] = example.split('\n')
  expect(name).toBe('// rollouts/my-rollout/main.ts')
  expect(code.join('\n')).toBe(read('examples/rollouts/multiply-openai-agents/main.ts'))
})

it('the commands at the top of the README are scripts of the workspace', () => {
  const [commands = ''] = codeBlocks('bash')
  const names = [...commands.matchAll(/^npx -y pnpm@12 (\S+)/gm)].map(([, name]) => name)
  expect(names).toEqual(['demo', 'demo:train', 'test'])
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(names))
})

it('the files that the README points at are there', () => {
  const links = [...read('README.md').matchAll(/\]\((?!https?:)([^)#]+)\)/g)]
  for (const [, link = ''] of links) {
    const file = /\.(md|ts)$/.test(link) ? link : path.join(link, 'README.md')
    expect(read(file)).not.toBe('')
  }
})

it('the README leads to every document', () => {
  const text = read('README.md')
  const pages = globSync('docs/**/*.md', { cwd: root })
  expect(pages.filter((page) => !text.includes(`](${page})`))).toEqual([])
})

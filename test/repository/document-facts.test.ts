import { expect, it } from 'vitest'

import { withNote } from '../../scripts/install-notes.ts'
import { documents, read } from './documents.ts'

it('the documents name one version of Node.js as the oldest', () => {
  const others = documents.flatMap((document) =>
    [...read(document).matchAll(/Node(?:\.js)? v?(\d+(?:\.\d+)*)/g)]
      .filter(([, version]) => version !== '22.19')
      .map(([found]) => `${document}: ${found}`),
  )
  expect(others).toEqual([])
})

it('README.md alone says that the packages are not on npm yet: on the site, pages get their note from the build', () => {
  expect(withNote(read('README.md')), 'run npx -y pnpm@12 exec node scripts/install-notes.ts').toBe(
    read('README.md'),
  )
  const others = documents.filter((document) => document !== 'README.md')
  expect(others.filter((document) => /\bon npm yet\b/.test(read(document)))).toEqual([])
})

it('each column of a table has a name', () => {
  const unnamed = documents.flatMap((document) =>
    [...read(document).matchAll(/^(\|.*\|)\n\|[ :|-]*-[ :|-]*\|$/gm)]
      .filter(([, head = '']) => /\|\s*\|/.test(head))
      .map(([, head]) => `${document}: ${head}`),
  )
  expect(unnamed).toEqual([])
})

it('the note of README.md stands before the whole block of commands', () => {
  const block = '```bash\ncd shop\n\nnpm install @osmosis/core\n```'
  expect(withNote(`Text.\n\n${block}`)).toMatch(
    /^Text\.\n\n> .*\n\n```bash\ncd shop\n\nnpm install/,
  )
})

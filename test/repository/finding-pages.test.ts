import { expect, it } from 'vitest'

import { pageAt } from '../../docs/.vitepress/page-links.ts'
import { read } from './documents.ts'

// Findings of `osmosis validate` and `doctor` name pages in the installed packages.

/** `core/docs/guides/graders.md#the-context` as a package, a page and a heading. */
const named = [
  ...read('packages/cli/src/checks/pages.ts').matchAll(/'([\w-]+)\/docs\/([^'#]+)#?([\w-]*)'/g),
].map(([, name = '', page = '', anchor = '']) => ({ name, page, anchor }))

const adapters = [
  ...read('packages/cli/src/checks/framework-advice.ts').matchAll(/'@osmosis\/([\w-]+)': '/g),
].map(([, name = '']) => ({ name, page: `frameworks/${name}.md`, anchor: '' }))

it.each([...named, ...adapters])('$name carries $page, which has #$anchor', (each) => {
  const { name, page, anchor } = each
  const linked = read(`packages/${name}/README.md`).matchAll(/\]\(([^)#\s]+)/g)
  expect([...linked].map(([, address = '']) => pageAt(address))).toContain(page)
  const headings = [...read(`docs/${page}`).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .trim()
      .replaceAll(' ', '-'),
  )
  expect(anchor === '' || headings.includes(anchor)).toBe(true)
})

it('there are such pages', () => {
  expect(named.length).toBeGreaterThan(10)
  expect(adapters.length).toBeGreaterThan(5)
})

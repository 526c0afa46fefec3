import { expect, it } from 'vitest'

import { notedDocuments, withNote } from '../../scripts/install-notes.ts'
import { documents, read } from './documents.ts'

it('the documents name one version of Node.js as the oldest', () => {
  const others = documents.flatMap((document) =>
    [...read(document).matchAll(/Node(?:\.js)? v?(\d+(?:\.\d+)*)/g)]
      .filter(([, version]) => version !== '22.19')
      .map(([found]) => `${document}: ${found}`),
  )
  expect(others).toEqual([])
})

it('documents that install packages say how to while the packages are not on npm', () => {
  const wrong = notedDocuments.filter(
    (document) => withNote(document, read(document)) !== read(document),
  )
  expect(wrong, 'run npx -y pnpm@12 exec node scripts/install-notes.ts').toEqual([])
})

import { stripTypeScriptTypes } from 'node:module'

import { expect, it } from 'vitest'

import { blocksOf, documents } from './documents.ts'

const programs = documents.flatMap((document) => blocksOf(document, 'ts'))

// Their types are checked in document-code.slow.test.ts.
it('every program of the documents is TypeScript that Node.js runs as it is', () => {
  expect(programs.length).toBeGreaterThan(20)
  const wrong = programs.flatMap(({ document, line, text }) => {
    try {
      stripTypeScriptTypes(text)
      return []
    } catch (error) {
      return [`${document}:${line}: ${String(error)}`]
    }
  })
  expect(wrong).toEqual([])
})

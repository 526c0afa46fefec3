import { expect, it } from 'vitest'

import { documentFigures } from '../../scripts/docs-figures.ts'

/** Per 1,000 lines of the repository. Lower it when the count falls; the goal is 1. */
const limit = 1

it('the repository is written in plain English', () => {
  const { found, perThousandLines } = documentFigures().idioms
  const places = found.map(
    ({ file, line, found: words, instead }) => `${file}:${line}: "${words}", write: ${instead}`,
  )
  expect(perThousandLines <= limit ? [] : places).toEqual([])
})

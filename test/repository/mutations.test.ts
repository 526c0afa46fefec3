import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { mutationAreas } from '../mutations/mutations.ts'
import { root } from './documents.ts'

// Running them all takes hours: a mutation of a line that has changed would be forgotten.
it('every mutation changes a line of the code as it is', () => {
  const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')
  const stale = Object.values(mutationAreas)
    .flat()
    .filter(({ file, from }) => read(file).split(from).length !== 2)
  expect(stale.map(({ name }) => name)).toEqual([])
})

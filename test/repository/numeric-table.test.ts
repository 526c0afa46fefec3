import { numeric } from '@osmosis/core/scores'
import { expect, it } from 'vitest'

import { read, section } from './documents.ts'

const table = section(read('docs/guides/graders.md'), 'What `numeric` reads as a number')
const rows = table.split('\n').flatMap((line) => {
  const [, texts = '', meaning = ''] = line.split('|').map((cell) => cell.trim())
  return [...texts.matchAll(/`([^`]+)`/g)].map(([, text = '']) => ({ text, meaning }))
})
const numbers = rows.map(({ meaning }) => meaning).filter((meaning) => /\d/.test(meaning))
const labels = [...new Set(['70', ...numbers])]

it('the page about graders has numbers of every kind', () => {
  expect(rows.length).toBeGreaterThan(30)
  expect(labels.length).toBeGreaterThan(10)
})

it.each(rows)('numeric reads $text as the page says: $meaning', ({ text, meaning }) => {
  const found = labels.filter((label) => numeric(`Not 70. It is ${text}`, label) === 1)
  // Of what is skipped, the number before it counts.
  const others: Readonly<Record<string, string[]>> = { skipped: ['70'], 'no number': [] }
  expect(found).toEqual(others[meaning] ?? [meaning])
})

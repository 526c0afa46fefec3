// Writes multiply.jsonl: 200 multiplication problems with factors of two to four digits, half of
// them with decimals. The answers are computed on whole numbers, so they are exact.
//
//   node examples/data/generate-multiply.ts
import { writeFileSync } from 'node:fs'
import path from 'node:path'

const rows = 200
const systemPrompt =
  'You are a careful calculator. Use the multiply tool for every product. End your answer with the result on a line of its own, as #### <number>.'

/** A number as its digits and how many of them follow the decimal point. */
interface Decimal {
  digits: bigint
  places: number
}

function toText({ digits, places }: Decimal): string {
  if (places === 0) return digits.toString()
  const text = digits.toString().padStart(places + 1, '0')
  const fraction = text.slice(-places).replace(/0+$/, '')
  return text.slice(0, -places) + (fraction && `.${fraction}`)
}

// Always the same rows: a linear congruential generator with a fixed seed.
let state = 20_240_229
function randomBelow(limit: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * limit)
}

function factor(places: number): Decimal {
  const length = 2 + randomBelow(3)
  const smallest = 10 ** (length - 1)
  return { digits: BigInt(smallest + randomBelow(9 * smallest)), places }
}

const lines = Array.from({ length: rows }, (_, row) => {
  const decimal = row % 2 === 1
  const a = factor(decimal ? 1 + randomBelow(2) : 0)
  const b = factor(decimal ? randomBelow(2) : 0)
  const product: Decimal = { digits: a.digits * b.digits, places: a.places + b.places }
  return JSON.stringify({
    system_prompt: systemPrompt,
    user_prompt: `val1 = ${toText(a)}\nval2 = ${toText(b)}\nWhat is val1 times val2?`,
    ground_truth: toText(product),
  })
})

writeFileSync(path.join(import.meta.dirname, 'multiply.jsonl'), `${lines.join('\n')}\n`)

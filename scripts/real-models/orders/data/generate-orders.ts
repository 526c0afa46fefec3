// Writes orders.jsonl: 200 rows to train, and 50 held-out rows with other names, cities and items. They are always the same.
//
//   node scripts/real-models/orders/data/generate-orders.ts
import { writeFileSync } from 'node:fs'
import path from 'node:path'

interface Words {
  readonly names: readonly string[]
  readonly cities: readonly string[]
  readonly items: readonly string[]
}

const trained: Words = {
  names: words(
    'Maria Ahmed Chen Lena Tom Priya Jonas Sofia Omar Kate Ivan Nora Paul Rosa Emil Tara',
  ),
  cities: words(
    'Lyon Oslo Bonn Porto Graz Leeds Turin Ghent Malmo Cork Lille Dresden Brno Tampa Osaka Quito',
  ),
  items: words(
    'tea nails paper soap rice candles pens coffee batteries flour salt rope honey glue towels screws',
  ),
}
const heldOut: Words = {
  names: words('Anna Kofi Luca Mei David Ines Peter Zoe'),
  cities: words('Madrid Bergen Hamburg Naples Boston Lagos Perth Vienna'),
  items: words('sugar bricks pencils lamps oil pasta socks buckets'),
}
const units = words('boxes bags packs crates')
const counts = Array.from({ length: 58 }, (_, at) => at)

type Order = Readonly<Record<'name' | 'city' | 'item' | 'unit', string>> & {
  readonly count: number
}

const messages: readonly ((order: Order) => string)[] = [
  ({ name, city, count, unit, item }) =>
    `Hi, this is ${name} from ${city}. Please send me ${count} ${unit} of ${item}.`,
  ({ name, city, count, unit, item }) =>
    `${count} ${unit} of ${item}, please. My name is ${name}, and I live in ${city}.`,
  ({ name, city, count, unit, item }) =>
    `I'm ${name}. We have run out of ${item} here in ${city}, can we get ${count} ${unit}?`,
  ({ name, city, count, unit, item }) =>
    `Could you ship ${count} ${unit} of ${item} to ${city}? Thanks, ${name}`,
  ({ name, city, count, unit, item }) =>
    `${name} here: ${city} needs ${count} more ${unit} of ${item}.`,
]

function words(text: string): readonly string[] {
  return text.split(' ')
}

// A linear congruential generator with a fixed seed.
let state = 20_261_128
function pick<T>(values: readonly T[]): T {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return values[Math.floor((state / 2 ** 32) * values.length)] as T
}

function rows(count: number, split: string, { names, cities, items }: Words): string[] {
  const found = new Map<string, string>()
  while (found.size < count) {
    const [name, city, item] = [pick(names), pick(cities), pick(items)]
    const order = { name, city, item, unit: pick(units), count: 2 + pick(counts) }
    const ground_truth = JSON.stringify({ name, city, count: order.count, item })
    const user_prompt = pick(messages)(order)
    found.set(user_prompt, JSON.stringify({ user_prompt, ground_truth, split }))
  }
  return [...found.values()]
}

const lines = [...rows(200, 'train', trained), ...rows(50, 'validation', heldOut)]
writeFileSync(path.join(import.meta.dirname, 'orders.jsonl'), `${lines.join('\n')}\n`)

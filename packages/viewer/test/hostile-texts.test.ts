import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { exportReport } from '@osmosis/viewer'
import { expect } from 'vitest'

import { withBrowser } from './browser.ts'
import { airlineManifest, airlineRollout, airlineTasks } from './synthetic/airline-run.ts'
import { seededRandom } from './synthetic/random.ts'
import { RunWriter } from './synthetic/run-writer.ts'
import { go, press, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const nested = (open: string, close = '', times = 10_000): string =>
  open.repeat(times) + close.repeat(times)
const columns = 2000
const table = [
  `|${'h|'.repeat(columns)}`,
  `|${'-|'.repeat(columns)}`,
  `|${'c|'.repeat(columns)}`,
].join('\n')

/** What a model may say. Each begins with its own word, by which it is found. */
const texts: Readonly<Record<string, string>> = {
  quotes: `quotes\n\n${nested('> ')}`,
  quotesInReach: `quotesInReach\n\n${nested('> ', '', 2700)}x`,
  lists: `lists\n\n${nested('- ')}`,
  listsInReach: `listsInReach\n\n${nested('- ', '', 2700)}x`,
  numbered: `numbered\n\n${nested('1. ', '', 1800)}x`,
  indented: `indented\n${Array.from({ length: 100 }, (_, at) => `${'  '.repeat(at)}- a`).join('\n')}`,
  mixed: `mixed\n\n${nested('> - ', '', 1300)}x`,
  brackets: `brackets ${nested('[', '](x)', 900)}`,
  parentheses: `parentheses ${nested('[a](', ')', 900)}`,
  emphasis: `emphasis ${nested('**_', '_**', 900)}`,
  underscores: `underscores ${nested('_a', '', 2600)}`,
  ticks: `ticks ${nested('`', 'a', 2600)}`,
  fences: `fences\n${'```\n'.repeat(1300)}`,
  table: `table\n\n${table}`,
  narrow: `narrow\n\n|a|\n|-|\n${'|b|\n'.repeat(1300)}`,
  html: `html\n\n${nested('<div>', '</div>', 500)}`,
  arrays: `[${JSON.stringify('arrays')},${nested('[', ']')}]`,
  objects: `{"objects":${nested('{"a":', '', 10_000)}1${'}'.repeat(10_001)}`,
  wide: `["wide",${'0,'.repeat(90_000)}0]`,
  numbers: '{"numbers":[1e999,-1e999,1E400,0.1e-999,123456789012345678901234567890]}',
  notNumbers: '{"notNumbers":[NaN,Infinity,01,+1,.5,0x10]}',
  proto: '{"proto":1,"__proto__":{"x":1},"constructor":{"prototype":{"y":1}},"toString":2}',
  twice: '{"twice":1,"twice":2}',
  toJson:
    '{"toJson":1,"toJSON":"x","then":"y","$$typeof":1,"type":"script","props":{},"key":null,"ref":1}',
  surrogates: `surrogates \uD800 \uDC00x \uD83D`,
  surrogatesInJson: '{"surrogatesInJson":"\\ud800","\\udc00":"\\ud83d\\ud83d"}',
  controls: `controls \0\u0001\u001b[31m\u0085\u2028\u2029\uFEFF\uFFFF`,
  bidi: `bidi \u202Eevil\u202C \u2066\u2067\u2069 \u200F\u061C`,
  marks: `marks ${'e\u0301\u0300'.repeat(1000)}`,
  line: `line ${'x'.repeat(5 * 2 ** 20)}`,
  lines: `lines\n${'\n'.repeat(100_000)}`,
  markdownLine: `markdownLine **${'a'.repeat(2 ** 20)}**`,
}
const names = Object.keys(texts)
/** One of each kind. The others take a minute in a browser, and run every night. */
const kinds = [
  'quotes',
  'listsInReach',
  'mixed',
  'emphasis',
  'fences',
  'table',
  'html',
  'objects',
  'wide',
  'numbers',
  'proto',
  'surrogates',
  'bidi',
  'lines',
]

/** Steps whose fields are not those of a trajectory, as in a folder that somebody changed. */
const steps: readonly object[] = [
  { source: 'agent', message: 'broken', tool_calls: [{ function_name: 'f', arguments: null }] },
  { source: 'agent', message: 'broken', tool_calls: [{ function_name: {}, arguments: 7 }] },
  { source: 'agent', message: 'broken', tool_calls: 'x' },
  { source: 'agent', message: 'broken', observation: {} },
  { source: 'agent', message: 'broken', observation: { results: [null] } },
  { source: 'agent', message: { broken: true }, reasoning_content: 'broken' },
  { source: { broken: true }, message: 'broken' },
  {
    source: 'agent',
    message: 'broken',
    metrics: { extra: { finish_reason: {}, latency_ms: 'x' } },
  },
  { source: 'agent', message: 'broken', metrics: 'x', reasoning_content: { a: 1 } },
  {
    source: 'agent',
    message: [{ type: 'text', text: 'broken' }, null, 7, { type: 'image', source: null }],
  },
]

function trajectory(said: readonly object[]): object {
  return {
    schema_version: 'ATIF-v1.7',
    agent: { name: 'test', version: '1' },
    steps: [
      { source: 'user', message: 'before' },
      ...said,
      { source: 'agent', message: 'after' },
    ].map((step, at) => ({ step_id: at + 1, ...step })),
  }
}

/** A run with a row for each text, as answer, thinking, arguments and result, and for each of the broken steps. */
function writeTexts(root: string): void {
  const samples = [
    ...names.map((name) => {
      const text = texts[name]
      return trajectory([
        { source: 'agent', message: text, reasoning_content: text },
        {
          source: 'agent',
          message: '',
          tool_calls: [
            { tool_call_id: 'c', function_name: text?.slice(0, 2000), arguments: { _raw: text } },
          ],
          observation: { results: [{ source_call_id: 'c', content: text }] },
        },
      ])
    }),
    ...steps.map((step) => trajectory([step])),
  ]
  const tasks = airlineTasks(samples.length)
  const writer = new RunWriter(root, airlineManifest({ name: 'texts', attempts: 1 }, tasks))
  for (const [at, task] of tasks.entries()) {
    const { event } = airlineRollout('texts', task, 0, 'wrong amount', seededRandom(at))
    const text = (texts[names[at] ?? ''] ?? 'broken').slice(0, 200)
    const tools = [{ name: text, calls: 1, errors: 1 }]
    writer.add({ ...event, summary: text, tools }, { main: samples[at] ?? {} })
  }
  writer.close()
}

const inBrowser = ViewerInBrowser.forTests((root) => writeTexts(root))

async function expectReadable(name: string): Promise<void> {
  const { page, problems } = await inBrowser.open(`#/run/texts?sel=${names.indexOf(name)}.1`)
  const shown = reader(page)
  await shown.locator('.step', { hasText: 'before' }).first().waitFor()
  await shown.locator('.step', { hasText: 'after' }).last().waitFor()
  expect(await shown.locator('.step').count()).toBe(4)
  expect(await shown.locator('.step .said').nth(1).textContent()).toContain(name)
  // Any text can be folded out and seen as it was written.
  for (const fold of await shown.locator('button.fold').all()) await fold.click()
  await press(page, 'm')
  expect(await shown.locator('.step .said').nth(1).textContent()).toContain(name)
  await press(page, 'm')
  await go(page, `#/run/texts?sel=${names.indexOf('proto')}.1`)
  await shown.locator('.step').getByText('constructor').first().waitFor()
  expect(await page.evaluate('({}).x ?? ({}).y ?? null')).toBeNull()
  expect(problems).toEqual([])
}

const isReadable = 'is read in full around it, and so is the next rollout: %s'

describe('whatever a model says', () => {
  it.each(kinds)(isReadable, expectReadable)
  it.each(names.filter((name) => !kinds.includes(name)))(
    isReadable,
    { tags: 'nightly' },
    expectReadable,
  )

  it.each(steps.map((step, at) => [at, JSON.stringify(step)] as const))(
    'keeps the other steps readable where a step is none: %i, %s',
    async (at) => {
      const { page, problems } = await inBrowser.open(`#/run/texts?sel=${names.length + at}.1`)
      const shown = reader(page)
      await shown.locator('.step', { hasText: 'before' }).first().waitFor()
      await shown.locator('.step', { hasText: 'after' }).last().waitFor()
      expect(await shown.textContent()).toContain('broken')
      await go(page, '#/run/texts?sel=0.1')
      await shown.getByText('quotes').first().waitFor()
      expect(problems).toEqual([])
    },
  )

  it('is read in a report, too', { tags: 'slow' }, async () => {
    const file = path.join(inBrowser.root, 'texts.html')
    await exportReport({ run: path.join(inBrowser.root, 'texts'), file, transcripts: 'all' })
    const { page, problems } = await inBrowser.openUrl(pathToFileURL(file).href)
    for (const name of ['quotesInReach', 'objects', 'toJson', 'surrogates', 'line']) {
      await go(page, `#/?sel=${names.indexOf(name)}.1`)
      await reader(page).locator('.step .said', { hasText: name }).first().waitFor()
      await reader(page).locator('.step', { hasText: 'after' }).last().waitFor()
    }
    expect(problems).toEqual([])
  })
})

// The cost of the viewer of evaluation runs, in the Chromium of the system: the delays that a reader
// notices, each beside its goal. The runs are synthetic.
//
//   npx -y pnpm@12 run bench viewer
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { exportReport } from '@osmosis/viewer'

import { openPage } from '../packages/viewer/test/browser.ts'
import { launchChromium } from '../packages/viewer/test/chromium.ts'
import { writeAirlineRun } from '../packages/viewer/test/synthetic/airline-run.ts'
import { journalEvents, journalLine } from '../test/kit/index.ts'
import { median, rounded } from './figures.ts'

interface Figure {
  readonly name: string
  readonly value: number
  readonly unit: string
  /** The maximum that is acceptable. */
  readonly goal: number
}

type Page = Awaited<ReturnType<typeof openPage>>['page']

const filters = [
  'is:stuck',
  'reward<0.5 tool:update tokens>300',
  'is:signal sort:-spread',
  '-is:passed sort:-tokens',
]
const root = mkdtempSync(path.join(tmpdir(), 'osmosis-viewer-benchmark-'))
const browser = await launchChromium(['--enable-precise-memory-info', '--js-flags=--expose-gc'])
try {
  for (const [name, rows] of [['small', 1_250] as const, ['large', 25_000] as const]) {
    const folder = writeAirlineRun(root, { name, rows, attempts: 4, skill: 0.75 })
    const figures = await measure(name, folder, rows * 4)
    print(`${(rows * 4).toLocaleString('en-US')} rollouts`, figures)
  }
} finally {
  await browser.close()
  rmSync(root, { recursive: true })
}

async function measure(name: string, folder: string, items: number): Promise<Figure[]> {
  const server = fork(path.join(import.meta.dirname, 'viewer-under-test.ts'), [root])
  try {
    return await measureOn(server, { name, folder, isLarge: items > 10_000 })
  } finally {
    server.kill()
  }
}

async function measureOn(
  server: ChildProcess,
  { name, folder, isLarge }: { name: string; folder: string; isLarge: boolean },
): Promise<Figure[]> {
  const [{ url }] = (await once(server, 'message')) as [{ url: string }]
  const { page } = await openPage(browser, url.replace(/\/$/, `/run/${name}`))
  await page.locator('.line').first().waitFor()
  const firstPaint = await firstPaintOf(page)
  const warm: number[] = []
  for (let round = 0; round < 5; round++) {
    const started = performance.now()
    await page.reload()
    await page.locator('.line').first().waitFor()
    warm.push(performance.now() - started)
  }
  // The figures of a large run appear after its lines.
  await page.locator('.finding').first().waitFor()
  const lines = await page.locator('.line').count()
  const figures: Figure[] = [
    { name: 'first paint', value: firstPaint, unit: 'ms', goal: 150 },
    { name: 'reload to lines', value: median(warm), unit: 'ms', goal: isLarge ? 1500 : 1000 },
    { name: 'filter, worst', value: await worstFilter(page), unit: 'ms', goal: 100 },
    { name: 'next transcript', value: await nextTranscript(page), unit: 'ms', goal: 50 },
    { name: 'live row', value: await liveRow(page, folder), unit: 'ms', goal: 300 },
    { name: 'lines in the page', value: lines, unit: '', goal: 50 },
    { name: 'text search', value: await textSearch(page), unit: 'ms', goal: 1500 },
    { name: 'heap of the page', value: await heap(page), unit: 'MiB', goal: isLarge ? 100 : 20 },
    { name: 'memory of the server', value: await memory(server), unit: 'MiB', goal: 350 },
  ]
  if (!isLarge) {
    const file = path.join(root, 'report.html')
    const { bytes } = await exportReport({ run: folder, file, transcripts: 'all' })
    figures.push({ name: 'report, all transcripts', value: bytes / 2 ** 20, unit: 'MiB', goal: 5 })
  }
  await page.context().close()
  return figures
}

async function firstPaintOf(page: Page): Promise<number> {
  return page.evaluate<number>(
    `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1`,
  )
}

/** From an input to the second frame after it, the first one that certainly shows its effect. */
async function worstFilter(page: Page): Promise<number> {
  const medians: number[] = []
  for (const text of filters) {
    const times: number[] = []
    for (let round = 0; round < 5; round++) {
      await input(page, '')
      times.push(await input(page, text))
    }
    medians.push(median(times))
  }
  return Math.max(...medians)
}

async function input(page: Page, text: string): Promise<number> {
  return page.evaluate<number>(`new Promise((resolve) => {
    const field = document.querySelector('.search input')
    const started = performance.now()
    field.value = ${JSON.stringify(text)}
    field.dispatchEvent(new Event('input', { bubbles: true }))
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - started)))
  })`)
}

async function nextTranscript(page: Page): Promise<number> {
  await input(page, 'is:stuck')
  await page.keyboard.press('j')
  await page.locator('.step').first().waitFor()
  return page.evaluate<number>(`(async () => {
    const times = []
    for (let round = 0; round < 30; round++) {
      const text = () => document.querySelector('.step.user')?.textContent
      const before = text()
      const started = performance.now()
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }))
      while (text() === before && performance.now() - started < 2000) {
        await new Promise(requestAnimationFrame)
      }
      times.push(performance.now() - started)
    }
    return times.sort((a, b) => a - b)[15]
  })()`)
}

/** From the line in the journal to the line on the screen. */
async function liveRow(page: Page, folder: string): Promise<number> {
  await page.keyboard.press('Escape')
  await input(page, 'row:0')
  const journal = path.join(folder, 'events.jsonl')
  const [event] = journalEvents(journal)
  const times: number[] = []
  for (let round = 0; round < 7; round++) {
    const summary = `Ended in round ${round}.`
    const shown = page.evaluate(`(async () => {
      const texts = () => [...document.querySelectorAll('.line .text')]
      while (!texts().some((text) => text.textContent.includes(${JSON.stringify(summary)}))) {
        await new Promise(requestAnimationFrame)
      }
    })()`)
    const started = performance.now()
    appendFileSync(journal, journalLine({ ...event, summary }))
    await shown
    times.push(performance.now() - started)
    // Figures are computed after the lines; the next line does not wait for them.
    await page.waitForTimeout(1500)
  }
  return median(times)
}

async function textSearch(page: Page): Promise<number> {
  return page.evaluate<number>(`(async () => {
    const started = performance.now()
    const run = location.hash.slice('#/run/'.length).split('?')[0]
    const headers = { authorization: 'Bearer ' + localStorage.getItem('token') }
    await (await fetch('api/runs/' + run + '/search?text=technical%20problem', { headers })).json()
    return performance.now() - started
  })()`)
}

async function heap(page: Page): Promise<number> {
  return page.evaluate<number>(`(globalThis.gc?.(), performance.memory.usedJSHeapSize / 2 ** 20)`)
}

async function memory(server: ChildProcess): Promise<number> {
  server.send('memory')
  const [{ rss }] = (await once(server, 'message')) as [{ rss: number }]
  return rss / 2 ** 20
}

function print(title: string, figures: readonly Figure[]): void {
  const printed = figures.map((figure) => ({
    ...figure,
    value: rounded(figure.value, 1),
  }))
  console.log(`\n${title}`)
  for (const { name, value, unit, goal } of printed) {
    const verdict = value <= goal ? '' : '  missed'
    console.log(`  ${name.padEnd(26)}${`${value} ${unit}`.padStart(12)}   goal ${goal}${verdict}`)
  }
  console.log(JSON.stringify({ title, figures: printed }))
}

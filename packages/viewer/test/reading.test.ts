import { appendFileSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { startViewer } from '@osmosis/viewer'
import type { Locator, Page } from 'playwright-core'
import { expect } from 'vitest'

import { journalEvents } from '../../../test/kit/index.ts'
import { violations, withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { rewriteEvents, writePlantedRun, writeSpeakingRun } from './synthetic/planted-runs.ts'
import { filter, lines, press, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const markdown =
  '#### Price\n\nIt **costs** 1.50:\n\n| item | price |\n| --- | --- |\n| pear | 1.50 |\n\n- one\n- `two`'

const inBrowser = ViewerInBrowser.forTests((root) => {
  writePlantedRun(root)
  const base = { rows: 60, attempts: 4 }
  writeAirlineRun(root, { ...base, name: 'airline-base', skill: 0.3, seed: 5 })
  writeAirlineRun(root, { ...base, name: 'airline-two', skill: 0.9, seed: 2 })
  const thrown = writeAirlineRun(root, { name: 'thrown', rows: 2, attempts: 1 })
  rewriteEvents(thrown, (event) => ({
    ...event,
    status: 'failed',
    reward: null,
    samples: {},
    error_type: 'agent_error',
    error_message: 'thrown by run() at main.ts:41: no shelf',
  }))
  for (const { rollout_id } of journalEvents<{ rollout_id: string }>(
    path.join(thrown, 'events.jsonl'),
  )) {
    const stack = [
      'Error: no shelf',
      '    at fetch (/home/me/node_modules/undici/index.js:112:13)',
      '    at sortShelf (file:///home/me/rollouts/librarian/main.ts:41:9)',
    ].join('\n')
    const line = {
      rollout_id,
      level: 'error',
      msg: 'thrown by run() at main.ts:41: no shelf',
      error: { stack },
    }
    appendFileSync(path.join(thrown, 'logs.txt'), `${JSON.stringify(line)}\n`)
  }
  writeSpeakingRun(root, 'rendered', markdown)
  giveIds(writeAirlineRun(root, { name: 'with-ids', rows: 4, attempts: 2 }))
})
const open: ViewerInBrowser['open'] = (place, options) => inBrowser.open(place, options)

const clipboard = ['clipboard-read', 'clipboard-write']

/** Gives each row of a run an id, as datasets have them. */
function giveIds(run: string): void {
  const file = path.join(run, 'manifest.json')
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as { rows: { source_row: number }[] }
  const rows = manifest.rows.map((row) => ({ ...row, key: givenId(row.source_row) }))
  writeFileSync(file, JSON.stringify({ ...manifest, rows }))
}

const givenId = (row: number) => `airline/return-flight-with-two-bags/${row}`

/** What the copy button of a part of the page copies. */
async function copied(page: Page, part: Locator): Promise<unknown> {
  await part.getByRole('button', { name: 'Copy' }).click()
  await part.getByRole('button', { name: 'Copied' }).waitFor()
  return page.evaluate('navigator.clipboard.readText()')
}

describe('a transcript', () => {
  it('scrolls with Space, PageDown, Home and End after a click on a line, and after j', async () => {
    const { page, problems } = await open('#/run/airline-base')
    const top = (): Promise<number> => page.evaluate("document.querySelector('.steps').scrollTop")
    await lines(page).first().click()
    await reader(page).getByText('agent').first().waitFor()
    await press(page, ' ')
    await expect.poll(top).toBeGreaterThan(200)
    const once = await top()
    await press(page, 'PageDown')
    await expect.poll(top).toBeGreaterThan(once)
    await press(page, 'Home')
    await expect.poll(top).toBe(0)
    await press(page, 'j', 'End')
    await reader(page).locator('.verdict').waitFor()
    await expect.poll(top).toBeGreaterThan(once)
    await press(page, 'PageUp')
    expect(problems).toEqual([])
  })

  it('has the verdict with its reason, the expected answer and labelled metadata in its head', async () => {
    const { page } = await open('#/run/planted?sel=17.3')
    const head = reader(page).locator('.rhead')
    await head.getByText('passes at 1; suspicious: it called no tool').waitFor()
    expect(await head.locator('.expected').innerText()).toMatch(/^expected \w+$/)
    expect(await head.locator('.chip').innerText()).toMatch(/^task\s\w+$/)
  })

  it('renders Markdown and JSON, shows them as they were written, and copies them', async () => {
    const { page, problems } = await open('#/run/rendered?sel=0.1', { permissions: clipboard })
    const said = reader(page).locator('.step.agent .said').first()
    await said.locator('strong', { hasText: 'costs' }).waitFor()
    expect(await said.locator('td').allInnerTexts()).toEqual(['pear', '1.50'])
    expect(await said.locator('li code').innerText()).toBe('two')
    // Graders read such marks, so they stay to be seen.
    await said.getByText('#### Price').waitFor()
    const tree = reader(page).locator('.json').first()
    await tree.locator('summary').first().waitFor()
    await said.hover()
    expect(await copied(page, said)).toBe(markdown)
    await press(page, 'm')
    await said.getByText('**costs**').waitFor()
    expect(await reader(page).locator('.json').count()).toBe(0)
    expect(problems).toEqual([])
  })

  it('says in which phase and line a rollout failed, and lets the error be copied', async () => {
    const { page } = await open('#/run/thrown?sel=0.1', { permissions: clipboard })
    const failure = reader(page).getByRole('group', { name: 'Error' })
    await failure.getByText('thrown by run() at main.ts:41: no shelf').waitFor()
    expect(await failure.innerText()).toMatch(/^Agent error\s+in the workflow/)
    // The first frame in code of the user, not the one of a package.
    expect(await failure.locator('code').innerText()).toBe('/home/me/rollouts/librarian/main.ts:41')
    expect(await copied(page, failure)).toContain(
      'thrown by run() at main.ts:41: no shelf\n\nError: no shelf',
    )
  })
})

describe('a run', () => {
  it('lists the question before the last message, and filters by a bar of a histogram', async () => {
    const { page, problems } = await open('#/run/airline-base')
    const line = lines(page).first()
    await line.locator('q').waitFor()
    const question = await line.locator('q').innerText()
    const text = await line.locator('.text').innerText()
    expect(text.startsWith(question)).toBe(true)
    expect(text.length).toBeGreaterThan(question.length + 10)
    const bar = page.getByRole('group', { name: 'Reward' }).getByRole('button').first()
    const [, count] = /: (\d+) rollouts/.exec((await bar.getAttribute('aria-label')) ?? '') ?? []
    await bar.click()
    expect(await filter(page).inputValue()).toMatch(/^reward>=0 reward<0\.\d+$/)
    await page.getByText(`${count} of 240`, { exact: true }).waitFor()
    await bar.click()
    expect(await filter(page).inputValue()).toBe('')
    expect(problems).toEqual([])
  })

  it.each([
    ['', 1400],
    ['?sel=0.1', 1100],
  ])('shows the question of rows with ids, beside a transcript too: %j', async (at, width) => {
    const viewport = { width, height: 800 }
    const { page } = await open(`#/run/with-ids${at}`, { viewport })
    const line = lines(page).first()
    await line.locator('q').waitFor()
    const text = line.locator('.text')
    // A question that does not fit whole is hidden, and the dots stand for it.
    const [outer, inner] = [await text.boundingBox(), await line.locator('q').boundingBox()]
    const end = (inner?.x ?? Infinity) + (inner?.width ?? 0)
    expect(end).toBeLessThanOrEqual((outer?.x ?? 0) + (outer?.width ?? 0))
    expect(await text.innerText()).toContain(givenId(0))
  })

  it('has a legend of its map, whose brackets stand under their columns', async () => {
    const { page } = await open('#/run/airline-base')
    const map = page.getByRole('region', { name: 'Signal map' })
    await map.getByText('A column is a row, a cell an attempt').waitFor()
    await map.getByText('0 or less').waitFor()
    const width = (await map.locator('.brackets > *').first().boundingBox())?.width ?? 0
    const whole = (await map.locator('.strip').boundingBox())?.width ?? 0
    const [never = ''] = /^\d+/.exec(await map.locator('.brackets > *').first().innerText()) ?? []
    // One pixel of margin on each side.
    expect(Math.abs(width + 2 - (whole * Number(never)) / 60)).toBeLessThan(2)
  })
})

describe('grading again', () => {
  it('with one key shows which verdicts change, and is not offered for runs of strangers', async () => {
    const folder = writeAirlineRun(inBrowser.root, {
      name: 'edited',
      rows: 60,
      attempts: 2,
      skill: 9,
    })
    rewriteEvents(folder, (event) => ({ ...event, sample_place: event.trajectory_place }))
    let reward: number | null = 0
    const regrade = async (location: string): Promise<string> => {
      if (reward === null) throw new Error('main.ts exports no grader.')
      const run = await openRun(location)
      const grades = run.sortedEvents.map(({ source_row_index, run_index, rollout_id }) => ({
        source_row_index,
        run_index,
        rollout_id,
        reward,
        error: null,
      }))
      await run.replaceGrades('edited', grades)
      return 'edited'
    }
    await using viewer = await startViewer({ root: inBrowser.root, run: 'edited', regrade })
    const { page, problems } = await inBrowser.openUrl(viewer.url)
    await page.getByRole('button', { name: 'Re-grade' }).waitFor()
    await press(page, 'r')
    await page.locator('.sentence', { hasText: 'Worse by' }).waitFor()
    expect(decodeURIComponent(page.url())).toContain('#/compare/edited/edited@edited')
    reward = 1
    await press(page, 'r')
    await page.locator('.sentence', { hasText: /^(?!Worse)/ }).waitFor()
    reward = null
    await press(page, 'r')
    await page.getByRole('alert').getByText('Not graded: main.ts exports no grader.').waitFor()
    expect(problems).toEqual([])

    const canRegrade = async (): Promise<boolean> => false
    const options = { root: inBrowser.root, run: 'edited', regrade, canRegrade }
    await using other = await startViewer(options)
    const foreign = await inBrowser.openUrl(other.url)
    await foreign.page.getByRole('region', { name: 'Signal map' }).waitFor()
    expect(await foreign.page.getByRole('button', { name: 'Re-grade' }).count()).toBe(0)
    rmSync(folder, { recursive: true })
  })
})

describe('the list of runs', () => {
  it('is searched and sorted, has the trend of a rollout, and leads to a comparison', async () => {
    const { page, problems } = await open('#/')
    const group = page.getByRole('rowgroup', { name: 'airline-support' })
    await group.getByRole('img', { name: /^from \d+\.\d % to \d+\.\d %$/ }).waitFor()
    const names = (): Promise<string[]> => group.locator('td.name a:first-child').allInnerTexts()
    expect(await page.getByRole('columnheader', { name: 'Pass rate' }).count()).toBe(1)
    await group.getByText('pass rate on airline.jsonl, the oldest first').waitFor()
    const byName = page.getByRole('button', { name: /^Run\b/ })
    await byName.click()
    expect(await names()).toEqual([
      'airline-base',
      'airline-two',
      'planted',
      'rendered',
      'thrown',
      'with-ids',
    ])
    await byName.click()
    expect((await names())[0]).toBe('with-ids')
    await page.getByLabel('Search runs').fill('airline-support qwen3-8b:two')
    expect(await names()).toEqual(['airline-two'])
    await page.getByLabel('Mark airline-two').check()
    await page.getByText('Mark another run to compare it with airline-two.').waitFor()
    await page.getByLabel('Search runs').fill('nothing has this')
    await page.getByRole('button', { name: 'Show all runs' }).click()
    await page.getByLabel('Mark airline-base').check()
    await page.getByLabel('Mark planted').check()
    const plot = page.getByRole('region', { name: 'Pass rates of the marked runs' })
    expect(await plot.getByRole('link').allInnerTexts()).toEqual([
      'airline-two',
      'airline-base',
      'planted',
    ])
    expect((await plot.locator('.axis').innerText()).split(/\n/)).toEqual([
      '0 %',
      '25 %',
      '50 %',
      '75 %',
      '100 %',
    ])
    await page.getByText('3 runs are marked.').waitFor()
    await page.getByLabel('Mark planted').uncheck()
    await page.getByRole('button', { name: /^Compare airline-\w+ with airline-\w+$/ }).click()
    await page.getByText('Change of the pass rate by task').waitFor()
    expect(problems).toEqual([])
  })

  it('leads back from a run that is not there', async () => {
    const { page } = await open('#/run/none')
    await page.getByText('There is no run none.').waitFor()
    await page.getByRole('link', { name: 'All runs' }).click()
    await page.getByRole('heading', { name: 'Evaluations' }).waitFor()
  })

  it('gives the command that starts a run when there is none', async () => {
    const none = await startViewer({ root: path.join(inBrowser.root, 'no-runs') })
    try {
      const { page } = await inBrowser.openUrl(none.url, { permissions: clipboard })
      await page.getByText('No runs yet. Start one:').waitFor()
      const command = page.locator('.command')
      expect(await copied(page, command)).toBe(await command.locator('code').innerText())
    } finally {
      await none.close()
    }
  })

  it('gives the command that serves the page again when its server has ended', async () => {
    const ended = await startViewer({ root: path.join(inBrowser.root, 'no-runs') })
    const { page } = await inBrowser.openUrl(ended.url, { permissions: clipboard })
    await page.getByText('No runs yet. Start one:').waitFor()
    await ended.close()
    await page.locator('main.empty').waitFor()
    expect(await copied(page, page.locator('.command'))).toBe('npx osmosis eval view')
  })
})

it('a comparison has axes with a zero line and units', async () => {
  const { page } = await open('#/compare/airline-base/airline-two')
  const forest = page.getByRole('region', { name: /^Change of the pass rate by task/ })
  const ticks = await forest.locator('.scale').innerText()
  expect(ticks.split(/\s+/)).toEqual([
    expect.stringMatching(/^−\d+$/),
    '0',
    expect.stringMatching(/^\+\d+$/),
    'points',
  ])
  await page.getByText('Every row by its change in points, from the worst to the best').waitFor()
  expect((await page.locator('.waterfall .levels').innerText()).split('\n')).toEqual([
    '+100',
    '0',
    '−100',
  ])
})

const isReadable = '%s, %s, %i pixels wide: fits, passes axe, and all targets can be hit'
type View = readonly [place: string, colorScheme: 'light' | 'dark', width: number]

async function expectReadable(...[place, colorScheme, width]: View): Promise<void> {
  const { page } = await open(place, { colorScheme, viewport: { width, height: 844 } })
  await page.locator('main').waitFor()
  await expect.poll(() => page.locator('main').innerText()).not.toBe('')
  await page.locator('main :is(.line, .grid tbody tr, .step):visible').first().waitFor()
  const wider = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
  expect(wider).toBeLessThanOrEqual(0)
  expect(await violations(page)).toEqual([])
}

it.each<View>([
  ['#/', 'light', 1440],
  ['#/run/airline-base?sel=2.2', 'dark', 1440],
  ['#/run/rendered?sel=0.1', 'light', 390],
])(isReadable, expectReadable)

it.each<View>([
  ['#/', 'dark', 390],
  ['#/run/airline-base', 'light', 1440],
  ['#/run/airline-base', 'dark', 390],
  ['#/compare/airline-base/airline-two', 'dark', 390],
])(isReadable, { tags: 'nightly' }, expectReadable)

it('colours and sizes of text are written in one file', () => {
  const styles = path.join(import.meta.dirname, '../page/style')
  const others = globSync('*.css', { cwd: styles }).filter((file) => file !== 'tokens.css')
  const literal = /#[\da-f]{3,8}\b|font-size: [\d.]+px|(?:rgb|hsl|oklch)\(/g
  const found = others.flatMap(
    (file) => readFileSync(path.join(styles, file), 'utf8').match(literal) ?? [],
  )
  expect(others.length).toBeGreaterThan(5)
  expect(found).toEqual([])
})

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { openRun } from '@osmosis/eval'
import { exportReport } from '@osmosis/viewer'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

import { withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { writeTraining } from './synthetic/training.ts'
import { go, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const names = ['c-third', 'a-first', 'b-second']

const inBrowser = ViewerInBrowser.forTests(async (root, trainings) => {
  for (const [seed, name] of names.entries()) {
    writeAirlineRun(root, { name, rows: 12, attempts: 2, skill: 0.6, seed })
    giveIds(path.join(root, name))
  }
  for (const name of ['second', 'first', 'third']) {
    await writeTraining(trainings, { name, steps: 3, rows: 8, rowsPerStep: 8, attempts: 2 })
  }
})

/** Gives each row of a run an id, as datasets have them. */
function giveIds(run: string): void {
  const file = path.join(run, 'manifest.json')
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as { rows: { source_row: number }[] }
  const rows = manifest.rows.map((row) => ({ ...row, key: `airline/${row.source_row}` }))
  writeFileSync(file, JSON.stringify({ ...manifest, rows }))
}

const mark = async (page: Page, ...runs: readonly string[]): Promise<void> => {
  for (const run of runs) await page.getByLabel(`Mark ${run}`).check()
}

describe('the list of runs', () => {
  it('has runs and trainings that started together in the order of their names', async () => {
    const { page } = await inBrowser.open('#/')
    await page.getByRole('link', { name: 'a-first' }).waitFor()
    const runs = page.locator('.runs > .sheet td.name a:first-child')
    expect(await runs.allInnerTexts()).toEqual(names.toSorted())
    const trainings = page.getByRole('region', { name: 'Trainings' }).locator('td.name a')
    expect(await trainings.allInnerTexts()).toEqual(['first', 'second', 'third'])
    // Whichever is marked first.
    for (const pair of [
      ['b-second', 'a-first'],
      ['a-first', 'b-second'],
    ]) {
      await mark(page, ...pair)
      await page.getByRole('button', { name: 'Compare a-first with b-second' }).waitFor()
      for (const run of pair) await page.getByLabel(`Mark ${run}`).uncheck()
    }
  })

  it('keeps marks, search and order over a comparison and Back, which has a title', async () => {
    const { page, problems } = await inBrowser.open('#/')
    await mark(page, 'a-first', 'b-second')
    await page.getByRole('button', { name: /^Reward/ }).click()
    await page.getByLabel('Search runs').fill('first')
    await page.getByRole('button', { name: /^Compare a/ }).click()
    await page.locator('.sentence').waitFor()
    expect(await page.title()).toBe('a-first → b-second · Evaluations')
    await page.goBack()
    await expect.poll(() => page.title()).toBe('Evaluations')
    await page.getByRole('button', { name: 'Compare a-first with b-second' }).waitFor()
    expect(await page.getByLabel('Search runs').inputValue()).toBe('first')
    expect(
      await page.getByRole('columnheader', { name: /^Reward [↓↑]$/ }).getAttribute('aria-sort'),
    ).toBe('descending')
    await page.getByLabel('Search runs').fill('')
    await page.getByLabel('Mark a-first').uncheck()
    await page.getByLabel('Mark b-second').uncheck()
    expect(problems).toEqual([])
  })

  it('forgets the mark of a run whose folder was removed', async () => {
    const { root } = inBrowser
    writeAirlineRun(root, { name: 'd-gone', rows: 12, attempts: 2, skill: 0.6, seed: 9 })
    const { page } = await inBrowser.open('#/')
    await mark(page, 'd-gone', 'a-first', 'b-second')
    await page.getByText('3 runs are marked.').waitFor()
    rmSync(path.join(root, 'd-gone'), { recursive: true })
    await page.getByRole('button', { name: 'Compare a-first with b-second' }).waitFor()
    await page.getByLabel('Mark a-first').uncheck()
    await page.getByText('Mark another run to compare it with b-second.').waitFor()
  })
})

it('the question stands beside the id of a row, in a transcript too', async () => {
  const { page } = await inBrowser.open('#/run/a-first?sel=3.1')
  const head = reader(page).locator('.rhead')
  await head.getByText('airline/3', { exact: true }).waitFor()
  const question = (await page.locator('.line q').nth(3).getAttribute('title')) ?? '-'
  expect(await head.locator('q').getAttribute('title')).toBe(question)
})

it('the best step of a training is marked', async () => {
  const { page } = await inBrowser.open('#/training/first')
  const table = page.getByRole('region', { name: 'Steps', exact: true })
  const best = table.getByRole('row').filter({ has: page.getByText('best', { exact: true }) })
  await best.waitFor()
  expect(await best.count()).toBe(1)
  const reward = async (row: string): Promise<number> => {
    const line = table.getByRole('row').filter({ hasText: row })
    return Number(await line.getByRole('cell').nth(1).innerText())
  }
  const [before, after] = [
    await reward('Held-out rows before'),
    await reward('Held-out rows after'),
  ]
  const expected = after > before ? 'Held-out rows after' : 'Held-out rows before'
  expect(await best.innerText()).toContain(expected)
})

describe('the verdicts of reviewers', () => {
  it.each(['none', 'flagged', 'all'] as const)(
    'are in a report with these transcripts: %s',
    async (transcripts) => {
      const location = path.join(inBrowser.root, 'a-first')
      const run = await openRun(location)
      const { source_row_index, run_index, rollout_id } =
        run.sortedEvents.find(({ reward }) => reward === 1) ?? {}
      if (source_row_index === undefined || run_index === undefined || rollout_id === undefined)
        throw new Error('expected a pass')
      const item = { source_row_index, run_index, rollout_id, check: 'no-tools', value: 1 } as const
      await run.addVerdicts([{ ...item, verdict: 'earned', because: 'it asked', by: 'Ann' }])
      const file = path.join(inBrowser.root, `${transcripts}.html`)
      await exportReport({ run: location, file, transcripts })
      const { page } = await inBrowser.openUrl(pathToFileURL(file).href)
      await go(page, `#/run/a-first?sel=${source_row_index}.${run_index + 1}`)
      await page.locator('.verdict').getByText('earned: it asked (Ann)').waitFor()
      rmSync(file)
    },
  )
})

import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { openRunFolder } from '@osmosis/eval'
import { startViewer } from '@osmosis/viewer'
import { expect } from 'vitest'

import { violations, withChromium } from './chromium.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import {
  planted,
  rewriteEvents,
  writeHostileRun,
  writePlantedRun,
} from './synthetic/planted-runs.ts'
import { filter, go, lines, press, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withChromium

const inBrowser = ViewerInBrowser.forTests((root) => {
  writePlantedRun(root)
  writeHostileRun(root)
  writeAirlineRun(root, { name: 'airline-base', rows: 300, attempts: 4, skill: 0.3, seed: 5 })
  writeAirlineRun(root, { name: 'airline-step200', rows: 300, attempts: 4, skill: 0.9, seed: 2 })
})
const { root } = inBrowser
const open: ViewerInBrowser['open'] = (place, options) => inBrowser.open(place, options)

describe('finding what explains the number', () => {
  it('puts a failing attempt beside a passing one, from the step in which they differ', async () => {
    const { row, failing, at } = planted.divergence
    const { page, problems } = await open(`#/run/planted?sel=${row}.${failing + 1}`)
    await reader(page).getByText('I could not do it.').waitFor()
    await press(page, 'd')
    const parts = page.locator('.pair.parts')
    await parts.getByText('First difference: the tool.').waitFor()
    expect(await parts.locator(`[data-step="${at + 1}"]`).count()).toBe(2)
    expect(await parts.locator('.sig').allTextContents()).toEqual([
      'update {"flights":"HAT115"}',
      'calculate {"expression":"3 * 50"}',
    ])
    await page.getByText('the environment answered differently').waitFor()
    expect(problems).toEqual([])
  })

  it('lists runs, and compares two that are marked, the older one first', async () => {
    const { page } = await open('#/')
    await page.getByLabel('Mark airline-step200').check()
    await page.getByLabel('Mark airline-base').check()
    await page.getByRole('button', { name: /^Compare/ }).click()
    await page.locator('.sentence').waitFor()
    expect(page.url()).toContain('#/compare/airline-')
  })
})

describe('a list of one run', () => {
  it('offers nothing to mark', async () => {
    const alone = writeAirlineRun(path.join(root, 'alone'), {
      name: 'alone',
      rows: 3,
      attempts: 2,
      skill: -9,
    })
    rewriteEvents(alone, (event) => ({ ...event, reward: 0 }))
    const own = await startViewer({ runs: [alone] })
    try {
      const watched = await inBrowser.openUrl(own.url)
      await watched.page.getByRole('link', { name: 'alone' }).waitFor()
      // Of a rate without a spread the bound is known, and no margin on both sides.
      await watched.page.getByText('0.0 % ≤ 63.2').waitFor()
      expect(await watched.page.getByRole('checkbox').count()).toBe(0)
      expect(await watched.page.getByText('Mark').count()).toBe(0)
    } finally {
      await own.close()
    }
  })
})

describe('a re-grading', () => {
  it('is compared with its run, from the list of runs as from the run', async () => {
    const folder = writeAirlineRun(root, { name: 'graded-again', rows: 40, attempts: 2 })
    const grade = { source_row_index: 0, run_index: 0, rollout_id: '0', reward: 0.5, error: null }
    await (await openRunFolder(folder)).addGrades('strict', [grade])
    const { page, problems } = await open('#/')
    await page.getByRole('link', { name: 'compare @strict' }).click()
    await page.locator('.sentence').waitFor()
    expect(page.url()).toContain('#/compare/graded-again/graded-again%40strict')
    for (const name of ['run', 'strict']) {
      await page.getByRole('columnheader', { name, exact: true }).waitFor()
    }
    await go(page, '#/run/graded-again')
    await page.getByRole('link', { name: 'Compare @strict' }).click()
    await page.locator('.sentence').waitFor()
    expect(problems).toEqual([])
  })
})

describe('the keyboard', () => {
  it('filters, turns the theme, shows all keys, and ignores keys while the reader types', async () => {
    const { page } = await open('#/run/planted', { colorScheme: 'dark' })
    await lines(page).first().waitFor()
    const theme = (): Promise<string | null> => page.locator('html').getAttribute('data-theme')
    expect(await theme()).toBe('dark')
    await press(page, 't')
    await expect.poll(theme).toBe('light')
    await press(page, 't')
    await expect.poll(theme).toBe('dark')
    await press(page, 'f')
    await expect.poll(() => filter(page).inputValue()).toBe('is:notpassed')
    await press(page, 'g')
    await expect.poll(() => filter(page).inputValue()).toContain('is:signal')
    await press(page, 'x', '/')
    await page.keyboard.type('t?')
    await expect.poll(() => filter(page).inputValue()).toBe('t?')
    expect(await theme()).toBe('dark')
    await press(page, 'Escape', '?')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor()
    await press(page, 'j', 'Escape')
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
    expect(await reader(page).count()).toBe(0)
  })

  it('keeps filter and rollout in the address', async () => {
    const { page } = await open('#/run/planted?q=is%3Apassed+sort%3A-tokens&sel=3.2')
    await reader(page).getByRole('heading', { name: 'Row 3' }).waitFor()
    await page.reload()
    await reader(page).getByRole('heading', { name: 'Row 3' }).waitFor()
    expect(await filter(page).inputValue()).toBe('is:passed sort:-tokens')
  })
})

describe('a re-grading', () => {
  it('of a part of the run says how much of it it is, and is not incomplete', async () => {
    const folder = writeAirlineRun(root, { name: 'regraded', rows: 10, attempts: 2, skill: 9 })
    rewriteEvents(folder, (event) => ({ ...event, sample_place: event.trajectory_place }))
    const run = await openRunFolder(folder)
    const item = { source_row_index: 0, run_index: 0, rollout_id: '0' }
    await run.addGrades('strict', [{ ...item, reward: 0, error: null }])
    const { page, problems } = await open('#/run/regraded@strict')
    await page.getByText('graded 1 of 20', { exact: true }).waitFor()
    expect(await page.getByText('incomplete').count()).toBe(0)
    await run.addGrades('strict', [{ ...item, run_index: 1, reward: 0, error: null }])
    await page.getByText('graded 2 of 20', { exact: true }).waitFor()
    expect(problems).toEqual([])
  })
})

describe('a note', () => {
  it('that another process writes is in an open page without a reload', async () => {
    const { page, problems } = await open('#/run/planted?sel=4.1')
    await expect.poll(() => page.getByLabel('Note').inputValue()).toBe('')
    const folder = await openRunFolder(path.join(root, 'planted'))
    await folder.addNote({
      source_row_index: 4,
      run_index: 0,
      tag: 'from elsewhere',
      text: 'It was asked twice.',
    })
    await page.locator('.line .chip.note', { hasText: 'from elsewhere' }).waitFor()
    await expect.poll(() => page.getByLabel('Note').inputValue()).toBe('It was asked twice.')
    expect(problems).toEqual([])
  })
})

describe('what is not as it should be', () => {
  it('says that there is no such run', async () => {
    const { page } = await open('#/run/nowhere')
    await page.getByText('There is no run nowhere.').waitFor()
    expect(await lines(page).count()).toBe(0)
  })

  it('says why a run is incomplete, and what of it has not ended', async () => {
    const folder = writeAirlineRun(root, { name: 'partial', rows: 10, attempts: 2, ended: 7 })
    const reason = 'the endpoint refused the key (401)'
    const metrics = { eval_run: { incomplete_reason: reason } }
    writeFileSync(path.join(folder, 'metrics.json'), JSON.stringify(metrics))
    const { page, problems } = await open('#/run/partial')
    await page.getByText('The endpoint refused the key (401).').waitFor()
    await page.getByText('13 of 20 rollouts are pending').waitFor()
    expect(problems).toEqual([])
  })

  it('has something to say of a run of which nothing has ended', async () => {
    writeAirlineRun(root, { name: 'empty', rows: 10, attempts: 2, ended: 0 })
    const { page, problems } = await open('#/run/empty')
    await page.getByText('No rollout has ended yet').waitFor()
    await page.getByText('Nothing has ended yet.').waitFor()
    expect(problems).toEqual([])
  })

  it('says nothing of gradients where each row was tried once', async () => {
    writeAirlineRun(root, { name: 'single', rows: 30, attempts: 1, skill: 0.3 })
    const { page, problems } = await open('#/run/single')
    await lines(page).first().waitFor()
    await page.getByText('rows did not pass').waitFor()
    expect((await page.locator('main').innerText()).toLowerCase()).not.toContain('gradient')
    expect(problems).toEqual([])
  })

  it('shows rewards of any size, and rollouts without one', async () => {
    const folder = writeAirlineRun(root, { name: 'scores', rows: 10, attempts: 3 })
    rewriteEvents(folder, (event, index) => ({
      ...event,
      reward: index % 3 === 0 ? null : index % 3 === 1 ? -2.5 : 1234.5,
    }))
    const { page, problems } = await open('#/run/scores')
    await lines(page).filter({ hasText: '−2.50' }).first().waitFor()
    await lines(page).filter({ hasText: '1.23e+3' }).first().waitFor()
    await go(page, '#/run/scores?sel=0.1')
    await page.locator('.result-head').getByText('no reward', { exact: true }).waitFor()
    await page.locator('.verdict').getByText('no reward', { exact: true }).waitFor()
    expect(problems).toEqual([])
  })
})

describe('accessibility', () => {
  const places = [
    '#/',
    '#/run/airline-step200',
    '#/run/airline-step200?q=is%3Astuck&sel=1.1',
    '#/run/planted?sel=5.2&diff',
    '#/run/planted?sel=8.1',
    '#/compare/airline-base/airline-step200',
    '#/run/hostile',
    '#/run/hostile?sel=3.1',
    '#/run/nowhere',
  ]

  it('axe finds nothing in any view, in both themes', async () => {
    const { page } = await open('#/', { colorScheme: 'light' })
    const found: string[] = []
    const look = async (where: string): Promise<void> => {
      await page.emulateMedia({ colorScheme: 'light' })
      found.push(...(await violations(page)).map((violation) => `${where}: ${violation}`))
      await page.emulateMedia({ colorScheme: 'dark' })
      await page.locator('html[data-theme=dark]').waitFor()
      // Nothing but the colours is another.
      const dark = await violations(page, ['color-contrast'])
      found.push(...dark.map((violation) => `${where}, dark: ${violation}`))
    }
    for (const place of places) {
      await go(page, place)
      await expect.poll(() => page.locator('main').innerText()).not.toBe('')
      await look(place)
    }
    await press(page, '?')
    await page.getByRole('dialog').waitFor()
    await look('keys')
    expect(found).toEqual([])
  })
})

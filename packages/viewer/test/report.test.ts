// @module-tag slow
import { rmSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { type Grade, openRunFolder } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { exportReport } from '@osmosis/viewer'
import { expect } from 'vitest'

import { journalEvents } from '../../../test/kit/index.ts'
import { withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import {
  hostileText,
  planted,
  rewriteEvents,
  writeHostileRun,
  writePlantedRun,
} from './synthetic/planted-runs.ts'
import { filter, go, lines, press, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const inBrowser = ViewerInBrowser.forTests((root) => {
  writePlantedRun(root)
  writeHostileRun(root)
})
const { root } = inBrowser
const open: ViewerInBrowser['open'] = (place, options) => inBrowser.open(place, options)

describe('hostile output', () => {
  const places = [
    '#/',
    '#/run/hostile',
    '#/run/hostile?sel=1.1',
    '#/run/hostile?sel=3.1',
    '#/run/hostile?sel=1.1&diff',
    '#/compare/hostile/hostile',
  ]

  it('runs no code, sends no request and breaks nothing, in the viewer and in a report', async () => {
    const file = path.join(root, 'hostile.html')
    await exportReport({ run: path.join(root, 'hostile'), file, transcripts: 'all' })
    for (const base of [inBrowser.viewer.url.replace(/\/$/, ''), `${pathToFileURL(file).href}#`]) {
      const watched = await inBrowser.openUrl(base)
      const { page, problems } = watched
      for (const place of places) {
        await go(page, place)
        await page.locator('main').waitFor()
        await expect.poll(() => page.locator('main').innerText()).not.toBe('')
        expect(await page.evaluate('globalThis.pwned ?? null')).toBeNull()
        expect(await page.locator('main :is(script, img, iframe, object, embed)').count()).toBe(0)
        const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        expect([place, wide]).toEqual([place, 0])
      }
      expect(problems).toEqual([])
    }
  })

  it('is shown as the text that it is', async () => {
    const { page } = await open('#/run/hostile?sel=1.2')
    const said = await page.locator('.step.agent .said').first().textContent()
    expect(said).toContain('<img src=x onerror="window.pwned=1">')
    // Marks that turn the direction of a line, and what a terminal would do, are there to be seen.
    const user = await page.locator('.step.user .said').textContent()
    expect(user).toContain('⟨U+202E⟩right to left⟨U+202C⟩ ␛[31mred')
    expect(await page.locator('.think').first().textContent()).toContain(hostileText.slice(0, 60))
    await page.getByRole('button', { name: 'Show all 1,048,576 characters' }).click()
    await page.getByText('characters that are only in the file').waitFor()
  })
})

describe('a report', () => {
  it('opens its run at once from a file, alone, with the transcripts that it holds', async () => {
    const file = path.join(root, 'report.html')
    const run = path.join(root, 'planted')
    const written = await exportReport({ run, file })
    expect(written).toMatchObject({ file, rollouts: 160 })
    expect(written.transcripts).toBeLessThan(20)
    const watched = await inBrowser.openUrl(pathToFileURL(file).href)
    const { page, problems } = watched
    await page.getByText('passed without a tool call').waitFor()
    await press(page, '1', 'j')
    await reader(page).getByText('REFUND_COMPLETE').waitFor()
    expect(await page.getByLabel('Note').count()).toBe(0)
    await page.getByText(`Report with ${written.transcripts} of 160 transcripts`).waitFor()
    await press(page, 'Escape', 'x', 'j')
    await page.getByText('Not in this report').waitFor()
    await press(page, 'Escape')
    await page.getByRole('link', { name: 'Evaluations' }).click()
    await page.getByText('passed without a tool call').waitFor()
    expect(problems).toEqual([])
  })

  it.each(['all', 'flagged'] as const)(
    'with the transcripts %s finds words that are only in transcripts',
    async (transcripts) => {
      const { row, failing } = planted.divergence
      const file = path.join(root, `${transcripts}.html`)
      await exportReport({ run: path.join(root, 'planted'), file, transcripts })
      const { page, problems } = await inBrowser.openUrl(pathToFileURL(file).href)
      // An argument of a call, and a result beside another argument.
      await filter(page).fill('"3 * 50"')
      await expect.poll(() => lines(page).count()).toBeGreaterThan(0)
      await filter(page).fill('"must be a list" hat115')
      await expect.poll(() => lines(page).count()).toBe(1)
      await press(page, 'Enter')
      await reader(page).getByText('I could not do it.').waitFor()
      expect(page.url()).toContain(`sel=${row}.${failing + 1}`)
      // A field name of every transcript, which is not part of the conversation.
      await filter(page).fill('trajectory_id')
      await page.getByText('Nothing matches').waitFor()
      expect(problems).toEqual([])
    },
  )

  it('counts the transcripts that it has, not those that are gone', async () => {
    const run = writeAirlineRun(root, { name: 'gone', rows: 3, attempts: 2, skill: 9 })
    const file = path.join(root, 'gone.html')
    const counts = { rollouts: 6, transcripts: 6 }
    expect(await exportReport({ run, file, transcripts: 'all' })).toMatchObject(counts)
    rmSync(path.join(run, 'trajectories'), { recursive: true })
    const without = await exportReport({ run, file, transcripts: 'all' })
    expect(without).toMatchObject({ ...counts, transcripts: 0 })
  })

  it('says that it holds no transcripts', async () => {
    const file = path.join(root, 'none.html')
    await exportReport({ run: path.join(root, 'planted'), file, transcripts: 'none' })
    const { page, problems } = await inBrowser.openUrl(pathToFileURL(file).href)
    await page.getByText('Report without transcripts').waitFor()
    await filter(page).fill('"3 * 50"')
    await page.getByText('Nothing matches').waitFor()
    expect(problems).toEqual([])
  })

  it('holds the re-gradings of its run, and compares with them', async () => {
    const folder = writeAirlineRun(root, { name: 'whole', rows: 20, attempts: 2, skill: 9 })
    rewriteEvents(folder, (event) => ({ ...event, sample_place: event.trajectory_place }))
    const run = await openRunFolder(folder)
    const rollouts = journalEvents<ItemEvent>(path.join(folder, 'events.jsonl'))
    const grade = (row: number): Grade => ({
      source_row_index: row,
      run_index: 0,
      rollout_id:
        rollouts.find((one) => one.source_row_index === row && one.run_index === 0)?.rollout_id ??
        '',
      reward: null,
      error: `The judge did not answer ${'at all, '.repeat(40)}row ${row}.`,
    })
    await run.addGrades(
      'strict',
      Array.from({ length: 20 }, (_, row) => grade(row)),
    )
    const file = path.join(root, 'whole.html')
    const written = await exportReport({ run: folder, file, variant: 'strict' })
    expect(written).toMatchObject({ rollouts: 40, variants: ['strict'] })
    const { page, problems } = await inBrowser.openUrl(pathToFileURL(file).href)
    await page.getByText('graded 20 of 40').waitFor()
    await go(page, '#/run/whole@strict?sel=4.1')
    await reader(page).getByRole('group', { name: 'Error' }).getByText('at all, row 4.').waitFor()
    expect(await page.locator('.step').count()).toBeGreaterThan(2)
    await page.getByRole('link', { name: 'Compare the run' }).click()
    await page.locator('.sentence').waitFor()
    expect(problems).toEqual([])
  })
})

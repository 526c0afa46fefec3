import { constants, inflateSync } from 'node:zlib'

import type { Page } from 'playwright-core'
import { expect } from 'vitest'

import { withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { writeTraining } from './synthetic/training.ts'
import { lines, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const inBrowser = ViewerInBrowser.forTests(async (root, trainings) => {
  writeAirlineRun(root, { name: 'airline-base', rows: 60, attempts: 4, skill: 0.3, seed: 5 })
  writeAirlineRun(root, { name: 'airline-two', rows: 60, attempts: 4, skill: 0.9, seed: 2 })
  const long = { name: 'long', steps: 4, rows: 60, rowsPerStep: 30, attempts: 2 }
  await writeTraining(trainings, long)
})

/** A4 between its margins. Pixels. */
const paper = { width: 718, height: 1047 }

/** What is on paper: the page as it stands there, and how many pages the browser makes of it. */
async function printed(
  place: string,
  what = '.line, .step, .grid tbody tr',
): Promise<{ page: Page; pages: number }> {
  // As from a phone, for which there are more rules.
  const { page } = await inBrowser.open(place, { colorScheme: 'dark', hasTouch: true })
  await page.locator(`main :is(${what})`).first().waitFor()
  const pages = pagesOf(await page.pdf({ format: 'A4', margin: { top: '10mm' } }))
  await page.emulateMedia({ media: 'print' })
  await page.setViewportSize(paper)
  await page.evaluate("dispatchEvent(new Event('beforeprint'))")
  return { page, pages }
}

/** How many pages a PDF has. Firefox compresses the objects that say so. */
function pagesOf(pdf: Buffer): number {
  const text = pdf.toString('latin1')
  const compressed = text.matchAll(/\/FlateDecode[^]*?stream\r?\n([^]*?)\r?\nendstream/g)
  const objects = Array.from(compressed, ([, stream = '']) =>
    inflateSync(Buffer.from(stream, 'latin1'), { finishFlush: constants.Z_SYNC_FLUSH }).toString(
      'latin1',
    ),
  )
  return [text, ...objects].join('\n').match(/\/Type ?\/Page\b/g)?.length ?? 0
}

/** Parts that show less than they hold, which no paper can be scrolled to. */
async function hidden(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll('main, main *')]
    .filter((each) => each.clientHeight > 0 && getComputedStyle(each).overflowY !== 'visible'
      && each.scrollHeight - each.clientHeight > 2 && !each.matches('.line *, .finding span'))
    .map((each) => each.tagName + '.' + each.className)`)
}

const isWhole = '%s is whole, on at least %i sheets, and no wider than the paper'

const printsWhole = async (place: string, least: number, what?: string): Promise<void> => {
  const { page, pages } = await printed(place, what)
  expect(pages).toBeGreaterThanOrEqual(least)
  expect(await hidden(page)).toEqual([])
  const width = await page.evaluate('document.documentElement.scrollWidth')
  expect(width).toBeLessThanOrEqual(paper.width)
}

describe('a printed page', { tags: 'slow' }, () => {
  it.each([
    ['#/', 1],
    ['#/run/airline-base?sel=0.2', 2, '.step'],
    ['#/compare/airline-base/airline-two', 2],
    ['#/training/long', 3, '.rowlist .line'],
  ])(isWhole, printsWhole)
})

describe('a printed page', () => {
  it.each([['#/run/airline-base', 6]])(isWhole, printsWhole)

  it('has all lines of a list, and as few as before afterwards', async () => {
    const { page } = await printed('#/run/airline-base')
    expect(await lines(page).count()).toBe(240)
    const places: number[] = await page.evaluate(
      "[...document.querySelectorAll('.scroll .line')].map((each) => each.offsetTop)",
    )
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(new Set(places).size).toBe(240)
    await page.emulateMedia({ media: 'screen' })
    await page.evaluate("dispatchEvent(new Event('afterprint'))")
    await expect.poll(() => lines(page).count()).toBeLessThan(100)
  })

  it('has the open transcript to its end, unfolded, and no buttons', async () => {
    const { page } = await printed('#/run/airline-base?sel=0.2', '.step')
    await reader(page).locator('.step.system .said').waitFor()
    expect(await reader(page).locator('.folded').count()).toBe(0)
    expect(await reader(page).locator('details:not([open])').count()).toBe(0)
    expect(await reader(page).locator('.verdict').isVisible()).toBe(true)
    expect(await page.locator(':is(.btn, .copy, kbd):visible').count()).toBe(0)
  })

  it('keeps the colours of legends, bars and cells, dark on light', async () => {
    const { page } = await printed('#/training/long', '.rowlist .line')
    const styles = await page.evaluate(`(() => {
      const styles = [...document.querySelectorAll('.swatch, .cells a')].map(getComputedStyle)
      return styles.map((style) => style.printColorAdjust + ' ' + (style.backgroundColor !== 'rgba(0, 0, 0, 0)'))
    })()`)
    expect([...new Set(styles as string[])]).toEqual(['exact true'])
    const ink = await page.evaluate('getComputedStyle(document.body).color')
    expect(ink).toBe('rgb(29, 27, 24)')
  })
})

import path from 'node:path'

import { openRunFolder } from '@osmosis/eval'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

import { launchBrowser, openPage, withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { rewriteEvents } from './synthetic/planted-runs.ts'
import { writeTraining } from './synthetic/training.ts'
import { lines, press, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const longTag = 'asks for the same thing over and over again until it gives up'

const inBrowser = ViewerInBrowser.forTests(async (root, trainings) => {
  writeAirlineRun(root, { name: 'airline-base', rows: 30, attempts: 4, skill: 0.3, seed: 5 })
  writeAirlineRun(root, { name: 'airline-many', rows: 30, attempts: 18, skill: 0.9, seed: 2 })
  const broken = { name: 'broken-off', rows: 400, attempts: 4, ended: 1390 }
  rewriteEvents(writeAirlineRun(root, broken), (event) => ({ ...event, trajectory_place: null }))
  const folder = await openRunFolder(path.join(root, 'airline-base'))
  await folder.addNote({ source_row_index: 0, run_index: 1, tag: longTag, text: '' })
  // The last step has an alarm.
  await writeTraining(trainings, { name: 'long', steps: 3, rows: 8, rowsPerStep: 8, attempts: 4 })
})

/** Places, each with something that is there when it is drawn. */
const places = {
  '#/': '.grid tbody tr',
  '#/run/airline-base': '.line',
  '#/run/airline-many': '.line',
  '#/run/broken-off': '.line',
  '#/run/airline-base?sel=0.2': '.step',
  '#/compare/airline-base/airline-many': '.line',
  '#/training/long': '.rowlist .line',
} as const

/**
 * Texts that are wider than their place. A line of a list shows the beginning of a text that is one click away; another
 * text that is cut has its whole as a title.
 */
async function cutTexts(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll('body *')]
    .filter((each) => each.clientWidth > 0 && each.scrollWidth - each.clientWidth > 1
      && getComputedStyle(each).overflowX !== 'visible'
      && !each.matches('input, [title], .line .text, .folded'))
    .map((each) => each.tagName + '.' + each.className + ': ' + each.textContent.slice(0, 60))`)
}

/** What makes the page wider than the window; what is wide in a part that scrolls does not. */
const wider = `document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll('body *')]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.sheet'))
    .map((each) => each.tagName + '.' + each.className).slice(0, 6)`

/** Pairs of texts that stand on one another. */
async function runTogether(page: Page): Promise<string[]> {
  return page.evaluate(`(() => {
    // Firefox lays out no step that is out of view, so that its texts have no place yet.
    for (const step of document.querySelectorAll('.step')) step.style.contentVisibility = 'visible'
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const texts = []
    while (walker.nextNode()) {
      const { parentElement: parent, textContent: text } = walker.currentNode
      if (!text.trim() || parent.closest('.unseen, .heading, script, style, option')) continue
      // "Copy" is there only under the pointer.
      if (!parent.checkVisibility({ opacityProperty: true })) continue
      const range = document.createRange()
      range.selectNodeContents(walker.currentNode)
      for (const box of range.getClientRects()) {
        const clip = parent.closest('.scroll, .steps, .side, .page')?.getBoundingClientRect()
        if (clip && (box.top < clip.top || box.bottom > clip.bottom)) continue
        const own = parent.closest('.cut, .text, q, .chip')?.getBoundingClientRect() ?? box
        texts.push({ text: text.slice(0, 30), left: Math.max(box.left, own.left), node: walker.currentNode,
          right: Math.min(box.right, own.right), top: box.top, bottom: box.bottom })
      }
    }
    const found = []
    for (const [at, a] of texts.entries()) for (const b of texts.slice(at + 1)) {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left)
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
      const lower = Math.min(a.bottom - a.top, b.bottom - b.top)
      if (a.node !== b.node && wide > 2 && high > lower / 2) found.push(a.text + ' | ' + b.text)
    }
    return found.slice(0, 6)
  })()`)
}

const nothingIsCut = async (width: number): Promise<void> => {
  const { page } = await inBrowser.open('#/', { viewport: { width, height: 844 } })
  const found: string[] = []
  for (const [place, what] of Object.entries(places)) {
    await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
    await page.locator(`main ${what}:visible`).first().waitFor()
    found.push(...(await cutTexts(page)).map((text) => `${place} ${text}`))
    expect([place, await page.evaluate(wider)]).toEqual([place, []])
  }
  // Its many columns are scrolled to on a phone, beside the names of the steps.
  expect(found.filter((text) => width > 1024 || !/sheet steptable/.test(text))).toEqual([])
}

describe('in much room', { tags: 'slow' }, () => {
  it.each([1440, 1024])('nothing is cut at %i pixels', nothingIsCut)
})

describe('in little room', () => {
  it.each([390])('nothing is cut at %i pixels', nothingIsCut)

  it.each([
    ['400 % zoom', 320, 256],
    ['a phone on its side', 844, 390],
  ])('%s: the list has a height, and a transcript is read', async (_, width, height) => {
    const { page, problems } = await inBrowser.open('#/run/airline-base', {
      viewport: { width, height },
    })
    const list = page.getByRole('listbox')
    await lines(page).first().waitFor()
    expect((await list.boundingBox())?.height).toBeGreaterThan(200)
    await list.scrollIntoViewIfNeeded()
    await lines(page).nth(2).click()
    const steps = reader(page).locator('.step')
    await steps.first().waitFor()
    // Nothing but the page scrolls, so what was said is not read through a slot.
    const slots = `[...document.querySelectorAll('.reader *')].filter((each) =>
      each.scrollHeight - each.clientHeight > 1 && getComputedStyle(each).overflowY === 'auto').length`
    expect(await page.evaluate(slots)).toBe(0)
    // Again, because steps have their height only when they come into view.
    const verdictTop = async (): Promise<number> => {
      await press(page, 'End')
      return (await reader(page).locator('.verdict').boundingBox())?.y ?? Infinity
    }
    await expect.poll(verdictTop).toBeLessThan(height)
    // Browsers scroll by keys over some frames.
    let before = -1
    const isStill = async (): Promise<boolean> => {
      const now: number = await page.evaluate('scrollY')
      const same = now === before
      before = now
      return same
    }
    await expect.poll(isStill, { interval: 150 }).toBe(true)
    // The next one is read from its beginning.
    await press(page, 'j')
    await expect
      .poll(async () => Math.abs((await reader(page).boundingBox())?.y ?? 99))
      .toBeLessThan(2)
    expect(problems).toEqual([])
  })

  it('an alarm is as wide as its table', async () => {
    const { page } = await inBrowser.open('#/')
    const alarm = page.getByRole('region', { name: 'Trainings' }).locator('.alarm')
    await alarm.waitFor()
    expect((await alarm.boundingBox())?.width).toBeGreaterThan(600)
  })

  it('"Copy" covers no words where there is no pointer', async () => {
    const options = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
    const { page } = await inBrowser.open('#/run/airline-base?sel=0.2', options)
    await reader(page).locator('.copy').first().waitFor()
    expect(await runTogether(page)).toEqual([])
  })
})

it('larger text alone does not run together', async () => {
  // Nothing else of the page is enlarged.
  const browser = await launchBrowser({ fontSize: 28 })
  try {
    const { page } = await openPage(browser, inBrowser.viewer.url)
    for (const [place, what] of Object.entries(places)) {
      await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
      const first = page.locator(`main ${what}:visible`).first()
      await first.waitFor()
      expect([place, await runTogether(page)]).toEqual([place, []])
      expect([place, await page.evaluate(wider)]).toEqual([place, []])
    }
    const size = 'parseFloat(getComputedStyle(document.body).fontSize)'
    expect(await page.evaluate(size)).toBeGreaterThan(20)
  } finally {
    await browser.close()
  }
})

import type { Locator, Page } from 'playwright-core'
import { expect } from 'vitest'

import { withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { writeSpeakingRun } from './synthetic/planted-runs.ts'
import { writeTraining } from './synthetic/training.ts'
import { filter, lines, press, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const inBrowser = ViewerInBrowser.forTests(async (root, trainings) => {
  writeAirlineRun(root, { name: 'airline-base', rows: 60, attempts: 4, skill: 0.3, seed: 5 })
  writeAirlineRun(root, { name: 'airline-two', rows: 60, attempts: 4, skill: 0.9, seed: 2 })
  writeSpeakingRun(root, 'json', '{"deep": {"inner": {"a": 1, "b": 2}}, "other": [1, 2, 3]}')
  const long = { name: 'long', steps: 4, rows: 60, rowsPerStep: 30, attempts: 2 }
  await writeTraining(trainings, long)
})
const open: ViewerInBrowser['open'] = (place, options) => inBrowser.open(place, options)

const list = (page: Page): Locator => page.getByRole('listbox', { name: 'Rollouts' })
const said = (page: Page): Locator => page.getByRole('region', { name: 'What was said' })

const hasFocus = (part: Locator) => async (): Promise<boolean> =>
  part.evaluate(
    (each: object) => each === Reflect.get(Reflect.get(each, 'ownerDocument'), 'activeElement'),
  )

async function styleOf(part: Locator, name: string): Promise<string> {
  return part.evaluate(
    (each: object, of: string) =>
      (Reflect.get(globalThis, 'getComputedStyle') as (each: object) => Record<string, string>)(
        each,
      )[of] ?? '',
    name,
  )
}

const topOf = (part: Locator): Promise<number> =>
  part.evaluate((each: object) => Reflect.get(each, 'scrollTop') as number)

const selected = (page: Page): string =>
  new URL(page.url().replace('#/', '')).searchParams.get('sel') ?? ''

describe('in forced colours', () => {
  it('dots, bars and swatches keep their colours, and the selected line has an edge', async () => {
    const { page } = await open('#/run/airline-base?sel=0.2', { forcedColors: 'active' })
    await reader(page).locator('.step').first().waitFor()
    const passed = page.locator('.line .dot.pass').first()
    const failed = page.locator('.line .dot.fail').first()
    expect(await styleOf(passed, 'backgroundColor')).toBe('rgb(10, 128, 98)')
    expect(await styleOf(failed, 'boxShadow')).toContain('rgb(189, 63, 13)')
    const bars = page.locator('.timeline button')
    const colours = new Set<string>()
    for (const bar of await bars.all()) colours.add(await styleOf(bar, 'backgroundColor'))
    expect(colours.size).toBeGreaterThan(2)
    const line = page.locator('.line[aria-selected=true]')
    expect(await styleOf(line, 'outlineStyle')).toBe('solid')
    await press(page, 'Escape')
    const swatch = page.locator('.map .swatch').first()
    expect(await styleOf(swatch, 'backgroundColor')).toBe('rgb(74, 168, 141)')
    const bar = page.locator('.line .track i.pass').first()
    expect(await styleOf(bar, 'backgroundColor')).toBe('rgb(10, 128, 98)')
  })
})

describe('the focus', () => {
  it.each([
    ['#/run/airline-base', list],
    ['#/run/airline-base?sel=0.2', said],
    ['#/compare/airline-base/airline-two', (page: Page) => page.locator('section.page')],
    ['#/training/long', (page: Page) => page.getByRole('region', { name: 'Steps', exact: true })],
  ])('is seen on what scrolls: %s', async (place, part) => {
    const { page } = await open(place)
    await part(page).waitFor()
    await press(page, 'Shift')
    await part(page).focus()
    expect(await styleOf(part(page), 'outlineStyle')).toBe('solid')
    // The colour of links, whose contrast axe has measured.
    expect(await styleOf(part(page), 'outlineColor')).toBe('rgb(47, 91, 211)')
    expect(parseFloat(await styleOf(part(page), 'outlineOffset'))).toBeLessThan(0)
  })

  it('goes from the filter to the list by Enter, and back to it by Close', async () => {
    const { page, problems } = await open('#/run/airline-base')
    await lines(page).first().waitFor()
    await press(page, '/', 'Enter')
    await reader(page).locator('.step').first().waitFor()
    await expect.poll(hasFocus(list(page))).toBe(true)
    await press(page, 'ArrowDown')
    await expect.poll(() => selected(page)).toBe('0.2')
    await reader(page)
      .getByRole('button', { name: /^Close/ })
      .focus()
    await press(page, 'Enter')
    await expect.poll(() => reader(page).count()).toBe(0)
    await expect.poll(hasFocus(list(page))).toBe(true)
    expect(problems).toEqual([])
  })

  it('is in the transcript where there is no room for the list, and in the list again by Close', async () => {
    const { page } = await open('#/run/airline-base', { viewport: { width: 390, height: 844 } })
    await lines(page).first().click()
    await expect.poll(hasFocus(said(page))).toBe(true)
    await press(page, 'Escape')
    await expect.poll(hasFocus(list(page))).toBe(true)
  })

  it('comes back by Back: to a link to a run, and to the button of a comparison', async () => {
    const { page } = await open('#/')
    const link = page.getByRole('link', { name: 'airline-two', exact: true })
    await link.focus()
    await press(page, 'Enter')
    await expect.poll(hasFocus(list(page))).toBe(true)
    await page.goBack()
    await expect.poll(hasFocus(link)).toBe(true)

    await page.getByLabel('Mark airline-base').check()
    await page.getByLabel('Mark airline-two').check()
    const compare = page.getByRole('button', { name: /^Compare airline/ })
    await compare.focus()
    await press(page, 'Enter')
    await page.locator('.sentence').waitFor()
    await expect.poll(hasFocus(page.locator('section.page'))).toBe(true)
  })
})

it('a bar of the timeline shows its step again when the reader has scrolled away', async () => {
  const { page } = await open('#/run/airline-base?sel=0.2')
  const bar = reader(page).locator('.timeline button').last()
  for (let clicks = 0; clicks < 2; clicks += 1) {
    await bar.click()
    await expect.poll(() => topOf(said(page))).toBeGreaterThan(200)
    // The view may still be on its way to the step when the first key is pressed.
    const topAfterHome = async (): Promise<number> => {
      await press(page, 'Home')
      return topOf(said(page))
    }
    await expect.poll(topAfterHome).toBe(0)
  }
})

describe('arrow keys and Space', () => {
  it('scroll the transcript and the findings that have the focus, and select no other rollout', async () => {
    const { page } = await open('#/run/airline-base?sel=0.2')
    await reader(page).locator('.step').first().waitFor()
    await said(page).focus()
    await press(page, 'ArrowDown', 'ArrowDown')
    await expect.poll(() => topOf(said(page))).toBeGreaterThan(20)
    await press(page, 'Space')
    await expect.poll(() => topOf(said(page))).toBeGreaterThan(200)
    expect(selected(page)).toBe('0.2')
    await press(page, 'Escape')
    const side = page.getByRole('navigation', { name: 'What to look at' })
    await side.getByRole('button').first().focus()
    await press(page, 'ArrowDown', 'ArrowDown')
    await expect.poll(() => topOf(side)).toBeGreaterThan(20)
    expect(selected(page)).toBe('')
  })

  it('belong to the next transcript, too', async () => {
    const { page } = await open('#/run/airline-base?sel=0.2')
    await reader(page).locator('.step').first().waitFor()
    await said(page).focus()
    await press(page, 'j')
    await expect.poll(() => selected(page)).toBe('0.3')
    await reader(page).locator('.tabs [aria-pressed=true][title="Attempt 3"]').waitFor()
    await expect.poll(hasFocus(said(page))).toBe(true)
    await press(page, 'ArrowDown')
    expect(selected(page)).toBe('0.3')
  })

  it('belong to the table of steps', async () => {
    const { page } = await open('#/training/long', { viewport: { width: 700, height: 800 } })
    const table = page.getByRole('region', { name: 'Steps', exact: true })
    await table.focus()
    // The table is wider than its region only when its rows are there.
    await expect
      .poll(async () => {
        await press(page, 'ArrowRight')
        return table.evaluate((each: object) => Reflect.get(each, 'scrollLeft') as number)
      })
      .toBeGreaterThan(20)
    expect(await page.getByText(/^step \d+$/).count()).toBe(0)
  })

  it('fold a branch of JSON', async () => {
    const { page } = await open('#/run/json?sel=0.1')
    const branch = reader(page).locator('.said details').first()
    await branch.locator('summary').first().focus()
    const isOpen = (): Promise<string | null> => branch.getAttribute('open')
    expect(await isOpen()).toBe('')
    await press(page, 'Space')
    await expect.poll(isOpen).toBe(null)
    await press(page, 'Enter')
    await expect.poll(isOpen).toBe('')
    expect(selected(page)).toBe('0.1')
  })
})

describe('the rows over the steps', () => {
  it('have cells that arrow keys reach, also those that are scrolled to', async () => {
    const { page, problems } = await open('#/training/long')
    const rows = page.getByRole('region', { name: 'Rows', exact: true })
    const cell = (row: number, step: number): Locator =>
      rows.getByRole('link', { name: `Row ${row} at step ${step}:` })
    await cell(0, 1).waitFor()
    await rows.focus()
    await press(page, 'Tab')
    await expect.poll(hasFocus(cell(0, 1))).toBe(true)
    await press(page, 'ArrowRight')
    await expect.poll(hasFocus(cell(0, 3))).toBe(true)
    for (let row = 1; row <= 40; row++) {
      await press(page, 'ArrowDown')
      await expect.poll(hasFocus(cell(row, row < 30 ? 3 : 4))).toBe(true)
    }
    // Only one of them is in the order of tabs.
    expect(await rows.locator('a[tabindex="0"]').count()).toBe(1)
    await press(page, 'Enter')
    await reader(page).waitFor()
    expect(decodeURIComponent(page.url())).toContain('#/run/long/step-0004?sel=40.1')
    expect(problems).toEqual([])
  })
})

it('all keys stand in the dialog', async () => {
  const { page } = await open('#/run/airline-base')
  await lines(page).first().waitFor()
  await press(page, '?')
  const dialog = page.getByRole('dialog', { name: 'Keys' })
  await dialog.locator('kbd').first().waitFor()
  const keys = await dialog.locator('kbd').allInnerTexts()
  const wanted = 'j k ↓ ↑ → ← enter [ ] s d n p space PgDn PgUp Home End m a r f g x / t esc ?'
  expect(wanted.split(' ').filter((key) => !keys.includes(key))).toEqual([])
  expect(await filter(page).count()).toBe(1)
})

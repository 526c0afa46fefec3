import { appendFileSync, rmSync } from 'node:fs'
import path from 'node:path'

import { openRunFolder } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { expect } from 'vitest'

import { journalEvents, journalLine } from '../../../test/kit/index.ts'
import { violations, withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import {
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
  writeAirlineRun(root, { name: 'airline-base', rows: 300, attempts: 4, skill: 0.3, seed: 5 })
  const step200 = { name: 'airline-step200', workflow: { max_turns: 12 } }
  writeAirlineRun(root, { ...step200, rows: 300, attempts: 4, skill: 0.9, seed: 2 })
})
const { root } = inBrowser
const open: ViewerInBrowser['open'] = (place, options) => inBrowser.open(place, options)

describe('finding what explains the number', () => {
  it('shows suspicious passes after two keys', async () => {
    const { page, problems } = await open('#/run/planted')
    await page.getByText('passed without a tool call').waitFor()
    await press(page, '1', 'j')
    await reader(page).getByText('REFUND_COMPLETE').waitFor()
    const { row, attempt } = planted.suspicious
    expect(page.url()).toContain(`sel=${row}.${attempt + 1}`)
    expect(await page.locator('.verdict').textContent()).toContain('it called no tool')
    expect(problems).toEqual([])
  })

  it('filters by what the line says, and by words that are only in transcripts', async () => {
    const { page } = await open('#/run/planted')
    await lines(page).first().waitFor()
    await press(page, '/')
    await page.keyboard.type('reward<1')
    await expect.poll(() => lines(page).count()).toBe(1)
    await filter(page).fill('"could not do it"')
    await expect.poll(() => lines(page).count()).toBe(1)
    await filter(page).fill('is:nonsense')
    await page.getByText('Unknown state "is:nonsense"').waitFor()
    await filter(page).fill('nowhere-to-be-found')
    await page.getByText('Nothing matches').waitFor()
    await press(page, 'Escape', 'x')
    await page.getByText('160 rollouts', { exact: true }).waitFor()
  })

  it('shows the images of a conversation as thumbnails, and no bytes of them', async () => {
    const { page, problems } = await open('#/run/planted?sel=8.1')
    const thumbnail = page.locator('summary img[alt="image 1×1"]')
    await thumbnail.waitFor()
    const loaded = await page.evaluate(
      "document.querySelector('summary img').decode().then(() => 'shown')",
    )
    expect(loaded).toBe('shown')
    expect(await reader(page).textContent()).toContain('Go ahead.')
    expect(await reader(page).textContent()).not.toContain('iVBOR')
    expect(problems).toEqual([])
  })

  it('shows where another agent goes on under other instructions', async () => {
    const { page, problems } = await open('#/run/planted?sel=9.1')
    await page.getByText('Which order is it?').waitFor()
    expect(await reader(page).locator('.mark').allInnerTexts()).toEqual([
      'other instructions from here, agent Refunds',
    ])
    expect(await reader(page).locator('.step .who').allInnerTexts()).toEqual([
      'system',
      'user',
      'agent\n12 tok\n0.8 s',
      'system',
      'agent\n6 tok\n0.5 s',
    ])
    expect(problems).toEqual([])
  })

  it('compares two runs over the rows that both have', async () => {
    const { page, problems } = await open('#/compare/airline-base/airline-step200')
    await page.locator('.sentence', { hasText: 'Better by' }).waitFor()
    await page.getByText('Change of the pass rate by task').waitFor()
    const changed = page.getByRole('region', { name: 'What changed' })
    expect(await changed.getByRole('row').allInnerTexts()).toEqual([
      '\tairline-base\tairline-step200',
      'config: max_turns\tnot set\t12',
    ])
    await page.locator('.changed .line').first().click()
    await reader(page).waitFor()
    expect(page.url()).toContain('/run/airline-step200?sel=')
    expect(problems).toEqual([])
  })
})

describe('the keyboard', () => {
  it('goes through rollouts, attempts, samples and errors', async () => {
    const { page, problems } = await open('#/run/planted')
    const selected = (): string =>
      new URL(page.url().replace('#/', '')).searchParams.get('sel') ?? ''
    await lines(page).first().waitFor()
    await press(page, 'j')
    await expect.poll(selected).toBe('0.1')
    await press(page, 'j', 'j')
    await expect.poll(selected).toBe('0.3')
    await press(page, 'k', ']', ']')
    await expect.poll(selected).toBe('0.4')
    await press(page, '[')
    await expect.poll(selected).toBe('0.3')
    await press(page, 'Escape')
    await expect.poll(selected).toBe('')

    const { row, failing } = planted.divergence
    await go(page, `#/run/planted?sel=${row}.${failing + 1}`)
    await reader(page).getByText('I could not do it.').waitFor()
    await press(page, 'n')
    await page.locator('.step.here', { hasText: 'must be a list' }).waitFor()

    await go(page, `#/run/planted?sel=${planted.samples.row}.1`)
    await reader(page).getByText('I make the plan.').waitFor()
    await press(page, 's')
    await reader(page).getByText('I write the answer.').waitFor()
    expect(page.url()).toContain('sample=writer')
    expect(problems).toEqual([])
  })

  it('writes a note that stays, and can be filtered by', async () => {
    const { page, problems } = await open('#/run/planted?sel=2.1')
    await reader(page).getByText('Attempts').or(page.getByLabel('Note')).first().waitFor()
    await press(page, 'a')
    await page.keyboard.type('Asked nothing.')
    await page.getByLabel('Tag').fill('skipped check')
    await press(page, 'Enter')
    await page.locator('.line .chip.note', { hasText: 'skipped check' }).waitFor()
    await page.reload()
    await expect.poll(() => page.getByLabel('Note').inputValue()).toBe('Asked nothing.')
    await filter(page).fill('tag:"skipped check"')
    await expect.poll(() => lines(page).count()).toBe(1)
    expect(problems).toEqual([])
  })
})

describe('a run in progress', () => {
  it('shows a rollout when it ends, and continues when the run is replaced', async () => {
    const folder = writeAirlineRun(root, { name: 'live', rows: 8, attempts: 2, ended: 9 })
    const { page, problems } = await open('#/run/live')
    await page.getByText('9 of 16').waitFor()
    const [event] = journalEvents<ItemEvent>(path.join(folder, 'events.jsonl'))
    const next = { ...event, row_index: 7, source_row_index: 7, summary: 'It has just ended.' }
    appendFileSync(path.join(folder, 'events.jsonl'), journalLine(next))
    await page.getByText('It has just ended.').waitFor()
    await page.getByText('10 of 16').waitFor()
    rmSync(folder, { recursive: true })
    writeAirlineRun(root, { name: 'live', rows: 3, attempts: 2 })
    await page.getByText('6 rollouts', { exact: true }).waitFor()
    expect(problems).toEqual([])
  })
})

describe('what is not as it should be', () => {
  it('says so when the token is missing', async () => {
    const watched = await inBrowser.openUrl(
      `http://127.0.0.1:${inBrowser.viewer.port}/#/run/planted`,
    )
    await watched.page.getByText('Open the link that osmosis eval view printed.').waitFor()
    expect(await lines(watched.page).count()).toBe(0)
  })

  it('reports a missing or damaged transcript, and shows the other facts', async () => {
    const folder = writeAirlineRun(root, { name: 'lost', rows: 4, attempts: 2 })
    rewriteEvents(folder, (event, index) => ({
      ...event,
      trajectory_place:
        index === 0
          ? null
          : index === 1
            ? [0, 3, 200, 1]
            : index === 2
              ? [9, 0, 9, 1]
              : event.trajectory_place,
    }))
    const { page, problems } = await open('#/run/lost?sel=0.1')
    await page.getByText('No conversation').waitFor()
    await press(page, 'j')
    await page.getByText('The transcript is damaged').waitFor()
    await press(page, 'j')
    await page.getByText('Figures still include the rollout').waitFor()
    await page.locator('.verdict').waitFor()
    expect(problems).toEqual([])
  })
})

describe('finding what explains the number', { tags: 'slow' }, () => {
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

describe('a re-grading', { tags: 'slow' }, () => {
  it('is compared with its run, from the list of runs as from the run', async () => {
    const folder = writeAirlineRun(root, { name: 'graded-again', rows: 40, attempts: 2 })
    const { rollout_id = '' } = journalEvents<ItemEvent>(path.join(folder, 'events.jsonl'))[0] ?? {}
    const grade = { source_row_index: 0, run_index: 0, rollout_id, reward: 0.5, error: null }
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

describe('the keyboard', { tags: 'slow' }, () => {
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

describe('what is not as it should be', { tags: 'slow' }, () => {
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

describe('accessibility', { tags: 'slow' }, () => {
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

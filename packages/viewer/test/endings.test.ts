// @module-tag slow
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { openRun } from '@osmosis/eval'
import { exportReport } from '@osmosis/viewer'
import { expect } from 'vitest'

import { withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { rewriteEvents } from './synthetic/planted-runs.ts'
import { filter, go, lines, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const stack = Array.from({ length: 40 }, (_, line) => `    at step${line} (loop.ts:${line}:1)`)
const message = `The tool answered ${'x'.repeat(400)}\n${stack.join('\n')}`

const inBrowser = ViewerInBrowser.forTests((root) => {
  const folder = writeAirlineRun(root, { name: 'ends', rows: 6, attempts: 2, skill: 5 })
  rewriteEvents(folder, (event, index) => {
    if (index === 0) {
      const failed = { status: 'failed', reward: null, error_type: 'agent_failed', metrics: {} }
      return { ...event, ...failed, error_message: message, summary: message.slice(0, 160) }
    }
    const scores = { politeness: index % 2 === 0 ? 0.25 : 0.75 }
    const missing = index === 3 ? { score_errors: { brevity: 'It was not a number.' } } : {}
    return { ...event, scores, ...missing, cost_usd: index === 1 ? 120.456 : 0.00312 }
  })
})

describe('how a rollout ended', () => {
  it('shows the whole message of an error, folded, wrapped, in the flow of the page', async () => {
    const { page, problems } = await inBrowser.open('#/run/ends?sel=0.1')
    const error = reader(page).getByRole('group', { name: 'Error' })
    await error.getByText('Agent failed', { exact: false }).waitFor()
    await error.getByRole('button', { name: 'Show all 41 lines' }).click()
    expect(await error.innerText()).toContain('at step39 (loop.ts:39:1)')
    expect(
      await page.evaluate(`[...document.querySelectorAll('.failure, .failure *')]
        .filter((each) => each.scrollWidth - each.clientWidth > 1 && each.clientWidth > 0
          || getComputedStyle(each).overflowY !== 'visible').length`),
    ).toBe(0)
    // At the end of what was said it is named again, and beside another attempt as well.
    await page.locator('.verdict').getByText('failed: agent failed').waitFor()
    await go(page, '#/run/ends?sel=0.1&diff')
    await page.locator('.pairs').getByRole('group', { name: 'Error' }).waitFor()
    expect(problems).toEqual([])
  })

  it('shows scores and metrics in the head, and the rollouts that have the same', async () => {
    const { page, problems } = await inBrowser.open('#/run/ends?sel=0.2')
    const scores = reader(page).getByRole('group', { name: 'Scores' })
    await scores.getByRole('button', { name: 'politeness 0.75' }).click()
    expect(await filter(page).inputValue()).toBe('politeness:0.75')
    await expect.poll(() => lines(page).count()).toBe(6)
    expect(await scores.getByRole('button').allTextContents()).toEqual([
      'politeness0.75',
      'db_state1',
      'confirmed_first1',
    ])
    await scores.getByRole('button', { name: 'politeness' }).click()
    expect(await filter(page).inputValue()).toBe('')
    expect(problems).toEqual([])
  })

  it('has costs of any size as amounts of dollars', async () => {
    const { page, problems } = await inBrowser.open('#/run/ends?sel=0.2')
    await reader(page).getByText('$120.46', { exact: true }).waitFor()
    await go(page, '#/run/ends?sel=1.2')
    await reader(page).getByText('$0.0031', { exact: true }).waitFor()
    expect(problems).toEqual([])
  })

  it('says why a score is missing', async () => {
    const { page } = await inBrowser.open('#/run/ends?sel=1.2')
    const score = reader(page)
      .getByRole('group', { name: 'Scores' })
      .getByTitle('It was not a number.')
    await page.locator('.verdict').getByText('It was not a number.').waitFor()
    expect(await score.innerText()).toContain('brevity')
  })

  it('says what a reviewer decided', async () => {
    const run = await openRun(path.join(inBrowser.root, 'ends'))
    const event = run.sortedEvents.find(({ reward }) => reward === 1)
    if (event === undefined) throw new Error('expected a pass')
    const { source_row_index, run_index, rollout_id } = event
    const item = { source_row_index, run_index, rollout_id, check: 'no-tools' as const, value: 1 }
    await run.addVerdicts([{ ...item, verdict: 'hacked', because: 'it guesses', by: 'Ann' }])
    const { page } = await inBrowser.open(`#/run/ends?sel=${source_row_index}.${run_index + 1}`)
    await page.locator('.verdict').getByText('hacked: it guesses (Ann)').waitFor()
    await page.locator('.verdict').getByText('audit: no-tools').waitFor()
  })

  it('is in a report as in the viewer', async () => {
    const file = path.join(inBrowser.root, 'ends.html')
    await exportReport({ run: path.join(inBrowser.root, 'ends'), file })
    const { page } = await inBrowser.openUrl(`${pathToFileURL(file).href}#/run/ends?sel=0.1`)
    const error = reader(page).getByRole('group', { name: 'Error' })
    await error.getByRole('button', { name: 'Show all 41 lines' }).click()
    expect(await error.innerText()).toContain('at step39 (loop.ts:39:1)')
  })
})

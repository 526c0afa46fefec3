import { appendFileSync } from 'node:fs'
import path from 'node:path'

import { lockRun, trainingLock } from '@osmosis/eval'
import { expect } from 'vitest'

import { violations, withBrowser } from './browser.ts'
import { addStep, writeCurrentRun, writeTraining } from './synthetic/training.ts'
import { lines, press, reader, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const made = { name: 'airline', steps: 12, rows: 16, rowsPerStep: 8, attempts: 4 }
const half = { name: 'half', steps: 3, planned: 9, rows: 8, rowsPerStep: 8, attempts: 4 }

const inBrowser = ViewerInBrowser.forTests(async (_, trainings) => {
  await writeTraining(trainings, made)
  await writeTraining(trainings, half)
  await writeTraining(trainings, { ...half, name: 'begun', steps: 1 })
  await writeTraining(trainings, { ...half, name: 'worker', steps: 1, isOpenEnded: true })
})

describe('a training', () => {
  it('is in the list, with its trend, its state and its steps', async () => {
    const { page, problems } = await inBrowser.open('#/')
    const list = page.getByRole('region', { name: 'Trainings' })
    await list.getByRole('link', { name: 'airline' }).waitFor()
    expect(await list.getByText('12 of 12').count()).toBe(1)
    expect(await list.getByText('3 of 9').count()).toBe(1)
    expect(await list.getByRole('img', { name: /^from 0\.\d+ to 0\.\d+$/ }).count()).toBe(2)
    await list.getByRole('link', { name: 'airline' }).click()
    await page.getByText('after 12 of 12 steps').waitFor()
    expect(problems).toEqual([])
  })

  it('shows curves with intervals, alarms, and any conversation in two clicks', async () => {
    const { page, problems } = await inBrowser.open('#/training/airline')
    await page.getByText('Held-out reward').first().waitFor()
    await page.getByText('All steps are done.').waitFor()
    await page.getByText('8 rows × 4 per step; loss gspo, kl 0.01').waitFor()
    const charts = page.getByRole('img')
    const names = await Promise.all(
      (await charts.all()).map((chart) => chart.getAttribute('aria-label')),
    )
    expect(names).toEqual([
      'Reward over 12 steps',
      ...['Groups with a signal', 'Drift of logprobs, mean', 'Entropy', 'Clipped tokens'].map(over),
      ...['Answers cut off', 'Failed rollouts', 'Tokens per rollout', 'Tool calls per rollout'].map(
        over,
      ),
      ...['Time of rollouts', 'Time of the update'].map(over),
      ...['Metric confirmed_first', 'Metric db_state'].map(over),
    ])
    const rewards = page.getByRole('img', { name: 'Reward over 12 steps' })
    expect(await rewards.locator('polygon').count()).toBe(2)
    expect(await rewards.locator('.mark').count()).toBe(2)
    await page
      .getByText('On held-out rows length, tool calls and endings are about the same.')
      .waitFor()
    const alarms = page.getByRole('region', { name: 'Alarms' })
    expect(await alarms.innerText()).toMatch(/^1 alarm\s+Steps 3, 10 31 % of the answers/)

    // The middle of the chart is step 6 of 0 to 12.
    await rewards.click()
    await lines(page).first().click()
    await reader(page).getByText('airline').first().waitFor()
    expect(decodeURIComponent(page.url())).toContain('#/run/airline/step-0006?sel=')
    await page.getByRole('link', { name: 'airline' }).click()
    await page.getByText('after 12 of 12 steps').waitFor()
    expect(problems).toEqual([])
  })

  it('shows when a row was learned, and opens it at the step', async () => {
    const { page, problems } = await inBrowser.open('#/training/airline')
    const rows = page.getByRole('region', { name: 'The rows over the steps' })
    await rows.getByText('Row 0', { exact: false }).waitFor()
    await rows.getByRole('button', { name: 'what fell most' }).click()
    const verdicts = await rows.locator('.fate').allInnerTexts()
    expect(verdicts.filter((text) => text.startsWith('fell by'))).toEqual(
      verdicts.slice(0, verdicts.filter((text) => text.startsWith('fell by')).length),
    )
    for (const [order, wanted] of [
      ['first', /^Step 1: /],
      ['last', /^Step (?:[5-9]|1\d): \d+ rows? learned/],
    ] as const) {
      await rows.getByRole('button', { name: `what was learned ${order}` }).click()
      expect(await rows.locator('.group').first().innerText()).toMatch(wanted)
    }
    await rows.getByRole('button', { name: 'by row' }).click()
    await rows.getByRole('link', { name: 'Row 3 at step 5' }).click()
    await reader(page).waitFor()
    expect(decodeURIComponent(page.url())).toContain('#/run/airline/step-0005?sel=3.1')
    expect(problems).toEqual([])
  })

  it('is read with the keyboard, and from a table', async () => {
    const { page, problems } = await inBrowser.open('#/training/airline')
    await page.getByText('after 12 of 12 steps').waitFor()
    await press(page, 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft')
    await page.getByText('step 2', { exact: true }).waitFor()
    await press(page, 'Enter')
    await expect.poll(() => decodeURIComponent(page.url())).toContain('#/run/airline/step-0002')
    await page.goBack()
    const table = page.getByRole('region', { name: 'Steps' })
    await table.getByRole('link', { name: 'Held-out rows before' }).click()
    await expect.poll(() => decodeURIComponent(page.url())).toContain('#/run/airline/before')
    expect(problems).toEqual([])
  })

  it('moves while it runs: rollouts first, then the step', async () => {
    const folder = path.join(inBrowser.trainings, 'half')
    const lock = await lockRun(trainingLock(folder))
    try {
      const run = writeCurrentRun(folder, half, { step: 4, ended: 10 })
      const { page, problems } = await inBrowser.open('#/training/half')
      await page.getByText('step-0004: 10 of 32 rollouts').waitFor()
      await page.locator('.pending').waitFor()
      const entropy = page.getByRole('region', { name: 'Entropy' })
      const chart = entropy.locator('.chart')
      const { width } = (await chart.boundingBox()) ?? { width: 0 }
      await expect.poll(() => entropy.locator('h2 b').innerText()).not.toBe('')
      // The step that runs has no entropy yet, and that of the step before is not its.
      await chart.hover({ position: { x: width - 14, y: 20 } })
      await page.getByText('step 4', { exact: true }).waitFor()
      expect(await entropy.locator('h2 b').innerText()).toBe('')
      run.end(5)
      await page.getByText('step-0004: 15 of 32 rollouts').waitFor()
      run.remove()
      await addStep(folder, half, 4)
      await page.getByText('after 4 of 9 steps').waitFor()
      expect(await page.getByRole('img', { name: 'Entropy over 4 steps' }).count()).toBe(1)
      expect(problems).toEqual([])
    } finally {
      await lock.release()
    }
    const { page } = await inBrowser.open('#/training/half')
    await page.getByText('interrupted').waitFor()
    await page.getByText('The same osmosis train command continues it.').waitFor()
    await inBrowser.open('#/training/begun')
    await page.getByText(/^Reward 0\.\d{3} after 1 of 9 steps$/).waitFor()
    expect(await page.locator('.change').count()).toBe(0)
  })

  it('says how many steps are done where no number of steps is planned', async () => {
    const { page } = await inBrowser.open('#/training/worker')
    await page.getByText(/^Reward 0\.\d{3} after 1 step$/).waitFor()
    await page.getByText('The same osmosis serve or worker command continues it.').waitFor()
  })

  it('says what is wrong with a damaged journal, and which training does not exist', async () => {
    const folder = await writeTraining(inBrowser.trainings, {
      ...half,
      name: 'damaged',
      planned: 3,
    })
    appendFileSync(path.join(folder, 'training.jsonl'), '{"kind":"st\n')
    const { page } = await inBrowser.open('#/training/damaged')
    await page.getByText('The training cannot be read').waitFor()
    await page.getByText(/Cannot read line \d+ of .*training\.jsonl/).waitFor()
    const { page: missing } = await inBrowser.open('#/training/nowhere')
    await missing.getByText('There is no training nowhere.').waitFor()
    await missing.getByRole('link', { name: 'All runs' }).click()
    await missing.getByRole('heading', { name: 'Trainings' }).waitFor()
  })

  it.each(['light', 'dark'] as const)('axe finds nothing in it, %s', async (colorScheme) => {
    const { page } = await inBrowser.open('#/training/airline', { colorScheme })
    await page.getByText('The same row over the steps').waitFor()
    expect(await violations(page)).toEqual([])
  })
})

function over(name: string): string {
  return `${name} over 12 steps`
}

import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { lockRun, openRunFolder, trainingLock } from '@osmosis/eval'
import { startViewer, type Viewer } from '@osmosis/viewer'
import type { Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'

import { journalEvents, journalLine } from '../../../test/kit/index.ts'
import { withBrowser } from './browser.ts'
import { writeAirlineRun } from './synthetic/airline-run.ts'
import { writeTraining } from './synthetic/training.ts'
import { ViewerClient } from './viewer-client.ts'
import { filter, go, lines, press, ViewerInBrowser } from './viewer-in-browser.ts'

const { describe, it } = withBrowser

const inBrowser = ViewerInBrowser.forTests(async (root, trainings) => {
  writeAirlineRun(root, { name: 'noted', rows: 4, attempts: 2 })
  writeAirlineRun(root, { name: 'live', rows: 8, attempts: 2, ended: 9 })
  writeAirlineRun(root, { name: 'grown', rows: 8, attempts: 2, ended: 9 })
  writeAirlineRun(root, { name: 'turned', rows: 4, attempts: 2 })
  await writeTraining(trainings, {
    name: 'half',
    steps: 2,
    planned: 9,
    rows: 8,
    rowsPerStep: 8,
    attempts: 2,
  })
})

const away = 'The server of this page does not answer.'
const refused = 'Another server answers at this address.'

async function ownViewer(port?: number): Promise<Viewer> {
  const options = { root: inBrowser.root, trainingRoot: inBrowser.trainings }
  const viewer = await startViewer(port === undefined ? options : { ...options, port })
  onTestFinished(() => viewer.close())
  return viewer
}

const at = (viewer: Viewer, place: string): string => viewer.url.replace(/\/$/, place)
const notice = (page: Page) => page.locator('.notice')

describe('a server that ends', () => {
  it('loses no note that was typed, and says which one was not saved', async () => {
    const first = await ownViewer()
    const { page } = await inBrowser.openUrl(at(first, '/run/noted?sel=2.1'))
    const note = page.getByLabel('Note')
    await note.waitFor()
    await first.close()
    await press(page, 'a')
    await page.keyboard.type('Asked nothing.')
    await page.getByLabel('Tag').fill('skipped check')
    await press(page, 'Enter')
    await page.getByRole('alert').getByText('Not saved').waitFor()
    // It stays when another rollout is read, and when the link of the next server is opened.
    await press(page, 'j')
    await expect.poll(() => note.inputValue()).toBe('')
    await press(page, 'k')
    await page.getByText('Not saved yet.').waitFor()
    const second = await ownViewer(first.port)
    await page.goto(at(second, '/run/noted?sel=2.1'))
    await expect.poll(() => note.inputValue()).toBe('Asked nothing.')
    await page.reload()
    await expect.poll(() => note.inputValue()).toBe('Asked nothing.')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.locator('.line .chip.note', { hasText: 'skipped check' }).waitFor()
    await expect.poll(() => page.locator('form.note .outcome').count()).toBe(0)
  })

  it('shows nothing as running any more, and the page follows the next one', async () => {
    const lock = await lockRun(path.join(inBrowser.root, 'live'))
    onTestFinished(() => lock.release())
    const first = await ownViewer()
    const { page } = await inBrowser.openUrl(at(first, '/run/live'))
    await page.locator('.state.running', { hasText: '9 of 16' }).waitFor()
    await first.close()
    await notice(page).getByText(away).waitFor()
    expect(await page.locator('.running').count()).toBe(0)
    await page.getByText('last seen at 9 of 16').waitFor()

    const second = await ownViewer(first.port)
    await notice(page).getByText(refused).waitFor()
    // The link of the new server is opened in another tab.
    const tab = await page.context().newPage()
    await tab.goto(second.url)
    await page.locator('.state.running', { hasText: '9 of 16' }).waitFor()
    expect(await notice(page).count()).toBe(0)
  })
})

describe('a server that ends', { tags: 'slow' }, () => {
  it('is told of a training too, and by the link in the same tab the page goes on', async () => {
    const lock = await lockRun(trainingLock(path.join(inBrowser.trainings, 'half')))
    onTestFinished(() => lock.release())
    const first = await ownViewer()
    const { page } = await inBrowser.openUrl(at(first, '/training/half'))
    await page.locator('.state.running').waitFor()
    await first.close()
    await notice(page).getByText(away).waitFor()
    await page.getByText('running when last seen').waitFor()
    const second = await ownViewer(first.port)
    // Only the fragment of the address changes, so the browser does not load the page.
    await go(page, new URL(at(second, '/training/half')).hash)
    await page.locator('.state.running').waitFor()
    expect(await notice(page).count()).toBe(0)
    expect(page.url()).not.toContain('token')
  })
})

describe('a run that is read again', () => {
  it('has the rollout that ends after its answer was made and before the page has it', async () => {
    const [manifest, journal] = ['manifest.json', 'events.jsonl'].map((file) =>
      path.join(inBrowser.root, 'grown', file),
    ) as [string, string]
    const { page, problems } = await inBrowser.open('#/run/grown')
    await expect.poll(() => lines(page).count()).toBe(9)
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    const updates = await new ViewerClient(inBrowser.viewer.url).updates('grown', stop.signal)
    const [answered, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    await page.route('**/api/runs/grown', async (route) => {
      const response = await route.fetch()
      answered.resolve()
      await ended.promise
      await route.fulfill({ response })
    })
    // A run whose manifest was written again is read again.
    writeFileSync(manifest, readFileSync(manifest))
    await answered.promise
    expect((await updates.next()).value).toEqual({ stale: true })
    const [first] = journalEvents(journal)
    if (first === undefined) throw new Error('The run has no rollout.')
    appendFileSync(journal, journalLine({ ...first, source_row_index: 7, run_index: 1 }))
    expect((await updates.next()).value).toMatchObject({ events: [{ source_row_index: 7 }] })
    ended.resolve()
    await page.locator('.state', { hasText: '10 of 16' }).waitFor()
    await expect.poll(() => lines(page).count()).toBe(10)
    expect(problems).toEqual([])
  })

  it('shows the rollouts in whose transcripts a word is, also where they have other places', async () => {
    const folder = path.join(inBrowser.root, 'turned')
    const { page } = await inBrowser.open('#/run/turned?q=ana_souza_7031')
    const shown = async (): Promise<string[]> => page.locator('.line .row').allTextContents()
    await expect.poll(shown).toEqual(['0.1', '0.2'])
    const reversed = journalEvents(path.join(folder, 'events.jsonl')).toReversed()
    const manifest = path.join(folder, 'manifest.json')
    const text = readFileSync(manifest, 'utf8')
    rmSync(path.join(folder, 'events.jsonl'))
    writeFileSync(path.join(folder, 'events.jsonl'), reversed.map(journalLine).join(''))
    writeFileSync(manifest, text.replace('"n": 2', '"n": 3'))
    await page.locator('.state', { hasText: '8 of 12' }).waitFor()
    await expect.poll(shown).toEqual(['0.1', '0.2'])
  })
})

const reachTheList = async (tag: string): Promise<void> => {
  const { page, problems } = await inBrowser.open('#/')
  // What was searched for stays while runs are read.
  await page.getByLabel('Search runs').fill('')
  await page.getByRole('link', { name: 'noted' }).waitFor()
  const folder = await openRunFolder(path.join(inBrowser.root, 'noted'))
  const place = { source_row_index: 3, run_index: 1 }
  await folder.addNote({ ...place, tag, text: 'It asks again.' })
  const chip = page.getByRole('link', { name: tag, exact: true })
  await chip.waitFor()
  await page.getByLabel('Search runs').fill(tag.split(' ')[0] ?? '')
  await chip.click()
  await expect.poll(() => lines(page).count()).toBe(1)
  expect(await filter(page).inputValue()).toMatch(/^tag:/)
  expect(problems).toEqual([])
}

const tagsReach = 'reach the list and its search, and lead to their rollouts: %s'

describe('the tags of notes', () => {
  it.each(['two words'])(tagsReach, reachTheList)
})

describe('the tags of notes', { tags: 'slow' }, () => {
  it.each(['say "no"', 'loop'])(tagsReach, reachTheList)
})

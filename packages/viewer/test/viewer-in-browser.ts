import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { startViewer, type Viewer } from '@osmosis/viewer'
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll } from 'vitest'

import { launchBrowser, openPage, type WatchedPage } from './browser.ts'

/** One browser and one server for the tests of a file: starting them is most of the work. */
export class ViewerInBrowser {
  /** The folder of the runs. */
  readonly root = mkdtempSync(path.join(tmpdir(), 'osmosis-viewer-'))
  /** The folder of the trainings. */
  readonly trainings = path.join(this.root, '.training')
  #parts: { viewer: Viewer; browser: Browser; shared: WatchedPage } | undefined
  #opened: WatchedPage[] = []

  /** Ends with the tests of the file; between them what a test opened is closed. */
  static forTests(
    writeRuns: (root: string, trainings: string) => void | Promise<void>,
  ): ViewerInBrowser {
    const own = new ViewerInBrowser()
    beforeAll(async () => {
      await writeRuns(own.root, own.trainings)
      const viewer = await startViewer({ root: own.root, trainingRoot: own.trainings })
      const browser = await launchBrowser()
      own.#parts = { viewer, browser, shared: await openPage(browser, viewer.url) }
    })
    afterEach(async () => {
      await Promise.all(own.#opened.map(({ page }) => page.context().close()))
      own.#opened = []
    })
    afterAll(async () => {
      await own.#parts?.browser.close()
      await own.#parts?.viewer.close()
      rmSync(own.root, { recursive: true })
    })
    return own
  }

  get viewer(): Viewer {
    return this.#started.viewer
  }

  /** Goes to a place of the viewer, e.g. `#/run/planted`; with options in a context of its own. */
  async open(place: string, options?: BrowserContextOptions): Promise<WatchedPage> {
    if (options !== undefined)
      return this.openUrl(this.viewer.url.replace(/\/$/, place.slice(1)), options)
    const { shared } = this.#started
    // By way of another page, so that nothing of the test before is left.
    await go(shared.page, '#/run/none')
    await shared.page.getByText('There is no run none.').waitFor()
    shared.problems.length = 0
    await go(shared.page, place)
    return shared
  }

  /** An address in a context of its own, which ends with the test. */
  async openUrl(url: string, options?: BrowserContextOptions): Promise<WatchedPage> {
    const watched = await openPage(this.#started.browser, url, options)
    this.#opened.push(watched)
    return watched
  }

  get #started() {
    if (this.#parts === undefined) throw new Error('The browser starts with the first test.')
    return this.#parts
  }
}

export async function go(page: Page, place: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(place)}`)
}

export async function press(page: Page, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key)
}

export const lines = (page: Page): Locator => page.getByRole('option')
export const reader = (page: Page): Locator => page.getByRole('region', { name: 'Transcript' })
export const filter = (page: Page): Locator => page.getByLabel('Filter')

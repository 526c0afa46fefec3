import axe from 'axe-core'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'

import { onlyIf, refuseWhereAllIsInstalled } from '../../../test/kit/index.ts'
import { chromiumProgram, launchChromium } from './chromium.ts'
import { emulateMedia, firefoxProgram, launchFirefox } from './firefox.ts'

/** The suite `firefox` sets the variable. */
const chosen = process.env['OSMOSIS_TEST_BROWSER'] || 'chromium'
if (chosen !== 'chromium' && chosen !== 'firefox')
  throw new Error(`OSMOSIS_TEST_BROWSER has to be chromium or firefox, and is ${chosen}.`)
const inFirefox = chosen === 'firefox'

const program = inFirefox ? firefoxProgram : chromiumProgram
const needed = inFirefox ? 'firefox as a package of Debian or Mozilla' : 'chromium'
if (program === undefined) refuseWhereAllIsInstalled(needed)

/** `describe` and `it` of tests that show pages. They are skipped without the browser. */
export const withBrowser = onlyIf(program !== undefined, needed)

/**
 * Starts the browser that the tests run in: Chromium, or the one that the variable OSMOSIS_TEST_BROWSER names.
 *
 * @param fontSize - the size of text that a reader has set in the browser. Pixels
 */
export async function launchBrowser({ fontSize }: { fontSize?: number } = {}): Promise<Browser> {
  if (inFirefox)
    return launchFirefox(fontSize === undefined ? {} : { 'font.size.variable.x-western': fontSize })
  return launchChromium(
    fontSize === undefined ? [] : [`--blink-settings=defaultFontSize=${fontSize}`],
  )
}

/** A page, and what went wrong in it. */
export interface WatchedPage {
  readonly page: Page
  /** Errors, refusals of the policy, dialogs, and requests to elsewhere. */
  readonly problems: string[]
}

/** Opens an address in a context of its own. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  // Less than a test has, so that what was waited for is named.
  context.setDefaultTimeout(30_000)
  const page = await context.newPage()
  const isFirefox = browser.browserType().name() === 'firefox'
  if (isFirefox) await emulateMedia(page, options.hasTouch)
  const problems: string[] = []
  const { origin } = new URL(url)
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text())
  })
  page.on('dialog', (dialog) => {
    problems.push(`dialog ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => {
    const to = new URL(request.url())
    if (to.origin !== origin && to.protocol !== 'data:') problems.push(`asked ${request.url()}`)
  })
  await page.goto(url)
  // The first page of an address gets its own process, which forgets forced colours.
  if (isFirefox) await page.emulateMedia({})
  return { page, problems }
}

/** What axe finds wrong with a page as it is, in words; by these rules, or by all, also the size of targets, which it leaves out by default. */
export async function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  return page.evaluate(`(async () => {
    if (!globalThis.axe) { ${axe.source} }
    const { violations } = await axe.run(document, ${JSON.stringify({
      resultTypes: ['violations'],
      ...(rules === undefined
        ? { rules: { 'target-size': { enabled: true } } }
        : { runOnly: rules }),
    })})
    return violations.flatMap(({ id, nodes }) =>
      nodes.slice(0, 2).map(({ target, failureSummary }) => id + ' ' + target + ' ' + failureSummary))
  })()`)
}

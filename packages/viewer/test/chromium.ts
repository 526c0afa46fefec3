import { existsSync } from 'node:fs'

import { onlyIf, refuseWhereAllIsInstalled } from '../../../test/kit/index.ts'
import axe from 'axe-core'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'

const places = [
  // Of Debian. It draws no window, and needs half the work of the others.
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
]

const executablePath = [process.env['CHROMIUM'] ?? '', ...places].find((file) => existsSync(file))
if (executablePath === undefined) refuseWhereAllIsInstalled('chromium')

/** `describe` and `it` of tests that show pages. They are skipped without Chromium. */
export const withChromium = onlyIf(executablePath !== undefined, 'chromium')

/** Starts the Chromium of the system, or that which the variable CHROMIUM names. */
export async function launchChromium(args: readonly string[] = []): Promise<Browser> {
  // Containers run as root, which Chromium's sandbox refuses.
  return chromium.launch({
    ...(executablePath === undefined ? {} : { executablePath }),
    args: ['--no-sandbox', ...args],
  })
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
  return { page, problems }
}

/** What axe finds wrong with a page as it is, in words; by these rules, or by all, also the size of targets, which it leaves out by default. */
export async function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  // Over the protocol of the debugger: the page's own policy lets no other script in.
  const session = await page.context().newCDPSession(page)
  const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
    expression: `(async () => {
      if (!globalThis.axe) { ${axe.source} }
      const { violations } = await axe.run(document, ${JSON.stringify({
        resultTypes: ['violations'],
        ...(rules === undefined
          ? { rules: { 'target-size': { enabled: true } } }
          : { runOnly: rules }),
      })})
      return violations.flatMap(({ id, nodes }) =>
        nodes.slice(0, 2).map(({ target, failureSummary }) => id + ' ' + target + ' ' + failureSummary))
    })()`,
    awaitPromise: true,
    returnByValue: true,
    allowUnsafeEvalBlockedByCSP: true,
  })
  await session.detach()
  if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails))
  return result.value as string[]
}

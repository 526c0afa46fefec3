import { existsSync } from 'node:fs'

import { chromium, type Browser } from 'playwright-core'

const places = [
  // Of Debian. It draws no window, and needs half the work of the others.
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
]

/** The Chromium of the system, or that which the variable CHROMIUM names. */
export const chromiumProgram = [process.env['CHROMIUM'] ?? '', ...places].find((file) =>
  existsSync(file),
)

export async function launchChromium(args: readonly string[] = []): Promise<Browser> {
  // Containers run as root, which Chromium's sandbox refuses.
  return chromium.launch({
    ...(chromiumProgram === undefined ? {} : { executablePath: chromiumProgram }),
    args: ['--no-sandbox', ...args],
  })
}

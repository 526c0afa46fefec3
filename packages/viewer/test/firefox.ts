import { existsSync } from 'node:fs'

import { firefox, type Browser, type Page } from 'playwright-core'

const places = [
  '/usr/lib/firefox-esr/firefox-esr',
  // Of Mozilla's packages. `/usr/bin/firefox` may start a snap, which sees no profile in a temporary folder.
  '/usr/lib/firefox/firefox',
  '/Applications/Firefox.app/Contents/MacOS/firefox',
  'C:\\Program Files\\Mozilla Firefox\\firefox.exe',
]

/** The Firefox of the system, or that which the variable FIREFOX names. */
export const firefoxProgram = [process.env['FIREFOX'] ?? '', ...places].find((file) =>
  existsSync(file),
)

/** A session of WebDriver BiDi. */
interface Session {
  send: (method: string, parameters: object) => Promise<unknown>
}

/** Starts a Firefox as users have it, with these preferences. Playwright drives it over WebDriver BiDi. */
export async function launchFirefox(preferences: Record<string, number> = {}): Promise<Browser> {
  const browser = await firefox.launch({
    channel: 'moz-firefox',
    ...(firefoxProgram === undefined ? {} : { executablePath: firefoxProgram }),
    // For `emulateMedia`.
    args: ['--remote-allow-system-access'],
    // A mouse, which there is none of without a screen: it is precise and hovers.
    firefoxUserPrefs: {
      'ui.primaryPointerCapabilities': 6,
      'ui.allPointerCapabilities': 6,
      ...preferences,
    },
  })
  const session = behind(browser, '_browserSession') as Session
  const send = session.send.bind(session)
  // A context would not open, because Firefox ESR does not know the command yet.
  session.send = async (method, parameters) =>
    method === 'emulation.setMediaFeaturesOverride' ? {} : send(method, parameters)
  return browser
}

/**
 * Gives `page.emulateMedia` and the options of the page's context an effect. Playwright's own command for it is younger than
 * Firefox ESR, and knows neither print nor forced colours. Firefox's developer tools emulate all of them, as is done here.
 *
 * @param hasTouch - that there is a finger and no mouse
 */
export async function emulateMedia(page: Page, hasTouch = false): Promise<void> {
  const session = behind(page.context().browser(), '_browserSession') as Session
  const delegate = behind(page, 'delegate') as { updateEmulateMedia: () => Promise<void> }
  const tab = Reflect.get(Reflect.get(delegate, '_session') as object, 'sessionId') as string
  const emulated = behind(page, 'emulatedMedia') as () => Readonly<Record<string, string>>
  delegate.updateEmulateMedia = async () => {
    const { media, colorScheme, forcedColors } = Reflect.apply(emulated, behind(page), [])
    const overrides = {
      mediumOverride: media === 'no-override' ? '' : media,
      prefersColorSchemeOverride: colorScheme,
      forcedColorsOverride: forcedColors,
      touchEventsOverride: hasTouch ? 'enabled' : 'none',
    }
    const manager = 'chrome://remote/content/shared/NavigableManager.sys.mjs'
    await inFirefox(
      session,
      `const { NavigableManager } = ChromeUtils.importESModule('${manager}')
      const tab = NavigableManager.getBrowsingContextById(${JSON.stringify(tab)})
      Object.assign(tab, ${JSON.stringify(overrides)})`,
    )
  }
  await delegate.updateEmulateMedia()
}

/** Runs code in a window of Firefox itself, with the rights of its developer tools. */
async function inFirefox(session: Session, code: string): Promise<void> {
  const { contexts } = (await session.send('browsingContext.getTree', {
    'moz:scope': 'chrome',
    maxDepth: 0,
  })) as { contexts: readonly { readonly context: string }[] }
  const answer = (await session.send('script.evaluate', {
    target: { context: contexts[0]?.context },
    expression: `(() => { ${code} })()`,
    awaitPromise: false,
  })) as { type: string; exceptionDetails?: { text: string } }
  if (answer.type === 'success') return
  throw new Error(`Firefox cannot emulate media: ${answer.exceptionDetails?.text ?? answer.type}`)
}

/**
 * The object that Playwright has behind one of its API, or a part of it. Playwright runs in this process.
 *
 * @throws Error when there is none, because another version of Playwright may be built differently
 */
function behind(object: Browser | Page | null, part?: string): object {
  const connection: unknown = object === null ? undefined : Reflect.get(object, '_connection')
  const { toImpl } = (connection ?? {}) as { toImpl?: (object: unknown) => object }
  const whole = toImpl?.(object)
  const found: unknown =
    whole === undefined || part === undefined ? whole : Reflect.get(whole, part)
  if (found instanceof Object) return found
  throw new Error(
    `Expected Playwright to have ${part ?? 'an object'} behind its API, which firefox.ts needs to emulate media. ` +
      'Look how this version of Playwright does it.',
  )
}

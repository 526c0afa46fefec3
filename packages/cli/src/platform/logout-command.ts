import { forgetLogin } from '@osmosis/platform'

import type { ConfirmedFlags } from './auth-commands.ts'
import type { PlatformSession } from './platform-session.ts'

/** Makes the kept login for the platform worthless and forgets it. */
export async function logoutCommand(
  session: PlatformSession,
  flags: ConfirmedFlags,
): Promise<void> {
  const { output, logins: store, settings } = session
  const { url } = settings
  const { file } = store
  const end = (status: string, message: string): void =>
    output.operation({
      status,
      operation: 'auth.logout',
      resource: { platform_url: url },
      message,
    })
  const moved = await file.moveCorrupt()
  if (moved !== undefined) {
    output.warn('CREDENTIALS_MOVED', `${file.path} could not be read; it is ${moved} now.`)
  }
  const login = await file.find(url)
  if (login === undefined) {
    end('noop', `There is no login for ${url}.`)
    return
  }
  output.hide(login.token)
  const who = typeof login.user['email'] === 'string' ? ` of ${login.user['email']}` : ''
  const agreed = await session.confirm(
    { prompt: `Log out of ${url}?`, summary: `The login${who} will be worthless.` },
    flags.yes,
  )
  if (!agreed) {
    end('cancelled', 'Still logged in.')
    return
  }
  await forgetLogin(login, {
    store,
    url,
    clientFor: (token) => session.client(token),
    warn: ({ code, message }) => output.warn(code, message),
  })
  const still = settings.environmentToken === undefined ? '' : ' OSMOSIS_TOKEN is still set.'
  end('success', `Logged out of ${url}.${still}`)
}

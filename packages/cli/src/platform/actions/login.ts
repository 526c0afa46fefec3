import { hostname } from 'node:os'

import { hideKeys, isInteractive } from '../../command/command-context.ts'
import { openBrowser } from '../../command/process.ts'
import { loginByDevice, verifyLogin, type Identity } from '../auth/login-requests.ts'
import type { Scope } from '../client/platform-client.ts'
import { PlatformError, wrongUse } from '../client/platform-error.ts'
import type { PlatformSession } from '../session/platform-session.ts'

/** Logs in, and replaces the stored login for the platform. */
export async function logIn(session: PlatformSession, given: string | undefined): Promise<void> {
  const { output, settings, logins } = session
  const { url, environmentToken } = settings
  hideKeys(given)
  if (environmentToken !== undefined && given === undefined) {
    throw new PlatformError(
      'CONFLICT',
      'OSMOSIS_TOKEN is set and would override the login: unset it, or pass --token.',
    )
  }
  if (output.json && given === undefined) {
    throw new PlatformError('INTERACTIVE_REQUIRED', 'Logging in with --json needs --token.', {
      details: { prompt: 'Log in with a browser', summary: '', notes: [], warnings: [] },
    })
  }
  const earlier = await logins.prepare()
  const login = await obtain(session, given)
  hideKeys(login.token, earlier?.token)
  const tokenStore = await logins.keep(login, earlier, given === undefined)
  const { email, name } = login.user
  output.operation({
    status: 'success',
    operation: 'auth.login',
    resource: {
      email: email ?? null,
      name: name ?? null,
      expires_at: login.expiresAt,
      platform_url: url,
      workspace: null,
      source: given === undefined ? 'device' : 'token',
      verified: true,
      saved: true,
      token_store: tokenStore,
    },
    message: `Logged in to ${url} as ${String(email ?? name)}, until ${login.expiresAt}. The token is in ${tokenStore === 'file' ? logins.file.path : 'the keyring of the system'}.`,
  })
}

async function obtain(
  session: PlatformSession,
  given: string | undefined,
): Promise<Identity & { readonly token: string }> {
  const token = given?.trim()
  if (token === undefined) {
    return loginByDevice(session.client(), {
      deviceName: hostname(),
      signal: session.signal,
      onCode: ({ userCode, url, completeUrl }) => {
        session.output.note(`Open ${url} and enter the code ${userCode}`)
        if (isInteractive() && /^https?:\/\//.test(completeUrl)) openBrowser(completeUrl)
      },
    })
  }
  if (!/^[\x21-\x7E]+$/.test(token)) {
    throw wrongUse(
      'A login token is text of visible ASCII characters, without spaces or line breaks.',
    )
  }
  return { ...(await verifyLogin(session.client(token))), token }
}

/** Revokes the token of the stored login for the platform, and removes it. */
export async function logOut(session: PlatformSession, yes: boolean | undefined): Promise<void> {
  const { output, logins, settings } = session
  const { url } = settings
  const end = (status: string, message: string): void =>
    output.operation({
      status,
      operation: 'auth.logout',
      resource: { platform_url: url },
      message,
    })
  await logins.removeUnreadable()
  const login = await logins.file.find(url)
  if (login === undefined) {
    end('noop', `Not logged in to ${url}.`)
    return
  }
  hideKeys(login.token)
  const who = typeof login.user['email'] === 'string' ? ` of ${login.user['email']}` : ''
  const agreed = await session.confirm(
    { prompt: `Log out of ${url}?`, summary: `This revokes the token of the login${who}.` },
    yes,
  )
  if (!agreed) {
    end('cancelled', 'Still logged in.')
    return
  }
  await logins.forget(login)
  const still = settings.environmentToken === undefined ? '' : ' OSMOSIS_TOKEN is still set.'
  end('success', `Logged out of ${url}.${still}`)
}

/** Shows the user of the login, as the platform knows it. */
export async function whoAmI(session: PlatformSession): Promise<void> {
  const { token, source, stored } = await session.login()
  const { user, expiresAt, workspace } = await verifyLogin(
    session.client(token, await scopeIfAny(session)),
  )
  const saved =
    stored ?? (await session.logins.file.find(session.settings.url).catch(() => undefined))
  const { email = null, name = null, id = null } = user
  session.output.detail({
    account: email ?? id,
    email,
    name,
    expires_at: expiresAt,
    platform_url: session.settings.url,
    source,
    effective_source: source,
    persistent_login: saved !== undefined,
    workspace,
  })
}

/** The workspace is optional: the user is known without it. */
async function scopeIfAny(session: PlatformSession): Promise<Scope | undefined> {
  try {
    const { scope } = await session.workspace()
    return scope
  } catch {
    return undefined
  }
}

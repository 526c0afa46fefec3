import { hostname } from 'node:os'

import {
  keepLogin,
  loginByDevice,
  PlatformError,
  prepareStore,
  verifyLogin,
  type DeviceCode,
  type Identity,
  forgetLogin,
  type Scope,
} from '@osmosis/platform'

import { openBrowser } from '../command/open-browser.ts'
import { isInteractive } from '../command/surroundings.ts'
import type { LoginFlags, LogoutFlags } from './auth.ts'
import type { PlatformSession } from './platform-session.ts'

/** Logs in, and keeps the login for the platform in place of the one there was. */
export async function loginCommand(session: PlatformSession, flags: LoginFlags): Promise<void> {
  const { output, settings, logins: store } = session
  const { url, environmentToken } = settings
  output.hide(flags.token)
  if (environmentToken !== undefined && flags.token === undefined) {
    throw new PlatformError(
      'CONFLICT',
      'OSMOSIS_TOKEN is set and would be used in place of the login: unset it, or pass --token.',
    )
  }
  if (output.json && flags.token === undefined) {
    throw new PlatformError('INTERACTIVE_REQUIRED', 'Logging in with --json needs --token.', {
      details: { prompt: 'Log in with a browser', summary: '', notes: [], warnings: [] },
    })
  }
  const warn = ({ code, message }: { code: string; message: string }): void =>
    output.warn(code, message)
  const earlier = await prepareStore(store, url, warn)
  const login = await obtain(session, flags.token)
  output.hide(login.token, earlier?.token)
  const kept = await keepLogin(
    { ...login, isNew: flags.token === undefined },
    { store, url, earlier, clientFor: (token) => session.client(token), warn },
  )
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
      source: flags.token === undefined ? 'device' : 'token',
      verified: true,
      saved: true,
      token_store: kept,
    },
    message: `Logged in to ${url} as ${String(email ?? name)}, until ${login.expiresAt}. The token is in ${kept === 'file' ? store.file.path : 'the keyring of the system'}.`,
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
      onCode: (code) => showCode(session, code),
    })
  }
  if (!/^[\x21-\x7E]+$/.test(token)) {
    throw new PlatformError(
      'VALIDATION',
      'A login token is text of visible ASCII characters, without spaces or line breaks.',
    )
  }
  return { ...(await verifyLogin(session.client(token))), token }
}

function showCode(session: PlatformSession, { userCode, url, completeUrl }: DeviceCode): void {
  session.output.note(`Open ${url} and enter the code ${userCode}`)
  if (isInteractive() && /^https?:\/\//.test(completeUrl)) openBrowser(completeUrl)
}

/** Makes the kept login for the platform worthless and forgets it. */
export async function logoutCommand(session: PlatformSession, flags: LogoutFlags): Promise<void> {
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

/** Asks the platform who is logged in. */
export async function whoamiCommand(session: PlatformSession): Promise<void> {
  const { token, source, stored } = await session.login()
  const { user, expiresAt, workspace } = await verifyLogin(
    session.client(token, await scopeIfAny(session)),
  )
  const kept =
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
    persistent_login: kept !== undefined,
    workspace,
  })
}

/** Outside of a workspace the question is who, not where. */
async function scopeIfAny(session: PlatformSession): Promise<Scope | undefined> {
  try {
    const { scope } = await session.workspace()
    return scope
  } catch {
    return undefined
  }
}
